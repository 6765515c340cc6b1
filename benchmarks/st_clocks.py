"""Predicted times of ST's own programs at three clock pairs, against a board.

`energy_board.csv` has the times (Foahh/fyp-playground, ST 4.0.0); of five of its networks the compiled program is
public. TinyissimoYOLO fixed what softmax takes with the library of 4.0 and yolo26n what an int8 convolution of the CPU
takes; the others fixed nothing. Three times also give three parts: what goes with the NPU's clock, with the CPU's, and
with neither (flash, bus).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from atonc.machine.cost.energy import energy_of
from atonc.machine.hw.machine import stm32n6
from benchmarks.energy_board import CLOCKS, Measured, measured, split
from benchmarks.hw_cycles import CASES, Case, Prediction, find, predict
from benchmarks.shared.declare import FETCHED, WRITE, Report
from benchmarks.shared.tables import table

GROUP = "time"
ARGUMENTS = (FETCHED, WRITE)

NAMES = {  # in the table of times: the case, and what it fixed
    "st_yolodv2milli_actrelu_pt_coco_person_256": ("st_yolodv2milli 256", ""),
    "ssdlite_mobilenetv3small_pt_coco_person_300": ("ssdlite_mobilenetv3small 300", ""),
    "st_yoloxn_d100_w025_480": ("st_yoloxn 480", ""),
    "tinyissimoyolo_v8_320": ("tinyissimoyolo_v8 320", "softmax"),
    "yolo26n_320": ("yolo26n 320", "convolution of the CPU"),
}
Row = tuple[Measured, str, Prediction]


def rows(roots: tuple[Path, ...]) -> Iterator[Row]:
    cases: dict[str, Case] = {case.name: case for case in CASES if case.tool == "4.0.0"}
    for one in measured():
        name, fixed = NAMES.get(one.row["model"], ("", ""))
        if not name or one.row["format"] != "Int8":
            continue
        case, (npu, cpu) = cases[name], CLOCKS[one.mode]
        path = find(case.repository, case.commit, case.path, roots)
        if path is not None:
            yield one, fixed, predict(case, path, stm32n6().with_clocks(npu_mhz=npu, cpu_mhz=cpu))


def took(one: Measured) -> float:
    return float(one.row[f"{one.mode}_ms"])


def off(row: Row) -> float:
    return row[2].ms / took(row[0]) - 1


def board_uj(row: Row) -> float:
    """Energy of the whole board, with predicted time and counted work."""
    one, _, ours = row
    activity = replace(one.activity, milliseconds=ours.ms, awake_ms=ours.cpu_ms)
    return energy_of(activity, *CLOCKS[one.mode]).board_uj.likely


def row_lines(found: list[Row]) -> Iterator[str]:
    times = ">CPU ms", ">predicted ms", ">may be", ">measured ms", ">error", "inside"
    columns = ("network", "clocks", *times, ">board mJ", ">predicted", ">error", "fixed")
    cells = []
    for one, fixed, ours in found:
        low, high = ours.band.around(ours.ms)
        inside = "yes" if ours.band.holds(ours.ms, took(one)) else "no"
        figures = (f"{ours.cpu_ms:.2f}", f"{ours.ms:.2f}", f"{low:.2f} to {high:.2f}", f"{took(one):.2f}")
        uj = board_uj((one, fixed, ours))
        energy = (f"{one.board_uj / 1e3:.2f}", f"{uj / 1e3:.2f}", f"{uj / one.board_uj - 1:+.1%}")
        cells.append(
            [one.row["model"], one.mode, *figures, f"{off((one, fixed, ours)):+.1%}", inside, *energy, fixed or "-"]
        )
    yield from table(columns, cells)


def part_lines() -> Iterator[str]:
    columns = ("network", "weights", ">NPU ms", ">CPU ms", ">neither ms", ">flash at 400 MB/s, ms")
    cells = []
    for one in measured():
        if one.mode == "overdrive":
            flash = f"{one.activity.flash_bytes / 4e5:.2f}"
            cells.append([one.row["model"], one.row["format"], *(f"{part:.2f}" for part in split(one.row)), flash])
    yield from table(columns, cells)


PAGE = """# ST's programs at three clock pairs

{goal}

Energy of the whole board is predicted with the predicted time; its constants [saw these
networks](energy_board.md).

The NPU's RAM runs at 900, 800 and 400 MHz there, as the NPU does or slower; the flash and the bus keep their clocks.

{rows}

## What each time consists of

Three times solved for three parts, at the highest clocks. Below zero is no time: epochs that wait for the NPU's RAM,
which is slowed less than the NPU from 1000 to 800 MHz, look like that.

{parts}
"""


def run(arguments: argparse.Namespace) -> Report:
    found = list(rows(tuple(arguments.fetched)))
    kept = [row for row in found if not row[1]]
    goal, failed = "No program was fetched.", False
    if kept:
        errors = [abs(off(row)) for row in kept]
        inside = sum(ours.band.holds(ours.ms, took(one)) for one, _, ours in kept)
        goal = (
            f"Networks that fixed nothing: median error {median(errors):.1%}, worst {max(errors):.1%}, "
            f"{inside} of {len(kept)} times inside error bounds."
        )
        failed = inside < 0.9 * len(kept)
    return Report(
        PAGE.format(goal=goal, rows="\n".join(row_lines(found)), parts="\n".join(part_lines())), failed=failed
    )
