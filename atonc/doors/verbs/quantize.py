"""`atonc quantize`: a float model and samples become an int8 model for the NPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import MODEL
from atonc.doors.verbs.common import add_output_options, note
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.flags import OUTPUT, add_declared, group
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.quantizing.types import QuantizeOptions


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from atonc.insight.quantizing.types import DATA, QuantizeOptions

    parser = verbs.add_parser(
        "quantize",
        help="a float model as int8, tuned to the NPU",
        description="Calibrates, mends and tunes a float ONNX or TFLite model (docs/quantize.md).",
    )
    parser.set_defaults(verb=_quantize)
    group(parser, MODEL).add_argument("model", type=Path, metavar="MODEL", help="float .onnx or .tflite")
    samples = "folder of pictures, or .npz with samples first"
    group(parser, DATA).add_argument("--data", type=Path, required=True, metavar="DIR|FILE.npz", help=samples)
    target = "the int8 model, with QuantizeLinear and DequantizeLinear (default: MODEL_int8.onnx)"
    group(parser, OUTPUT).add_argument("-o", "--output", type=Path, metavar="OUT.onnx", help=target)
    shown = "accuracy against milliseconds and flash, as plots"
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
    from atonc.insight.quantizing.run import quantize
    from atonc.insight.report import quantize_text
    from atonc.insight.report.html.quantize_page import page
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_file

    result = quantize(options.model, options.data, settings)
    result.save(target)
    if options.page is not None:
        write_file(options.page, page(result))
    for line in result.notes:
        note(line, options)
    if options.json:
        print_document("quantize", {**quantize_text.as_json(result), "file": str(target)}, file_hash(options.model))
    elif not options.quiet:
        show(quantize_text.lines(result, str(target), options.verbose))
    return 0
