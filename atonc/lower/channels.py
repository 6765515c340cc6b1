"""One ARITH with coefficients per channel: constants that vary along the last dimension only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from atonc.hw.units.arith import ROWS
from atonc.ir import Op, Tensor
from atonc.lower.affine import CODES, FULL_RANGE, Affine, Array, fit_affine
from atonc.lower.arith_units import affine_unit, clip_unit
from atonc.lower.context import Context
from atonc.lower.parts import ALIGNED, parts
from atonc.lower.pipelines import Pipeline, pack
from atonc.ops.registry import evaluate
from atonc.ops.values import Result
from atonc.plan.build import EpochBuilder
from atonc.plan.streams import Area, engine
from atonc.plan.types import StepPlan

_LINEAR = ("add", "sub", "mul", "div", "affine", "requantize")
_PIXELS_PER_COPY = 64  # the coefficients are loaded once per part


def is_per_channel(constant: Tensor, out: Tensor) -> bool:
    """One value, or one per index of the last dimension."""
    return constant.elements == 1 or constant.elements == constant.shape[-1] == out.shape[-1]


def channel_steps(op: Op, context: Context, varying: int) -> list[StepPlan] | None:
    """The steps, or None if the operator is no straight line per channel."""
    lines = channel_lines(op, context, varying)
    if lines is None:
        return None
    clip = op.attrs.get("clip", FULL_RANGE)
    return lines_steps(op, context, op.inputs[varying], lines, None if tuple(clip) == FULL_RANGE else tuple(clip))


def channel_lines(op: Op, context: Context, varying: int) -> list[Affine] | None:
    """The units in a row, exact for each of the 256 codes wherever 16 bits allow."""
    out = context.tensor(op.outputs[0])
    if op.kind in ("minimum", "maximum"):
        return _extreme_lines(op, context, varying)
    backwards = op.kind == "div" and varying == 1  # constant / x is no line
    if op.kind not in _LINEAR or backwards:
        return None
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    result = _all_codes(plain, context, varying)
    exact = result.exact.reshape(256, -1)
    gain = (exact[255] - exact[0]) / 255
    codes = result.codes.reshape(256, -1)
    return [fit_affine(*(_per_channel(v, out) for v in (codes, gain, exact[128])))]


def _per_channel(values: Array, out: Tensor) -> Array:
    return np.ascontiguousarray(np.broadcast_to(values, (*values.shape[:-1], out.shape[-1])))


def _all_codes(op: Op, context: Context, varying: int) -> Result:
    """The operator on all 256 codes, in front of the dimensions of its constants."""
    rank = len(context.tensor(op.outputs[0]).shape)
    x = CODES.astype(np.int8).reshape(256, *(1,) * max(1, rank - 1))
    values = [x if k == varying else context.tensor(name).data for k, name in enumerate(op.inputs)]
    return evaluate(context.graph, op, values)[0]


def _extreme_lines(op: Op, context: Context, varying: int) -> list[Affine]:
    """max(x, c) = c + (x - c)+, min(x, c) = c - (c - x)+, the positive part by saturation."""
    out, source = context.tensor(op.outputs[0]), context.tensor(op.inputs[varying])
    constant = context.tensor(op.inputs[1 - varying])
    convert = Op("requantize", op.name, (constant.name,), op.outputs)
    limit = evaluate(context.graph, convert, [constant.data])[0].codes.reshape(-1).astype(np.int64)
    limit = _per_channel(limit, out)
    gain = source.scale / out.scale
    steps = (CODES - source.zero_point) * gain
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps).astype(np.int64) + out.zero_point
    sign = 1 if op.kind == "maximum" else -1
    codes = np.clip(sign * (rounded[:, None] - limit) - 128, *FULL_RANGE)
    offset = out.zero_point - source.zero_point * gain - limit
    first = fit_affine(codes, np.full(limit.size, sign * gain), sign * offset - 128.0)
    back = np.clip(sign * (CODES[:, None] + 128) + limit, *FULL_RANGE)
    second = fit_affine(back, np.full(limit.size, float(sign)), sign * 128.0 + limit)
    return [first, second]


def lines_steps(
    op: Op, context: Context, source: str, lines: Sequence[Affine], clip: tuple[int, int] | None
) -> list[StepPlan]:
    pipelines = line_pipelines(
        context.buffer(source), context.buffer(op.outputs[0]), context.tensor(op.outputs[0]), lines, clip
    )
    return pack(pipelines, op.origin or (op.name,), op.kind)


def line_pipelines(
    source: str, target: str, out: Tensor, lines: Sequence[Affine], clip: tuple[int, int] | None = None
) -> list[Pipeline]:
    """Up to 512 channels at a time; more go in slices, fewer in parts of the picture."""
    needs = Counter({"ARITH": len(lines) + (clip is not None)})
    wire = partial(_wire, source, target, lines, clip)
    return [
        Pipeline(partial(wire, area, first), needs, cost=area.height * area.width * area.channels)
        for area, first in areas(out.shape, 4 // needs["ARITH"])
    ]


def areas(shape: tuple[int, ...], ways: int) -> list[tuple[Area, int]]:
    """Pieces of a tensor with the first channel of each."""
    *above, channels = shape
    pixels = prod(above)
    if channels <= ROWS:
        ways = min(ways, 3) if pixels >= 2 * _PIXELS_PER_COPY else 1
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


def _wire(
    source: str,
    target: str,
    lines: Sequence[Affine],
    clip: tuple[int, int] | None,
    area: Area,
    first: int,
    epoch: EpochBuilder,
) -> None:
    elements = area.height * area.width * area.channels
    stream = epoch.read(source, engine(area, looped=not area.contiguous))
    for line in lines:
        stream = epoch.unit(affine_unit(line.channels(first, area.channels), elements), stream)
    if clip is not None:
        stream = epoch.unit(clip_unit(*clip), stream)
    epoch.write(stream, target, engine(area, write=True, looped=not area.contiguous))
