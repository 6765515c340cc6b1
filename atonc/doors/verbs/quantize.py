"""`atonc quantize`: a float model and samples become an int8 model for the NPU."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import MODEL
from atonc.doors.verbs.common import add_output_options, note
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.flags import OUTPUT, add_declared, group
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import AtoncError, InputError

if TYPE_CHECKING:
    from atonc.insight.explain.types import AccuracyReport
    from atonc.insight.quantizing.types import Quantised, QuantizeOptions


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from atonc.insight.quantizing.types import DATA, QuantizeOptions

    parser = verbs.add_parser(
        "quantize",
        help="a float model as int8, tuned to the NPU",
        description="Calibrates, mends and tunes a float ONNX, TFLite or PyTorch model (docs/quantize.md).",
    )
    parser.set_defaults(verb=_quantize)
    group(parser, MODEL).add_argument("model", type=Path, metavar="MODEL", help="float .onnx, .tflite or .pt2")
    samples = "folder of pictures, or .npz with samples first"
    group(parser, DATA).add_argument("--data", type=Path, required=True, metavar="DIR|FILE.npz", help=samples)
    target = "the int8 model, with QuantizeLinear and DequantizeLinear (default: MODEL_int8.onnx)"
    group(parser, OUTPUT).add_argument("-o", "--output", type=Path, metavar="OUT.onnx", help=target)
    shown = "accuracy against time and flash, loss by layer"
    group(parser, OUTPUT).add_argument("--page", type=Path, metavar="FILE.html", help=shown)
    add_declared(parser, kind=QuantizeOptions)
    add_output_options(parser)


def settings_of(options: argparse.Namespace) -> QuantizeOptions:
    from atonc.insight.quantizing.types import QuantizeOptions
    from atonc.machine.base.declare import declared

    return QuantizeOptions(**{member.name: getattr(options, member.name) for member, _ in declared(QuantizeOptions)})


def _quantize(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    settings = settings_of(options)
    target = options.output or options.model.with_name(f"{options.model.stem}_int8.onnx")
    if target.suffix.lower() != ".onnx":
        raise InputError(f"{target.name} does not end in .onnx", where="-o", rule="the int8 model is an ONNX file")
    if not options.model.is_file():
        raise missing(options.model)
    if target.exists() and target.samefile(options.model):
        raise InputError("would overwrite the float model", where=str(target), remedy="name another file with -o")
    preflight.check_file(target)
    if options.page is not None:
        preflight.check_file(options.page)
    preflight.check_packages("onnx", "onnxruntime", extra="quantize")
    if options.model.suffix.lower() == ".pt2":
        preflight.check_packages("torch", "onnxscript", extra="torch")
    from atonc.insight.quantizing.run import quantize
    from atonc.insight.report import quantize_text
    from atonc.insight.report.document import lines
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_files

    result = quantize(options.model, options.data, settings)
    result.save(target)
    if options.page is not None:
        pages = pages_of(result, (options.model, options.data, target), settings, options.page.name)
        write_files(options.page.parent, pages)
    for line in result.notes:
        note(line, options)
    if options.json:
        print_document("quantize", {**quantize_text.as_json(result), "file": str(target)}, file_hash(options.model))
    elif not options.quiet:
        show(lines(quantize_text.document(result, str(target), options.verbose, str(options.page or ""))))
    return 0


def pages_of(
    result: Quantised, files: tuple[Path, Path, Path], settings: QuantizeOptions, name: str
) -> dict[str, bytes]:
    """The page under that name, and beside it the report of the int8 model; `files`: float model, data, int8 model."""
    from atonc.insight.report.about_text import used_versions
    from atonc.insight.report.quantize_text import QuantizePageParts, page
    from atonc.insight.workers.unit import digest

    model, data, _ = files
    origin = {"float model": result.source, "float model sha256": digest(model)}
    origin |= {"int8 model sha256": hashlib.sha256(result.model).hexdigest()}
    origin |= {"data": data.name, "data sha256": _data_hash(data), "board": settings.board}
    origin |= used_versions("numpy", "onnx", "onnxruntime", "pillow")
    if result.chosen.refusal:
        why = f"the compiler refuses the model: {result.chosen.refusal}"
        return {name: page(result, QuantizePageParts(origin, None, why))}
    report, measured, why = _report(result, files, settings)
    beside = f"{Path(name).stem}_report.html"
    linked = {"What was compiled, layer by layer": beside}
    return {name: page(result, QuantizePageParts(origin, measured, why, linked)), beside: report}


def _report(
    result: Quantised, files: tuple[Path, Path, Path], settings: QuantizeOptions
) -> tuple[bytes, AccuracyReport | None, str]:
    """The page of the compiled int8 model, what its layers lose, or why that is not known."""
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating
    from atonc.insight.accuracy.of_quantised import examine_quantised
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report.html import html_page

    model, data, target = files
    view = generating.analyze(target, Options(verify=False, allow_float=True, board=settings.board))
    network = network_view(replace(view, model=f"{Path(result.source).stem}, int8"))
    try:
        found = replace(examine_quantised(view.compiled, model, data, settings), model=network.model)
    except AtoncError as error:  # the figures of the outputs stand without it
        return html_page(network), None, str(error)
    return html_page(replace(network, accuracy=found)), found, ""


def _data_hash(data: Path) -> str:
    """Hashes the file, or names and contents of all files in the folder."""
    from atonc.insight.workers.unit import digest

    if data.is_file():
        return digest(data)
    found = hashlib.sha256()
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(data).as_posix()} {digest(path)}\n".encode())
    return found.hexdigest()
