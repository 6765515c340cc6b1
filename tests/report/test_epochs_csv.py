"""The table of epochs for spreadsheets."""

from __future__ import annotations

import csv

from atonc.insight.report import compile_text
from tests.emit.generated import digits, steps_of_digits


def test_a_line_for_every_epoch() -> None:
    view = digits()
    said, *lines = compile_text.epochs_csv(view).splitlines()
    rows = list(csv.DictReader(lines))
    assert said.startswith("# atonc") and len(rows) == steps_of_digits()
    assert [int(row["predicted_cycles"]) for row in rows] == [cost.cycles for cost in view.cost.steps]
    assert {row["on"] for row in rows} == {"npu", "cpu"}
