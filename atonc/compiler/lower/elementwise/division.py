"""Quotients of two tensors: an ACTIV turns the divisor into its reciprocal of 8 bits, ARITH units multiply by it.

That is close enough where the divisor keeps away from zero and the quotients use the range of their format: half a step
of the reciprocal is then worth half a code. All 65,536 pairs are tried before a form is taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.binary import Product, lower_elementwise, product_steps
from atonc.compiler.lower.elementwise.function import chain_wirings, function_for, require_int8, table_of
from atonc.compiler.lower.elementwise.operands import Operand, operand_of, swapped
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.units.affine import CODES, FULL_RANGE, Array
from atonc.compiler.lower.units.wiring import pack
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.values import same_codes
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import DIV_RECIPROCAL
from atonc.machine.base.frozen import dataclass

MOST_ERROR = 1  # codes
_FAR_BACK = 16  # operators that are asked what the divisor may be
_SAME_VALUES = ("reshape", "squeeze", "expand_dims", "flatten", "identity", "transpose", "slice")
_FUNCTIONS = ("table", "requantize", "add", "sub", "mul", "minimum", "maximum")  # of one value, with single constants


@dataclass(frozen=True, eq=False)
class Reciprocal:
    """1 / y as codes, for all codes of y that occur."""

    codes: Array
    scale: float
    zero_point: int


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
    inverse = reciprocal(op, divisor, occurring)
    found = function_for(inverse.codes, context.facts.target.trust)
    x, y = (operand_of(op, context, name, bytes_only=True) for name in op.inputs)
    form = Product(x.scale * inverse.scale / out.scale, x.zero_point, inverse.zero_point, out.zero_point, whole=False)
    _require_close(op, context, occurring, found.codes, form)
    scratch = context.scratch(divisor.elements, f"{op.name}:reciprocal")
    before = chain_wirings(y.buffer, scratch, divisor.elements, found.units)
    inverted = replace(
        y, buffer=scratch, scale=inverse.scale, zero_point=inverse.zero_point, source=divisor.name, table=found.codes
    )
    first = pack(before, op.origin or (op.name,), "reciprocal", flow=EACH_ELEMENT)
    return [*first, *_product(op, context, x, inverted, form)]


def _product(op: Op, context: Context, x: Operand, inverted: Operand, form: Product) -> list[TaskGroup]:
    if swapped(op, x, inverted):
        turned = replace(form, zero_x=form.zero_y, zero_y=form.zero_x)
        return product_steps(op, context, inverted, x, turned, MOST_ERROR)
    return product_steps(op, context, x, inverted, form, MOST_ERROR)


def reciprocal(op: Op, divisor: Tensor, occurring: Array) -> Reciprocal:
    """In a format that its own range fills; codes that do not occur get the nearest value."""
    centred = (CODES - divisor.zero_point).astype(np.float64)
    if occurring[centred == 0].any():
        raise Refusal(
            DIV_RECIPROCAL,
            f"{divisor.name} may be zero",
            "divisors whose producers keep them away from zero",
            "add a positive constant to the divisor, or leave it to the CPU",
        )
    values = 1.0 / (np.where(centred == 0, 1.0, centred) * divisor.scale)
    low, high = float(values[occurring].min()), float(values[occurring].max())
    if low > 0.0:
        scale, zero = high / 255.0, FULL_RANGE[0]
    elif high < 0.0:
        scale, zero = -low / 255.0, FULL_RANGE[1]
    else:
        scale, zero = max(high, -low) / 127.0, 0
    codes = np.rint(np.clip(values, low, high) / scale).astype(np.int64) + zero
    return Reciprocal(np.clip(codes, *FULL_RANGE), scale, zero)


def _require_close(op: Op, context: Context, occurring: Array, table: Array, form: Product) -> None:
    """Every pair of codes, except divisors that do not occur."""
    x, y = (side.reshape(-1) for side in np.meshgrid(CODES, CODES[occurring], indexing="ij"))
    exact = evaluate(context.graph, op, [x.astype(np.int8), y.astype(np.int8)])[0].codes.astype(np.int64)
    clip = op.attrs.get("clip", FULL_RANGE)
    most = int(np.abs(np.clip(form(x, table[y + 128]), *clip) - exact).max(initial=0))
    if most > MOST_ERROR:
        raise Refusal(
            DIV_RECIPROCAL,
            f"an 8-bit reciprocal of {op.inputs[1]} costs up to {most} codes",
            f"{MOST_ERROR} code",
            "an output scale that fits the range of the quotients, or leave it to the CPU",
        )


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
    if any(t.dtype != "int8" or t.quant is None or not t.quant.is_per_tensor for t in (source, target)):
        return None
    if op.kind in _SAME_VALUES:
        return source.name if same_codes(source, target) and "clip" not in op.attrs else None
    constants = [context.tensor(name) for name in op.inputs if name and name != source.name]
    return source.name if op.kind in _FUNCTIONS and all(c.elements == 1 for c in constants) else None
