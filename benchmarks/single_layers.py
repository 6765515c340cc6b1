"""Networks of one layer and a mean: what ours take by the calibrated model against what ST's took on boards.

Measured: the fastest run of any release at 800 and 1000 MHz (`figures/bench_n6.csv`, programmed by the CPU). `--more`
has the two models of the same repository that are not in the corpus (Magnus3327/stm32n6-edge-ai-benchmarks,
`Models/baseline`). `--save` keeps the figures, for a later run to stand beside as *before*.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import BEFORE, SAVE, WRITE, Report, argument
from benchmarks.shared.kept import read, write
from benchmarks.shared.tables import geometric_mean

GROUP = "speed"
ARGUMENTS = (
    argument("--more", type=Path, metavar="DIR", help="the two models that are not in the corpus"),
    BEFORE,
    SAVE,
    WRITE,
)

CLOCKS = "mcu_freq=800MHz,noc_freq=400MHz,npu_freq=1000MHz"
MORE = {"baseline_conv2d_32f_7x7_int8": 0.462, "baseline_depthwise_3x3_int8": 0.031}  # 2.2.0 and 4.0.0
HEAD = """# Single layers against ST's

Each network is one convolution (and a pooling) on 64x64x3 and a mean. *ours*: the calibrated model, epochs programmed
by the controller. *ST*: the fastest measured run of any release on a board, 800/1000 MHz, programmed by the CPU.

| network | before ms | epochs | ours ms | ST ms | ours / ST |
|---|---:|---:|---:|---:|---:|
"""


def measured(corpus: Path) -> dict[str, float]:
    """Milliseconds by model, the least of all runs at these clocks."""
    found = dict(MORE)
    with (corpus / "figures" / "bench_n6.csv").open() as file:
        for row in csv.reader(file):
            name, milliseconds = row[0], row[3]
            if name.startswith("baseline_") and any(CLOCKS in cell for cell in row):
                found[name] = min(float(milliseconds), found.get(name, math.inf))
    return found


def predicted(model: Path) -> tuple[float, int]:
    steps = analyze(model, Options(verify=False)).cost.steps
    return sum(step.milliseconds for step in steps), len(steps)


def run(arguments: argparse.Namespace) -> Report:
    corpus = corpus_dir()
    folders = [corpus / "models", *([arguments.more] if arguments.more else [])]
    models = sorted(path for folder in folders for path in folder.glob("baseline_*.tflite"))
    before = read(arguments.before)
    st, ours = measured(corpus), {model.stem: predicted(model) for model in models}
    rows = [
        f"| {name} | {before[name][0] if name in before else math.nan:.3f} | {epochs} | {ms:.3f} | {st[name]:.3f} "
        f"| {ms / st[name]:.2f} |"
        for name, (ms, epochs) in ours.items()
    ]
    mean = geometric_mean(ms / st[name] for name, (ms, _) in ours.items())
    text = HEAD + "\n".join([*rows, "", f"Geometric mean {mean:.2f}.", ""])
    if arguments.save:
        write(arguments.save, ours)
    return Report(text)
