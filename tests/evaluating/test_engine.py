"""The engine of `atonc evaluate` is the emulator, value for value, for any number of samples at once."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.sums import requantised
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.insight.evaluating.engine import Engine, npu_kernel
from atonc.insight.evaluating.layer_kernel import Wrapping32, finish_for
from tests.compiler.random_graphs import random_graph, random_inputs

SAMPLES = 2


def assert_like_emulator(seed: int, plain: bool, numerics: str = "best") -> None:
    compiled = compile_graph(random_graph(seed, plain=plain), Options(verify=False, numerics=numerics))
    inputs = [random_inputs(compiled.graph, 7 * seed + k) for k in range(SAMPLES)]
    found = Engine(compiled).run({n: np.stack([one[n] for one in inputs]) for n in compiled.graph.inputs}, observe=True)
    emulation = Emulation(compiled.program, compiled.graph)
    for number, one in enumerate(inputs):
        for name, value in emulation.run(one, observe=True).items():
            np.testing.assert_array_equal(found[name][number].reshape(value.shape), value, err_msg=f"{seed} {name}")


@pytest.mark.parametrize("seed", range(4))
def test_random_networks_give_what_the_emulator_gives(seed: int) -> None:
    assert_like_emulator(seed, plain=seed % 2 == 0)


def test_the_numerics_of_st_too() -> None:
    assert_like_emulator(11, plain=True, numerics="2.x")


def test_real_numbers_that_the_npu_moves_stay_what_they_are() -> None:
    """Engines copy the bytes of a float tensor; nothing makes whole numbers of it."""
    values = {n: Tensor(n, (1, 2, 2, 4), "float32") for n in ("a", "b")}
    out = Tensor("c", (1, 2, 2, 8), "float32")
    joined = Op("concat", "join", ("a", "b"), ("c",), {"axis": 3})
    graph = Graph({**values, "c": out}, (joined,), ("a", "b"), ("c",))
    compiled = compile_graph(graph, Options(verify=False, allow_float=True))
    samples = [np.random.default_rng(k).normal(size=(3, 1, 2, 2, 4)).astype(np.float32) for k in range(2)]
    (found,) = npu_kernel(compiled.mapped.context, compiled.graph.ops[0])(samples)
    np.testing.assert_array_equal(found, np.concatenate(samples, axis=4))


def test_one_sample_or_many_make_no_difference() -> None:
    compiled = compile_graph(random_graph(4, plain=True), Options(verify=False))
    engine = Engine(compiled)
    inputs = [random_inputs(compiled.graph, k) for k in range(5)]
    together = engine.run({n: np.stack([one[n] for one in inputs]) for n in compiled.graph.inputs})
    for number, one in enumerate(inputs):
        alone = engine.run({n: v[None] for n, v in one.items()})
        for name in compiled.graph.outputs:
            np.testing.assert_array_equal(together[name][number], alone[name][0])


ENDS = np.array([-40000, -32769, -32768, -32767, -1, 0, 1, 32766, 32767, 32768, 40000])


@pytest.mark.parametrize("seed", range(40))
def test_32_bits_that_wrap_give_the_codes_of_64_bits(seed: int) -> None:
    """All sums near ties and near the ends, for coefficients of every size."""
    random = np.random.default_rng(seed)
    shift, channels = int(random.integers(0, 24)), 3
    factors = random.integers(-32768, 32768, channels) >> int(random.integers(0, 12))
    addends = random.integers(-(1 << 31) + 1, 1 << 31, channels) >> int(random.integers(0, 28))
    if seed % 4 == 0 and shift:  # ties
        factors, addends = (factors >> 3) << shift - 1, (addends >> shift) << shift
        factors = np.clip(factors, -32767, 32767)
    clip = (-128, int(random.integers(-100, 128))) if seed % 3 == 0 else None
    rule = Requantisation(0, factors, addends, shift, clip)
    sums = np.concatenate([ENDS, random.integers(-40000, 40000, 4000), np.arange(-300, 300)])
    sums = np.repeat(sums[:, None], channels, axis=1)
    wanted = requantised(rule, np.clip(sums, -32768, 32767))
    finish = finish_for([(rule, channels)], np.full(channels, 40000), np.float32)
    got = finish(sums.astype(np.float32).reshape(-1)).reshape(sums.shape)
    np.testing.assert_array_equal(got, wanted)


def test_usual_coefficients_need_no_64_bits() -> None:
    rule = Requantisation(0, np.array([20000, 9000]), np.array([1 << 22, -(1 << 23)]), 20)
    assert isinstance(finish_for([(rule, 2)], np.array([90000, 90000]), np.float32), Wrapping32)


def test_an_output_that_no_input_changes_is_there_for_every_sample() -> None:
    """As detectors give their anchors."""
    anchors = Tensor("anchors", (1, 4), "int8", Quantisation.per_tensor(0.5, 3), np.arange(4, dtype=np.int8)[None])
    tensors = [
        Tensor("x", (1, 2, 2, 4), "int8", Quantisation.per_tensor(0.1)),
        Tensor("y", (1, 2, 2, 4), "int8", Quantisation.per_tensor(0.1)),
        anchors,
        Tensor("boxes", (1, 4), "float32"),
    ]
    ops = (Op("relu", "relu", ("x",), ("y",)), Op("dequantize", "dequantize", ("anchors",), ("boxes",)))
    graph = Graph(name="anchors", tensors={t.name: t for t in tensors}, ops=ops, inputs=("x",), outputs=("y", "boxes"))
    found = Engine(compile_graph(graph, Options(verify=False))).run({"x": np.zeros((3, 1, 2, 2, 4), np.int8)})
    assert found["boxes"].shape[0] == 3 and np.allclose(found["boxes"][2].ravel(), (np.arange(4) - 3) * 0.5)
