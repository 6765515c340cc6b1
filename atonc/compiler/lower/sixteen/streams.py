"""Codes of 16 bits as two tensors of bytes, x = 256 * high + low + 128, both signed; as rows through ARITHs; and their
weighted sums.

One ARITH gives the high bytes, a second one what they leave over. The low bytes count from -128 on, so they are codes
with that zero point. High bytes of numbers that are never negative look the same without a sign, which is how
convolvers read features fastest: then they count as codes from -128 on, stored as code + 128.

No published ARITH clips results of 16 bits. Saturation does: numbers are moved until the limit is an end of the format,
and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import floor, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.wide_results import SCALAR
from atonc.compiler.lower.conv.wide_windows import SUM
from atonc.compiler.lower.registry import Refusal, recipe_for
from atonc.compiler.lower.semantics.arithmetic import Ints, limited, shifted
from atonc.compiler.lower.units.arith import Affine, AffinePair, affine_unit, pair_unit
from atonc.compiler.lower.units.wiring import parts
from atonc.compiler.ops.registry import is_move
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.coarse import HIGHEST, LOWEST
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.choose import attempt
from atonc.compiler.select.form import RefusedForm, Semantics
from atonc.compiler.select.rules import SCALES, WIDE_CLIP, WIDE_CODES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_WIDE_SHIFT, UNITS
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

Codes = NDArray[Any]

HIGH, LOW = "high bytes", "low bytes"
ZERO = -128  # code of a low byte of 0
# floor(x / 256): half a code less than a multiple of 256 is never in the middle between two
_HIGH = affine_unit(Affine(np.array([1 << 14]), np.array([-255 << 13]), 22), 0, in_bytes=2)
_LOW = pair_unit(AffinePair(64, -64 * 256, 64 * ZERO, 0, 0, 0, 6), bytes_x=2, bytes_y=1)  # x - 256 * high - 128


@dataclass(frozen=True, eq=False)
class Halves:
    """The bytes of a tensor, and the tasks that write them, if nobody did before."""

    high: Tensor
    low: Tensor
    groups: tuple[TaskGroup, ...]

    def codes(self, half: Tensor) -> Callable[[Codes], Codes]:
        """From numbers of 16 bits to the codes of one of both."""
        return partial(low_codes if half is self.low else high_codes, zero=half.zero_point)


def high_codes(codes: Codes, zero: int = 0) -> Codes:
    return (codes.astype(np.int64) >> 8) + zero


def low_codes(codes: Codes, zero: int = ZERO) -> Codes:
    return (codes.astype(np.int64) & 255) + zero


def never_negative(name: str, graph: Graph) -> bool:
    """Whether the operators before leave no negative code of a tensor whose zero is 0. Means do not keep that: their
    halves are rounded apart, and -1 may come of zeros."""
    producer = graph.producers.get(name)
    if producer is None:
        return False
    if "clip" in producer.attrs and producer.attrs["clip"][0] >= 0:
        return True
    keeps = is_move(producer.kind) or producer.kind in ("max_pool", "identity")
    sources = [n for n in producer.inputs if n and graph.tensors[n].dtype == "int16"]
    return keeps and bool(sources) and all(never_negative(n, graph) for n in sources)


def halves_of(x: Tensor, context: Context, origin: tuple[str, ...], unsigned: bool = False) -> Halves:
    """The first reader makes them for all of them. `unsigned`: high bytes are read without a sign."""
    source, groups = context.buffer(x.name), tuple[TaskGroup, ...]()
    high, low = (context.shifted_copies.get(f"{half} of {source}", "") for half in (HIGH, LOW))
    if not (high and low):
        high, low = (context.scratch(x.elements, half) for half in (HIGH, LOW))
        for half, name in ((HIGH, high), (LOW, low)):
            context.shifted_copies[f"{half} of {source}"] = name
        named = origin, f"bytes of {x.name}"
        lanes = parts(x.elements, UNITS["ARITH"] // 2)
        groups = (TaskGroup(tuple(_split(source, high, low, lane, named) for lane in lanes)),)
    context.buffers[high] = replace(context.buffers[high], offset=-ZERO if unsigned else 0)
    highs = Quantisation.per_tensor(256 * x.scale, ZERO if unsigned else 0)
    one = Tensor(high, x.shape, "int8", highs)
    return Halves(one, Tensor(low, x.shape, "int8", Quantisation.per_tensor(x.scale, ZERO)), groups)


def _split(source: str, high: str, low: str, lane: tuple[int, int], named: tuple[tuple[str, ...], str]) -> Task:
    """[x=IN y=IN>ARITH#1]>ARITH>OUT ; ARITH#1>OUT, as seen."""
    first, count = lane
    b = TaskBuilder(*named, Purpose.FEATURES)
    x = b.read(source, wide_row(count, first))
    highs = b.unit(_HIGH, b.read(source, wide_row(count, first)))
    lows = b.unit(_LOW, x, highs)
    b.write(highs, high, contiguous(count, offset=first, write=True))
    b.write(lows, low, contiguous(count, offset=first, write=True))
    return b.done(count)


def wide_row(count: int, first: int = 0, write: bool = False) -> StrengConfig:
    """So many numbers of 16 bits in a row."""
    return engine(Area(1, 1, count, 2 * count, 2 * count, 2 * first, 2), write=write)


def require_centred(*tensors: Tensor) -> None:
    """Codes of 16 bits with one scale, whose zero is 0: what TFLite writes, and nobody asked for anything else yet."""
    for tensor in tensors:
        usual = tensor.dtype == "int16" and tensor.quant is not None and tensor.quant.is_per_tensor
        if not usual or tensor.zero_point:
            seen = f"{tensor.name} of type {tensor.dtype}, zero point {tensor.zero_point if usual else 'unlike others'}"
            raise Refusal(WIDE_CODES, seen, "int16 with one scale and zero point 0", "quantise it symmetrically")


def scratch_tensor(context: Context, like: Tensor, dtype: str, scale: float, zero: int = 0) -> Tensor:
    """A tensor that only the tasks of this operator know, in memory of its own."""
    name = context.scratch(like.elements * np.dtype(dtype).itemsize, "inside 16 bits")
    return Tensor(name, like.shape, dtype, Quantisation.per_tensor(scale, zero))


def inside(context: Context, op: Op, tensors: Iterable[Tensor], typical: Callable[[], list[Codes]]) -> None:
    """Makes a draft see an inner operator only."""
    source = op.inputs[0]
    graph = Graph({t.name: t for t in tensors}, (op,), (), op.outputs)

    def runs() -> list[Mapping[str, Codes]]:
        return [{source: codes} for codes in typical()]

    facts = context.facts
    context.facts = replace(
        facts, graph=graph, calibrate=runs, forms={}, user_allocated=frozenset(), error_codes=WIDE_STEP
    )


def lower_inner(
    op: Op, tensors: Iterable[Tensor], typical: Callable[[], list[Codes]], context: Context
) -> tuple[list[TaskGroup], Semantics]:
    """The tasks of an inner operator, and what they compute. `typical`: codes of its input for typical inputs of the
    network."""
    form = attempt(context, partial(_draw, op, tuple(tensors), typical))
    if isinstance(form, RefusedForm):
        raise Refusal.of(form)
    return context.take(replace(form, semantics={})), form.semantics[op.name]


def _draw(op: Op, tensors: tuple[Tensor, ...], typical: Callable[[], list[Codes]], context: Context) -> list[TaskGroup]:
    inside(context, op, tensors, typical)
    recipe = recipe_for(op.kind)
    assert recipe is not None
    return recipe(op, context)


_LONG = 4  # bits that an addend is shifted by where 16 bits are too few for it, as seen


@dataclass(frozen=True)
class WideSum:
    """clip(a * x + b * y + offset), where both are numbers of 16 bits."""

    a: int = 1
    b: int = 1
    low: int = LOWEST
    high: int = HIGHEST
    offset: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """What is added while an end of 16 bits limits the numbers, one after the other."""
        upper = (HIGHEST - self.high,) if self.high < HIGHEST or self.low <= LOWEST else ()
        return (*upper, LOWEST - self.low) if self.low > LOWEST else upper

    def units(self) -> list[ArithConfig]:
        """The first takes both streams."""
        addend = self.steps[0] + self.offset
        even = addend % 2 == 0 and not LOWEST <= addend <= HIGHEST
        if not LOWEST <= addend >> even <= HIGHEST:
            raise Refusal(WIDE_CLIP, f"an addend of {addend}", "16 bits, or 17 if it is even", "use another clip")
        first = changed(SUM, a=self.a, b=self.b, c=addend >> even, shift_c=int(even))
        return [first, *(move_unit(step) for step in self._moves(self.steps))]

    @property
    def ahead(self) -> int:
        """What may be added before a saturation that does the lower limit."""
        return LOWEST - self.low

    def back(self) -> list[int]:
        """What is added behind it."""
        return [-self.ahead] if self.ahead else []

    def back_units(self) -> list[ArithConfig]:
        return [move_unit(step) for step in self.back()]

    def moves(self) -> list[ArithConfig]:
        """The same limits for one stream, which comes as it is; none without limits."""
        return [move_unit(step) for step in self._moves((0, *self.steps))]

    def _moves(self, steps: tuple[int, ...]) -> list[int]:
        return [after - before for before, after in pairwise((*steps, 0)) if after != before]

    def __call__(self, x: Ints, y: Ints) -> Ints:
        total = limited(self.a * x + self.b * y + self.steps[0] + self.offset, 16)
        for step in self._moves(self.steps):
            total = limited(total + step, 16)
        return total


def move_unit(step: int) -> ArithConfig:
    """x + step, limited to 16 bits."""
    if LOWEST <= step <= HIGHEST:
        return changed(SCALAR, a=2, c=step, shift_c=1, shift_out=1)
    if step % 2 or not LOWEST <= step // 2 <= HIGHEST:
        raise Refusal(WIDE_CLIP, f"a clip that moves codes by {step}", "even, at most 65,534", "use another clip")
    return changed(SCALAR, a=1 << _LONG - 1, c=step // 2, shift_c=_LONG, shift_out=_LONG - 1)


def wide_clip(clip: tuple[int, int] | None) -> tuple[int, int]:
    low, high = clip or (LOWEST, HIGHEST)
    return max(LOWEST, int(low)), min(HIGHEST, int(high))


MOST_LANES = 3  # of chains with two readers

Unit = ArithConfig | Callable[[int], ArithConfig]  # or what it is for so many numbers


@dataclass(frozen=True)
class Scaling:
    """sat16(round((a * x) >> shift))"""

    a: int
    shift: int

    @staticmethod
    def of(gain: float) -> Scaling:
        shift = min(MOST_WIDE_SHIFT, floor(log2((HIGHEST + 0.499) / max(gain, 2.0**-30))))
        if shift < 1:
            seen = f"one code of the input is worth {gain:g} codes of the output"
            raise Refusal(SCALES, seen, f"{HIGHEST // 2}", "check the scales: they differ beyond all use")
        return Scaling(round(gain * 2.0**shift), shift)

    @property
    def changes(self) -> bool:
        return self.a != 1 << self.shift

    def unit(self, _: int = 0) -> ArithConfig:
        """The same for any number of them."""
        return changed(SCALAR, a=self.a, shift_out=self.shift)

    def __call__(self, x: Ints) -> Ints:
        return limited(shifted(self.a * x, self.shift), 16)

    def error(self, gain: float) -> float:
        """In codes, with the rounding at its end."""
        return (0.5 if self.changes else 0.0) + (HIGHEST + 1) * abs(self.a * 2.0**-self.shift - gain)


def scaled_first(
    context: Context, source: str, elements: int, units: Sequence[Unit], origin: tuple[str, ...], block: int = 1
) -> tuple[str, TaskGroup]:
    """A scaled copy in memory, and the tasks that write it."""
    target = context.scratch(2 * elements, "scaled operand")
    return target, through(source, target, elements, units, origin, "a scaled operand", block)


def through(
    source: str, target: str, elements: int, units: Sequence[Unit], origin: tuple[str, ...], title: str, block: int = 1
) -> TaskGroup:
    """Each number through the units, one behind the other. `block`: lanes are cut between so many."""
    tasks = []
    for start, count in parts(elements, min(MOST_LANES, UNITS["ARITH"] // len(units)), block):
        b = TaskBuilder(origin, title, Purpose.COMPUTE)
        stream = b.read(source, wide_row(count, start))
        for unit in units:
            stream = b.unit(_for(unit, count), stream)
        b.write(stream, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return TaskGroup(tuple(tasks))


def two_through(
    sources: tuple[str, str],
    target: str,
    elements: int,
    before: Sequence[Unit],
    units: Sequence[ArithConfig],
    named: tuple[tuple[str, ...], str],
    block: int = 1,
) -> TaskGroup:
    """Two streams: the first of the units takes both, the second stream through `before`. `named`: origin, title."""
    tasks, origin, title = [], *named
    for start, count in parts(elements, min(MOST_LANES, UNITS["ARITH"] // (len(units) + len(before))), block):
        b = TaskBuilder(origin, title)
        first, second = (b.read(name, wide_row(count, start)) for name in sources)
        for unit in before:
            second = b.unit(_for(unit, count), second)
        stream = b.unit(units[0], first, second)
        for unit in units[1:]:
            stream = b.unit(unit, stream)
        b.write(stream, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return TaskGroup(tuple(tasks))


def _for(unit: Unit, count: int) -> ArithConfig:
    return unit if isinstance(unit, ArithConfig) else unit(count)


def whole_codes(values: np.ndarray) -> bytes:
    """Numbers of 16 bits as they lie in memory."""
    return np.clip(np.rint(values), -HIGHEST - 1, HIGHEST).astype("<i2").tobytes()
