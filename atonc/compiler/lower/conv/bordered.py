"""Windows on features of one byte, whatever their zero point: it lies around the picture in memory, and the bias makes
up for it.

A unit that takes bytes as they are holds twice as many kernels as one that subtracts a zero point, but pads with zeros:
right for a zero point of 0, or of -128 where features are stored as code + 128. For all others the picture is copied
into a border of its zero point. Every sum then has the zero point in it, on all taps of every output alike. A window
that nothing is padded for needs no border, only the copy as code + 128: chains of signed bytes were not seen.

Windows of one byte were never seen without padding. With stride 2 a further row and column of it meet no output. With
stride 1 there is one row of results more, which nobody reads: it lies behind the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.pad_first import Lower, lower_padded, pad_first
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import agree
from atonc.compiler.plan.policy import WINDOW_OUTPUTS, WORTH_BORDER
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.select.choose import Draw, Offer, attempt, take_best
from atonc.compiler.select.form import Form, RefusedForm
from atonc.compiler.select.rules import CONV_PADDING

SUBTRACTED = "the zero point subtracted by the units"
STORED = "the zero point around the picture in memory"


def lower_bordered(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """As `lower_padded` does it, or on a copy with a border where that costs less."""
    plain = attempt(context, lambda draft: lower_padded(layer, draft, lower))
    if layer.rounds_as is not None and "borders" not in context.facts.without:
        return _as_all_rows(layer, context, plain, lower)
    if isinstance(plain, RefusedForm) or "borders" in context.facts.without or not _may_pay(layer, plain):
        return context.take(plain)
    offers = [Offer(plain, SUBTRACTED)]
    for draw in _draws(layer, lower):
        form = attempt(context, draw)
        if isinstance(form, Form) and _fits(layer, context, form):
            offers.append(Offer(form, STORED))
        elif isinstance(form, RefusedForm):
            context.refused.append(form)
    return take_best(context, offers)


def _as_all_rows(layer: ConvLayer, context: Context, plain: Form | RefusedForm, lower: Lower) -> list[TaskGroup]:
    """Some rows: with a border where the whole layer has one, since it rounds otherwise with it."""
    assert layer.rounds_as is not None
    forms = (plain, *(attempt(context, draw) for draw in _draws(layer, lower) if _has_form(layer)))
    alike = (form for form in forms if isinstance(form, Form) and agree(form.semantics[layer.op.name], layer.rounds_as))
    return context.take(next(alike, plain))


def _fits(layer: ConvLayer, context: Context, form: Form) -> bool:
    """Whether the copy lies where memory is free while other layers need more: speed does not make the peak higher."""
    return form.scratch_bytes <= context.facts.free_bytes.get(layer.op.name, 0)


def _may_pay(layer: ConvLayer, plain: Form) -> bool:
    """Whether half of the cycles could be saved: not where the kernels come from the flash no faster."""
    if layer.whole_bytes or not _has_form(layer):
        return False
    return plain.cycles > WORTH_BORDER * layer.machine.flash_byte_cycles * layer.weights.size


def _has_form(layer: ConvLayer) -> bool:
    if layer.op.kind != "conv" or layer.ring is not None or layer.features_shifted or layer.coarse:
        return False
    if layer.weights.shape[1:3] != (3, 3) or layer.dilation != (1, 1) or layer.stride not in ((1, 1), (2, 2)):
        return False
    if layer.zero == 0 if any(layer.padding) else layer.stride == (2, 2):
        return False  # units do it on bytes already
    return layer.outputs >= WINDOW_OUTPUTS


def _draws(layer: ConvLayer, lower: Lower) -> Iterator[Draw[Context]]:
    if layer.stride == (1, 1):
        yield partial(_unsigned, layer, lower)
    else:  # chains of windows with stride 2 were seen with signed features only
        yield partial(_signed, layer, lower)


def _signed(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    copies, padded = pad_first(layer, context, purpose=Purpose.BORDER)
    return [*copies, *lower(replace(padded, border=(0, 0, 0, 0)), context)]


def _unsigned(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    copies, padded = pad_first(layer, context, shifted=True, purpose=Purpose.BORDER)
    return [*copies, *lower(one_more_row(replace(padded, border=(0, 0, 0, 0)), context), context)]


def one_more_row(layer: ConvLayer, context: Context) -> ConvLayer:
    """The layer with a row of padding below the picture and a row of results below the others."""
    out, target = layer.out, context.buffers[layer.target]
    whole = out.contiguous and not out.offset and out.height * out.line == target.size_bytes
    if not whole or target.kind != BufferKind.ACTIVATION:
        raise Refusal(CONV_PADDING, "results that end where others begin", "room for one more row", "pad first")
    taller = context.taller(layer.target, out.line)
    return replace(layer, target=taller, out=replace(out, height=out.height + 1), padding=(0, 0, 1, 0))
