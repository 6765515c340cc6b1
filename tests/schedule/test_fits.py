"""Whether an epoch has room for a task: engines, units, readers and writers, each up to its limit."""

from __future__ import annotations

from collections import Counter

import pytest

from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import ENGINE, Task
from atonc.compiler.schedule.pack import apart, fits, units_of
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS, UNITS

MOST = UNITS[ENGINE]


def summing() -> Task:
    """Two readers, a writer; nothing in between."""
    b = TaskBuilder(("c",), "c")
    b.read("other", contiguous(64))
    b.write(b.read("source", contiguous(64)), "target", contiguous(64, write=True))
    return b.alone().tasks[0]


def test_readers_and_writers_are_counted_apart() -> None:
    found = units_of(summing())
    assert (found[ENGINE], found["readers"], found["writers"]) == (3, 2, 1)


def test_every_engine_may_be_used() -> None:
    assert fits(Counter({ENGINE: 3}), Counter({ENGINE: MOST - 3}))
    assert not fits(Counter({ENGINE: 3}), Counter({ENGINE: MOST - 2}))


def test_engines_that_shall_be_spared_are_left() -> None:
    assert fits(Counter({ENGINE: 3}), Counter({ENGINE: MOST - 5}), spare=2)
    assert not fits(Counter({ENGINE: 3}), Counter({ENGINE: MOST - 4}), spare=2)


LIMITS = {"readers": MOST_READERS, "writers": MOST_WRITERS, "CONVACC": UNITS["CONVACC"]}


@pytest.mark.parametrize(("kind", "most"), LIMITS.items())
def test_no_kind_is_used_more_often_than_there_is_of_it(kind: str, most: int) -> None:
    assert fits(Counter({kind: 1}), Counter({kind: most - 1})) and not fits(Counter({kind: 1}), Counter({kind: most}))


def test_two_writers_of_a_word_are_not_apart() -> None:
    assert not apart(summing(), summing())
