"""Which functions of the package each test comes by, recorded once; `tools/mutants.py --together` asks it whom to run.

    nice python tools/reach.py FILE [TESTS]...

Runs the tests one after another in a copy of the checkout whose functions mark a byte each, in every process of a
test, and appends a line to FILE for each: its name, whether it passed, its seconds of the processor, and what it came
by. Of a test with parameters the first cases run, and a test that takes longer than a few seconds is ended; what it
came by until then counts. Folders of tests that FILE has already are passed over.
"""

from __future__ import annotations

import ast
import base64
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MARKS, MARK = "PLANTED_MARKS", "planted_mark"
TEST_SECONDS, FILE_SECONDS = 6, 15  # of the processor
MOST_CASES = 2  # of a test with parameters
SITE = """
import builtins, mmap
with open({path!r}, "r+b") as _file:
    builtins.{mark} = mmap.mmap(_file.fileno(), 0)
"""  # in every process that imports the package, in memory that they share
FIRST = "from __future__ import annotations\n"  # of the package, behind which it stands


def functions(source: bytes) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods, by their names in the file; what is made inside of one belongs to it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def marked(source: bytes, first: int) -> tuple[bytes, list[str]]:
    """The file with a mark in front of the first statement of each of its functions, counted from `first`."""
    lines, named = source.splitlines(keepends=True), list(functions(source))
    for number, (_, node) in reversed(list(enumerate(named, first))):
        known = len(node.body) > 1 and ast.get_docstring(node) is not None
        body = node.body[known]
        at, before = body.lineno - 1, lines[body.lineno - 1][: body.col_offset]
        mark = f"{MARK}[{number}] = 1".encode()
        if before.strip():  # behind the colon, on one line
            lines[at] = before + mark + b"; " + lines[at][body.col_offset :]
        else:
            if isinstance(body, ast.FunctionDef | ast.ClassDef) and body.decorator_list:
                at = body.decorator_list[0].lineno - 1
            lines.insert(at, before + mark + b"\n")
    return b"".join(lines), [name for name, _ in named]


def mark_all(root: Path) -> list[str]:
    """Marks all functions of the package in a copy of the checkout; their names by number."""
    names = list[str]()
    for path in sorted((root / "atonc").rglob("*.py")):
        text, found = marked(path.read_bytes(), len(names))
        path.write_bytes(text)
        names += [f"{path.relative_to(root)}:{name}" for name in found]
    first, marks = root / "atonc" / "__init__.py", root / ".marks"
    marks.write_bytes(bytes(len(names)))
    first.write_text(first.read_text().replace(FIRST, FIRST + SITE.format(path=str(marks), mark=MARK), 1))
    return names


class Reach(NamedTuple):
    """What one test comes by."""

    test: str
    passed: bool
    seconds: float
    functions: frozenset[str]


def read(path: Path) -> Iterator[Reach]:
    names = list[str]()
    for line in path.read_text().splitlines():
        said = json.loads(line)
        if "functions" in said:
            names = said["functions"]
        else:
            bits = zlib.decompress(base64.b64decode(said["by"]))
            by = frozenset(name for k, name in enumerate(names) if bits[k // 8] >> k % 8 & 1)
            yield Reach(said["test"], said["passed"], said["seconds"], by)


# ------------------------------------------------------------------------------------------------ in the tests' process


class _TooLong(BaseException):
    """Ends a test; nothing that catches errors of tests catches it."""


class Recording:
    """A plugin of pytest that writes what every test comes by."""

    def __init__(self, marks: mmap.mmap, to: Path) -> None:
        self.marks, self.to = marks, to
        self.cases, self.spent = Counter[str](), dict[Path, float]()

    def pytest_runtest_protocol(self, item: Any) -> bool:
        from _pytest.runner import runtestprotocol

        test = item.nodeid.partition("[")[0]
        self.cases[test] += 1
        if self.cases[test] > MOST_CASES or self.spent.get(item.path, 0.0) > FILE_SECONDS:
            return True
        self.marks[:] = bytes(len(self.marks))
        began = _seconds()
        signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)
        reports = runtestprotocol(item, nextitem=_next(item), log=False)
        signal.setitimer(signal.ITIMER_PROF, 0)
        used = _seconds() - began
        self.spent[item.path] = self.spent.get(item.path, 0.0) + used
        bits = bytes(
            sum(bool(mark) << k for k, mark in enumerate(self.marks[at : at + 8]))
            for at in range(0, len(self.marks), 8)
        )
        line = {
            "test": item.nodeid, "passed": all(one.passed for one in reports), "seconds": round(used, 3),
            "by": base64.b64encode(zlib.compress(bits)).decode(),
        }  # fmt: skip
        with self.to.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return True


def _next(item: Any) -> Any:
    items = item.session.items
    at = items.index(item) + 1
    return items[at] if at < len(items) else None


def _end(*_: object) -> None:
    raise _TooLong


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _inside(to: Path, tests: Sequence[str]) -> int:
    import pytest

    with open(os.environ[MARKS], "r+b") as file:
        recording = Recording(mmap.mmap(file.fileno(), 0), to)
    return int(pytest.main(["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[recording]))


# ------------------------------------------------------------------------------------------------ beside it


def record(to: Path, tests: Sequence[str], root: Path, environment: Mapping[str, str]) -> None:
    names = mark_all(root)
    done = {one.test.partition("::")[0] for one in read(to)} if to.exists() else set[str]()
    with to.open("a") as file:
        file.write(json.dumps({"functions": names}) + "\n")
    for folder in tests:
        if not any(name == folder or name.startswith(f"{folder.rstrip('/')}/") for name in done):
            command = [sys.executable, str(Path(__file__).resolve()), str(to.resolve()), folder]
            subprocess.run(command, cwd=root, env={**environment, MARKS: str(root / ".marks")}, check=False)


def main() -> int:
    to, *tests = sys.argv[1:]
    if MARKS in os.environ:
        return _inside(Path(to), tests)
    from mutants import copied, environment

    folders = [str(one.relative_to(ROOT)) for one in (ROOT / "tests").iterdir() if any(one.glob("test_*.py"))]
    files = [str(one.relative_to(ROOT)) for one in (ROOT / "tests").glob("test_*.py")]
    with copied() as copy:
        record(Path(to), tests or sorted(folders) + sorted(files), copy.root, environment(copy.root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
