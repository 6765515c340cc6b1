"""Small mistakes planted on purpose are noticed: a few of them here, all of them by `tools/mutants.py`."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
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
