"""Small pieces: functions that fit a screen, files that fit a sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 400  # of a file
MOST_FUNCTION_LINES = 60
MOST_USUAL_LINES = 150  # of the files of `lower`, half of which are shorter


def sources() -> list[Path]:
    """What somebody wrote, in Python and in C; not what tools wrote."""
    found = [path for pattern in ("*.py", "*.c", "*.h") for path in (ROOT / "atonc").rglob(pattern)]
    found += [*(ROOT / "tools").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return sorted(path for path in found if "do not edit" not in path.read_text()[:400])


def functions(source: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_files_fit_a_sitting() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources()}
    long = [f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > MOST_LINES]
    assert not long, f"more than {MOST_LINES} lines have two nouns in them: {long}"


def test_functions_fit_a_screen() -> None:
    python = [path for path in sources() if path.suffix == ".py"]
    long = [
        f"{path.relative_to(ROOT)}: {name} has {lines}"
        for path in python
        for name, lines in functions(path.read_text())
        if lines > MOST_FUNCTION_LINES
    ]
    assert not long, long


def test_recipes_are_short() -> None:
    lengths = [len(path.read_text().splitlines()) for path in (ROOT / "atonc" / "lower").rglob("*.py")]
    assert median(lengths) <= MOST_USUAL_LINES


def test_a_long_function_is_seen() -> None:
    assert list(functions("def f():\n" + "    x = 1\n" * 60)) == [("f", 61)]
