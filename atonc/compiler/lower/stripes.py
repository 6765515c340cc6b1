"""Rows of several layers in turn: each band of the last one, and of all before it what the band sees. What lies
between the layers is then never larger than a band and the rows around it, which are computed twice.

Bands have buffers of their own, so nothing has to be proven of who overwrites what: that two bands lie in the same
memory is for placement to decide. A band rounds as the whole layer does, or there is no stripe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.cuts import Rows, cut_rows, rows_seen, with_rows
from atonc.compiler.lower.conv.layer import layer_of
from atonc.compiler.lower.conv.recipe import lower_layer
from atonc.compiler.lower.elementwise.function import EDGES, lower_rows
from atonc.compiler.lower.registry import recipe_for
from atonc.compiler.lower.semantics.sums import Roundings, roundings
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.enumerate import Draw, attempt
from atonc.compiler.select.form import Form, Refusal, RefusedForm
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Evidence, Rule, Severity

STRIPE = Rule(
    "STRIPE",
    "mapping",
    "row tiles would be rounded otherwise than the whole layer",
    Evidence(report="the roundings of both"),
    "use --schedule-without stripe",
    "results that are the same bit for bit",
    Severity.NOTE,
)
KINDS = ("conv", "table", "requantize", *EDGES)  # all but convolutions see of every byte just that byte


def lower_stripe(ops: Sequence[Op], bands: int, context: Context) -> list[Form] | RefusedForm:
    """A form for each of them, with the band of every group of tasks. The context takes nothing over."""
    whole = _forms(context, [partial(_whole, op) for op in ops])
    if isinstance(whole, RefusedForm):
        return whole
    reference = [roundings(form.semantics[op.name]) for op, form in zip(ops, whole, strict=True)]
    try:
        rows = _rows(ops, bands, context)
    except Refusal as refusal:
        return refusal.refused
    buffers: dict[tuple[int, int], str] = {}
    bands_of = [
        _Bands(number, rows, buffers, form, reference[number], op is ops[-1])
        for number, (op, form) in enumerate(zip(ops, whole, strict=True))
    ]
    striped = _forms(context, [partial(own.lower, op) for own, op in zip(bands_of, ops, strict=True)])
    if isinstance(striped, RefusedForm):
        return striped
    for op, before, form in zip(ops, reference, striped, strict=True):
        if op.kind == "conv" and (before is None or before != roundings(form.semantics[op.name])):
            seen = f"row tiles of {op.name} would be rounded otherwise than the whole layer"
            return RefusedForm(STRIPE, seen, STRIPE.limit, STRIPE.remedy)
    return [
        form if _every_row(op, rows, number, context) else replace(form, semantics=own.semantics)
        for number, (op, form, own) in enumerate(zip(ops, striped, whole, strict=True), 1)
    ]


def _whole(op: Op, context: Context) -> list[TaskGroup]:
    recipe = recipe_for(op.kind)
    assert recipe is not None and op.kind in KINDS
    return recipe(op, context)


def _forms(context: Context, draws: Sequence[Draw]) -> list[Form] | RefusedForm:
    """One behind the other, above the context."""
    above, found = context.draft(), list[Form]()
    for draw in draws:
        form = attempt(above, draw)
        if isinstance(form, RefusedForm):
            return form
        above.take(form)
        found.append(form)
    return found


def _rows(ops: Sequence[Op], bands: int, context: Context) -> list[list[Rows]]:
    """Lists for every band the rows of the first input, then those of every result."""
    layers = [layer_of(op, context.draft()) if op.kind == "conv" else None for op in ops]
    found = []
    for rows in cut_rows(_area(ops[-1].outputs[0], context), bands):
        band = [rows]
        for layer in reversed(layers):
            band.insert(0, rows_seen(layer, band[0]) if layer else band[0])
        found.append(band)
    return found


def _every_row(op: Op, rows: Sequence[Sequence[Rows]], number: int, context: Context) -> bool:
    """Whether bands compute all of its result: rows that no later layer sees, since it strides over them, mean what
    the whole layer would give."""
    computed = {row for band in rows for row in range(band[number].first, band[number].end)}
    return len(computed) == _area(op.outputs[0], context).height


def _area(name: str, context: Context) -> Area:
    _, height, width, channels = context.tensor(name).shape
    return Area.whole(height, width, channels)


@dataclass(frozen=True)
class _Bands:
    """One operator of a stripe."""

    number: int
    rows: Sequence[Sequence[Rows]]  # of every band, those of all tensors
    buffers: dict[tuple[int, int], str]  # number of a tensor and band -> what holds its rows
    whole: Form
    reference: Roundings | None
    last: bool

    def lower(self, op: Op, context: Context) -> list[TaskGroup]:
        line = _area(op.outputs[0], context).line
        groups: list[TaskGroup] = []
        for band, own in enumerate(self.rows, 1):
            source = replace(own[self.number], buffer=self.buffers.get((self.number, band), ""))
            target = own[self.number + 1]
            if not self.last:
                name = context.scratch(target.count * line, f"rows of {op.outputs[0]}")
                self.buffers[self.number + 1, band] = name
                target = replace(target, buffer=name)
            lower = self._conv if op.kind == "conv" else self._function
            groups += [replace(group, band=band) for group in lower(op, source, target, context)]
        return groups

    def _conv(self, op: Op, source: Rows, target: Rows, context: Context) -> list[TaskGroup]:
        layer = replace(layer_of(op, context), rounds_as=self.reference)
        return lower_layer(with_rows(layer, source, target), context)

    def _function(self, op: Op, source: Rows, target: Rows, context: Context) -> list[TaskGroup]:
        line = _area(op.outputs[0], context).line
        places = tuple(0 if rows.buffer else rows.first * line for rows in (source, target))
        names = (source.buffer or context.buffer(op.inputs[0]), target.buffer or context.buffer(op.outputs[0]))
        context.semantics[op.name] = self.whole.semantics[op.name]
        return lower_rows(op, *names, (places[0], places[1]), target.count * line, context)
