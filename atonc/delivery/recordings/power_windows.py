"""Where inferences run in a power recording, what each took, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.recordings.power import PowerTrace
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

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
