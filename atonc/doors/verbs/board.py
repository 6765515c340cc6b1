"""`atonc board`: boards as data, a firmware on the virtual board, one that answers validation clients."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from atonc.doors.verbs.parser import JSON, SHOWN, Command, arg, defaults, single
from atonc.doors.verbs.reply import CommandReply
from atonc.insight.report.document import Chapter, Document
from atonc.machine.base.disk import read_text, write_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.progress import stage

_BOARD = "name of a board, or its .toml"
_CHOICE = "name of a board, or its .toml; SET@BOARD: a pool set other than the default"


def _list(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.texts import board_text
    from atonc.machine.hw.board import board_names, find_board, read_board_file

    boards = [find_board(name) for name in board_names()]
    if options.folder is not None:
        if not options.folder.is_dir():
            raise InputError("there is no such folder", where=str(options.folder))
        boards += [read_board_file(path) for path in sorted(options.folder.glob("*.toml"))]
    return CommandReply("board-list", board_text.listing(boards))


def _show(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.texts import board_text
    from atonc.machine.hw import board as board_file
    from atonc.machine.hw.board import MAX_BYTES

    name = options.board
    if not options.toml:
        return CommandReply("board-show", board_text.document(board_file.find_board(name)))
    if name.endswith(".toml"):
        return CommandReply(raw=read_text(Path(name), MAX_BYTES))
    template = name.lstrip("_") == board_file.TEMPLATE.lstrip("_")
    return CommandReply(
        raw=board_file.board_text(board_file.TEMPLATE if template else board_file.find_board(name).name)
    )


def _mpool(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.boards.mpool_text import mpool_text
    from atonc.machine.hw.board import find_board, split_choice

    return _given(mpool_text(find_board(options.board), split_choice(options.board)[0]), options.output)


def _linker(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.boards.linker_text import linker_text
    from atonc.machine.hw.board import find_board, split_choice

    return _given(linker_text(find_board(options.board), split_choice(options.board)[0]), options.output)


def _import(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.boards.importing import import_board

    return _given(import_board(options.pool_file, options.script, options.name, options.based_on), options.output)


def _given(text: str, output: Path | None) -> CommandReply:
    if output is None:
        return CommandReply(raw=text)
    write_file(output, text.encode())
    return CommandReply(raw=f"wrote {output}\n")


def _check(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.boards.checking import CheckRequest, check
    from atonc.delivery.texts import board_text
    from atonc.machine.hw.board import find_board, split_choice

    if not options.images and not options.mpool and not options.network:
        raise InputError("nothing to check", remedy="name an ELF file, --mpool FILE or --network DIR")
    board, pools = find_board(options.board), split_choice(options.board)[0]
    files = map(tuple, (options.images, options.mpool, options.network))
    found = check(CheckRequest(board, pools, *files))
    return CommandReply("board-check", board_text.checked(found, options.verbose), code=bool(found.wrong))


def _build(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.firmware import wire_firmware

    request = wire_firmware.BuildOptions(tuple(options.folders), int(options.protocol[-1]), options.baud)
    if (options.output is None) == (options.sources is None):
        raise InputError("one of -o FIRMWARE.elf and --sources OUT is wanted")
    if options.sources is not None:
        lines = wire_firmware.write_sources(request, options.sources)
    else:
        lines = wire_firmware.build(request, options.output)
    return CommandReply(document=Document(sections=[Chapter("", lines)]))


def _run(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.texts import board_text
    from atonc.delivery.trials import board_running
    from atonc.machine.emu.board.gdb_server import listening_at

    request = board_running.BoardRun(
        options.firmware,
        tuple(board_running.contents(text) for text in options.flash),
        options.serial,
        None if options.first_stage is None else options.first_stage == "yes",
        options.seconds,
        options.patience * 1_000_000,
        options.registers,
        gdb=None if options.gdb is None else listening_at(options.gdb, options.gdb_remote),
        strict=None if options.chip is None else options.chip == "reset",
        chip_faults=tuple(options.chip_fault),
    )
    output = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        if not options.quiet or not line.startswith("|"):
            print(line, file=output, flush=True)

    told: list[int] = []  # Ctrl-C and termination end the firmware between two stretches, so that it can still be drawn
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: told.append(number))
    served = board_running.run_firmware(request, say, lambda: bool(told))
    return CommandReply("board-run", board_text.served(served), loud=True)


def _try(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    folder = options.output or Path("board_try")
    preflight.check_folder(folder)
    from atonc.delivery.probes.build import DEFAULT_BOARD
    from atonc.delivery.probes.log import PASS, SKIPPED
    from atonc.delivery.texts import try_text
    from atonc.delivery.trying.try_board import SUMMARY, TryOptions, try_board

    chosen = [name for name in ("gdb", "server", "virtual") if getattr(options, name)]
    if len(chosen) > 1:
        raise InputError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    if not options.board and not options.virtual:
        raise InputError(
            "which board is it?",
            where="--board",
            rule="the firmware drives the pin of the board's core regulator and its memories: another board has "
            "something else there",
            remedy="--board stm32n6570-dk, or --board nucleo-n657x0-q",
        )
    output = sys.stderr if options.json else sys.stdout
    told: list[int] = []  # Ctrl-C inside of unicorn would be lost: the virtual board is left between two probes

    def say(name: str, answer: str, number: int) -> None:
        """On a terminal the answers that matter, and how far it is."""
        stage("asking the board", number + 1)
        if told:
            raise KeyboardInterrupt
        if not options.quiet and not (output.isatty() and answer in (PASS, SKIPPED)):
            print(f"{number + 1:4} {name}: {answer}", file=output, flush=True)

    wanted = TryOptions(
        options.board or DEFAULT_BOARD,
        folder,
        firmware=options.firmware,
        gdb=options.gdb,
        server=options.server,
        virtual=options.virtual,
        on_chip=options.on_chip,
        fresh=options.fresh,
        licence=options.record_licence,
    )
    before = signal.signal(signal.SIGINT, lambda number, _: told.append(number)) if options.virtual else None
    try:
        tried = try_board(wanted, say)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    write_file(folder / SUMMARY, try_text.summary_text(tried).encode())
    return CommandReply("board-try", try_text.document(tried, options.verbose))


_WRITTEN = arg("-o", "--output", type=Path, metavar="FILE", help="instead of standard output")
_KINDS = (
    Command(
        "list",
        "the boards that atonc knows",
        _list,
        (arg("folder", nargs="?", type=Path, metavar="DIR", help="also the board files of this folder"), JSON),
        ("atonc board list", "atonc board list my_boards --json"),
    ),
    Command(
        "show",
        "memories, areas, flash map, clocks and pool sets of a board",
        _show,
        (
            arg("board", metavar="BOARD", help=_BOARD),
            arg("--toml", action="store_true", help="the file itself, to copy and change"),
            JSON,
        ),
        ("atonc board show stm32n6570-dk", "atonc board show stm32n6570-dk --toml > mine.toml"),
    ),
    Command(
        "mpool",
        "the memory pools of a board as a file for ST's compiler",
        _mpool,
        (arg("board", metavar="[SET@]BOARD", help=_CHOICE), _WRITTEN),
        ("atonc board mpool stm32n6570-dk -o my.mpool", "atonc board mpool noextmem@stm32n6570-dk"),
    ),
    Command(
        "linker",
        "the linker fragment of a board: regions, and all other ranges as symbols",
        _linker,
        (arg("board", metavar="[SET@]BOARD", help=_CHOICE), _WRITTEN),
        ("atonc board linker stm32n6570-dk -o memories.ld", "atonc board linker mine.toml"),
    ),
    Command(
        "check",
        "overlaps between sections, pools, frame buffers, loader and flash slots",
        _check,
        (
            arg("images", nargs="*", type=Path, metavar="IMAGE.elf", help="the linked firmware"),
            single("board"),
            arg("--mpool", action="append", default=[], type=Path, metavar="FILE", help="pools of a network"),
            arg(
                "--network", action="append", default=[], type=Path, metavar="DIR",
                help="a generated network: what it uses",
            ),
            SHOWN,
        ),
        (
            "atonc board check firmware.elf --network st_ai_output  # overlaps: code 1",
            "atonc board check firmware.elf --board mine.toml --mpool my.mpool",
        ),
    ),
    Command(
        "import",
        "a board file from a pool file and a linker script",
        _import,
        (
            arg("pool_file", type=Path, metavar="FILE.mpool"),
            arg("script", nargs="?", type=Path, metavar="FILE.ld"),
            arg("-n", "--name", default="", help="of the board (default: of the pool file)"),
            arg("--based-on", default="", metavar="BOARD", help="for all that the two files do not say"),
            arg("-o", "--output", type=Path, metavar="FILE.toml", help="instead of standard output"),
        ),
        (
            "atonc board import my.mpool STM32N657xx.ld -o mine.toml",
            "atonc board import my.mpool --based-on stm32n6570-dk",
        ),
    ),
    Command(
        "build",
        "a firmware with compiled networks that answers validation clients",
        _build,
        (
            arg(
                "folders", type=Path, nargs="+", metavar="DIR",
                help="folders of compiled networks, ours or ST's, each with a name of its own",
            ),
            arg("-o", "--output", type=Path, metavar="FIRMWARE.elf", help="for the virtual board"),
            arg(
                "--sources", type=Path, metavar="OUT",
                help="write the C files instead, for a project of a real board (docs/validate-on-board.md)",
            ),
            arg("--protocol", choices=["3.1", "3.2"], default="3.1", help="the version that it announces (3.1)"),
            arg("--baud", type=int, default=921_600, metavar="N", help="speed of the line (921600)"),
            arg("-q", "--quiet", action="store_true", help="only errors"),
        ),
        (
            "atonc board build st_ai_output -o firmware.elf  # for the virtual board",
            "atonc board build st_ai_output --sources my_project",
        ),
    ),
    Command(
        "try",
        "everything that a board can answer, through any debugger: self-test, probes, evidence file, a recording",
        _try,
        (
            single(board="the board on USB, by its name or a .toml; with --virtual stm32n6570-dk if none is named"),
            defaults(board=""),
            arg("--gdb", default="", metavar="HOST:PORT", help="a GDB server that runs already"),
            arg(
                "--server", default="", choices=["stlink", "openocd", "pyocd", "jlink"],
                help="the GDB server to start (default: the first of these that is installed)",
            ),
            arg("--virtual", action="store_true", help="on the virtual board: proves nothing about silicon"),
            arg("--firmware", type=Path, metavar="ELF", help="a probe firmware that is built already"),
            arg("--on-chip", action="store_true", help="leave flash and external RAM as they are"),
            arg("--fresh", action="store_true", help="forget the answers that the folder has"),
            arg(
                "--record-licence", default="", metavar="SPDX",
                help="of the recording, so that others may use it: CC0-1.0",
            ),
            arg("-o", "--output", type=Path, metavar="DIR", help="log, evidence file, recording, summary (board_try)"),
            SHOWN,
        ),
        (
            "atonc board try --board stm32n6570-dk  # on USB, in development mode",
            "atonc board try --board nucleo-n657x0-q --gdb localhost:3333",
            "atonc board try --virtual -o tried  # without a board",
        ),
    ),
    Command(
        "run",
        "run a firmware as it is, its UART on a socket or a pseudo-terminal",
        _run,
        (
            arg("firmware", type=Path, metavar="FIRMWARE.elf"),
            arg(
                "--flash", action="append", default=[], metavar="FILE@ADDRESS[+SKIP]|FILE.hex",
                help="put a file into memory first, without its first SKIP bytes; may be given several times",
            ),
            arg("--serial", default="", metavar="pty[:LINK]|socket:PORT", help="where USART1 can be reached"),
            arg(
                "--first-stage", choices=["yes", "no"],
                help="clocks as a first-stage loader leaves them (default: yes for firmware that runs from flash)",
            ),
            arg(
                "--chip", choices=["reset", "open"],
                help="reset: memories, clocks and bus rights as after reset, the firmware has to switch on what it "
                "uses; open: everything is on (default: reset for firmware that runs from RAM)",
            ),
            arg(
                "--chip-fault", action="append", default=[], metavar="NAME",
                help="plant a fault of the set-up, such as npu_clock_off (docs/virtual_board.md); may be given several "
                "times",
            ),
            arg("--seconds", type=float, metavar="S", help="stop after this many seconds (default: when told to)"),
            arg(
                "--patience", type=int, default=1000, metavar="M",
                help="million instructions without a sign of life (1000)",
            ),
            arg(
                "--gdb", metavar="[HOST]:PORT",
                help="wait for gdb there and run when it says so (port 0: a free one, which is printed)",
            ),
            arg("--gdb-remote", action="store_true", help="allow --gdb on an address that other machines reach"),
            arg("--registers", action="store_true", help="at the end: registers that nothing models"),
            arg("--json", action="store_true", help="how it ended, as one JSON document on standard output"),
            arg("-q", "--quiet", action="store_true", help="do not show what the firmware prints"),
        ),
        (
            "atonc board run firmware.elf --flash network_data.bin@0x70380000",
            "atonc board run firmware.elf --serial pty  # its UART on a pseudo-terminal",
            "atonc board run firmware.elf --gdb :3333  # for gdb-multiarch",
            "atonc board run firmware.elf --chip-fault npu_clock_off  # a forgotten step",
        ),
    ),
)  # fmt: skip
COMMANDS = (Command("board", "boards as data, a firmware checked against them; the virtual board", kinds=_KINDS),)
