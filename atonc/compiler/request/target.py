"""What the options name: memories of the board or of the user's file, its clocks, who programs its epochs, and inputs
that are typical of the user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from atonc.compiler.ir import Array, Graph
from atonc.compiler.place import BoardMemory, board, read_board
from atonc.compiler.place.pools import movable_outside, not_secure
from atonc.compiler.request.options import ANY_FORM, SEEN, W4_STREAM, Options
from atonc.compiler.schedule import MANY_WRITERS, PREFETCH, TABLES
from atonc.compiler.schedule.passes import ENGINE_KERNELS, resting_on
from atonc.machine.base.errors import InputError
from atonc.machine.hw.board import board_names, find_board
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.safety.evidence import Feature, Grade, Trust
from atonc.machine.hw.safety.evidence.board_file import NO_ANSWERS, BoardEvidence, read_board_evidence
from atonc.machine.hw.safety.evidence.epochs import BY_ENGINES, FETCHES, KEPT, MANY, TABLE
from atonc.machine.hw.safety.evidence.unit_features import NARROW
from atonc.machine.hw.target import Target

# what no published program has, by pass of `--schedule-with` and by form of `--allow-unproven`
ASKED: Mapping[str, Iterable[Feature]] = {
    TABLES: (Feature(TABLE, "ARITH", KEPT),),
    PREFETCH: (*FETCHES, BY_ENGINES),
    ENGINE_KERNELS: (BY_ENGINES,),
    W4_STREAM: (NARROW,),
    MANY_WRITERS: MANY,
}


def memories(options: Options) -> BoardMemory:
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
    from atonc.compiler.emit.c.driver_epochs import driver_words  # with the driver's calls, which take time to import

    return Target(machine, hardware.CPU, driver_words, trust)


def trust_of(options: Options) -> Trust:
    worst = Grade.WITHIN if options.silicon == SEEN else Grade.COMPOSED
    wanted = (*options.schedule_with, *options.unproven)
    asked = frozenset(feature for name in wanted for feature in ASKED.get(name, ()))
    answers = answers_of(options)
    if asked & answers.refuted:
        raise InputError(
            f"the board refuted {', '.join(sorted(map(str, asked & answers.refuted)))}",
            where=options.evidence,
            rule="options ask for configurations not seen in ST programs, not for those that do not work",
            remedy=f"leave out what of {', '.join(wanted)} needs it",
        )
    distrusted = frozenset(options.distrust) | answers.distrusted
    if against := resting_on(options.schedule_with, distrusted):
        raise InputError(
            f"--schedule-with {','.join(against)} relies on an argument that is distrusted",
            where=", ".join(sorted(distrusted)),
            rule="no configuration relies on an argument that the user distrusts or the board disproved",
            remedy="leave out one of both",
        )
    return _trust(worst, frozenset(options.distrust), ANY_FORM in options.unproven, asked, answers)


@lru_cache(maxsize=16)
def _trust(
    worst: Grade, distrusted: frozenset[str], unproven: bool, asked: frozenset[Feature], answers: BoardEvidence
) -> Trust:
    """Always the same object: it remembers its grades."""
    return Trust(worst, distrusted, unproven, asked, answers)


def machine_of(options: Options) -> Machine:
    """The machine of the board with what it measured of itself, at the clocks that the user has if they differ."""
    machine = find_board(options.board).require_npu().machine()
    asked = _asked_clocks(options)  # what the user says counts more than what the board said
    measured = {name: value for name, value in answers_of(options).constants if name not in asked}
    machine = machine.with_measured({name: value * machine.clock_factor(name) for name, value in measured.items()})
    return _known(machine.with_clocks(**asked))


def answers_of(options: Options) -> BoardEvidence:
    """What the board answered to the probes. Boards that ship with atonc take their own answers only; a board file of
    the user takes any, since the firmware for one of the others ran on it."""
    if not options.evidence:
        return NO_ANSWERS
    found, board = read_board_evidence(Path(options.evidence)), find_board(options.board).name
    if board in board_names() and found.board != board:
        raise InputError(
            f"results of {found.board}, but the network is compiled for {board}",
            where=options.evidence,
            rule="configurations and speeds are those of the board that answered",
            remedy=f"--board {found.board}, or run the probes on {board}",
        )
    return found


@lru_cache(maxsize=16)
def _known(machine: Machine) -> Machine:
    """Always the same object for equal machines: what follows from one is remembered by it."""
    return machine


def with_asked_clocks(machine: Machine, options: Options) -> Machine:
    return machine.with_clocks(**_asked_clocks(options))


def _asked_clocks(options: Options) -> dict[str, float]:
    wanted = {"npu_mhz": options.npu_mhz, "cpu_mhz": options.cpu_mhz, "flash_mb_per_s": options.flash_mbps}
    return {name: value for name, value in wanted.items() if value}


MOST_GIVEN = 8  # inputs that are taken into account, spread over all that are there
MOST_VERIFIED = 4  # of these the program is verified on, since each takes as long as a synthetic one


def given_inputs(source: Graph, graph: Graph, files: Sequence[str], most: int = MOST_GIVEN) -> list[dict[str, Array]]:
    """Reads at most so many inputs, in the formats of the canonical graph."""
    if not files:
        return []
    from atonc.compiler.inputs.inputs import (
        edge_values,  # with the readers of files, which most compilations do without
        read_samples,
    )

    samples = read_samples(source, [Path(file) for file in files], None)
    return [edge_values(source, graph, sample) for sample in spread(samples, most)]


T = TypeVar("T")


def spread(samples: Sequence[T], most: int) -> list[T]:
    """The first one, and others at equal distances."""
    count = min(most, len(samples))
    return [samples[k * len(samples) // count] for k in range(count)]
