"""What the options name: memories of the board or of the user's file, its clocks, and who programs its epochs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from atonc.emit.c.driver_words import driver_words
from atonc.hw.board_file import find_board
from atonc.hw.cycles import hardware
from atonc.hw.cycles.target import Target
from atonc.hw.machine import Machine
from atonc.hw.safety.evidence import Feature, Grade, Trust, copies
from atonc.hw.safety.evidence.epochs import KEPT, TABLE
from atonc.options import SEEN, Options
from atonc.place import Board, board, read_board
from atonc.place.pools import movable_outside, not_secure
from atonc.schedule import PREFETCH, TABLES

# what no published program has, by pass of `--schedule-with`
ASKED = {TABLES: (Feature(TABLE, "ARITH", KEPT),), PREFETCH: copies.FETCHES}


def memories(options: Options) -> Board:
    machine = machine_of(options)
    if options.mpool:
        return replace(read_board(Path(options.mpool), machine), machine=machine)
    found = replace(board(options.board), machine=machine)
    found = found if options.secure else not_secure(found)
    return movable_outside(found) if options.relocatable else found


def target_of(options: Options) -> Target:
    """What every price of a compilation is made with."""
    machine, trust = machine_of(options), trust_of(options)
    if options.epoch_controller:
        return Target(machine, trust=trust)
    return Target(machine, hardware.CPU, driver_words, trust)


def trust_of(options: Options) -> Trust:
    worst = Grade.WITHIN if options.silicon == SEEN else Grade.COMPOSED
    asked = frozenset(feature for name in options.schedule_with for feature in ASKED.get(name, ()))
    return _trust(worst, frozenset(options.distrust), options.allow_unproven, asked)


@lru_cache(maxsize=16)
def _trust(worst: Grade, distrusted: frozenset[str], unproven: bool, asked: frozenset[Feature]) -> Trust:
    """Always the same object: it remembers its grades."""
    return Trust(worst, distrusted, unproven, asked)


def machine_of(options: Options) -> Machine:
    """The machine of the board, at the clocks that the user has if they differ."""
    return _known(with_asked_clocks(find_board(options.board).require_npu().machine(), options))


@lru_cache(maxsize=16)
def _known(machine: Machine) -> Machine:
    """Always the same object for equal machines: what follows from one is remembered by it."""
    return machine


def with_asked_clocks(machine: Machine, options: Options) -> Machine:
    wanted = {"npu_mhz": options.npu_mhz, "cpu_mhz": options.cpu_mhz, "flash_mb_per_s": options.flash_mbps}
    return machine.with_clocks(**{name: value for name, value in wanted.items() if value})
