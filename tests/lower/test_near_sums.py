"""Layers whose codes belong to sums far from zero, and large ones whose channels differ much, stay on the NPU."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.near_sums import NearSums
from atonc.compiler.ops import run_graph
from tests.lower.harness import activation, compiled_on_npu, constant, graph_of, run_compiled

FAR = 100_000  # a sum that 16 bits do not hold


def layer(size: int, inputs: int, kernel: int, groups: int, scales: np.ndarray, bias: np.ndarray, out: float) -> Graph:
    rng = np.random.default_rng(5)
    weights = rng.integers(1, 128, (scales.size, kernel, kernel, inputs // groups)).astype(np.int8)
    half = kernel // 2
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": (half,) * 4, "layout": "NHWC", "groups": groups}
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, size, size, inputs), 0.02, -128),
        constant("w", weights, scales, axis=0),
        constant("b", bias.astype(np.int32)),
        activation("y", (1, size, size, scales.size), out, 0),
    )


def far(kernel: int, channels: int, groups: int, steepness: float) -> Graph:
    """Sums of every third output are worth `steepness` LSB a step and have codes around -FAR."""
    bias = np.where(np.arange(16) % 3 == 0, -FAR, 0)
    scales = np.where(bias != 0, steepness, 0.0005)
    return layer(8, channels, kernel, groups, scales, bias, 0.02)


def worst(graph: Graph) -> int:
    """LSB off exact arithmetic, on inputs whose sums come near FAR and on any others."""
    compiled, shape = compiled_on_npu(graph, allow_unproven=False), graph.tensors["x"].shape
    rng, found = np.random.default_rng(6), 0
    for high in (-120, -60, 0, 60, 128):
        values = rng.integers(-128, high, shape).astype(np.int8)
        exact = run_graph(graph, {"x": values})["y"].astype(int)
        found = max(found, int(np.abs(run_compiled(compiled, {"x": values})["y"].astype(int) - exact).max()))
    return found


@pytest.mark.parametrize(("kernel", "channels", "groups"), [(3, 16, 16), (5, 16, 16), (3, 8, 1), (1, 48, 1)])
def test_sums_far_from_zero_are_moved_back_before_they_are_rounded(kernel: int, channels: int, groups: int) -> None:
    assert worst(far(kernel, channels, groups, 4.0)) <= 1


def test_outputs_that_no_sum_changes_need_no_bits() -> None:
    """A bias beyond what any input reaches: the output is constant, whatever the slope is."""
    graph = layer(8, 16, 3, 16, np.full(16, 5.0), np.where(np.arange(16) % 2, -(1 << 20), -40), 2e-6)
    assert worst(graph) == 0


def spread(size: int) -> Graph:
    """Channels whose scales differ by four orders of magnitude."""
    return layer(size, 48, 3, 48, 0.0002 * 10.0 ** np.random.default_rng(1).uniform(-2, 2, 48), np.zeros(48), 0.02)


def test_channels_of_a_large_tensor_have_shifts_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups begin at aligned addresses where that costs little; leaving the NPU is not little."""
    monkeypatch.setattr(NearSums, "prepare", None)  # no copy is needed for it
    assert worst(spread(112)) <= 1


def test_blocks_of_a_huge_tensor_are_computed_in_copies() -> None:
    """There engines must begin at aligned addresses."""
    assert worst(spread(152)) <= 2


@pytest.mark.parametrize("kind", ["add", "sub"])
@pytest.mark.parametrize("gains", [(1.41, 4.808), (7.9, 0.2), (60.0, 3.0)])
def test_a_steep_sum_keeps_to_the_shifts_of_published_units(kind: str, gains: tuple[float, float]) -> None:
    """One unit would need shift 12 or less; ST's programs use 13 to 26."""
    scales = [0.05 * gain for gain in gains]
    graph = graph_of(
        Op(kind, kind, ("x", "y"), ("z",), {}),
        activation("x", (1, 16, 16, 16), scales[0], -128),
        activation("y", (1, 16, 16, 16), scales[1], 93),
        activation("z", (1, 16, 16, 16), 0.05, -128),
    )
    compiled, rng = compiled_on_npu(graph, allow_unproven=False), np.random.default_rng(2)
    values = {name: rng.integers(-128, 128, (1, 16, 16, 16)).astype(np.int8) for name in "xy"}
    exact = run_graph(graph, values)["z"].astype(int)
    assert np.abs(run_compiled(compiled, values)["z"].astype(int) - exact).max() <= 1
