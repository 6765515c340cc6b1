"""Small mistakes planted on purpose, and whether the tests notice them.

    nice python tools/mutants.py [NAME]... [--area AREA] [--near | --whole] [--sample] [--state FILE] [--write]
    nice python tools/mutants.py --random SEED --count N [--area PATH] [--near | --whole] [--state FILE]
    nice python tools/mutants.py --random SEED --count N --together MINUTES [--reach FILE] [--state FILE]

The mistakes stand in `tools/mutants.toml`: a file, the function that has the text, the text, what stands there instead,
and the tests nearest to it. Each is planted in a copy of the checkout, never in the checkout itself. The nearest
tests run first and stop at the first failure; where all pass, the folders around them (not with `--near`); with
`--whole`, all tests. What fails must pass without the mistake, else it tells nothing. A mutant whose text is gone is
*stale*: change the list. `--state`: a file that remembers what was found, so that the same call goes on where it
stopped. With `--random` mistakes are made by rule at random places (`tools/mistakes.py`); the type checker is asked
first, which takes seconds, then the tests that are nearest by what they import and name, then those that compare all
texts and files with their records. Tests have a limit of processor time: what takes them beyond it is found where they
keep to it without the mistake.

With `--together` all of them stand in one copy. The type checker sees one of each file at a time, and the tests find
each behind a switch (`tools/planted_together.py`): a test runs once to tell the mistakes that it comes by, and again
for each of those. What no test finds within the minutes is open, not unnoticed. With `--reach` a record of
`tools/reach.py` says which tests come by a function; without it the nearest by their words are asked.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reach import Reach

ROOT = Path(__file__).resolve().parent.parent
LIST, RESULTS = Path("tools/mutants.toml"), Path("benchmarks/results/mutants.md")
AREAS = ("search", "cost", "placement", "reports", "emit", "arithmetic", "delivery")
PROCESSOR_SECONDS = 3600  # of one run of tests: a mutant that never ends is found too
NEAR_SECONDS = 60  # of the nearest tests of a random mistake; those around them may take as long again, four times
NEAR_FILES, AROUND_FILES = 8, 30
_SAID = "tests/views/test_default_output.py"  # what every verb says and writes, word for word; the quick ones first
RECORDED = (f"{_SAID}::test_what_is_delivered", f"{_SAID}::test_odd_networks_can_be_told", _SAID)
RECORDS = (
    "tests/hw/test_one_register_off.py", "tests/hw/test_cycles_mutations.py::test_the_figures_are_those_of_the_record",
    "tests/hw/test_ec_mutations.py", "tests/probes/test_recorded_probes.py", "tests/emu/test_cpu_mutations.py",
    "tests/kernels/test_kernels_hostile.py", "tests/test_mutations.py", "tests/frontends/test_onnx_refusals.py",
    "tests/frontends/test_tflite_refusals.py", *RECORDED[:2],
)  # fmt: skip
NEVER_ENDS = "never ends"
PASSED, FAILED, INTERRUPTED = 0, 1, 2  # how pytest ends; the last one where a file cannot even be read
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "node_modules")


@dataclass(frozen=True)
class Mutant:
    name: str
    area: str
    file: str
    inside: str  # the function or method that has the text
    old: str
    new: str
    tests: tuple[str, ...]  # the nearest ones
    sample: bool = False  # one of the few that every run of the tests tries
    at: int = -1  # byte of the file, where a rule made the mistake
    around: tuple[str, ...] = ()  # tests that are less near

    def planted(self, root: Path) -> str:
        """The file with the mistake in it; `StaleError` where the text is not there exactly once."""
        path = root / self.file
        if not path.is_file():
            raise StaleError(f"there is no {self.file}")
        if self.at >= 0:
            known, end = path.read_bytes(), self.at + len(self.old.encode())
            return (known[: self.at] + self.new.encode() + known[end:]).decode()
        source = path.read_text()
        first, last = _lines(source, self.inside)
        lines = source.splitlines(keepends=True)
        body = "".join(lines[first:last])
        if body.count(self.old) != 1:
            raise StaleError(f"{self.inside} in {self.file} has the text {body.count(self.old)} times")
        return "".join(lines[:first]) + body.replace(self.old, self.new) + "".join(lines[last:])


class StaleError(Exception):
    """The list no longer fits the code."""


def _lines(source: str, name: str) -> tuple[int, int]:
    """Where a function, method (`Class.method`) or class begins and ends; the whole file without a name."""
    if not name:
        return 0, len(source.splitlines())
    nodes: Sequence[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        found = next((node for node in nodes if isinstance(node, kinds) and node.name == part), None)
        if not isinstance(found, kinds):
            raise StaleError(f"there is no {name}")
        nodes = found.body
    assert found is not None and found.end_lineno is not None
    return found.lineno - 1, found.end_lineno


def listed(root: Path = ROOT) -> list[Mutant]:
    rows = tomllib.loads((root / LIST).read_text())["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def made(seed: int, count: int, area: str, root: Path = ROOT) -> list[Mutant]:
    """Mistakes by rule, each with the tests that are nearest to it."""
    from mistakes import nearest_tests, random_mistakes

    found = []
    for one in random_mistakes(root, seed, count, area):
        tests = nearest_tests(root, one, NEAR_FILES + AROUND_FILES)
        near, around = tuple(tests[:NEAR_FILES]), tuple(tests[NEAR_FILES:])
        wing = one.file.split("/")[1]
        found.append(Mutant(one.name, wing, one.file, one.inside, one.old, one.new, near, at=one.at, around=around))
    return found


def stale(mutants: Iterable[Mutant], root: Path = ROOT) -> dict[str, str]:
    """Mutants that cannot be planted, or whose tests are gone, and why."""
    found = {}
    for one in mutants:
        try:
            planted = one.planted(root)
            if one.file.endswith(".py"):  # templates are in other languages
                ast.parse(planted)
        except StaleError as why:
            found[one.name] = str(why)
        except SyntaxError as why:
            found[one.name] = f"is no Python any more: {why}"
        missing = [name for name in one.tests if not (root / name.partition("::")[0]).exists()]
        if missing:
            found[one.name] = f"there is no {missing[0]}"
    return found


@dataclass(frozen=True)
class Outcome:
    name: str
    found: bool
    by: str = ""  # the test that failed, or why there is nothing to say
    where: str = ""  # how far one had to look: types, near, said, around, folder, whole


@dataclass
class Copy:
    """A copy of the checkout in which mistakes are planted, one at a time."""

    root: Path
    _stamp: int = 1_000_000_000  # of the next file that is written: each gets its own, so that Python reads it anew
    _known: Counter[str] | None = None  # what the type checker says without a mistake
    _too_long: dict[tuple[str, ...], bool] = field(default_factory=dict)  # tests that pass their limit without one

    @contextmanager
    def with_mistake(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        before = path.read_text()
        self._write(path, mutant.planted(self.root))
        try:
            yield
        finally:
            self._write(path, before)

    def untyped(self, *mutants: Mutant) -> list[str]:
        """What the type checker finds with them and not without them, whatever the line."""
        if self._known is None:
            self._known = self._errors()
        with ExitStack() as planted:
            for mutant in mutants:
                planted.enter_context(self.with_mistake(mutant))
            return sorted((self._errors() - self._known).elements())

    def _errors(self) -> Counter[str]:
        """Its server keeps what it knows of the other files."""
        done = self._checker("run", "--", "atonc")
        if done.returncode not in (PASSED, FAILED):
            raise SystemExit(f"mypy says {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return Counter(re.sub(r":\d+: ", ": ", line) for line in done.stdout.splitlines() if ": error: " in line)

    def forget_types(self) -> None:
        if (self.root / ".dmypy.json").exists():
            self._checker("stop")

    def _checker(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy.dmypy", *words]
        return subprocess.run(command, cwd=self.root, env=environment(ROOT), capture_output=True, text=True)

    def takes_too_long(self, tests: Sequence[str], seconds: int) -> bool:
        """Whether these tests pass their limit without a mistake too."""
        known = tuple(tests)
        if known not in self._too_long:
            self._too_long[known] = bool(self.failing(tests, seconds=seconds))
        return self._too_long[known]

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        self._stamp += 10
        os.utime(path, (self._stamp, self._stamp))

    def failing(self, tests: Sequence[str], first: bool = True, seconds: int = PROCESSOR_SECONDS) -> list[str]:
        """Those of these tests that fail, or the first one."""
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *(["-x"] if first else []), *tests], cwd=self.root, env=environment(self.root),
            preexec_fn=partial(_limit, seconds), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == PASSED:
            return []
        if done.returncode in (FAILED, INTERRUPTED):
            named = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
            return list(named) or ["the tests cannot be read"]
        if done.returncode < 0:
            return [NEVER_ENDS]
        raise SystemExit(f"pytest says {done.returncode} of {tests}: {done.stdout[-500:]}{done.stderr[-500:]}")


def environment(root: Path) -> dict[str, str]:
    corpus = os.environ.get("ATONC_CORPUS", str(ROOT.parent / "shared" / "corpus"))
    quick = {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins take longer than tests
    return {**os.environ, "PYTHONPATH": str(root), "ATONC_CORPUS": corpus, **quick}


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


@contextmanager
def copied(root: Path = ROOT) -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        shutil.copytree(root, Path(folder) / "atonc", ignore=NOT_COPIED, symlinks=True)
        copy = Copy(Path(folder) / "atonc")
        try:
            yield copy
        finally:
            copy.forget_types()


def look(mutant: Mutant, copy: Copy, whole: bool = False, wide: bool = True) -> Outcome:
    """Plants one mistake and asks the type checker, where a rule made it, and wider and wider circles of tests."""
    late = False
    if mutant.at >= 0:
        mistyped = copy.untyped(mutant)
        if mistyped:
            return Outcome(mutant.name, True, mistyped[0], "types")
    for where, tests, seconds in _circles(mutant, whole, wide):
        with copy.with_mistake(mutant):
            failed = copy.failing(tests, seconds=seconds)
        late = failed == [NEVER_ENDS] and mutant.at >= 0 and copy.takes_too_long(tests, seconds)
        if failed and not late:
            return Outcome(mutant.name, True, failed[0], where)
    return Outcome(mutant.name, False, "its tests take too long" if late else "")


def typed_together(mutants: Sequence[Mutant], copy: Copy) -> Iterator[Outcome]:
    """Asks the type checker about one mistake of every file at once: what is said of a file is of its mistake."""
    rounds: dict[int, list[Mutant]] = {}
    turns = Counter[str]()
    for one in mutants:
        rounds.setdefault(turns[one.file], []).append(one)
        turns[one.file] += 1
    for planted in rounds.values():
        by_file = {one.file: one for one in planted}
        for error in copy.untyped(*planted):
            one = by_file.pop(error.partition(":")[0], None)
            if one is not None:
                yield Outcome(one.name, True, error, "types")


TESTS_AT_A_TIME, TESTS_OF_A_MISTAKE = 4, 24
_ROOMS = "board compiler lower search views deploy layouts accuracy emit kernels probes"
SLOW = tuple(f"tests/{room}/" for room in _ROOMS.split())  # they come last


def _slow_last(file: str) -> tuple[bool, str]:
    return file.startswith(SLOW), file


def _who_comes_by(mutant: Mutant, reach: Sequence[Reach]) -> Sequence[str]:
    """Tests that come by its function: the quick ones of every file first, then others of these files."""
    from mistakes import nearest_functions

    turns, ranked = Counter[str](), []
    known = [one for one in reach if one.passed and f"{mutant.file}:{mutant.inside}" in one.functions]
    for one in sorted(known, key=lambda one: (one.seconds, len(one.functions), one.test)):
        file = one.test.partition("::")[0]
        ranked.append((turns[file] // 2, one.seconds + len(one.functions) / 4000, one.test.partition("[")[0]))
        turns[file] += 1
    by_words = nearest_functions(ROOT, mutant, (*mutant.tests, *mutant.around))
    return list(dict.fromkeys([*(test for *_, test in sorted(ranked)), *by_words]))


def look_together(
    mutants: Sequence[Mutant], copy: Copy, seconds: float, reach: Sequence[Reach] = ()
) -> Iterator[Outcome]:
    """Plants all mistakes behind switches. The nearest tests of each come first, then the next; a test runs once
    without any mistake and once for each that it comes by."""
    import planted_together as together

    left = together.plant(copy.root, mutants)
    open_ones = {k: one for k, one in enumerate(mutants) if k not in left}
    near = {k: _who_comes_by(one, reach) for k, one in open_ones.items()}
    tests = together.Trials(copy.root, environment(copy.root))
    price = Counter[str]()  # of a file: its slowest test, in seconds
    for known in reach:
        file = known.test.partition("::")[0]
        price[file] = max(price[file], math.ceil(known.seconds))
    until, done, reached = time.monotonic() + seconds, set[tuple[str, int]](), Counter[int]()
    rounds = [slice(k, k + TESTS_AT_A_TIME) for k in range(0, TESTS_OF_A_MISTAKE, TESTS_AT_A_TIME)]
    for number, part in enumerate([rounds[0], None, *rounds[1:]]):
        asked = {k: (RECORDS if part is None else near[k][part]) for k in open_ones}
        files = {test.partition("::")[0] for k in open_ones for test in asked[k]}
        for file in sorted(files, key=lambda one: (price[one], _slow_last(one))):
            of_file = dict[str, set[int]]()
            for k in open_ones:
                for test in asked[k]:
                    if test.startswith(file) and (test, k) not in done:
                        of_file.setdefault(test, set()).add(k)
            if not of_file or time.monotonic() > until:
                continue
            done |= {(test, k) for test, numbers in of_file.items() for k in numbers}
            for said in tests.tried(of_file, open_ones):
                reached.update(said.get("reached", ()))
                done |= {(said["test"], k) for k in said.get("tried", ())}
                if "found" in said:
                    one = open_ones.pop(said["found"])
                    by = said["test"] if said["ended"] else f"{said['test']} {NEVER_ENDS}"
                    yield Outcome(one.name, True, by, ("near", "said", "around")[min(number, 2)])
    tests.close()
    for k, one in open_ones.items():
        yield Outcome(one.name, False, f"{reached[k]} tests come by")
    for k in left:
        yield Outcome(mutants[k].name, False, "is no expression")


def confirmed(outcomes: Iterable[Outcome], copy: Copy) -> Iterator[Outcome]:
    """What was found by a test that fails without the mistake too was not found."""
    known = list(outcomes)
    tests = sorted({one.by for one in known if one.found and "::" in one.by})
    broken = set(copy.failing(tests, first=False)) if tests else set()
    for one in known:
        yield replace(one, found=False, by=f"{one.by} always fails") if one.by in broken else one


def _circles(mutant: Mutant, whole: bool, wide: bool) -> Iterator[tuple[str, Sequence[str], int]]:
    by_rule = mutant.at >= 0
    if mutant.tests:
        yield "near", mutant.tests, NEAR_SECONDS if by_rule else PROCESSOR_SECONDS
    folders = sorted({str(Path(name.partition("::")[0]).parent) for name in mutant.tests if ".py" in name} - {"tests"})
    if by_rule:
        yield "said", RECORDED, 3 * NEAR_SECONDS
    if wide and by_rule and mutant.around:
        yield "around", mutant.around, 4 * NEAR_SECONDS
    elif wide and not by_rule and folders:
        yield "folder", folders, PROCESSOR_SECONDS
    if whole:
        yield "whole", ["tests"], PROCESSOR_SECONDS


# --------------------------------------------------------------------------------------------------------------- words


def table(mutants: Sequence[Mutant], outcomes: dict[str, Outcome], gone: dict[str, str]) -> Iterator[str]:
    yield "| area | file | mistake | found by | looked |"
    yield "|---|---|---|---|---|"
    for one in mutants:
        outcome = outcomes.get(one.name)
        if one.name in gone:
            said, where = f"**stale**: {gone[one.name]}", ""
        elif outcome is None:
            said, where = "not tried", ""
        else:
            said, where = outcome.by if outcome.found else f"**survives** {outcome.by}".rstrip(), outcome.where
        yield f"| {one.area} | {one.file} | {one.name} | {said.removeprefix('tests/')} | {where} |"


def summary(mutants: Sequence[Mutant], outcomes: dict[str, Outcome], gone: dict[str, str]) -> Iterator[str]:
    yield "| area | planted | found | by the type checker | by the nearest tests |"
    yield "|---|---|---|---|---|"
    for area in (*dict.fromkeys(one.area for one in mutants), "all"):
        names = [one.name for one in mutants if area in (one.area, "all") and one.name not in gone]
        tried = [outcomes[name] for name in names if name in outcomes]
        typed, near = (sum(one.found and one.where == where for one in tried) for where in ("types", "near"))
        yield f"| {area} | {len(tried)} | {sum(one.found for one in tried)} | {typed} | {near} |"


def page(mutants: Sequence[Mutant], outcomes: dict[str, Outcome], gone: dict[str, str]) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    machine = f"{os.cpu_count()}-core {os.uname().machine} {os.uname().sysname}"
    return "\n".join([
        "# Mistakes planted on purpose",
        "",
        f"Date {date.today()}, commit {commit.strip()}, {machine} that others used too. Script: `tools/mutants.py`;",
        "the mistakes stand in `tools/mutants.toml`. *near*: the tests that the list names notice it; *folder*: one",
        "of the same folder; *whole*: one of all tests.",
        "",
        *summary(mutants, outcomes, gone),
        "",
        *table(mutants, outcomes, gone),
        "",
    ])  # fmt: skip


def _by_rule() -> str:
    """The part of the page about mistakes made by rule, which is written by hand: it has the reasons of survivors."""
    _, mark, rest = (ROOT / RESULTS).read_text().partition("\n## Made by rule")
    return mark + rest


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    by_rule = options.random is not None
    every = made(options.random, options.count, options.area or "") if by_rule else listed()
    wanted = [one for one in every if _asked(one, options)]
    gone, outcomes = stale(every), _known(options.state)
    if by_rule and options.together:
        return _together(wanted, outcomes, options)
    with copied() as copy:
        for number, one in enumerate(wanted, 1):
            if one.name in gone or (one.name in outcomes and outcomes[one.name].found):
                continue
            outcomes[one.name] = look(one, copy, options.whole, not options.near)
            said = "found" if outcomes[one.name].found else "SURVIVES"
            print(f"{number:3} of {len(wanted)} {said:8} {one.name}: {outcomes[one.name].by}", flush=True)
            _remember(options.state, outcomes)
        outcomes = {one.name: one for one in confirmed(outcomes.values(), copy)}
        _remember(options.state, outcomes)
    print("\n".join(table(wanted, outcomes, gone)), *summary(wanted, outcomes, gone), sep="\n")
    if options.write and not by_rule:
        (ROOT / RESULTS).write_text(page(every, outcomes, gone) + _by_rule())
    bad = [one.name for one in wanted if one.name in gone or not outcomes[one.name].found]
    return int(bool(bad))


def _together(wanted: Sequence[Mutant], outcomes: dict[str, Outcome], options: argparse.Namespace) -> int:
    from reach import read

    with copied() as copy:
        reach = list(read(options.reach)) if options.reach else []
        for ask in (typed_together, partial(look_together, seconds=60 * options.together, reach=reach)):
            for one in ask([one for one in wanted if one.name not in outcomes], copy):
                outcomes[one.name] = one
                print(f"{'found' if one.found else 'OPEN':5} {one.name}: {one.by}", flush=True)
                _remember(options.state, {name: one for name, one in outcomes.items() if one.found})
    print(*summary(wanted, outcomes, {}), sep="\n")
    return int(not all(outcomes[one.name].found for one in wanted))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only mutants whose name has this in it")
    parser.add_argument("--random", type=int, metavar="SEED", help="mistakes made by rule instead of those of the list")
    parser.add_argument("--count", type=int, default=100, help="how many of them")
    parser.add_argument("--area", help=f"{', '.join(AREAS)}; with --random a folder such as atonc/compiler/lower")
    parser.add_argument("--together", type=float, metavar="MINUTES", help="with --random: all at once, for so long")
    parser.add_argument("--reach", type=Path, help="with --together: which tests come by which functions")
    parser.add_argument("--near", action="store_true", help="only the nearest tests")
    parser.add_argument("--whole", action="store_true", help="all tests, where those around a mutant pass")
    parser.add_argument("--sample", action="store_true", help="only the few that the tests try")
    parser.add_argument("--state", type=Path, help="remember what was found")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    return parser.parse_args(words)


def _asked(one: Mutant, options: argparse.Namespace) -> bool:
    named = not options.names or any(name in one.name for name in options.names)
    return named and (one.at >= 0 or options.area in (None, one.area)) and (one.sample or not options.sample)


def _remember(state: Path | None, outcomes: dict[str, Outcome]) -> None:
    if state is not None:
        state.write_text(json.dumps([asdict(one) for one in outcomes.values()], indent=1))


def _known(state: Path | None) -> dict[str, Outcome]:
    if state is None or not state.exists():
        return {}
    return {row["name"]: Outcome(**row) for row in json.loads(state.read_text())}


if __name__ == "__main__":
    sys.exit(main())
