"""`atonc evaluate`: accuracy on a data set, with the chip's numbers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from atonc.doors.verbs.common import add_model_options, compiler_options, model_path
from atonc.doors.verbs.documents import document, file_hash
from atonc.doors.verbs.flags import OUTPUT, add_declared, add_output_options, declared_values, group
from atonc.insight.evaluating.options import EvaluateOptions

FOLDER = Path("evaluation")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("evaluate", help="accuracy on a data set, with the chip's numbers")
    parser.set_defaults(verb=_evaluate)
    add_model_options(parser)
    add_declared(parser, EvaluateOptions)
    shown = group(parser, OUTPUT)
    where = "figures, page, and what an interrupted run has done"
    shown.add_argument("-o", "--output", type=Path, default=FOLDER, metavar="DIR", help=where)
    add_output_options(parser)


def _evaluate(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight
    from atonc.insight.evaluating.run import evaluate
    from atonc.insight.report import evaluate_text
    from atonc.insight.report.html.evaluate_page import page
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_files

    model = model_path(options)
    preflight.check_folder(options.output)
    preflight.check_reader(model)
    wanted = declared_values(EvaluateOptions, options)
    found = evaluate(model, wanted, compiler_options(options, verify=False), options.output)
    text = json.dumps(document("evaluate", found.as_dict(), file_hash(model)), indent=1)
    write_files(options.output, {"evaluation.json": f"{text}\n".encode(), "evaluation.html": page(found)})
    if options.json:
        print(text)
    elif not options.quiet:
        show(evaluate_text.lines(found, str(options.output / "evaluation.html"), options.verbose))
    return 0
