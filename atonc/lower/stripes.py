"""Rows of several layers in turn: each band of the last one, and of all before it what the band sees. What lies
between the layers is then never larger than a band and the rows around it, which are computed twice.

Bands have buffers of their own, so nothing has to be proven of who overwrites what: that two bands lie in the same
memory is for placement to decide. A band rounds as the whole layer does, or there is no stripe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from atonc.ir import Op
from atonc.lower.context import Context
from atonc.lower.conv.layer import Layer, layer_of
from atonc.lower.conv.recipe import lower_conv, lower_layer
from atonc.lower.conv.rows import Rows, cut_rows, rows_seen, with_rows
from atonc.lower.semantics.roundings import roundings
from atonc.plan.task import TaskGroup
from atonc.select.choose import Draw, attempt
from atonc.select.form import Form, Refusal, Refused

RULE = "STRIPE"


@dataclass(frozen=True)
class Stripe:
    """Convolutions one behind the other, each the only reader of the one before, in so many bands of rows."""

    ops: tuple[str, ...]
    bands: int


def lower_stripe(ops: Sequence[Op], bands: int, context: Context) -> list[Form] | Refused:
    """A form for each of them, with the band of every group of tasks. The context takes nothing over."""
    whole = _forms(context, [partial(lower_conv, op) for op in ops])
    if isinstance(whole, Refused):
        return whole
    try:
        rows = _rows([layer_of(op, context.draft()) for op in ops], bands)
    except Refusal as refusal:
        return refusal.refused
    buffers: dict[tuple[int, int], str] = {}
    last = len(ops) - 1
    draws = [partial(_lower_bands, op, number, rows, buffers, number == last) for number, op in enumerate(ops)]
    striped = _forms(context, draws)
    if isinstance(striped, Refused):
        return striped
    for op, one, other in zip(ops, whole, striped, strict=True):
        before, after = (roundings(form.semantics[op.name]) for form in (one, other))
        if before is None or before != after:
            return _refused(f"bands of {op.name} would be rounded otherwise than the whole layer")
    return striped


def _refused(seen: str) -> Refused:
    return Refused(RULE, seen, "results that are the same bit for bit", "use --schedule-without stripe")


def _forms(context: Context, draws: Sequence[Draw[Context]]) -> list[Form] | Refused:
    """One behind the other, above the context."""
    above, found = context.draft(), list[Form]()
    for draw in draws:
        form = attempt(above, draw)
        if isinstance(form, Refused):
            return form
        above.take(form)
        found.append(form)
    return found


def _rows(layers: Sequence[Layer], bands: int) -> list[list[Rows]]:
    """Of every band: the rows of the first input, then those of every result."""
    found = []
    for rows in cut_rows(layers[-1].out, bands):
        band = [rows]
        for layer in reversed(layers):
            band.insert(0, rows_seen(layer, band[0]))
        found.append(band)
    return found


def _lower_bands(
    op: Op,
    number: int,
    rows: Sequence[Sequence[Rows]],
    buffers: dict[tuple[int, int], str],
    last: bool,
    context: Context,
) -> list[TaskGroup]:
    layer = layer_of(op, context)
    groups: list[TaskGroup] = []
    for band, own in enumerate(rows, 1):
        source, target = own[number], own[number + 1]
        source = replace(source, buffer=buffers.get((number, band), ""))
        if not last:
            name = context.scratch(target.count * layer.out.line, f"rows of {op.outputs[0]}")
            buffers[number + 1, band] = name
            target = replace(target, buffer=name)
        found = lower_layer(with_rows(layer, source, target), context)
        groups += [replace(group, band=band) for group in found]
    return groups
