"""Epochs as a table for spreadsheets, which scripts copy from ST's workspace (`network.csv`); the columns are ours."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from atonc.machine.base.about import __version__

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView

COLUMNS = ("epoch", "on", "st_estimate_cycles", "predicted_cycles", "bound_by")


def text(view: CompileView) -> str:
    """A first line that says whose figures they are, the names of the columns, a line for every epoch."""
    file = io.StringIO()
    file.write(f"# atonc {__version__}: cycles of the NPU's clock, predicted\n")
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True):
        on = "cpu" if step.epoch is None else "npu"
        table.writerow([step.number, on, cost.st_cycles, cost.cycles, cost.bound_by])
    return file.getvalue()
