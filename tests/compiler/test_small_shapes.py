"""Layers of one-dimensional signals and of few values, for which the first form that comes to mind was never seen on
silicon: another one keeps them on the NPU, and it is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from tests.lower.harness import activation, constant, graph_of
from tests.lower.test_conv import conv_graph

NO_PADDING = (0, 0, 0, 0)


def dense_graph(inputs: int, outputs: int) -> Graph:
    weights = np.random.default_rng(inputs).integers(-127, 128, (outputs, inputs)).astype(np.int8)
    return graph_of(
        Op("dense", "dense", ("x", "w"), ("y",), {}),
        activation("x", (1, inputs), 0.02, -128),
        constant("w", weights, 0.004),
        activation("y", (1, outputs), 0.3, 3),
    )


def batch_graph(batch: int, height: int) -> Graph:
    """As Keras writes a dilation over time: a picture of few rows for each of its steps."""
    graph = conv_graph(height, 34, 6, 6, (1, 3), padding=NO_PADDING)
    shapes = {"x": (batch, height, 34, 6), "y": (batch, height, 32, 6)}
    tensors = {n: replace(t, shape=shapes.get(n, t.shape)) for n, t in graph.tensors.items()}
    return replace(graph, tensors=tensors)


LAYERS = {
    "sixteen taps of three signals": conv_graph(48, 3, 1, 24, (16, 1), padding=NO_PADDING, zero=5),
    "one line, five taps": conv_graph(1, 64, 32, 64, (1, 5), padding=(0, 2, 0, 2), zero=-128),
    "one line, seven taps, odd channels": conv_graph(1, 42, 31, 31, (1, 7), padding=NO_PADDING, zero=-128),
    "one column, packed words that end in the next pixel": conv_graph(
        98, 1, 104, 40, (3, 1), padding=(1, 0, 1, 0), zero=0
    ),
    "one pixel of an odd number of values": dense_graph(1173, 16),
    "one pixel of an even number of values": dense_graph(558, 21),
    "one pixel in a window, strides that differ": conv_graph(1, 1, 1, 3, (3, 3), stride=(1, 2)),
    "a batch of single rows": batch_graph(8, 1),
    "a batch of pictures whose rows are apart": batch_graph(2, 5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_stays_on_the_npu(name: str) -> None:
    source = LAYERS[name]
    compiled = compile_graph(source, Options())
    assert [(reason.node, reason.rule.id, reason.seen) for reason in compiled.choices.reasons] == []
    inputs = make_inputs(source, 3)
    assert np.array_equal(run_graph(compiled.graph, inputs)["y"], run_graph(source, inputs)["y"])
