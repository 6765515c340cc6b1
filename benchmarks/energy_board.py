"""How near is the estimated energy to what whole boards took, on networks that fixed no constant?

`energy_board.csv`: networks of ST 4.0.0 on an STM32N6570-DK at three clock pairs, measured by Foahh/fyp-playground
(results of March and April 2026, ST's validation firmware, an INA228 in the board's supply, windows marked by a pin):
ms of the firmware, ms and mW of the window, mW between inferences. `flash_kib` and `external_kib` are as ST's compiler
reports them. `products` and `ram_bytes` are counted in a program, in the one that `work` names; one of ours stands for
ST's where that is not public. Times are those measured, so that the error is that of power alone.

A network is held out if the SHA-256 of its name is a multiple of three. The others give two constants by least squares
of relative errors; the constants in use (`power.toml`) must be near these, and hold on what was held out.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median

import numpy as np

from atonc.machine.cost.energy import Activity, Between, EnergyEstimate, energy_of, power_table
from benchmarks.shared.declare import WRITE, Report
from benchmarks.shared.tables import table

GROUP = "time"
ARGUMENTS = (WRITE,)

MEASURED = Path(__file__).with_suffix(".csv")
CLOCKS = {"overdrive": (1000.0, 800.0), "nominal": (800.0, 600.0), "underdrive": (400.0, 400.0)}  # NPU, CPU: MHz
FITTED = {"product": "products", "flash_device_byte": "flash"}  # constants, and the parts that they make
BOARD_GOAL, INSIDE_GOAL, BAND_GOAL = 0.15, 0.9, 0.2
EXTERNAL_RATE = 4e5  # bytes a millisecond, as assumed for external RAM and measured for the flash


@dataclass(frozen=True)
class Measured:
    """A network at one pair of clocks."""

    row: dict[str, str]
    mode: str
    guessed: bool  # nobody published what it multiplies
    activity: Activity

    @property
    def held(self) -> bool:
        return int(hashlib.sha256(self.row["model"].encode()).hexdigest(), 16) % 3 == 0

    @property
    def ours(self) -> EnergyEstimate:
        return energy_of(self.activity, *CLOCKS[self.mode])

    @property
    def board_uj(self) -> float:
        return self.activity.milliseconds * float(self.row[f"{self.mode}_mw"])

    @property
    def chip_uj(self) -> float:
        """Core and memories, behind the regulators."""
        table = power_table()
        return table.efficiency.likely * (self.board_uj - table.rest_mw.likely * self.activity.milliseconds)

    @property
    def board_error(self) -> float:
        return self.ours.board_uj.likely / self.board_uj - 1

    @property
    def chip_error(self) -> float:
        return self.ours.uj.likely / self.chip_uj - 1


def within(span: Between, value: float) -> bool:
    return span.low <= value <= span.high


def half_width(span: Between) -> float:
    return (span.high - span.low) / 2 / span.likely


def split(row: dict[str, str]) -> tuple[float, float, float]:
    """Milliseconds at the highest clocks that go with the NPU's, with the CPU's, and with neither."""
    slower = [[1000 / npu, 800 / cpu, 1.0] for npu, cpu in CLOCKS.values()]
    npu, cpu, rest = np.linalg.solve(slower, [float(row[f"{mode}_ms"]) for mode in CLOCKS])
    return float(npu), float(cpu), float(rest)


@cache
def measured() -> tuple[Measured, ...]:
    with MEASURED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    known = [row for row in rows if row["products"]]
    each = {  # work a millisecond: of the middle network
        name: median(float(row[name]) / float(row["overdrive_ms"]) for row in known)
        for name in ("products", "ram_bytes")
    }
    return tuple(_measured(row, mode, each) for row in rows for mode in CLOCKS)


def _measured(row: dict[str, str], mode: str, each: dict[str, float]) -> Measured:
    _, cpu, rest = split(row)
    npu_ms = float(row["overdrive_ms"])
    flash = 1024 * float(row["flash_kib"])
    outside = max(0.0, EXTERNAL_RATE * rest - flash) if float(row["external_kib"]) else 0.0
    work = {name: float(row[name] or npu_ms * rate) for name, rate in each.items()}
    awake = max(0.0, cpu) * 800 / CLOCKS[mode][1]
    activity = Activity(float(row[f"{mode}_window_ms"]), awake, **work, flash_bytes=flash, hyperram_bytes=outside)
    return Measured(row, mode, not row["products"], activity)


def usable() -> list[Measured]:
    """Rows with counted work, without external RAM."""
    return [one for one in measured() if not (one.guessed or one.activity.hyperram_bytes)]


def fitted(rows: list[Measured]) -> dict[str, float]:
    """What two constants would be by these rows, all others as they are."""
    left, right = [], []
    for one in rows:
        own = {name: one.ours.parts[part].likely for name, part in FITTED.items()}
        left.append([own[name] / power_table().picojoules[name].likely / one.chip_uj for name in FITTED])
        right.append((one.chip_uj - one.ours.uj.likely + sum(own.values())) / one.chip_uj)
    return dict(zip(FITTED, map(float, np.linalg.lstsq(np.array(left), np.array(right), rcond=None)[0]), strict=True))


def family(one: Measured) -> str:
    words = one.row["model"].split("_")
    return "_".join(words[: 2 if words[0] == "st" else 1])


def family_lines() -> Iterator[str]:
    """Each architecture against what the others say of both constants."""
    table_of, cells = power_table(), list[list[object]]()
    for name in dict.fromkeys(map(family, usable())):
        found = fitted([one for one in usable() if family(one) != name])
        more = {part: found[key] / table_of.picojoules[key].likely - 1 for key, part in FITTED.items()}
        chip, board = list[float](), list[float]()
        for one in usable():
            if family(one) == name:
                added = sum(one.ours.parts[part].likely * factor for part, factor in more.items())
                chip.append(abs((one.ours.uj.likely + added) / one.chip_uj - 1))
                board.append(abs((one.ours.board_uj.likely + added / table_of.efficiency.likely) / one.board_uj - 1))
        errors = [f"{value:.1%}" for value in (median(board), max(board), median(chip), max(chip))]
        cells.append([name, len(chip), *(f"{value:.2f}" for value in found.values()), *errors])
    figures = (f">{key}, pJ" for key in FITTED)
    yield from table(
        ("left out", ">rows", *figures, ">board: median error", ">worst", ">chip: median error", ">worst"), cells
    )


def summary(rows: list[Measured]) -> list[str]:
    """Networks, rows, and how near both figures are."""
    cells = [str(len({one.row["model"] for one in rows})), str(len(rows))]
    board = [(one.board_error, one.ours.board_uj, one.board_uj) for one in rows]
    for found in board, [(one.chip_error, one.ours.uj, one.chip_uj) for one in rows]:
        errors = [abs(error) for error, _, _ in found]
        inside = sum(within(span, value) for _, span, value in found)
        width = mean(half_width(span) for _, span, _ in found)
        cells += [f"{median(errors):.1%}", f"{max(errors):.1%}", f"{inside} of {len(rows)}", f"+-{width:.1%}"]
    return cells


def groups() -> dict[str, list[Measured]]:
    rows = measured()
    known = [one for one in rows if not one.guessed]
    return {
        "held out, work counted": [one for one in known if one.held],
        "fitted, work counted": [one for one in known if not one.held],
        "held out, work unknown": [one for one in rows if one.guessed and one.held],
        "not held out, work unknown": [one for one in rows if one.guessed and not one.held],
    }


def row_lines() -> Iterator[str]:
    columns = ("network", "weights", "clocks", "held", "work", ">ms", ">board mW", ">ours", ">error", "board inside",
               ">chip uJ", ">ours", ">bounds", ">error", "chip inside")  # fmt: skip
    yield from table(columns, map(_cells, sorted(measured(), key=lambda one: (not one.held, one.guessed))))


def _cells(one: Measured) -> list[str]:
    ours, row = one.ours, one.row
    chip = ours.uj
    return [
        *(row["model"], row["format"], one.mode, "yes" if one.held else "", row["work"] or "unknown: the middle one's"),
        *(row[f"{one.mode}_ms"], f"{float(row[f'{one.mode}_mw']):.0f}", f"{ours.board_mw:.0f}"),
        *(f"{one.board_error:+.1%}", "yes" if within(ours.board_uj, one.board_uj) else "no"),
        *(f"{one.chip_uj:,.0f}", f"{chip.likely:,.0f}", f"{chip.low:,.0f} to {chip.high:,.0f}"),
        *(f"{one.chip_error:+.1%}", "yes" if within(chip, one.chip_uj) else "no"),
    ]


def idle_lines() -> Iterator[str]:
    columns = ("clocks", ">NPU MHz", ">CPU MHz", ">idle mW, median of the networks", ">least", ">most", ">ours")
    rows = []
    for mode, (npu, cpu) in CLOCKS.items():
        seen = [float(one.row[f"{mode}_idle_mw"]) for one in measured() if one.mode == mode]
        figures = (npu, cpu, median(seen), min(seen), max(seen), power_table().idle_mw(npu, cpu))
        rows.append([mode, *(f"{value:.0f}" for value in figures)])
    yield from table(columns, rows)


PAGE = """# Energy of whole boards: estimates against a power meter

{goal}

*Board*: what the meter saw. *Chip*: core and memories, which is the board less {rest} mW for all the rest, at {lost}
of the regulators. Bounds are those of power: the times are the measured ones. {external}

{summary}

Held out: {held}. Families share networks on both sides of the split (sizes of one architecture), so this is a test of
other sizes more than of other architectures; rows with unknown work are of other architectures too.

## Idle

CPU awake, NPU clocked and without work, between two inferences:

{idle}

## Constants

Least squares of relative errors over networks that are not held out: {fit}. In use: {used}; a trace of the core rail
with a picture says 2.6 pJ a product, networks of random weights 3.5 to 4.5: bits that flip decide, and they are not in
the model.

Each architecture left out of the fit in turn, held-out networks or not, and what the others then say of it:

{families}

## All rows

{rows}
"""


def page() -> tuple[str, bool]:
    found, constants = groups(), power_table()
    test = found["held out, work counted"]
    worst = max(abs(one.board_error) for one in (*test, *found["held out, work unknown"]))
    inside = mean(within(one.ours.uj, one.chip_uj) for one in test)
    width = max(half_width(one.ours.uj) for one in test)
    met = worst <= BOARD_GOAL and inside >= INSIDE_GOAL and width <= BAND_GOAL
    goal = (
        f"Held out: whole-board energy at most {worst:.1%} off (goal {BOARD_GOAL:.0%}); energy of core and memories "
        f"{inside:.0%} inside bounds of at most +-{width:.1%} (goal {INSIDE_GOAL:.0%} inside +-{BAND_GOAL:.0%})."
    )
    figures = ("networks", "rows", "board: median error", "worst", "inside", "bounds", "chip: median error", "worst",
               "inside", "bounds")  # fmt: skip
    fit = ", ".join(
        f"{name} {value:.2f} pJ" for name, value in fitted([one for one in usable() if not one.held]).items()
    )
    used = ", ".join(f"{name} {constants.picojoules[name].likely:g}" for name in FITTED)
    text = PAGE.format(
        goal=goal,
        rest=f"{constants.rest_mw.likely:g}",
        lost=f"{constants.efficiency.likely:.0%}",
        external="Bytes in external RAM are taken from the time that follows no clock.",
        summary="\n".join(table(("rows", *(f">{name}" for name in figures)),
                                ([name, *summary(rows)] for name, rows in found.items()))),
        held=", ".join(dict.fromkeys(one.row["model"] for one in measured() if one.held)),
        idle="\n".join(idle_lines()),
        fit=fit,
        used=used,
        families="\n".join(family_lines()),
        rows="\n".join(row_lines()),
    )  # fmt: skip
    return text, met


def run(arguments: argparse.Namespace) -> Report:
    text, met = page()
    return Report(text, failed=not met)
