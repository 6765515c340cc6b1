"""Sums inside and between units have 24 bits, and nobody knows what the chip does beyond: no input gets there, and the
emulator refuses what would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu import npu as accumulate
from atonc.machine.hw.limits import SUM_LIMIT
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.compiler.wide_networks import random_network
from tests.lower.harness import constant, run_compiled

ENDS = {"int8": (-128, 127), "int16": (-32768, 32767)}


def layer(dtype: str, inputs: int, kernel: int = 1, zero: int = 0) -> Graph:
    """Weights of one sign in the first output, at random in the others; the output's scale is that of usual sums."""
    weights = np.random.default_rng(3).integers(-127, 128, (8, kernel, kernel, inputs)).astype(np.int8)
    weights[0] = 127
    usual = 0.02 * 0.004 * np.sqrt(inputs) * kernel * 70 * ENDS[dtype][1] / 2
    pad = (kernel // 2,) * 4
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": pad, "groups": 1, "layout": "NHWC"}
    x = Tensor("x", (1, 6, 6, inputs), dtype, Quantisation.per_tensor(0.02, zero))
    y = Tensor("y", (1, 6, 6, 8), dtype, Quantisation.per_tensor(4 * usual / ENDS[dtype][1], 0))
    w = constant("w", weights, np.full(8, 0.004), axis=0)
    return Graph({"x": x, "w": w, "y": y}, (Op("conv", "y", ("x", "w"), ("y",), attrs),), ("x",), ("y",))


def largest_sums(compiled: Compiled, monkeypatch: pytest.MonkeyPatch, codes: dict[str, np.ndarray]) -> list[int]:
    """Runs it, and says how far the sums of every unit went."""
    found = []
    monkeypatch.setattr(accumulate, "_most", lambda config: SUM_LIMIT + 1)
    monkeypatch.setattr(accumulate, "_require_24_bits", lambda where, total: found.append(int(np.abs(total).max())))
    run_compiled(compiled, codes)
    return found


CASES = [("int8", 700, 1, 0), ("int8", 700, 1, 5), ("int8", 120, 3, 0), ("int8", 120, 3, -128), ("int16", 16, 1, 0)]


@pytest.mark.parametrize(("dtype", "inputs", "kernel", "zero"), [*CASES, ("int16", 8, 3, 0), ("int16", 64, 1, 0)])
def test_no_input_takes_a_sum_beyond_24_bits(
    dtype: str, inputs: int, kernel: int, zero: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All features at one end of their codes, and noise of full scale."""
    graph = layer(dtype, inputs, kernel, zero)
    compiled = compile_graph(graph, Options(verify=False))
    assert not compiled.choices.reasons
    noise = np.random.default_rng(9).choice(ENDS[dtype], graph.tensors["x"].shape)
    for codes in (np.full_like(noise, ENDS[dtype][0]), np.full_like(noise, ENDS[dtype][1]), noise):
        seen = largest_sums(compiled, monkeypatch, {"x": codes.astype(dtype)})
        assert seen and max(seen) <= SUM_LIMIT


@pytest.mark.parametrize("seed", [3, 9])
def test_networks_of_16_bits_on_noise_of_full_scale(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_network(seed).graph("int16")
    compiled = compile_graph(graph, Options(verify=False))
    rng = np.random.default_rng(seed)
    noise = {name: rng.choice(ENDS["int16"], graph.tensors[name].shape).astype(np.int16) for name in graph.inputs}
    assert max(largest_sums(compiled, monkeypatch, noise)) <= SUM_LIMIT


UNIT = ConvaccConfig(
    kernel_width=1, kernel_height=1, batch=1, kernels=1, feature_bytes=2, out_bytes=3, out_shift=0, saturated=1
)


@pytest.mark.parametrize(
    ("total", "fits"),
    [(SUM_LIMIT, True), (SUM_LIMIT + 1, False), (-SUM_LIMIT - 1, True), (-SUM_LIMIT - 2, False), (8_919_147, False)],
)
def test_the_emulator_does_not_guess_what_larger_sums_become(total: int, fits: bool) -> None:
    sums = [np.full((1, 2, 1), total, np.int64)]
    units = [replace(UNIT, batch=512)]  # whose sums could be too large
    if fits:
        assert accumulate._straight("here", units, sums, None)[0].tolist() == [[[total]] * 2]
        return
    with pytest.raises(NotModelledError, match="24 bits"):
        accumulate._straight("here", units, sums, None)


def test_sums_that_return_count_too() -> None:
    """16 bits from the pass before, shifted back, and what this pass adds."""
    carried = np.full((1, 1, 1), 32767, np.int32)
    own = [np.full((1, 1, 1), 1000, np.int32)]
    with pytest.raises(NotModelledError, match="24 bits"):
        accumulate._straight("here", [replace(UNIT, feature_bytes=1, in_shift=8)], own, carried)
