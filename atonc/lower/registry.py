"""Which recipe lowers which operator, and how a recipe says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from atonc.ir import Op
from atonc.plan.task import TaskGroup

if TYPE_CHECKING:
    from atonc.lower.context import Context

Recipe = Callable[[Op, "Context"], list[TaskGroup]]

_RECIPES: dict[str, Recipe] = {}


class Refusal(Exception):
    """A recipe cannot put this operator on the NPU: which rule, what was seen, the limit, what to do about it."""

    def __init__(self, rule: str, seen: str, limit: str, remedy: str) -> None:
        super().__init__(rule, seen, limit, remedy)
        self.rule, self.seen, self.limit, self.remedy = rule, seen, limit, remedy

    def __str__(self) -> str:
        return f"{self.rule}: {self.seen} (limit: {self.limit}). What to do: {self.remedy}."


def recipe(*kinds: str) -> Callable[[Recipe], Recipe]:
    def register(function: Recipe) -> Recipe:
        for kind in kinds:
            if kind in _RECIPES:
                raise ValueError(f"{kind} has two recipes")
            _RECIPES[kind] = function
        return function

    return register


def recipe_for(kind: str) -> Recipe | None:
    from atonc.lower import recipes  # importing the package registers them all

    recipes.load()
    return _RECIPES.get(kind)
