"""Groups of channels with shifts of their own: lanes that end together, with the same bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.ir import Graph
from atonc.compiler.lower.conv.lanes import Work, epochs_cycles, even_epochs, in_turns, meeting
from atonc.compiler.plan.policy import EPOCH_CYCLES
from atonc.compiler.plan.streams import Area
from tests.compiler.golden_graphs import Sketch
from tests.lower.test_lanes import MANY, both, chains, cycles

LANES = 3


def uneven(shape: tuple[int, int, int], groups: tuple[int, ...], kernel: int, stride: int, depthwise: bool) -> Graph:
    """Channels of each group have scales far from those of the others."""
    sketch = Sketch().start(1, *shape, zero=-5)
    sketch.conv(sum(groups), (kernel, kernel), stride, depthwise)
    weights = sketch.ops[-1].inputs[1]
    quant = sketch.tensors[weights].quant
    assert quant is not None
    far = np.repeat(0.001 ** np.arange(len(groups)), groups)
    scaled = replace(quant, scales=np.asarray(quant.scales) * far)
    sketch.tensors[weights] = replace(sketch.tensors[weights], quant=scaled)
    return sketch.graph()


CUTS = {
    "a long and a short group in turn": ((48, 48, 24), (44, 20), 1, 1, False, [[1, 1, 1], [1, 1, 1]]),
    "depthwise: the long group in slices": ((40, 40, 48), (40, 8), 3, 1, True, [[1, 1, 1]]),
}


@pytest.mark.parametrize("name", CUTS)
def test_lanes_of_groups_end_together_and_give_the_same_bits(name: str) -> None:
    *what, expected = CUTS[name]
    before, after = both(uneven(*what), MANY)  # type: ignore[arg-type]
    assert chains(after) == expected
    assert cycles(after) <= cycles(before)


WORKS = st.lists(st.integers(1, 10**6), min_size=1, max_size=7)


@given(WORKS, st.integers(2, LANES), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_every_job_runs_once_in_all_lanes(units: list[int], lanes: int, met: set[tuple[int, int]]) -> None:
    works = [Work(cycles, 0) for cycles in units]

    def meet(one: int, other: int) -> bool:
        return (one, other) in met or (other, one) in met

    epochs = even_epochs(works, lanes, meet)
    assert sorted(job for epoch in epochs for job in epoch) == list(range(len(works)))
    assert all(sum(epoch.values()) == lanes for epoch in epochs)
    assert not any(meet(*pair) for epoch in epochs for pair in combinations(epoch, 2))
    one_by_one = sum(units) / lanes + EPOCH_CYCLES * len(works)
    assert epochs_cycles(epochs, works) <= one_by_one + 1  # never dearer than every job in all lanes


def test_lanes_share_the_memory_of_their_features() -> None:
    """Two jobs that the memory holds up anyway need no epochs of their own, and take as long as it does."""
    works = [Work(90_000, 40_000), Work(90_000, 40_000), Work(90_000, 40_000)]
    epochs = even_epochs(works, LANES, lambda one, other: False)
    assert epochs_cycles(epochs, works) == 120_000 + EPOCH_CYCLES * len(epochs)


def test_channels_of_pixels_that_are_no_whole_words_meet() -> None:
    assert not meeting(Area.whole(4, 4, 16), (0, 8), (8, 8))
    assert meeting(Area.whole(4, 4, 16), (0, 4), (4, 4))
    assert meeting(Area.whole(4, 4, 12), (0, 4), (8, 4))


def thirds(pieces: int) -> list[range]:
    """Cuts 96 bytes at whole words."""
    starts = [96 * k // pieces // 8 * 8 for k in range(pieces)] + [96]
    return [range(a, b) for a, b in pairwise(starts)]


@pytest.mark.parametrize(("longest", "sizes"), [(48, [[48, 48]]), (40, [[24, 24], [24, 24]]), (4, None)])
def test_as_many_turns_as_short_pieces_need(longest: int, sizes: list[list[int]] | None) -> None:
    found = in_turns(thirds, len, 2, longest)
    assert (found and [[len(piece) for piece in turn] for turn in found]) == sizes
