"""Models and data sets: `atonc quantize` makes a float model an int8 model for the NPU, `atonc evaluate` gives accuracy
with the chip's numbers, `atonc estimate` what a model would cost, `atonc sweep` tables of models x sizes x options x
boards, or of applications."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import MODEL, Options
from atonc.doors.verbs.compiling import compiler_options, model_options, model_path
from atonc.doors.verbs.parser import OUTPUT, SHOWN, Command, arg, declared_values, flags, single
from atonc.doors.verbs.reply import CommandReply, document, file_hash, note
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.quantizing.types import DATA, QuantizeOptions
from atonc.insight.sweeping.plan import SweepOptions
from atonc.machine.base.disk import missing, write_files
from atonc.machine.base.errors import AtoncError, InputError

if TYPE_CHECKING:
    from atonc.insight.evaluating.run import Evaluation
    from atonc.insight.explain.types import AccuracyReport
    from atonc.insight.quantizing.types import Quantised

EVALUATION = "evaluation.html"


def _quantize(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    settings = declared_values(QuantizeOptions, options)
    target = options.output or options.model.with_name(f"{options.model.stem}_int8.onnx")
    if target.suffix.lower() != ".onnx":
        raise InputError(f"{target.name} does not end in .onnx", where="-o", rule="the int8 model is an ONNX file")
    if not options.model.is_file():
        raise missing(options.model)
    if target.exists() and target.samefile(options.model):
        raise InputError("would overwrite the float model", where=str(target), remedy="name another file with -o")
    preflight.check_file(target)
    preflight.check_file(options.page)
    preflight.check_packages("onnx", "onnxruntime", extra="quantize")
    if options.model.suffix.lower() == ".pt2":
        preflight.check_packages("torch", "onnxscript", extra="torch")
    from atonc.insight.quantizing.run import quantize
    from atonc.insight.report import quantize_text

    result = quantize(options.model, options.data, settings)
    result.save(target)
    if options.page is not None:
        pages = quantized_pages(result, (options.model, options.data, target), settings, options.page.name)
        write_files(options.page.parent, pages)
    for line in result.notes:
        note(line, options)
    document = quantize_text.document(result, str(target), options.verbose, str(options.page or ""))
    if refusal := result.chosen.refusal:  # of all candidates: the file is there to look into
        print(f"atonc: {target}: the compiler refuses the model: {refusal}", file=sys.stderr)
    return CommandReply("quantize", document, file_hash(options.model), code=1 if refusal else 0)


def quantized_pages(
    result: Quantised, files: tuple[Path, Path, Path], settings: QuantizeOptions, name: str
) -> dict[str, bytes]:
    """The page under that name, and beside it the report of the int8 model; `files`: float model, data, int8 model."""
    from atonc.insight.report.about_text import used_versions
    from atonc.insight.report.quantize_text import QuantizePageParts, page
    from atonc.insight.workers.unit import digest

    model, data, _ = files
    if data.is_file():
        data_hash = digest(data)
    else:  # names and contents of all files in the folder
        inside = sorted(path for path in data.rglob("*") if path.is_file())
        listed = "".join(f"{path.relative_to(data).as_posix()} {digest(path)}\n" for path in inside)
        data_hash = hashlib.sha256(listed.encode()).hexdigest()
    origin = {"float model": result.source, "float model sha256": digest(model)}
    origin |= {"int8 model sha256": hashlib.sha256(result.model).hexdigest()}
    origin |= {"data": data.name, "data sha256": data_hash, "board": settings.board}
    origin |= used_versions("numpy", "onnx", "onnxruntime", "pillow")
    if result.chosen.refusal:
        why = f"the compiler refuses the model: {result.chosen.refusal}"
        return {name: page(result, QuantizePageParts(origin, None, why))}
    report, measured, why = _int8_report(result, files, settings)
    beside = f"{Path(name).stem}_report.html"
    linked = {"What was compiled, layer by layer": beside}
    return {name: page(result, QuantizePageParts(origin, measured, why, linked)), beside: report}


def _int8_report(
    result: Quantised, files: tuple[Path, Path, Path], settings: QuantizeOptions
) -> tuple[bytes, AccuracyReport | None, str]:
    """The page of the compiled int8 model, what its layers lose, or why that is not known."""
    from atonc.delivery.generate import generating
    from atonc.insight.accuracy.explain import examine_quantised
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report.html import html_page

    model, data, target = files
    view = generating.analyze(target, Options(verify=False, allow_float=True, board=settings.board))
    network = network_view(replace(view, model=f"{Path(result.source).stem}, int8"))
    try:
        found = replace(examine_quantised(view.compiled, model, data, settings), model=network.model)
    except AtoncError as error:  # the figures of the outputs stand without it
        return html_page(network), None, error.one_line
    return html_page(replace(network, accuracy=found)), found, ""


def _evaluate(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.insight.evaluating.run import evaluate
    from atonc.insight.report import evaluate_text

    model = model_path(options)
    preflight.check_folder(options.output)
    preflight.check_reader(model)
    wanted, compiler = declared_values(EvaluateOptions, options), compiler_options(options)
    found = evaluate(model, wanted, compiler, options.output)
    digest = file_hash(model)
    text = json.dumps(document("evaluate", found.as_dict(), digest), indent=1)
    pages = evaluation_pages(found, model, compiler, options.name)
    write_files(options.output, {"evaluation.json": f"{text}\n".encode(), **pages})
    page = str(options.output / EVALUATION)
    return CommandReply("evaluate", evaluate_text.document(found, page, options.verbose), digest)


def evaluation_pages(found: Evaluation, model: Path, compiler: Options, name: str) -> dict[str, bytes]:
    """The page, and the report of the network that was evaluated, to which it links."""
    from atonc.delivery.generate import generating
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report.about_text import used_versions
    from atonc.insight.report.evaluate_text import page
    from atonc.insight.report.html import html_page

    network = network_view(replace(generating.analyze(model, compiler, name), model=found.model))
    report = generating.page_name(name)
    said = f"What was compiled: {network.latency_ms:.3f} ms predicted, layer by layer"
    about = used_versions("numpy", "onnxruntime", "ai-edge-litert", "pillow")
    return {EVALUATION: page(found, about, {said: report}), report: html_page(network)}


def _estimate(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.estimating.estimate import TAKEN, estimate
    from atonc.insight.report import estimate_text

    found = estimate(options.model, Options(**{name: getattr(options, name) for name in TAKEN}))
    return CommandReply("estimate", estimate_text.document(found, options.verbose), file_hash(options.model))


def _sweep(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.application.comparing import sweep
    from atonc.delivery.generate import preflight
    from atonc.insight.report import sweep_text
    from atonc.insight.report.html import sweep_page

    wanted = declared_values(SweepOptions, options)
    preflight.check_folder(Path(wanted.output))
    found = sweep(options.file, wanted)
    data = sweep_text.as_json(found)
    files = {
        "sweep.json": json.dumps(document("sweep", data), indent=1).encode(),
        "sweep.csv": sweep_text.as_csv(found).encode(),
        "sweep.html": sweep_page(found),
    }
    written = ", ".join(map(str, write_files(Path(wanted.output), files)))
    code = 0 if len(found.refused) < len(found.results) else 1
    return CommandReply("sweep", sweep_text.document(found, written), code=code)


COMMANDS = (
    Command(
        "quantize",
        "a float model as int8, tuned to the NPU",
        _quantize,
        (
            arg("model", title=MODEL, type=Path, metavar="MODEL", help="float .onnx, .tflite or .pt2"),
            arg(
                "--data", title=DATA, type=Path, metavar="DIR|FILE.npz",
                help="folder of images, or .npz with samples first",
            ),
            arg(
                "-o", "--output", title=OUTPUT, type=Path, metavar="OUT.onnx",
                help="the int8 model, with QuantizeLinear and DequantizeLinear (default: MODEL_int8.onnx)",
            ),
            arg(
                "--page", title=OUTPUT, type=Path, metavar="FILE.html",
                help="accuracy against time and flash, loss by layer",
            ),
            flags(QuantizeOptions),
            SHOWN,
        ),
        (
            "atonc quantize float.onnx --data photos --std 255  # scaled to 0..1",
            "atonc quantize float.tflite --data samples.npz --objective speed --json",
        ),
        "Quantises a float ONNX, TFLite or PyTorch model for the NPU (docs/quantize.md).",
    ),
    Command(
        "evaluate",
        "accuracy on a data set, with the chip's numbers",
        _evaluate,
        (
            model_options(),
            flags(EvaluateOptions),
            arg(
                "-o", "--output", title=OUTPUT, type=Path, default=Path("evaluation"), metavar="DIR",
                help="figures, page, and what an interrupted run has done",
            ),
            SHOWN,
        ),
        (
            "atonc evaluate model.tflite --data flowers  # a folder for each class",
            "atonc evaluate int8.onnx --data coco.json --images val --decoder st_yolox",
        ),
    ),
    Command(
        "estimate",
        "what a float or quantised model would cost, with assumed weights and without a search",
        _estimate,
        (
            arg("model", title=MODEL, type=Path, metavar="MODEL", help="float or quantised .onnx or .tflite"),
            single("board", "mpool", "npu_mhz", "cpu_mhz", "flash_mbps", "cut_outputs", "fixed_shapes"),
            SHOWN,
        ),
        (
            "atonc estimate float.onnx  # before it is trained",
            "atonc estimate candidate.tflite --board nucleo-n657x0-q --json",
        ),
        "Estimates latency, RAM, flash and energy of a model in about a second (docs/estimate.md).",
    ),
    Command(
        "sweep",
        "models or applications x sizes x options x boards: a table, and a page with what no other row beats",
        _sweep,
        (
            arg("file", type=Path, metavar="SWEEP.toml", help="what to combine (docs/sweep.md)"),
            flags(SweepOptions),
            SHOWN,
        ),
        (
            "atonc sweep sweep.toml  # every combination that the file names",
            "atonc sweep sweep.toml -o results --scheduler tcp://lab:8786  # with Dask",
        ),
        "Compiles every combination that a file names. Rows are kept: an interrupted sweep goes on.",
    ),
)  # fmt: skip
