"""Networks built to saturate: is any layer wrong in silence?

Each network of `tests/compiler/saturating.py` is compiled with its verification and compared with exact arithmetic on
fifteen further inputs. `--models`: real ones as well, as verified. `--cycles`: predicted cycles of the NPU by model,
before and after ({"model": {"npu": cycles}}), whose ratio goes into the page.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.select.rules import COARSE, SUM_ROOM
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import model
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report, argument
from benchmarks.shared.tables import geometric_mean
from tests.compiler.saturating import Verdict, judge, saturating_graph

GROUP = "truth"
ARGUMENTS = (
    argument("--networks", type=int, default=300),
    MODEL_FILES,
    argument("--cycles", type=Path, nargs=2, metavar="FILE"),
    WRITE,
)

HEAD = """# Networks built to saturate

{networks} networks: dense layers with 2,000 to 12,000 inputs, convolutions over up to 4,096 channels, windows of 3x3 to
7x7, depthwise ones; weights of one sign, of one sign for the first half of the channels, rows of taps against each
other; features that are all positive, zero points far out, channels whose scales differ a thousandfold, outputs whose
codes show all sums, a tenth or a thousandth of them. Each is compiled with its verification (three inputs on the
emulator) and compared with exact arithmetic on 15 further inputs: natural ones, noise, values at the ends of their
range, flat ones. *Wrong* is a layer more than 2 codes off.

| what became of the layer | networks | most codes off | least room |
|---|---|---|---|
"""


def fate(verdict: Verdict) -> str:
    if verdict.refused:
        return "the verification refuses the program"
    if verdict.on_cpu:
        return f"CPU: {', '.join(sorted(set(verdict.on_cpu)))}"
    return "NPU, no input saturates it" if verdict.room == math.inf else "NPU, room for more than typical inputs"


def rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for name, count in sorted(Counter(map(fate, verdicts)).items()):
        some = [v for v in verdicts if fate(v) == name]
        room = min(v.room for v in some)
        yield f"| {name} | {count} | {max(v.off for v in some):g} | {'' if room == math.inf else f'{room:.2f}'} |"
    yield f"| **wrong** | **{sum(v.wrong for v in verdicts)}** | | |"


def judged(count: int) -> list[Verdict]:
    found = []
    for seed in range(count):
        found.append(judge(saturating_graph(seed)))
        if found[-1].wrong or found[-1].refused:
            print(f"network {seed}: {found[-1]}", flush=True)
    return found


def models(files: Sequence[Path]) -> Iterator[str]:
    yield "\n| model | layers | most codes off | sums | sent to the CPU for it |\n|---|---|---|---|---|"
    for file in files:
        try:
            compiled = compile_file(file, Options())
        except AtoncError as error:
            yield f"| {file.stem} | | refused | {str(error)[:120]} | |"
            continue
        report = compiled.report
        assert report is not None
        there = [f"{r.node} ({r.rule.id})" for r in compiled.mapped.reasons if r.rule in (COARSE, SUM_ROOM)]
        yield f"| {file.stem} | {report.layers} | {report.worst_layer:g} | {report.sums} | {', '.join(there)} |"


def cycles(before: Path, after: Path) -> str:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    ratios = [new[name]["npu"] / old[name]["npu"] for name in old if old[name].get("npu") and new[name].get("npu")]
    mean = geometric_mean(ratios)
    return (
        f"\nPrice: predicted cycles of the NPU over {len(ratios)} models of the corpus are {mean:.4f} of those before "
        f"(geometric mean; from {min(ratios):.4f} to {max(ratios):.4f}).\n"
    )


def run(arguments: argparse.Namespace) -> Report:
    price = cycles(*arguments.cycles) if arguments.cycles else ""  # first: a wrong file shows before the long part
    verdicts = judged(arguments.networks)
    text = HEAD.format(networks=len(verdicts)) + "\n".join(rows(verdicts)) + "\n"
    text += price
    text += "\n".join(models([model(name) for name in arguments.models])) + "\n" if arguments.models else ""
    return Report(text, failed=any(v.wrong for v in verdicts))
