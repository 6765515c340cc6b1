"""Published networks keep all rules. Needs ATONC_FETCHED, a folder of files compiled by ST's tool."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from atonc.machine.base.reasons import Severity
from atonc.machine.hw.safety import check_program

FETCHED = os.environ.get("ATONC_FETCHED", "")
SPEC = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")).parent / "spec"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not FETCHED, reason="ATONC_FETCHED names no folder of published networks")
def test_published_networks_break_no_rule() -> None:
    from benchmarks.shared.published import Reading, read_programs

    for program in read_programs([Path(FETCHED)], Reading()):
        found = check_program(program.epochs, program.context)
        grave = [f"{program.name}: {v}" for v in found if v.severity == Severity.VIOLATION]
        assert not grave, grave[:5]


@pytest.mark.skipif(not (SPEC / "proven").is_dir(), reason="the study of public networks is not at hand")
def test_data_files_are_what_the_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(ROOT / "tools" / "gen_proven.py"), run_name="gen")
    monkeypatch.setitem(script["main"].__globals__, "OUT", tmp_path)
    monkeypatch.setattr("sys.argv", ["gen_proven.py", str(SPEC)])
    script["main"]()
    committed = ROOT / "atonc" / "machine" / "hw" / "safety" / "data"
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == (committed / path.name).read_bytes(), path.name
