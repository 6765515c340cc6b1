"""Which recipe lowers which operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from atonc.compiler.ir import Op
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.form import Refusal

if TYPE_CHECKING:
    from atonc.compiler.lower.context import Context

__all__ = ["Recipe", "Refusal", "recipe", "recipe_for"]

Recipe = Callable[[Op, "Context"], list[TaskGroup]]

FAMILIES = ("conv", "elementwise", "move", "pool", "product", "resize")

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
    load()
    return _RECIPES.get(kind)


@cache
def load() -> None:
    """Every module of a family registers its recipes when it is imported."""
    for family in FAMILIES:
        package = import_module(f"atonc.compiler.lower.{family}")
        for module in sorted(m.name for m in iter_modules(package.__path__)):
            import_module(f"{package.__name__}.{module}")
