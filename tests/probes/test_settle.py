"""What follows from a board's replies: forms, arguments, constants; and the file that keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.delivery.probes import PROBES
from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.convolutions import KERNELS_DEEP, KERNELS_READ
from atonc.delivery.probes.log import Outcome, Settled, features_of, parse_log, settle, unpublished
from atonc.delivery.probes.sums import BEYOND
from atonc.delivery.texts import probe_text
from atonc.doors.cli.cli import main
from atonc.insight.report.document import lines
from atonc.machine.base.errors import InputError
from atonc.machine.hw import wide_sums
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.machine import MEASURABLE, implausible, stm32n6
from atonc.machine.hw.safety.evidence import Feature, Grade, grade_feature
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import (
    BoardEvidence,
    evidence_of_row,
    evidence_row,
    read_board_evidence,
)
from atonc.machine.hw.safety.evidence.trust import Trust
from atonc.machine.hw.safety.evidence.unit_features import NARROW, NARROW_DEEP
from tests.errors_said import unwrapped
from tests.probes.board_logs import ASKED, BAND, CLOCKS, line, log_lines, log_text

BY_NAME = {probe.name: probe for probe in PROBES}
CONTROL = "control-conv-3x3"
BAND_PADS = Feature("CONVACC pads left right top bottom", "3x3/2", "1 1 0 0")
TURN, BASE = "reader-window", "control-raster"


def reading(answer: str, *names: str) -> dict[str, str]:
    """Probes of kernels of 4 bits pass with this answer."""
    return {name: f"pass cycles=5000 runs=5 why={answer}" for name in names or (*KERNELS_READ, KERNELS_DEEP)}


READS = reading("low_first_sign_extended")


def settled(planted: Mapping[str, str] = {}, probes: tuple[Probe, ...] = ASKED, **more: int) -> Settled:
    return settle(parse_log(log_text(planted, probes=probes, **more)), probes)


def outcome(found: Settled, name: str) -> Outcome:
    return next(one for one in found.outcomes if one.probe.name == name)


def measuring(constant: str, units: float, baseline: str = BASE) -> tuple[Probe, ...]:
    """The probes, one of which measures a constant."""
    changed = replace(BY_NAME[TURN], measures=constant, units=units, baseline=baseline)
    return tuple(changed if probe.name == TURN else probe for probe in PROBES)


# --------------------------------------------------------------------------------------------------------------- forms


def test_a_board_on_which_all_passes_confirms_all_that_probes_show() -> None:
    found = settled(READS, probes=PROBES).evidence
    shown = frozenset().union(*(features_of(probe) for probe in PROBES))
    assert found.confirmed == unpublished(shown) and BAND_PADS in found.confirmed
    assert not found.refuted and not found.distrusted and found.supported == {a.id for a in ARGUMENTS}
    trust = Trust(board=found)
    assert all(trust.grade(feature).grade == Grade.SEEN for feature in found.confirmed)
    assert trust.grade(BAND_PADS).seen == "on this board"


def test_a_pass_confirms_what_it_shows_and_no_more() -> None:
    trust = Trust(board=settled().evidence)
    other = replace_value(BAND_PADS, "1 1 0 1")
    assert trust.grade(other).grade == grade_feature(other).grade == Grade.COMPOSED


def replace_value(feature: Feature, value: str) -> Feature:
    return feature._replace(value=value)


def test_a_wrong_padding_refutes_itself_and_its_argument() -> None:
    found = settled({BAND: "wrong first=0 got=01 want=02"})
    assert outcome(found, BAND).refuted == {BAND_PADS} and found.evidence.distrusted == {"S2"}
    trust = Trust(board=found.evidence)
    assert trust.grade(BAND_PADS).grade == Grade.UNSEEN and "refuted" in trust.grade(BAND_PADS).seen
    assert trust.grade(replace_value(BAND_PADS, "1 1 0 1")).grade == Grade.UNSEEN  # nothing may rest on S2
    assert "S2" not in found.evidence.supported


@pytest.mark.parametrize(("answer", "low_first"), [("low_first", True), ("high_first", False)])
def test_kernels_of_four_bits_are_read_as_the_board_says(answer: str, low_first: bool) -> None:
    found = settled(reading(f"{answer}_sign_extended")).evidence
    assert found.four_bits == FourBits(low_first, deep=True, confirmed=True)
    assert {NARROW, NARROW_DEEP} <= found.confirmed
    assert Trust(board=found).four_bits == found.four_bits and Trust(board=found).grade(NARROW).grade == Grade.SEEN
    assert evidence_of_row(json.loads(json.dumps(evidence_row(found)))) == found
    shallow = settled(reading(f"{answer}_sign_extended", *KERNELS_READ) | {KERNELS_DEEP: "wrong"})
    assert shallow.evidence.four_bits == FourBits(low_first, confirmed=True)
    assert NARROW_DEEP in shallow.evidence.refuted and NARROW in shallow.evidence.confirmed
    text = lines(probe_text.document(shallow, Path("evidence.json")))
    assert any("4 bits" in line and f"{answer[:-6]} bits first" in line for line in text)


@pytest.mark.parametrize(
    "planted",
    [
        reading("low_first_left_aligned"),
        reading("whole_bytes"),
        reading("low_first_sign_extended", KERNELS_READ[0]) | reading("high_first_sign_extended", KERNELS_READ[1]),
        reading("low_first_sign_extended", KERNELS_READ[0]) | {KERNELS_READ[1]: "wrong"},
        reading("low_first_sign_extended", KERNELS_READ[0]) | {KERNELS_READ[1]: "skipped why=no_flash"},
        {},
    ],
)
def test_anything_else_turns_nothing_on(planted: dict[str, str]) -> None:
    found = settled(planted).evidence
    assert found.four_bits is None and not {NARROW, NARROW_DEEP} & found.confirmed
    assert Trust(board=found).four_bits is None and Trust(board=found).grade(NARROW).grade == Grade.UNSEEN
    if {reply.split("why=")[-1] for reply in planted.values()} & {"low_first_left_aligned", "whole_bytes"}:
        assert NARROW in found.refuted and Trust(board=found, asked=frozenset({NARROW})).four_bits is None


@pytest.mark.parametrize("answer", wide_sums.ANSWERS)
def test_what_a_board_makes_of_wide_sums_is_kept_and_told(answer: str) -> None:
    found = settled({BEYOND: f"pass cycles=5000 runs=5 why={answer}"})
    assert found.evidence.wide_sums == answer and not found.evidence.refuted
    assert evidence_of_row(json.loads(json.dumps(evidence_row(found.evidence)))) == found.evidence
    assert found.evidence.as_dict()["wide_sums"] == answer
    assert any(
        answer in line and "24 bits" in line for line in lines(probe_text.document(found, Path("evidence.json")))
    )


@pytest.mark.parametrize("reply", ["wrong first=0 got=01", "skipped why=because", "pass cycles=5 runs=5 why=sideways"])
def test_anything_else_says_nothing_about_wide_sums(reply: str) -> None:
    found = settled({BEYOND: reply}).evidence
    assert not found.wide_sums and not found.refuted and "wide_sums" not in evidence_row(found)


def test_a_form_that_no_argument_allowed_takes_none_with_it() -> None:
    name, pads = "conv-3x3-stride-1-pads-0010", Feature("CONVACC pads left right top bottom", "3x3/1", "0 0 1 0")
    found = settled({name: "wrong"}, PROBES)
    assert outcome(found, name).refuted == {pads} and not found.evidence.distrusted
    assert Trust(board=found.evidence).grade(pads._replace(value="0 0 0 1")).grade == Grade.SEEN


def test_what_other_probes_show_to_work_is_not_to_blame() -> None:
    found = settled({"deep-1x1-shallow": "hang"})
    shared = features_of(BY_NAME["deep-1x1-alone"])
    blamed = outcome(found, "deep-1x1-shallow").refuted
    assert blamed and not blamed & shared and unpublished(shared) <= found.evidence.confirmed


def test_a_form_that_published_programs_have_can_be_refuted() -> None:
    found = settled({"writers-interleaved": "wrong"})
    pair = Feature("two writers", "", "interleaved, no word in common")
    assert pair in outcome(found, "writers-interleaved").refuted
    assert Trust(board=found.evidence).grade(pair).grade == Grade.UNSEEN


def test_a_probe_whose_control_failed_says_nothing() -> None:
    found = settled({CONTROL: "wrong", BAND: "wrong", "writers-interleaved": "skipped why=because_of_it"})
    assert outcome(found, BAND).silent == f"says nothing: {CONTROL} did not pass"
    assert not found.evidence.refuted and not found.evidence.distrusted
    silent = {one.probe.name for one in found.outcomes if one.silent}
    assert {"conv-3x3-width-300", "writers-four-interleaved"} <= silent  # also behind a probe that was skipped
    assert BAND_PADS not in found.evidence.confirmed and "S2" not in found.evidence.supported


def test_a_failed_control_refutes_no_form() -> None:
    assert not outcome(settled({CONTROL: "hang"}), CONTROL).refuted


def test_a_lost_line_settles_nothing() -> None:
    lines = [one for one in log_lines() if f" {BAND} " not in one]
    found = settle(parse_log("\n".join(lines)), PROBES)
    assert BAND_PADS not in found.evidence.confirmed | found.evidence.refuted
    assert found.log.lost == 1 and outcome(found, BAND).silent == "no answer in the log"


def test_probes_of_another_version_are_named() -> None:
    found = settle(parse_log("\n".join([*log_lines(), line("of-the-future", "pass")])), PROBES)
    assert found.unknown == ("of-the-future",)
    said = lines(probe_text.document(found, Path("evidence.json")))
    assert any("unknown probe of-the-future" in text for text in said)


# ----------------------------------------------------------------------------------------------------------- constants


def test_a_constant_follows_from_two_probes() -> None:
    found = settled({TURN: "pass cycles=9000 runs=3"}, measuring("frame_turn", 100.0))
    assert dict(found.evidence.constants) == {"frame_turn": 40.0}


def test_of_the_cpu_and_of_a_memory() -> None:
    probes = measuring("cpu_before_word", 100.0)
    assert dict(settled({TURN: "pass cycles=9000"}, probes).evidence.constants) == {"cpu_before_word": 32.0}  # 800 MHz
    probes = measuring("hyperram_mb_per_s", 2_000_000.0)
    assert dict(settled({TURN: "pass cycles=9000"}, probes).evidence.constants) == {}  # 500,000 MB/s
    found = settled({TURN: "pass cycles=4005000"}, probes).evidence
    assert dict(found.constants) == {"hyperram_mb_per_s": 500.0}


@pytest.mark.parametrize("constant", ["read_beat", "hyperram_mb_per_s"])
def test_cycles_hold_for_clocks_of_the_same_ratio_and_speeds_for_the_same_clocks(constant: str) -> None:
    units, cycles = (100.0, 5130) if constant == "read_beat" else (2e6, 4_005_000)
    planted, probes = {TURN: f"pass cycles={cycles}"}, measuring(constant, units)
    assert dict(settled(planted, probes).evidence.constants) == {constant: 1.3 if constant == "read_beat" else 500.0}
    half = settled(planted, probes, **{name: hz // 2 for name, hz in CLOCKS.items()})
    assert bool(half.evidence.constants) == (constant == "read_beat")
    reset = settled(planted, probes, cpu_hz=64_000_000, npu_hz=64_000_000, ram_hz=64_000_000)
    assert not reset.evidence.constants and "ran at 64/64/64 MHz" in outcome(reset, TURN).refused
    assert not settled(planted, probes, cpu_hz=0, npu_hz=0, ram_hz=0).evidence.constants


@pytest.mark.parametrize(
    ("cycles", "said"), [(5010, "further than a factor of 4"), (90_000, "factor of 4"), (4000, "no more cycles")]
)
def test_what_is_implausible_is_not_taken_and_its_line_is_named(cycles: int, said: str) -> None:
    found = settled({TURN: f"pass cycles={cycles}"}, measuring("frame_turn", 100.0))
    one = outcome(found, TURN)
    assert (
        not found.evidence.constants
        and said in one.refused
        and f"(line {one.reply.line if one.reply else 0})" in one.refused
    )
    assert any(one.refused in text for text in lines(probe_text.document(found, Path("evidence.json"))))


def test_without_its_baseline_it_measures_nothing() -> None:
    found = settled(
        {TURN: "pass cycles=9000", "control-table": "wrong"}, measuring("frame_turn", 100.0, "control-table")
    )
    assert not found.evidence.constants and "control-table did not pass" in outcome(found, TURN).refused


@pytest.mark.parametrize(("cycles", "said"), [(12_680, "as the cycle model has it"), (11_144, "has 36: send")])
def test_a_rate_that_no_constant_says_is_told(cycles: int, said: str) -> None:
    name = "conv-5x3-products"
    found = settled({name: f"pass cycles={cycles} runs=5"})
    assert outcome(found, name).rate == pytest.approx(276480 / (cycles - 5000))
    assert any("products a cycle" in text and said in text for text in probe_text.follows(outcome(found, name)))


@pytest.mark.parametrize("name", MEASURABLE)
def test_every_constant_can_be_replaced(name: str) -> None:
    chip = stm32n6()
    value = chip.constant(name) * 1.5
    changed = chip.with_measured({name: value})
    assert changed.constant(name) == value and changed.measured == (name,) and not implausible(name, value)
    assert implausible(name, chip.constant(name) * 4.1) and implausible(name, float("nan"))
    slower = changed.with_clocks(npu_mhz=500, cpu_mhz=400)
    assert slower.constant(name) / chip.with_clocks(npu_mhz=500, cpu_mhz=400).constant(name) == pytest.approx(1.5)


# ------------------------------------------------------------------------------------------------------------ the file


def test_the_same_log_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, files = tmp_path / "uart.log", [tmp_path / "a.json", tmp_path / "b.json"]
    log.write_text(log_text({BAND: "wrong first=0"}))
    for file in files:
        assert main(["probe", "read", str(log), "-o", str(file)]) == 0
    text = capsys.readouterr().out
    assert files[0].read_bytes() == files[1].read_bytes()
    assert f"{BAND}: WRONG, byte 0 is ?, not ?" in text and "disproved: S2" in text
    read = read_board_evidence(files[0])
    assert BAND_PADS in read.refuted and read.distrusted == {"S2"} and read.board == "stm32n6570-dk"
    document = json.loads(files[0].read_text())
    assert {"probe": BAND, "verdict": "wrong", "first": 0} in document["answers"] and document["complete"]


def test_what_is_written_is_read() -> None:
    found = settled({BAND: "wrong", TURN: "pass cycles=9000"}, measuring("frame_turn", 100.0)).evidence
    assert evidence_of_row(evidence_row(found)) == found and found.constants


ROW = evidence_row(BoardEvidence(board="stm32n6570-dk"))
LIST = ["confirmed", "refuted", "distrusted", "supported", "constants"]


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {key: value}
            for key in LIST
            for value in (None, 3, {}, [3], [["a"]], [["a", "b", "c", "d"]], [None] * 20_001)
        ),
        {"confirmed": [["a", "b", 1 << 63]]},
        {"confirmed": [["a", "b", 1.5]]},
        {"confirmed": [["a", "b", True]]},
        {"refuted": [["a\x1b[2J", "b", 1]]},
        {"refuted": [["a" * 5000, "b", 1]]},
        {"distrusted": ["everything"]},
        {"constants": [["frame_turn", 3600]]},
        {"constants": [["frame_turn", "36"]]},
        {"constants": [["epoch", float("inf")]]},
        {"constants": [["frame_turn_words", 4]]},
        {"constants": [["npu_mhz", 1000]]},
        {"wide_sums": "sideways"},
        {"wide_sums": 3},
        {"board": 3},
    ],
)
def test_an_edited_file_is_refused_in_one_sentence(wrong: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "evidence.json"
    file.write_text(json.dumps({"format": "atonc board evidence", "version": 1, **ROW, **wrong}))
    with pytest.raises(InputError, match="not an evidence file"):
        read_board_evidence(file)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"format": "atonc board evidence"}']
)
def test_what_is_no_evidence_file(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(data)
    with pytest.raises(InputError, match="evidence file"):
        read_board_evidence(file)


def test_a_contradiction_writes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, file = tmp_path / "uart.log", tmp_path / "evidence.json"
    log.write_text("\n".join([*log_lines(), line(BAND, "hang")]))
    assert main(["probe", "read", str(log), "-o", str(file)]) == 2
    assert "answers one question in two ways" in unwrapped(capsys.readouterr().err) and not file.exists()


def test_a_firmware_of_probes_that_nobody_knows_is_no_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "uart.log"
    log.write_text("\n".join([log_lines()[0], line("of-the-future", "pass")]))
    assert main(["probe", "read", str(log), "-o", str(tmp_path / "e.json")]) == 2
    assert "no probe of this version answered" in unwrapped(capsys.readouterr().err)


def test_json_says_what_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "uart.log"
    log.write_text(log_text({BAND: "wrong"}))
    assert main(["probe", "read", str(log), "-o", str(tmp_path / "e.json"), "--json"]) == 0
    rows = {row["probe"]: row for row in json.loads(capsys.readouterr().out)["outcomes"]}
    assert any("disproved: S2" in text for text in rows[BAND]["follows"])
