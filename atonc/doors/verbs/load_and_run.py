"""`atonc load-and-run`: a relocatable image on a board, virtual or real. Options as in st_load_and_run.py."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_output_options, add_single
from atonc.machine.base.disk import write_file

if TYPE_CHECKING:
    from atonc.delivery.trials.loading import Loaded, LoadPlan

LOG_FILE = "atonc_load_and_run.log"
DEFAULT_ADDRESS = "0x71000000,0x71800000"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    load = verbs.add_parser(
        "load-and-run",
        help="a relocatable image on the virtual or a real board",
        description="Installs a relocatable image and runs it: on the virtual board with our loader (default), or on a "
        "real board with ST's programmer and validation firmware (--real).",
    )
    load.set_defaults(verb=_load)
    load.add_argument("positional", nargs="?", type=Path, metavar="FILE", help="NAME_rel.bin")
    inputs = "the image as an option (build/network_rel.bin), or inputs for it: .npz, .npy, .csv, .png, .jpg"
    load.add_argument("-i", "--input", type=Path, action="append", default=[], metavar="FILE", help=inputs)
    load.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs")
    record = "write inputs, outputs, times and versions, so that others can check them"
    load.add_argument("--record", type=Path, metavar="FILE.npz", help=record)
    load.add_argument("--record-board", default="", metavar="NAME", help="with --record: what it ran on")
    load.add_argument("--record-licence", default="", metavar="SPDX", help="with --record: such as CC0-1.0")
    add_single(load, "board", "seed")
    load.add_argument("--address", default=DEFAULT_ADDRESS, metavar="NET[,PARAMS]", help=f"default {DEFAULT_ADDRESS}")
    modes = "copy or xip, and ext, no-flash, no-run, usbc, max-speed (default copy)"
    load.add_argument("--mode", default="copy", metavar="WORDS", help=modes)
    load.add_argument("--real", action="store_true", help="a board that is connected here")
    load.add_argument("--dry-run", action="store_true", help="with --real: show every step, run nothing")
    load.add_argument("--cube-ide-dir", type=Path, metavar="DIR", help="STM32CubeIDE (or STM32_CUBE_IDE_DIR)")
    load.add_argument("--pack-dir", type=Path, metavar="DIR", help="ST Edge AI Core, for its validation firmware")
    load.add_argument("--firmware", type=Path, metavar="FILE.elf", help="that firmware itself")
    line = "serial[:PORT][:BAUD] or socket:HOST:PORT"
    load.add_argument(
        "--serial", metavar="LINE", help=f"with --real, the board's line: {line} (default: found by itself)"
    )
    load.add_argument("--log", nargs="?", const=LOG_FILE, metavar="FILE", help=f"also write the text ({LOG_FILE})")
    load.add_argument("--verbosity", type=int, choices=range(3), default=1, help="0: only errors")
    load.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    load.add_argument("--no-color", action="store_true", help=argparse.SUPPRESS)  # nothing here is coloured
    add_output_options(load)


class _RunOutput:
    """Lines for the user, and for the log."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.silent = options.quiet or options.verbosity == 0 or options.json
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        self.lines += lines
        if not self.silent:
            print("\n".join(lines), flush=True)


def _load(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight
    from atonc.delivery.texts import load_text
    from atonc.delivery.trials import loading

    output = _RunOutput(options)
    image, inputs = loading.sorted_files(options.positional, options.input)
    for file in (options.output, options.record):
        preflight.check_file(file)
    plan = loading.plan(image, options.mode, options.address)
    output.say(*load_text.plan_lines(plan), "")
    if options.real or options.dry_run:
        _real(plan, inputs, options, output)
    elif "no-run" not in plan.words:
        _show(loading.run_virtual(plan, options.seed, inputs), options, output)
    if options.log:
        write_file(Path(options.log), ("\n".join(output.lines) + "\n").encode())
    return 0


def _show(loaded: Loaded, options: argparse.Namespace, output: _RunOutput) -> None:
    from atonc.delivery.texts import load_text
    from atonc.insight.runs import runs

    if options.output:
        runs.save_arrays(options.output, loaded.arrays)
    if options.record:
        from atonc.delivery.recordings import making, store
        from atonc.delivery.recordings.store import Statement

        store.write(options.record, making.of_image(loaded, Statement(options.record_board, options.record_licence)))
    output.say(*load_text.run_lines(loaded))
    if options.json:
        print_document("load-and-run", load_text.as_json(loaded))


def _real(plan: LoadPlan, inputs: tuple[Path, ...], options: argparse.Namespace, output: _RunOutput) -> None:
    from atonc.delivery.trials import loading, real_board
    from atonc.delivery.wire.links import open_link

    tools, missing = real_board.find_tools(real_board.cube_ide(options.cube_ide_dir))
    firmware, absent = real_board.validation_firmware(plan, options.board, options.firmware, options.pack_dir)
    steps = list(real_board.steps(plan, tools, firmware, options.board))
    speed = "" if "usbc" in plan.words else ":5529600" if "max-speed" in plan.words else ":921600"
    line = options.serial or f"serial:{speed}".rstrip(":")
    if options.dry_run:
        output.say(*(f"[{k}] {step.what}\n    {shlex.join(step.command)}" for k, step in enumerate(steps, 1)))
        if "no-run" not in plan.words:
            output.say(
                f"[{len(steps) + 1}] run it through {line}: {loading.INFERENCES} inferences, times of every epoch"
            )
        output.say(*(f"missing: {sentence}" for sentence in (*missing, *absent)))
        return
    real_board.require([*missing, *absent])
    total = len(steps) + ("no-run" not in plan.words)
    real_board.run(steps, output.say, total)
    if "no-run" in plan.words:
        output.say(f"The firmware runs. Talk to it: atonc validate MODEL --mode target -d {line}")
        return
    output.say(f"[{total}/{total}] run it through {line}", "")
    loaded = loading.run_on_board(plan, open_link(line), options.seed, inputs)
    _show(loaded, options, output)
