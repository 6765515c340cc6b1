"""Convolutions and dense layers on codes of 16 bits in one pass: features of two bytes, as many bits of them as sums of
24 bits hold.

    stored = round(x / 2^k) + 1,   y = clip(scale * 2^k * sum((stored - 1) * w) + bias)

The operator before writes its results like that where only such layers read them (`storage.coarse_tensors`); else one
ARITH makes a copy. What is rounded away are k of 16 bits.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer, WideFeatures, layer_of
from atonc.compiler.lower.conv.recipe import lower_layer
from atonc.compiler.lower.conv.weight_sums import weight_sums
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.sixteen.halves import never_negative
from atonc.compiler.lower.sixteen.joining import SCALAR
from atonc.compiler.lower.sixteen.streams import through
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.schedule.passes import ONE_PASS
from atonc.compiler.select.rules import COARSE, CONV_MODE
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import SUM_LIMIT
from atonc.machine.hw.safety.evidence.feature_readers import WHOLE

_COPY = "coarser codes"
_MOST_COARSE = 32.0  # codes of 8 bits, whatever the user allows: then 8 bits would do
_SIGMAS = 6.0  # of independent roundings, that their sum stays below


def lower_in_one_pass(op: Op, weights: Tensor, context: Context) -> list[TaskGroup]:
    if not is_allowed(context):
        raise Refusal(CONV_MODE, "features of two bytes", "bytes, as the options ask", "leave out the option")
    x = context.tensor(op.inputs[0])
    coarse = context.coarse.get(x.name) or needed_codes(op, weights, context)
    source, copies = context.buffer(x.name), list[TaskGroup]()
    if x.name not in context.coarse and coarse != CoarseCodes(0, 0):
        source, copies = coarse_copy(x, coarse, context, op.origin or (op.name,))
    layer = wide_layer(op, weights, context, source, coarse)
    # whoever makes the copy: all of its readers see codes without their lowest bits
    error = _copied_error(layer) if x.name not in context.coarse and coarse.dropped else 0.0
    groups = lower_layer(layer, context)
    means = context.semantics[op.name]
    context.explain(op, means.codes, means.error * WIDE_STEP + error, means.room)
    return [*copies, *groups]


def is_allowed(context: Context) -> bool:
    """Whether the user wants it, and trusts that convolvers take whole features of two bytes."""
    trust = context.facts.target.trust
    return ONE_PASS not in context.facts.without and trust.allows(trust.grade(WHOLE))


def wide_layer(op: Op, weights: Tensor, context: Context, source: str, coarse: CoarseCodes) -> ConvLayer:
    """As the recipes for convolutions see it."""
    if op.kind not in ("conv", "dense"):
        raise Refusal(CONV_MODE, f"{op.kind} of 16 bits", "conv and dense in one pass", "read it byte by byte")
    given = WideFeatures(source, coarse, weights, never_negative(op.inputs[0], context.graph))
    if op.kind == "conv":
        return layer_of(op, context, given=given)
    outputs, inputs = weights.shape[0], int(np.prod(weights.shape[1:]))
    rows = context.tensor(op.inputs[0]).elements // inputs
    return layer_of(op, context, (1, rows, inputs), (1, rows, outputs), given)


def needed_codes(op: Op, weights: Tensor, context: Context) -> CoarseCodes:
    """As fine as sums of all inputs allow. Features that are read as they are need no zero point in front of a layer
    that does not pad: its bias makes up for what units take off."""
    draft = context.draft()
    whole = CoarseCodes(0)
    layer = wide_layer(op, weights, draft, draft.buffer(op.inputs[0]), whole)
    sums = float(layer.possible(whole.zero).max(initial=1.0)) + float(layer.magnitudes.max(initial=0))
    dropped = max(0, ceil(log2(sums / SUM_LIMIT)))
    most = most_dropped(context)
    if dropped > most:
        seen = f"sums of {op.name} need codes without their {dropped} lowest bits"
        raise Refusal(COARSE, seen, f"{most} bits", "read it byte by byte, or accept it with --allow-coarse CODES")
    padded = any(layer.padding)
    return CoarseCodes(dropped) if dropped or padded else CoarseCodes(0, 0)


def most_dropped(context: Context) -> int:
    """Half a step is half of what an operator may be off: the rest is for its own roundings."""
    return int(log2(WIDE_STEP * min(context.facts.coarse, _MOST_COARSE)))


def coarse_copy(
    x: Tensor, coarse: CoarseCodes, context: Context, origin: tuple[str, ...]
) -> tuple[str, list[TaskGroup]]:
    """The first reader makes it for all that need the same."""
    source = context.buffer(x.name)
    key = f"{_COPY} {coarse.dropped} {coarse.zero} of {source}"
    if key in context.shifted_copies:
        return context.shifted_copies[key], []
    target = context.shifted_copies[key] = context.scratch(2 * x.elements, _COPY)
    unit = changed(SCALAR, a=2, c=coarse.zero * coarse.step, shift_c=1, shift_out=coarse.dropped + 1)
    return target, [through(source, target, x.elements, [unit], origin, f"{_COPY} of {x.name}")]


def _copied_error(layer: ConvLayer) -> float:
    """Codes of the output: half a step of every feature alike, and of all of them independently. An estimate, as other
    errors are."""
    gain = np.abs(layer.scale)  # codes of the output for one step
    squares = np.square(layer.weights.astype(np.float64)).sum(axis=(1, 2, 3))
    alike = 0.5 * np.abs(weight_sums(layer.weights))
    return float((gain * (alike + _SIGMAS * np.sqrt(squares / 12))).max(initial=0.0))
