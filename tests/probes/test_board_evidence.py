"""From the log of a board to the program that is compiled for it: grades and prices change, and builds remember why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.log import evidence_bytes, parse_log, settle
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from atonc.machine.hw.cycles import doubts
from atonc.machine.hw.safety.evidence import Feature
from atonc.machine.hw.safety.evidence.board_file import FORMAT, VERSION, BoardEvidence, evidence_row
from tests.probes.board_logs import BAND, line, log_lines, log_text
from tests.probes.networks import LANES, LOWEST, ROWS, TWO_WRITERS, plainly, shown

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"
SIDE_BY_SIDE, INTERLEAVED = "chains-side-by-side", "writers-interleaved"
WORDS = 40  # controller words between the two probes that measure them


class Bench:
    """Writes evidence files and compiles with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, text: str, probes: tuple[Probe, ...] = PROBES) -> str:
        path = self.folder / "evidence.json"
        path.write_bytes(evidence_bytes(settle(parse_log(text), probes)))
        return str(path)

    def compiled(self, graph: Graph, planted: Mapping[str, str] = {}, **options: str) -> Compiled:
        return compile_graph(graph, Options(verify=False, evidence=self.file(log_text(planted)), **options))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# ------------------------------------------------------------------------------------------------------ planted answers


def test_what_passed_is_seen(bench: Bench) -> None:
    """`--silicon seen` then takes what only an argument allowed before."""
    assert "S5" in plainly(LOWEST).silicon.by_argument
    found = bench.compiled(LOWEST, silicon="seen")
    assert not found.choices.reasons and set(found.silicon.by_argument) == set()
    assert Feature("CONVACC FSUB", "signed", -128) in shown(found)


def test_a_wrong_padding_is_found(bench: Bench) -> None:
    before = plainly(ROWS)
    assert "S2" in before.silicon.by_argument
    found = bench.compiled(ROWS, {BAND: "wrong first=0 got=01 want=02"})
    assert "S2" not in found.silicon.by_argument and not found.choices.reasons
    assert {one.value for one in shown(found) if one.name == "CONVACC pads left right top bottom"} == {"1 1 1 1"}
    assert found.cost.cycles > before.cost.cycles


def test_a_hang_of_chains_side_by_side_is_found(bench: Bench) -> None:
    before = plainly(LANES)
    assert "S1" in before.silicon.by_argument
    found = bench.compiled(LANES, {SIDE_BY_SIDE: "hang why=timeout"})
    assert "S1" not in found.silicon.by_argument and found.cost.cycles > before.cost.cycles
    sets = {str(one.value) for one in shown(before) if one.name == "chains side by side"}
    assert sets and not sets & {str(one.value) for one in shown(found)}


def test_wrong_interleaved_writers_are_found(bench: Bench) -> None:
    assert TWO_WRITERS in shown(plainly(LANES))
    found = bench.compiled(LANES, {INTERLEAVED: "wrong first=8"})
    assert TWO_WRITERS not in shown(found)


def test_kernels_from_ram_that_were_refuted_stay_in_flash(bench: Bench) -> None:
    """As `--resident` would move them: the convolution stays on the NPU."""
    before, resident = plainly(LANES), compile_graph(LANES, Options(verify=False, resident="all"))
    from_ram = shown(resident) - shown(before)
    assert from_ram and resident.cost.cycles < before.cost.cycles
    file = bench.folder / "evidence.json"
    row = evidence_row(BoardEvidence(refuted=frozenset(from_ram), board="stm32n6570-dk"))
    file.write_text(json.dumps({"format": FORMAT, "version": VERSION, **row}))
    found = compile_graph(LANES, Options(verify=False, resident="all", evidence=str(file)))
    assert not found.choices.reasons and found.cost.cycles == before.cost.cycles and not from_ram & shown(found)


def test_a_corrupted_line_changes_nothing(bench: Bench) -> None:
    lines = log_lines({BAND: "wrong"})
    text = "\n".join(one.replace(" wrong", " wrung") if BAND in one else one for one in lines)
    found = compile_graph(ROWS, Options(verify=False, evidence=bench.file(text)))
    assert "S2" in found.silicon.by_argument and found.cost.cycles == plainly(ROWS).cost.cycles


def test_an_answer_behind_a_failed_control_changes_nothing(bench: Bench) -> None:
    found = bench.compiled(ROWS, {BAND: "wrong", "control-conv-3x3": "wrong"})
    assert "S2" in found.silicon.by_argument and found.cost.cycles == plainly(ROWS).cost.cycles


def test_a_contradiction_gives_no_file(bench: Bench) -> None:
    with pytest.raises(InputError, match="pass in line"):
        bench.file("\n".join([*log_lines(), line(BAND, "wrong")]))


def test_a_pass_that_was_asked_for_and_refuted_stops(bench: Bench) -> None:
    file = bench.file(log_text({"kept-table": "wrong"}))
    with pytest.raises(InputError, match="the board refuted table of ARITH"):
        compile_graph(LANES, Options(evidence=file, schedule_with=("tables",)))


def test_another_board_is_refused(bench: Bench) -> None:
    file = bench.file(log_text(board="nucleo-n657x0-q"))
    with pytest.raises(InputError, match="results of nucleo-n657x0-q, but the network is compiled for stm32n6570-dk"):
        compile_graph(LANES, Options(evidence=file))
    found = compile_graph(LANES, Options(evidence=file, board="nucleo-n657x0-q", verify=False))
    assert found.silicon.answers.board == "nucleo-n657x0-q"


# ------------------------------------------------------------------------------------------------------------ constants


def measuring(cycles_a_word: float) -> tuple[str, tuple[Probe, ...]]:
    """A log in which one probe has WORDS more words of the controller than another."""
    changed = (replace(p, measures="controller_word", units=WORDS, baseline="control-raster") for p in PROBES)
    probes = tuple(new if new.name == "reader-window" else old for new, old in zip(changed, PROBES, strict=True))
    return log_text({"reader-window": f"pass cycles={5000 + round(WORDS * cycles_a_word)}"}, probes=probes), probes


def test_a_measured_constant_changes_the_price_and_narrows_the_band(bench: Bench) -> None:
    before = plainly(LANES)
    text, probes = measuring(8.5)
    found = compile_graph(LANES, Options(verify=False, evidence=bench.file(text, probes)))
    words = sum(epoch.words or 0 for epoch in (before.target.with_words(e) for e in before.program.epochs))
    assert found.target.machine.timing.controller_word == 8.5
    assert found.cost.cycles - before.cost.cycles == pytest.approx(1.5 * words, abs=2)
    assert doubts.WORDS in dict(before.cost.band.parts) and doubts.WORDS not in dict(found.cost.band.parts)
    assert doubts.MEASURED in dict(found.cost.band.parts) and found.cost.band.high < before.cost.band.high


def test_what_the_user_says_counts_more(bench: Bench) -> None:
    changed = (replace(p, measures="flash_mb_per_s", units=1e6, baseline="control-raster") for p in PROBES)
    probes = tuple(new if new.name == "reader-window" else old for new, old in zip(changed, PROBES, strict=True))
    file = bench.file(log_text({"reader-window": "pass cycles=5005000"}, probes=probes), probes)
    target = compile_graph(LANES, Options(verify=False, evidence=file)).target
    assert target.machine.clocks.flash_mb_per_s == 200 and target.machine.measured == ("flash_mb_per_s",)
    target = compile_graph(LANES, Options(verify=False, evidence=file, flash_mbps=99)).target
    assert target.machine.clocks.flash_mb_per_s == 99 and not target.machine.measured


# ----------------------------------------------------------------------------------------------- what a build remembers


def test_a_build_tells_the_same_figures_as_its_compilation(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text, probes = measuring(8.5)
    file, build = bench.file(text, probes), bench.folder / "build"
    compiled = told(capsys, "generate", str(DIGITS), "--evidence", file, "-o", str(build), "--npu-mhz", "800")
    Path(file).unlink()  # the folder knows what it needs
    explained = told(capsys, "explain", str(build))
    assert explained["latency_ms"] == pytest.approx(compiled["latency_ms"])
    assert explained["silicon"] == compiled["silicon"] and compiled["silicon"]["board"]["measured"]
    saved = json.loads((build / "network_program.json").read_text())
    assert "--evidence evidence.json" in saved["reproduce"]["command"] and reproduce.EVIDENCE_HASH in saved["reproduce"]
    plain = told(capsys, "analyze", str(DIGITS), "--npu-mhz", "800")
    assert plain["latency_ms"] != compiled["latency_ms"] and "board" not in plain["silicon"]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_damaged_build_counts_as_usual(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text, probes = measuring(8.5)
    build = bench.folder / "build"
    main(["generate", str(DIGITS), "--evidence", bench.file(text, probes), "-o", str(build), "-q", "--no-verify"])
    path = build / "network_program.json"
    next(build.glob("*_manifest.json")).unlink()
    saved = json.loads(path.read_text())
    whole = told(capsys, "explain", str(build))
    saved["evidence"]["confirmed"] = 3
    for damage in (3, [], {"controller_word": "8"}, {"controller_word": 800.0}, {"frame_turn_words": 4}):
        saved["machine"]["measured"] = damage
        path.write_text(json.dumps(saved))
        found = told(capsys, "explain", str(build))
        assert found["latency_ms"] < whole["latency_ms"] and "board" not in found["silicon"]
