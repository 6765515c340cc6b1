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

FAMILIES = ("conv", "elementwise", "move", "pool", "product", "resize", "sixteen")

_RECIPES: dict[str, Recipe] = {}
_WIDE_RECIPES: dict[str, Recipe] = {}  # of operators on codes of 16 bits


def recipe(*kinds: str, wide: bool = False) -> Callable[[Recipe], Recipe]:
    """`wide`: where some of the codes have 16 bits."""
    known = _WIDE_RECIPES if wide else _RECIPES

    def register(function: Recipe) -> Recipe:
        for kind in kinds:
            if kind in known:
                raise ValueError(f"{kind} has two recipes")
            known[kind] = function
        return function

    return register


def recipe_for(kind: str, wide: bool = False) -> Recipe | None:
    load()
    return (_WIDE_RECIPES if wide else _RECIPES).get(kind)


@cache
def load() -> None:
    """Every module of a family registers its recipes when it is imported."""
    for family in FAMILIES:
        package = import_module(f"atonc.compiler.lower.{family}")
        for module in sorted(m.name for m in iter_modules(package.__path__)):
            import_module(f"{package.__name__}.{module}")
