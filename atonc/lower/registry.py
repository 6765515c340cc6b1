"""Which recipe lowers which operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from atonc.ir import Op
from atonc.plan.task import TaskGroup
from atonc.select.form import Refusal

if TYPE_CHECKING:
    from atonc.lower.context import Context

__all__ = ["Recipe", "Refusal", "recipe", "recipe_for"]

Recipe = Callable[[Op, "Context"], list[TaskGroup]]

_RECIPES: dict[str, Recipe] = {}


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
