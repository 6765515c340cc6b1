"""Write merging: what is joined, what is kept, and that the hardware sees the same stores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.hw.ec.instructions import (
    Barrier,
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    encode,
    merge_writes,
    stored_words,
)
from atonc.machine.hw.ec.text import SymbolOffset, collect_relocations
from tests.hw.ec_programs import instructions, words

STORES = st.dictionaries(st.integers(0, 40), words, min_size=1)
WRITES = st.builds(Write, st.integers(0, 2), st.integers(0, 9), words)
TRACES = st.lists(st.one_of(WRITES, WRITES, WRITES, instructions(), st.just(Barrier())), max_size=40)


@given(st.integers(0, 63), STORES)
def test_words_without_objects_are_those_of_merged_writes(unit: int, stores: dict[int, int]) -> None:
    assert stored_words(unit, stores) == encode(merge_writes(Write(unit, reg, stores[reg]) for reg in stores))


def stores(program: Iterable[Instruction]) -> dict[tuple[int, int], list[int]]:
    """Values that each register gets, in order."""
    result: dict[tuple[int, int], list[int]] = defaultdict(list)
    for instruction in program:
        if isinstance(instruction, Write):
            result[instruction.unit, instruction.reg].append(instruction.value)
        elif isinstance(instruction, BurstWrite):
            result[instruction.unit, instruction.reg] += instruction.values
        elif isinstance(instruction, BurstWriteInc):
            for k, value in enumerate(instruction.values):
                result[instruction.unit, instruction.reg + k].append(value)
    return result


def test_runs_are_sorted_and_joined() -> None:
    trace = [Write(5, 13, 1), Write(5, 2, 2), Write(5, 0, 3), Write(5, 3, 4), Write(5, 0, 5), Write(5, 7, 6)]
    assert merge_writes(trace) == [
        BurstWrite(5, 0, (3, 5)),
        BurstWriteInc(5, 2, (2, 4)),
        Write(5, 7, 6),
        Write(5, 13, 1),
    ]


def test_a_register_stored_twice_parts_its_neighbours() -> None:
    trace = [Write(5, reg, reg) for reg in (1, 2, 3, 4, 5, 3)]
    assert merge_writes(trace) == [BurstWriteInc(5, 1, (1, 2)), BurstWrite(5, 3, (3, 3)), BurstWriteInc(5, 4, (4, 5))]


def test_what_ends_a_run() -> None:
    others: list[Instruction] = [Label(1), Irq(0), Poll(1, 0, 1, 1, 100, 0), WriteField(0, 4, 1, 1, 1), Write(6, 1, 0)]
    for other in others:
        assert merge_writes([Write(5, 1, 1), other, Write(5, 0, 2)]) == [Write(5, 1, 1), other, Write(5, 0, 2)]
    assert merge_writes([Write(5, 1, 1), Barrier(), Write(5, 0, 2)]) == [Write(5, 1, 1), Write(5, 0, 2)]


def test_nothing_to_merge() -> None:
    assert merge_writes([]) == []
    assert merge_writes([Barrier()]) == []


def test_more_stores_than_a_burst_counts() -> None:
    merged = merge_writes([Write(1, 0, value) for value in range(2048)])
    assert [instruction.size for instruction in merged] == [2048, 2]
    assert stores(merged)[1, 0] == list(range(2048))
    assert len(encode(merged)) == 2050


def test_relocated_values_keep_their_symbols() -> None:
    merged = merge_writes([Write(5, 3, 0), Write(5, 2, SymbolOffset(64, "a"))])
    assert [(r.symbol, r.offsets) for r in collect_relocations(merged)] == [("a", (1,))]


@given(TRACES)
def test_every_register_sees_the_same_stores(trace: list[Instruction | Barrier]) -> None:
    plain = [item for item in trace if not isinstance(item, Barrier)]
    merged = merge_writes(trace)
    assert stores(merged) == stores(plain)
    assert [i for i in merged if isinstance(i, (Poll, Label, Irq, WriteField))] == [
        i for i in plain if isinstance(i, (Poll, Label, Irq, WriteField))
    ]
    assert len(encode(merged)) <= len(encode(plain))


@given(TRACES)
def test_merging_again_changes_nothing(trace: list[Instruction | Barrier]) -> None:
    merged = merge_writes(trace)
    separated = [part for instruction in merged for part in (instruction, Barrier())]
    assert merge_writes(separated) == merged
