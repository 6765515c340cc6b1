"""What of an epoch rests on little evidence: counted on epochs made by hand."""

from __future__ import annotations

import pytest

from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.doubts import (
    CACHED,
    CPU_WORDS,
    LONG_TURNS,
    OUTSIDE,
    SIDE_BY_SIDE,
    TURNS,
    WORDS,
    convolutions,
    doubts,
)
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from tests.hw.cycles_epochs import COPY, FLASH, HYPER, RAM, RAM2, again, conv, convolution, copy, epoch, raw, write

MACHINE = stm32n6()


def found(one: Epoch, programmed_by: str = hardware.CONTROLLER) -> dict[str, float]:
    priced = hardware.epoch_cycles(one, MACHINE, programmed_by)
    return dict(doubts(one, MACHINE, programmed_by, priced))


def plain(words: int = 100) -> Epoch:
    return convolution(conv(8, 8, 8, 8), raw(RAM, 512), raw(FLASH, 64), raw(RAM2, 512), words)


def two_lanes(linked: bool) -> Epoch:
    """Two convolvers: each with its own writer, or the first one's sums into the second."""
    units = {
        "STRENG0": raw(RAM, 512), "STRENG1": raw(FLASH, 64), "STRENG3": raw(FLASH + 64, 64),
        "CONVACC0": conv(8, 8, 8, 8), "CONVACC1": conv(8, 8, 8, 8), "ARITH0": COPY, "ARITH1": COPY,
        "STRENG2": write(raw(RAM2, 512)), "STRENG4": write(raw(RAM2 + 512, 512)),
    }  # fmt: skip
    links = [
        ("STRENG0", "CONVACC0", 0), ("STRENG0", "CONVACC1", 0), ("STRENG1", "CONVACC0", 1), ("STRENG3", "CONVACC1", 1),
        ("CONVACC1", "ARITH1", 0), ("ARITH1", "STRENG4", 0),
    ]  # fmt: skip
    links += [("CONVACC0", "CONVACC1", 2)] if linked else [("CONVACC0", "ARITH0", 0), ("ARITH0", "STRENG2", 0)]
    return epoch(units, *links, words=200)


def test_words_by_who_programs() -> None:
    assert found(plain()) == {WORDS: 700.0}
    assert set(found(plain(), hardware.CPU)) == {CPU_WORDS}


def test_convolutions_that_pass_sums_on_are_one() -> None:
    assert (convolutions(plain()), convolutions(two_lanes(True)), convolutions(two_lanes(False))) == (1, 1, 2)
    one = two_lanes(False)
    assert found(one)[SIDE_BY_SIDE] == hardware.epoch_cycles(one).cycles - 1400 and SIDE_BY_SIDE not in found(plain())


@pytest.mark.parametrize(("elements", "topic"), [(4, TURNS), (16, LONG_TURNS)])
def test_turns_are_what_they_add(elements: int, topic: str) -> None:
    apart = raw(RAM, elements, 512, continuous=0, frame_offset=2 * elements, frame_repeat=512)
    one = copy(apart, raw(RAM2, elements * 512))
    assert found(one) == {topic: 512 * (36 + 4) - 512 * elements}  # instead of one cycle an element


def test_long_frames_turn_for_nothing() -> None:
    apart = raw(RAM, 64, 32, continuous=0, frame_offset=128, frame_repeat=32)
    assert not {TURNS, LONG_TURNS} & found(copy(apart, raw(RAM2, 64 * 32))).keys()


def test_external_memories() -> None:
    assert OUTSIDE in found(copy(raw(HYPER, 4096), raw(RAM, 4096)))
    cached = again(FLASH, 8, 1, 64, cacheable=1, cache_allocate=1)
    assert CACHED in found(copy(cached, raw(RAM, 8 * 64)))
    assert CACHED not in found(copy(again(FLASH, 8, 1, 64), raw(RAM, 8 * 64)))
