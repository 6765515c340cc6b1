"""The data are what published programs hold, and those programs are seen throughout. Needs folders of fetched files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from atonc.machine.hw.safety.evidence import Feature, Grade, grade_feature, grade_program
from atonc.machine.hw.safety.evidence.table import evidence

FETCHED = os.environ.get("ATONC_FETCHED", "")
SPEC = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")).parent / "spec"
ROOT = Path(__file__).parents[2]


@pytest.fixture(name="generator")
def _generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    import importlib

    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return importlib.import_module("gen_evidence")


@pytest.mark.skipif(not FETCHED, reason="ATONC_FETCHED names no folder of published networks")
def test_published_programs_are_seen_throughout(generator: ModuleType) -> None:
    for program in generator.read_programs([Path(FETCHED)], generator.Reading()):
        for found in grade_program(program.epochs, program.context):
            assert found.grade.rank < Grade.WITHIN.rank, f"{program.name}, epoch {found.number}: {found.forms[:3]}"


@pytest.mark.skipif(not FETCHED, reason="ATONC_FETCHED names no folder of published networks")
def test_the_data_have_all_of_the_programs(generator: ModuleType) -> None:
    """Whoever counts them once more adds nothing."""
    known = generator.written()
    assert generator.collect([Path(FETCHED)], known)["programs"] == [generator._listed(row) for row in known.programs]


def _machine(mode: dict[str, Any]) -> str:
    special = " deep" if mode["deep"] else " dss2" if mode["dss2"] else ""
    kernel = f"{mode['KW']}x{mode['KH']}/{mode['hstride']}"
    return f"{kernel} simd{mode['simd']}{special} F{mode['inbytes']}"


@pytest.mark.skipif(not (SPEC / "proven").is_dir(), reason="the study of public networks is not at hand")
def test_the_ranges_of_the_earlier_study_lie_inside() -> None:
    """114 programs; one of them is damaged in what could be fetched here, and holds nothing beyond the others."""
    modes = json.loads((SPEC / "proven" / "modes.json").read_text())["modes"]
    for row in modes["CONVACC"]:
        for name in ("B", "NR", "W", "H"):
            for value in row["range"][name]:
                found = grade_feature(Feature(f"CONVACC {name}", _machine(row["mode"]), value)).grade
                assert found.rank < Grade.WITHIN.rank
    for kind, rows in modes.items():
        words = evidence()[f"{kind} mode"][""]
        seen = {word.split(",")[0] for word in words.seen}  # type: ignore[union-attr]
        assert len(words.seen) >= len(rows) and {str(next(iter(r["mode"].values()))) for r in rows} <= seen  # type: ignore[union-attr]
