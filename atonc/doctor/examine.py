"""Every step from a model to a measured board, with what it needs of this machine."""

from __future__ import annotations

from pathlib import Path

from atonc.doctor import probes, programs
from atonc.doctor.packages import packages, python
from atonc.doctor.types import Diagnosis, Item, State, Step
from atonc.errors import AtoncError
from atonc.hw.board import Board
from atonc.hw.board_file import board_names, find_board

STEPS = ("compile", "compare", "virtual-board", "build", "sign", "flash", "measure", "debug", "st")


def examine(board: str, root: Path = Path("/"), ide: Path | None = None) -> Diagnosis:
    """`root`: where the system's files are; `ide`: an installation of STM32CubeIDE."""
    gcc, programmer = _tool(programs.GCC, ide), _tool(programs.PROGRAMMER, ide)
    described, probe = _board(board), probes.probe(root)
    cross = (gcc, programs.newlib(gcc))
    flash = (programmer, _loader(programmer, board), probe)
    steps = (
        Step("compile", "compile a model", (python(), *packages(), *packages("models"), described)),
        Step("compare", "compare with the models' own kernels", packages("reference")),
        Step("virtual-board", "run firmware on the virtual board", (*packages("board"), *cross)),
        Step("build", "build firmware", (*cross, _tool(programs.OBJCOPY, ide)), (_make(), _cmake())),
        Step("sign", "sign firmware", (_tool(programs.SIGNER, ide),)),
        Step("flash", "flash a board", flash),
        Step("measure", "measure on a board", (*packages("serial"), probes.port(root))),
        Step("debug", "load images for a test", (*flash, _tool(programs.GDB_SERVER, ide), _tool(programs.GDB, ide))),
        Step("st", "compare with ST's compiler", (programs.look_for(programs.STEDGEAI),)),
    )
    return Diagnosis(steps, board_names())


def _make() -> Item:
    return programs.look_for(programs.MAKE)


def _cmake() -> Item:
    return programs.look_for(programs.CMAKE)


def _tool(program: programs.Program, ide: Path | None) -> Item:
    """Looks for a tool in the installation that the user names, else on the search path."""
    inside = sorted(ide.glob(f"plugins/*/tools/bin/{program.name}")) if ide is not None else []
    return programs.look_for(program, inside[-1] if inside else None)


def _board(name: str) -> Item:
    try:
        found = find_board(name)
    except AtoncError as error:
        return Item(f"board {name[:60]}", State.BROKEN, remedy=str(error))
    return Item(f"board {found.name}", State.FOUND, found.title, where=found.file)


def _loader(programmer: Item, name: str) -> Item:
    """The programmer writes external flash with a small program for the board, which lies in a folder beside it."""
    try:
        board: Board | None = find_board(name)
    except AtoncError:
        board = None
    if board is None or not board.flash_loader:
        return Item("external loader", State.MISSING, remedy="name it in the board file: flash_loader")
    path = Path(programmer.where).resolve().parent / "ExternalLoader" / board.flash_loader if programmer.where else None
    if path is not None and path.is_file():
        return Item(board.flash_loader, State.FOUND, where=str(path))
    remedy = "it comes with STM32CubeProgrammer, in the folder ExternalLoader beside it"
    return Item(board.flash_loader, State.MISSING, remedy=remedy)
