"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("gen_reference", ROOT / "tools" / "gen_reference.py")
assert _SPEC is not None and _SPEC.loader is not None
gen_reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(gen_reference)

PAGES = gen_reference.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_are_fresh(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == PAGES[name], "run tools/gen_reference.py"
