"""The argument of --fix-parametric-shapes: which size each named dimension has."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping

from atonc.compiler.frontends.limits import MAX_DIM
from atonc.machine.base.errors import InputError

MAX_TEXT = 4_096
PAIR = re.compile(r"\s*([^=:,{}\[\]'\"]+?)\s*[=:]\s*(\d+)\s*")


def parse_fixed_shapes(text: str) -> dict[str, int]:
    """Takes "{'B': 1, 'T': 16}" as ST's tool does, JSON, or B=1,T=16."""
    if not text.strip():
        return {}
    if len(text) > MAX_TEXT:
        raise InputError("the list of fixed shapes is too long", where="--fix-parametric-shapes")
    found = _literal(text) if text.strip().startswith("{") else _pairs(text)
    for name, size in found.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_DIM:
            raise InputError(f"{name!r} cannot have the size {size!r}", where="--fix-parametric-shapes")
    return found


def require_names(sizes: Mapping[str, int], known: Collection[str]) -> tuple[str, ...]:
    """Sizes for dimensions that the model does not have are a mistake of the user; where it has none, a note."""
    named = sorted(name for name in known if name)
    if sizes and not named:
        return ("--fix-parametric-shapes has no effect: all sizes of the inputs are fixed in the model",)
    for name in sizes:
        if name not in named:
            raise InputError(
                f"the inputs have no dimension {name[:60]!r}",
                where="--fix-parametric-shapes",
                rule=f"its free dimensions are {', '.join(map(repr, named[:10]))}",
                remedy="leave it out, or correct the name",
            )
    return ()


def _literal(text: str) -> dict[str, int]:
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _unreadable(text)
    return value


def _pairs(text: str) -> dict[str, int]:
    matches = [PAIR.fullmatch(part) for part in text.split(",")]
    if not all(matches):
        raise _unreadable(text)
    return {match[1]: int(match[2]) for match in matches if match}


def _unreadable(text: str) -> InputError:
    return InputError(
        f"{text[:80]!r} is not a list of sizes",
        where="--fix-parametric-shapes",
        remedy="write {'B': 1, 'T': 16} or B=1,T=16",
    )
