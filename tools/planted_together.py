"""All mistakes of a seed planted in one copy, each behind a switch, and one run of the tests that tries them.

`tools/mutants.py --random SEED` calls it. A file of tests is read once. Each of its tests runs in a child without any
mistake, which says the places that it came by; then once more in a child of its own for every mistake at these places
that nobody has found yet. A mistake is found by a test that passes without it and fails, or never ends, with it.
"""

from __future__ import annotations

import ast
import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

SWITCH, ACTIVE, REACHED = "planted_mistake", "PLANTED_MISTAKE", "PLANTED_MISTAKES_REACHED"
CLEAN_SECONDS, FILE_SECONDS = 3, 20  # of the processor: one test without a mistake, a file of them
CASES_SECONDS = 2  # of the processor: all cases of a test with parameters, where single tests are asked
TRIES, TRY_SECONDS = 12, 8  # of a mistake, in one file of tests
QUICK_SECONDS = 0.3  # a test that takes longer is only tried with the mistakes that it was named for
SITE = f'''
import atexit, builtins, os

_active, _seen, _told = int(os.environ.get("{ACTIVE}", "-1")), set(), os.environ.get("{REACHED}")


def {SWITCH}(number):
    _seen.add(number)
    return number == _active


def _tell():
    if _told and _seen:
        with open(_told, "a") as file:
            file.write("".join(f"{{number}}\\n" for number in sorted(_seen)))


{SWITCH}.seen = _seen
builtins.{SWITCH} = {SWITCH}
atexit.register(_tell)
'''  # in every process that imports the package

FIRST = "from __future__ import annotations\n"  # of the package, behind which it stands


class Place(Protocol):
    file: str
    at: int
    old: str
    new: str


def switched(source: bytes, places: Iterable[tuple[int, Place]]) -> tuple[bytes, set[int]]:
    """The file with every mistake behind its switch, and those that cannot stand behind one (a target, a pattern) or
    inside of another; nor a default of an argument, or one of an earlier state of the file."""
    text, left, after = source, set[int](), len(source) + 1
    once = list(_computed_once(source))
    for number, place in sorted(places, key=lambda one: -one[1].at):
        end = place.at + len(place.old.encode())
        old, new = text[place.at : end].decode(errors="replace"), place.new
        if old != place.old or any(first <= place.at < last for first, last in once):
            left.add(number)
            continue
        on = f"{SWITCH}({number})"
        made = f"if not {on}: {old}" if new == "pass" else f"({new} if {on} else {old})"
        tried = text[: place.at] + made.encode() + text[end:]
        with suppress(SyntaxError):
            if end <= after:
                ast.parse(tried)
                text, after = tried, place.at
                continue
        left.add(number)
    return text, left


def _computed_once(source: bytes) -> Iterator[tuple[int, int]]:
    """Where defaults of arguments stand: they are worked out when the file is read, before any switch is set."""
    begins = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arguments):
            for one in (*node.defaults, *filter(None, node.kw_defaults)):
                assert one.end_lineno is not None and one.end_col_offset is not None
                yield begins[one.lineno - 1] + one.col_offset, begins[one.end_lineno - 1] + one.end_col_offset


def plant(root: Path, places: Sequence[Place]) -> set[int]:
    """Writes them all into a copy of the checkout; those that could not be planted."""
    first = root / "atonc" / "__init__.py"
    first.write_text(first.read_text().replace(FIRST, FIRST + SITE, 1))
    left = set[int]()
    for file in {one.file for one in places}:
        path = root / file
        text, not_there = switched(path.read_bytes(), [(k, one) for k, one in enumerate(places) if one.file == file])
        path.write_bytes(text)
        left |= not_there
    return left


class Trials:
    """A process that has read the package once, and tries one file of tests after another."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        told, telling = os.pipe()
        command = [sys.executable, str(Path(__file__).resolve()), str(telling)]
        known = {**environment, "PYTHONPATH": str(root), REACHED: str(root / ".reached")}
        self.process = subprocess.Popen(
            command,
            cwd=root,
            env=known,
            pass_fds=[telling],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        os.close(telling)
        self.told = os.fdopen(told)

    def tried(self, tests: Mapping[str, Collection[int]], open_ones: Iterable[int]) -> Iterator[dict[str, Any]]:
        """What these tests find, each with the mistakes that it is named for: `found` with the mistake and the test,
        `reached` with all that a test came by."""
        assert self.process.stdin is not None
        named = {test: sorted(numbers) for test, numbers in tests.items()}
        print(json.dumps([named, sorted(open_ones)]), file=self.process.stdin, flush=True)
        for line in self.told:
            said = json.loads(line)
            if "ended" in said and "found" not in said:
                return
            yield said
        raise SystemExit("the process of the tests is gone")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# ------------------------------------------------------------------------------------------------ in the tests' process


class Ran(NamedTuple):
    passed: bool
    failed: bool  # neither of them where it was skipped
    ended: bool
    reached: frozenset[int]
    seconds: float


class Trying:
    """A plugin of pytest that runs every test in children."""

    def __init__(self, telling: int, tests: Mapping[str, Collection[int]], open_ones: set[int], file: Path) -> None:
        self.out, self.tests = os.fdopen(telling, "w"), tests
        self.open, self.file = open_ones, file
        self.cases = CASES_SECONDS if all("::" in test for test in tests) else math.inf
        self.tries, self.spent = dict[int, int](), dict[int, float]()

    def pytest_runtestloop(self, session: Any) -> bool:
        left, cases = float(FILE_SECONDS), dict[str, float]()
        for item in session.items:
            name = item.nodeid.partition("[")[0]
            if not self.open or left < 0 or cases.get(name, 0.0) > self.cases:
                continue
            clean = self._run(item, -1, CLEAN_SECONDS)
            left -= clean.seconds
            cases[name] = cases.get(name, 0.0) + clean.seconds
            if not clean.passed:
                continue
            reached = sorted(clean.reached & self.open)
            slow = clean.seconds > QUICK_SECONDS and name in self.tests
            tried = [number for number in reached if not slow or number in self.tests[name]]
            for number in tried:
                if self.tries.get(number, 0) < TRIES and self.spent.get(number, 0) < TRY_SECONDS:
                    self._try(item, number, clean)
            self._tell(reached=reached, tried=tried, test=name)
        return True

    def _try(self, item: Any, number: int, clean: Ran) -> None:
        ran = self._run(item, number, int(3 + 8 * clean.seconds))
        self.tries[number] = self.tries.get(number, 0) + 1
        self.spent[number] = self.spent.get(number, 0) + ran.seconds
        if ran.failed or not ran.ended:
            self.open.discard(number)
            self._tell(found=number, test=item.nodeid, ended=ran.ended)

    def _tell(self, **what: Any) -> None:
        print(json.dumps(what), file=self.out, flush=True)

    def _run(self, item: Any, number: int, seconds: int) -> Ran:
        self.file.unlink(missing_ok=True)
        told, telling = os.pipe()
        child = os.fork()
        if not child:
            os.setsid()
            _child(item, number, seconds, telling)
        os.close(telling)
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = _said_in(told, 10 + 8 * seconds)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = used.ru_utime + used.ru_stime - began.ru_utime - began.ru_stime
        if said is None:
            return Ran(False, False, False, frozenset(), spent)
        outside = set(map(int, self.file.read_text().split())) if self.file.exists() else set[int]()
        return Ran(said["passed"], said["failed"], True, frozenset(said["reached"]) | outside, spent)


def _said_in(told: int, seconds: float) -> dict[str, Any] | None:
    """What a child says before its end; nothing where it takes too long."""
    text, until = b"", time.monotonic() + seconds
    with os.fdopen(told, "rb", buffering=0) as pipe:
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            more = pipe.read(65536) if ready else b""
            if not more:
                return None
            text += more
    said: dict[str, Any] = json.loads(text)
    return said


def _child(item: Any, number: int, seconds: int, telling: int) -> None:
    from _pytest.runner import runtestprotocol

    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        os.environ[ACTIVE] = str(number)
        switch = __builtins__[SWITCH] if isinstance(__builtins__, dict) else getattr(__builtins__, SWITCH)
        switch.__globals__["_active"] = number
        switch.seen.clear()
        reports = runtestprotocol(item, nextitem=None, log=False)
        failed = any(one.failed for one in reports)
        passed = not failed and all(one.passed for one in reports)
        said = {"passed": passed, "failed": failed, "reached": sorted(switch.seen)}
        os.write(telling, json.dumps(said).encode() + b"\n")
    finally:
        os._exit(0)


def main() -> int:
    import importlib
    import pkgutil

    import pytest

    telling = int(sys.argv[1])
    for package in ("numpy", "onnx", "hypothesis"):
        importlib.import_module(package)
    package = importlib.import_module("atonc")
    for one in pkgutil.walk_packages(package.__path__, "atonc."):
        if not one.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(one.name)
    words = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--basetemp", str(Path.cwd() / ".made")]
    for line in sys.stdin:
        tests, open_ones = json.loads(line)
        child = os.fork()
        if not child:
            trying = Trying(telling, tests, set(open_ones), Path(os.environ[REACHED]))
            done = pytest.main([*words, *tests], plugins=[trying])
            os._exit(int(done not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)))
        _, status = os.waitpid(child, 0)
        os.write(telling, json.dumps({"ended": status}).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
