"""Every layer of a compiled program against exact arithmetic on the values that the program really had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.emu.npu import run_epoch
from atonc.hw.stream import Stream
from atonc.hw.units.convacc import ConvaccConfig
from atonc.ir import Graph, Op
from atonc.ops import run_op
from atonc.options import Options
from atonc.pipeline import Compiled, compile_graph
from atonc.place import board
from atonc.place.check import check as check_layout
from atonc.plan.types import CpuPlan, EpochPlan
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
    sum_error: float = 0.0  # codes that 16-bit sums on the way may cost
    saturated: bool = False  # such a sum met its limits: reported, and no rounding explains what it costs

    @property
    def allowed(self) -> int:
        """Where sums go through 16 bits several times, what those roundings can amount to comes on top."""
        if self.on_cpu:
            return 0
        return (2 if self.op.kind == "table" else 1) + int(np.ceil(self.sum_error))

    @property
    def limit(self) -> int:
        """What a layer may differ by when no rounding on the way counts."""
        return 0 if self.on_cpu else 2 if self.op.kind == "table" else 1


@dataclass(frozen=True)
class Outcome:
    compiled: Compiled
    layers: tuple[Layer, ...]
    outputs: Mapping[str, tuple[Array, Array]]  # what the program gives and what exact arithmetic gives

    @property
    def bad(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.most > layer.allowed and not layer.saturated]

    @property
    def saturated(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.most > layer.allowed and layer.saturated]


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
    emulation = Watched(compiled.program, graph)
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
            error = sum_error(compiled, op)
            saturated = error > 0 and (op.origin or (op.name,)) in emulation.saturated
            layers.append(_layer(op, name, op.name in cpu, values[name], result.codes, error, saturated))
    expected = run_graph(compiled.source, inputs)
    outputs = {n: (seen[n], expected[n]) for n in graph.outputs if n in expected}
    return Outcome(compiled, tuple(layers), outputs)


class Watched(Emulation):
    """Notes for which operators a 16-bit sum of a CONVACC was at its limits."""

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        for name, value in inputs.items():
            self.store(name, value)
        self.saturated: set[tuple[str, ...]] = set()
        seen: dict[str, Array] = {}
        for step in self.program.steps:
            if isinstance(step.plan, CpuPlan):
                self._cpu(step.plan)
            elif step.epoch is not None:
                run_epoch(step.epoch, self.memory, partial(self._watch, step.plan.origin))
            seen |= {n: self.load(n) for n in step.plan.writes() if n in self.graph.tensors}
        return seen | {name: self.load(name) for name in self.graph.outputs}

    def _watch(self, origin: tuple[str, ...], unit: str, stream: Stream) -> None:
        values = stream.data
        if unit.startswith("CONVACC") and values.dtype == np.int16 and np.isin(values, (-32768, 32767)).any():
            self.saturated.add(origin)


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


def _layer(op: Op, name: str, on_cpu: bool, got: Array, expected: Array, error: float, saturated: bool) -> Layer:
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    most, different = int(np.ceil(difference.max(initial=0))), int((difference > 0).sum())
    return Layer(op, name, on_cpu, most, different, got.size, error, saturated)


def sum_error(compiled: Compiled, op: Op) -> float:
    """Half a step of the 16-bit accumulator for every rounding, in codes; 0 where there is only the last one."""
    if op.kind not in ("conv", "dense"):
        return 0.0
    origin = op.origin or (op.name,)
    plans = [p for p in compiled.mapped.plans if isinstance(p, EpochPlan) and p.origin == origin]
    units = [u for p in plans for u in p.units.values() if isinstance(u, ConvaccConfig)]
    parts = sum(1 for p in plans if p.title.startswith("part of"))
    roundings = max(1, parts) * max((max(1, u.frames_per_sum) for u in units), default=1)
    if roundings == 1:
        return 0.0
    x, weights, y = (compiled.graph.tensors[n] for n in (op.inputs[0], op.inputs[1], op.outputs[0]))
    step = x.scale * float(weights.quant.scales.max()) / y.scale * 2.0 ** max(u.out_shift for u in units)  # type: ignore[union-attr]
    return 0.5 * roundings * step
