"""Sums, differences, products, the larger or smaller of two tensors of 16 bits, changes of format and leaky ReLUs:
exact or within codes.

Units add numbers of 16 bits as they are, so operands are scaled to the output's format first. The larger of two comes
out of saturation: sat16(y - x - 32768) + 32768 is the positive part of y - x, without any overflow.

Products: published units multiply and cut 5 to 14 bits off, then one scales the rest. S keeps the finest product that
does not saturate before the result does; where even 14 bits are too few, x loses some before.

    p = sat16((scaled(x) * y) >> S),   z = clip(scaled(p))

Leaky ReLU and PReLU: the slope of the negative side for all numbers, and the rest of the positive part. Where either
part leaves 16 bits, so does the sum, on the same side.

    y = slope[c] * g * x + (1 - slope[c]) * g * max(x, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import coefficient_unit
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, widened
from atonc.compiler.lower.conv.wide_windows import SUM
from atonc.compiler.lower.elementwise.channels import is_per_channel
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, line, shifted
from atonc.compiler.lower.sixteen.streams import (
    HIGHEST,
    LOWEST,
    Scaling,
    WideSum,
    require_centred,
    scaled_first,
    through,
    two_through,
    whole_codes,
    wide_clip,
    wide_row,
)
from atonc.compiler.lower.units.arith import Affine, affine_unit, multiply_unit, output_shift
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import parts
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import ELEMENTWISE, PRELU_SLOPES, SCALES, WIDE_CODES, WIDE_LEAKY, WIDE_SHAPES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.arith import ROWS, ArithConfig

_MOST_CONSTANT = 1 << 15  # elements of a constant operand: each is two bytes of flash
_HALF = 14  # bits: an addend of 32768 is 2^14, shifted by one


@dataclass(frozen=True)
class ScaledSum:
    """clip(u * scaled(x) + u * scaled(y))"""

    x: Scaling
    y: Scaling
    total: WideSum

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        return [self.total(self.x(ints(values[0])), self.y(ints(values[1])))]


@recipe("add", "sub", wide=True)
def lower_sum(op: Op, context: Context) -> list[TaskGroup]:
    x, y, out = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    if x.is_constant:
        if op.kind == "sub":
            raise Refusal(ELEMENTWISE, "a constant minus a tensor", "a tensor minus a constant", "negate the weights")
        return _with_constant(op, context, y, x)
    if y.is_constant:
        return _with_constant(op, context, x, y)
    require_centred(x, y, out)
    gains = x.scale / out.scale, y.scale / out.scale
    unit = 1 << max(0, ceil(log2(max(gains) * (HIGHEST + 1) / HIGHEST)))
    low, high = wide_clip(op.attrs.get("clip"))
    total = WideSum(unit, unit if op.kind == "add" else -unit, low, high)
    scalings = [Scaling.of(gain / unit) for gain in gains]
    error = unit * sum(scaling.error(gain / unit) for scaling, gain in zip(scalings, gains, strict=True))
    context.explain(op, ScaledSum(scalings[0], scalings[1], total), error)
    return _added(op, context, scalings, total)


def _added(op: Op, context: Context, scalings: Sequence[Scaling], total: WideSum) -> list[TaskGroup]:
    origin, out = op.origin or (op.name,), context.tensor(op.outputs[0])
    sources, groups = list[str](), list[TaskGroup]()
    for name in op.inputs[:2]:
        source, copies = expanded(context, context.tensor(name), out, origin)
        sources.append(source)
        groups += copies
    if scalings[0].changes:
        sources[0], group = scaled_first(context, sources[0], out.elements, [scalings[0].unit()], origin)
        groups.append(group)
    before = [scalings[1].unit()] if scalings[1].changes else []
    named = origin, f"{op.kind} {op.name}"
    target = context.buffer(out.name)
    return [*groups, two_through((sources[0], sources[1]), target, out.elements, before, total.units(), named)]


def expanded(context: Context, x: Tensor, out: Tensor, origin: tuple[str, ...]) -> tuple[str, list[TaskGroup]]:
    """A buffer with an element for each of the output's, and the copies that write it where the tensor is smaller."""
    source = context.buffer(x.name)
    if x.shape == out.shape:
        return source, []
    shape = (1,) * (len(out.shape) - len(x.shape)) + x.shape
    if len(shape) > len(out.shape) or any(a not in (1, b) for a, b in zip(shape, out.shape, strict=True)):
        raise Refusal(WIDE_SHAPES, f"shapes {x.shape} and {out.shape}", "one of them repeated", "broadcast before")
    target = context.scratch(2 * out.elements, "repeated operand")
    view = StridedView.whole(source, shape, 2)
    steps = tuple(0 if a == 1 else step for a, step in zip((*shape, 2), view.strides, strict=True))
    near = replace(view, shape=(*out.shape, 2), strides=steps)
    return target, copy(context, [Move(near, StridedView.whole(target, out.shape, 2))], origin, f"repeats {x.name}")


def _require_alike(*tensors: Tensor) -> None:
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) > 1:
        seen = f"shapes {' and '.join(map(str, sorted(shapes)))}"
        raise Refusal(WIDE_SHAPES, seen, "tensors of one shape", "broadcast before, or quantise to 8 bits")


def _with_constant(op: Op, context: Context, x: Tensor, constant: Tensor) -> list[TaskGroup]:
    """The constant in the format of the output, element by element."""
    out = context.tensor(op.outputs[0])
    require_centred(x, out)
    _require_alike(x, out)
    if constant.data is None or out.elements > _MOST_CONSTANT:
        seen = f"a constant for {out.elements} elements"
        raise Refusal(WIDE_SHAPES, seen, f"{_MOST_CONSTANT}", "fold it into the layer before")
    values = np.asarray(constant.data, np.float64)
    if constant.quant is not None:
        rank = values.ndim
        zeros, scales = (constant.quant.along(v, rank) for v in (constant.quant.zero_points, constant.quant.scales))
        values = (values - zeros) * scales
    gain = x.scale / out.scale
    unit = 1 << max(0, ceil(log2(gain * (HIGHEST + 1) / HIGHEST)))
    steps = np.broadcast_to(values, out.shape) / out.scale
    if not np.abs(steps).max(initial=0.0) <= HIGHEST:
        seen = f"a constant of {np.abs(steps).max():g} codes of the output"
        raise Refusal(SCALES, seen, f"{HIGHEST}", "check the scales")
    low, high = wide_clip(op.attrs.get("clip"))
    total = WideSum(unit, 1 if op.kind == "add" else -1, low, high)
    scaling, codes = Scaling.of(gain / unit), np.rint(steps).astype(np.int64)
    place = op.inputs.index(x.name)

    def meaning(given: Sequence[Any]) -> list[Ints]:
        return [total(scaling(ints(given[place])), codes)]

    context.explain(op, meaning, 0.5 + unit * scaling.error(gain / unit))
    origin, source, groups = op.origin or (op.name,), context.buffer(x.name), list[TaskGroup]()
    if scaling.changes:
        source, group = scaled_first(context, source, out.elements, [scaling.unit()], origin)
        groups.append(group)
    data = context.constant(whole_codes(steps), constant.name)
    named = origin, f"{op.kind} {op.name}"
    return [*groups, two_through((source, data), context.buffer(out.name), out.elements, [], total.units(), named)]


@recipe("maximum", "minimum", wide=True)
def lower_larger(op: Op, context: Context) -> list[TaskGroup]:
    """Takes two tensors in one format, so that nothing is rounded."""
    x, y, out = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    require_centred(x, y, out)
    _require_alike(x, y, out)
    if len({tensor.scale for tensor in (x, y, out)}) > 1 or "clip" in op.attrs:
        raise Refusal(ELEMENTWISE, f"{op.kind} of different scales", "one scale", "give all three one scale")
    larger = np.maximum if op.kind == "maximum" else np.minimum
    context.explain(op, lambda given: [larger(ints(given[0]), ints(given[1]))])
    names = context.buffer(x.name), context.buffer(y.name), context.buffer(out.name)
    return [larger_of(names, out.elements, op.origin or (op.name,), op.kind)]


def larger_of(names: tuple[str, str, str], elements: int, origin: tuple[str, ...], kind: str) -> TaskGroup:
    """Adds the positive part of y - x to x, or takes that of x - y off."""
    x, y, target = names
    sign = 1 if kind == "maximum" else -1
    beyond = changed(SUM, a=sign, b=-sign, c=LOWEST)
    last = changed(SUM, a=sign, b=1, c=sign << _HALF, shift_c=1)
    tasks = []
    for start, count in parts(elements, 2):
        b = TaskBuilder(origin, f"{kind} {origin[0]}")
        positive = b.unit(beyond, b.read(y, wide_row(count, start)), b.read(x, wide_row(count, start)))
        result = b.unit(last, positive, b.read(x, wide_row(count, start)))
        b.write(result, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return TaskGroup(tuple(tasks))


@recipe("requantize", wide=True)
def lower_format(op: Op, context: Context) -> list[TaskGroup]:
    """Another scale, another width, or a clamp that stands alone."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    if x.dtype == y.dtype == "int16":
        return _same_width(op, context, x, y)
    require_centred(x if x.dtype == "int16" else y)
    narrow = x if x.dtype == "int8" else y
    if narrow.quant is None or not narrow.quant.is_per_tensor or "clip" in op.attrs:
        seen = f"{narrow.name} with several scales or a clip"
        raise Refusal(WIDE_CODES, seen, "one scale", "quantise it per tensor")
    return _narrowed(op, context, x, y) if y.dtype == "int8" else _widened(op, context, x, y)


def _same_width(op: Op, context: Context, x: Tensor, y: Tensor) -> list[TaskGroup]:
    require_centred(x, y)
    gain = x.scale / y.scale
    scaling, total = Scaling.of(gain), WideSum(1, 0, *wide_clip(op.attrs.get("clip")))
    units = ([scaling.unit()] if scaling.changes else []) + total.moves()
    if not units:
        units = [scaling.unit()]
    context.explain(op, lambda given: [total(scaling(ints(given[0])), np.zeros(1, np.int64))], scaling.error(gain))
    names = context.buffer(x.name), context.buffer(y.name)
    return [through(*names, y.elements, units, op.origin or (op.name,), f"requantize {op.name}")]


Codes = Callable[[Ints], Ints]


def _narrowed(op: Op, context: Context, x: Tensor, y: Tensor) -> list[TaskGroup]:
    gain, offset = np.array([x.scale / y.scale]), np.array([float(y.zero_point)])
    shift = output_shift(gain, offset)
    a, c = (np.rint(v * 2.0**shift).astype(np.int64) for v in (gain, offset))
    rule = Affine(a, c, shift)
    error = (HIGHEST + 1) * abs(int(rule.a[0]) * 2.0**-shift - float(gain[0])) + 2.0**-shift
    context.explain(op, lambda given: [line(rule, given[0])], error)
    source, target, tasks = context.buffer(x.name), context.buffer(y.name), []
    for start, count in parts(y.elements, 3):
        b = TaskBuilder(op.origin or (op.name,), f"requantize {op.name}")
        codes = b.unit(affine_unit(rule, 0, in_bytes=2), b.read(source, wide_row(count, start)))
        b.write(codes, target, contiguous(count, offset=start, write=True))
        tasks.append(b.done(count))
    return [TaskGroup(tuple(tasks))]


_MOST_WIDENING_SHIFT = 14  # behind bytes that become 16 bits, as seen


def _widened(op: Op, context: Context, x: Tensor, y: Tensor) -> list[TaskGroup]:
    gain = x.scale / y.scale
    scaling = Scaling.of(gain)
    down = max(0, scaling.shift - _MOST_WIDENING_SHIFT)
    a, shift = round(scaling.a / 2.0**down), scaling.shift - down
    addend = -x.zero_point * a
    context.explain(op, lambda given: [_wide_line(a, addend, shift, given[0])], 255 * abs(a * 2.0**-shift - gain))
    unit = changed(affine_unit(Affine(np.array([a]), np.array([addend]), shift), 0), out_bytes=2)
    source, target, tasks = context.buffer(x.name), context.buffer(y.name), []
    for start, count in parts(y.elements, 3):
        b = TaskBuilder(op.origin or (op.name,), f"requantize {op.name}")
        codes = b.unit(unit, b.read(source, contiguous(count, offset=start)))
        b.write(codes, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return [TaskGroup(tuple(tasks))]


def _wide_line(a: int, addend: int, shift: int, codes: Any) -> Ints:
    total = a * ints(codes) + addend
    half = (1 << shift) // 2
    return limited(np.sign(total) * ((np.abs(total) + half) >> shift), 16)


LEAST, MOST = 5, 14  # bits that published products of 16 bits lose
_REACH = 2 * 15  # bits of the largest product


@dataclass(frozen=True)
class WideProduct:
    """What the tasks compute."""

    before: int  # bits that x loses first
    cut: int
    last: Scaling
    limits: WideSum

    @property
    def first(self) -> Scaling:
        return Scaling(1 << MOST, MOST + self.before)

    @property
    def unit(self) -> ArithConfig:
        wide = {"bytes_x": 2, "out_bytes_x": 2, "bytes_y": 2, "out_bytes_y": 2}
        return changed(multiply_unit(), shift_out=self.cut, **wide)

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        x, y = (ints(value) for value in values[:2])
        product = limited(shifted(self.first(x) * y, self.cut), 16)
        return [self.limits(self.last(product), np.zeros(1, np.int64))]


@recipe("mul", wide=True)
def lower_product(op: Op, context: Context) -> list[TaskGroup]:
    x, y, out = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    require_centred(x, y, out)
    if x.is_constant or y.is_constant:
        raise Refusal(WIDE_SHAPES, "a constant factor", "two activations", "fold it into the layer before")
    gain = x.scale * y.scale / out.scale
    lost = min(max(ceil(-log2(gain)), LEAST), _REACH - 15)  # products of codes inside the range fit 16 bits then
    meaning = WideProduct(max(0, lost - MOST), min(lost, MOST), Scaling.of(gain * 2.0**lost), _limits(op))
    early = 2.0**meaning.before / 2 * (HIGHEST + 1) * gain if meaning.before else 0.0
    error = early + 0.5 * gain * 2.0**lost + meaning.last.error(gain * 2.0**lost)
    context.explain(op, meaning, error)
    origin = op.origin or (op.name,)
    (one, first), (two, second) = (expanded(context, tensor, out, origin) for tensor in (x, y))
    groups = [*first, *second]
    if meaning.before:
        one, group = scaled_first(context, one, out.elements, [meaning.first.unit()], origin)
        groups.append(group)
    units, moves = [meaning.unit, meaning.last.unit()], meaning.limits.moves()
    target = context.buffer(out.name)
    product = context.scratch(2 * out.elements, "product before its clip") if moves else target
    named = origin, f"mul {op.name}"
    groups.append(two_through((one, two), product, out.elements, [], units, named))
    return [*groups, through(product, target, out.elements, moves, *named)] if moves else groups


def _limits(op: Op) -> WideSum:
    return WideSum(1, 0, *wide_clip(op.attrs.get("clip")))


Real = NDArray[np.float64]

POSITIVE = WideSum(1, 0, low=0)


@dataclass(frozen=True, eq=False)
class ChannelScaling:
    """sat16(round((a[c] * x) >> shift)), channels last."""

    a: Ints
    shift: int

    @staticmethod
    def of(gains: Real) -> ChannelScaling:
        shift = min(MOST_SHIFT, floor(log2((HIGHEST + 0.499) / max(float(gains.max()), 2.0**-30))))
        if shift < 1:
            seen = f"one code of the input is worth {gains.max():g} codes of the output"
            raise Refusal(SCALES, seen, f"{HIGHEST // 2}", "check the scales: they differ beyond all use")
        return ChannelScaling(np.rint(gains * 2.0**shift).astype(np.int64), shift)

    def unit(self, count: int) -> ArithConfig:
        """For so many numbers."""
        nothing, channels = np.zeros_like(self.a), self.a.size
        return widened(coefficient_unit(self.a, nothing, channels, count // channels, self.shift), nothing)

    def __call__(self, x: Ints) -> Ints:
        return limited(shifted(self.a * x, self.shift), 16)

    def error(self, gains: Real) -> float:
        """In codes, with the rounding at its end."""
        return 0.5 + (HIGHEST + 1) * float(np.abs(self.a * 2.0**-self.shift - gains).max())


@dataclass(frozen=True, eq=False)
class LeakySum:
    """What the tasks compute."""

    all: Scaling | ChannelScaling
    positive: Scaling | ChannelScaling

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        x = ints(values[0])
        return [WideSum()(self.all(x), self.positive(POSITIVE(x, 0 * x)))]


@recipe("leaky_relu", wide=True)
def lower_leaky_relu(op: Op, context: Context) -> list[TaskGroup]:
    return _lower(op, context, np.array([float(op.attrs.get("alpha", 0.01))]))


@recipe("prelu", wide=True)
def lower_prelu(op: Op, context: Context) -> list[TaskGroup]:
    slope, y = context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    if slope.data is None or not is_per_channel(slope, y) or slope.elements > ROWS:
        seen = f"slopes of shape {slope.shape} for {y.shape}" if slope.data is not None else "slopes that are computed"
        limit = f"one constant slope for all or for each of at most {ROWS} channels"
        raise Refusal(PRELU_SLOPES, seen, limit, "leave it to the CPU")
    return _lower(op, context, np.asarray(Arg(slope, slope.data).real.reshape(-1), np.float64))


def _lower(op: Op, context: Context, slopes: Real) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    if not (slopes.min() >= 0.0 and slopes.max() <= 1.0) or "clip" in op.attrs:
        seen = f"slopes of {slopes.min():g} to {slopes.max():g}{' and a clip' if 'clip' in op.attrs else ''}"
        raise Refusal(WIDE_LEAKY, seen, "0 to 1, no clip", "use other slopes")
    meaning, error = _meaning(slopes, x, y)
    context.explain(op, meaning, error)
    origin, source, block = op.origin or (op.name,), context.buffer(x.name), slopes.size
    units = [*POSITIVE.moves(), meaning.positive.unit]
    positive, first = scaled_first(context, source, x.elements, units, origin, block)
    names, named = (positive, source), (origin, f"{op.kind} {op.name}")
    target = context.buffer(y.name)
    last = two_through(names, target, y.elements, [meaning.all.unit], WideSum().units(), named, block)
    return [first, last]


def _meaning(slopes: Real, x: Tensor, y: Tensor) -> tuple[LeakySum, float]:
    """What is computed, and how far it may be from exact arithmetic."""
    gain = x.scale / y.scale
    gains = slopes * gain, (1.0 - slopes) * gain
    if slopes.size > 1:
        by_channel = [ChannelScaling.of(one) for one in gains]
        return LeakySum(*by_channel), sum(part.error(one) for part, one in zip(by_channel, gains, strict=True))
    parts = [Scaling.of(float(one[0])) for one in gains]
    return LeakySum(*parts), sum(part.error(float(one[0])) for part, one in zip(parts, gains, strict=True))
