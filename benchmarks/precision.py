"""Does the accuracy that `atonc quantize` prints hold on new data, and is it at least onnxruntime's?

Small float networks that nobody tuned the quantiser on (`shared/precision_cases.py`: made data, weights trained here).
Each quantiser gets the same samples and its default settings; all are judged in the chip's arithmetic (the engine of
`atonc evaluate`) on samples of another seed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.judge import Signal, decibels
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.observe import outputs, threads
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import AtoncError
from benchmarks.quantize import ORT, by_onnxruntime, like
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FRESH, KEEP, ONLY, SAMPLES, WORK, WRITE, Report
from benchmarks.shared.kept import Kept
from benchmarks.shared.precision_cases import CASES, Case, trained
from benchmarks.shared.tables import table

GROUP = "quantising"
ARGUMENTS = (
    WORK.but(required=True, help="the trained float networks lie there, or are made there"),
    ONLY,
    SAMPLES.but(default=100, help="so many calibrate each"),
    KEEP,
    FRESH,
    WRITE,
)
CALIBRATING, HELD = 0, 1  # seeds of the splits


def measure(key: str, case: Case, folder: Path, count: int) -> dict[str, Any]:
    started = time.process_time()
    path = trained(case, folder / f"{key}.onnx")
    learnt, held = case.inputs(CALIBRATING, count), case.inputs(HELD, case.held)
    tidy = load(path, {})
    (name,) = FloatGraph(tidy).inputs
    feeds = [{name: value} for value in held]
    reference = outputs(tidy, feeds)

    def judged(data: bytes) -> Signal:
        return Signal.of(reference, like(reference, chip_outputs(compiled_model(data, QuantizeOptions().board), feeds)))

    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "samples.npz"
        np.savez(data, **{name: learnt})
        made = quantize(path, data, QuantizeOptions(samples=count, threads=1))
    ours = judged(made.model)
    theirs = dict[str, Signal]()
    for label, method in ORT.items():
        try:
            theirs[label] = judged(by_onnxruntime(tidy, name, learnt, method))
        except AtoncError as error:
            print(key, label, error.one_line)
    (printed,) = made.outputs
    best = max(theirs, key=lambda label: theirs[label].db)
    return {
        "what": case.what,
        "printed_db": printed.snr_db,
        "interval_db": printed.interval_db,
        "clipped": printed.clipped,
        "values": printed.values,
        "held_db": ours.db,
        "theirs_db": {label: found.db for label, found in theirs.items()},
        "pooled_db": [pooled_db(ours), max(map(pooled_db, theirs.values()))],
        "best": best,
        "gain_db": ours.gain_over(theirs[best]),
        "samples": count,
        "held": case.held,
        "seconds": time.process_time() - started,
    }


def pooled_db(found: Signal) -> float:
    """Takes the energy of all samples together, which the loudest of them decide."""
    return float(decibels(found.signal.sum(0), found.noise.sum(0)))


def run(arguments: argparse.Namespace) -> Report:
    rows = Kept(arguments.keep, arguments.fresh)
    for key in (key for key in CASES if asked_for(arguments.only, key)):
        with threads(1):  # other work runs beside it
            rows.of(key, lambda key=key: measure(key, CASES[key], arguments.work, arguments.samples))
    return Report(page({key: rows[key] for key in CASES if key in rows}))


def page(rows: dict[str, Any]) -> str:
    worse = [key for key, row in rows.items() if row["gain_db"][1] < 0]
    better = [key for key, row in rows.items() if row["gain_db"][0] > 0]
    inside = [key for key, row in rows.items() if row["interval_db"][0] <= row["held_db"] <= row["interval_db"][1]]
    heads = ["network", "printed (95 % of new samples)", "held", *(label.removeprefix("ort_") for label in ORT),
             "gain over the best, 95 %", "values clipped", "pooled: ours, their best"]  # fmt: skip
    cells = []
    for key, row in rows.items():
        theirs = [f"{row['theirs_db'][label]:.1f}" if label in row["theirs_db"] else "refused" for label in ORT]
        printed = f"{row['printed_db']:.1f} ({span(row['interval_db'], '.1f')})"
        clipped = "" if row["clipped"] is None else f"{row['clipped']:,} of {row['values']:,}"
        pooled = ", ".join(f"{db:.1f}" for db in row["pooled_db"])
        cells.append([key, printed, f"{row['held_db']:.1f}", *theirs, span(row["gain_db"], "+.2f"), clipped, pooled])
    missed = [key for key in rows if key not in inside]
    counted = (
        f"The printed interval holds the held figure on {len(inside)} of {len(rows)}{listed(missed, 'not on')}. "
        f"Against the best of onnxruntime's three: surely better on {len(better)}, surely worse on {len(worse)}"
        f"{listed(worse)}."
    )
    heads_of_what = ["network", "what", "samples", "held", "seconds of processor time"]
    what = table(heads_of_what, ([key, *(row[name] for name in ("what", "samples", "held")), f"{row['seconds']:.0f}"]
                                 for key, row in rows.items()))  # fmt: skip
    return "\n".join([INTRODUCTION, counted, "", *table(heads, cells), "", *what, ""])


def span(ends: list[float], form: str) -> str:
    return f"{ends[0]:{form}} to {ends[1]:{form}}"


def listed(names: list[str], words: str = "") -> str:
    return f" ({' '.join([words, ', '.join(names)]).strip()})" if names else ""


INTRODUCTION = """# Accuracy that one can plan with

Small float networks that nobody tuned the quantiser on: made data, weights trained here for half a minute
(`shared/precision_cases.py`). `atonc quantize` and onnxruntime's `quantize_static` (three calibrators, int8, weights by
channel) get the same samples and their default settings. All are judged in the chip's arithmetic (the engine of `atonc
evaluate`) on samples of another seed, which no quantiser saw. dB: the mean over the samples of each sample's signal to
noise against float. *Printed* is what `quantize` says, with its interval; *held* is to lie inside. The gain is that
over the best of onnxruntime's three on the held samples, drawn again and again. *Pooled* is the energy of all held
samples over that of all their errors, which a few loud samples decide: no choice follows it. Nothing here ran on a
board.
"""
