"""A power recording: time beside power, or beside current and voltage, as meters export it; where inferences run in it,
what each took and how sure that is; and the estimate for the same build. Files come from strangers: units are read from
the header or the file is refused, and nothing is guessed.

Read are CSV files with a header. ST's capture script for the STM32N6 (`time,VDDCORE,...,seq_name,...`) is known by its
columns: seconds, watts behind the regulator, and the name of the step that runs.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.recordings.store import Recording
from atonc.insight.explain.folder import folder_view
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.cost.energy import EnergyEstimate
from atonc.machine.hw.machine import Machine

MAX_BYTES, MAX_ROWS, MAX_COLUMNS, MAX_HEADER = 1 << 28, 5_000_000, 64, 4000
LEAST_ROWS = 4
MOST_WATTS = 100.0  # a board that takes more is another board, or its unit another unit
_ZIP = b"PK\x03\x04"
_UNITS = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "current": {"a": 1.0, "ma": 1e-3, "ua": 1e-6, "na": 1e-9},
    "voltage": {"v": 1.0, "mv": 1e-3},
    "power": {"w": 1.0, "mw": 1e-3, "uw": 1e-6},
}
_KINDS = {"timestamp": "time", "t": "time", "i": "current", "u": "voltage", "v": "voltage", "p": "power"}
_NAME = re.compile(r"(?P<name>[a-z]+(?: [a-z]+)*?)\s*(?:[(\[_ ]\s*(?P<unit>[munµ]?[savw])\s*[)\]]?)?", re.IGNORECASE)
_RAILS = ("VDDCORE", "VDDA1V8", "VDDIO", "VDDA1V8_AON")  # columns of ST's script, in watts
STEP_NAME, INFERENCE, DRY_RUN = "seq_name", "nn inference", "dry run"  # its column of steps, and words in it
MARKS = ("mark", "inference", "trigger", "d0", STEP_NAME)
Array = NDArray[np.float64]


@dataclass(frozen=True)
class PowerTrace:
    """Seconds and watts; `marked`: where an inference runs, if the file says so."""

    seconds: Array = field(repr=False)
    watts: Array = field(repr=False)
    marked: NDArray[np.bool_] | None = field(repr=False)
    what: str  # the columns that were used, in words

    @property
    def step_s(self) -> float:
        return float(np.median(np.diff(self.seconds)))


@dataclass(frozen=True)
class PowerOptions:
    """What the file may not say."""

    volts: float = 0.0
    efficiency: float = 1.0  # of regulators between the meter and the chip
    mark: str = ""  # the column that is high, or names the inference, while one runs

    def __post_init__(self) -> None:
        if not 0 <= self.volts <= 60:
            raise InputError(f"--volts is {self.volts:g}", rule="a supply of up to 60 V")
        if not 0 < self.efficiency <= 1:
            raise InputError(f"--efficiency is {self.efficiency:g}", rule="a share above 0 and at most 1")


def read(path: Path, options: PowerOptions) -> PowerTrace:
    where, stored = str(path), read_file(path, MAX_BYTES)
    if stored.startswith(_ZIP) or path.suffix.lower() == ".stpm":
        remedy = "unpack it with any ZIP tool, or export from the tool, and give the CSV with the samples"
        rule = "what lies inside a .stpm is not published, so CSV files are read only"
        raise InputError("is a packed session of a power monitor", where=where, rule=rule, remedy=remedy)
    try:
        text = stored.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", where=where, rule="a CSV file with a header") from None
    return _trace(text, options, where)


def _trace(text: str, options: PowerOptions, where: str) -> PowerTrace:
    lines = (line for line in io.StringIO(text) if line.strip() and not line.startswith("#"))
    first = next(lines, "")
    sep = max(",;\t", key=first.count)
    names = _header(first, sep, where)
    known = _st_columns(names) or _unit_columns(names, where)
    used = _used(known, options, where)
    mark = _mark_column(names, options.mark, where)
    columns = _columns(csv.reader(lines, delimiter=sep), names, {*used, *filter(None, (mark,))}, where)

    def read(kind: str) -> Array:
        name, factor = known[kind]
        return _numbers(columns[name], name, sep == ";", where) * factor

    seconds = read("time")
    if not (np.diff(seconds) > 0).all():
        place = int(np.flatnonzero(np.diff(seconds) <= 0)[0]) + 2
        raise InputError(f"time stands still or goes backwards at sample {place}", where=where, remedy="record again")
    if "power" in known:
        watts, what = read("power"), known["power"][0]
    elif "voltage" in known:
        watts, what = read("current") * read("voltage"), f"{known['current'][0]} x {known['voltage'][0]}"
    else:
        watts, what = read("current") * options.volts, f"{known['current'][0]} x {options.volts:g} V"
    watts = watts * options.efficiency
    if np.abs(watts).max() > MOST_WATTS:
        seen = f"{np.abs(watts).max():.3g} W in {what}"
        raise InputError(seen, where=where, rule=f"at most {MOST_WATTS:g} W", remedy="look at the unit in the header")
    marked = _marked(columns[mark], mark, sep == ";", where) if mark else None
    return PowerTrace(seconds, watts, marked, what)


def _header(line: str, sep: str, where: str) -> list[str]:
    names = [name.strip().strip('"') for name in line.split(sep)] if len(line) <= MAX_HEADER else []
    if not 2 <= len(names) <= MAX_COLUMNS or len(set(names)) < len(names):
        rule = f"the first line names 2 to {MAX_COLUMNS} different columns: time beside power or current"
        raise InputError("has no header", where=where, rule=rule)
    return names


def _columns(rows: Iterator[list[str]], names: list[str], wanted: set[str], where: str) -> dict[str, list[str]]:
    """Cells of the columns that are used, and of no others: captures have twenty."""
    places = [(names.index(name), list[str]()) for name in names if name in wanted]
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                raise InputError(f"sample {number} has {len(row)} cells, the header {len(names)}", where=where)
            if number > MAX_ROWS:
                remedy = "export the part with the inferences"
                raise InputError(f"has more than {MAX_ROWS:,} samples", where=where, remedy=remedy)
            for place, cells in places:
                cells.append(row[place])
    except csv.Error as error:
        raise InputError(f"sample {number + 1} is no line of a CSV file: {str(error)[:60]}", where=where) from None
    if number < LEAST_ROWS:
        raise InputError(f"has {count(number, 'sample')}", where=where, rule=f"at least {LEAST_ROWS}")
    return {names[place]: cells for place, cells in places}


Known = dict[str, tuple[str, float]]  # kind -> column, factor to seconds, amperes, volts or watts


def _st_columns(names: list[str]) -> Known:
    """Knows the columns of ST's script; nothing in other files."""
    rails = [rail for rail in _RAILS if rail in names]
    return {"time": ("time", 1.0), "power": (rails[0], 1.0)} if rails and {"time", STEP_NAME} <= set(names) else {}


def _unit_columns(names: list[str], where: str) -> Known:
    found: Known = {}
    for column in names:
        match = _NAME.fullmatch(column)
        word = (match["name"] if match else column or "?").split()[-1].lower()
        kind = _KINDS.get(word, word)
        if kind not in _UNITS or kind in found:
            continue
        unit = (match["unit"] or "").replace("µ", "u").lower() if match else ""
        if unit not in _UNITS[kind]:
            units = ", ".join(_UNITS[kind])
            remedy = f"name the column as in `{kind} ({units.split(', ')[1]})`"
            raise InputError(f"column {column[:40]!r} has no unit", where=where, rule=f"one of {units}", remedy=remedy)
        found[kind] = column, _UNITS[kind][unit]
    return found


def _used(known: Known, options: PowerOptions, where: str) -> list[str]:
    """The columns that give seconds and watts."""
    if "time" not in known:
        raise InputError("has no column of time", where=where, remedy="name it as in `time (ms)`")
    if "power" not in known and "current" not in known:
        raise InputError("has no column of power or current", where=where, remedy="name it as in `current (mA)`")
    if not {"power", "voltage"} & known.keys() and not options.volts:
        raise InputError("has current but no voltage", where=where, remedy="say what the meter supplied: --volts 3.3")
    return [name for name, _ in known.values()]


def _numbers(cells: list[str], name: str, comma: bool, where: str) -> Array:
    """`comma`: it is the point of a number, where semicolons part the columns."""
    found = np.array([_number(cell.replace(",", ".") if comma else cell) for cell in cells])
    if not np.isfinite(found).all():
        place = int(np.flatnonzero(~np.isfinite(found))[0])
        seen = f"column {name[:40]!r} has no number at sample {place + 1}: {cells[place][:20]!r}"
        raise InputError(seen, where=where, remedy="record again")
    return found


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _mark_column(names: list[str], asked: str, where: str) -> str:
    by_name = {name.lower(): name for name in names}
    if asked and asked.lower() not in by_name:
        raise InputError(f"has no column {asked[:40]!r}", where=where, rule=f"one of {', '.join(names)[:200]}")
    return by_name.get(asked.lower()) or next((by_name[mark] for mark in MARKS if mark in by_name), "")


def _marked(cells: list[str], name: str, comma: bool, where: str) -> NDArray[np.bool_]:
    if name == STEP_NAME:
        return _steps_marked([cell.strip().replace("_", " ") for cell in cells], where)
    levels = _numbers(cells, name, comma, where)
    return levels > (levels.min() + levels.max()) / 2


def _steps_marked(cells: list[str], where: str) -> NDArray[np.bool_]:
    """ST's application may run the network at several clocks, each under a name: those are not averaged."""
    wanted = sorted({cell for cell in set(cells) if cell.startswith(INFERENCE) and DRY_RUN not in cell})
    if len(wanted) > 1:
        seen = f"has inferences of several kinds: {', '.join(wanted)[:120]}"
        raise InputError(seen, where=where, rule="all inferences ran alike", remedy="keep the lines of one of them")
    return np.array([cell in wanted for cell in cells])


LEAST_SAMPLES = 8  # of a window: fewer are all edge
MOST_WINDOWS = 100_000
_GAP = 10  # times the usual step: then samples are missing
_AS_LONG = 0.2  # how far a burst may be from the recorded time of its inference
_IDLE, _BUSY = 10, 90  # percentiles of the power between which bursts begin and end
_SURE = 2.0  # standard errors


@dataclass(frozen=True)
class PowerWindow:
    """One inference: when it began, how long it ran, microjoules, and what its two edges may be off."""

    start_s: float
    milliseconds: float
    uj: float
    edge_uj: float


@dataclass(frozen=True)
class MeasuredEnergy:
    windows: tuple[PowerWindow, ...]
    found_by: str  # marks, or times of a recording

    @property
    def uj(self) -> float:
        return fmean(window.uj for window in self.windows)

    @property
    def within_uj(self) -> float:
        """Two standard errors of the mean, and what the edges between samples may be off."""
        energies = [window.uj for window in self.windows]
        spread = _SURE * stdev(energies) / sqrt(len(energies)) if len(energies) > 1 else 0.0
        return spread + fmean(window.edge_uj for window in self.windows)

    @property
    def milliseconds(self) -> float:
        return fmean(window.milliseconds for window in self.windows)

    @property
    def milliwatts(self) -> float:
        return self.uj / self.milliseconds


def measure(trace: PowerTrace, milliseconds: Sequence[float] = ()) -> MeasuredEnergy:
    """By its marks; without any by bursts that are as many and as long as the inferences of a recording."""
    if trace.marked is not None:
        windows, found_by = _runs(trace.marked), "marks in the file"
    elif milliseconds:
        windows, found_by = _bursts(trace, milliseconds), "times of the recording"
    else:
        rule = "marks, or a recording with their times"
        remedy = "record a pin that is high while an inference runs (--mark COLUMN), or give --recording board.npz"
        raise InputError("nothing says where inferences run", rule=rule, remedy=remedy)
    found = MeasuredEnergy(tuple(_window(trace, first, last) for first, last in windows), found_by)
    if found.uj <= 0:
        rule, remedy = "a board takes power", "turn the probe round, or the sign of the exported column"
        raise InputError(f"{found.milliwatts:.4g} mW while inferences run", rule=rule, remedy=remedy)
    return found


def _runs(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last sample of every run that begins and ends inside the file."""
    edges = np.flatnonzero(np.diff(marked.astype(np.int8)))
    starts, ends = edges[~marked[edges]] + 1, edges[marked[edges]]
    ends = ends[ends >= starts[0]] if len(starts) else ends[:0]
    found = list(zip(starts.tolist(), ends.tolist(), strict=False))
    if not found:
        raise InputError("no inference begins and ends in this recording", rule="marks go up and down again")
    if len(found) > MOST_WINDOWS:
        raise InputError(f"{len(found):,} inferences, at most {MOST_WINDOWS:,} are read")
    return found


def _bursts(trace: PowerTrace, milliseconds: Sequence[float]) -> list[tuple[int, int]]:
    idle, busy = np.percentile(trace.watts, (_IDLE, _BUSY))
    found = _runs(trace.watts > (idle + busy) / 2)
    least = min(milliseconds) * (1 - _AS_LONG)
    long = [run for run in found if _length_ms(trace, *run) >= least]
    fits = len(long) == len(milliseconds) and all(
        abs(_length_ms(trace, *run) / ms - 1) <= _AS_LONG for run, ms in zip(long, milliseconds, strict=False)
    )
    if not fits:
        seen = f"{len(long)} bursts of {least:.3g} ms or more, the recording has {len(milliseconds)} inferences"
        remedy = "record a pin that is high while an inference runs (--mark COLUMN)"
        raise InputError(seen, rule=f"as many, each within {_AS_LONG:.0%} of its time", remedy=remedy)
    return long


def _length_ms(trace: PowerTrace, first: int, last: int) -> float:
    return 1e3 * float(trace.seconds[last] - trace.seconds[first] + trace.step_s)


def _window(trace: PowerTrace, first: int, last: int) -> PowerWindow:
    """Every sample stands for the step around it."""
    count, start = last - first + 1, float(trace.seconds[first])
    if count < LEAST_SAMPLES:
        remedy = "sample faster, or record several inferences under one mark"
        raise InputError(f"an inference at {start:.6f} s has {count} samples", rule=f"{LEAST_SAMPLES}", remedy=remedy)
    seconds, watts, step = trace.seconds[first : last + 1], trace.watts[first : last + 1], trace.step_s
    steps = np.diff(seconds)
    if steps.max() > _GAP * step:
        raise InputError(f"samples are missing near {float(seconds[int(steps.argmax())]):.6f} s", remedy="record again")
    joules = float((watts[1:] + watts[:-1]) @ steps) / 2 + step * float(watts[0] + watts[-1]) / 2
    edge = step * float(abs(watts[0]) + abs(watts[-1])) / 2
    return PowerWindow(start, _length_ms(trace, first, last), 1e6 * joules, 1e6 * edge)


def estimate(folder: Path, recording: Recording | None) -> EnergyEstimate:
    """Clocks are those of the recording, where it tells them, else those of the build."""

    def clocked(machine: Machine) -> Machine:
        if recording is None:
            return machine
        ran = recording.ran_with
        clocks = {"cpu_mhz": ran.cpu_hz / 1e6} | ({"npu_mhz": ran.npu_hz / 1e6} if ran.npu_hz else {})
        return machine.with_clocks(**clocks)

    found = folder_view(folder, adjust=clocked).energy
    if not found.known:
        raise InputError("its files do not tell what its epochs do", where=str(folder), remedy="give the whole folder")
    return found
