"""What a terminal of 80 columns shows: few lines, none cut inside a word, and the figures on the last screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from atonc.insight.report import document, terminal
from atonc.insight.report.document import (
    Mark,
    Marked,
    SummaryRow,
    cpu_row,
    files_row,
    summary_lines,
)
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.words import count, elided, instead, listed, ms_text, size_text, times
from atonc.machine.cost.band import PredictionBand

ROOT = Path(__file__).parent.parent.parent
DIGITS = str(ROOT / "examples" / "digits" / "digits.tflite")
WIDTH, SCREEN = 80, 24


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(words) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(("verb", "most"), [("analyze", 31), ("generate", 34), ("explain", 45)])
def test_defaults_are_short_and_end_with_the_figures(
    verb: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["-o", str(tmp_path)] if verb == "generate" else []
    lines = shown([verb, DIGITS, *output], capsys)
    assert len(lines) <= most
    whole = [line for line in lines if str(tmp_path) in line or "atonc " in line]  # paths and commands can be copied
    assert not [line for line in lines if len(line) > WIDTH and line not in whole]
    last = "\n".join(lines[-SCREEN:])
    labels = ["latency", "RAM", "flash", "CPU", "next"] + ["verified"] * (verb != "explain")
    assert all(f"\n{label} " in last for label in labels + ["written"] * (verb == "generate"))
    assert "predicted (" in last and "costliest softmax" in last and " --resident all:" in last


@pytest.mark.usefixtures("narrow")
def test_other_verbs_end_with_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "out")
    assert main(["generate", DIGITS, "-o", folder, "-q"]) == 0
    for words, labels in (
        (["validate", DIGITS, "--samples", "2"], ("passed", "worst", "layers", "next")),
        (["run", folder], ("emulated", "latency", "CPU", "safety")),
        (["compare", folder, folder], ("latency", "RAM", "flash", "on the CPU")),
        (["ops"], ("in all", "next")),
        (["doctor"], ("ready", "boards", "next")),
        (["board", "list"], ("in all", "next")),
        (["board", "show", "stm32n6570-dk"], ("clocks", "memory", "pool sets", "next")),
        (["board", "check", "--network", folder], ("checked", "verdict", "next")),
        (["probe", "control-raster", "-o", str(tmp_path / "probes")], ("probes", "written", "next")),
        (["probe", "--list"], ("in all", "next")),
    ):
        lines = shown(words, capsys)
        last = lines[lines.index("", -9) :]
        assert [label for label in labels if not any(line.startswith(f"{label} ") for line in last)] == [], words
        listing = words[0] == "doctor" or words[:2] in (["board", "show"], ["probe", "--list"])  # without a short form
        assert (listing or len(lines) <= 32) and not [line for line in lines if len(line) > WIDTH and "/" not in line]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("words", [["analyze", DIGITS, "-v"], ["explain", DIGITS, "--all"], ["explain", "--terms"]])
def test_long_lines_are_cut_between_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    narrow = shown(words, capsys)
    assert not [line for line in narrow if len(line) > WIDTH and " " in line.strip() and " atonc " not in line]


def test_commands_stay_whole() -> None:
    row = SummaryRow("next", "a half of the time", Mark.REMEDY, "atonc generate a/model.tflite --resident all")
    (_, line) = summary_lines([row])
    pieces = [str(piece) for piece in terminal._pieces(line, 30)]
    assert pieces == [f"next       {row.command}:", "           a half of the time"]


def test_pieces_keep_words_and_marks() -> None:
    line = Marked(Mark.REMEDY, "give it another name", "what to do: ", ", or leave it")
    pieces = list(terminal._pieces(line, 20))
    assert [str(piece) for piece in pieces] == ["what to do: give it", "  another name, or", "  leave it"]
    first, second, _ = pieces
    assert isinstance(first, Marked) and first[slice(*first.spans[0][1:])] == "give it"
    assert isinstance(second, Marked) and second[slice(*second.spans[0][1:])] == "another name"
    assert list(terminal._pieces("x" * 30 + " y", 20)) == ["x" * 30, "  y"]
    assert list(terminal._pieces("  one two", 0)) == ["  one two"]


def test_a_summary_fits_its_lines() -> None:
    rows = [SummaryRow(f"row {n}", "text") for n in range(document.MOST)]
    assert len(summary_lines([*rows, None])) == 1 + document.MOST
    with pytest.raises(AssertionError):
        summary_lines([*rows, rows[0]])


def test_rows_say_what_they_are_worth() -> None:
    assert cpu_row([], 1.0).mark == Mark.GOOD
    slow = cpu_row([("softmax", "a", 0.1), ("gather", "b", 0.4)], 1.0)
    assert slow.mark == Mark.DOUBT and slow.text == "2 layers, 0.500 ms (50 %); costliest gather b 0.400 ms"
    assert cpu_row([("softmax", "a", 0.01)], 1.0).mark is None
    files = files_row([f"out/{name}" for name in ("a.s", "a.c", "a.h", "report.html", "a.json")])
    assert files is not None and files.text == "out: report.html, a.c, a.h and 2 more"


def test_numbers_and_names_in_sentences() -> None:
    assert [count(n, "layer") for n in (0, 1, 1024)] == ["0 layers", "1 layer", "1,024 layers"]
    assert [times(n, "softmax") for n in (1, 3)] == ["softmax", "3 x softmax"]
    assert "beta" in instead("bete", ["beta", "bete"]) and "'bete'" not in instead("bete", ["beta", "bete"])
    assert did_you_mean("dk", ["dk"], "nothing near") == "nothing near"
    assert listed(["a"]) == "a" and listed(["a", "b", "c"]) == "a, b and c" and listed([]) == ""
    assert elided("a" * 10, 10) == "a" * 10 and elided("beginning_and_end", 10) == "beg..._end"
    assert size_text(1) == "1 byte" and size_text(927_744) == "906 KiB" and size_text(7376) == "7.2 KiB"
    assert ms_text(0.0384) == "0.038 ms" and ms_text(4.089) == "4.09 ms"
    assert ms_text(0.00042) == "0.0004 ms" and ms_text(0.000042) == "<0.0001 ms" and ms_text(0) == "0.000 ms"
    assert ms_text(1.7444, 3) == "1.744 ms" and ms_text(0.00342, 3) == "0.0034 ms"
    for time in (0.00042, 0.0384, 0.95, 4.089, 99.5, 150.04):  # a time and its bounds have the same digits
        said = f"{ms_text(time)} to {PredictionBand(-0.1, 0.1, ()).span(time)}".removesuffix(" ms").replace(" ms", "")
        assert len({len(number.partition(".")[2]) for number in said.split(" to ")}) == 1
