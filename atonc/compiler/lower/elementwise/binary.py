"""Arithmetic on two values with broadcasting: sums, products, quotients, minimum and maximum, gains and offsets per
channel.

Minimum and maximum come out of saturation: sat8(y - x - 128) + 128 is the positive part of y - x.

Quotients of two tensors: an ACTIV turns the divisor into its reciprocal of 8 bits, ARITH units multiply by it. That is
close enough where the divisor keeps away from zero and the quotients use the range of their format: half a step of the
reciprocal is then worth half a code. All 65,536 pairs are tried before a form is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import floor, log2

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.channels import channel_lines, channel_steps, common_block
from atonc.compiler.lower.elementwise.function import (
    chain_wirings,
    function_for,
    function_steps,
    require_int8,
    table_of,
)
from atonc.compiler.lower.elementwise.two_streams import (
    Operand,
    Repeats,
    code_operand,
    in_parts,
    is_of_bytes,
    operand_codes,
    operand_of,
    swapped,
)
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import ints, limited, shifted
from atonc.compiler.lower.semantics.arithmetic import line as line_codes
from atonc.compiler.lower.semantics.arithmetic import pair as pair_codes
from atonc.compiler.lower.units.arith import (
    BEYOND,
    CODES,
    FULL_RANGE,
    LARGER,
    Affine,
    AffinePair,
    Array,
    add_streams,
    affine_error,
    affine_unit,
    best_pair,
    first_trusted,
    fit_pair,
    fit_sum,
    multiply_unit,
    pair_error,
    pair_unit,
    product_unit,
)
from atonc.compiler.lower.units.wiring import Wiring, is_one_scale, origin_of, pack
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.rounding import ONCE, Rounding, lift, rounding_of
from atonc.compiler.ops.values import same_codes
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.enumerate import Drawing, cheapest, chosen, first
from atonc.compiler.select.rules import DIV_RECIPROCAL, ELEMENTWISE, MUL_CONSTANT
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.units.arith import ArithConfig

COEFFICIENTS, CONSTANTS = Variant("coefficients"), Variant("stream of constants")
_SUMS = ("add", "sub", "minimum", "maximum")
_LARGEST_PRODUCT = 32767  # with what the zero points add
_GRID = 5  # every fifth code is tried
_SHORTER = 3  # bits by which coefficients of sums may be shorter, less one, where only such were seen
_A_BYTE = 255  # times a byte is a number of 16 bits
_MOST_CONSTANT_ERROR = 0.5  # codes, where a constant has to fit 8 bits: the product must not show it


@dataclass(frozen=True)
class Product:
    """y = (x - zx) * (y - zy) * scale + zo: the exact product of the codes, then what the zero points add."""

    scale: float
    zero_x: int
    zero_y: int
    zero_out: int
    whole: bool  # all three units, as ST's releases 2.x have it, even where a zero point is 0
    rounding: Rounding = ONCE
    lift: float = 0.0  # codes that are added for the sake of a rounding that is not simple

    @property
    def offset(self) -> float:
        return self.zero_out + self.lift

    @property
    def minus_x(self) -> AffinePair | None:
        """p - zy*x, exact in 16 bits; None when the last unit does it or there is nothing to do."""
        needed = self.whole or (self.zero_x and self.zero_y)
        return fit_pair(1.0, float(-self.zero_y), 0.0, out_bytes=2) if needed else None

    @property
    def last_takes_x(self) -> bool:
        return not self.whole and not self.zero_x

    @property
    def last(self) -> AffinePair | Affine:
        alone = not (self.whole or self.zero_x or self.zero_y)
        return Affine.nearest(self.scale, self.offset) if alone else _last_of_product(self)

    @property
    def _numbers(self) -> tuple[float, float, float]:
        """What the last unit has: gain of the product, gain of the operand beside it, offset."""
        if self.last_takes_x:
            return self.scale, -self.zero_y * self.scale, self.offset
        return self.scale, -self.zero_x * self.scale, self.offset + (self.scale * self.zero_x * self.zero_y)

    @property
    def nominal(self) -> AffinePair:
        """The last unit with coefficients nearest to the real ones."""
        return fit_pair(*self._numbers)

    def before_last(self, x: Array, y: Array) -> Array:
        """The product as the last unit gets it."""
        total = ints(x) * y
        return total if self.minus_x is None else pair_codes(self.minus_x, total, x)

    @property
    def error(self) -> float:
        """The error in LSB, before the last rounding."""
        last = self.last
        if isinstance(last, Affine):
            return affine_error(last, np.array([self.scale]), np.array([self.offset]), _LARGEST_PRODUCT)
        return pair_error(last, *self._numbers, _LARGEST_PRODUCT)

    def __call__(self, x: Array, y: Array) -> Array:
        """What the units compute."""
        total, last = self.before_last(x, y), self.last
        if isinstance(last, Affine):
            return line_codes(last, total)
        return pair_codes(last, total, x if self.last_takes_x else y)


@lru_cache(maxsize=1024)
def _last_of_product(form: Product) -> AffinePair:
    """Finds, among the coefficients around the real ones, those with which most results are exact."""
    if form.whole:
        return form.nominal
    x, y = CODES[None, ::_GRID], CODES[::_GRID, None]
    products = ((x - form.zero_x) * (y - form.zero_y)).astype(np.float64) * form.scale
    exact = form.rounding(products) + form.zero_out
    wanted, total = np.clip(exact, *FULL_RANGE), form.before_last(x, y)
    other = np.broadcast_to(x if form.last_takes_x else y, total.shape)
    return best_pair(form.nominal, lambda pair: int(np.count_nonzero(pair_codes(pair, total, other) != wanted)))


@recipe("add", "sub", "mul", "minimum", "maximum", "squared_difference", "pow", "affine")
def lower_elementwise(op: Op, context: Context) -> list[TaskGroup]:
    out = context.tensor(op.outputs[0])
    varying = [k for k, name in enumerate(op.inputs) if context.tensor(name).data is None]
    require_int8(op, out, *(context.tensor(op.inputs[k]) for k in varying))
    constants = [context.tensor(name) for name in op.inputs if context.tensor(name).data is not None]
    x = context.tensor(op.inputs[varying[0] if varying else 0])
    alone = len({op.inputs[k] for k in varying}) == 1 and x.elements == out.elements
    if alone and all(c.elements == 1 for c in constants):
        return function_steps(op, context, x.name, table_of(op, context, varying[0]))
    streamable = op.kind in _SUMS or (op.kind == "mul" and all(is_of_bytes(c) for c in constants))
    block = common_block(constants, out, streamable) if alone else None
    lines = channel_lines(op, context, varying[0]) if block is not None else None
    if block is None or lines is None:
        return _of_two(op, context)
    by_channel = partial(channel_steps, op, varying=varying[0], block=block, lines=lines)
    others = [partial(_of_two, op)] if streamable else []  # a stream of constants is read for every pixel
    if others and block == out.elements and context.numerics != "2.x":  # one token: rows are loaded for a single turn
        both = (COEFFICIENTS, by_channel), (CONSTANTS, others[0])
        return chosen(context, cheapest((variant, (Drawing(draw),)) for variant, draw in both))
    return chosen(context, first((Drawing(draw),) for draw in (by_channel, *others)))


def _of_two(op: Op, context: Context) -> list[TaskGroup]:
    """Both operands as streams, also constants."""
    if op.kind in ("add", "sub"):
        return lower_sum(op, context)
    if op.kind == "mul":
        x, y, form = product_form(op, context)
        return product_steps(op, context, x, y, form, form.error)
    if op.kind in ("minimum", "maximum"):
        return lower_extreme(op, context)
    if op.kind == "squared_difference":
        return lower_squares(op, context)
    limit = "add, sub, mul, minimum, maximum, squared_difference; others by constants"
    raise Refusal(ELEMENTWISE, f"{op.kind} of two tensors", limit, "leave it to the CPU")


def lower_sum(op: Op, context: Context) -> list[TaskGroup]:
    """In one unit; a steep operand in 16 bits first, where published units have no shift as small as its gain takes."""
    return chosen(context, first((Drawing(partial(draw, op)),) for draw in (_in_one_unit, _steep_first)))


def _in_one_unit(op: Op, context: Context) -> list[TaskGroup]:
    x, y, pair = sum_form(op, context)
    unit, out = pair_unit(pair, x.element_bytes, y.element_bytes), context.tensor(op.outputs[0])
    gain_x, gain_y = (np.copysign(o.scale / out.scale, k) for o, k in ((x, pair.a), (y, pair.b)))
    offset = out.zero_point - x.zero_point * gain_x - y.zero_point * gain_y
    reach_x, reach_y = (128 if o.element_bytes == 1 else 32767 for o in (x, y))
    error = pair_error(pair, gain_x, gain_y, offset, reach_x, reach_y)
    context.explain(op, TwoOperands(op, context, (x, y), partial(pair_codes, pair)), error)
    return in_parts(op, context, (x, y), lambda epoch, read: epoch.unit(unit, read(0), read(1)))


def _steep_first(op: Op, context: Context) -> list[TaskGroup]:
    """The steeper operand times a power of two, exact in 16 bits: its gain is less by as much."""
    out = context.tensor(op.outputs[0])
    x, y = (operand_of(op, context, name) for name in op.inputs)
    gain_x, gain_y = x.scale / out.scale, y.scale / out.scale * (-1 if op.kind == "sub" else 1)
    if abs(gain_y) > gain_x:
        x, y, gain_x, gain_y = y, x, gain_y, gain_x
    if not x.element_bytes == y.element_bytes == 1 or not 2 <= abs(gain_x) < 128 or context.numerics == "2.x":
        raise Refusal(ELEMENTWISE, f"gains of {gain_x:.3g} and {gain_y:.3g}", "a steep operand of bytes", "one unit")
    zeros = x.zero_point, y.zero_point, out.zero_point
    powers = (1 << k for k in range(floor(log2(abs(gain_x))), 8))
    pairs = ((n, fit_sum(gain_x, zeros[0], gain_y, *zeros[1:], times=n)) for n in powers)
    times, pair = first_trusted(pairs, lambda one: [pair_unit(one[1], 2, 1)], context.facts.target.trust)
    offset = out.zero_point - x.zero_point * gain_x - y.zero_point * gain_y
    error = pair_error(pair, gain_x / times, gain_y, offset, 128 * times)

    def wire(epoch: TaskBuilder, read: Callable[[int], str]) -> str:
        wide = epoch.unit(product_unit(np.array([times]), 0), read(0))
        return epoch.unit(pair_unit(pair, 2, 1), wide, read(1))

    context.explain(op, TwoOperands(op, context, (x, y), lambda a, b: pair_codes(pair, ints(a) * times, b)), error)
    return in_parts(op, context, (x, y), wire)


def sum_form(op: Op, context: Context) -> tuple[Operand, Operand, AffinePair]:
    """Operands in the order of the ports, and the coefficients."""
    out = context.tensor(op.outputs[0])
    x, y = (operand_of(op, context, name) for name in op.inputs)
    gain_x, gain_y = x.scale / out.scale, y.scale / out.scale * (-1 if op.kind == "sub" else 1)
    if swapped(op, x, y):
        x, y, gain_x, gain_y = y, x, gain_y, gain_x
    if context.numerics == "2.x" or x.element_bytes > 1:
        offset = out.zero_point - x.zero_point * gain_x - y.zero_point * gain_y
        pairs = (fit_pair(gain_x, gain_y, offset, shorter=bits) for bits in range(_SHORTER))
    else:
        zeros = x.zero_point, y.zero_point, out.zero_point
        pairs = (fit_sum(gain_x, zeros[0], gain_y, *zeros[1:], bits) for bits in range(_SHORTER))
    turns = y.repeats.plain and x.element_bytes == y.element_bytes
    forms = (form for one in pairs for form in ((x, y, one), (y, x, one.turned))[: 1 + turns])

    def units(form: tuple[Operand, Operand, AffinePair]) -> list[ArithConfig]:
        return [pair_unit(form[2], form[0].element_bytes, form[1].element_bytes)]

    return first_trusted(forms, units, context.facts.target.trust)


@dataclass(frozen=True, eq=False)
class TwoOperands:
    """What an operator of two operands means: `codes` from the numbers in both, clipped."""

    op: Op
    context: Context
    operands: tuple[Operand, Operand]
    codes: Callable[[Array, Array], Array]  # element by element

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        given = dict(zip(self.op.inputs, values, strict=True))
        return [self.clipped(*(operand_codes(operand, self.op, self.context, given) for operand in self.operands))]

    def clipped(self, x: Array, y: Array) -> Array:
        return np.clip(self.codes(x, y), *self.op.attrs.get("clip", FULL_RANGE))


def product_steps(op: Op, context: Context, x: Operand, y: Operand, form: Product, error: float) -> list[TaskGroup]:
    last, minus_x = form.last, form.minus_x

    def wire(epoch: TaskBuilder, read: Callable[[int], str]) -> str:
        product = epoch.unit(multiply_unit(), read(0), read(1))
        if minus_x is not None:
            product = epoch.unit(pair_unit(minus_x, 2, 1), product, read(0))
        if isinstance(last, Affine):
            return epoch.unit(affine_unit(last, 1, in_bytes=2), product)
        return epoch.unit(pair_unit(last, 2, 1), product, read(0 if form.last_takes_x else 1))

    context.explain(op, TwoOperands(op, context, (x, y), form), error)
    return in_parts(op, context, (x, y), wire)


def product_form(op: Op, context: Context) -> tuple[Operand, Operand, Product]:
    out = context.tensor(op.outputs[0])
    x, y = (operand_of(op, context, name, bytes_only=True) for name in op.inputs)
    for own, other, name in ((x, y, op.inputs[0]), (y, x, op.inputs[1])):
        tensor, error = context.tensor(name), own.scale / 2 * 255 * other.scale / out.scale
        if tensor.data is not None and not is_of_bytes(tensor) and error > _MOST_CONSTANT_ERROR:
            seen = f"rounding {tensor.name} to 8 bits costs up to {error:.2f} LSB"
            raise Refusal(MUL_CONSTANT, seen, f"{_MOST_CONSTANT_ERROR} LSB", "quantise the constant")
    if swapped(op, x, y):
        x, y = y, x
    zeros, scale = (x.zero_point, y.zero_point, out.zero_point), x.scale * y.scale / out.scale
    if context.numerics == "2.x":
        return x, y, Product(scale, *zeros, whole=True)
    rounding = rounding_of(op, [context.tensor(name) for name in op.inputs], out)
    lifted = float(np.max(lift(rounding, out, op.attrs.get("clip"))))
    return x, y, Product(scale, *zeros, False, rounding, lifted)


def lower_extreme(op: Op, context: Context) -> list[TaskGroup]:
    """max(x, y) = x + (y - x)+, min(x, y) = y - (y - x)+, on codes of the output; exact."""
    out, before, operands = context.tensor(op.outputs[0]), [], []
    for name in op.inputs:
        operand, wirings = _as_output(op, context, name, out)
        operands.append(operand)
        before += wirings
    x, y = (operands[1], operands[0]) if swapped(op, *operands) else operands
    largest = op.kind == "maximum"
    difference, last = BEYOND, LARGER if largest else BEYOND

    def codes(x: Array, y: Array) -> Array:
        return pair_codes(last, pair_codes(difference, x, y), x if largest else y)

    def wire(epoch: TaskBuilder, read: Callable[[int], str]) -> str:
        trust = context.facts.target.trust
        positive = add_streams(epoch, difference, (read(0), read(1)), trust)
        return add_streams(epoch, last, (positive, read(0 if largest else 1)), trust)

    context.explain(op, TwoOperands(op, context, (x, y), codes))
    alone = sum(bool(operand.source) for operand in operands) == 1
    first = pack(before, origin_of(op), "requantize", flow=EACH_ELEMENT if alone else None)
    return [*first, *in_parts(op, context, (x, y), wire)]


def _as_output(op: Op, context: Context, name: str, out: Tensor) -> tuple[Operand, list[Wiring]]:
    """An operand in codes of the output, and what converts it first. Rounding is monotonic: the result is exact."""
    tensor = context.tensor(name)
    convert = Op("requantize", op.name, (name,), op.outputs, {}, op.origin)
    if tensor.data is not None:
        codes = evaluate(context.graph, convert, [tensor.data])[0].codes
        return code_operand(context, np.broadcast_to(codes, out.shape), out, name), []
    operand = operand_of(op, context, name)
    if tensor.quant is not None and tensor.quant.same_as(out.quant):
        return operand, []
    scratch = context.scratch(tensor.elements, f"{op.name}:{name}")
    found = function_for(table_of(convert, context, 0), context.facts.target.trust)
    wirings = chain_wirings(operand.buffer, scratch, tensor.elements, found.units)
    operand = replace(operand, buffer=scratch, scale=out.scale, zero_point=out.zero_point)
    return replace(operand, source=name, table=found.codes), wirings


_LARGEST_ROOT = 23170  # its square without 14 bits fits 16
_SQUARE_SHIFTS = (5, 14)  # of products of 16 bits in published programs


@dataclass(frozen=True)
class SquaredDifference:
    """The difference in 16 bits, as large as its square allows, and the square."""

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]

    @property
    def times(self) -> int:
        """Steps of the difference in one of x, which codes of two bytes hold."""
        (x, y, out), (zero_x, zero_y, zero_out) = self.scales, self.zeros
        ends = [abs(x * (a - zero_x) - y * (b - zero_y)) for a in FULL_RANGE for b in FULL_RANGE]
        shown = np.sqrt((FULL_RANGE[1] - zero_out + 1) * out)  # what is farther apart is beyond the format
        return min(_A_BYTE, int(_LARGEST_ROOT * x / min(shown, max(ends))))

    @property
    def pair(self) -> AffinePair:
        """x times so much, less as much of y."""
        gain, zero_x, zero_y = self.times * self.scales[1] / self.scales[0], *self.zeros[:2]
        return fit_pair(1.0, -gain, gain * zero_y - self.times * zero_x, 2, most_shift=_SQUARE_SHIFTS[1])

    @property
    def last(self) -> Affine:
        x, _, out = self.scales
        return Affine.nearest((x / self.times) ** 2 * 2.0 ** _SQUARE_SHIFTS[1] / out, float(self.zeros[2]))

    def square(self, x: Array, y: Array) -> Array:
        difference = pair_codes(self.pair, ints(x) * self.times, y)
        return limited(shifted(difference * difference, _SQUARE_SHIFTS[1]), 16)

    def __call__(self, x: Array, y: Array) -> Array:
        return line_codes(self.last, self.square(x, y))

    @property
    def error(self) -> float:
        """The largest error in LSB, before the last rounding, of all pairs of codes."""
        (x, y, out), (zero_x, zero_y, zero_out), last = self.scales, self.zeros, self.last
        exact = (x * (CODES[:, None] - zero_x) - y * (CODES - zero_y)) ** 2 / out + zero_out
        found = (last.a * self.square(CODES[:, None], CODES) + last.c) / 2.0**last.shift
        return float(np.abs(np.clip(found, *FULL_RANGE) - np.clip(exact, *FULL_RANGE)).max())


def lower_squares(op: Op, context: Context) -> list[TaskGroup]:
    """(x - y)^2 in two epochs; between them the difference in memory."""
    constants = [context.tensor(name) for name in op.inputs if context.tensor(name).data is not None]
    out, (x, y) = context.tensor(op.outputs[0]), (operand_of(op, context, name, bytes_only=True) for name in op.inputs)
    steeper = x.repeats.plain and y.repeats.plain and y.scale > x.scale
    x, y = (y, x) if steeper or swapped(op, x, y) else (x, y)
    form = SquaredDifference((x.scale, y.scale, out.scale), (x.zero_point, y.zero_point, out.zero_point))
    if not form.times or not all(map(is_of_bytes, constants)):
        seen = "a constant that is not of bytes" if form.times else f"scales of {x.scale:g} and {out.scale:g}"
        raise Refusal(ELEMENTWISE, f"{op.kind} with {seen}", "codes of bytes", "quantise it, or leave it to the CPU")
    wide = context.scratch(2 * out.elements, f"{op.name}:difference")

    def differ(epoch: TaskBuilder, read: Callable[[int], str]) -> str:
        times = epoch.unit(product_unit(np.array([form.times]), 0), read(0))
        return epoch.unit(pair_unit(form.pair, 2, 1), times, read(1))

    def square(epoch: TaskBuilder, read: Callable[[int], str]) -> str:
        product = epoch.unit(multiply_unit(2, _SQUARE_SHIFTS[1]), read(0), read(1))
        return epoch.unit(affine_unit(form.last, 1, in_bytes=2), product)

    context.explain(op, TwoOperands(op, context, (x, y), form), form.error)
    both = Operand(wide, 1.0, 0, Repeats(1, 1, out.elements), 2)
    return [*in_parts(op, context, (x, y), differ, wide), *in_parts(op, context, (both, both), square)]


MOST_ERROR = 1  # codes
_FAR_BACK = 16  # operators that are asked what the divisor may be
_SAME_VALUES = ("reshape", "squeeze", "expand_dims", "flatten", "identity", "transpose", "slice")
_FUNCTIONS = ("table", "requantize", "add", "sub", "mul", "minimum", "maximum")  # of one value, with single constants


@recipe("div")
def lower_division(op: Op, context: Context) -> list[TaskGroup]:
    numerator, divisor = (context.tensor(name) for name in op.inputs)
    single = numerator.data is not None and numerator.elements == 1
    if divisor.data is not None or single or numerator is divisor:
        return lower_elementwise(op, context)
    return lower_quotient(op, context)


def lower_quotient(op: Op, context: Context) -> list[TaskGroup]:
    numerator, divisor, out = (context.tensor(name) for name in (*op.inputs, *op.outputs))
    require_int8(op, numerator, divisor, out)
    occurring = occurring_codes(context, divisor)
    codes, scale, zero = reciprocal(divisor, occurring)
    found = function_for(codes, context.facts.target.trust)
    x, y = (operand_of(op, context, name, bytes_only=True) for name in op.inputs)
    form = Product(x.scale * scale / out.scale, x.zero_point, zero, out.zero_point, whole=False)
    _require_close(op, context, occurring, found.codes, form)
    scratch = context.scratch(divisor.elements, f"{op.name}:reciprocal")
    before = chain_wirings(y.buffer, scratch, divisor.elements, found.units)
    y = replace(y, buffer=scratch, scale=scale, zero_point=zero, source=divisor.name, table=found.codes)
    if swapped(op, x, y):
        x, y, form = y, x, replace(form, zero_x=form.zero_y, zero_y=form.zero_x)
    first = pack(before, origin_of(op), "reciprocal", flow=EACH_ELEMENT)
    return [*first, *product_steps(op, context, x, y, form, MOST_ERROR)]


def reciprocal(divisor: Tensor, occurring: Array) -> tuple[Array, float, int]:
    """Codes of 1 / y for all codes of y, their scale and zero point: a format that its own range fills. Codes that do
    not occur get the nearest value."""
    centred = (CODES - divisor.zero_point).astype(np.float64)
    if occurring[centred == 0].any():
        limit = "divisors whose producers keep them away from zero"
        remedy = "add a positive constant to the divisor, or leave it to the CPU"
        raise Refusal(DIV_RECIPROCAL, f"{divisor.name} may be zero", limit, remedy)
    values = 1.0 / (np.where(centred == 0, 1.0, centred) * divisor.scale)
    low, high = float(values[occurring].min()), float(values[occurring].max())
    if low > 0.0:
        scale, zero = high / 255.0, FULL_RANGE[0]
    elif high < 0.0:
        scale, zero = -low / 255.0, FULL_RANGE[1]
    else:
        scale, zero = max(high, -low) / 127.0, 0
    codes = np.rint(np.clip(values, low, high) / scale).astype(np.int64) + zero
    return np.clip(codes, *FULL_RANGE), scale, zero


def _require_close(op: Op, context: Context, occurring: Array, table: Array, form: Product) -> None:
    """Every pair of codes, except divisors that do not occur."""
    x, y = (side.reshape(-1) for side in np.meshgrid(CODES, CODES[occurring], indexing="ij"))
    exact = evaluate(context.graph, op, [x.astype(np.int8), y.astype(np.int8)])[0].codes.astype(np.int64)
    clip = op.attrs.get("clip", FULL_RANGE)
    most = int(np.abs(np.clip(form(x, table[y + 128]), *clip) - exact).max(initial=0))
    if most > MOST_ERROR:
        seen = f"an 8-bit reciprocal of {op.inputs[1]} costs up to {most} LSB"
        remedy = "an output scale that fits the range of the quotients, or leave it to the CPU"
        raise Refusal(DIV_RECIPROCAL, seen, f"{MOST_ERROR} LSB", remedy)


def occurring_codes(context: Context, tensor: Tensor) -> Array:
    """Which of the 256 codes a tensor can have at all, as far as the functions of one value before it tell."""
    functions, name = [], tensor.name
    for _ in range(_FAR_BACK):
        op = context.graph.producers.get(name)
        source = _only_source(op, context) if op is not None else None
        if op is None or source is None:
            break
        if op.kind not in _SAME_VALUES:
            functions.append(table_of(op, context, op.inputs.index(source)))
        name = source
    codes = CODES
    for table in reversed(functions):
        codes = np.unique(table[codes + 128].astype(np.int64))
    return np.isin(CODES, codes)


def _only_source(op: Op, context: Context) -> str | None:
    """The tensor of which every value of the output is a function; None if there is more to it."""
    varying = [name for name in op.inputs if name and context.tensor(name).data is None]
    if len(varying) != 1 or len(op.outputs) != 1:
        return None
    source, target = context.tensor(varying[0]), context.tensor(op.outputs[0])
    if not (is_one_scale(source) and is_one_scale(target)):
        return None
    if op.kind in _SAME_VALUES:
        return source.name if same_codes(source, target) and "clip" not in op.attrs else None
    constants = [context.tensor(name) for name in op.inputs if name and name != source.name]
    return source.name if op.kind in _FUNCTIONS and all(c.elements == 1 for c in constants) else None
