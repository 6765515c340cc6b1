"""Networks of the corpus ($ATONC_CORPUS or ../shared/corpus), compiled once for all tests of a process that look at the
usual program."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))


def usual(name: str) -> CompileView:
    """Without verification; skips where the network is not there."""
    if not (CORPUS / "models" / name).is_file():
        pytest.skip(f"{name} is not here (set ATONC_CORPUS)")
    return _analyzed(name)


@cache
def _analyzed(name: str) -> CompileView:
    return analyze(CORPUS / "models" / name, Options(verify=False))
