"""One ARITH with coefficients per channel: constants that vary along the last dimension only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.semantics.arithmetic import ints
from atonc.compiler.lower.semantics.arithmetic import line as line_codes
from atonc.compiler.lower.units.affine import CODES, FULL_RANGE, Affine, Array, fit_affine
from atonc.compiler.lower.units.arith import affine_unit, clip_unit, product_unit
from atonc.compiler.lower.units.parts import parts
from atonc.compiler.lower.units.trusted import first_trusted
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.values import OpResult
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import PIXELS_PER_COPY, TURNS_PER_ROW
from atonc.compiler.plan.streams import Area, Frames, engine, in_frames
from atonc.compiler.plan.task import TaskGroup
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED
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
        if self.factors is None:
            return [line(self.rule)]
        return [product(self.factors), line(self.rule, in_bytes=2)]

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


def channel_steps(
    op: Op, context: Context, varying: int, block: int, lines: Sequence[ChannelLine]
) -> list[TaskGroup]:
    """An operator that is a straight line per element of the block, or several in a row."""
    low, high = op.attrs.get("clip", FULL_RANGE)
    units = [*(make for one in lines for make in one.makers), *([] if (low, high) == FULL_RANGE else [clip(low, high)])]

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
    return pack(chain_wirings(source, target, shape, units), op.origin or (op.name,), op.kind)


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


def line(coefficients: Affine, in_bytes: int = 1) -> UnitMaker:
    def make(first: int, channels: int, elements: int) -> ArithConfig:
        return affine_unit(coefficients.channels(first, channels), elements, in_bytes)

    return make


def product(factors: Array) -> UnitMaker:
    """Small integers per channel, exact in 16 bits."""
    return lambda first, channels, elements: product_unit(factors[first : first + channels], elements)


def clip(low: int, high: int) -> UnitMaker:
    return lambda first, channels, elements: clip_unit(low, high)


def chain_wirings(source: str, target: str, shape: tuple[int, ...], units: Sequence[UnitMaker]) -> list[Wiring]:
    """A tensor through units that know the channels: up to 512 at a time, more in slices; fewer in parts of the
    picture."""

    def wire(area: Area, first: int, epoch: TaskBuilder) -> None:
        stream = read_area(epoch, source, area)
        for make in units:
            stream = epoch.unit(make(first, area.channels, area.height * area.width * area.channels), stream)
        epoch.write(stream, target, engine(area, Frames(1, area.channels), write=True))

    return [
        Wiring(partial(wire, area, first), cost=area.height * area.width * area.channels)
        for area, first in areas(shape, 4 // len(units))
    ]


def read_area(epoch: TaskBuilder, buffer: str, area: Area) -> str:
    return epoch.read(buffer, in_frames(engine(area)))


def areas(shape: tuple[int, ...], ways: int) -> list[tuple[Area, int]]:
    """Pieces of a tensor with the first channel of each."""
    *above, channels = shape
    pixels = prod(above)
    if channels <= ROWS:
        ways = min(ways, 3) if pixels >= 2 * PIXELS_PER_COPY else 1
        cuts = parts(pixels * channels, ways, channels)
        return [(_run(count, channels, start), 0) for start, count in cuts]
    slices = -(-channels // ROWS)
    size = -(-channels // slices // ALIGNED) * ALIGNED
    cuts = [(first, min(size, channels - first)) for first in range(0, channels, size)]
    if pixels == 1:
        return [(_run(count, count, first), first) for first, count in cuts]
    width = above[-1]
    whole = Area.whole(pixels // width, width, channels)
    return [(whole.channels_from(first, count), first) for first, count in cuts]


def _run(elements: int, channels: int, offset: int) -> Area:
    return replace(Area.whole(1, elements // channels, channels), offset=offset)
