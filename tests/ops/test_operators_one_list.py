"""Operators with exact arithmetic are the list; everybody who must know each of them is held against it.

What a kernel in C needs besides is in tests/kernels/test_kernels_one_list.py, what a function of one value needs in
test_functions_table.py.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.emit.c import cpu_calls
from atonc.compiler.emit.c.cpu.site import MAKERS
from atonc.compiler.ops import kinds, shapes
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.registry import _move
from atonc.compiler.passes.layout import RULES

assert cpu_calls  # importing it registers the calls of all operators
ROOT = Path(__file__).parents[2] / "atonc" / "compiler"
ONLY_BEFORE_PASSES = {"batch_norm", "range", "recode"}  # passes leave none of them in a canonical graph
OF_LOWERING = {"pack_kernels"}  # made where a product becomes NPU programs: behind readers, passes and layouts
TABLES = {*FUNCTIONS, *BINARY}  # readers take these from their tables


@cache
def written() -> frozenset[str]:
    """Words in the readers, and in the passes, which make operators of others."""
    files = [path for room in ("frontends", "passes") for path in sorted((ROOT / room).glob("*.py"))]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def missing(known: Set[str]) -> list[str]:
    places = {
        "exact arithmetic in ops (@computes or @moves)": kinds(),
        "shape: shapes.keeps_shape or shapes.rule beside its arithmetic, or shapes.FROM_READER": (
            {*shapes._rules, *shapes.FROM_READER}
        ),
        "storage order: keeps_shape, @lays_out in passes/layout.py, or shapes.AS_IN_MODEL": (
            {*RULES, *shapes.AS_IN_MODEL} | OF_LOWERING
        ),
        "reader in frontends and no pass that makes it": written() | TABLES | OF_LOWERING,
        "call in emit/c/cpu (@kernel_for)": {*MAKERS, *ONLY_BEFORE_PASSES},
    }
    return [f"{kind} has no {place}" for place, those in places.items() for kind in sorted(known - those)]


def test_every_operator_is_known_everywhere() -> None:
    lacking = missing(kinds() | set(MAKERS))
    assert not lacking, "; ".join(lacking)


def test_a_place_without_an_operator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_move, "stranger", _move["reverse"])
    assert [sentence.split(":")[0].split(" in ")[0] for sentence in missing(kinds())] == [
        "stranger has no shape", "stranger has no storage order", "stranger has no reader", "stranger has no call",
    ]  # fmt: skip


def test_a_call_without_arithmetic_is_named() -> None:
    assert missing({"stranger"})[0] == "stranger has no exact arithmetic in ops (@computes or @moves)"


def test_lists_name_operators_only_once() -> None:
    assert not shapes.FROM_READER & set(shapes._rules) and not shapes.AS_IN_MODEL & set(RULES)
    assert {*shapes.FROM_READER, *shapes.AS_IN_MODEL, *shapes.ALONG_AXIS} <= kinds()
