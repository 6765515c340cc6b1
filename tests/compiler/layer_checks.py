"""A compiled program at three levels: the emulator, what its operators mean in integers, and exact arithmetic.

Emulator and meaning are equal bit for bit. Every layer stays close to exact arithmetic on the values that it really
had, or the compiler says that it is coarse. Outputs of the whole program stay within 2 codes of the source's, or the
compiler says how far they may be, or that a sum may saturate, and one did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.emu.npu import run_epoch
from atonc.hw.stream import Stream
from atonc.ir import Graph, Op
from atonc.lower.expected import Expected, expected_errors
from atonc.lower.meaning.run import run_mapped
from atonc.ops import run_graph, run_op
from atonc.options import Options
from atonc.pipeline import Compiled, compile_graph
from atonc.place import board
from atonc.place.check import check as check_layout
from atonc.plan.types import CpuPlan
from atonc.verify import Emulation

Array = NDArray[Any]

WITHIN = 2  # codes that outputs may be from the source without any remark

@dataclass(frozen=True)
class Layer:
    """How one tensor that the program holds differs from exact arithmetic, in codes."""

    op: Op
    tensor: str
    on_cpu: bool
    most: int
    different: int
    elements: int
    expected: float = 0.0  # error that the compiler reports
    saturated: bool = False  # the compiler reports that a sum may leave its 16 bits, and it was seen at their limits

    @property
    def allowed(self) -> int:
        """Where sums go through 16 bits several times the compiler reports what those roundings may amount to."""
        return 0 if self.on_cpu else max(self.limit, int(np.ceil(self.expected)))

    @property
    def limit(self) -> int:
        """What a layer may differ by when no rounding on the way counts."""
        return 0 if self.on_cpu else 2 if self.op.kind == "table" else 1


@dataclass(frozen=True)
class Output:
    """One output of the whole program against the source in exact arithmetic."""

    name: str
    most: int
    expected: int  # by the compiler
    saturated: bool  # in some layer

    @property
    def unexplained(self) -> bool:
        return self.most > max(WITHIN, self.expected) and not self.saturated


@dataclass(frozen=True)
class Outcome:
    compiled: Compiled
    layers: tuple[Layer, ...]
    outputs: Mapping[str, tuple[Array, Array]]  # what the program gives and what exact arithmetic gives
    free: tuple[Output, ...]
    unlike_meaning: tuple[str, ...]  # operators whose epochs compute something else than they mean

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
    graph = compiled.graph
    emulation = Watched(compiled.program, graph)
    _soil(emulation)
    seen = emulation.run(inputs, observe=True)
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None} | dict(inputs) | seen
    cpu = {step.plan.op for step in compiled.program.steps if isinstance(step.plan, CpuPlan)}
    aliases = compiled.mapped.context.aliases
    reported = {e.op: e for e in expected_errors(graph, compiled.mapped)}
    meant = run_mapped(graph, compiled.mapped, inputs)
    layers, unlike = [], []
    for op in graph.ops:
        for name in op.outputs:
            if name not in seen:
                values[name] = _alias(graph, values, aliases, name)
            if not np.array_equal(values[name], meant[name]):
                unlike.append(op.name)
        for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            report = reported[op.name]
            saturated = report.saturates and (op.origin or (op.name,)) in emulation.saturated
            layers.append(_layer(op, name, op.name in cpu, values[name], result.codes, report.local, saturated))
    expected = run_graph(compiled.source, inputs)
    outputs = {n: (seen[n], expected[n]) for n in graph.outputs if n in expected}
    free = tuple(_output(graph, n, *both, reported, layers) for n, both in outputs.items())
    return Outcome(compiled, tuple(layers), outputs, free, tuple(unlike))


def _output(
    graph: Graph, name: str, got: Array, wanted: Array, reported: Mapping[str, Expected], layers: list[Layer]
) -> Output:
    most = int(np.ceil(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)))
    producer = graph.producers.get(name)
    expected = int(reported[producer.name].deviation.peak) if producer else 0
    return Output(name, most, expected, any(layer.saturated for layer in layers))


class Watched(Emulation):
    """Notes for which operators a 16-bit sum was at its limits."""

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
        sums = unit.startswith(("CONVACC", "ARITH")) and values.dtype == np.int16
        if sums and np.isin(values, (-32768, 32767)).any():
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
