"""Live bytes: counted in one pass, equal to a count step by step."""

from __future__ import annotations

import random

import pytest

from atonc.compiler.place.usage import CountedPool, Use, covered, memory_use
from atonc.insight.explain.live import _live, distinct
from atonc.insight.explain.types import BufferView, PoolView
from atonc.insight.report.document import ram_row

POOLS = (PoolView("a", 100, 200, 0, False), PoolView("b", 300, 50, 0, True), PoolView("c", 1000, 100, 0, False))


def _buffers(seed: int) -> list[BufferView]:
    rng = random.Random(seed)
    found = []
    for number in range(rng.randrange(1, 40)):
        first = rng.randrange(1, 12)
        kind = rng.choice(["activation", "input", "constant", "resident", "prefetched"])
        size = rng.randrange(0, 90)
        place = (rng.randrange(50, 1150), size, first, rng.randrange(first - 1, 14))
        found.append(BufferView(f"b{number}", "", *place, kind, "", size + rng.randrange(0, 9)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_one_pass_counts_what_every_step_does(seed: int) -> None:
    buffers = _buffers(seed)
    steps = range(1, 15)
    expected = {}
    for step in steps:
        spans = [(b.address, b.address + b.reserved_bytes) for b in buffers if b.first <= step <= b.last]
        expected[step] = sum(covered(spans, pool.base, pool.base + pool.size_bytes) for pool in POOLS)
    assert _live(buffers, POOLS, steps) == expected


@pytest.mark.parametrize("seed", range(20))
def test_uses_are_parts_of_the_whole(seed: int) -> None:
    buffers = _buffers(seed)
    banks = [CountedPool(pool.name, pool.base, pool.size_bytes, pool.name != "b", pool.external) for pool in POOLS]
    found = memory_use(buffers, banks, relocatable_bytes=64)
    spans = [(b.address, b.address + b.reserved_bytes) for b in buffers]
    for bank in banks:
        assert found.by_pool.get(bank.name, 0) == covered(spans, bank.base, bank.end)
    assert found.ram_bytes == sum(found.ram_by_use.values()) == 64 + sum(found.by_pool.get(name, 0) for name in "ac")
    activations = [(b.address, b.address + b.reserved_bytes) for b in buffers if b.kind in ("activation", "input")]
    assert found.of(Use.ACTIVATIONS) == sum(covered(activations, bank.base, bank.end) for bank in banks)
    assert found.spilled_bytes == covered(activations, 300, 350) <= found.activations_bytes


def test_states_outside_the_chip_are_told_beside_activations() -> None:
    kinds = (("state", 300, 20), ("activation", 310, 40), ("state", 100, 8), ("constant", 340, 10))
    buffers = [BufferView(f"b{n}", "", at, size, 1, 2, kind, "", size) for n, (kind, at, size) in enumerate(kinds)]
    found = memory_use(buffers, [CountedPool(one.name, one.base, one.size_bytes, True, one.external) for one in POOLS])
    assert dict(found.outside) == {Use.ACTIVATIONS: 30, Use.STATES: 20} and found.spilled_bytes == 30
    assert "30 bytes of activations and 20 bytes of states outside the chip" in ram_row(found).text


def test_names_of_one_memory_are_one_buffer() -> None:
    def buffer(name: str, size: int, kind: str = "activation") -> BufferView:
        return BufferView(name, "a", 100, size, 1, 2, kind)

    (chosen,) = distinct([buffer("x", 64), buffer("picture", 48, "input"), buffer("y", 96)]).items()
    assert chosen[0].name == "picture" and chosen[1] == ("x", "y")
    (chosen,) = distinct([buffer("x", 64), buffer("y", 96)]).items()
    assert chosen[0].name == "y" and chosen[1] == ("x",)
