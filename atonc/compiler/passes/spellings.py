"""Norms and softmax that a model spells in parts become the operators that they are.

Only where real numbers stand between the parts: codes between them are roundings, and without these it is another
function. Gains and offsets behind a norm, one for each column, go into it.
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.passes.edit import Editor, real_data, real_value, rewrites
from atonc.compiler.passes.make_tables import operators_between
from atonc.machine.base.frozen import dataclass

NORMS = ("layer_norm", "rms_norm")


@dataclass(frozen=True)
class _Values:
    """A tensor, less its mean along an axis or as it is."""

    name: str
    axis: int | None = None  # of the mean


@dataclass(frozen=True)
class _Spread:
    """The mean of the squares of values along an axis, plus epsilon."""

    values: _Values
    axis: int
    epsilon: float


@rewrites
def name_spellings(op: Op, editor: Editor) -> list[Op] | None:
    if len(op.outputs) != 1 or op.attrs.get("activation", "none") != "none":
        return None
    found = _norm(op, editor) or _norm_of_products(op, editor) or _softmax(op, editor) or _factor(op, editor)
    return None if found is None else [found]


def _maker(name: str, editor: Editor, *kinds: str) -> Op | None:
    """The operator that gives these real numbers, if it is one of these."""
    op = editor.producer(name)
    if op is None or op.kind not in kinds or not editor.tensor(name).is_float:
        return None
    return op if op.attrs.get("activation", "none") == "none" and "clip" not in op.attrs else None


def _reduced(name: str, editor: Editor, kind: str) -> tuple[str, int] | None:
    """What is reduced along one axis that stays, and the axis."""
    op = _maker(name, editor, kind)
    if op is None or len(op.attrs["axes"]) != 1 or not op.attrs.get("keepdims"):
        return None
    return op.inputs[0], op.attrs["axes"][0] % len(editor.tensor(name).shape)


def _values(name: str, editor: Editor) -> _Values:
    op = _maker(name, editor, "sub")
    if op is not None and (found := _reduced(op.inputs[1], editor, "mean")) and found[0] == op.inputs[0]:
        return _Values(*found)
    return _Values(name)


def _squared(name: str, editor: Editor) -> _Values | None:
    op = _maker(name, editor, "square", "mul", "squared_difference")
    if op is None:
        return None
    if op.kind == "squared_difference":
        for x, mean in (op.inputs, op.inputs[::-1]):
            if (found := _reduced(mean, editor, "mean")) and found[0] == x:
                return _Values(*found)
        return None
    return _values(op.inputs[0], editor) if len(set(op.inputs)) == 1 else None


def _spread(name: str, editor: Editor) -> _Spread | None:
    epsilon, op = 0.0, _maker(name, editor, "add")
    if op is not None:
        for mean, constant in (op.inputs, op.inputs[::-1]):
            if (value := real_value(editor.tensor(constant))) is not None:
                name, epsilon = mean, value
    mean_of = _reduced(name, editor, "mean")
    values = _squared(mean_of[0], editor) if mean_of else None
    if mean_of is None or values is None or values.axis not in (None, mean_of[1]) or not epsilon >= 0.0:
        return None
    return _Spread(values, mean_of[1], epsilon)


def _length(name: str, editor: Editor) -> _Spread | None:
    op = _maker(name, editor, "sqrt")
    return None if op is None else _spread(op.inputs[0], editor)


def _inverse(name: str, editor: Editor) -> _Spread | None:
    """1 / length, however it is written."""
    op = _maker(name, editor, "rsqrt", "reciprocal", "div")
    if op is None:
        return None
    if op.kind == "div":
        return _length(op.inputs[1], editor) if real_value(editor.tensor(op.inputs[0])) == 1.0 else None
    return _spread(op.inputs[0], editor) if op.kind == "rsqrt" else _length(op.inputs[0], editor)


def _norm(op: Op, editor: Editor) -> Op | None:
    pairs = [op.inputs, op.inputs[::-1]] if op.kind == "mul" else [op.inputs] if op.kind == "div" else []
    for name, factor in pairs:
        spread = (_inverse if op.kind == "mul" else _length)(factor, editor)
        if spread is not None and _values(name, editor) == spread.values:
            return _made(op, spread, editor)
    return None


def _made(op: Op, spread: _Spread, editor: Editor, *factors: str) -> Op | None:
    x, kind = spread.values.name, "rms_norm" if spread.values.axis is None else "layer_norm"
    if editor.tensor(x).shape != editor.tensor(op.outputs[0]).shape:
        return None
    attrs = {"axis": spread.axis, "epsilon": spread.epsilon}
    return Op(kind, op.name, (x, *factors), op.outputs, attrs, operators_between(op, x, editor))


def _norm_of_products(op: Op, editor: Editor) -> Op | None:
    """x * f + (offset - mean * f) with f = gain / length, as batch norms of statistics are written."""
    for product, rest in (op.inputs, op.inputs[::-1]) if op.kind == "add" else ():
        left, right = _maker(product, editor, "mul"), _maker(rest, editor, "sub")
        shift = None if right is None else _maker(right.inputs[1], editor, "mul")
        if left is None or right is None or shift is None:
            continue
        for x, factor in (left.inputs, left.inputs[::-1]):
            means = [name for name in shift.inputs if name != factor]
            scaled = _maker(factor, editor, "mul")
            inverse, gain = (factor, "") if scaled is None else scaled.inputs
            if scaled is not None and editor.tensor(inverse).is_constant:
                inverse, gain = gain, inverse
            spread = _inverse(inverse, editor)
            if spread is None or len(means) != 1 or spread.values != _Values(x, spread.axis):
                continue
            factors = [_column(name, x, spread.axis, editor) if name else "" for name in (gain, right.inputs[0])]
            if _reduced(means[0], editor, "mean") == (x, spread.axis) and None not in factors:
                return _made(op, spread, editor, *(name or "" for name in factors))
    return None


def _factor(op: Op, editor: Editor) -> Op | None:
    """A gain or an offset behind a norm goes into it."""
    for name, constant in (op.inputs, op.inputs[::-1]) if op.kind in ("mul", "add") else ():
        norm = _maker(name, editor, *NORMS)
        taken = 0 if norm is None else max((k for k, part in enumerate(norm.inputs) if part), default=0)
        if norm is None or not editor.read_once(name) or taken > (op.kind == "add"):
            continue
        factor = _column(constant, norm.inputs[0], norm.attrs["axis"], editor)
        if factor is not None and editor.tensor(op.outputs[0]).shape == editor.tensor(name).shape:
            inputs = (*norm.inputs, "")[:2] if op.kind == "add" else norm.inputs[:1]
            return Op(norm.kind, op.name, (*inputs, factor), op.outputs, norm.attrs, (*norm.origin, *op.origin))
    return None


def _column(name: str, x: str, axis: int, editor: Editor) -> str | None:
    """A constant with one value for each place along the axis, as a vector."""
    constant, source = editor.tensor(name), editor.tensor(x)
    if not constant.is_constant or not (constant.is_float or constant.quant):
        return None
    return (
        name
        if constant.shape == (source.shape[axis],) and axis == len(source.shape) - 1
        else _flat(constant, source, axis, editor)
    )


def _flat(constant: Tensor, source: Tensor, axis: int, editor: Editor) -> str | None:
    size, rank = source.shape[axis], len(source.shape)
    shape = (1,) * (rank - len(constant.shape)) + constant.shape
    if constant.elements != 1 and (len(shape) != rank or shape[axis] != size or constant.elements != size):
        return None
    values = np.broadcast_to(real_data(constant).reshape(-1), (size,)).astype(np.float32)
    return editor.constant(f"{constant.name}:column", np.ascontiguousarray(values))


def _softmax(op: Op, editor: Editor) -> Op | None:
    """exp(x) / sum of exp(x): with the largest value taken out or not, it is the same function."""
    if op.kind not in ("div", "mul"):
        return None
    name, total = op.inputs
    if op.kind == "mul":
        inverse = _maker(total, editor, "reciprocal") or _maker(name, editor, "reciprocal")
        if inverse is None:
            return None
        name, total = name if inverse.outputs[0] == total else total, inverse.inputs[0]
    summed, power = _reduced(total, editor, "sum"), _maker(name, editor, "exp")
    if summed is None or power is None or summed[0] != name:
        return None
    x = power.inputs[0]
    shifted = _maker(x, editor, "sub")
    if shifted is not None and _reduced(shifted.inputs[1], editor, "reduce_max") == (shifted.inputs[0], summed[1]):
        x = shifted.inputs[0]
    attrs = {"axis": summed[1], "beta": 1.0}
    return Op("softmax", op.name, (x,), op.outputs, attrs, operators_between(op, x, editor))
