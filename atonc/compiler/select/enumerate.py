"""Which variant of an operator is taken: decisions one after the other, each with its rows.

A subject, a layer or a piece of one, meets the decisions in their order. One that has nothing to decide returns None
and is passed over. Any other is a generator: it asks for rows (`found = yield steps`), hears of each what became of it
after all later decisions, and returns what it takes. A step is a value that prepares the subject: it may write copies
before the chains and behind them, or cut the subject into pieces, each of which is decided for itself. Where no
decision is left, the subject is built: only then are there tasks. One loop does it, whatever the depth of the choice,
and every row has one draft, which nobody hears of again if it is refused or beaten.

`first` and `cheapest` are the two usual decisions: an order of preference, and cost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial, reduce
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, Self

from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.form import Alternative, Form, Refusal, RefusedForm
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass, replace


class Draft(Protocol):
    """Where a variant is written down."""

    before: list[TaskGroup]
    behind: list[TaskGroup]

    def draft(self) -> Self: ...
    def branch(self) -> Self: ...
    def done(self, groups: Iterable[TaskGroup]) -> Form: ...
    def take(self, form: Form | RefusedForm) -> list[TaskGroup]: ...


class RowStep(Protocol):
    """What a row does to its subject; the next decisions see what comes of it."""

    def prepare(self, subject: Any, draft: Any) -> Any: ...


@dataclass(frozen=True)
class Pieces:
    """A subject that was cut: each piece is decided for itself, and all are done one after the other. Behind each stand
    the steps that are its own. `join`: makes something else of the groups of each."""

    subjects: tuple[tuple[Any, Steps], ...]
    join: Callable[[Any, list[list[TaskGroup]]], list[TaskGroup]] = lambda draft, pieces: list(chain(*pieces))


@dataclass(frozen=True, eq=False)
class Found:
    """A variant that is possible, what was refused before it, and what it was preferred to."""

    form: Form
    refused: tuple[RefusedForm, ...] = ()
    beaten: tuple[Alternative, ...] = ()

    @classmethod
    def of(cls, form: Form) -> Found:
        return cls(form, form.refused, form.alternatives)

    def after(self, refused: Iterable[RefusedForm]) -> Found:
        return Found(self.form, (*refused, *self.refused), self.beaten)

    def over(self, variant: Variant, others: Iterable[tuple[Variant, Found]], because: str = "") -> Found:
        """Preferred to all others among these."""
        beaten = (
            Alternative(other, one.form, variant, self.form, because)
            for other, one in others
            if one.form is not self.form
        )
        return Found(self.form, self.refused, (*beaten, *self.beaten))

    @property
    def whole(self) -> Form:
        """The form with all that was said on the way to it."""
        return replace(self.form, refused=self.refused, alternatives=self.beaten)


@dataclass(frozen=True)
class Later:
    """A row that is not built yet: the answer is a function that does."""

    steps: Steps


@dataclass(frozen=True, eq=False)
class Drawing:
    """A row whose tasks a function makes: nothing else is decided about it."""

    draw: Draw

    def prepare(self, subject: Any, draft: Any) -> Drawing:
        return self

    def build(self, draft: Any) -> list[TaskGroup]:
        return self.draw(draft)


Draw = Callable[[Any], list[TaskGroup]]
Steps = tuple[RowStep, ...]
Outcome = Found | RefusedForm
Deciding = Generator[Any, Outcome, Outcome]
Decision = Callable[[Any, Any], Deciding | None]
AS_IT_IS: Steps = ()


def first(
    rows: Iterable[Steps | Deciding], refused: RefusedForm | None = None, blame_last: bool = False, told: bool = True
) -> Deciding:
    """The first row that is possible; one may be a decision by itself. If there is none, the first refusal (`refused`,
    if there was one before) is the answer, or the last one where the last row is what users should hear of. `told`:
    refusals are worth a line."""
    before: list[RefusedForm] = []
    for row in rows:
        found = yield from _asked(row)
        if isinstance(found, Found):
            return found.after(before if told else ())
        before.append(found)
        refused = blamed(refused, found, blame_last)
    assert refused is not None, "there is at least one row"
    return refused


def _asked(row: Steps | Deciding) -> Deciding:
    try:
        return (yield row) if isinstance(row, tuple) else (yield from row)
    except Refusal as refusal:
        return refusal.refused


def only(steps: Steps) -> Deciding:
    """There is nothing else."""
    return (yield steps)


def tried(
    rows: Iterable[tuple[Variant, Steps | Deciding]],
) -> Generator[Any, Outcome, tuple[list[tuple[Variant, Found]], list[RefusedForm]]]:
    """What became of each: those that are possible, and why the others are not."""
    offers: list[tuple[Variant, Found]] = []
    refused: list[RefusedForm] = []
    for variant, row in rows:
        found = yield from _asked(row)
        if isinstance(found, Found):
            offers.append((variant, found))
        else:
            refused.append(found)
    return offers, refused


def cheapest_of(
    rows: Sequence[tuple[Variant, Steps, float]],
    enough: float = 1.0,
    price: Callable[[Form], float] = attrgetter("cost"),
) -> Deciding:
    """The row that costs least, the first of equals, of some that take at least so many cycles each: those that cannot
    cost less than what was found by then are not built before somebody asks for them. What has at most `enough` times
    the `price` that any other row has at least, will do."""
    order = sorted(range(len(rows)), key=lambda k: rows[k][2])
    found: dict[int, Found] = {}
    refused: dict[int, RefusedForm] = {}
    unbuilt: dict[int, Callable[[], Form | None]] = {}
    lowest = inf
    for k in order:
        _, steps, least = rows[k]
        if least * enough > lowest:
            later: Any = yield Later(steps)
            unbuilt[k] = later
            continue
        outcome = yield steps
        if isinstance(outcome, RefusedForm):
            refused[k] = outcome
        else:
            found[k] = outcome
            lowest = min(lowest, price(outcome.form)) if len(rows) > 1 else lowest
    others = [refused[k] for k in sorted(refused)]
    if not found:
        return reduce(partial(blamed, last=False), others)
    chosen = min(sorted(found), key=lambda k: found[k].form.cost) if len(found) > 1 else next(iter(found))
    variant, best_form = rows[chosen][0], found[chosen].form
    beaten = [
        Alternative(other, found[k].form if k in found else None, variant, best_form, "", least, unbuilt.get(k, _none))
        for k, (other, _, least) in enumerate(rows)
        if k != chosen and k not in refused
    ]
    return Found(best_form, found[chosen].refused, (*beaten, *found[chosen].beaten)).after(others)


def _none() -> None:
    return None


def cheapest(
    rows: Iterable[tuple[Variant, Steps]], refused: RefusedForm | None = None, blame_last: bool = False
) -> Deciding:
    """The row of all that costs least, the first of equals."""
    offers, others = yield from tried(rows)
    if offers:
        return best(offers)[1].after(others)
    for other in others:
        refused = blamed(refused, other, blame_last)
    assert refused is not None, "there is at least one row"
    return refused


def best(offers: Sequence[tuple[Variant, Found]]) -> tuple[Variant, Found]:
    """The one that costs least. Costs are worked out only where there is something to compare."""
    variant, found = offers[0] if len(offers) == 1 else min(offers, key=lambda offer: offer[1].form.cost)
    return variant, found.over(variant, offers)


def blamed(known: RefusedForm | None, new: RefusedForm, last: bool) -> RefusedForm:
    """What users hear of where no row is left: a form that was possible and not exact enough before one that was not
    possible at all."""
    if known is None or known.inexact != new.inexact:
        return known if known is not None and known.inexact else new
    return new if last else known


class _State(NamedTuple):
    subject: Any
    draft: Any
    number: int  # of the next decision


@dataclass(frozen=True, eq=False)
class _Alone:
    """One of several pieces."""

    subject: Any
    steps: Steps


def enumerated(subject: Any, below: Draft, decisions: Sequence[Decision]) -> Outcome:
    """What the decisions make of a subject; `below` takes nothing over."""
    return _decided(_State(subject, below.draft(), 0), decisions)


def _decided(begin: _State, decisions: Sequence[Decision]) -> Outcome:
    open_decisions: list[tuple[Deciding, _State]] = []
    state: _State | None = begin
    outcome: Any = None
    while True:
        if state is not None:  # down: to the next decision, or to the tasks
            try:
                asked, state = _next_decision(state, decisions)
                outcome = None if asked else Found.of(_built(state))
                open_decisions += [(asked, state)] if asked else []
            except Refusal as refusal:
                outcome = refusal.refused
            state = None
        if not open_decisions:
            assert isinstance(outcome, Found | RefusedForm)
            return outcome
        asked, before = open_decisions[-1]
        try:  # up: what became of its row
            row = asked.send(outcome)
        except StopIteration as answer:
            open_decisions.pop()
            outcome = answer.value
            continue
        except Refusal as refusal:  # the decision finds that no row is possible
            open_decisions.pop()
            outcome = refusal.refused
            continue
        if isinstance(row, Later):
            outcome = partial(_built_later, before, row.steps, decisions)
            continue
        try:
            state = _prepared(before, row)
        except Refusal as refusal:
            outcome = refusal.refused


def attempt(below: Draft, draw: Draw) -> Form | RefusedForm:
    """A row by itself, as a value."""
    found = enumerated(Drawing(draw), below, ())
    return found if isinstance(found, RefusedForm) else found.form


def chosen(below: Draft, deciding: Deciding) -> list[TaskGroup]:
    """The tasks of what one decision takes; `below` takes all that belongs to them."""
    found = enumerated(None, below, (lambda subject, draft: deciding,))
    return below.take(found if isinstance(found, RefusedForm) else found.whole)


def _next_decision(state: _State, decisions: Sequence[Decision]) -> tuple[Deciding | None, _State]:
    """The next one that has something to decide, and what it decides about."""
    if isinstance(state.subject, Pieces):
        return _each(state.subject, state.draft), state
    for number in range(state.number, len(decisions)) if not isinstance(state.subject, Drawing) else ():
        asked = decisions[number](state.subject, state.draft)
        if asked is not None:
            return asked, _State(state.subject, state.draft, number + 1)
    return None, state


def _prepared(before: _State, row: Steps | _Alone) -> _State:
    alone = isinstance(row, _Alone)
    subject, steps = (row.subject, row.steps) if isinstance(row, _Alone) else (before.subject, row)
    draft, number = before.draft.draft() if alone else before.draft.branch(), before.number
    for step in steps:
        subject = step.prepare(subject, draft)
        number -= getattr(step, "again", False)
    return _State(subject, draft, number)


def _built(state: _State) -> Form:
    draft = state.draft
    groups = state.subject.build(draft)
    return draft.done([*draft.before, *groups, *reversed(draft.behind)])


def _built_later(before: _State, steps: Steps, decisions: Sequence[Decision]) -> Form | None:
    try:
        outcome = _decided(_prepared(before, steps), decisions)
    except Refusal:
        return None
    return outcome.form if isinstance(outcome, Found) else None


def _each(pieces: Pieces, draft: Draft) -> Deciding:
    """Every piece by itself; one without a form leaves none for all."""
    groups: list[list[TaskGroup]] = []
    refused: list[RefusedForm] = []
    beaten: list[Alternative] = []
    for piece, steps in pieces.subjects:
        found = yield _Alone(piece, steps)
        if isinstance(found, RefusedForm):
            return found
        groups.append(draft.take(found.form))
        refused += found.refused
        beaten += found.beaten
    form = draft.done([*draft.before, *pieces.join(draft, groups), *reversed(draft.behind)])
    return Found(form, tuple(refused), tuple(beaten))
