"""With `--silicon seen` operators choose numbers that published programs have before they leave the NPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.pool.recipe import Windows
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Grade
from atonc.machine.hw.units.arith import ArithConfig
from tests.compiler.layer_checks import soil
from tests.compiler.random_graphs import random_inputs
from tests.lower.harness import activation, constant, graph_of
from tests.lower.test_seen_convolutions import conv

ALLOWED = (Grade.SEEN, Grade.ONCE, Grade.WITHIN)
Shape = tuple[int, ...]


def pooled(shape: Shape, window: Shape, stride: Shape, pads: Shape = (0, 0, 0, 0)) -> Graph:
    attrs = {"layout": "NHWC", "window": window, "stride": stride, "padding": pads}
    sizes = [(shape[k] + pads[k] + pads[k + 2] - window[k]) // stride[k] + 1 for k in range(2)]
    x, y = activation("x", (1, *shape), 0.05, 3), activation("y", (1, *sizes, shape[2]), 0.05, 3)
    return graph_of(Op("max_pool", "op", ("x",), ("y",), attrs, ("op",)), x, y)


def mean(rows: int, columns: int, channels: int) -> Graph:
    x, y = activation("x", (1, rows, columns, channels), 0.05, -100), activation("y", (1, channels), 0.02, -90)
    return graph_of(Op("mean", "op", ("x",), ("y",), {"axes": (1, 2), "keepdims": False}, ("op",)), x, y)


def total(kind: str, scales: tuple[float, float]) -> Graph:
    x, z = (activation(name, (1, 8, 8, 16), scale, 5) for name, scale in zip("xz", scales, strict=True))
    return graph_of(Op(kind, "op", ("x", "z"), ("y",), {}, ("op",)), x, z, activation("y", (1, 8, 8, 16), 1.0, -7))


def by_channel(factors: Shape) -> Graph:
    x, y = activation("x", (1, 12, 12, len(factors)), 0.02, 9), activation("y", (1, 12, 12, len(factors)), 0.03, -11)
    slopes = constant("c", np.array(factors, np.int8), 0.013)
    return graph_of(Op("mul", "op", ("x", "c"), ("y",), {}, ("op",)), x, slopes, y)


def on_the_npu(graph: Graph) -> Compiled:
    """Compiles for what was seen: all on the NPU, no worse form, and the emulator gives what the recipe means."""
    compiled = compile_graph(graph, Options(silicon="seen"))
    assert not compiled.choices.reasons, compiled.choices.reasons[0]
    assert compiled.grades and all(epoch.grade in ALLOWED for epoch in compiled.grades)
    emulation, inputs = Emulation(compiled.program, compiled.graph), random_inputs(graph, 3)
    soil(emulation)
    got, meant = emulation.run(inputs), run_mapped(compiled.graph, compiled.mapped, inputs)
    exact = run_graph(graph, inputs)
    for name in graph.outputs:
        assert np.array_equal(got[name], meant[name])
        assert np.abs(got[name].astype(int) - exact[name].astype(int)).max() <= 1
    return compiled


CASES = {
    "maxima of 3x3 with stride 2": pooled((13, 15, 16), (3, 3), (2, 2)),
    "maxima of 3x3 with stride 2 on many columns": pooled((41, 33, 16), (3, 3), (2, 2), (0, 0, 1, 1)),
    "7x7 with stride 2": conv((256, 32), 3, 8, (7, 7), (2, 2, 3, 3), stride=(2, 2), zero=-1),
    "1x1 on one channel with a stride along the line": conv((12, 16), 1, 5, (1, 1), stride=(1, 2), zero=4),
    "the mean of more pixels than one unit takes": mean(112, 112, 8),
    "the mean of 17 pixels": mean(17, 1, 8),
    "a factor just below a power of two": total("add", (0.3, 32742 / 32768)),
    "the same with the other sign": total("sub", (0.3, 32661 / 32768)),
}


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES.keys())
def test_an_operator_stays_on_the_npu(graph: Graph) -> None:
    on_the_npu(graph)


def test_maxima_are_exact() -> None:
    graph = CASES["maxima of 3x3 with stride 2"]
    compiled, inputs = on_the_npu(graph), random_inputs(graph, 5)
    got = Emulation(compiled.program, compiled.graph).run(inputs)
    assert np.array_equal(got["y"], run_graph(graph, inputs)["y"])


@pytest.mark.parametrize(("window", "stride"), [(2, 1), (3, 1), (3, 2), (5, 2), (7, 3), (4, 4), (9, 2)])
def test_windows_grow_to_their_size(window: int, stride: int) -> None:
    """Every pixel of a window is in its maximum, and none else."""
    covered = {0}
    for far, again in Windows(0, window, stride, 4).steps():
        assert not again or far % stride == 0
        covered |= {place + far for place in covered} if again else {far}
    assert covered == set(range(window))


def test_a_stride_that_leaves_out_a_column_costs_a_copy_of_the_input_only() -> None:
    """Not windows without stride, four times as many results, and a copy of those."""
    compiled = on_the_npu(conv((24, 24), 3, 8, (3, 3), stride=(2, 2)))
    assert not any("ring" in name for name in compiled.mapped.context.buffers)


def test_factors_of_both_signs_are_in_a_table() -> None:
    """Not a stream of constants beside the codes, which flash would have to bring."""
    units = ariths(on_the_npu(by_channel((90, -120, 55, -7, 127, -127, 3, 64))))
    assert any(unit.is_vector for unit in units) and not any(unit.dual_input for unit in units)


def ariths(compiled: Compiled) -> list[ArithConfig]:
    units = (unit for step in compiled.program.steps for unit in step.plan.units.values())
    return [unit for unit in units if isinstance(unit, ArithConfig)]


def with_bias(number: int) -> Graph:
    graph = conv((8, 8), 8, 1, (1, 1), zero=0)
    bias = constant("b", np.array([number], np.int32))
    return replace(graph, tensors={**graph.tensors, "b": bias})


def test_a_single_channel_with_an_addend_at_the_end_of_its_word() -> None:
    """A unit without a table was not seen with all low words: a few biases need another addend."""
    (unit,) = ariths(compile_graph(with_bias(0)))
    quant = with_bias(0).tensors["w"].quant
    assert quant is not None
    step = 0.02 * quant.scales[0] / 0.05 * 2.0**unit.shift_out
    lows = ((65536 * unit.b + unit.c + np.arange(4000) * step + 32768) % 65536 - 32768).astype(int)
    number = int(np.flatnonzero(lows > 32600)[0])
    usual, seen = (ariths(one)[0] for one in (compile_graph(with_bias(number)), on_the_npu(with_bias(number))))
    assert usual.c > 32450 >= seen.c
    assert (seen.a, seen.b, seen.shift_out) == (usual.a, usual.b, usual.shift_out)


def test_copies_of_planes_write_pixels_with_gaps() -> None:
    """Reading every plane once and writing every third byte is fast, and published; reading byte by byte is neither."""
    x, y = activation("x", (1, 3, 48, 48), 0.05, 3), activation("y", (1, 48, 48, 3), 0.05, 3)
    compiled = on_the_npu(graph_of(Op("transpose", "op", ("x",), ("y",), {"perm": (0, 2, 3, 1)}, ("op",)), x, y))
    readers = [u for step in compiled.program.steps for u in step.plan.engines.values() if not u.config.to_memory]
    assert readers and all(use.config.raw for use in readers)
