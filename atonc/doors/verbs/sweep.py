"""`atonc sweep`: models x sizes x options x boards, or applications, as a table, a page and files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from atonc.doors.verbs.common import add_output_options
from atonc.doors.verbs.documents import document
from atonc.doors.verbs.flags import add_declared, declared_values
from atonc.insight.sweeping.plan import SweepOptions


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "sweep",
        help="models or applications x sizes x options x boards: a table, and a page with what no other row beats",
        description="Compiles every combination that a file names. Rows are kept: an interrupted sweep goes on.",
    )
    parser.set_defaults(verb=_sweep)
    parser.add_argument("file", type=Path, metavar="SWEEP.toml", help="what to combine (docs/sweep.md)")
    add_declared(parser, kind=SweepOptions)
    add_output_options(parser)


def _sweep(options: argparse.Namespace) -> int:
    from atonc.delivery.application.sweeping import sweep
    from atonc.delivery.generate import preflight
    from atonc.insight.report import sweep_text
    from atonc.insight.report.document import lines
    from atonc.insight.report.html import sweep_page
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_files

    wanted = declared_values(SweepOptions, options)
    preflight.check_folder(Path(wanted.output))
    found = sweep(options.file, wanted)
    made = document("sweep", sweep_text.as_json(found))
    files = {
        "sweep.json": json.dumps(made, indent=1).encode(),
        "sweep.csv": sweep_text.as_csv(found).encode(),
        "sweep.html": sweep_page(found),
    }
    written = write_files(Path(wanted.output), files)
    if options.json:
        print(json.dumps(made, indent=1))
    elif not options.quiet:
        show([*lines(sweep_text.document(found)), "", f"written: {', '.join(map(str, written))}"])
    return 0 if len(found.refused) < len(found.results) else 1
