"""The map is short, and what it names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MOST_WORDS = 3_000
WINGS = [ROOT / "atonc", *(path.parent for path in (ROOT / "atonc").glob("*/__init__.py"))]
NAMES = sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))))


@cache
def classes() -> frozenset[str]:
    texts = (path.read_text() for path in (ROOT / "atonc").rglob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE))


def exists(name: str) -> bool:
    """A path from the root, from atonc or from a wing; or a type."""
    if re.fullmatch(r"[A-Z][A-Za-z]+", name):
        return name in classes()
    places = (ROOT, *WINGS)
    return any((place / name).exists() or (place / f"{name}.py").exists() for place in places if name.strip("/"))


def test_the_map_fits_a_sitting() -> None:
    assert len(PAGE.split()) <= MOST_WORDS


@pytest.mark.parametrize(
    "name", [one for one in NAMES if re.fullmatch(r"[A-Z][A-Za-z]+|[a-z_]+/[\w/.]+|[a-z_]+\.py", one)]
)
def test_what_the_map_names_exists(name: str) -> None:
    assert exists(name), f"docs/architecture.md names {name}"


def test_a_name_that_is_gone_is_seen() -> None:
    assert not exists("compiler/lower/conv/nowhere.py") and not exists("NoSuchType")
