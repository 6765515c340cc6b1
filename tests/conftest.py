"""The same examples in every run; with ATONC_EXPLORE=1 hypothesis looks for new ones."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

os.environ.pop("COLUMNS", None)  # pytest's readline sets it for its workers; texts are looked at as in a pipe
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("ATONC_EXPLORE") else "repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-figures", action="store_true", help="write tests/golden/figures.toml anew")
    parser.addoption("--rewrite-numerics", action="store_true", help="write tests/golden/numerics_2x.toml anew")
