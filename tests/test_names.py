"""One name, one thing: no two classes of the package share a name. Docstrings are sentences of their own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("atonc", "benchmarks", "examples", "tests", "tools")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_CLASS = re.compile(r"^[ \t]*class[ \t]+(\w+)", re.MULTILINE)
_FRAGMENT = re.compile(r"""['"]\s*Of\s""")  # a text that begins so; few have one, and only those are parsed


def _texts(*folders: str) -> dict[str, str]:
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def repeated(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Finds the class names that are defined in several places, with those places."""
    places = defaultdict(list)
    for path, text in texts.items():
        for found in _CLASS.finditer(text):
            places[found[1]].append(f"{path}:{text.count(chr(10), 0, found.start(1)) + 1}")
    return {name: found for name, found in places.items() if len(found) > 1}


def fragments(texts: Mapping[str, str]) -> Iterator[str]:
    """Finds docstrings that lean on the name of their function: `cycles` with "Of one epoch."."""
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if _FRAGMENT.search(text) else ():
            if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("Of "):
                yield f"{path}:{node.body[0].lineno}"


def test_class_names_mean_one_thing() -> None:
    assert repeated(_texts("atonc")) == {}


def test_docstrings_are_sentences() -> None:
    assert list(fragments(_texts(*SOURCES))) == []


def test_planted_ones_are_found() -> None:
    planted = {"a.py": "class A: ...\nclass B: ...", "b.py": 'def f():\n    "Of a."\n    class A: ...'}
    assert repeated(planted) == {"A": ["a.py:1", "b.py:3"]}
    assert list(fragments(planted)) == ["b.py:2"]
    assert list(fragments({"c.py": 'def f():\n    """\n    Of a."""'})) == ["c.py:2"]
