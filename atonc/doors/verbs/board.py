"""`atonc board`: boards as data (`boards.py`), a firmware on the virtual board, one that answers validation clients."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from atonc.doors.verbs import boards
from atonc.doors.verbs.documents import print_document
from atonc.insight.report.document import SummaryRow, summary_lines
from atonc.insight.report.terminal import show
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    board = verbs.add_parser("board", help="boards as data, a firmware checked against them; the virtual board")
    kinds = board.add_subparsers(required=True, metavar="WHAT")
    boards.add_kinds(kinds)
    _add_build(kinds)
    run = kinds.add_parser("run", help="run a firmware as it is, its UART on a socket or a pseudo-terminal")
    run.set_defaults(verb=_run)
    run.add_argument("firmware", type=Path, metavar="FIRMWARE.elf")
    run.add_argument(
        "--flash",
        action="append",
        default=[],
        metavar="FILE@ADDRESS[+SKIP]",
        help="put a file into memory first, without its first SKIP bytes; may be given several times",
    )
    run.add_argument("--serial", default="", metavar="pty[:LINK]|socket:PORT", help="where USART1 can be reached")
    run.add_argument(
        "--first-stage",
        choices=["yes", "no"],
        help="clocks as a first-stage loader leaves them (default: yes for firmware that runs from flash)",
    )
    run.add_argument("--seconds", type=float, metavar="S", help="stop after this many seconds (default: when told to)")
    run.add_argument(
        "--patience", type=int, default=1000, metavar="M", help="million instructions without a sign of life (1000)"
    )
    run.add_argument("--registers", action="store_true", help="at the end: registers that nothing models")
    run.add_argument("--json", action="store_true", help="how it ended, as one JSON document on standard output")
    run.add_argument("-q", "--quiet", action="store_true", help="do not show what the firmware prints")


def _add_build(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = kinds.add_parser("build", help="a firmware with compiled networks that answers validation clients")
    build.set_defaults(verb=_build)
    folders = "folders of compiled networks, ours or ST's, each with a name of its own"
    build.add_argument("folders", type=Path, nargs="+", metavar="DIR", help=folders)
    build.add_argument("-o", "--output", type=Path, metavar="FIRMWARE.elf", help="for the virtual board")
    sources = "write the C files instead, for a project of a real board (docs/validate-on-board.md)"
    build.add_argument("--sources", type=Path, metavar="OUT", help=sources)
    build.add_argument("--protocol", choices=["3.1", "3.2"], default="3.1", help="the version that it announces (3.1)")
    build.add_argument("--baud", type=int, default=921_600, metavar="N", help="speed of the line (921600)")
    build.add_argument("-q", "--quiet", action="store_true", help="only errors")


def _build(options: argparse.Namespace) -> int:
    from atonc.delivery.firmware import wire_firmware

    request = wire_firmware.BuildOptions(tuple(options.folders), int(options.protocol[-1]), options.baud)
    if (options.output is None) == (options.sources is None):
        raise InputError("one of -o FIRMWARE.elf and --sources OUT is wanted")
    if options.sources is not None:
        lines = wire_firmware.write_sources(request, options.sources)
    else:
        lines = wire_firmware.build(request, options.output)
    if not options.quiet:
        show(lines)
    return 0


def _run(options: argparse.Namespace) -> int:
    from atonc.delivery.trials import board_running

    request = board_running.BoardRun(
        options.firmware,
        tuple(board_running.contents(text) for text in options.flash),
        options.serial,
        None if options.first_stage is None else options.first_stage == "yes",
        options.seconds,
        options.patience * 1_000_000,
        options.registers,
    )
    output = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        if not options.quiet or not line.startswith("|"):
            print(line, file=output, flush=True)

    served = board_running.run_firmware(request, say, _told_to_stop())
    if options.json:
        print_document("board-run", asdict(served))
    else:
        how = served.reason + (f" {served.number:#x}" if served.reason == "bkpt" else "")
        done = f"{count(served.instructions, 'instruction')}, {count(served.epochs, 'epoch')} of the NPU"
        line = f"{count(served.received, 'byte')} in, {count(served.sent, 'byte')} out"
        rows = (SummaryRow("ended", how), SummaryRow("ran", done), SummaryRow("UART", line))
        show([*served.picture, *summary_lines(rows)])
    return 0


def _told_to_stop() -> Callable[[], bool]:
    """Ctrl-C and termination end the firmware between two stretches, so that the picture can still be drawn."""
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: told.append(number))
    return lambda: bool(told)
