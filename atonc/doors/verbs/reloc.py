"""Relocatable images: `atonc reloc` makes one that an application loads at run time of a compiled network (options as
in npu_driver.py), `atonc load-and-run` runs one on a board, virtual or real (options as in st_load_and_run.py)."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.delivery.reloc.options import RelocOptions
from atonc.doors.verbs.parser import SHOWN, Command, arg, declared_values, flags, single
from atonc.doors.verbs.reply import CommandReply, note
from atonc.insight.report.document import Chapter, Document, block_lines, lines
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from atonc.delivery.trials.loading import Loaded, LoadPlan

_CLANG = ("--llvm", "--st-clang", "--compatible-mode", "--custom")
RELOC_LOG, LOAD_LOG = "atonc_reloc.log", "atonc_load_and_run.log"
DEFAULT_ADDRESS = "0x71000000,0x71800000"


def _reloc(options: argparse.Namespace) -> CommandReply:
    options.quiet = options.quiet or options.verbosity == 0
    options.verbose = options.verbose or options.debug or options.verbosity == 2
    clang = [flag for flag in _CLANG if getattr(options, flag[2:].replace("-", "_"))]
    if clang:
        raise UnsupportedError(f"{', '.join(clang)}: images are built with GCC only", remedy="leave it out")
    if options.inspect is not None:
        return _inspect(options)
    from atonc.delivery.generate import preflight
    from atonc.delivery.reloc.build import prepare
    from atonc.delivery.reloc.image import checks
    from atonc.delivery.texts import reloc_text
    from atonc.delivery.trials import relocating

    folder = Path(options.positional or options.input or "st_ai_output")
    if not options.parse_only:
        preflight.check_folder(options.output)
    if options.positional and options.input and options.positional != options.input:
        raise InputError("two folders given", remedy="name one, as an argument or with -i")
    wanted = relocating.with_pack(declared_values(RelocOptions, options), options.pack_dir)
    if options.parse_only:
        return CommandReply(document=_logged(reloc_text.parsed(folder, prepare(folder, wanted)), options.log))
    done = relocating.relocate(
        *(folder, options.output, wanted),
        gen_c_file=options.gen_c_file,
        keep_in=options.output if options.no_clean or options.debug else None,
        prefix=options.cross_compile,
    )
    image = done.built.image
    document = reloc_text.document(image, checks(image, done.built.params or None), done.files, options.verbose)
    return CommandReply("reloc", _logged(document, None if options.json else options.log))


def _inspect(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.reloc.image import checks
    from atonc.delivery.texts import reloc_text
    from atonc.delivery.trials import relocating

    image, start = relocating.read_image_file(options.inspect, options.at)
    found = checks(image, relocating.params_beside(options.inspect, image))
    if start and options.at is None and not options.json:
        note(f"the image begins at {start:#x} of the file", options)
    document = reloc_text.inspected(image, found, start, options.verbose)
    _logged(document, None if options.json else options.log)
    return CommandReply("reloc-inspect", document, code=1 if any(check.good is False for check in found) else 0)


def _logged(document: Document, log: str | None) -> Document:
    """Its text also in a file where that is asked for."""
    if log:
        write_file(Path(log), ("\n".join(lines(document)) + "\n").encode())
    return document


# -------------------------------------------------------------------------------------------------------- load-and-run


class _RunOutput:
    """Lines for the user, and for the log."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.silent = options.quiet or options.verbosity == 0 or options.json
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        self.lines += lines
        if not self.silent:
            print("\n".join(lines), flush=True)


def _load(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.delivery.recordings import making, store
    from atonc.delivery.recordings.store import Statement
    from atonc.delivery.texts import load_text
    from atonc.delivery.trials import loading
    from atonc.insight.runs import runs

    output = _RunOutput(options)
    image, inputs = loading.sorted_files(options.positional, options.input)
    for file in (options.output, options.record):
        preflight.check_file(file)
    plan = loading.plan(image, options.mode, options.address)
    output.say(*block_lines([load_text.plan_terms(plan)]), "")
    loaded, document = None, Document()
    if options.real or options.dry_run:
        loaded = _real(plan, inputs, options, output)
    elif "no-run" not in plan.words:
        loaded = loading.run_virtual(plan, options.seed, inputs)
    if loaded is not None:
        if options.output:
            runs.save_arrays(options.output, loaded.arrays)
        if options.record:
            store.write(
                options.record, making.of_image(loaded, Statement(options.record_board, options.record_licence))
            )
        document = load_text.document(loaded)
        output.say(*lines(document))
    _logged(Document(sections=[Chapter("", output.lines)]), options.log)
    return CommandReply("load-and-run", replace(document, sections=()))  # said already


def _real(plan: LoadPlan, inputs: tuple[Path, ...], options: argparse.Namespace, output: _RunOutput) -> Loaded | None:
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
        return None
    real_board.require([*missing, *absent])
    total = len(steps) + ("no-run" not in plan.words)
    real_board.run(steps, output.say, total)
    if "no-run" in plan.words:
        output.say(f"The firmware runs. Talk to it: atonc validate MODEL --mode target -d {line}")
        return None
    output.say(f"[{total}/{total}] run it through {line}", "")
    return loading.run_on_board(plan, open_link(line), options.seed, inputs)


_NO_COLOUR = arg("--no-color", action="store_true", help=argparse.SUPPRESS)  # nothing here is coloured
COMMANDS = (
    Command(
        "reloc",
        "a compiled network as a relocatable image",
        _reloc,
        (
            arg("positional", nargs="?", type=Path, metavar="DIR", help="folder of generated files"),
            arg("-i", "--input", type=Path, metavar="DIR", help="the same as an option (or its network.c)"),
            arg("-o", "--output", type=Path, default=Path("build"), metavar="DIR", help="default build"),
            arg("--inspect", type=Path, metavar="FILE", help="header, sections, relocations, pools, checks"),
            arg(
                "--at", type=lambda text: int(text, 0), metavar="OFFSET", help="with --inspect: where it begins"
            ),
            flags(RelocOptions),
            arg("--gen-c-file", action="store_true", help="also NAME_rel.c and .h: the image as an array"),
            arg("--parse-only", action="store_true", help="read and check the generated files, build nothing"),
            arg("--no-clean", action="store_true", help="keep the intermediate files in the output folder"),
            arg("--pack-dir", type=Path, metavar="DIR", help="ST Edge AI Core, to read that release from"),
            arg("--cross-compile", default="", metavar="PREFIX", help="of the compiler, as arm-none-eabi-"),
            arg("--log", nargs="?", const=RELOC_LOG, metavar="FILE", help=f"also write the text ({RELOC_LOG})"),
            arg("--verbosity", type=int, choices=range(3), default=1, help="0: only errors, 2: more"),
            arg("--debug", action="store_true", help="the same as --verbosity 2 --no-clean"),
            _NO_COLOUR,
            *(arg(name, action="store_true", help=argparse.SUPPRESS) for name in _CLANG[:3]),
            arg(_CLANG[3], nargs="?", const="custom.json", help=argparse.SUPPRESS),
            SHOWN,
        ),
        (
            "atonc reloc st_ai_output -o build --split",
            "atonc reloc --inspect build/network_rel.bin  # header, sections, checks",
        ),
        "Makes a relocatable image of the network in a folder that `atonc generate -r` or ST's tool wrote: "
        "NAME_rel.bin, with --split also NAME_rel_params.bin. With --inspect it shows what is in an image.",
    ),
    Command(
        "load-and-run",
        "a relocatable image on the virtual or a real board",
        _load,
        (
            arg("positional", nargs="?", type=Path, metavar="FILE", help="NAME_rel.bin"),
            arg(
                "-i", "--input", type=Path, action="append", default=[], metavar="FILE",
                help="the image as an option (build/network_rel.bin), or inputs for it: .npz, .npy, .csv, .png, .jpg",
            ),
            arg("--output", type=Path, metavar="FILE.npz", help="write the outputs"),
            arg(
                "--record", type=Path, metavar="FILE.npz",
                help="write inputs, outputs, times and versions, so that others can check them",
            ),
            arg("--record-board", default="", metavar="NAME", help="with --record: what it ran on"),
            arg("--record-licence", default="", metavar="SPDX", help="with --record: such as CC0-1.0"),
            single("board", "seed"),
            arg("--address", default=DEFAULT_ADDRESS, metavar="NET[,PARAMS]", help=f"default {DEFAULT_ADDRESS}"),
            arg(
                "--mode", default="copy", metavar="WORDS",
                help="copy or xip, and ext, no-flash, no-run, usbc, max-speed (default copy)",
            ),
            arg("--real", action="store_true", help="a board that is connected here"),
            arg("--dry-run", action="store_true", help="with --real: show every step, run nothing"),
            arg("--cube-ide-dir", type=Path, metavar="DIR", help="STM32CubeIDE (or STM32_CUBE_IDE_DIR)"),
            arg("--pack-dir", type=Path, metavar="DIR", help="ST Edge AI Core, for its validation firmware"),
            arg("--firmware", type=Path, metavar="FILE.elf", help="that firmware itself"),
            arg(
                "--serial", metavar="LINE", help="with --real, the board's line: "
                "serial[:PORT][:BAUD] or socket:HOST:PORT (default: found by itself)",
            ),
            arg("--log", nargs="?", const=LOAD_LOG, metavar="FILE", help=f"also write the text ({LOAD_LOG})"),
            arg("--verbosity", type=int, choices=range(3), default=1, help="0: only errors"),
            arg("--debug", action="store_true", help=argparse.SUPPRESS),
            _NO_COLOUR,
            SHOWN,
        ),
        (
            "atonc load-and-run build/network_rel.bin  # on the virtual board",
            "atonc load-and-run build/network_rel.bin --real --dry-run",
        ),
        "Installs a relocatable image and runs it: on the virtual board with our loader (default), or on a "
        "real board with ST's programmer and validation firmware (--real).",
    ),
)  # fmt: skip
