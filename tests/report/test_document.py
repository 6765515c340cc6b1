"""A document as text, and the reply of a verb that has one: made once, rendered by who shows it."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from atonc.doors.verbs.reply import CommandReply, give
from atonc.insight.report import document as doc
from atonc.insight.report.notebook import fragment
from atonc.machine.base.reasons import CheckResult

ROWS = [("a", 5), ("long name", 12345)]
COLUMNS = (
    doc.Column[tuple[str, int]]("name", lambda row: row[0], left=True),
    doc.Column[tuple[str, int]](
        "bytes", lambda row: row[1], "{:,}", mark=lambda row: doc.Mark.ALARM if row[1] > 9 else None
    ),
    doc.Column[tuple[str, int]]("", lambda row: None if row[1] > 9 else "small", left=True),
)


def text(*blocks: doc.Block) -> list[str]:
    return doc.lines(doc.Document(sections=[doc.Chapter("", blocks)]))


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_words() -> None:
    lines = text(doc.Table(COLUMNS, ROWS, titles=True))
    assert lines == ["  name        bytes", "  a               5  small", "  long name  12,345"]
    (marked,) = [line for line in lines if isinstance(line, doc.Marked)]
    ((mark, start, end),) = marked.spans
    assert mark == doc.Mark.ALARM and marked[start:end] == "12,345"
    assert text(doc.Table(COLUMNS, [], titles=True)) == []


def test_a_frame_has_the_label_below() -> None:
    top, titles, rule, *rows, bottom, label = text(doc.Table(COLUMNS[:2], ROWS, "what it is", framed=True))
    assert {len(line) for line in (top, titles, rule, *rows, bottom)} == {len("\u2502 long name \u2502 12,345 \u2502")}
    assert label == " Table: what it is" and len(rows) == 2


def test_sections_are_apart_unless_they_are_close() -> None:
    sections = [
        doc.Chapter("one", ["1"]),
        doc.Chapter("", []),
        doc.Chapter("two", [], close=True),
        doc.Chapter("", ["3"]),
    ]
    hidden = doc.Chapter("page", ["4"], doc.Only.PAGE)
    summary = [doc.SummaryRow("in all", "2"), None]
    lines = doc.lines(doc.Document(sections=[*sections, hidden], summary=summary))
    assert lines == ["one", "1", "two", "", "3", "", "in all     2"]


def test_terms_and_what_is_left_out() -> None:
    assert text(doc.Terms({"a": "1", "name": "2"})) == ["a    : 1", "name : 2"]
    assert doc.at_most(2, ["a", "b"]) == ["a", "b"]
    assert doc.at_most(1, ["a", "b", "c"], "and {} more") == ["a", "and 2 more"]


def test_a_notebook_shows_line_figures_and_rows() -> None:
    terms = doc.Chapter("", [doc.Terms({"<RAM>": "3"})])
    page = fragment(doc.Document("<line>", [terms], tables={"rows": [{"name": "<b>", "bytes": 1234}]}))
    assert "&lt;line&gt;" in page and "&lt;RAM&gt;" in page and "1,234" in page and "<b>&lt;" in page


def given(capsys: pytest.CaptureFixture[str], reply: CommandReply, **options: Any) -> tuple[int, str, str]:
    code = give(reply, argparse.Namespace(**{"json": False, "quiet": False, **options}))
    return (code, *capsys.readouterr())


def test_a_reply_is_shown_as_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[int] = []

    def data() -> dict[str, int]:
        made.append(1)
        return {"figure": 7}

    reply = CommandReply("verb", doc.Document(sections=[doc.Chapter("", ["said"])], data=data), "hash", code=3)
    assert given(capsys, reply) == (3, "said\n", "") and not made
    assert given(capsys, reply, quiet=True) == (3, "", "")
    code, out, _ = given(capsys, reply, json=True)
    found = json.loads(out)
    assert code == 3 and made == [1]
    assert (found["document"], found["model_sha256"], found["figure"]) == ("verb", "hash", 7)


def test_a_check_that_does_not_hold_is_a_complaint_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [CheckResult("--max-ram", True, "fine"), CheckResult("--max-latency", False, "too slow")]
    assert given(capsys, CommandReply("verb", doc.Document(checks=checks))) == (1, "", "atonc: too slow\n")
    assert given(capsys, CommandReply("verb", doc.Document(checks=checks), complain=False)) == (1, "", "")
    assert given(capsys, CommandReply("verb", doc.Document(checks=checks[:1]), code=0)) == (0, "", "")
