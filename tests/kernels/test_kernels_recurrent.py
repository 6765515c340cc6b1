"""Layers with a state: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ops import recurrent
from atonc.compiler.ops.recurrent import MOST_CELLS
from atonc.machine.base.errors import AtoncError
from tests.kernels.kernel_examples import recurrent as of_floats
from tests.kernels.three_ways import one_op, random_values, same_three_ways, tensor


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 999),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 6),
    st.sampled_from([0, 1, 20480, 32767]),
)
def test_lstm(seed: int, batch: int, steps: int, inputs: int, cells: int, bits: int, clip: int) -> None:
    rng = np.random.default_rng(seed)
    multipliers = [(int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-6, 3))) for _ in range(8)]
    multipliers.append((int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-24, -18))))
    x = tensor("x", (batch, steps, inputs), "int8", 0.1, int(rng.integers(-128, 128)))
    constants = [
        tensor("w", (4, cells, inputs), "int8", data=rng.integers(-128, 128, (4, cells, inputs)).astype(np.int8)),
        tensor("r", (4, cells, cells), "int8", data=rng.integers(-128, 128, (4, cells, cells)).astype(np.int8)),
        tensor("b", (8, cells), "int32", data=rng.integers(-30000, 30000, (8, cells)).astype(np.int32)),
    ]
    y = tensor("y", (batch, steps, cells), "int8", 1 / 128, int(rng.integers(-9, 9)))
    attrs = {"multipliers": tuple(multipliers), "cell_bits": bits, "cell_clip": clip}
    graph, op = one_op("lstm", [x, *constants], [y], **attrs)
    same_three_ways(graph, op, {"x": random_values(rng, x)})


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 999),
    st.sampled_from(list(recurrent.CELLS)),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["int8", "float32"]),
)
def test_float_layers(
    seed: int, cell: str, steps: int, batch: int, cells: int, start: bool, reverse: bool, given: str
) -> None:
    graph, op = of_floats(cell, steps, batch, cells, start, reverse, given, seed)
    rng = np.random.default_rng(seed)
    same_three_ways(graph, op, {name: random_values(rng, graph.tensors[name]) for name in graph.inputs})


def test_functions_are_close_to_the_real_ones() -> None:
    codes = np.arange(-(1 << 15), 1 << 15)
    assert np.abs(recurrent.logistic(codes) - 32768 / (1 + np.exp(-codes / 4096))).max() < 20
    for bits in range(7):
        real = np.tanh(codes * 2.0 ** (bits - 15))
        assert np.abs(recurrent.tanh(codes, bits) - 32768 * real).max() < 20


def test_more_cells_than_the_kernel_has_room_for() -> None:
    cells = MOST_CELLS + 1
    constants = [
        tensor("w", (4, cells, 1), "int8", data=np.zeros((4, cells, 1), np.int8)),
        tensor("r", (4, cells, cells), "int8", data=np.zeros((4, cells, cells), np.int8)),
        tensor("b", (8, cells), "int32", data=np.zeros((8, cells), np.int32)),
    ]
    attrs = {"multipliers": ((1 << 30, 0),) * 9, "cell_bits": 3, "cell_clip": 0}
    x, y = tensor("x", (1, 1, 1), "int8", 0.1), tensor("y", (1, 1, cells), "int8", 0.1)
    graph, op = one_op("lstm", [x, *constants], [y], **attrs)
    with pytest.raises(AtoncError, match="room"):
        same_three_ways(graph, op, {"x": np.zeros((1, 1, 1), np.int8)})
