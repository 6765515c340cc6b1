"""`atonc doctor`: tools, packages, boards, probes and permissions of this machine."""

from __future__ import annotations

import argparse

from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_output_options, add_single
from atonc.machine.base.errors import InputError, ToolError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="what this machine has and lacks for each step, and how to get it",
        description="Exit code 0: the steps asked for are ready (without --for: compiling is); 4: something lacks.",
    )
    parser.set_defaults(verb=_doctor)
    add_single(parser, "board")
    parser.add_argument(
        "--for", dest="steps", action="append", default=[], metavar="STEP", help="this step must be ready (repeatable)"
    )
    add_output_options(parser)


def _doctor(options: argparse.Namespace) -> int:
    from atonc.delivery.doctor.diagnosis import STEPS, examine
    from atonc.delivery.texts.doctor_text import lines
    from atonc.delivery.trials.real_board import cube_ide
    from atonc.insight.report.terminal import show

    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        raise InputError(f"{unknown[0][:40]!r} is no step", where="--for", rule=f"steps: {', '.join(STEPS)}")
    found = examine(options.board, ide=cube_ide(None))
    if options.json:
        print_document("doctor", found.as_dict())
    elif not options.quiet:
        show(lines(found, options.verbose))
    wanted = options.steps or ["compile"]
    return 0 if all(step.ready for step in found.steps if step.key in wanted) else ToolError.exit_code
