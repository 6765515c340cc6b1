"""Is the verdict of `atonc validate` the same with and without the packages of reference kernels?

Every model is validated twice, each time in a process of its own, with default options: as it is installed here, and
with the import of these packages blocked. Models are small ones of the corpus, and networks that make every rounding
larger (tests/frontends/chaotic.py), whose outputs no two correct roundings agree on. Then a few with planted mistakes:
outputs whose values are one place off, which only the outputs show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from atonc.insight.validating.judging import UNJUDGED
from benchmarks.shared import tables
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.declare import COUNT, FRESH, KEEP, MODEL_FILES, WRITE, Report
from benchmarks.shared.kept import Kept
from tests.frontends.chaotic import chaotic

GROUP = "truth"
ARGUMENTS = (COUNT.but(default=40, help="models"), MODEL_FILES, KEEP, FRESH, WRITE)

PACKAGES = ("ai_edge_litert", "onnxruntime", "tflite_runtime", "tensorflow")
MADE = ((8, 1.5, 0), (16, 2.0, 1), (24, 2.5, 0), (24, 2.5, 2), (40, 3.0, 3), (60, 4.0, 4))  # depth, gain, seed
_BLOCK = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r})); "
_VALIDATE = "import sys; from atonc.doors.cli.cli import main; sys.exit(main({words!r}))"

_PLANT = """
import numpy as np
from atonc.compiler.verify.emulation import Emulation
right = Emulation.run
def displaced(self, *given, **more):
    found = right(self, *given, **more)
    return {**found, **{name: np.roll(found[name], 1) for name in self.graph.outputs}}
Emulation.run = displaced
"""
_EVERY, _LAST = 10, 4  # models that get planted mistakes: every tenth, and the last ones

Record = dict[str, Any]


def judge(model: Path, planted: bool = False) -> Record:
    plant, more = (_PLANT, ["--io-only"]) if planted else ("", [])
    return {key: _validated(model, block + plant, *more) for key, block in (("with", ""), ("without", _BLOCK))}


def _validated(model: Path, before: str, *more: str) -> Record:
    """`before`: what the process does first."""
    program = f"{before}\n{_VALIDATE.format(words=['validate', str(model), '--json', *more])}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    if "error" in found:
        return {"exit_code": done.returncode, "verdict": "refused", "why": found["error"]["what"]}
    outputs = [output["verdict"] for output in found["outputs"]]
    worst = min((output["cos"] for output in found["outputs"]), default=1.0)
    return {"exit_code": done.returncode, "verdict": found["verdict"], "outputs": outputs, "cos": worst}


def same(record: Record) -> bool:
    """Whether nobody is told otherwise: what cannot be judged without the packages may be anything with them."""
    return record["without"]["verdict"] == UNJUDGED or record["with"]["verdict"] == record["without"]["verdict"]


def _said(one: Record) -> str:
    outputs = ", ".join(f"{number} {verdict}" for verdict, number in Counter(one.get("outputs", ())).items())
    cosine = f", cosine {one['cos']:.4f}" if "cos" in one else ""
    return f"{one['verdict']} ({one['exit_code']}){': ' * bool(outputs)}{outputs}{cosine}"


def report(records: dict[str, Record]) -> str:
    pairs = Counter((one["with"]["verdict"], one["without"]["verdict"]) for one in records.values())
    other = [name for name, one in records.items() if not same(one)]
    lines = [
        "# `atonc validate` with and without the reference packages",
        "",
        "The verdict of each model (exit code), and its outputs: with the packages of reference kernels, and with",
        f"their import blocked ({', '.join(PACKAGES)}).",
        f"A verdict that needs them is *{UNJUDGED}* without them. The cosine is to the first of the kernels that ran,",
        "which are others in the two columns. *made*: networks that make every rounding larger (depth, gain, seed).",
        "*outputs displaced*: a planted mistake, every value one place off, looked for in outputs alone (--io-only);",
        "where correct roundings have nothing in common the outputs cannot show it, which is why layers are checked.",
        "",
        f"{len(records)} rows, {len(other)} with another verdict{': ' * bool(other)}{', '.join(other)}.",
        "",
        "| with | without | rows |",
        "|---|---|---|",
        *(tables.row((a, b, number)) for (a, b), number in pairs.most_common()),
        "",
        "| model | with | without |",
        "|---|---|---|",
        *(tables.row((name, _said(one["with"]), _said(one["without"]))) for name, one in records.items()),
        "",
    ]
    return "\n".join(lines)


def models(folder: Path, arguments: argparse.Namespace) -> Iterator[Path]:
    """The smallest of the corpus, and made ones."""
    made = () if arguments.models else MADE
    yield from by_size(chosen(arguments))[: arguments.count - len(made)]
    for depth, gain, seed in made:
        file = folder / f"made_{depth}_{gain:g}_{seed}.tflite"
        file.write_bytes(chaotic(depth, gain, seed))
        yield file


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    with TemporaryDirectory() as folder:
        files = list(models(Path(folder), arguments))
        records = {one.name: kept.of(one.name, partial(judge, one)) for one in files}
        for one in (*files[::_EVERY], *files[-_LAST:]):
            name = f"{one.name}, outputs displaced"
            records[name] = kept.of(name, partial(judge, one, True))
    return Report(report(records), failed=not all(map(same, records.values())))
