"""Sums, differences, products, the larger or smaller of two tensors of 16 bits, changes of format and leaky ReLUs:
exact or within codes.

One unit scales both operands of a sum and rounds once. Where that may not be relied on, they are scaled to the output's
format first, and units add numbers of 16 bits as they are. The larger of two comes out of saturation:
sat16(y - x - 32768) + 32768 is the positive part of y - x, without any overflow.

Products: published units multiply and cut 5 to 14 bits off, then one scales the rest. S keeps the finest product that
does not saturate before the result does; where even 14 bits are too few, x loses some before.

    p = sat16((scaled(x) * y) >> S),   z = clip(scaled(p))

Leaky ReLU and PReLU: the slope of the negative side for all numbers, and the rest of the positive part. Where either
part leaves 16 bits, so does the sum, on the same side.

    y = slope[c] * g * x + (1 - slope[c]) * g * max(x, 0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, log2
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.elementwise.channels import constant_slopes
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, line, shifted
from atonc.compiler.lower.sixteen.streams import (
    HIGHEST,
    LOWEST,
    Real,
    ScaledSum,
    Scaling,
    Unit,
    WideSum,
    least_unit,
    require_centred,
    scaled_first,
    through,
)
from atonc.compiler.lower.units.arith import Affine, affine_unit, multiply_unit
from atonc.compiler.lower.units.views import StridedView, row
from atonc.compiler.lower.units.wiring import Wiring, is_one_scale, origin_of, pack, parts
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import ELEMENTWISE, SCALES, WIDE_CODES, WIDE_LEAKY, WIDE_SHAPES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.arith import ROWS, ArithConfig

LEAST, MOST = 5, 14  # bits that published products of 16 bits lose
POSITIVE = WideSum(1, 0, low=0)
_REACH = 2 * 15  # bits of the largest product
_MOST_CONSTANT = 1 << 15  # elements of a constant operand: each is two bytes of flash
_HALF = 14  # bits: an addend of 32768 is 2^14, shifted by one
Ways = tuple[Sequence[Unit], Sequence[Unit], Sequence[Unit]]  # to a part, behind both, and before
_MOST_WIDENING_SHIFT = 14  # behind bytes that become 16 bits, as seen


@recipe("add", "sub", wide=True)
def lower_sum(op: Op, context: Context) -> list[TaskGroup]:
    """A constant comes first, since the second operand is scaled on its way."""
    out, tensors = context.tensor(op.outputs[0]), [context.tensor(name) for name in op.inputs[:2]]
    signs, varying = (1, -1 if op.kind == "sub" else 1), [x for x in tensors if not x.is_constant]
    require_centred(*varying, out)
    fixed = {k: signs[k] * _codes_in(x, out) for k, x in enumerate(tensors) if x.is_constant}
    gains = [1.0 if k in fixed else signs[k] * tensors[k].scale / out.scale for k in (0, 1)]
    order = sorted((0, 1), key=lambda k: k not in fixed)
    limits = WideSum.clipped(op.attrs.get("clip"), 1, 0)
    first_gain, second_gain = (gains[k] for k in order)
    scaled = ScaledSum.of(first_gain, second_gain, context.facts.target.trust)
    if scaled is None or all(abs(gain) == 1.0 for gain in gains):
        return _sum_of_scaled(op, context, out, tensors, fixed, signs)

    def codes(given: Sequence[Any]) -> list[Ints]:
        first, second = (ints(fixed.get(k, given[k])) for k in order)
        return [limits(scaled(first, second), np.zeros(1, np.int64))]

    context.explain(op, codes, scaled.error(first_gain, second_gain) + 0.5 * len(fixed))
    sources, groups = _operands(op, context, out, tensors, fixed, order)
    named = origin_of(op), f"{op.kind} {op.name}"
    units = [scaled.unit, *limits.alone()]
    return [*groups, through(sources, context.buffer(out.name), out.elements, units, named)]


def _operands(
    op: Op, context: Context, out: Tensor, tensors: Sequence[Tensor], fixed: Mapping[int, Ints], order: Sequence[int]
) -> tuple[list[str], list[TaskGroup]]:
    """Buffers with an element for each of the output's, and what writes them."""
    sources, groups = list[str](), list[TaskGroup]()
    for k in order:
        if k in fixed:
            sources.append(context.constant(fixed[k].astype("<i2").tobytes(), tensors[k].name))
            continue
        source, copies = expanded(context, tensors[k], out, origin_of(op))
        sources.append(source)
        groups += copies
    return sources, groups


def _sum_of_scaled(
    op: Op, context: Context, out: Tensor, tensors: Sequence[Tensor], fixed: Mapping[int, Ints], signs: tuple[int, int]
) -> list[TaskGroup]:
    """Both are scaled to the format of the output first; nothing is rounded where they have it."""
    unit = least_unit(max((x.scale for x in tensors if not x.is_constant), default=out.scale) / out.scale)
    order = sorted((0, 1), key=lambda k: k not in fixed)
    gains = [1.0 if k in fixed else tensors[k].scale / out.scale / unit for k in order]
    total = WideSum.clipped(op.attrs.get("clip"), *(1 if k in fixed else signs[k] * unit for k in order))
    scalings = [Scaling.of(gain) for gain in gains]
    rounded = (scaling.error(gain) for scaling, gain in zip(scalings, gains, strict=True))
    error = sum(0.5 if k in fixed else unit * one for k, one in zip(order, rounded, strict=True))

    def codes(given: Sequence[Any]) -> list[Ints]:
        operands = (ints(fixed.get(k, given[k])) for k in order)
        return [total(*(scaling(x) for scaling, x in zip(scalings, operands, strict=True)))]

    context.explain(op, codes, error)
    sources, groups = _operands(op, context, out, tensors, fixed, order)
    first, second = scalings
    if first.changes:
        sources[0], group = scaled_first(context, sources[0], out.elements, [first], origin_of(op))
        groups.append(group)
    before, named = [second] if second.changes else [], (origin_of(op), f"{op.kind} {op.name}")
    return [*groups, through(sources, context.buffer(out.name), out.elements, total.units(), named, before)]


def _codes_in(constant: Tensor, out: Tensor) -> Ints:
    """The constant in the format of the output, element by element."""
    if constant.data is None or out.elements > _MOST_CONSTANT:
        seen = f"a constant for {out.elements} elements"
        raise Refusal(WIDE_SHAPES, seen, f"{_MOST_CONSTANT}", "fold it into the layer before")
    steps = np.broadcast_to(Arg(constant, constant.data).real, out.shape) / out.scale
    if not np.abs(steps).max(initial=0.0) <= HIGHEST:
        seen = f"a constant of {np.abs(steps).max():g} codes of the output"
        raise Refusal(SCALES, seen, f"{HIGHEST}", "check the scales")
    return np.rint(steps).astype(np.int64)


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


@recipe("maximum", "minimum", wide=True)
def lower_larger(op: Op, context: Context) -> list[TaskGroup]:
    """Takes two tensors in one format, so that nothing is rounded."""
    x, y, out = (context.tensor(name) for name in (*op.inputs[:2], op.outputs[0]))
    require_centred(x, y, out)
    if len({tensor.scale for tensor in (x, y, out)}) > 1 or "clip" in op.attrs:
        raise Refusal(ELEMENTWISE, f"{op.kind} of different scales", "one scale", "give all three one scale")
    larger = np.maximum if op.kind == "maximum" else np.minimum
    context.explain(op, lambda given: [larger(ints(given[0]), ints(given[1]))])
    origin = origin_of(op)
    (one, first), (two, second) = (expanded(context, tensor, out, origin) for tensor in (x, y))
    return [*first, *second, larger_of((one, two, context.buffer(out.name)), out.elements, origin, op.kind)]


def larger_of(names: tuple[str, str, str], elements: int, origin: tuple[str, ...], kind: str) -> TaskGroup:
    """Adds the positive part of y - x to x, or takes that of x - y off."""
    x, y, target = names
    sign = 1 if kind == "maximum" else -1
    beyond = changed(SUM, a=sign, b=-sign, c=LOWEST)
    last = changed(SUM, a=sign, b=1, c=sign << _HALF, shift_c=1)

    def build(start: int, count: int, b: TaskBuilder) -> None:
        read = row(count, start, 2)
        positive = b.unit(beyond, b.read(y, read), b.read(x, read))
        b.write(b.unit(last, positive, b.read(x, read)), target, row(count, start, 2, write=True))

    wirings = [Wiring(partial(build, *lane), lane[1]) for lane in parts(elements, 2)]
    return pack(wirings, origin, f"{kind} {origin[0]}")[0]


@recipe("requantize", wide=True)
def lower_format(op: Op, context: Context) -> list[TaskGroup]:
    """Another scale, another width, or a clamp that stands alone."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(*(tensor for tensor in (x, y) if tensor.dtype != "int8"))
    units = _same_width(op, context, x, y) if x.dtype == y.dtype else [_other_width(op, context, x, y)]
    named = origin_of(op), f"requantize {op.name}"
    return [through([context.buffer(x.name)], context.buffer(y.name), y.elements, units, named)]


def _same_width(op: Op, context: Context, x: Tensor, y: Tensor) -> list[Unit]:
    gain = x.scale / y.scale
    scaling, total = Scaling.of(gain), WideSum.clipped(op.attrs.get("clip"), 1, 0)
    context.explain(op, lambda given: [total(scaling(ints(given[0])), np.zeros(1, np.int64))], scaling.error(gain))
    return [*([scaling] if scaling.changes else []), *total.alone()] or [scaling]


def _other_width(op: Op, context: Context, x: Tensor, y: Tensor) -> ArithConfig:
    narrow = x if x.dtype == "int8" else y
    if not is_one_scale(narrow, narrow.dtype) or "clip" in op.attrs:
        seen = f"{narrow.name} with several scales or a clip"
        raise Refusal(WIDE_CODES, seen, "one scale", "quantise it per tensor")
    return _narrowing(op, context, x, y) if y.dtype == "int8" else _widening(op, context, x, y)


def _narrowing(op: Op, context: Context, x: Tensor, y: Tensor) -> ArithConfig:
    gain = x.scale / y.scale
    rule = Affine.nearest(gain, float(y.zero_point))
    error = (HIGHEST + 1) * abs(int(rule.a[0]) * 2.0**-rule.shift - gain) + 2.0**-rule.shift
    context.explain(op, lambda given: [line(rule, given[0])], error)
    return affine_unit(rule, 0, in_bytes=2)


def _widening(op: Op, context: Context, x: Tensor, y: Tensor) -> ArithConfig:
    gain = x.scale / y.scale
    scaling = Scaling.of(gain)
    down = max(0, scaling.shift - _MOST_WIDENING_SHIFT)
    a, shift = round(int(scaling.a[0]) / 2.0**down), scaling.shift - down
    addend = -x.zero_point * a

    def codes(given: Sequence[Any]) -> list[Ints]:
        return [limited(shifted(a * ints(given[0]) + addend, shift), 16)]

    context.explain(op, codes, 255 * abs(a * 2.0**-shift - gain))
    return changed(affine_unit(Affine.single(a, addend, shift), 0), out_bytes=2)


@dataclass(frozen=True)
class WideProduct:
    """What the tasks of a product compute."""

    before: int  # bits that x loses first
    cut: int
    last: Scaling
    limits: WideSum

    @property
    def first(self) -> Scaling:
        return Scaling(np.array([1 << MOST]), MOST + self.before)

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
    x, y, out = (context.tensor(name) for name in (*op.inputs[:2], op.outputs[0]))
    require_centred(x, y, out)
    if x.is_constant or y.is_constant:
        raise Refusal(WIDE_SHAPES, "a constant factor", "two activations", "fold it into the layer before")
    gain = x.scale * y.scale / out.scale
    lost = min(max(ceil(-log2(gain)), LEAST), _REACH - 15)  # products of codes inside the range fit 16 bits then
    limits = WideSum.clipped(op.attrs.get("clip"), 1, 0)
    meaning = WideProduct(max(0, lost - MOST), min(lost, MOST), Scaling.of(gain * 2.0**lost), limits)
    early = 2.0**meaning.before / 2 * (HIGHEST + 1) * gain if meaning.before else 0.0
    error = early + 0.5 * gain * 2.0**lost + meaning.last.error(gain * 2.0**lost)
    context.explain(op, meaning, error)
    origin = origin_of(op)
    (one, first), (two, second) = (expanded(context, tensor, out, origin) for tensor in (x, y))
    groups = [*first, *second]
    if meaning.before:
        one, group = scaled_first(context, one, out.elements, [meaning.first], origin)
        groups.append(group)
    moves, target = meaning.limits.alone(), context.buffer(out.name)
    product = context.scratch(2 * out.elements, "product before its clip") if moves else target
    named = origin, f"mul {op.name}"
    groups.append(through((one, two), product, out.elements, [meaning.unit, meaning.last], named))
    return [*groups, through([product], target, out.elements, moves, named)] if moves else groups


@recipe("hard_swish", wide=True)
def lower_hard_swish(op: Op, context: Context) -> list[TaskGroup]:
    """x * gate / 65536 + x / 2, where saturation makes the gate, from -32768 to 32767. Its lowest two bits are left
    out, so that the product fits 16 bits."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    slope, gain = x.scale * (1 << 16) / 6, x.scale / y.scale
    gate, quarter, last, half = (Scaling.of(slope), Scaling(np.array([1 << MOST]), MOST + 2),
                                 Scaling.of(gain), Scaling.of(gain / 2))  # fmt: skip
    total = WideSum.clipped(op.attrs.get("clip"))
    product = WideProduct(0, MOST, last, WideSum(1, 0))

    def codes(given: Sequence[Any]) -> list[Ints]:
        x = ints(given[0])
        return [total(last(limited(shifted(x * quarter(gate(x)), MOST), 16)), half(x))]

    rough = gain * (gate.error(slope) + 2) / 2 + 0.5 * gain
    origin, source = origin_of(op), context.buffer(x.name)
    part, named = context.scratch(2 * x.elements, "gated"), (origin, f"{op.kind} {op.name}")
    scaled = ScaledSum.of(gain, gain / 2, context.facts.target.trust)
    if scaled is not None:
        limits = WideSum.clipped(op.attrs.get("clip"), 1, 0)

        def scaled_codes(given: Sequence[Any]) -> list[Ints]:
            x = ints(given[0])
            gated = limited(shifted(x * quarter(gate(x)), MOST), 16)
            return [limits(scaled(gated, x), np.zeros(1, np.int64))]

        context.explain(op, scaled_codes, rough + scaled.error(gain, gain / 2))
        ways: Ways = [product.unit], [scaled.unit, *limits.alone()], []
    else:
        context.explain(op, codes, rough + last.error(gain) + half.error(gain / 2))
        ways = [product.unit, last], total.units(), [half]
    units, behind, before = ways
    factor, first = scaled_first(context, source, x.elements, [gate, quarter], origin)
    gated = through((source, factor), part, x.elements, units, named)
    return [first, gated, through((part, source), context.buffer(y.name), x.elements, behind, named, before)]


@recipe("leaky_relu", wide=True)
def lower_leaky_relu(op: Op, context: Context) -> list[TaskGroup]:
    return _leaky(op, context, np.array([float(op.attrs.get("alpha", 0.01))]))


@recipe("prelu", wide=True)
def lower_prelu(op: Op, context: Context) -> list[TaskGroup]:
    return _leaky(op, context, constant_slopes(op, context, ROWS))


def _leaky(op: Op, context: Context, slopes: Real) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    if not (slopes.min() >= 0.0 and slopes.max() <= 1.0) or "clip" in op.attrs:
        seen = f"slopes of {slopes.min():g} to {slopes.max():g}{' and a clip' if 'clip' in op.attrs else ''}"
        raise Refusal(WIDE_LEAKY, seen, "0 to 1, no clip", "use other slopes")
    gain, total = x.scale / y.scale, WideSum()
    gains = slopes * gain, (1.0 - slopes) * gain
    negative, positive = (Scaling.of(one) for one in gains)
    origin, source, block = origin_of(op), context.buffer(x.name), slopes.size
    target, named = context.buffer(y.name), (origin, f"{op.kind} {op.name}")
    in_one = float(gains[1][0]), float(gains[0][0])
    scaled = ScaledSum.of(*in_one, context.facts.target.trust) if block == 1 else None

    def codes(values: Sequence[Any]) -> list[Ints]:
        x = ints(values[0])
        part = POSITIVE(x, 0 * x)
        return [total(negative(x), positive(part)) if scaled is None else scaled(part, x)]

    if scaled is None:
        context.explain(op, codes, negative.error(gains[0]) + positive.error(gains[1]))
        ways: Ways = [*POSITIVE.alone(), positive], total.units(), [negative]
    else:
        context.explain(op, codes, scaled.error(*in_one))
        ways = POSITIVE.alone(), [scaled.unit], []
    units, behind, before = ways
    part, first = scaled_first(context, source, x.elements, units, origin, block)
    return [first, through((part, source), target, y.elements, behind, named, before, block)]
