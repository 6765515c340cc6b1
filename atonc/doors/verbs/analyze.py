"""`atonc analyze`: what `generate` would give, without its C files."""

from __future__ import annotations

import argparse

from atonc.doors.verbs import st_verbs
from atonc.doors.verbs.common import add_model_options, compiler_options, model_path
from atonc.doors.verbs.compile_options import AnalyzeOptions
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.generate import add_shown, compile_and_show


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    analyze = verbs.add_parser(
        "analyze",
        help="mapping, memory, latency and verification of a model, without C files",
        description="What `generate` would give, without its C files; -o writes the reports.",
    )
    analyze.set_defaults(verb=_analyze, hex=False, stai=False, shared_kernels=False, runtime="")
    add_model_options(analyze, verify=True)
    add_shown(analyze, AnalyzeOptions)


def _analyze(options: argparse.Namespace) -> int:
    if options.pareto:
        return _pareto(options)
    return compile_and_show(options, st_verbs.folder(options) if options.st else None)


def _pareto(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight
    from atonc.insight.report import sweep_text
    from atonc.insight.report.document import lines
    from atonc.insight.report.html import sweep_page
    from atonc.insight.report.terminal import show
    from atonc.insight.sweeping.row import pareto
    from atonc.machine.base.disk import write_file

    model = model_path(options)
    preflight.check_reader(model)
    preflight.check_file(options.pareto)
    found = pareto(model, compiler_options(options, options.verify), options.pareto.with_suffix(""))
    write_file(options.pareto, sweep_page(found))
    if options.json:
        print_document("pareto", sweep_text.as_json(found), file_hash(model))
    elif not options.quiet:
        show([*lines(sweep_text.document(found)), "", f"written: {options.pareto}"])
    return 0
