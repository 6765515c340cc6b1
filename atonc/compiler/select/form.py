"""A form: one way to compute an operator, as a value. And a refusal, which is a value too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import inf
from typing import Any

from atonc.compiler.plan import policy
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.select.cycles import cycles_of
from atonc.compiler.select.rules import COARSE, NO_EVIDENCE, SUM_ROOM
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule
from atonc.machine.hw.safety.evidence import Graded
from atonc.machine.hw.target import Target


@dataclass(frozen=True)
class Semantics:
    """What an operator's tasks compute, how far that may be from exact arithmetic, and what could make it worse."""

    codes: Callable[[Sequence[Any]], Sequence[Any]]  # from those of the inputs to those of the outputs, in integers
    error: float = 0.0  # in codes, before the last rounding
    room: float = inf  # times the sums of typical inputs that units have room for; without end: no input saturates one
    step: int = 1  # codes that weigh as much as one of 8 bits
    seldom: float = 0.0  # codes of the error that only many roundings together reach

    @property
    def compared(self) -> float:
        """What the error weighs where forms are compared, in codes of 8 bits."""
        return (self.error - (1 - policy.SELDOM) * min(self.seldom, self.error)) / self.step

    @property
    def saturates(self) -> bool:
        """Inputs unlike those that were expected may take sums beyond their bits."""
        return self.room < inf


@dataclass(frozen=True)
class RefusedForm:
    """Why there is no such form: which rule, what was seen, the limit, what to do about it."""

    rule: Rule
    seen: str
    limit: str
    remedy: str
    needs: float = 0.0  # LSB that --allow-coarse would have to allow

    @property
    def inexact(self) -> bool:
        """The form was possible, and too far from exact arithmetic."""
        return self.rule in (COARSE, SUM_ROOM)

    def as_dict(self) -> dict[str, str]:
        return {"rule": self.rule.id, "seen": self.seen, "limit": self.limit, "remedy": self.remedy}


@dataclass(frozen=True)
class Form:
    """Everything that a recipe says: nothing else remembers it."""

    groups: tuple[TaskGroup, ...]
    target: Target  # what it is priced for
    buffers: Mapping[str, Buffer] = field(default_factory=dict)  # that no earlier operator has
    aliases: Mapping[str, str] = field(default_factory=dict)  # tensor -> tensor in whose memory it lies
    shifted_copies: Mapping[str, str] = field(default_factory=dict)  # that later operators may read
    semantics: Mapping[str, Semantics] = field(default_factory=dict)  # by operator
    refused: tuple[RefusedForm, ...] = ()  # forms that would have come before it, in the order in which they were tried
    earlier: Mapping[str, Buffer] = field(default_factory=dict)  # buffers of earlier operators that its tasks touch
    alternatives: tuple[Alternative, ...] = ()  # forms that were possible, and cost more than what was chosen instead

    @cached_property
    def cycles(self) -> int:
        """By the calibrated model, with assumed banks. Worked out when somebody asks: most forms have no rival."""
        return cycles_of(self.groups, {**self.earlier, **self.buffers}, self.target)

    @property
    def error(self) -> float:
        """Expected of the worst operator, in codes of 8 bits before the last rounding."""
        return max((one.error / one.step for one in self.semantics.values()), default=0.0)

    @cached_property
    def scratch_bytes(self) -> int:
        """The most that lives at the same time, each from the first to the last group that touches it."""
        touched = [{use.buffer for task in g.tasks for use in task.engines.values()} for g in self.groups]
        scratch = {name: b.size_bytes for name, b in self.buffers.items() if b.kind == BufferKind.SCRATCH}
        spans = {name: [k for k, names in enumerate(touched) if name in names] for name in scratch}
        alive = (
            sum(size for name, size in scratch.items() if spans[name] and spans[name][0] <= k <= spans[name][-1])
            for k in range(len(touched))
        )
        return max(alive, default=0)

    @property
    def cost(self) -> float:
        """What choices compare: cycles, and the prices of error and of memory."""
        error = max((one.compared for one in self.semantics.values()), default=0.0)
        return policy.objective(self.cycles, error, self.scratch_bytes, self.target.machine)


@dataclass(frozen=True, eq=False)
class Alternative:
    """A form that was possible, and the one that was chosen instead; `because`: of its rank, or nothing: of its cost.
    Cycles of both are worked out when somebody asks. One that could not cost less was not even built (`later` does)."""

    variant: Variant
    built: Form | None
    chosen: Variant
    chosen_form: Form
    because: str = ""
    least_cycles: float = 0.0  # of one that is not built: it takes no fewer
    later: Callable[[], Form | None] = lambda: None

    @cached_property
    def form(self) -> Form | None:
        """None: there is no such form after all."""
        return self.built or self.later()


class Refusal(Exception):
    """How a recipe leaves what it cannot finish; `select.enumerate` makes a value of it."""

    def __init__(self, rule: Rule, seen: str, limit: str, remedy: str, needs: float = 0.0) -> None:
        super().__init__(rule, seen, limit, remedy, needs)
        self.refused = RefusedForm(rule, seen, limit, remedy, needs)

    @classmethod
    def of(cls, refused: RefusedForm) -> Refusal:
        return cls(refused.rule, refused.seen, refused.limit, refused.remedy, refused.needs)

    @property
    def rule(self) -> Rule:
        return self.refused.rule

    def __str__(self) -> str:
        r = self.refused
        return f"{r.rule.id}: {r.seen} (limit: {r.limit}). Fix: {r.remedy}."


def without_evidence(graded: Graded) -> RefusedForm:
    """A form that the user does not trust: what it needs, what ST programs use instead, and what decides about it."""
    name, role, value = graded.feature
    unit, _, quantity = name.partition(" ")
    is_shift, by = quantity.startswith("SHIFT"), f", argument {graded.argument}" if graded.argument else ""
    needs = f"shift {value} ({unit}{by})" if is_shift else f"{name}{f' of {role}' if role else ''} = {value}{by}"
    change = "bring the scales of its inputs and its output closer together" if is_shift else "use other sizes"
    used = f"ST programs use {graded.seen.replace('..', ' to ')}" if graded.seen else "no ST program has it"
    return RefusedForm(NO_EVIDENCE, f"needs {needs}", used, f"{change}, or try --allow-unproven on a board")
