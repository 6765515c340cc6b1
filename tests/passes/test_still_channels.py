"""Channels that nothing moves have no weights any more, and give the same code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Quantisation
from atonc.compiler.ops import run_graph
from atonc.compiler.passes.layers import still_channels
from tests.passes.small_graphs import Small, random_inputs

CHANNELS = 16


def conv(still: dict[int, float], seed: int = 0, **attrs: object) -> Graph:
    """One convolution; some channels have another scale than the rest."""
    small = Small()
    small.rng = np.random.default_rng(seed)
    small.input((1, 6, 6, CHANNELS))
    small.value("y", (1, 6, 6, CHANNELS))
    small.conv("x0", "y", CHANNELS, **attrs)
    scales = np.full(CHANNELS, 0.01)
    for channel, scale in still.items():
        scales[channel] = scale
    found = small.tensors["y:w"]
    small.tensors["y:w"] = replace(found, quant=Quantisation(scales, np.zeros(CHANNELS, np.int64), 0))
    return small.graph("y")


def weights_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    tensor = graph.tensors[graph.ops[0].inputs[1]]
    assert tensor.data is not None and tensor.quant is not None
    return tensor.data.reshape(CHANNELS, -1), tensor.quant.scales


@pytest.mark.parametrize("attrs", [{}, {"groups": CHANNELS}], ids=["dense", "depthwise"])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_codes_without_their_weights(seed: int, attrs: dict[str, object]) -> None:
    still = {2: 1e-13, 7: 1e-9, 15: 1e-11}
    before = conv(still, seed, **attrs)
    after = still_channels(before)
    rows, scales = weights_of(after)
    assert [k for k in range(CHANNELS) if not rows[k].any()] == sorted(still)
    assert scales.max() / scales.min() < 2
    inputs = random_inputs(before)
    assert np.array_equal(run_graph(before, inputs)["y"], run_graph(after, inputs)["y"])


def test_a_channel_that_inputs_move_stays() -> None:
    graph = conv({3: 1e-4})
    assert np.array_equal(weights_of(still_channels(graph))[0], weights_of(graph)[0])
