"""A tuned number stands once, in policy.py, with its reason; what stands elsewhere is a fact, and listed as one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from atonc.compiler.plan import policy
from atonc.compiler.search import loop

ROOT = Path(policy.__file__).parent
SEARCH = Path(loop.__file__).parent
ROOMS = [ROOT, SEARCH, ROOT.parent / "schedule"]
FACTS = {  # not tuned: sizes, ports, limits of files, of caches, of the chip
    "MOST_KNOWN", "ROW_BYTES", "_NEAR", "SUMS", "ENGINES_OF_COPY", "NEVER", "MAX_BYTES", "MOST_SPACERS", "CALL",
    "LOWEST", "_DIGEST", "_MOST",
}  # fmt: skip
PLAIN = {-1, 0, 1, 2, 4}  # indices, signs, pairs, axes of a picture: nobody would tune them
NUMBER = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple)  # calls make values of hardware types


def files() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in sorted(room.rglob("*.py")) if path != Path(policy.__file__))


def constants(text: str) -> Iterator[str]:
    """Names of numbers that a module defines."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, NUMBER) and numbers(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def numbers(tree: ast.AST) -> list[float]:
    """All that stand in it, but for those that nobody would tune."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [n.value for n in found if isinstance(n.value, int | float) and n.value not in PLAIN and n.value is not True]


def inside(text: str) -> list[float]:
    """Numbers in functions and classes of a module; formats of texts do not count."""
    bodies = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    texts = [node for body in bodies for node in ast.walk(body) if isinstance(node, ast.JoinedStr)]
    shown = [number for node in texts for number in numbers(node)]
    return [number for body in bodies for number in numbers(body) if number not in shown]


@pytest.mark.parametrize("path", list(files()), ids=lambda path: path.stem)
def test_numbers_stand_in_policy(path: Path) -> None:
    text = path.read_text()
    assert set(constants(text)) <= FACTS, "a tuned number belongs into plan/policy.py, with its reason"
    if SEARCH in path.parents:
        assert not inside(text), "a number of the search without a name"


def test_nothing_is_defined_twice() -> None:
    own = {name for name in vars(policy) if name.isupper()}
    package = ROOT.parent
    others = {
        path.relative_to(package).as_posix(): twice
        for path in sorted(package.rglob("*.py"))
        if path != Path(policy.__file__) and (twice := own & set(constants(path.read_text())))
    }
    assert not others


def test_planted_numbers_are_found() -> None:
    assert list(constants("WORTH = 3000\nNAMES = ('a',)")) == ["WORTH"]
    assert inside("def f(x):\n    return x > 0.85 and x[0]") == [0.85]
