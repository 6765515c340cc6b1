"""The packer's small rules: how much lives, which buffer comes first, and into which gap it goes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, cast

from atonc.compiler.place.greedy import PackItem, Problem, pack, pack_in_order
from atonc.compiler.place.packing import Packing, PackingProblem, _apart, _without_regard_for_pins
from atonc.compiler.place.pools import PoolWindow

WINDOW = PoolWindow(0, 1 << 20)


def test_live_bytes_of_every_step_include_the_last_of_each_buffer() -> None:
    problem = Problem((PackItem(64, 0, 0), PackItem(32, 0, 2), PackItem(16, 2, 3)))
    assert problem.live.tolist() == [96, 32, 48, 16]
    assert (problem.lower_bound, problem.peak_step) == (96, 0)


def test_the_tightest_gap_is_taken_or_the_first() -> None:
    """Two gaps, a wide one and behind it one that fits: what filled them is gone when the last buffer comes."""
    stays, wide, tight = PackItem(64, 0, 1), PackItem(128, 0, 0), PackItem(64, 0, 0)
    problem = Problem((stays, wide, stays, tight, stays, PackItem(64, 1, 1)))
    for best_fit, place in ((False, 64), (True, 64 + 128 + 64)):
        addresses, failed = pack_in_order(problem, range(6), [WINDOW], best_fit)
        assert failed == -1 and addresses is not None
        assert addresses[:5] == [0, 64, 192, 256, 320] and addresses[5] == place


def test_what_moves_most_per_byte_comes_first_behind_what_has_no_choice() -> None:
    items = (PackItem(64, 0, 0, traffic=64), PackItem(64, 0, 0, traffic=640), PackItem(640, 0, 0, traffic=1280),
             PackItem(64, 0, 0, traffic=1, npu_ram_only=True))  # fmt: skip
    assert Problem(items).hot_first == [3, 1, 2, 0]


def test_what_needs_the_npu_ram_passes_other_windows_by() -> None:
    slow, fast = PoolWindow(0, 1024, npu_ram=False), PoolWindow(1024, 2048)
    problem = Problem((PackItem(512, 0, 0), PackItem(512, 0, 0, npu_ram_only=True)))
    assert pack_in_order(problem, (1, 0), [slow, fast], best_fit=False) == ([0, 1024], -1)
    assert pack_in_order(problem, (1, 0), [slow], best_fit=False) == (None, 1)


def test_others_have_a_fixed_place_while_its_buffer_does_not_live() -> None:
    """512 bytes at the end live in step 0 only: two other buffers fit into what is left and into its place."""
    fixed = PackItem(512, 0, 0, address=512)
    problem = Problem((fixed, PackItem(512, 0, 1), PackItem(512, 1, 1)))
    found = pack(problem, [PoolWindow(0, 1024)])
    assert found is not None and found[0] == [512, 0, 512]
    assert pack(Problem((fixed, PackItem(512, 0, 1), PackItem(512, 0, 1))), [PoolWindow(0, 1024)]) is None


class CountedAddresses(PackingProblem):
    """Costs what its addresses add up to."""

    def cycles(self, addresses: Sequence[int]) -> float:
        return sum(address * (n + 1) for n, address in enumerate(addresses))


def test_a_layout_that_ignores_pins_is_taken_where_they_are_free_and_it_is_faster() -> None:
    """Random buffers, two of them pinned inside or behind the window: pins hold, nothing meets, nothing is slower."""
    better, window = 0, PoolWindow(0, 4096)
    for seed in range(60):
        draw = Random(seed)
        pins = {0: 4096, 1: draw.choice((0, 2048, 8192))}
        steps = [(first := draw.randint(0, 6), first + draw.randint(0, 3)) for _ in range(9)]
        sizes = [64 * draw.randint(1, 8) for _ in steps]
        rows = enumerate(zip(sizes, steps, strict=True))
        problem = Problem(tuple(PackItem(size, *lives, address=pins.get(n, -1)) for n, (size, lives) in rows))
        placed = pack(problem, [window])
        if placed is None:
            continue
        before = Packing(placed[0])
        job = CountedAddresses(problem, cast(Any, None), cast(Any, None), {}, fast=False)
        found = _without_regard_for_pins(job, [window], before)
        better += job.cycles(found.addresses) < job.cycles(before.addresses)
        assert job.cycles(found.addresses) <= job.cycles(before.addresses)
        assert all(found.addresses[n] == place for n, place in pins.items())
        for n, others in enumerate(problem.conflicts):
            low, high = found.addresses[n], found.addresses[n] + problem.items[n].size
            assert all(high <= found.addresses[m] or found.addresses[m] + problem.items[m].size <= low for m in others)
    assert better


def test_neighbours_that_touch_are_apart() -> None:
    problem = Problem((PackItem(64, 0, 0), PackItem(32, 0, 2)))
    for second, apart in ((64, True), (63, False), (0, False), (200, True)):
        assert _apart(problem, [0, second], 0, 1) == _apart(problem, [0, second], 1, 0) == apart
