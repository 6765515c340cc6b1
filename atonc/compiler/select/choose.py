"""Which of several forms: of the first rank that has any, the one that costs least.

Every way writes into a draft of its own, so that nothing is left of a form that is refused or not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Protocol, Self, TypeVar

from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.form import Alternative, Form, Refusal, RefusedForm
from atonc.compiler.select.preferences import Preference
from atonc.machine.base.frozen import dataclass


class Drafting(Protocol):
    """Where forms are drafted, and where the chosen one goes."""

    refused: list[RefusedForm]
    alternatives: list[Alternative]

    def draft(self) -> Self: ...
    def done(self, groups: Iterable[TaskGroup]) -> Form: ...
    def take(self, form: Form | RefusedForm) -> list[TaskGroup]: ...


Place = TypeVar("Place", bound=Drafting)
Draw = Callable[[Place], list[TaskGroup]]


@dataclass(frozen=True)
class Way(Generic[Place]):
    """How to draft a form. Ways of one rank compete by cost; a rank is tried where all before it are refused."""

    draw: Draw[Place]
    label: str = ""  # what users read where it competes
    rank: int = 0
    preference: Preference | None = None  # why ranks stand above cost


@dataclass(frozen=True)
class Offer:
    """A form that is possible: of the lowest rank the one that costs least is taken."""

    form: Form
    label: str = ""
    rank: float = 0
    preference: Preference | None = None  # why ranks stand above cost


def in_order(preference: Preference, draws: Iterable[Draw[Place]]) -> Iterator[Way[Place]]:
    """A rank for each."""
    return (Way(draw, rank=rank, preference=preference) for rank, draw in enumerate(draws))


def attempt(context: Place, draw: Draw[Place]) -> Form | RefusedForm:
    """One way, as a value."""
    draft = context.draft()
    try:
        return draft.done(draw(draft))
    except Refusal as refusal:
        return refusal.refused


def choose(
    context: Place, ways: Iterable[Way[Place]], refused: RefusedForm | None = None, blame_last: bool = False
) -> list[TaskGroup]:
    """The tasks of the chosen form; ways come by rank. If there is none, the first refusal (`refused`, if there was one
    before) is the answer, or the last one where the last way is what users should hear of; see `_blamed`."""
    for _, rank in groupby(ways, key=lambda way: way.rank):
        offers: list[Offer] = []
        for way in rank:
            form = attempt(context, way.draw)
            if isinstance(form, Form):
                offers.append(Offer(form, way.label, way.rank, way.preference))
                continue
            context.refused.append(form)
            refused = _blamed(refused, form, blame_last)
        if offers:
            return take_best(context, offers)
    assert refused is not None, "there is at least one way"
    return context.take(refused)


def _blamed(known: RefusedForm | None, new: RefusedForm, last: bool) -> RefusedForm:
    """What users hear of where no way is left: a form that was possible and not exact enough before one that was not
    possible at all."""
    if known is None or known.inexact != new.inexact:
        return known if known is not None and known.inexact else new
    return new if last else known


def take_best(context: Drafting, offers: Sequence[Offer]) -> list[TaskGroup]:
    """By rank, then by cost, the first of equals. Costs are worked out only where there is something to compare."""
    lowest = min(offer.rank for offer in offers)
    equals = [offer for offer in offers if offer.rank == lowest]
    best = equals[0] if len(equals) == 1 else min(equals, key=lambda offer: offer.form.cost)
    for other in offers:
        if other is not best:
            because = best.preference.because if best.preference and other.rank > lowest else ""
            context.alternatives.append(Alternative(other.label, other.form, best.label, best.form, because))
    return context.take(best.form)
