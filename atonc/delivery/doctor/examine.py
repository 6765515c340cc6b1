"""Every step from a model to a measured board, with what it needs of this machine."""

from __future__ import annotations

from pathlib import Path

from atonc.delivery.doctor import probes, programs
from atonc.delivery.doctor.packages import packages, python
from atonc.delivery.doctor.types import Diagnosis, DoctorGoal, DoctorItem, DoctorState
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.board import Board, board_names, find_board

STEPS = ("compile", "compare", "virtual-board", "build", "sign", "flash", "measure", "debug", "st")


def examine(board: str, root: Path = Path("/"), ide: Path | None = None) -> Diagnosis:
    """`root`: where the system's files are; `ide`: an installation of STM32CubeIDE."""
    gcc, programmer = _tool(programs.GCC, ide), _tool(programs.PROGRAMMER, ide)
    described, probe = _board(board), probes.probe(root)
    cross = (gcc, programs.newlib(gcc))
    flash = (programmer, _loader(programmer, board), probe)
    steps = (
        DoctorGoal("compile", "compile a model", (python(), *packages(), *packages("models"), described)),
        DoctorGoal("compare", "compare with the models' own kernels", packages("reference")),
        DoctorGoal("virtual-board", "run firmware on the virtual board", (*packages("board"), *cross)),
        DoctorGoal("build", "build firmware", (*cross, _tool(programs.OBJCOPY, ide)), (_make(), _cmake())),
        DoctorGoal("sign", "sign firmware", (_tool(programs.SIGNER, ide),)),
        DoctorGoal("flash", "flash a board", flash),
        DoctorGoal("measure", "measure on a board", (*packages("serial"), probes.port(root))),
        DoctorGoal(
            "debug", "load images for a test", (*flash, _tool(programs.GDB_SERVER, ide), _tool(programs.GDB, ide))
        ),
        DoctorGoal("st", "compare with ST's compiler", (programs.look_for(programs.STEDGEAI),)),
    )
    return Diagnosis(steps, board_names())


def _make() -> DoctorItem:
    return programs.look_for(programs.MAKE)


def _cmake() -> DoctorItem:
    return programs.look_for(programs.CMAKE)


def _tool(program: programs.InstalledProgram, ide: Path | None) -> DoctorItem:
    """Looks for a tool in the installation that the user names, else on the search path."""
    inside = sorted(ide.glob(f"plugins/*/tools/bin/{program.name}")) if ide is not None else []
    return programs.look_for(program, inside[-1] if inside else None)


def _board(name: str) -> DoctorItem:
    try:
        found = find_board(name)
    except AtoncError as error:
        return DoctorItem(f"board {name[:60]}", DoctorState.BROKEN, remedy=str(error))
    return DoctorItem(f"board {found.name}", DoctorState.FOUND, found.title, where=found.file)


def _loader(programmer: DoctorItem, name: str) -> DoctorItem:
    """The programmer writes external flash with a small program for the board, which lies in a folder beside it."""
    try:
        board: Board | None = find_board(name)
    except AtoncError:
        board = None
    if board is None or not board.flash_loader:
        return DoctorItem("external loader", DoctorState.MISSING, remedy="name it in the board file: flash_loader")
    path = Path(programmer.where).resolve().parent / "ExternalLoader" / board.flash_loader if programmer.where else None
    if path is not None and path.is_file():
        return DoctorItem(board.flash_loader, DoctorState.FOUND, where=str(path))
    remedy = "it comes with STM32CubeProgrammer, in the folder ExternalLoader beside it"
    return DoctorItem(board.flash_loader, DoctorState.MISSING, remedy=remedy)
