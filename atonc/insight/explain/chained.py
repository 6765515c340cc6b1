"""What was weighed for an operator: which others share its epochs, what that brought, why others do not, and which
forms it could have had."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.lower.map_ops import Mapped
from atonc.compiler.plan.task import Purpose
from atonc.compiler.schedule.types import Schedule
from atonc.compiler.select.form import Alternative, Form
from atonc.insight.explain import rules
from atonc.insight.explain.forms import decision
from atonc.insight.explain.types import Decision


def has_no_epoch(op: str, schedule: Schedule) -> bool:
    """Whether some of its work runs behind another operator; for one without steps that is all of it."""
    return any(merge.consumer == op for merge in schedule.merges)


def prepared(op: str, schedule: Schedule) -> bool:
    """Whether another operator writes its features as its units want them."""
    own = (merge for merge in schedule.merges if merge.consumer == op)
    return any(task.purpose == Purpose.FEATURES for merge in own for task in merge.group.tasks)


def of_stripes(op: str, mapped: Mapped) -> Iterator[Decision]:
    for stripe in mapped.stripes:
        if op in stripe.ops:
            first, last = stripe.ops[0], stripe.ops[-1]
            seen = f"{stripe.bands} bands of rows, {len(stripe.ops)} layers in turn, {first} to {last}"
            yield decision(rules.STRIPED, seen)
    if op in mapped.unstriped:
        yield decision(rules.UNSTRIPED, mapped.unstriped[op].seen)


def of_schedule(op: str, schedule: Schedule) -> Iterator[Decision]:
    for merge in schedule.merges:
        kept = f"; {merge.through[-60:]} is written all the same, for others" if merge.kept else ""
        if merge.consumer == op:
            yield decision(rules.CHAINED, f"behind {merge.producer}: {merge.saved_cycles:,} cycles less{kept}")
        elif merge.producer == op:
            yield decision(rules.CARRIES, f"{merge.consumer}: {merge.saved_cycles:,} cycles less{kept}")
    for apart in schedule.apart:
        if apart.consumer == op:
            yield decision(rules.APART, f"not behind {apart.producer} ({apart.rule}): {apart.seen}")
    for one in schedule.co_scheduled:
        for mine, others in ((one.ops, one.others), (one.others, one.ops)):
            if op in mine:
                names = ", ".join(other for other in others if other != op) or "another part of itself"
                yield decision(rules.BESIDE, f"beside {names[-200:]}: {one.saved_cycles:,} cycles less")
                break


def of_form(form: Form | None) -> Iterator[Decision]:
    """What was taken, and what else was possible at which cost. Forms without a name differ in details only."""
    rivals: dict[str, list[Alternative]] = {}
    for one in form.alternatives if form else ():
        if one.label and one.chosen and not one.because:
            rivals.setdefault(one.chosen, []).append(one)
    for chosen, others in rivals.items():
        dearer = ", ".join(f"{one.label} {one.form.cycles:,}" for one in others)
        yield decision(rules.CHEAPEST, f"{chosen}: {others[0].chosen_form.cycles:,} cycles; {dearer}")
