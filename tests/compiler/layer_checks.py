"""A compiled program at three levels: the emulator, what its operators mean in integers, and exact arithmetic.

Emulator and meaning are equal bit for bit. Every layer stays as close to exact arithmetic on the values that it really
had as the compiler says; that a sum saturated excuses no layer. Outputs of the whole program stay within 2 codes of the
source's, or the compiler says that a sum may saturate, and one on the way to them did; where layers enlarge the
roundings of those before them, the compiler says how far they may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.semantics.error_model import ExpectedError, expected_errors
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.ops import run_graph, run_op
from atonc.compiler.place import board
from atonc.compiler.place.check import check as check_layout
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.stream import Stream
from tests.compiler.amplification import Growth, Values, by_chance, growth

Array = NDArray[Any]

WITHIN = 2  # codes that outputs may be from the source without any remark
BY_CHANCE = 2  # times as far as roundings elsewhere take an output it may be


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
    saturated: bool = False  # the compiler reports that a sum may leave its bits, and it was seen at their limits
    span: int = 0  # of the codes that occur

    @property
    def allowed(self) -> int:
        """Where sums go through 16 bits several times the compiler reports what those roundings may amount to."""
        return 0 if self.on_cpu else max(self.limit, int(np.ceil(self.expected)))

    @property
    def unreported(self) -> bool:
        """Further than the compiler says, even if it is not far."""
        return not self.on_cpu and not self.saturated and self.most > np.ceil(self.expected)

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
    saturated: bool  # in a layer before it, with a visible result
    chance: int = 0  # how far as many roundings in other places take it, where it is far (amplification.py)
    growth: Growth | None = None  # the largest step on the way, where it is far

    @property
    def far(self) -> bool:
        return self.most > WITHIN and not self.saturated

    @property
    def unexplained(self) -> bool:
        """The compiler said less, or layers that enlarge roundings are not what it comes from."""
        return self.far and self.most > min(self.expected, WITHIN + BY_CHANCE * self.chance)


@dataclass(frozen=True)
class Outcome:
    compiled: Compiled
    layers: tuple[Layer, ...]
    outputs: Mapping[str, tuple[Array, Array]]  # what the program gives and what exact arithmetic gives
    free: tuple[Output, ...]
    unlike_meaning: tuple[str, ...]  # operators whose epochs compute something else than they mean

    @property
    def bad(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.most > layer.allowed]

    @property
    def saturated(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.most > layer.allowed and layer.saturated]


def compile_checked(graph: Graph, options: Options | None = None) -> Compiled:
    """Compiled, without findings of the safety rules (the pipeline raises) or of the placement check."""
    compiled = compile_graph(graph, options or Options(verify=False))
    found = check_layout(
        compiled.layout.placed,
        list(compiled.scheduled.plans),
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
    soil(emulation)
    seen = emulation.run(inputs, observe=True)
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None} | dict(inputs) | seen
    cpu = {step.plan.op for step in compiled.program.steps if isinstance(step.plan, CpuPlan)}
    aliases = compiled.mapped.context.aliases
    reported = {e.op: e for e in expected_errors(graph, compiled.mapped)}
    meant = run_mapped(graph, compiled.mapped, inputs)
    layers, unlike = [], []
    for op in graph.ops:
        for name in op.outputs:
            if name not in seen and name not in aliases:
                values[name] = meant[name]  # it flows on inside an epoch; what comes behind shows whether it did
            elif name not in seen:
                values[name] = _alias(graph, values, aliases, name)
            if not np.array_equal(values[name], meant[name]):
                unlike.append(op.name)
        for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            report = reported[op.name]
            nodes = set(op.origin or (op.name,))
            saturated = report.saturates and any(nodes <= set(origin) for origin in emulation.saturated)
            layers.append(_layer(op, name, op.name in cpu, values[name], result.codes, report.local, saturated))
    expected = run_graph(compiled.source, inputs)
    outputs = {n: (seen[n], expected[n]) for n in graph.outputs if n in expected}
    free = tuple(_output(graph, n, *both, reported, layers) for n, both in outputs.items())
    if any(output.far for output in free):
        free = _explained(graph, inputs, values, free)
    return Outcome(compiled, tuple(layers), outputs, free, tuple(unlike))


def _output(
    graph: Graph, name: str, got: Array, wanted: Array, reported: Mapping[str, ExpectedError], layers: list[Layer]
) -> Output:
    most = int(np.ceil(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)))
    producer = graph.producers.get(name)
    expected = int(reported[producer.name].deviation.peak) if producer else 0
    before = _before(graph, name)
    cut = any(layer.saturated and layer.most > layer.limit for layer in layers if layer.tensor in before)
    return Output(name, most, expected, cut)


def _explained(
    graph: Graph, inputs: Mapping[str, Array], values: Values, free: tuple[Output, ...]
) -> tuple[Output, ...]:
    wanted = run_graph(graph, inputs)
    chances = by_chance(graph, inputs, values, wanted)
    steps = {o.name: growth(graph, values, wanted, o.name) for o in free if o.far}
    return tuple(replace(o, chance=chances[o.name], growth=steps[o.name]) if o.far else o for o in free)


def _before(graph: Graph, name: str) -> set[str]:
    """All tensors that an output depends on, with itself."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        now = waiting.pop()
        if now not in found:
            found.add(now)
            producer = graph.producers.get(now)
            waiting += [n for n in producer.inputs if n] if producer else []
    return found


class Watched(Emulation):
    """Notes for which operators a sum was at its limits: 16 bits, or 24 between units."""

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        for name, value in inputs.items():
            self.store(name, value)
        self.saturated: set[tuple[str, ...]] = set()
        seen: dict[str, Array] = {}
        for step in self.program.steps:
            if isinstance(step.plan, CpuPlan):
                self._code.run(step, step.plan, self._buffers(step.plan))
            elif step.epoch is not None:
                run_epoch(step.epoch, self.memory, partial(self._watch, step.plan.origin))
            seen |= {n: self.load(n) for n in step.plan.writes() if n in self.graph.tensors}
        return seen | {name: self.load(name) for name in self.graph.outputs}

    def _watch(self, origin: tuple[str, ...], unit: str, stream: Stream) -> None:
        values = stream.data
        limits = {"int16": (-32768, 32767), "int32": (-(1 << 23), (1 << 23) - 1)}.get(str(values.dtype), ())
        if unit.startswith(("CONVACC", "ARITH")) and limits and np.isin(values, limits).any():
            self.saturated.add(origin)


def soil(emulation: Emulation) -> None:
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
    span = int(got.max(initial=-128)) - int(got.min(initial=127)) if got.dtype == np.int8 else 0
    return Layer(op, name, on_cpu, most, different, got.size, error, saturated, span)
