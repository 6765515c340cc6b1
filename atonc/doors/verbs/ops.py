"""`atonc ops` (also `supported-ops`): where operators run and which rules decide."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs import st_options
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import OUTPUT, add_output_options, group
from atonc.doors.verbs.st_options import add_foreign
from atonc.insight.report.terminal import show
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.words import instead

REPORT = "supported_ops.md"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("ops", aliases=["supported-ops"], help="the operator table, from the compiler's rules")
    parser.set_defaults(verb=_ops)
    parser.add_argument("op", nargs="?", metavar="OP", help="one operator with all its rules; conv, CONV_2D or Gemm")
    kinds = "list what the reader of this format takes, as the format calls it"
    parser.add_argument("--type", "-t", choices=["tflite", "onnx", "keras"], help=kinds)
    report = f"write the table as markdown into {REPORT}"
    group(parser, OUTPUT).add_argument("--with-report", action="store_true", help=report)
    group(parser, OUTPUT).add_argument("-o", "--output", type=Path, default=Path("."), metavar="DIR", help="for that")
    add_foreign(parser, st_options.OPS)
    add_output_options(parser)


def _ops(options: argparse.Namespace) -> int:
    from atonc.insight.explain.operators import composed, kind_named, operator_table
    from atonc.insight.report import about_text

    if options.type:
        return _list_sources(options)
    table = operator_table()
    if options.with_report:
        write_files(options.output, {REPORT: "\n".join(about_text.operator_markdown(table)).encode()})
    if options.op:
        found = [info for info in table if info.kind == kind_named(options.op)]
        if not found and (several := composed(options.op)):
            found = [several]
        if not found:
            remedy = instead(options.op.lower(), [info.kind for info in operator_table()])
            raise InputError(f"no operator is called {options.op[:60]!r}, or it is not supported", remedy=remedy)
        table = tuple(found)
    if options.json:
        print_document("ops", {"operators": about_text.operator_data(table)})
    elif not options.quiet:
        show(about_text.operator_lines(table, options.verbose or bool(options.op)))
    return 0


def _list_sources(options: argparse.Namespace) -> int:
    from atonc.insight.explain.operators import source_operators

    if options.type == "keras":
        raise UnsupportedError("Keras models are not read", where="--type", remedy="export the model as TFLite")
    title = {"tflite": "TFLite", "onnx": "ONNX"}[options.type]
    names = source_operators()[title]
    if options.with_report:
        text = "\n".join([f"# {len(names)} operators of {title}", "", *(f"- {name}" for name in names), ""])
        write_files(options.output, {REPORT: text.encode()})
    if options.json:
        print_document("ops-list", {"type": options.type, "operators": list(names)})
    elif not options.quiet:
        show([f"{len(names)} operators found", ", ".join(names)])
    return 0
