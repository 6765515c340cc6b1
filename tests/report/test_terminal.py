"""The same words with and without colour."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from atonc.insight.report import terminal
from atonc.insight.report.document import Mark, Marked, note

DIGITS = str(Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("command", [["explain", DIGITS, "--no-prices"], ["analyze", DIGITS, "--no-verify"]])
def test_colour_changes_no_word(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(command) == 0
    plain = _without_times(capsys.readouterr().out)
    assert "\x1b" not in plain
    monkeypatch.setattr(terminal, "coloured", lambda *_: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(command) == 0
    colourful = capsys.readouterr().out
    assert "\x1b[" in colourful
    assert _without_times(_ESCAPES.sub("", colourful)) == plain


def _without_times(text: str) -> str:
    return re.sub(r"compiled in [\d.]+ s", "", text)


def test_pipes_and_no_color_get_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not terminal.coloured()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.coloured()


def test_lines_say_what_matters_in_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the words are: a name of a model that looks like a rule or a note is no more than a name."""
    rule = Marked(Mark.RULE, "CPU-SOFTMAX", "    ", ": softmax needs")
    assert rule == "    CPU-SOFTMAX: softmax needs" and rule.spans == ((Mark.RULE, 4, 15),)
    monkeypatch.setattr(terminal, "coloured", lambda *_: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    terminal.show([rule, note("so it is"), "note: the name of a model"])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("    \x1b[") and first.endswith("\x1b[0m: softmax needs")
    assert second.startswith("\x1b[33mnote: so it is") and third == "note: the name of a model"
