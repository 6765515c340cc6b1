"""How near is the estimated energy of an inference to what others measured, and what do other estimates say?

`energy_published.csv` has every public figure that was found for the STM32N6, measured ones and estimates apart. One
model for all of them (`atonc/machine/cost/energy.py`, constants in `power.toml`): no constant belongs to a network.
Where the program or the model is public (`--fetched`), work and time are counted; else they are those that were
published, and bytes in RAM are a range. Measured figures must lie inside the band.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.compile_view import analyze
from atonc.compiler.request.options import Options
from atonc.machine.cost.energy import Activity, Between, energy_of, epoch_activity, power_table, together
from atonc.machine.cost.network import cpu_cost
from atonc.machine.emu.cpu import call_cost
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.target import Target
from benchmarks.hw_cycles import find, steps_of
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import FETCHED, WRITE, Report
from benchmarks.shared.tables import table

GROUP = "time"
ARGUMENTS = (FETCHED, WRITE)

PUBLISHED = Path(__file__).with_name("energy_published.csv")
MEASURED, ESTIMATED = "measured", "estimated"
BOARD = "board above idle"
TRACED = "tiny_yolo_v2 224"
TRACE = ("STMicroelectronics+x-cube-n6-ai-power-measurement", "f2ff28a", "Model/network.c")
AUTOENCODER = "ad01 autoencoder (MLPerf Tiny)"
AUTOENCODER_FILE = (
    "mlcommons+tiny", "", "benchmark/training/anomaly_detection/trained_models/ad01_int8.tflite",
)  # fmt: skip
RAM_RATE = Between(0.6e6, 1.6e6, 5.5e6)  # bytes a millisecond: the least, the median and the most of the trace's epochs
AWAKE = {"yes": (0.0, 0.0, 1.0), "no": (0.5, 1.0, 1.0), "": (0.0, 0.5, 1.0)}  # share of the time, by the controller
COUNTED, ON_OURS, AS_PUBLISHED = "counted", "work of our program, published time", "as published"


@dataclass(frozen=True)
class Compared:
    """A published figure and ours."""

    row: dict[str, str]
    ours: Between
    how: str  # where work and time come from

    @property
    def value(self) -> float:
        return float(self.row["value"])

    @property
    def inside(self) -> bool:
        return self.ours.low <= self.value <= self.ours.high


def published() -> list[dict[str, str]]:
    """Every row; `same` stands for the last text in its column that says something of its own."""
    rows, said = list[dict[str, str]](), dict[str, str]()
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            for key in ("conditions", "source"):
                if row[key].startswith("same"):
                    row[key] = said[key] + row[key].removeprefix("same")
                else:
                    said[key] = row[key]
            rows.append(row)
    return rows


# ------------------------------------------------------------------------------------------------------------ counted


def trace_activities(roots: tuple[Path, ...]) -> dict[int, Activity]:
    """What every step of the traced program does; nothing where it was not fetched."""
    path, machine = find(*TRACE, roots), stm32n6()
    target, found = Target(machine, hardware.CONTROLLER), dict[int, Activity]()
    for step in steps_of(path) if path else ():
        if step.epoch is not None:
            found[step.number] = epoch_activity(step.epoch, target, target.cycles(step.epoch))
        else:
            calls = [call_cost(call.name, list(call.args)) for call in step.calls]
            found[step.number] = cpu_cost(calls, machine, "").activity
    return found


def core(activity: Activity) -> Between:
    clocks = stm32n6().clocks
    return energy_of(activity, clocks.npu_mhz, clocks.cpu_mhz).core_uj


def compiled(path: Path, row: dict[str, str]) -> list[Activity]:
    """The work of our program with its weights in RAM (the published time leaves none for the flash), in that time;
    whether the processor slept nobody says."""
    cost = analyze(path, Options(verify=False, resident="all")).cost
    work, ms = together(step.activity for step in cost.steps), float(row["ms"])
    return [replace(work, milliseconds=ms, awake_ms=share * ms) for share in AWAKE[row["controller"]]]


def fitted(traced: dict[int, Activity]) -> str:
    """Where four constants come from: least squares over the epochs whose power could be read off the trace."""
    seen = {row["quantity"]: float(row["value"]) for row in published() if row["quantity"].startswith("epoch ")}
    if not traced:
        return "The traced program was not fetched."
    epochs = [traced[int(name.removeprefix("epoch "))] for name in seen]
    work = [(one.products, one.ram_bytes, one.flash_bytes) for one in epochs]
    rates = [[1.0, *(x / one.milliseconds / 1e6 for x in done)] for one, done in zip(epochs, work, strict=True)]
    found = np.linalg.lstsq(np.array(rates), np.array(list(seen.values())), rcond=None)[0]
    base, product, ram, flash = (float(value) for value in found)
    return (
        f"Least squares over these {len(epochs)} epochs: {base:.0f} mW whatever they do, {product:.2f} pJ a product, "
        f"{ram:.1f} pJ a byte in RAM, {flash:.0f} pJ a byte from flash."
    )


# ------------------------------------------------------------------------------------------------------- as published


def stated(row: dict[str, str]) -> list[Activity]:
    """What the published time and products allow: the least, the likely and the most. Without epoch controller the
    processor is awake; where nobody says, half of the time."""
    ms, macs = float(row["ms"]), float(row["macs"])
    rates = zip(AWAKE[row["controller"]], RAM_RATE, strict=True)
    return [Activity(ms, share * ms, macs, rate * ms) for share, rate in rates]


def whole(activities: list[Activity]) -> Between:
    low, likely, high = (core(one) for one in activities)
    return Between(low.low, likely.likely, high.high)


def above_idle(activities: list[Activity]) -> Between:
    """At a board's input, less its idle: a busy processor, with the NPU clocked (low) or not (high); likely halfway."""
    mw, efficiency = power_table().milliwatts, power_table().efficiency
    ms = activities[0].milliseconds
    work = whole([Activity(products=one.products, ram_bytes=one.ram_bytes) for one in activities])
    clocks = Between(0.0, mw["npu_clocked"].likely / 2, mw["npu_clocked"].high)
    low, likely, high = work + clocks.times(ms)
    return Between(low / efficiency.high, likely / efficiency.likely, high / efficiency.low)


def autoencoder(roots: tuple[Path, ...]) -> Path | None:
    """Its file, among the fetched ones or in the corpus."""
    kept = corpus_dir() / "models" / Path(AUTOENCODER_FILE[2]).name
    return find(*AUTOENCODER_FILE, roots) or (kept if kept.is_file() else None)


def compared(roots: tuple[Path, ...]) -> Iterator[Compared]:
    traced = trace_activities(roots)
    model = autoencoder(roots)
    for row in published():
        epoch = row["quantity"].removeprefix("epoch ")
        if row["quantity"] == "energy" and row["model"] == TRACED and traced:
            yield Compared(row, core(together(traced.values())), COUNTED)
        elif epoch.isdigit() and traced:
            one = traced[int(epoch)]
            yield Compared(row, core(one).times(1 / one.milliseconds), COUNTED)
        elif row["model"] == AUTOENCODER and model is not None:
            yield Compared(row, whole(compiled(model, row)), ON_OURS)
        elif row["quantity"] == "energy" and row["ms"] and row["macs"]:
            ours = above_idle(stated(row)) if row["scope"] == BOARD else whole(stated(row))
            yield Compared(row, ours, AS_PUBLISHED)


def idle_rows() -> Iterator[Compared]:
    """What the chip draws without any network, and what a lower voltage and lower clocks save of it."""
    mw = power_table().milliwatts
    for row in published():
        if row["quantity"] == "asleep":
            yield Compared(row, mw["asleep"], "constant")
        elif row["quantity"] == "awake":
            yield Compared(row, mw["asleep"] + mw["cpu_awake"], "constants")
        elif row["quantity"] == "saving":
            yield Compared(row, saving(), "constants")


def saving() -> Between:
    """Per cent of the energy of a busy processor, at the nominal clocks, for 5 to 2 % more time."""
    known, mw = power_table(), power_table().milliwatts
    volts = known.volts_squared(known.reference["nominal_npu_mhz"], known.reference["nominal_cpu_mhz"])
    slower = known.reference["nominal_cpu_mhz"] / known.reference["cpu_mhz"]
    before = mw["asleep"].likely + mw["cpu_awake"].likely
    after = mw["asleep"].likely + slower * mw["cpu_awake"].likely
    left = [100 * (1 - after / before * volt * more) for volt, more in zip(volts, (1.02, 1.035, 1.05), strict=True)]
    return Between(left[2], left[1], left[0])


# --------------------------------------------------------------------------------------------------------------- page


def figure_table(rows: list[Compared]) -> Iterator[str]:
    ours = ">ours, low", ">likely", ">high"
    columns = ("model", ">published", "unit", "kind", "scope", *ours, "inside", "work and time")
    yield from table(columns, map(_cells, rows))


def _cells(one: Compared) -> list[str]:
    row, figures = one.row, [f"{value:,.1f}" for value in one.ours]
    said = [row["model"] + _which(row), f"{one.value:g}", row["unit"], row["kind"], row["scope"]]
    return [*said, *figures, "yes" if one.inside else "no", one.how]


def _times(rows: list[Compared], begins: str) -> str:
    """Published over likely, of networks at a board's input: those whose name begins so, or with nothing the others."""
    board = [one for one in rows if one.row["scope"] == BOARD]
    chosen = [one for one in board if one.row["model"].startswith("n6net") == bool(begins)]
    ratios = [one.value / one.ours.likely for one in chosen]
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def _which(row: dict[str, str]) -> str:
    return "" if row["quantity"] == "energy" else f", {row['quantity']}"


def source_lines() -> Iterator[str]:
    yield from table(
        ("model", "conditions", "source"),
        dict.fromkeys((row["model"], row["conditions"], row["source"]) for row in published()),
    )


PAGE = """# Energy: estimates against what others published

Inside the band: {inside} measured energies. The traced network fixed four constants and [whole
boards](energy_board.md) the others, so its row and its epochs are no test (epochs: at most {worst:.0f} mW off, since
products take more on the boards than in the trace); the autoencoder is one.

## Measured energy of an inference

{energies}

Networks of eco8-neaixt are not public as models: products and times are as published, bytes in RAM a range, and what
the board draws idle is not known in its parts; so their band is wide. Seven of them have random weights and take
{random} times the likely figure. No single energy of a product gives these and the trace of trained weights: bits
that flip are not in the model, and no constant was fitted to a network. The
four small ones, which hardly multiply, take {small} of the likely figure: half of the NPU's clocks, which it has, is
too much for them. The traced row: ST's table is of another run than its plot, whose curve holds about 7.3 mJ.

## Power of single epochs and of the chip without a network

{powers}

{fitted}

## Estimates of others

Never mixed with measurements. Sums of the powers in ST's description of the chip are a third to a fifth of what the
same network was measured at.

{estimates}

## Sources

{sources}

Looked for and not found as text or file: currents in ST's DS14791 and AN5946, the tables of arXiv 2505.15622 beyond
what others cite, figures of arXiv 2509.07051 (a picture), and the recordings of a KTH thesis on a Nucleo board
(NoahTornqvist/IA150X, `.stpm` files that the copy at hand does not hold).
"""


def page(rows: list[Compared], idle: list[Compared], fit: str) -> str:
    measured = [one for one in rows if one.row["kind"] == MEASURED]
    energies = [one for one in measured if one.row["unit"] == "uJ"]
    trace = [one for one in measured if one.row["unit"] == "mW"]
    return PAGE.format(
        inside=f"{sum(one.inside for one in energies)} of {len(energies)}",
        worst=max((abs(one.ours.likely - one.value) for one in trace), default=0.0),
        energies="\n".join(figure_table(energies)),
        random=_times(energies, "n6net"),
        small=_times(energies, ""),
        fitted=fit,
        powers="\n".join(figure_table([*trace, *idle])),
        estimates="\n".join(figure_table([one for one in rows if one.row["kind"] == ESTIMATED])),
        sources="\n".join(source_lines()),
    )


def run(arguments: argparse.Namespace) -> Report:
    roots = tuple(arguments.fetched)
    rows, idle = list(compared(roots)), list(idle_rows())
    outside = [one for one in (*rows, *idle) if one.row["kind"] == MEASURED and not one.inside]
    data: list[dict[str, Any]] = [
        {
            **{key: one.row[key] for key in ("model", "quantity", "unit", "kind", "scope")},
            "published": one.value,
            **{f"ours_{name}": round(value, 2) for name, value in one.ours._asdict().items()},
            "inside": one.inside,
            "how": one.how,
        }
        for one in (*rows, *idle)
    ]
    return Report(page(rows, idle, fitted(trace_activities(roots))), failed=bool(outside), data={"rows": data})
