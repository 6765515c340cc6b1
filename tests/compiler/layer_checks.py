"""Every layer of a compiled program against exact arithmetic on the values that the program really had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.ir import Graph, Op
from atonc.ops import run_op
from atonc.options import Options
from atonc.pipeline import Compiled, compile_graph
from atonc.place import board
from atonc.place.check import check as check_layout
from atonc.plan.types import CpuPlan
from atonc.verify import Emulation

Array = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """How one tensor that the program holds differs from exact arithmetic, in codes."""

    op: Op
    tensor: str
    on_cpu: bool
    most: int
    different: int
    elements: int

    @property
    def allowed(self) -> int:
        if self.on_cpu:
            return 0
        return 2 if self.op.kind == "table" else 1


@dataclass(frozen=True)
class Outcome:
    compiled: Compiled
    layers: tuple[Layer, ...]
    outputs: Mapping[str, tuple[Array, Array]]  # what the program gives and what exact arithmetic gives

    @property
    def bad(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.most > layer.allowed]


def compile_checked(graph: Graph, options: Options | None = None) -> Compiled:
    """Compiled, without findings of the safety rules (the pipeline raises) or of the placement check."""
    compiled = compile_graph(graph, options or Options(verify=False))
    found = check_layout(
        compiled.layout.placed,
        list(compiled.mapped.plans),
        board("stm32n6570-dk"),
        compiled.mapped.context.aliases,
        compiled.graph.inputs,
        compiled.graph.outputs,
    )
    if found:
        raise AssertionError(f"placement: {found[0]} ({len(found)} findings)")
    return compiled


def run_checked(compiled: Compiled, inputs: Mapping[str, Array]) -> Outcome:
    from atonc.ops import run_graph

    graph = compiled.graph
    emulation = Emulation(compiled.program, graph)
    _soil(emulation)
    seen = emulation.run(inputs, observe=True)
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None} | dict(inputs) | seen
    cpu = {step.plan.op for step in compiled.program.steps if isinstance(step.plan, CpuPlan)}
    aliases = compiled.mapped.context.aliases
    layers = []
    for op in graph.ops:
        for name in op.outputs:
            if name not in seen:
                values[name] = _alias(graph, values, aliases, name)
        for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            layers.append(_layer(op, name, op.name in cpu, values[name], result.codes))
    expected = run_graph(compiled.source, inputs)
    outputs = {n: (seen[n], expected[n]) for n in graph.outputs if n in expected}
    return Outcome(compiled, tuple(layers), outputs)


def _soil(emulation: Emulation) -> None:
    """Nothing may rely on memory that starts with zeros."""
    placed = emulation.program.placed.values()
    rng = np.random.default_rng(1)
    for home in placed:
        if not home.buffer.data:
            emulation.memory.write(home.address, rng.integers(0, 256, home.buffer.size_bytes, dtype=np.uint8))


def _alias(graph: Graph, values: Mapping[str, Array], aliases: Mapping[str, str], name: str) -> Array:
    owner = name
    while owner in aliases and (owner == name or owner not in values):
        owner = aliases[owner]
    return values[owner].reshape(graph.tensors[name].shape)


def _layer(op: Op, name: str, on_cpu: bool, got: Array, expected: Array) -> Layer:
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    return Layer(op, name, on_cpu, int(np.ceil(difference.max(initial=0))), int((difference > 0).sum()), got.size)
