"""Which of several forms: the first that is not refused, or the cheapest.

Every way writes into a draft of its own, so that nothing is left of a form that is refused or not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self, TypeVar

from atonc.plan.task import TaskGroup
from atonc.select.form import Form, Refusal, Refused


class Drafting(Protocol):
    """Where forms are drafted, and where the chosen one goes."""

    refused: list[Refused]

    def draft(self) -> Self: ...
    def done(self, groups: Iterable[TaskGroup]) -> Form: ...
    def take(self, form: Form | Refused) -> list[TaskGroup]: ...


Place = TypeVar("Place", bound=Drafting)
Way = Callable[[Place], list[TaskGroup]]
Cost = Callable[[Sequence[TaskGroup]], float]


def attempt(context: Place, way: Way[Place]) -> Form | Refused:
    """One way, as a value."""
    draft = context.draft()
    try:
        return draft.done(way(draft))
    except Refusal as refusal:
        return refusal.refused


def choose(
    context: Place,
    ways: Iterable[Way[Place]],
    cost: Cost | None = None,
    refused: Refused | None = None,
    blame_last: bool = False,
) -> list[TaskGroup]:
    """The tasks of the first form that is not refused, the ways in the order of preference; or of the cheapest of all
    of them, the first of equals. If there is none, the first refusal (`refused`, if there was one before) is the
    answer, or the last one where the last way is what users should hear of."""
    best: Form | None = None
    for form in (attempt(context, way) for way in ways):
        if isinstance(form, Refused):
            context.refused.append(form)
            refused = form if blame_last else refused or form
        elif best is None or (cost is not None and cost(form.groups) < cost(best.groups)):
            best = form
        if best is not None and cost is None:
            break
    if best is not None:
        return context.take(best)
    assert refused is not None, "there is at least one way"
    return context.take(refused)
