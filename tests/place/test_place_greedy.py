"""The packer: never an overlap, close to the lower bound, fast, always the same."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.place.greedy import PackItem, Problem, extent_of, pack, pack_in_order, pack_windows, repack
from atonc.compiler.place.pools import PoolWindow
from tests.patience import growth

UP = PoolWindow(0x3420_0000, 0x3420_0000 + (1 << 30))
DOWN = PoolWindow(0x3420_0000, 0x3420_0000 + (1 << 30), downward=True)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    steps = draw(st.integers(1, 40))
    items = []
    for _ in range(draw(st.integers(1, 40))):
        first = draw(st.integers(0, steps - 1))
        alignment = draw(st.sampled_from([16, 16, 32]))
        size = draw(st.integers(1, 400)) * alignment
        items.append(PackItem(size, first, draw(st.integers(first, steps - 1)), alignment, draw(st.integers(0, 10**6))))
    return Problem(tuple(items))


def random_problem(seed: int, count: int, steps: int) -> Problem:
    """Mostly short lives and a few long ones, as in networks with branches."""
    rng = random.Random(seed)
    items = []
    for _ in range(count):
        first = rng.randrange(steps)
        last = min(steps - 1, first + rng.choice([1, 1, 2, 3, rng.randrange(steps)]))
        items.append(PackItem(rng.randrange(1, 5000) * 16, first, last))
    return Problem(tuple(items))


def assert_sound(problem: Problem, addresses: list[int], window: PoolWindow) -> None:
    """Every pair, by brute force."""
    ranges = [(a, a + item.size) for a, item in zip(addresses, problem.items, strict=True)]
    for n, item in enumerate(problem.items):
        assert ranges[n][0] % item.alignment == 0
        assert window.start <= ranges[n][0] and ranges[n][1] <= window.end
        for m in range(n):
            other = problem.items[m]
            together = item.first <= other.last and other.first <= item.last
            assert not together or ranges[n][1] <= ranges[m][0] or ranges[m][1] <= ranges[n][0]


@settings(max_examples=200, deadline=None)
@given(problems(), st.sampled_from([UP, DOWN]))
def test_no_two_live_buffers_overlap(problem: Problem, window: PoolWindow) -> None:
    found = pack(problem, [window])
    assert found is not None
    addresses, extent = found
    assert_sound(problem, addresses, window)
    assert problem.lower_bound <= extent == extent_of(problem, addresses, window)
    better = repack(problem, [window], extent)
    if better is not None:
        assert_sound(problem, better[0], window)
        assert problem.lower_bound <= better[1] < extent


def test_random_problems_come_close_to_the_lower_bound() -> None:
    ratios = []
    for seed in range(40):
        problem = random_problem(seed, 60, 40)
        found = pack(problem, [UP])
        assert found is not None
        found = repack(problem, [UP], found[1]) or found
        ratios.append(found[1] / problem.lower_bound)
    assert statistics.mean(ratios) < 1.01 and max(ratios) < 1.06


def test_the_packer_looks_at_pairs_of_buffers_and_at_no_more() -> None:
    """Twice as many buffers make four times as many pairs."""

    def packing(count: int) -> Callable[[], object]:
        problem = random_problem(1, count, count)
        order, _ = problem.orders["size"], problem.conflicts
        return lambda: pack_in_order(problem, order, [UP], best_fit=True)

    assert growth(packing, 125) < 5


def test_the_same_problem_gives_the_same_layout() -> None:
    layouts = [pack(random_problem(7, 80, 50), [UP]) for _ in range(2)]
    assert layouts[0] == layouts[1]


def test_a_window_that_is_too_small_is_refused() -> None:
    problem = Problem((PackItem(64, 0, 1), PackItem(64, 1, 2)))
    assert pack(problem, [PoolWindow(0, 112)]) is None
    assert pack(problem, [PoolWindow(0, 128)]) is not None


def test_blame_finds_what_the_orders_miss() -> None:
    """Blocks with a skip connection between two convolutions that need twice its size: all orders waste 20 %."""
    items = [PackItem(41120, 0, 0), PackItem(10288, 0, 4)]
    for block in range(5):
        step = 4 * block
        items += [
            PackItem(20480, step + 1, step + 2),
            PackItem(20480, step + 2, step + 3),
            PackItem(10288, step + 3, step + 4),
        ]
        items.append(PackItem(10288, step + 4, step + 8))
    problem = Problem(tuple(items))
    found = pack(problem, [UP])
    assert found is not None and found[1] > 1.1 * problem.lower_bound
    better = repack(problem, [UP], found[1])
    assert better is not None and better[1] == problem.lower_bound


def test_buffers_for_the_npu_ram_stay_there() -> None:
    slow, fast = PoolWindow(0, 1024, npu_ram=False), PoolWindow(1024, 1536)
    items = (PackItem(512, 0, 1), PackItem(512, 0, 1, npu_ram_only=True), PackItem(512, 0, 1))
    addresses = pack_windows(Problem(items), [fast, slow], cost=lambda a: 0.0)
    assert addresses is not None and addresses[1] == 1024
