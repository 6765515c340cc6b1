"""A form: one way to compute an operator, as a value. And a refusal, which is a value too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atonc.plan.task import TaskGroup
from atonc.plan.types import Buffer


@dataclass(frozen=True)
class Semantics:
    """What an operator's tasks compute, how far that may be from exact arithmetic, and what could make it worse."""

    codes: Callable[[Sequence[Any]], Sequence[Any]]  # from those of the inputs to those of the outputs, in integers
    error: float = 0.0  # in codes, before the last rounding
    saturates: bool = False  # inputs unlike those that were expected may take sums beyond their 16 bits


@dataclass(frozen=True)
class Refused:
    """Why there is no such form: which rule, what was seen, the limit, what to do about it."""

    rule: str
    seen: str
    limit: str
    remedy: str


@dataclass(frozen=True)
class Form:
    """Everything that a recipe says: nothing else remembers it."""

    groups: tuple[TaskGroup, ...]
    buffers: Mapping[str, Buffer] = field(default_factory=dict)  # that no earlier operator has
    aliases: Mapping[str, str] = field(default_factory=dict)  # tensor -> tensor in whose memory it lies
    shifted_copies: Mapping[str, str] = field(default_factory=dict)  # that later operators may read
    semantics: Mapping[str, Semantics] = field(default_factory=dict)  # by operator
    refused: tuple[Refused, ...] = ()  # forms that would have come before it, in the order in which they were tried

    @property
    def error(self) -> float:
        """Expected of the worst operator, in codes before the last rounding."""
        return max((one.error for one in self.semantics.values()), default=0.0)


class Refusal(Exception):
    """How a recipe leaves what it cannot finish; `select.choose.attempt` makes a value of it."""

    def __init__(self, rule: str, seen: str, limit: str, remedy: str) -> None:
        super().__init__(rule, seen, limit, remedy)
        self.refused = Refused(rule, seen, limit, remedy)

    @property
    def rule(self) -> str:
        return self.refused.rule

    def __str__(self) -> str:
        r = self.refused
        return f"{r.rule}: {r.seen} (limit: {r.limit}). What to do: {r.remedy}."
