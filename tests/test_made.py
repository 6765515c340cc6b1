"""What tests make on their way is compared with its record: something else is noticed, and what differs in every run is
not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atonc.insight.report import document
from tests import made
from tests.made import Record, begin, end

ITEM: Any = SimpleNamespace(
    path=made.ROOT / "tests/plan/test_x.py", nodeid="tests/plan/test_x.py::test_a[1]", obj=None, fixturenames=()
)


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(made, "FOLDER", tmp_path)
    monkeypatch.setattr(made, "_looks_around", lambda path: False)
    return tmp_path


def recorded(folder: Path, *texts: str) -> None:
    record = Record(rewrite=True)
    begin(record, ITEM)
    for text in texts:
        record.add("text of a test", text)
    end(record, ITEM)
    record.write()


def test_only_what_was_recorded_may_be_made(folder: Path) -> None:
    (folder / "plan.txt").write_text("plan/test_a.py::test_b 12345678\nplan/test_x.py::test_a 00000000\n")
    recorded(folder, "one", "two")
    lines = (folder / "plan.txt").read_text().splitlines()
    assert lines[0] == "plan/test_a.py::test_b 12345678" and len(lines) == 2 and len(lines[1].split()) == 3
    for text, is_known in (("two", True), ("three", False)):
        record = Record(rewrite=False)
        begin(record, ITEM)
        record.add("text of a test", text)
        if is_known:
            end(record, ITEM)
        else:
            with pytest.raises(AssertionError, match="text of a test"):
                end(record, ITEM)


def test_what_differs_in_every_run_does_not_count(folder: Path) -> None:
    recorded(folder, "/tmp/pytest-of-me/pytest-12/test_a_0_/x took 1.25 s on 2026-01-31", "a 12")
    record = Record(rewrite=False)
    begin(record, ITEM)
    record.add("text of a test", "/tmp/pytest-of-you/pytest-3/popen-gw1/test_a_17_/x took 8 s on 2027-10-01")
    end(record, ITEM)
    begin(record, ITEM)
    record.add("text of a test", "a 13")
    with pytest.raises(AssertionError):
        end(record, ITEM)


def test_files_without_a_record_are_not_looked_at(folder: Path) -> None:
    (folder / "plan.txt").write_text("plan/test_a.py::test_b 12345678\n")
    record = Record(rewrite=False)
    begin(record, ITEM)
    assert record.now is None
    end(record, ITEM)
    record = Record(rewrite=True)
    begin(record, SimpleNamespace(**{**vars(ITEM), "path": made.ROOT / "tests/test_x.py"}))
    end(record, ITEM)
    assert record.now is None and not record.tests, "of no folder"


def test_the_doors_tell(request: pytest.FixtureRequest) -> None:
    """Whoever imported one has the one that tells, and gets what it makes."""
    record = request.config.stash[made.KEPT]
    before, record.now = record.now, {}
    try:
        assert document.lines(document.Document(sections=(document.Chapter("seen", ("a line",)),))) == [
            "seen",
            "a line",
        ]
        told = sorted(record.now.values())
    finally:
        record.now = before
    assert told == ["text seen"]
