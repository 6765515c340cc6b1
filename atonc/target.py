"""What the options name of the machine: memories of the board, or of the user's file, and the clocks."""

from __future__ import annotations

from pathlib import Path

from atonc.hw.board_file import find_board
from atonc.hw.machine import Machine
from atonc.options import Options
from atonc.place import Board, board, read_board
from atonc.place.pools import movable_outside, not_secure


def memories(options: Options) -> Board:
    if options.mpool:
        return read_board(Path(options.mpool))
    found = board(options.board)
    found = found if options.secure else not_secure(found)
    return movable_outside(found) if options.relocatable else found


def machine_of(options: Options) -> Machine:
    """The machine of the board, at the clocks that the user has if they differ."""
    return with_asked_clocks(find_board(options.board).require_npu().machine(), options)


def with_asked_clocks(machine: Machine, options: Options) -> Machine:
    wanted = {"npu_mhz": options.npu_mhz, "cpu_mhz": options.cpu_mhz, "flash_mb_per_s": options.flash_mbps}
    return machine.with_clocks(**{name: value for name, value in wanted.items() if value})
