"""No test judges by the clock: on a machine that is shared it tells nothing. See `tests/patience.py` for what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import patience

TESTS = Path(__file__).resolve().parent
CLOCKS = {
    "time": {"time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime", "localtime"},
    "os": {"times"},
    "resource": {"getrusage"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "timeit": {"timeit", "repeat", "default_timer"},
}
SHORT = 60  # seconds of a time-out: less of them decide on a busy machine
IN_BROWSERS = ("performance.now(", "ProcessTime", "Date.now(")
ALLOWED = {
    "patience.py": "limits that only a hang reaches, and waiting for what will come",
    "test_clocks.py": "the names of clocks",
}


def readings(source: str) -> Iterator[tuple[int, str]]:
    """Lines that read a clock, or give something a short time-out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, name) for name in IN_BROWSERS if name in node.value)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr.removesuffix("_ns") in CLOCKS.get(node.value.id, ()):
                yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in CLOCKS:
            taken = {name.name for name in node.names if name.name.removesuffix("_ns") in CLOCKS[node.module]}
            yield from ((node.lineno, f"{node.module}.{name}") for name in taken)
        elif isinstance(node, ast.Call):
            given = [word.value for word in node.keywords if word.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("settimeout", "timeout", "wait_for"):
                given += node.args
            for value in given:
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value < SHORT:
                    yield node.lineno, f"a time-out of {value.value} s"


def test_no_test_reads_a_clock() -> None:
    found = {
        f"{path.relative_to(TESTS)}:{line}: {what}"
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).as_posix() not in ALLOWED
        for line, what in readings(path.read_text())
    }
    assert not found, f"count operations or wait with tests/patience.py, measure in benchmarks/: {sorted(found)}"


@pytest.mark.parametrize(
    "source",
    [
        "import time\nstarted = time.perf_counter()",
        "import time\nstarted = time.process_time_ns()",
        "from time import monotonic",
        "import os\nbefore = os.times()",
        "subprocess.run(command, timeout=5)",
        "line.settimeout(2.5)",
        "page.evaluate('performance.now()')",
    ],
)
def test_a_clock_is_seen(source: str) -> None:
    assert list(readings(source))
    assert not list(readings("time.sleep(0.1)\nsubprocess.run(command, timeout=300)\nrun(seconds=0.5)"))


def test_what_never_ends_is_ended() -> None:
    def hang() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    with pytest.raises(patience.HangsError), patience.no_hang(0.05):
        hang()


def test_operations_are_counted() -> None:
    def straight(size: int) -> list[int]:
        return [number for number in range(size)]

    def squared(size: int) -> int:
        total = 0
        for _ in range(size):
            for _ in range(size):
                total += 1
        return total

    assert patience.growth(lambda size: lambda: straight(size), 200) < 2.1
    assert patience.growth(lambda size: lambda: squared(size), 20) > 3.5
    assert patience.operations(lambda: squared(10)) == patience.operations(lambda: squared(10))
