"""Does a program compute what the model says? The judge is every layer, on the inputs that it really had, against exact
arithmetic; the outputs of the whole are shown beside it. A network may be chaotic, so that its outputs differ widely
between any two ways to round. No layer is.

How far it may be is what the compiler declares: one code (two for function tables), or two where sums go through 16
bits several times; more only if the user asks for it (`--allow-coarse`). Only a layer that rounds in the vendor's steps
(`--numerics 2.x`) is right as well if it gives what its epochs mean, value for value; the report says so.

What flows from one operator to the next inside an epoch lies nowhere. It is taken as what the first one means, which is
compared with exact arithmetic like any other layer; the second one, on these values, shows in memory whether that is
what really flowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import ceil, inf
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.compare.inputs import make_extremes, make_inputs
from atonc.compiler.compare.layers import code_size, steps_behind
from atonc.compiler.compare.metrics import cosine
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.ir import Array, Graph, Op, layer_name
from atonc.compiler.lower.context import error_step
from atonc.compiler.lower.map_ops import Mapped
from atonc.compiler.lower.semantics.error_model import Declared, declared_errors
from atonc.compiler.lower.semantics.run import mapped_op
from atonc.compiler.lower.semantics.sums import Layered, room_seen
from atonc.compiler.lower.sixteen.sums import TwoHalves
from atonc.compiler.ops import run_graph, run_op, start_values
from atonc.compiler.plan.policy import MOST_CODES
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.verify import CoarserThanDeclared
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.report import LayerCheck, OutputCheck, VerifyReport
from atonc.machine.base.errors import VerificationError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.base.words import count
from atonc.machine.hw.mpool import MemoryPool

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled

LIMIT, TABLE_LIMIT = 1.0, 2.0  # codes
MEANT_VALUES = 1 << 13  # of a layer whose meaning is looked at: larger ones would cost more than they tell
FLOAT_NOISE, FLOAT_STEPS = 1e-3, 4 * 2.0**-24  # of a code, and of a value: memory holds float32, rounded a few times


@dataclass(frozen=True, eq=False)
class Layers:
    """A program and what it was made from."""

    program: Program
    graph: Graph
    mapped: Mapped

    @classmethod
    def of(cls, compiled: Compiled) -> Layers:
        return cls(compiled.program, compiled.graph, compiled.mapped)

    def check(
        self, inputs: Mapping[str, Array], observed: Mapping[str, Array], semantics: bool = False
    ) -> list[LayerCheck]:
        """Every tensor that lies in memory, in the order of the operators; then the outputs that no operator computes.
        `observed`: all tensors as the program left them. `semantics`: layers of the NPU also against what they mean,
        bit by bit."""
        held = self._held(observed)
        runs = forced_run(self.graph, inputs, held, self._flowing)
        layers = [
            self._layer(forced, forced.got if forced.got is not None else held[forced.name], semantics)
            for forced in runs
        ]
        start, computed = start_values(self.graph, inputs), {name for op in self.graph.ops for name in op.outputs}
        plain = [name for name in self.graph.outputs if name not in computed]
        return layers + [_compared(self.graph, name, observed[name], start[name]) for name in plain]

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """Limits by operator, in codes."""
        return {name: _limit(op, found) for name, (op, found) in self._declared.items()}

    @cached_property
    def _declared(self) -> Mapping[str, tuple[Op, Declared]]:
        return {op.name: (op, found) for op, found in declared_errors(self.graph, self.mapped)}

    @cached_property
    def _written(self) -> Mapping[str, ProgramStep]:
        """The last step that writes each buffer."""
        return {name: step for step in self.program.steps for name in step.plan.writes()}

    def _flowing(self, op: Op, given: Mapping[str, Array]) -> list[Array] | None:
        """Results that no step writes, though tasks of the NPU compute them: as they are meant."""
        form = self.mapped.forms.get(op.name)
        if form is None or not any(group.tasks for group in form.groups):
            return None
        if any(self._owner(name) in self._written or name in self.graph.outputs for name in op.outputs):
            return None
        return mapped_op(self.mapped.context, op, given)

    def _owner(self, name: str) -> str:
        """The buffer in which a tensor lies."""
        aliases = self.mapped.context.aliases
        while name not in self._written and name in aliases:
            name = aliases[name]
        return name

    def _held(self, observed: Mapping[str, Array]) -> dict[str, Array]:
        held = {name: observed[name] for name in self.graph.outputs}
        for name, tensor in self.graph.tensors.items():
            owner = self._owner(name)
            if name not in held and owner in self._written and owner in observed:
                held[name] = observed[owner].reshape(tensor.shape)
        return held

    def _layer(self, forced: Forced, got: Array, semantics: bool) -> LayerCheck:
        op, limit = forced.op, self.limits[forced.op.name]
        step = self._written.get(self._owner(forced.name))
        check = replace(
            _compared(self.graph, forced.name, got, forced.exact),
            kind=op.kind,
            node=layer_name(op),
            step=step.number if step is not None else None,
            on_cpu=step is not None and isinstance(step.plan, CpuPlan),
            through=forced.through,
            limit=limit,
            chained=forced.got is not None,
            room=self._room(op, forced.given),
            op=op.name,
            declared=self._declared[op.name][1].local,
        )
        if check.bad and self._vendors(op) and _as_meant(self.mapped, forced, got):
            check = replace(check, limit=check.max_diff, as_vendor=True)
        elif check.bad and step is not None and not check.on_cpu and forced.through == 1:
            check = replace(check, own=_as_meant(self.mapped, forced, got))
        elif semantics and step is not None and not check.on_cpu and forced.through == 1 and got.size <= MEANT_VALUES:
            check = replace(check, meant=_as_meant(self.mapped, forced, got))
        return check

    def _vendors(self, op: Op) -> bool:
        return self.mapped.context.numerics == "2.x" and op.name not in self.mapped.reason_of

    def _room(self, op: Op, given: Mapping[str, Array]) -> float:
        """On the inputs that it really had, where some input could take its sums too far."""
        meaning = self.mapped.context.semantics.get(op.name)
        if meaning is None or not meaning.saturates:
            return inf
        layers = meaning.codes.halves if isinstance(meaning.codes, TwoHalves) else (meaning,)
        rooms = (room_seen(one.codes, [given[op.inputs[0]]]) for one in layers if isinstance(one.codes, Layered))
        return min(rooms, default=inf)


def check_program(compiled: Compiled, emulation: Emulation, inputs: Mapping[str, Array]) -> list[LayerCheck]:
    """Runs it once; `inputs` as the program takes them."""
    return Layers.of(compiled).check(inputs, emulation.run(inputs, observe=True))


def _limit(op: Op, declared: Declared) -> float:
    if declared.on_cpu:
        return declared.local
    return max(TABLE_LIMIT if op.kind == "table" else LIMIT, float(ceil(declared.local)))


@dataclass(frozen=True, eq=False)
class Forced:
    """One result of an operator in exact arithmetic, on inputs as somebody else has them."""

    op: Op
    name: str
    given: Mapping[str, Array]
    exact: Array
    through: int  # operators since the last values of somebody else
    got: Array | None = None  # what it means, where nobody has it


Flowing = Callable[[Op, Mapping[str, Array]], list[Array] | None]


def forced_run(
    graph: Graph, inputs: Mapping[str, Array], held: Mapping[str, Array], flowing: Flowing = lambda op, given: None
) -> Iterator[Forced]:
    """The graph, in which every tensor that somebody else has is compared and then replaced by it. `flowing` gives
    results that nobody keeps, where that is known."""
    values, distance = start_values(graph, inputs), dict[str, int]()
    last = {name: number for number, op in enumerate(graph.ops) for name in op.inputs}  # names of operators repeat
    for number, op in enumerate(graph.ops):
        stage("comparing layers with exact arithmetic", number, len(graph.ops))
        through = 1 + max((distance.get(name, 0) for name in op.inputs), default=0)
        given = {name: values[name] for name in op.inputs if name}
        meant = dict(zip(op.outputs, flowing(op, given) or (), strict=False))
        for name, result in zip(op.outputs, run_op(graph, op, given), strict=True):
            values[name], distance[name] = result.codes, through
            if name in held or name in meant:
                yield Forced(op, name, given, result.codes, through, None if name in held else meant[name])
                found = held[name] if name in held else meant[name]
                values[name], distance[name] = found.reshape(result.codes.shape), 0
        for name in given:
            if last[name] == number and name not in graph.outputs:
                values.pop(name, None)  # pictures need room


def differences(graph: Graph, name: str, got: Array, expected: Array) -> Array:
    """Measures differences in codes."""
    tensor = graph.tensors[name]
    with np.errstate(invalid="ignore"):  # equal infinities
        apart = np.abs(got.astype(np.float64) - expected)
        found: Array = apart / code_size(graph, tensor, expected)
        rounded = (found < FLOAT_NOISE) | (apart <= FLOAT_STEPS * np.abs(expected))
    if tensor.is_float:
        with np.errstate(over="ignore"):
            stored = expected.astype(tensor.dtype)  # beyond its largest number it is infinite
        same = (got == expected) | (got == stored) | (np.isnan(got) & np.isnan(expected)) | rounded
        found = np.where(same, 0.0, found)
    return found


def _compared(graph: Graph, name: str, got: Array, expected: Array) -> LayerCheck:
    tensor, difference = graph.tensors[name], differences(graph, name, got, expected)
    worst = float(difference.max(initial=0.0))
    differ = 100.0 * float((difference != 0).mean()) if difference.size else 0.0
    kind = "constant" if tensor.is_constant else "input"
    return LayerCheck(
        tensor=name,
        kind=kind,
        node=name,
        step=None,
        on_cpu=False,
        through=0,
        max_diff=worst,
        differ_percent=differ,
        limit=0.0,
        poor=worst > MOST_CODES * error_step(tensor),
        is_wide=tensor.dtype == "int16",
    )


def _as_meant(mapped: Mapped, forced: Forced, got: Array) -> bool:
    meant = dict(zip(forced.op.outputs, mapped_op(mapped.context, forced.op, forced.given), strict=True))
    return np.array_equal(meant[forced.name].reshape(got.shape), got)


NATURAL = 2  # inputs
LARGE = 4_000_000  # values of all tensors together: a run takes more than a second from about here on


def verify(
    program: Program,
    graph: Graph,
    mapped: Mapped,
    seed: int = 0,
    given: Sequence[Mapping[str, Array]] = (),
    pools: Iterable[MemoryPool] = (),
) -> VerifyReport:
    """At least two different inputs, and those that the user gave; a program with a layer that is not what it should be
    raises. `pools`: in which addresses of C code are counted."""
    emulation = Emulation(program, graph, pools)
    judge = Layers(program, graph, mapped)
    pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in graph.outputs}
    layers: list[LayerCheck] = []
    samples = [*_synthetic(graph, seed), *given]
    for number, inputs in enumerate(samples):
        got = emulation.run(inputs, observe=True)
        layers += judge.check(inputs, got, semantics=number == 0)
        require_right(layers)
        expected = run_graph(graph, inputs)
        for name in graph.outputs:
            pairs[name].append((got[name], expected[name]))
        del expected  # all tensors of the network, before the next input
    worst = max((layer.max_diff for layer in layers), default=0.0)
    outputs = tuple(_check(graph, name, pairs[name]) for name in graph.outputs)
    compared = len(layers) // len(samples)
    return VerifyReport(len(samples), outputs, len(graph.ops), worst, _worst(layers), compared)


def _synthetic(graph: Graph, seed: int) -> list[dict[str, Array]]:
    """Two that look like nature and one that drives sums towards their extremes; of large networks, whose runs take
    seconds each, one of both kinds."""
    elements = sum(tensor.elements for tensor in graph.tensors.values() if not tensor.is_constant)
    natural = NATURAL if elements < LARGE else 1
    return [*(make_inputs(graph, seed + k) for k in range(natural)), make_extremes(graph, seed)]


def _worst(layers: list[LayerCheck]) -> tuple[LayerCheck, ...]:
    """One check a tensor."""
    found: dict[str, LayerCheck] = {}
    for layer in layers:
        known = found.setdefault(layer.tensor, layer)
        worse = (layer.max_diff, layer.differ_percent) > (known.max_diff, known.differ_percent)
        found[layer.tensor] = replace(layer if worse else known, room=min(layer.room, known.room))
    return tuple(found.values())


def require_right(layers: list[LayerCheck]) -> None:
    bad = [layer for layer in layers if layer.bad]
    if not bad:
        return
    first = bad[0]
    step = "which no epoch writes" if first.step is None else f"of epoch {first.step}"
    if not first.meant:
        raise VerificationError(
            f"{first.kind} gives {first.tensor!r}, {step}, with other codes than its mapping says",
            where=first.node,
            rule="epochs compute, bit by bit, the integer function that the operator was mapped to",
            remedy="report the model: nothing was written, because the compiler and its program disagree",
        )
    error = partial(CoarserThanDeclared, first) if first.own else VerificationError
    raise error(
        f"{first.kind} gives {first.tensor!r}, {step}, {count(first.max_diff, 'code')} from exact arithmetic"
        + (f" ({len(bad)} such tensors)" if len(bad) > 1 else ""),
        where=first.node,
        rule=f"a layer is at most {count(first.limit, 'code')} from exact arithmetic on the inputs that it really has",
        remedy=_remedy(first),
    )


def _remedy(layer: LayerCheck) -> str:
    if layer.room < 1:
        return (
            f"its sums reach {1 / layer.room:.2g} times what units hand on: compile with --calibration and inputs like "
            f"this one, or with --on cpu {layer.node}"
        )
    wrong = "nothing was written, because the program would compute wrong numbers"
    elsewhere = "" if layer.on_cpu else f"compile with --on cpu {layer.node}, and "
    return f"{elsewhere}report the model: {wrong}"


def apart(got: Array, expected: Array) -> Array:
    """Differences; equal infinities have none, and what is not a number is equal to itself."""
    with np.errstate(invalid="ignore"):
        difference: Array = np.abs(got.astype(np.float64) - expected)
        difference[(got == expected) | (np.isnan(difference) & np.isnan(got) & np.isnan(expected))] = 0.0
    return difference


def _check(graph: Graph, name: str, pairs: list[tuple[Array, Array]]) -> OutputCheck:
    """One array of differences at a time: outputs may be images."""
    tensor, largest, equal, close, count = graph.tensors[name], 0.0, 0, 0, 0
    together = [np.concatenate([np.ravel(pair[side]) for pair in pairs]) for side in (0, 1)]
    numbers = np.isfinite(together[1])
    finite = together[1][numbers]
    unit = code_size(graph, tensor, finite, steps_behind(graph, name))
    for got, expected in pairs:
        difference = apart(np.ravel(got), np.ravel(expected)) / unit
        largest = float(np.maximum(largest, difference.max(initial=0.0)))
        equal += int(np.count_nonzero(difference == 0))
        close += int(np.count_nonzero(difference <= 1))
        count += difference.size
    del difference
    of, real = max(1, count), unit if tensor.is_float else tensor.scale if tensor.quant is not None else 1.0
    span = (float(finite.max()) - float(finite.min())) * (1.0 if tensor.is_float else real) if finite.size else 0.0
    shares = 100.0 * (equal / of), 100.0 * (close / of)
    alike = cosine(*(values[numbers] for values in together))
    return OutputCheck(name, alike, largest, *shares, largest * real, span, count > finite.size == 0, tensor.is_float)
