"""Convolutions and dense layers on codes of 16 bits: two layers of bytes, and their sum.

    y = u * high16 + v * low16,   high16 = sum(high * w) * 256 * scale / u,   low16 = (sum(low * w) * scale + bias) / v

Sums of 16-bit features would leave the 24 bits that units are known to hold; sums of bytes do not. u and v are the
least powers of two with which no half saturates before the whole does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import met_together
from atonc.compiler.lower.conv.layer import ConvLayer, layer_of
from atonc.compiler.lower.conv.requantise import bias_of
from atonc.compiler.lower.conv.weight_sums import extreme_sums, magnitudes
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints
from atonc.compiler.lower.sixteen.halves import Halves, halves_of, never_negative
from atonc.compiler.lower.sixteen.inner import inside, lower_inner, require_centred, scratch_tensor
from atonc.compiler.lower.sixteen.joining import HIGHEST, WideSum, wide_clip
from atonc.compiler.lower.sixteen.one_pass import lower_in_one_pass
from atonc.compiler.lower.sixteen.pair import pair_of
from atonc.compiler.lower.sixteen.streams import two_through
from atonc.compiler.plan.policy import WIDE_STEP, objective
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Offer, attempt, choose, in_order, take_best
from atonc.compiler.select.form import Form, RefusedForm, Semantics
from atonc.compiler.select.preferences import AS_STORED
from atonc.compiler.select.rules import CONV_WEIGHTS, WIDE_CODES, WIDE_SUMS
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]

ONE_PASS, TWO_PASSES = "codes of fewer bits in one pass", "high and low bytes"
ONE_EPOCH, TWO_LAYERS = "both halves in one epoch", "a layer for each half"
_MOST_WEIGHT = 8  # u and v: beyond, halves are too coarse to be worth it
_ROUNDING = 0.5  # codes: of the second unit of the low half


@dataclass(frozen=True, eq=False)
class TwoHalves:
    """What the tasks compute."""

    halves: Halves
    high: Semantics
    low: Semantics
    total: WideSum

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        high, low = (ints(means.codes([codes])[0]) for means, codes in self.layers(values[0]))
        return [self.total(high, low)]

    def layers(self, values: Any) -> list[tuple[Semantics, Ints]]:
        """What each half computes, and the codes that it gets."""
        pairs = ((self.halves.high, self.high), (self.halves.low, self.low))
        return [(means, self.halves.codes(half)(ints(values))) for half, means in pairs]

    @property
    def error(self) -> float:
        """Expected largest distance from exact arithmetic, in codes: both halves round to the nearest at the end."""
        own = (half.error * WIDE_STEP + _ROUNDING for half in (self.high, self.low))
        return sum(weight * error for weight, error in zip((self.total.a, self.total.b), own, strict=True))

    @property
    def room(self) -> float:
        return min(self.high.room, self.low.room)


@recipe("conv", "dense", "transpose_conv", wide=True)
def lower_sums(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(op, context, context.tensor(op.inputs[1]))


def lower_layer(op: Op, context: Context, weights: Tensor) -> list[TaskGroup]:
    """A convolution, or what can be seen as one."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    if context.numerics == "2.x":
        raise Refusal(WIDE_CODES, "16 bits with the numbers of ST's 2.x", "8 bits there", "leave out --numerics 2.x")
    if not (weights.is_constant and weights.dtype == "int8" and weights.quant is not None):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal(CONV_WEIGHTS, seen, "constant 8-bit weights", "quantise the weights to int8 (16x8)")
    one = attempt(context, partial(lower_in_one_pass, op, weights))
    if x.name in context.coarse or y.name in context.coarse:
        return context.take(one)
    two = attempt(context, partial(_in_two_passes, op, weights))
    tried = {ONE_PASS: one, TWO_PASSES: two}
    offers = [Offer(form, label, _price(form)) for label, form in tried.items() if isinstance(form, Form)]
    context.refused += [one] if isinstance(one, RefusedForm) else []
    return take_best(context, offers) if offers else context.take(two)


def _in_two_passes(op: Op, weights: Tensor, context: Context) -> list[TaskGroup]:
    signs = (True, False) if never_negative(op.inputs[0], context.graph) else (False,)
    draws = [partial(_cheaper, op, weights, unsigned) for unsigned in signs]
    return choose(context, in_order(AS_STORED, draws), blame_last=True)


def _cheaper(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    """Both halves in one epoch, or as layers of their own."""
    draws = {TWO_LAYERS: _layer} | ({ONE_EPOCH: _pair} if op.kind in ("conv", "dense") else {})
    tried = {label: attempt(context, partial(draw, op, weights, unsigned)) for label, draw in draws.items()}
    offers = [Offer(form, label, _price(form)) for label, form in tried.items() if isinstance(form, Form)]
    context.refused += [form for form in tried.values() if isinstance(form, RefusedForm)]
    return take_best(context, offers) if offers else context.take(tried[TWO_LAYERS])


def _price(form: Form) -> float:
    """What choices compare, with errors of 16 bits weighed as such."""
    return objective(form.cycles, form.error / WIDE_STEP, form.scratch_bytes, form.target.machine)


def _pair(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    bias = _bias(op, context, x, weights)
    halves = halves_of(x, context, op.origin or (op.name,), unsigned)
    context.buffer(y.name)
    layers = [
        _as_bytes(context, halves, *_inner(op, halves, (half, weights, y), added))
        for half, added in ((halves.high, None), (halves.low, bias))
    ]
    groups, meaning, error = pair_of((layers[0], layers[1]), halves, WideSum(**_limits(op)), context)
    context.explain(op, meaning, error)
    return [*halves.groups, *groups]


def _as_bytes(context: Context, halves: Halves, op: Op, tensors: tuple[Tensor, ...]) -> ConvLayer:
    """A half as the recipes for bytes see it."""
    draft = context.draft()
    inside(draft, op, tensors, lambda: [])
    if op.kind == "conv":
        return layer_of(op, draft)
    (outputs, inputs), elements = tensors[1].shape, tensors[0].elements
    return layer_of(op, draft, (1, elements // inputs, inputs), (1, elements // inputs, outputs))


def _layer(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    """With high bytes that have no sign, or with signed ones."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    bias = _bias(op, context, x, weights)
    total = replace(_weights(op, x, weights, y, bias), **_limits(op))
    halves = halves_of(x, context, op.origin or (op.name,), unsigned)
    high_sums = scratch_tensor(context, y, "int16", y.scale * total.a)
    low_sums = scratch_tensor(context, y, "int16", y.scale * total.b)
    high = _half(op, context, halves, (halves.high, weights, high_sums), None)
    low = _half(op, context, halves, (halves.low, weights, low_sums), bias)
    meaning = TwoHalves(halves, high[1], low[1], total)
    context.explain(op, meaning, meaning.error, meaning.room)
    sums = high_sums.name, low_sums.name
    return [*halves.groups, *_side_by_side(high[0], low[0]), _joined(op, context, sums, y, total)]


def _limits(op: Op) -> dict[str, int]:
    low, high = wide_clip(op.attrs.get("clip"))
    return {"low": low, "high": high}


def _bias(op: Op, context: Context, x: Tensor, weights: Tensor) -> Real | None:
    """In real units."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return None
    assert weights.quant is not None
    outputs = weights.shape[0]
    return bias_of(op, context, x.scale * np.broadcast_to(weights.quant.scales, (outputs,)), outputs)


def _weights(op: Op, x: Tensor, weights: Tensor, y: Tensor, bias: Real | None) -> WideSum:
    """What each half counts in, so that it holds all that matters: the high one has to go beyond the codes by what the
    low one could take off again."""
    assert weights.quant is not None and weights.data is not None
    zeros = weights.quant.zero_points.astype(np.int16).reshape(-1, *(1,) * (weights.data.ndim - 1))
    plain = weights.data.astype(np.int16) - zeros
    kernels = [plain.reshape(weights.shape[0], 1, 1, -1)]
    if op.kind == "transpose_conv":
        kernels = met_together(plain, tuple(op.attrs["stride"]), (x.shape[1], x.shape[2]))
    scale = x.scale * np.broadcast_to(weights.quant.scales, (weights.shape[0],)) / y.scale
    added = 0.0 if bias is None else np.abs(bias) / y.scale
    low = np.max([magnitudes(kernel) for kernel in kernels], axis=0) * 255 * scale + added
    possible = np.max([extreme_sums(kernel, -128, 127) for kernel in kernels], axis=0) * scale * 256
    high = np.minimum(possible, HIGHEST + 1 + low)
    return WideSum(_unit(high), _unit(low))


def _unit(needed: Real) -> int:
    found = 1 << max(0, ceil(log2(max(float(needed.max(initial=0.0)), 1.0) / HIGHEST)))
    if not found <= _MOST_WEIGHT:
        raise Refusal(
            WIDE_SUMS,
            f"a half of the sums reaches {found} times the codes of the output",
            f"{_MOST_WEIGHT} times",
            "check the scales: the output's is too small for its sums",
        )
    return found


def _half(
    op: Op, context: Context, halves: Halves, tensors: tuple[Tensor, Tensor, Tensor], bias: Real | None
) -> tuple[list[TaskGroup], Semantics]:
    """One layer of bytes with results of 16 bits."""
    inner, all_tensors = _inner(op, halves, tensors, bias)
    typical = partial(_typical, context, op.inputs[0], halves.codes(tensors[0]))
    return lower_inner(inner, all_tensors, typical, context)


def _inner(
    op: Op, halves: Halves, tensors: tuple[Tensor, Tensor, Tensor], bias: Real | None
) -> tuple[Op, tuple[Tensor, ...]]:
    half, weights, sums = tensors
    name = f"{op.outputs[0]} {'low' if half is halves.low else 'high'}"
    added = () if bias is None else (Tensor(f"{name} bias", bias.shape, "float64", None, bias),)
    attrs = {key: value for key, value in op.attrs.items() if key != "clip"}
    inputs, origin = (half.name, weights.name, *(t.name for t in added)), op.origin or (op.name,)
    return Op(op.kind, name, inputs, (sums.name,), attrs, origin), (half, weights, sums, *added)


def _typical(context: Context, name: str, codes: Any) -> list[NDArray[Any]]:
    return [codes(one) for one in context.facts.typical_codes(name)]


def _side_by_side(one: Sequence[TaskGroup], other: Sequence[TaskGroup]) -> list[TaskGroup]:
    """Halves do not depend on each other."""
    pairs = zip_longest(one, other, fillvalue=TaskGroup(()))
    return [TaskGroup((*a.tasks, *b.tasks)) for a, b in pairs]


def _joined(op: Op, context: Context, sums: tuple[str, str], y: Tensor, total: WideSum) -> TaskGroup:
    named = op.origin or (op.name,), f"halves of {op.name}"
    return two_through(sums, context.buffer(y.name), y.elements, [], total.units(), named)
