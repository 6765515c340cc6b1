"""Damaged files of every kind: read, or refused with one paragraph. benchmarks/mutations.py tries many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.test_hostile_models import limited_memory  # noqa: F401
from tests.mutations import KINDS, attempt
from tests.outcomes import Outcomes

EACH, SEED = 72, 2026
OF_OTHERS = ("pictures", "onnx", "arrays")  # other packages say what is wrong with them, or have times in their files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("limited_memory")
@pytest.mark.filterwarnings("ignore")
def test_damaged_files(kind: str, tmp_path: Path, outcomes: Outcomes) -> None:
    tried = [attempt(kind, SEED, number, tmp_path) for number in range(EACH)]
    assert not [str(one) for one in tried if one.problem]
    refused = sum(one.refused for one in tried)
    assert EACH // 8 < refused < EACH, "some are damaged, some still good"
    for one in tried if kind not in OF_OTHERS else ():
        outcomes.add(one.said.replace(str(tmp_path), "") or "read")


def test_a_mistake_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setitem(KINDS, "arrays", broken)
    assert attempt("arrays", 0, 0, tmp_path).problem.startswith("ZeroDivisionError")
    monkeypatch.setitem(KINDS, "arrays", lambda *_: [0] * (1 << 40))
    assert "MemoryError" in attempt("arrays", 0, 0, tmp_path).problem
