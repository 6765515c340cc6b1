"""PReLU: one ACTIV computes the positive side, one ARITH with a gain per channel the negative one, one ARITH adds them.

On either side of the zero point the other branch is constant, so nothing is rounded twice. When all slopes have the
same sign, saturation cuts the negative branch off at its end; else an ARITH clips its input first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.ir import Array, Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import cut_to_32_bits, half_away
from atonc.compiler.lower.elementwise import function
from atonc.compiler.lower.elementwise.channels import (
    ChannelLine,
    UnitMaker,
    all_codes,
    areas,
    chain_wirings,
    clip,
    is_per_channel,
    read_area,
)
from atonc.compiler.lower.elementwise.tables import FunctionTable
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import ints, looked_up, table_codes
from atonc.compiler.lower.semantics.arithmetic import pair as pair_codes
from atonc.compiler.lower.units.affine import CODES, FULL_RANGE, Affine, AffinePair, fit_affine, fit_pair, output_shift
from atonc.compiler.lower.units.arith import pair_unit
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.ops.integers import slopes
from atonc.compiler.ops.rounding import is_counted, round_half_away
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EACH_ELEMENT, TaskFlow
from atonc.compiler.plan.streams import Area, engine
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import choose, in_order
from atonc.compiler.select.preferences import FEWEST_UNITS
from atonc.compiler.select.rules import PRELU_SLOPES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ROWS


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
    x, out, slope = (context.tensor(name) for name in (op.inputs[0], op.outputs[0], op.inputs[1]))
    function.require_int8(op, x, out)
    if slope.data is None or not is_per_channel(slope, out):
        raise Refusal(
            PRELU_SLOPES,
            f"slopes of shape {slope.shape} for {out.shape}" if slope.data is not None else "slopes that are computed",
            "one constant slope for all or for each channel",
            "leave it to the CPU",
        )
    if slope.elements == 1 or x.zero_point == -128:  # no code is negative
        table = all_codes(op, context, 0).codes.reshape(256, -1)[:, 0]
        return function.function_steps(op, context, x.name, table)
    form = prelu_form(op, context)
    draws = [lambda draft: _steps(op, draft, form), lambda draft: _steps(op, draft, _signs_first(form))]
    return choose(context, in_order(FEWEST_UNITS, draws))


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


def _signs_first(form: Prelu) -> Prelu:
    return replace(form, negative=form.negative.signs_first)


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
    out, origin = context.tensor(op.outputs[0]), op.origin or (op.name,)
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
        middle = _sum_chains(form, out, (source, negative, raw), form.positive.config, ())
    elif len(form.units) > 2:
        positive = context.scratch(out.elements, f"{op.name}:positive")
        before, flow = function.chain_wirings(source, positive, out.elements, (form.positive.config,)), EACH_ELEMENT
        middle = _sum_chains(form, out, (positive, source, raw), None, form.units)
    else:
        middle = _sum_chains(form, out, (source, source, raw), form.positive.config, form.units)
    after = chain_wirings(raw, target, out.shape, [clip(low, high)]) if clipped else []
    first = pack(before, origin, "prelu, one branch", flow=flow)
    return [*first, *pack(middle, origin, op.kind), *pack(after, origin, "prelu, clip")]


def _sum_chains(
    form: Prelu,
    out: Tensor,
    buffers: tuple[str, str, str],
    table: ActivConfig | None,
    units: list[UnitMaker] | tuple[()],
) -> list[Wiring]:
    """Positive branch, negative branch, result; parts side by side."""
    upper, lower, target = buffers

    def wire(area: Area, first: int, epoch: TaskBuilder) -> None:
        positive = read_area(epoch, upper, area)
        if table is not None:
            positive = epoch.unit(table, positive)
        negative = read_area(epoch, lower, area)
        for make in units:
            negative = epoch.unit(make(first, area.channels, area.height * area.width * area.channels), negative)
        total = epoch.unit(pair_unit(form.total), positive, negative)
        epoch.write(total, target, engine(area, write=True))

    whole = out.shape if units else (1, out.elements, 1)
    return [
        Wiring(partial(wire, area, first), cost=area.width * area.channels)
        for area, first in areas(whole, min(2, 4 // (1 + len(units))))
    ]
