"""`atonc evaluate`: accuracy on a data set, with the chip's numbers."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.common import add_model_options, compiler_options, model_path
from atonc.doors.verbs.documents import document, file_hash
from atonc.doors.verbs.flags import OUTPUT, add_declared, add_output_options, declared_values, group
from atonc.insight.evaluating.options import EvaluateOptions

if TYPE_CHECKING:
    from atonc.compiler.request.options import Options
    from atonc.insight.evaluating.run import Evaluation

FOLDER = Path("evaluation")
PAGE = "evaluation.html"


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
    from atonc.insight.report.document import lines
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_files

    model = model_path(options)
    preflight.check_folder(options.output)
    preflight.check_reader(model)
    wanted = declared_values(EvaluateOptions, options)
    compiler = compiler_options(options, verify=False)
    found = evaluate(model, wanted, compiler, options.output)
    text = json.dumps(document("evaluate", found.as_dict(), file_hash(model)), indent=1)
    pages = pages_of(found, model, compiler, options.name)
    write_files(options.output, {"evaluation.json": f"{text}\n".encode(), **pages})
    if options.json:
        print(text)
    elif not options.quiet:
        show(lines(evaluate_text.document(found, str(options.output / PAGE), options.verbose)))
    return 0


def pages_of(found: Evaluation, model: Path, compiler: Options, name: str) -> dict[str, bytes]:
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
    return {PAGE: page(found, about, {said: report}), report: html_page(network)}
