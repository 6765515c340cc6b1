"""Functions that fit a screen, and a budget for the whole: what comes in pays for itself or replaces something."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 143_970  # of all modules of atonc, blank lines and comments too; raised only for what users asked for
MOST_MODULES = 712
MOST_FUNCTION_LINES = 60
MOST_ARGUMENTS = 7  # without self; what travels together is a type
MOST_IN_ORDER = 8  # arguments without a name in one call of a constructor


def sources() -> list[Path]:
    """What somebody wrote, in Python and in C; not what tools wrote."""
    found = [path for pattern in ("*.py", "*.c", "*.h") for path in (ROOT / "atonc").rglob(pattern)]
    found += [*(ROOT / "tools").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return sorted(path for path in found if "do not edit" not in path.read_text()[:400])


class Counted(NamedTuple):
    """What a file of Python has, each with a number."""

    lines: list[tuple[str, int]]  # of functions
    arguments: list[tuple[str, int]]  # of functions, those with defaults and those by name only included
    in_order: list[tuple[str, int]]  # of calls of classes: arguments without a name


@cache
def counted(source: str) -> Counted:
    found = Counted([], [], [])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            found.lines.append((node.name, node.end_lineno - node.lineno + 1))
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            found.arguments.append((node.name, len(names) - (names[:1] in (["self"], ["cls"]))))
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = ast.unparse(node.func).split(".")[-1]
            found.in_order.extend([(name, len(node.args))] if name[:1].isupper() else [])
    return found


def package() -> dict[str, Counted]:
    paths = [path for path in sources() if path.suffix == ".py" and path.is_relative_to(ROOT / "atonc")]
    return {str(path.relative_to(ROOT)): counted(path.read_text()) for path in paths}


def test_the_package_stays_within_its_budget() -> None:
    """Files may be as long as their subject; the number of things to know is what is limited."""
    modules = sorted((ROOT / "atonc").rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    assert lines <= MOST_LINES, f"{lines} lines: what can go for what came?"
    assert len(modules) <= MOST_MODULES, f"{len(modules)} modules: which belong together?"


def test_functions_fit_a_screen() -> None:
    python = [path for path in sources() if path.suffix == ".py"]
    long = [
        f"{path.relative_to(ROOT)}: {name} has {lines}"
        for path in python
        for name, lines in counted(path.read_text()).lines
        if lines > MOST_FUNCTION_LINES
    ]
    assert not long, long


def test_functions_take_few_arguments() -> None:
    found = {(path, name, count) for path, file in package().items() for name, count in file.arguments}
    many = sorted(one for one in found if one[2] > MOST_ARGUMENTS)
    assert not many, f"more than {MOST_ARGUMENTS} arguments: which of them are one thing? {many}"


def test_constructors_of_many_values_name_them() -> None:
    long = [
        f"{path}: {name} gets {count}"
        for path, file in package().items()
        for name, count in file.in_order
        if count > MOST_IN_ORDER
    ]
    assert not long, f"more than {MOST_IN_ORDER} values without a name: {long}"


def test_many_arguments_are_seen() -> None:
    assert counted("def f(self, a, b=1, *c, d, **e): pass").arguments == [("f", 3)]
    assert counted("types.Layer(1, 2, name=3)").in_order == [("Layer", 2)]


def test_a_long_function_is_seen() -> None:
    assert counted("def f():\n" + "    x = 1\n" * 60).lines == [("f", 61)]
