"""Channels inside a network get an order; nobody outside sees it."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed

import numpy as np

from atonc.compiler.ir import Graph, Quantisation
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import run
from atonc.compiler.passes.sort_channels import sort_channels
from tests.passes.small_graphs import Small, random_inputs

CHANNELS = 32
DEPTHWISE = {"groups": CHANNELS}


def scattered(small: Small, name: str) -> None:
    """Scales of neighbours that differ up to a thousandfold."""
    tensor = small.tensors[name]
    scales = 10.0 ** small.rng.uniform(-5, -2, tensor.shape[0])
    small.tensors[name] = changed(tensor, quant=Quantisation(scales, np.zeros(scales.size, np.int64), 0))


def blocks(small: Small) -> Graph:
    """Convolution, depthwise, residual sum, concatenation, PReLU, mean, dense layer."""
    wide = (1, 6, 6, CHANNELS)
    small.input((1, 6, 6, 4))
    for name in ("a", "b", "c", "sum", "p"):
        small.value(name, wide)
    small.value("both", (1, 6, 6, 2 * CHANNELS))
    small.value("d", wide)
    small.value("m", (1, CHANNELS))
    small.value("y", (1, 5))
    small.conv("x0", "a", CHANNELS)
    small.conv("a", "b", CHANNELS, **DEPTHWISE)
    small.conv("b", "c", CHANNELS, kernel=1)
    small.op("add", ["a", "c"], "sum")
    slopes = small.const("slopes", small.rng.integers(1, 100, (1, 1, 1, CHANNELS)).astype(np.int8), 0.01)
    small.op("prelu", ["sum", slopes], "p")
    small.op("concat", ["p", "b"], "both", axis=3)
    small.conv("both", "d", CHANNELS, kernel=1)
    small.op("mean", ["d"], "m", axes=(1, 2), keepdims=False)
    small.op("dense", ["m", small.weights("w", 5, CHANNELS), small.bias("bias", 5)], "y")
    for name in ("a:w", "b:w", "c:w", "d:w"):
        scattered(small, name)
    return small.graph("y")


def test_outputs_are_the_same_and_channels_are_not() -> None:
    graph = blocks(Small())
    after = sort_channels(graph)
    inputs = random_inputs(graph)
    before, now = run_graph(graph, inputs), run_graph(after, inputs)
    assert np.array_equal(before["y"], now["y"])
    assert any(not np.array_equal(before[name], now[name]) for name in ("a", "b", "c", "d"))
    for name in ("a", "b", "c", "sum", "p", "d"):
        assert np.array_equal(np.sort(before[name], axis=-1), np.sort(now[name], axis=-1))


def test_neighbours_get_similar_scales() -> None:
    small = Small()
    small.input((1, 6, 6, 4))
    small.value("a", (1, 6, 6, CHANNELS))
    small.value("y", (1, 6, 6, 3))
    small.conv("x0", "a", CHANNELS)
    small.conv("a", "y", 3, kernel=1)
    scattered(small, "a:w")
    after = sort_channels(small.graph("y"))
    quant = after.tensors[after.ops[0].inputs[1]].quant
    assert quant is not None
    steps = np.abs(np.diff(np.log10(quant.scales)))
    assert steps.mean() < 0.2


def test_outputs_and_what_gives_channels_a_meaning_stay() -> None:
    small = Small()
    small.input((1, 6, 6, 4))
    small.value("a", (1, 6, 6, CHANNELS))
    small.value("y", (1, 6, 6, CHANNELS))
    small.conv("x0", "a", CHANNELS)
    small.conv("a", "y", CHANNELS, **DEPTHWISE)
    scattered(small, "a:w")
    scattered(small, "y:w")
    graph = small.graph("y")
    assert sort_channels(graph) is graph


@dataclass(frozen=True)
class Asked:
    numerics: str
    cut_outputs: tuple[str, ...] = ()
    input_type: str = ""
    output_type: str = ""


def test_the_lowering_of_st_keeps_the_order() -> None:
    graph = blocks(Small())
    names = [[op.inputs[1] for op in run(graph, Asked(kind)).ops if op.kind == "conv"] for kind in ("2.x", "best")]
    assert names[0] == ["a:w", "b:w", "c:w", "d:w"]
    assert names[1] != names[0]
