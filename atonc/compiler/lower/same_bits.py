"""Other cuts of a convolution into lanes or bands that give the same bits, for whoever has a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from atonc.compiler.lower.conv.lanes import SAME_BITS
from atonc.compiler.lower.semantics.sums import agree, roundings
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.form import Alternative, Form
from atonc.compiler.select.variants import Variant

DECIDED = "decided for the whole network"


def same_bits(form: Form, op: str) -> Iterator[tuple[Variant, Form]]:
    """The whole form with another cut, in front of and behind what else it does."""
    for other in form.alternatives if op in form.semantics else ():
        at = _position(other.chosen_form.groups, form.groups)
        if at is None or other.form is None:
            continue
        if (other.variant.name in SAME_BITS and not other.variant.within) or _alike(form, other.form, op):
            yield other.variant, _instead(form, other, other.form, at)


def _alike(form: Form, other: Form, op: str) -> bool:
    wanted = roundings(form.semantics[op])
    return wanted is not None and op in other.semantics and agree(other.semantics[op], wanted)


def taking(form: Form, op: str, variant: str | None) -> Form:
    """The form with the cut of this text, where there is such a one; else as it is."""
    return next((other for known, other in same_bits(form, op) if str(known) == variant), form) if variant else form


def _instead(form: Form, other: Alternative, new: Form, at: int) -> Form:
    """The alternative is the chosen one now, and the other way round."""
    behind = form.groups[at + len(other.chosen_form.groups) :]
    rivals = tuple(
        replace(one, chosen=other.variant, chosen_form=new, because=DECIDED)
        for one in form.alternatives
        if one.chosen_form is other.chosen_form and one is not other
    )
    return replace(
        form,
        groups=(*form.groups[:at], *new.groups, *behind),
        buffers={**form.buffers, **new.buffers},
        earlier={**form.earlier, **new.earlier},  # kernels that several layers read are the first one's
        alternatives=(*rivals, Alternative(other.chosen, other.chosen_form, other.variant, new, DECIDED)),
    )


def _position(part: Sequence[TaskGroup], groups: Sequence[TaskGroup]) -> int | None:
    """Where these very groups stand among others."""
    part_ids, ids = ([id(group) for group in some] for some in (part, groups))
    starts = range(len(ids) - len(part_ids) + 1)
    return next((k for k in starts if part_ids and ids[k : k + len(part_ids)] == part_ids), None)
