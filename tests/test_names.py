"""One name, one thing: no two classes of the package share a name. Docstrings are sentences of their own."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("atonc", "benchmarks", "examples", "tests", "tools")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _trees(folder: str) -> dict[str, ast.Module]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def repeated(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Finds the class names that are defined in several places, with those places."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def fragments(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Finds docstrings that lean on the name of their function: `cycles` with "Of one epoch."."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("Of "):
                yield f"{path}:{node.body[0].lineno}"


def test_class_names_mean_one_thing() -> None:
    assert repeated(_trees("atonc")) == {}


def test_docstrings_are_sentences() -> None:
    assert [place for folder in SOURCES for place in fragments(_trees(folder))] == []


def test_planted_ones_are_found() -> None:
    sources = {"a.py": "class A: ...\nclass B: ...", "b.py": 'def f():\n    "Of a."\n    class A: ...'}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    assert repeated(trees) == {"A": ["a.py:1", "b.py:3"]}
    assert list(fragments(trees)) == ["b.py:2"]
