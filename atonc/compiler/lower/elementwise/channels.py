"""One ARITH with coefficients per channel: constants that vary along the last dimension only, and PReLU.

PReLU: one ACTIV computes the positive side, one ARITH with a gain per channel the negative one, one ARITH adds them. On
either side of the zero point the other branch is constant, so nothing is rounded twice. When all slopes have the same
sign, saturation cuts the negative branch off at its end; else an ARITH clips its input first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import cut_to_32_bits, half_away
from atonc.compiler.lower.elementwise import function
from atonc.compiler.lower.elementwise.tables import FunctionTable
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import ints, looked_up, table_codes
from atonc.compiler.lower.semantics.arithmetic import line as line_codes
from atonc.compiler.lower.semantics.arithmetic import pair as pair_codes
from atonc.compiler.lower.units.arith import (
    CODES,
    FULL_RANGE,
    Affine,
    AffinePair,
    Array,
    Reals,
    affine_unit,
    clip_unit,
    first_trusted,
    fit_affine,
    fit_pair,
    output_shift,
    pair_unit,
    product_unit,
)
from atonc.compiler.lower.units.wiring import End, Wiring, in_pieces, origin_of, pack, parts
from atonc.compiler.ops.integers import slopes
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.rounding import is_counted, round_half_away
from atonc.compiler.ops.values import Arg, OpResult
from atonc.compiler.plan.flow import EACH_ELEMENT, TaskFlow
from atonc.compiler.plan.policy import PIXELS_PER_COPY, TURNS_PER_ROW
from atonc.compiler.plan.streams import Area, Frames, engine, in_frames
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select import enumerate as rows
from atonc.compiler.select.rules import PRELU_SLOPES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ROWS, ArithConfig

UnitMaker = Callable[[int, int, int], ArithConfig]  # first channel, channels, elements of the stream

_LINEAR = ("add", "sub", "mul", "div", "affine", "requantize")
_MOST_ROWS = 8 * ROWS


@dataclass(frozen=True, eq=False)
class ChannelLine:
    """A straight line per channel, perhaps behind a unit that multiplies by small integers, exactly."""

    rule: Affine
    factors: Array | None = None

    def __call__(self, x: Array) -> Array:
        return line_codes(self.rule, x if self.factors is None else ints(x) * self.factors)

    @property
    def makers(self) -> list[UnitMaker]:
        rule, factors = self.rule, self.factors
        if factors is None:
            return [lambda first, channels, elements: affine_unit(rule.channels(first, channels), elements)]
        return [
            lambda first, channels, elements: product_unit(factors[first : first + channels], elements),
            lambda first, channels, elements: affine_unit(rule.channels(first, channels), elements, in_bytes=2),
        ]

    @property
    def signs_first(self) -> ChannelLine:
        """The same numbers. No published unit has large negative gains: programs multiply by small integers first."""
        if self.factors is not None:
            return self
        gains = self.rule.a
        return ChannelLine(replace(self.rule, a=np.abs(gains)), np.where(gains < 0, -1, 1))

    def units(self) -> list[ArithConfig]:
        channels = min(self.rule.a.size, ROWS)
        return [make(0, channels, channels) for make in self.makers]


def is_per_channel(constant: Tensor, out: Tensor) -> bool:
    """One value, or one per index of the last dimension."""
    return constant.elements == 1 or constant.elements == constant.shape[-1] == out.shape[-1]


def common_block(constants: Sequence[Tensor], out: Tensor, streamable: bool) -> int | None:
    """How many elements of the output the constants cover before they start over: the last dimension, or the last few
    taken as one. None when there is no such block, or when the constants are cheaper as a stream that is possible."""
    blocks = {c.elements for c in constants if c.elements > 1}
    if len(blocks) != 1 or not all(_covers_end(c.shape, out.shape) for c in constants):
        return None
    block = blocks.pop()
    cheap = block <= ROWS or out.elements // block >= TURNS_PER_ROW
    return block if block <= _MOST_ROWS and (cheap or not streamable) else None


def _covers_end(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether the tensor repeats as a whole along the output."""
    elements = prod(shape)
    padded = (1,) * (len(out) - len(shape)) + shape
    tail = next((k for k in range(len(out) + 1) if prod(out[k:]) <= elements), len(out))
    return elements == 1 or (padded[tail:] == out[tail:] and prod(padded[:tail]) == 1)


def channel_steps(op: Op, context: Context, varying: int, block: int, lines: Sequence[ChannelLine]) -> list[TaskGroup]:
    """An operator that is a straight line per element of the block, or several in a row."""
    low, high = op.attrs.get("clip", FULL_RANGE)
    units = [make for one in lines for make in one.makers]
    units += [] if (low, high) == FULL_RANGE else [clip(low, high)]

    def codes(values: Sequence[Any]) -> list[Array]:
        x = ints(values[varying]).reshape(-1, block)
        for one in lines:
            x = one(x)
        return [np.clip(x, low, high).reshape(context.tensor(op.outputs[0]).shape)]

    wanted = all_codes(op, context, varying).codes.reshape(256, -1)
    got = np.broadcast_to(CODES[:, None], (256, block))
    for one in lines:
        got = one(got)
    context.explain(op, codes, float(np.abs(np.clip(got, low, high) - wanted).max()))
    shape = (context.tensor(op.outputs[0]).elements // block, block)
    source, target = context.buffer(op.inputs[varying]), context.buffer(op.outputs[0])
    return pack(chain_wirings(source, target, shape, units), origin_of(op), op.kind)


def channel_lines(op: Op, context: Context, varying: int) -> list[ChannelLine] | None:
    """The units in a row, exact for each of the 256 codes wherever 16 bits allow; None if lines do not do it."""
    if op.kind in ("minimum", "maximum"):
        return _extreme_lines(op, context, varying)
    backwards = op.kind == "div" and varying == 1  # constant / x is no line
    if op.kind not in _LINEAR or backwards:
        return None
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    result = all_codes(plain, context, varying)
    exact = result.exact.reshape(256, -1)
    gain = (exact[255] - exact[0]) / 255
    whole = ChannelLine(fit_affine(result.codes.reshape(256, -1), gain, exact[128]))
    return [first_trusted((whole, whole.signs_first), ChannelLine.units, context.facts.target.trust)]


def all_codes(op: Op, context: Context, varying: int) -> OpResult:
    """The operator on all 256 codes, in front of the dimensions of its constants."""
    rank = len(context.tensor(op.outputs[0]).shape)
    x = CODES.astype(np.int8).reshape(256, *(1,) * max(1, rank))
    values = [x if k == varying else context.tensor(name).data for k, name in enumerate(op.inputs)]
    return evaluate(context.graph, op, values)[0]


def _extreme_lines(op: Op, context: Context, varying: int) -> list[ChannelLine]:
    """max(x, c) = c + (x - c)+, min(x, c) = c - (c - x)+, the positive part by saturation."""
    out, source = context.tensor(op.outputs[0]), context.tensor(op.inputs[varying])
    constant = context.tensor(op.inputs[1 - varying])
    convert = Op("requantize", op.name, (constant.name,), op.outputs)
    limit = evaluate(context.graph, convert, [constant.data])[0].codes.reshape(-1).astype(np.int64)
    gain = source.scale / out.scale
    steps = (CODES - source.zero_point) * gain
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps).astype(np.int64) + out.zero_point
    sign = 1 if op.kind == "maximum" else -1
    codes = np.clip(sign * (rounded[:, None] - limit) - 128, *FULL_RANGE)
    offset = out.zero_point - source.zero_point * gain - limit
    first = fit_affine(codes, np.full(limit.size, sign * gain), np.asarray(sign * offset - 128.0, np.float64))
    back = np.clip(sign * (CODES[:, None] + 128) + limit, *FULL_RANGE)
    second = fit_affine(back, np.full(limit.size, float(sign)), np.asarray(sign * 128.0 + limit, np.float64))
    return [ChannelLine(first), ChannelLine(second)]


def clip(low: int, high: int) -> UnitMaker:
    return lambda first, channels, elements: clip_unit(low, high)


def chain_wirings(source: str, target: str, shape: tuple[int, ...], units: Sequence[UnitMaker]) -> list[Wiring]:
    """A tensor through units that know the channels: up to 512 at a time, more in slices; fewer in parts of the
    picture."""
    found = []
    for area, first in areas(shape, 4 // len(units)):
        near = End(source, in_frames(engine(area)), _made(units, area, first))
        far = End(target, engine(area, Frames(1, area.channels), write=True))
        found.append(Wiring.chain([near], (), far, area.height * area.width * area.channels))
    return found


def _made(units: Sequence[UnitMaker], area: Area, first: int) -> list[ArithConfig]:
    """For an area whose first channel that is."""
    return [make(first, area.channels, area.height * area.width * area.channels) for make in units]


def areas(shape: tuple[int, ...], ways: int) -> list[tuple[Area, int]]:
    """Pieces of a tensor with the first channel of each."""
    *above, channels = shape
    pixels = prod(above)
    if channels <= ROWS:
        ways = min(ways, 3) if pixels >= 2 * PIXELS_PER_COPY else 1
        runs = [
            (Area.whole(1, count // channels, channels), start)
            for start, count in parts(pixels * channels, ways, channels)
        ]
        return [(replace(run, offset=start), 0) for run, start in runs]
    cuts = in_pieces(channels, -(-channels // -(-channels // ROWS)), ALIGNED)
    if pixels == 1:
        return [(replace(Area.whole(1, 1, count), offset=first), first) for first, count in cuts]
    whole = Area.whole(pixels // above[-1], above[-1], channels)
    return [(whole.channels_from(first, count), first) for first, count in cuts]


@dataclass(frozen=True)
class Prelu:
    """out = sat8(positive[x] + negative(x) - rest), the negative branch being `rest` from the zero point on."""

    positive: FunctionTable
    negative: ChannelLine
    clipped: int | None  # upper end of the input of the negative branch
    rest: int

    @property
    def total(self) -> AffinePair:
        return fit_pair(1.0, 1.0, float(-self.rest))

    @property
    def units(self) -> list[UnitMaker]:
        """The negative branch."""
        first = [] if self.clipped is None else [clip(-128, self.clipped)]
        return [*first, *self.negative.makers]

    def __call__(self, x: Array) -> Array:
        """What the units compute; channels last."""
        below = ints(x) if self.clipped is None else np.minimum(ints(x), self.clipped)
        return pair_codes(self.total, looked_up(table_codes(self.positive), x), self.negative(below))


@recipe("prelu")
def lower_prelu(op: Op, context: Context) -> list[TaskGroup]:
    x, out = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    function.require_int8(op, x, out)
    if constant_slopes(op, context).size == 1 or x.zero_point == -128:  # no code is negative
        table = all_codes(op, context, 0).codes.reshape(256, -1)[:, 0]
        return function.function_steps(op, context, x.name, table)
    form = prelu_form(op, context)
    signs_first = replace(form, negative=form.negative.signs_first)
    draws = [lambda draft: _steps(op, draft, form), lambda draft: _steps(op, draft, signs_first)]
    return rows.chosen(context, rows.first((rows.Drawing(draw),) for draw in draws))  # signs take a unit of their own


def constant_slopes(op: Op, context: Context, most: int = 0) -> Reals:
    """One for all, or one for each channel. `most`: of so many at most."""
    slope, out = context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    if slope.data is None or not is_per_channel(slope, out) or (most and slope.elements > most):
        seen = "slopes that are computed" if slope.data is None else f"slopes of shape {slope.shape} for {out.shape}"
        limit = f"one constant slope for all or for each {f'of at most {most} channels' if most else 'channel'}"
        raise Refusal(PRELU_SLOPES, seen, limit, "leave it to the CPU")
    return np.asarray(Arg(slope, slope.data).real.reshape(-1), np.float64)


def prelu_form(op: Op, context: Context) -> Prelu:
    x, out, slope = (context.tensor(name) for name in (op.inputs[0], op.outputs[0], op.inputs[1]))
    assert slope.data is not None
    rising, falling = _branches(op, (x, slope, out))
    above = np.clip(rising + out.zero_point, *FULL_RANGE).astype(np.int8)
    positive = function.fitted(above, context.facts.target.trust)
    if context.numerics == "2.x" and slope.dtype == "int8" and slope.quant is not None and slope.quant.is_per_tensor:
        return _two_steps(positive, x, out, slope)
    gains = np.asarray(Arg(slope, slope.data).real.reshape(-1) * (x.scale / out.scale), np.float64)
    if (gains >= 0).all() or (gains <= 0).all():
        rest = 127 if (gains >= 0).all() else -128
        codes = np.clip(falling + rest, *FULL_RANGE)
        return Prelu(positive, ChannelLine(fit_affine(codes, gains, rest - x.zero_point * gains)), None, rest)
    codes = np.clip(falling + out.zero_point, *FULL_RANGE)
    negative = fit_affine(codes, gains, out.zero_point - x.zero_point * gains)
    return Prelu(positive, ChannelLine(negative), x.zero_point, out.zero_point)


def _branches(op: Op, tensors: tuple[Tensor, Tensor, Tensor]) -> tuple[Array, Array]:
    """Both sides without their zero point, for all codes: above it for all channels, below it for each."""
    x, slope, out = tensors
    assert slope.data is not None
    below, slopes_ = CODES - float(x.zero_point), Arg(slope, slope.data)
    if is_counted(op, [x, slope], out):
        above, products = slopes(x, slope, out)
        return above(np.maximum(below, 0)), products(below[:, None] * slopes_.centred.reshape(-1))
    ratio = x.scale / out.scale
    gains = slopes_.real.reshape(-1) * ratio
    return round_half_away(np.maximum(below, 0) * ratio), round_half_away(below[:, None] * gains)


def _two_steps(positive: FunctionTable, x: Tensor, out: Tensor, slope: Tensor) -> Prelu:
    """As ST's releases 2.x do it: codes of the slopes as integers first, then one gain for all channels."""
    assert slope.data is not None
    factors = slope.data.reshape(-1).astype(np.int64) - slope.zero_point
    gain = np.full(factors.size, x.scale * slope.scale / out.scale)
    offset = out.zero_point - x.zero_point * factors * gain
    shift = output_shift(gain, offset)
    a, c = half_away(gain * 2.0**shift), cut_to_32_bits(offset * 2.0**shift)
    return Prelu(positive, ChannelLine(Affine(a, c, shift), factors), x.zero_point, out.zero_point)


def _steps(op: Op, context: Context, form: Prelu) -> list[TaskGroup]:
    """One epoch where the units suffice; else the negative or the positive branch goes through memory, and the clip."""
    out, origin = context.tensor(op.outputs[0]), origin_of(op)
    source, target = context.buffer(op.inputs[0]), context.buffer(op.outputs[0])
    low, high = op.attrs.get("clip", FULL_RANGE)
    clipped = (low, high) != FULL_RANGE
    got = np.clip(form(np.broadcast_to(CODES[:, None], (256, out.shape[-1]))), low, high)
    error = np.abs(got - all_codes(op, context, 0).codes.reshape(256, -1)).max()  # both branches, all channels
    context.explain(op, lambda values: [np.clip(form(values[0]), low, high)], float(error))
    raw = context.scratch(out.elements, f"{op.name}:raw") if clipped else target
    before: list[Wiring] = []
    flow: TaskFlow | None = None  # of the branch that goes through memory
    if out.shape[-1] > ROWS:
        negative = context.scratch(out.elements, f"{op.name}:negative")
        before = chain_wirings(source, negative, out.shape, form.units)
        middle = _sum_chains(form, out, (source, negative, raw), [form.positive.config], ())
    elif len(form.units) > 2:
        positive = context.scratch(out.elements, f"{op.name}:positive")
        before, flow = function.chain_wirings(source, positive, out.elements, (form.positive.config,)), EACH_ELEMENT
        middle = _sum_chains(form, out, (positive, source, raw), (), form.units)
    else:
        middle = _sum_chains(form, out, (source, source, raw), [form.positive.config], form.units)
    after = chain_wirings(raw, target, out.shape, [clip(low, high)]) if clipped else []
    first = pack(before, origin, "prelu, one branch", flow=flow)
    return [*first, *pack(middle, origin, op.kind), *pack(after, origin, "prelu, clip")]


def _sum_chains(
    form: Prelu, out: Tensor, buffers: tuple[str, str, str], table: Sequence[ActivConfig], units: Sequence[UnitMaker]
) -> list[Wiring]:
    """Positive branch, negative branch, result; parts side by side."""
    upper, lower, target = buffers
    whole, found = out.shape if units else (1, out.elements, 1), []
    for area, first in areas(whole, min(2, 4 // (1 + len(units)))):
        reader = in_frames(engine(area))
        near = [End(upper, reader, table), End(lower, reader, _made(units, area, first))]
        far = End(target, engine(area, write=True))
        found.append(Wiring.chain(near, [pair_unit(form.total)], far, area.width * area.channels))
    return found
