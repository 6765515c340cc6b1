"""Epochs are priced once by what their cycles follow from: all of that is in their outline, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.select import rules
from atonc.compiler.select.cycles import _assumed_starts, _outline, _without_table
from atonc.compiler.select.enumerate import blamed as blame
from atonc.compiler.select.form import RefusedForm
from atonc.machine.hw.units.arith import ArithConfig
from tests.lower import harness

COARSE, ROOM = (RefusedForm(rule, "seen", "limit", "remedy") for rule in (rules.COARSE, rules.SUM_ROOM))
WIDE, LARGE = (RefusedForm(rule, "seen", "limit", "remedy") for rule in (rules.CONV_LINES, rules.CONV_MODE))


def outline(
    elements: int = 64, size: int = 64, kind: BufferKind = BufferKind.ACTIVATION, name: str = "x", near: bool = False
) -> Hashable:
    b = TaskBuilder(("c",), "copy")
    b.write(b.read(name, contiguous(elements)), "y", contiguous(elements, write=True))
    buffers = {name: Buffer(name, size, kind, near=near), "y": Buffer("y", 64, BufferKind.ACTIVATION)}
    return _outline(b.alone().tasks, buffers)


def test_names_make_no_difference_and_all_else_does() -> None:
    assert outline() == outline(name="other")
    others = [outline(elements=32), outline(size=128), outline(kind=BufferKind.CONSTANT), outline(near=True)]
    assert outline() not in others and len(set(others)) == 4


def test_of_a_table_its_length_and_its_numbers_count() -> None:
    rows = [bytes(range(1, 7)), bytes(6)]
    tables = [ArithConfig(table=table) for table in (rows[0], 2 * rows[0], rows[0] + rows[1], bytes(range(2, 8)))]
    outlines = [_without_table(config) for config in tables]
    assert len(set(outlines)) == 3 and outlines[0] == outlines[3], "which numbers makes no difference"
    assert [found[1:] for found in outlines[:3]] == [(6, 1), (12, 2), (12, 1)]


def test_every_buffer_of_an_epoch_is_assumed_in_a_bank_of_its_own() -> None:
    machine = harness.TARGET.machine
    names = [f"b{k}" for k in range(len(machine.npu_ram) + 1)]
    buffers = {name: Buffer(name, 64, BufferKind.ACTIVATION) for name in names}
    found = _assumed_starts([*names, *names], buffers, harness.TARGET)
    banks = [bank.base for bank in machine.npu_ram]
    assert list(found.values()) == [*banks, banks[0]]


@pytest.mark.parametrize(
    ("refusals", "last", "said"),
    [
        ([WIDE, LARGE], False, WIDE),
        ([WIDE, LARGE], True, LARGE),
        ([COARSE, WIDE], False, COARSE),
        ([COARSE, WIDE], True, COARSE),
        ([WIDE, COARSE], False, COARSE),
        ([WIDE, COARSE], True, COARSE),
        ([COARSE, ROOM], False, COARSE),
        ([COARSE, ROOM], True, ROOM),
    ],
)
def test_who_was_possible_is_blamed_before_who_was_not(
    refusals: list[RefusedForm], last: bool, said: RefusedForm
) -> None:
    blamed: RefusedForm | None = None
    for one in refusals:
        blamed = blame(blamed, one, last)
    assert blamed == said
