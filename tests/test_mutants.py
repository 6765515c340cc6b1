"""Small mistakes planted on purpose are noticed: a few of them here, all of them by `tools/mutants.py`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FEWEST, FEWEST_OF_AN_AREA = 60, 8


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants_tool", ROOT / "tools" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "tools"))  # one tool imports the other
from mistakes import Mistake, nearest_functions, random_mistakes  # noqa: E402
from planted_together import FIRST, Trials, plant, switched  # noqa: E402
from reach import Reach, marked, read, record  # noqa: E402

mutants = _tool()
LISTED = mutants.listed()
SAMPLE = [one for one in LISTED if one.sample]


def test_enough_of_the_list_fits_the_code() -> None:
    gone = mutants.stale(LISTED)
    fresh = Counter(one.area for one in LISTED if one.name not in gone)
    assert sum(fresh.values()) >= FEWEST and min(fresh[area] for area in mutants.AREAS) >= FEWEST_OF_AN_AREA, gone
    assert len({one.name for one in LISTED}) == len(LISTED) and {one.area for one in LISTED} == set(mutants.AREAS)


@pytest.fixture(scope="module")
def copy() -> Iterator[Any]:
    with mutants.copied() as made:
        yield made


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda one: one.name)
def test_a_mistake_is_noticed(mutant: Any, copy: Any) -> None:
    before = (ROOT / mutant.file).read_text()
    found = mutants.look(mutant, copy, wide=False)
    assert found.found and found.where == "near", "its nearest tests pass with the mistake"
    assert (ROOT / mutant.file).read_text() == (copy.root / mutant.file).read_text() == before


def test_what_was_noticed_was_not_there_before(copy: Any) -> None:
    """All tests that the sample needs pass without a mistake."""
    assert {one.area for one in SAMPLE} == set(mutants.AREAS)
    assert copy.failing(sorted({name for one in SAMPLE for name in one.tests})) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"old": "text that is not there"}, "has the text 0 times"),
        ({"old": " "}, "has the text"),
        ({"inside": "no_such_function"}, "there is no no_such_function"),
        ({"file": "atonc/no_such_file.py"}, "there is no atonc/no_such_file.py"),
        ({"tests": ("tests/no_such_test.py",)}, "there is no tests/no_such_test.py"),
        ({"new": "return ("}, "is no Python"),
    ],
)
def test_what_no_longer_fits_is_said(change: dict[str, Any], why: str) -> None:
    assert why in mutants.stale([replace(SAMPLE[0], **change)])[SAMPLE[0].name]


def test_a_test_that_always_fails_tells_nothing() -> None:
    class Broken:
        def failing(self, tests: list[str], first: bool) -> list[str]:
            assert not first
            return [name for name in tests if "always" in name]

    said = [mutants.Outcome(name, True, f"tests/x.py::{name}", "near") for name in ("always", "once")]
    assert [one.found for one in mutants.confirmed(said, Broken())] == [False, True]


SOURCE = '''"""Has 1 < 2 in its text."""
from typing import Literal

TUNED = 77


def clipped(value: int, low: Literal[5] = 6, *rest: int) -> int:
    """Not 8 < 9."""
    assert value < 10
    if not value < low and value // 11 <= max(low, 12):
        raise ValueError(f"{value + 13} < 14")
    return swapped(value, low)[15:] + low - 1600


class Point:
    def __repr__(self) -> str:
        return "x" * 18
'''


@pytest.fixture()
def made_up(tmp_path: Path) -> Path:
    for name, text in (
        ("atonc/machine/clip/sides.py", SOURCE),
        ("tests/clip/test_sides.py", "from atonc.machine.clip.sides import clipped"),
        ("tests/clip/test_other.py", "import json"),
        ("tests/far/test_far.py", "import json"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_rules_make_mistakes_where_something_is_computed(made_up: Path) -> None:
    made = [one for seed in range(60) for one in mutants.made(seed, 3, "", made_up)]
    told = {(one.old, one.new) for one in made}
    assert {
        ("6", "7"), ("6", "5"), ("value < low", "(value <= low)"), ("not value < low", "(value < low)"),
        ("max(low, 12)", "min(low, 12)"), ("value // 11", "(-(-value // 11))"),
        ("swapped(value, low)", "swapped(low, value)"), ('raise ValueError(f"{value + 13} < 14")', "pass"),
        ("swapped(value, low)[15:]", "swapped(value, low)[15 + 1:]"), ("1600", "1599"),
        ("swapped(value, low)[15:] + low", "(swapped(value, low)[15:] - low)"),
    } <= told  # fmt: skip
    assert not {old for old, _ in told} & {"1", "2", "5", "8", "9", "10", "13", "14", "18", "77"}
    for one in made:
        assert one.tests[0] == "tests/clip/test_sides.py" and one.tests[1:] == ("tests/clip/test_other.py",)
        compile(one.planted(made_up), one.file, "exec")


def test_a_seed_stands_for_its_mistakes() -> None:
    area = "atonc/compiler/lower/pool"
    first, again, other = (random_mistakes(ROOT, seed, 5, area) for seed in (7, 7, 8))
    assert first == again != other and len({one.name for one in first}) == 5
    assert all(one.file.startswith(area) and one.old in (ROOT / one.file).read_text() for one in first)


class Pretended(mutants.Copy):  # type: ignore[name-defined, misc]
    """A copy without files: what the type checker and the tests say, with a mistake and without."""

    def __init__(self, types: list[list[str]], with_mistake: list[str], without: list[str]) -> None:
        super().__init__(Path("nowhere"))
        self.types, self.tests = types, {True: with_mistake, False: without}
        self.planted, self.runs = False, 0

    @contextmanager
    def with_mistake(self, mutant: Any) -> Iterator[None]:
        self.planted = True
        yield
        self.planted = False

    def _errors(self) -> Counter[str]:
        return Counter(self.types[self.planted])

    def failing(self, tests: Sequence[str], first: bool = True, seconds: int = 0) -> list[str]:
        assert seconds <= 4 * mutants.NEAR_SECONDS
        self.runs += not self.planted
        return self.tests[self.planted]


@pytest.mark.parametrize(("without", "found"), [([], True), ([mutants.NEVER_ENDS], False)])
def test_tests_that_take_too_long_tell_something_where_they_end_without_the_mistake(
    without: list[str], found: bool
) -> None:
    copy = Pretended([[], []], [mutants.NEVER_ENDS], without)
    for _ in range(2):
        assert mutants.look(replace(SAMPLE[0], at=1), copy).found == found
    assert copy.runs == (1 if found else 2)  # of each circle, whatever the mistake


@pytest.mark.parametrize(
    ("known", "planted", "found"),
    [
        ([], ["a.py: error: None"], True),
        (["a.py: error: None"], ["a.py: error: None"], False),
        (["a.py: error: None"], ["a.py: error: None", "a.py: error: None"], True),
        (["a.py: error: None"], [], False),
    ],
)
def test_what_only_the_mistake_makes_the_type_checker_say_needs_no_test(
    known: list[str], planted: list[str], found: bool
) -> None:
    told = mutants.look(replace(SAMPLE[0], at=1), Pretended([known, planted], [], []))
    assert (told.found, told.where, told.by) == ((True, "types", "a.py: error: None") if found else (False, "", ""))


def test_the_type_checker_is_asked_about_one_mistake_of_every_file_at_once() -> None:
    named = [
        replace(SAMPLE[0], name=name, file=file) for name, file in (("a1", "a.py"), ("b1", "b.py"), ("a2", "a.py"))
    ]
    asked = list[list[str]]()

    class Asked(Pretended):
        @contextmanager
        def with_mistake(self, mutant: Any) -> Iterator[None]:
            if not self.planted:
                asked.append([])
            asked[-1].append(mutant.name)
            with super().with_mistake(mutant):
                yield

    copy = Asked([["c.py: error: always"], ["a.py: error: new", "a.py: error: newer", "c.py: error: always"]], [], [])
    found = [(one.name, one.found, one.where, one.by) for one in mutants.typed_together(named, copy)]
    assert found == [(name, True, "types", "a.py: error: new") for name in ("a1", "a2")] and asked == [
        ["a1", "b1"],
        ["a2"],
    ]


BEHIND = """def clipped(values, low, most=7):
    if low < 0:
        raise ValueError(low)
    values[1:] = [low]
    return [max(one, low + 3) for one in values]
"""


def places(*changes: tuple[str, str], text: str = BEHIND) -> list[tuple[int, Mistake]]:
    return [(k, Mistake("a.py", "clipped", 1, text.index(old), old, new)) for k, (old, new) in enumerate(changes)]


def test_mistakes_stand_behind_switches() -> None:
    wanted = places(
        ("raise ValueError(low)", "pass"),
        ("low + 3", "(low - 3)"),
        ("3", "4"),
        ("values[1:]", "values[2:]"),
        ("7", "8"),
    )
    wanted.append((5, wanted[0][1]._replace(at=3)))
    text, left = switched(BEHIND.encode(), wanted)
    assert left == {1, 3, 4, 5}, "one holds another, one is a target, one a default, one of another file"
    results, seen = [], list[int]()
    for active in (-1, 0, 2):
        space: dict[str, Any] = {"planted_mistake": lambda number, on=active: seen.append(number) or number == on}
        exec(compile(text, "a.py", "exec"), space)
        results.append(space["clipped"]([1, 2], 1))
        try:
            results.append(space["clipped"]([1, 2], -1))
        except ValueError:
            results.append("refused")
    assert results == [[4, 4], "refused", [4, 4], [2, 2], [5, 5], "refused"] and set(seen) == {0, 2}


TESTS = """from atonc.machine.clip.sides import doubled, endless

def helped():
    return doubled(2)

def test_far(): assert 1

def test_near(): assert helped() == 4

def test_loose(): doubled(3)

def test_wrong(): assert doubled(1) == 3

def test_to_the_end(): assert endless(3) == 0
"""
SIDES = """def doubled(n):
    return n * 2

def endless(n):
    while n > 0:
        n = n - 1
    return n

def unused(n):
    return n - 5
"""


def test_each_mistake_is_tried_by_the_tests_that_come_by(tmp_path: Path) -> None:
    """One is found by its value, one never ends, and one is not come by."""
    for name, text in (
        ("atonc/__init__.py", FIRST),
        ("atonc/machine/clip/sides.py", SIDES),
        ("tests/test_sides.py", TESTS),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    changes = (("n * 2", "(n * 3)"), ("n - 1", "(n + 1)"), ("n - 5", "(n + 5)"))
    planted = [one._replace(file="atonc/machine/clip/sides.py") for _, one in places(*changes, text=SIDES)]
    near = nearest_functions(tmp_path, planted[0]._replace(inside="doubled"), ["tests/test_sides.py"])
    assert {*near[:3]} == {f"tests/test_sides.py::test_{name}" for name in ("near", "loose", "wrong")}
    assert plant(tmp_path, planted) == set()
    tests = Trials(tmp_path, {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    said = list(tests.tried({"tests/test_sides.py": {0, 1, 2}}, {0, 1, 2}))
    tests.close()
    found = {one["found"]: (one["test"].partition("::")[2], one["ended"]) for one in said if "found" in one}
    assert found == {0: ("test_near", True), 1: ("test_to_the_end", False)}
    reached = {one["test"].partition("::")[2]: one["reached"] for one in said if "reached" in one}
    assert reached == {"test_far": [], "test_near": [0], "test_loose": [], "test_to_the_end": [1]}


MARKED = """from atonc.machine.clip.sides import Side, outside

def test_one(): assert Side().one() == 1

def test_all():
    assert Side().one() + Side().two(2) == 3
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "from atonc.machine.clip.sides import outside; outside()"], check=True)

def test_wrong(): assert outside() == 5
"""
SIDE = """class Side:
    def one(self):
        \"\"\"Has words.\"\"\"
        if self:
            return 1

    def two(self, n): return n

def outside():
    return 4
"""


def test_the_functions_that_a_test_comes_by_are_recorded(tmp_path: Path) -> None:
    """In other processes too; who is asked about a mistake follows, the quick ones first."""
    for name, text in (
        ("atonc/__init__.py", FIRST),
        ("atonc/machine/clip/sides.py", SIDE),
        ("tests/test_marked.py", MARKED),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    text, names = marked(SIDE.encode(), 7)
    assert names == ["Side.one", "Side.two", "outside"]
    assert [line.strip() for line in text.decode().splitlines() if "planted_mark[" in line] == [
        "planted_mark[7] = 1",
        "def two(self, n): planted_mark[8] = 1; return n",
        "planted_mark[9] = 1",
    ]
    to = tmp_path / "reach"
    record(to, ["tests"], tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    found = {one.test.partition("::")[2]: one for one in read(to)}
    file = "atonc/machine/clip/sides.py"
    assert {name: (one.passed, one.functions) for name, one in found.items()} == {
        "test_one": (True, {f"{file}:Side.one"}),
        "test_all": (True, {f"{file}:{name}" for name in ("Side.one", "Side.two", "outside")}),
        "test_wrong": (False, {f"{file}:outside"}),
    }


def test_the_quick_tests_of_every_file_are_asked_first() -> None:
    mistake = replace(SAMPLE[0], tests=())
    place = f"{mistake.file}:{mistake.inside}"
    reach = [
        Reach("tests/a.py::test_slow", True, 9.0, frozenset([place])),
        *(Reach(f"tests/a.py::test_{k}[{k}]", True, 0.1 * k, frozenset([place])) for k in range(3)),
        Reach("tests/b.py::test_b", True, 1.0, frozenset([place])),
        Reach("tests/b.py::test_fails", False, 0.0, frozenset([place])),
        Reach("tests/c.py::test_elsewhere", True, 0.0, frozenset(["other"])),
    ]
    asked = mutants._who_comes_by(mistake, reach)
    assert list(asked) == [
        f"tests/{name}" for name in ("a.py::test_0", "a.py::test_1", "b.py::test_b", "a.py::test_2", "a.py::test_slow")
    ]
