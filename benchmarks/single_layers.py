"""Networks of one layer and a mean: what ours take by the calibrated model against what ST's took on boards.

    python benchmarks/single_layers.py [--more FOLDER] [--before FILE.json] [--save FILE.json] [--write]

Measured: the fastest run of any release at 800 and 1000 MHz (`figures/bench_n6.csv`, programmed by the CPU). FOLDER has
the two models of the same repository that are not in the corpus (Magnus3327/stm32n6-edge-ai-benchmarks,
`Models/baseline`). `--save` keeps the figures, for a later run to stand beside as *before*.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path

from fetched import corpus_dir

from atonc.app.generating import analyze
from atonc.options import Options

RESULTS = Path(__file__).parent / "results" / "single_layers.md"
CLOCKS = "mcu_freq=800MHz,noc_freq=400MHz,npu_freq=1000MHz"
MORE = {"baseline_conv2d_32f_7x7_int8": 0.462, "baseline_depthwise_3x3_int8": 0.031}  # 2.2.0 and 4.0.0
HEAD = """# Single layers against ST's

2026-11-16, 2-core aarch64 Linux; `python benchmarks/single_layers.py --more FOLDER --write`. Each network is one
convolution (and a pooling) on 64x64x3 and a mean. *ours*: the calibrated model, epochs programmed by the controller.
*ST*: the fastest measured run of any release on a board, 800/1000 MHz, programmed by the CPU.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    corpus = corpus_dir()
    folders = [corpus / "models", *([options.more] if options.more else [])]
    models = sorted(path for folder in folders for path in folder.glob("baseline_*.tflite"))
    before = json.loads(options.before.read_text()) if options.before else {}
    st, ours = measured(corpus), {model.stem: predicted(model) for model in models}
    rows = [
        f"| {name} | {before[name][0] if name in before else math.nan:.3f} | {epochs} | {ms:.3f} | {st[name]:.3f} "
        f"| {ms / st[name]:.2f} |"
        for name, (ms, epochs) in ours.items()
    ]
    mean = math.exp(sum(math.log(ms / st[name]) for name, (ms, _) in ours.items()) / len(ours))
    text = HEAD + "\n".join([*rows, "", f"Geometric mean {mean:.2f}.", ""])
    print(text)
    if options.save:
        options.save.write_text(json.dumps(ours))
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
