"""Every layer of a program on the inputs that it really had, against exact arithmetic.

How far it may be is what the compiler declares: one code (two for function tables), or more where sums go through 16
bits several times. A layer whose sums may saturate, or that rounds in the vendor's steps (`--numerics 2.x`), is right
if it gives what its epochs mean, value for value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from atonc.compare.subgraph import code_size
from atonc.emit.program import Program
from atonc.emulation import Emulation
from atonc.ir import Array, Graph, Op
from atonc.lower.expected import Declared, declared_errors
from atonc.lower.map_ops import Mapped
from atonc.lower.meaning.run import mapped_op
from atonc.ops import run_op, start_values
from atonc.plan.types import CpuPlan

if TYPE_CHECKING:
    from atonc.pipeline import Compiled

LIMIT, TABLE_LIMIT = 1.0, 2.0  # codes
FLOAT_NOISE = 1e-3  # of a code: memory holds float32

Limits = Mapping[str, Declared]


@dataclass(frozen=True)
class LayerCheck:
    """One tensor that the program holds, in codes."""

    tensor: str
    kind: str
    node: str
    step: int | None  # None: nothing writes it
    on_cpu: bool
    through: int  # operators since the last observed tensors
    max_diff: float
    differ_percent: float
    limit: float

    @property
    def bad(self) -> bool:
        return not self.max_diff <= self.limit  # what is not a number is bad


def declared_limits(graph: Graph, mapped: Mapped) -> Limits:
    """By operator: how far it may be, and whether it may saturate."""
    return {op.name: replace(found, local=_limit(op, found)) for op, found in declared_errors(graph, mapped)}


def _limit(op: Op, declared: Declared) -> float:
    if declared.on_cpu:
        return 0.0
    return max(TABLE_LIMIT if op.kind == "table" else LIMIT, float(ceil(declared.local)))


def check_program(compiled: Compiled, emulation: Emulation, inputs: Mapping[str, Array]) -> list[LayerCheck]:
    """Runs it once; `inputs` as the program takes them."""
    limits = declared_limits(compiled.graph, compiled.mapped)
    observed = emulation.run(inputs, observe=True)
    return check_layers(compiled.program, compiled.graph, compiled.mapped, limits, inputs, observed)


def check_layers(
    program: Program,
    graph: Graph,
    mapped: Mapped,
    limits: Limits,
    inputs: Mapping[str, Array],
    observed: Mapping[str, Array],
) -> list[LayerCheck]:
    """Every tensor of the canonical graph that lies in memory, in the order of the operators; then the outputs that no
    operator computes. `observed`: all tensors as the program left them."""
    written = {name: step for step in program.steps for name in step.plan.writes()}
    held = {name: value for name, value in observed.items() if name in written or name in graph.outputs}
    layers = []
    for forced in forced_run(graph, inputs, held):
        op, limit = forced.op, limits[forced.op.name]
        step = written.get(forced.name)
        check = replace(
            _compared(graph, forced.name, held[forced.name], forced.exact),
            kind=op.kind,
            node=", ".join(op.origin) or op.name,
            step=step.number if step is not None else None,
            on_cpu=step is not None and isinstance(step.plan, CpuPlan),
            through=forced.through,
            limit=limit.local,
        )
        if check.bad and _is_coarse(mapped, limit) and _as_meant(mapped, forced, held[forced.name]):
            check = replace(check, limit=check.max_diff)
        layers.append(check)
    start, computed = start_values(graph, inputs), {name for op in graph.ops for name in op.outputs}
    plain = [name for name in graph.outputs if name not in computed]
    return layers + [_compared(graph, name, observed[name], start[name]) for name in plain]


@dataclass(frozen=True, eq=False)
class Forced:
    """One result of an operator in exact arithmetic, on inputs as somebody else has them."""

    op: Op
    name: str
    given: Mapping[str, Array]
    exact: Array
    through: int  # operators since the last values of somebody else


def forced_run(graph: Graph, inputs: Mapping[str, Array], held: Mapping[str, Array]) -> Iterator[Forced]:
    """The graph, in which every tensor that somebody else has is compared and then replaced by it."""
    values, distance = start_values(graph, inputs), dict[str, int]()
    last = {name: op.name for op in graph.ops for name in op.inputs}
    for op in graph.ops:
        through = 1 + max((distance.get(name, 0) for name in op.inputs), default=0)
        given = {name: values[name] for name in op.inputs if name}
        for name, result in zip(op.outputs, run_op(graph, op, given), strict=True):
            values[name], distance[name] = result.codes, through
            if name in held:
                yield Forced(op, name, given, result.codes, through)
                values[name], distance[name] = held[name].reshape(result.codes.shape), 0
        for name in given:
            if last[name] == op.name and name not in graph.outputs:
                values.pop(name, None)  # pictures need room


def differences(graph: Graph, name: str, got: Array, expected: Array) -> Array:
    """In codes."""
    tensor = graph.tensors[name]
    with np.errstate(invalid="ignore"):  # equal infinities
        found: Array = np.abs(got.astype(np.float64) - expected) / code_size(graph, tensor, expected)
    if tensor.is_float:
        same = (got == expected) | (np.isnan(got) & np.isnan(expected)) | (found < FLOAT_NOISE)
        found = np.where(same, 0.0, found)
    return found


def _compared(graph: Graph, name: str, got: Array, expected: Array) -> LayerCheck:
    tensor, difference = graph.tensors[name], differences(graph, name, got, expected)
    worst = float(difference.max(initial=0.0))
    differ = 100.0 * float((difference != 0).mean()) if difference.size else 0.0
    kind = "constant" if tensor.is_constant else "input"
    return LayerCheck(name, kind, name, None, False, 0, worst, differ, 0.0)


def _is_coarse(mapped: Mapped, limit: Declared) -> bool:
    """Sums that may saturate, and layers that round in the vendor's steps because the user wants them."""
    return not limit.on_cpu and (limit.saturates or mapped.context.numerics == "2.x")


def _as_meant(mapped: Mapped, forced: Forced, got: Array) -> bool:
    meant = dict(zip(forced.op.outputs, mapped_op(mapped.context, forced.op, forced.given), strict=True))
    return np.array_equal(meant[forced.name].reshape(got.shape), got)
