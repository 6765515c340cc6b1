"""With `--silicon seen`, operators that move values stay on the NPU, in forms that published programs have."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph, target_of
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.elementwise.function import function_for
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.lower.units.arith import clip_unit
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Grade
from tests.lower.harness import activation, constant, graph_of

TRUSTED = {Grade.SEEN, Grade.ONCE, Grade.WITHIN}


def compiled_as_seen(graph: Graph) -> Compiled:
    """All of it on the NPU, in forms that are seen, and with the bits that these mean."""
    compiled = compile_graph(graph, Options(silicon="seen", verify=False))
    assert not compiled.choices.reasons
    assert compiled.grades and {epoch.grade for epoch in compiled.grades} <= TRUSTED
    inputs = make_inputs(compiled.graph, 1)
    got = Emulation(compiled.program, compiled.graph).run(inputs)
    reference = run_mapped(compiled.graph, compiled.mapped, inputs)
    assert all(np.array_equal(got[name], reference[name]) for name in compiled.graph.outputs)
    return compiled


def head(size: int) -> Graph:
    """Box, score and class of every pixel, as detectors put them together."""
    depths = {"box": 4, "score": 1, "class": 1}
    parts = [activation(name, (1, size, size, depth), 0.1, 30) for name, depth in depths.items()]
    op = Op("concat", "concat", tuple(depths), ("y",), {"axis": 3})
    return graph_of(op, *parts, activation("y", (1, size, size, 6), 0.1, 30))


@pytest.mark.parametrize("size", [6, 24])
def test_single_channels_pass_an_arith(size: int) -> None:
    """No published engine writes scattered bytes as they come from another one; behind an ARITH many do."""
    compiled = compiled_as_seen(head(size))
    assert len(compiled.program.epochs) <= 3  # one for each part at most


def requantised(scale: float) -> Graph:
    x, y = activation("x", (1, 8, 8, 3), 1 / 255, -128), activation("y", (1, 8, 8, 3), scale, -128)
    return graph_of(Op("requantize", "requantize", ("x",), ("y",), {}), x, y)


def sigmoid() -> Graph:
    """Steep enough for a coefficient that no published table has, where the shifts are the finest."""
    x = (np.arange(-128, 128) + 17) * 0.26874762773513794
    codes = np.clip(np.rint(256 / (1 + np.exp(-x))) - 128, -128, 127).astype(int)
    tensors = activation("x", (1, 8), 0.26874762773513794, -17), activation("y", (1, 8), 1 / 256, -128)
    return graph_of(Op("table", "table", ("x",), ("y",), {"table": tuple(codes.tolist())}), *tensors)


def swish() -> Graph:
    """With the finest shifts it needs larger coefficients than published tables have."""
    x = (np.arange(-128, 128) - 33) * 0.2448
    codes = np.clip(np.rint(x / (1 + np.exp(-x)) / 0.09116) - 125, -128, 127).astype(int)
    tensors = activation("x", (1, 8), 0.2448, 33), activation("y", (1, 8), 0.09116, -125)
    return graph_of(Op("table", "table", ("x",), ("y",), {"table": tuple(codes.tolist())}), *tensors)


def prelu(low: int) -> Graph:
    """Slopes per channel, from `low` on."""
    slopes = np.linspace(low, 100, 16).astype(np.int8).reshape(1, 1, 16)
    x, y = activation("x", (1, 6, 6, 16), 0.05, 7), activation("y", (1, 6, 6, 16), 0.04, -9)
    return graph_of(Op("prelu", "prelu", ("x", "slope"), ("y",), {}), x, constant("slope", slopes, 0.01), y)


def pair(kind: str, zero: int = -9, **attrs: object) -> Graph:
    shape = (1, 6, 6, 16)
    tensors = activation("a", shape, 0.05, 3), activation("b", shape, 0.03, -20), activation("y", shape, 0.07, zero)
    return graph_of(Op(kind, kind, ("a", "b"), ("y",), attrs), *tensors)


def with_constants(kind: str) -> Graph:
    """One for each channel, whose zero point makes offsets that no published unit has."""
    shape, codes = (1, 6, 6, 16), np.arange(1, 17).astype(np.int8).reshape(1, 1, 1, 16)
    tensors = activation("a", shape, 0.05, 3), constant("b", codes, 0.03), activation("y", shape, 0.07, -9)
    return graph_of(Op(kind, kind, ("a", "b"), ("y",), {}), *tensors)


PAIRS = {
    "a sum above a limit": pair("add", clip=(-9, 127)),
    "a sum between limits": pair("add", clip=(-9, 77)),
    "a difference below a limit": pair("sub", -128, clip=(-128, 100)),
    "minimum": pair("minimum"),
    "maximum": pair("maximum"),
    "maximum above a limit": pair("maximum", clip=(-9, 127)),
    **{f"{kind} of constants": with_constants(kind) for kind in ("add", "mul", "maximum")},
}


@pytest.mark.parametrize("graph", PAIRS.values(), ids=PAIRS.keys())
def test_pairs_take_units_as_seen(graph: Graph) -> None:
    compiled_as_seen(graph)


FUNCTIONS = {
    "codes that stay": requantised(1 / 255 + 1e-9),  # scales that differ in their last bits
    "codes up to a limit": requantised(1 / 200),
    "a steep function": sigmoid(),
    "a function with large coefficients": swish(),
    "slopes of either sign": prelu(-90),
    "slopes of one sign": prelu(5),
}


@pytest.mark.parametrize("graph", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_functions_take_units_as_seen(graph: Graph) -> None:
    compiled_as_seen(graph)


def test_functions_stay_as_they_are_where_composed_forms_may_be_used() -> None:
    same = np.arange(-128, 128)
    seen = target_of(Options(silicon="seen")).trust
    assert function_for(same).units == (clip_unit(-128, 127),)
    assert function_for(same, seen).units != (clip_unit(-128, 127),)
    assert np.array_equal(function_for(same, seen).codes, same)
