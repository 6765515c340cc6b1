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
from atonc.insight.quantizing.judge import Signal
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
    best = max(theirs, key=lambda label: theirs[label].db)
    return {
        "what": case.what,
        "printed_db": min(made.outputs_db.values()),
        "held_db": ours.db,
        "theirs_db": {label: found.db for label, found in theirs.items()},
        "best": best,
        "gain_db": ours.gain_over(theirs[best]),
        "samples": count,
        "held": case.held,
        "seconds": time.process_time() - started,
    }


def run(arguments: argparse.Namespace) -> Report:
    rows = Kept(arguments.keep, arguments.fresh)
    for key in (key for key in CASES if asked_for(arguments.only, key)):
        with threads(1):  # other work runs beside it
            rows.of(key, lambda key=key: measure(key, CASES[key], arguments.work, arguments.samples))
    return Report(page({key: rows[key] for key in CASES if key in rows}))


def page(rows: dict[str, Any]) -> str:
    worse = [key for key, row in rows.items() if row["gain_db"][1] < 0]
    better = [key for key, row in rows.items() if row["gain_db"][0] > 0]
    heads = ["network", "printed", "held", *(label.removeprefix("ort_") for label in ORT), "gain over the best, 95 %"]
    cells = []
    for key, row in rows.items():
        theirs = [f"{row['theirs_db'][label]:.1f}" if label in row["theirs_db"] else "refused" for label in ORT]
        gain = "{:+.2f} to {:+.2f}".format(*row["gain_db"])
        cells.append([key, f"{row['printed_db']:.1f}", f"{row['held_db']:.1f}", *theirs, gain])
    counted = (
        f"Against the best of onnxruntime's three: surely better on {len(better)} of {len(rows)}, surely worse on "
        f"{len(worse)}{': ' * bool(worse)}{', '.join(worse)}."
    )
    what = table(["network", "what", "samples", "held"],
                 [[key, row["what"], row["samples"], row["held"]] for key, row in rows.items()])  # fmt: skip
    return "\n".join(["# Accuracy that is promised", "", counted, "", *table(heads, cells), "", *what, ""])
