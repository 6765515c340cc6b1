"""`atonc board list|show|mpool|linker|check|import`: boards as data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_output_options, add_single
from atonc.insight.report.terminal import show
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.machine.hw.board import Board

_BOARD = "name of a board, or its .toml"
_CHOICE = "name of a board, or its .toml; SET@BOARD: a pool set other than the default"

Kinds = argparse._SubParsersAction  # its type argument is known to checkers only


def add_kinds(kinds: Kinds[argparse.ArgumentParser]) -> None:
    listing = kinds.add_parser("list", help="the boards that atonc knows")
    listing.set_defaults(verb=_list)
    listing.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="also the board files of this folder")
    listing.add_argument("--json", action="store_true", help="one JSON document on standard output")
    show = kinds.add_parser("show", help="memories, areas, flash map, clocks and pool sets of a board")
    show.set_defaults(verb=_show)
    show.add_argument("board", metavar="BOARD", help=_BOARD)
    show.add_argument("--toml", action="store_true", help="the file itself, to copy and change")
    show.add_argument("--json", action="store_true", help="one JSON document on standard output")
    for name, verb, what in (
        ("mpool", _mpool, "the memory pools of a board as a file for ST's compiler"),
        ("linker", _linker, "the linker fragment of a board: regions, and all other ranges as symbols"),
    ):
        writer = kinds.add_parser(name, help=what)
        writer.set_defaults(verb=verb)
        writer.add_argument("board", metavar="[SET@]BOARD", help=_CHOICE)
        writer.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of standard output")
    _add_check(kinds)
    _add_import(kinds)


def _add_check(kinds: Kinds[argparse.ArgumentParser]) -> None:
    check = kinds.add_parser("check", help="overlaps between sections, pools, frame buffers, loader and flash slots")
    check.set_defaults(verb=_check)
    check.add_argument("images", nargs="*", type=Path, metavar="IMAGE.elf", help="the linked firmware")
    add_single(check, "board")
    check.add_argument("--mpool", action="append", default=[], type=Path, metavar="FILE", help="pools of a network")
    check.add_argument(
        "--network", action="append", default=[], type=Path, metavar="DIR", help="a generated network: what it uses"
    )
    add_output_options(check)


def _add_import(kinds: Kinds[argparse.ArgumentParser]) -> None:
    importing = kinds.add_parser("import", help="a board file from a pool file and a linker script")
    importing.set_defaults(verb=_import)
    importing.add_argument("pool_file", type=Path, metavar="FILE.mpool")
    importing.add_argument("script", nargs="?", type=Path, metavar="FILE.ld")
    importing.add_argument("-n", "--name", default="", help="of the board (default: of the pool file)")
    importing.add_argument("--based-on", default="", metavar="BOARD", help="for all that the two files do not say")
    importing.add_argument("-o", "--output", type=Path, metavar="FILE.toml", help="instead of standard output")


def _list(options: argparse.Namespace) -> int:
    from atonc.delivery.texts import board_text
    from atonc.machine.hw.board import board_names, find_board, read_board_file

    boards = [find_board(name) for name in board_names()]
    if options.folder is not None:
        if not options.folder.is_dir():
            raise InputError("there is no such folder", where=str(options.folder))
        boards += [read_board_file(path) for path in sorted(options.folder.glob("*.toml"))]
    if options.json:
        print_document("board-list", {"boards": [board_text.as_dict(board) for board in boards]})
    else:
        show(board_text.list_lines(boards))
    return 0


def _show(options: argparse.Namespace) -> int:
    from atonc.delivery.texts import board_text

    if options.toml:
        print(_text(options.board), end="")
        return 0
    board = _board(options.board)
    if options.json:
        print_document("board-show", board_text.as_dict(board))
    else:
        show(board_text.show_lines(board))
    return 0


def _text(name: str) -> str:
    from atonc.machine.base.disk import read_text
    from atonc.machine.hw import board as board_file
    from atonc.machine.hw.board import MAX_BYTES

    if name.endswith(".toml"):
        return read_text(Path(name), MAX_BYTES)
    template = name.lstrip("_") == board_file.TEMPLATE.lstrip("_")
    return board_file.board_text(board_file.TEMPLATE if template else board_file.find_board(name).name)


def _board(choice: str) -> Board:
    from atonc.machine.hw.board import find_board

    return find_board(choice)


def _mpool(options: argparse.Namespace) -> int:
    from atonc.delivery.boards.mpool_text import mpool_text
    from atonc.machine.hw.board import split_choice

    return _give(mpool_text(_board(options.board), split_choice(options.board)[0]), options.output)


def _linker(options: argparse.Namespace) -> int:
    from atonc.delivery.boards.linker_text import linker_text
    from atonc.machine.hw.board import split_choice

    return _give(linker_text(_board(options.board), split_choice(options.board)[0]), options.output)


def _import(options: argparse.Namespace) -> int:
    from atonc.delivery.boards.importing import import_board

    return _give(import_board(options.pool_file, options.script, options.name, options.based_on), options.output)


def _give(text: str, output: Path | None) -> int:
    if output is None:
        print(text, end="")
    else:
        write_file(output, text.encode())
        print(f"wrote {output}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from atonc.delivery.boards.checking import CheckRequest, check
    from atonc.delivery.texts.board_text import check_lines
    from atonc.machine.hw.board import split_choice

    if not options.images and not options.mpool and not options.network:
        raise InputError("nothing to check", remedy="name an ELF file, --mpool FILE or --network DIR")
    request = CheckRequest(
        _board(options.board),
        split_choice(options.board)[0],
        tuple(options.images),
        tuple(options.mpool),
        tuple(options.network),
    )
    found = check(request)
    if options.json:
        print_document("board-check", found.as_dict())
    elif not options.quiet:
        show(check_lines(found, options.verbose))
    return int(bool(found.wrong))
