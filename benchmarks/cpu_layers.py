"""Which layers of a folder of models run on the processor, by which rule, and what they cost: what to mend next.

    OMP_NUM_THREADS=1 python benchmarks/cpu_layers.py FOLDER [--only TEXT] [--cache FILE] [--limit S] [--write]
    OMP_NUM_THREADS=1 python benchmarks/cpu_layers.py FOLDER --again NAME... --cache FILE [--write]

FOLDER holds .tflite and .onnx files; nothing is downloaded. Models are compiled without verification (that is the
business of public_models.py), small ones first; the cache keeps what is done, so that a run may be stopped. `--again`
compiles the models whose names end so and puts them into a section of their own behind the table that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atonc.cost.program import program_cost
from atonc.errors import AtoncError
from atonc.options import Options
from atonc.pipeline import Compiled, compile_file, memories

RESULTS = Path(__file__).parent / "results" / "cpu_layers.md"
EDGES = ("quantize", "dequantize", "softmax", "arg_max")
HEAD = """# Layers on the CPU

Date 2026-11-15, 2-core aarch64 Linux. Script: `benchmarks/cpu_layers.py`; the models (the int8 files of ST's model zoo
with its history) are not part of this repository. Times are predicted by the cycle model, never measured. Models
without a layer that the day's changes touch were compiled before those changes.

"""

Record = dict[str, Any]


@dataclass
class Line:
    """All layers of one kind that one rule sent to the CPU."""

    layers: int = 0
    milliseconds: float = 0.0
    models: set[str] = field(default_factory=set)
    worst: tuple[float, str] = (0.0, "")


def judge(model: Path, options: Options) -> Record:
    try:
        compiled = compile_file(model, options)
    except AtoncError as error:
        return {"model": model.name, "refused": str(error)}
    cost = program_cost(compiled.program, compiled.graph, memories(options).pools)
    total = sum(step.milliseconds for step in cost.steps)
    return {"model": model.name, "ms": total, "cpu": list(_on_cpu(compiled, cost.steps))}


def _on_cpu(compiled: Compiled, costs: Any) -> Iterator[tuple[str, str, float]]:
    rules = {reason.name: (reason.op, reason.rule) for reason in compiled.mapped.reasons}
    for step, cost in zip(compiled.program.steps, costs, strict=True):
        if cost.bound_by == "cpu":
            kind, rule = rules[step.plan.op]  # type: ignore[union-attr]
            yield kind, rule, cost.milliseconds


def report(records: list[Record], left: list[str]) -> str:
    done = [record for record in records if "ms" in record]
    lines: dict[tuple[str, str], Line] = defaultdict(Line)
    for record in done:
        for kind, rule, milliseconds in record["cpu"]:
            line = lines[kind, rule]
            line.layers += 1
            line.milliseconds += milliseconds
            line.models.add(record["model"])
            line.worst = max(line.worst, (milliseconds / record["ms"], record["model"]))
    total = sum(record["ms"] for record in done)
    inner = sum(line.milliseconds for (kind, _), line in lines.items() if kind not in EDGES)
    text = [
        f"{len(records)} models: {len(done)} compiled, {len(records) - len(done)} refused. {total:.0f} ms in all, of "
        f"these {sum(line.milliseconds for line in lines.values()):.1f} ms on the CPU; {inner:.2f} ms of that is "
        f"neither {', '.join(EDGES[:-1])} nor {EDGES[-1]}.",
        "",
        "| operator | rule | layers | models | ms | share of all | largest share of a model | in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (kind, rule), line in sorted(lines.items(), key=lambda item: -item[1].milliseconds):
        share, name = line.worst
        cells = (kind, rule, line.layers, len(line.models), f"{line.milliseconds:.2f}",
                 f"{line.milliseconds / total:.2%}", f"{share:.1%}", name)  # fmt: skip
        text.append(f"| {' | '.join(map(str, cells))} |")
    refused = [f"- {record['model']}: {record['refused']}" for record in records if "refused" in record]
    later = ["", "## Not compiled yet", "", *(f"- {name}" for name in left)] if left else []
    return HEAD + "\n".join([*text, "", "## Refused", "", *(refused or ["None."]), *later, ""])


AGAIN = "## Compiled again or for the first time since\n"
LEFT = """Since the table above, quotients of two tensors run on the NPU, long transpositions take another epoch, and
float functions behind the model's own dequantisation are looked up. What is left of elementwise operators in these
models works on float values or on 32-bit positions by the model's own choice: the index arithmetic behind MoveNet's
arg_max (1 and 17 numbers), the sigmoid of the speech enhancer (a table of 256 floats).

The later survey (public_models.md, verified programs) has 142 files of the zoo: quantize, dequantize and softmax are
all that is on the CPU there. So no convolution, pooling, resize or elementwise operator on codes of a zoo model is."""


def section(records: list[Record]) -> str:
    """Model by model: what is left on the CPU."""
    text = [AGAIN, LEFT, ""]
    text += ["| model | ms | on the CPU | neither edge nor softmax | what that is |", "|---|---|---|---|---|"]
    for record in sorted(records, key=lambda record: str(record["model"])):
        name = record["model"].rsplit("__", 1)[-1]
        if "refused" in record:
            text.append(f"| {name} | refused | | | {record['refused']} |")
            continue
        inner: dict[str, float] = defaultdict(float)
        for kind, rule, milliseconds in record["cpu"]:
            if kind not in EDGES:
                inner[f"{kind} ({rule})"] += milliseconds
        what = ", ".join(f"{kind} {ms:.3f}" for kind, ms in sorted(inner.items(), key=lambda item: -item[1]))
        cpu = sum(milliseconds for _, _, milliseconds in record["cpu"])
        text.append(f"| {name} | {record['ms']:.2f} | {cpu:.2f} | {sum(inner.values()):.3f} | {what or 'nothing'} |")
    return "\n".join([*text, ""])


def again(options: argparse.Namespace) -> None:
    known = [json.loads(line) for line in options.cache.read_text().splitlines()] if options.cache.exists() else []
    records = {record["model"]: record for record in known}
    for file in sorted(f for f in options.folder.iterdir() if f.name.endswith(tuple(options.again))):
        if file.name not in records:
            records[file.name] = judge(file, Options(verify=False))
            with options.cache.open("a") as cache:
                cache.write(json.dumps(records[file.name]) + "\n")
    page = RESULTS.read_text().split(AGAIN)[0].rstrip("\n") + "\n\n" + section(list(records.values()))
    RESULTS.write_text(page) if options.write else print(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path, default=Path("cpu_layers.jsonl"))
    parser.add_argument("--limit", type=float, default=570.0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--again", nargs="+", metavar="NAME")
    options = parser.parse_args()
    if options.again:
        again(options)
        return
    known = [json.loads(line) for line in options.cache.read_text().splitlines()] if options.cache.exists() else []
    records = {record["model"]: record for record in known}
    files = [file for file in options.folder.iterdir() if file.suffix in (".tflite", ".onnx")]
    end = time.monotonic() + options.limit
    for file in sorted(files, key=os.path.getsize):
        if file.name in records or options.only not in file.name or time.monotonic() > end:
            continue
        records[file.name] = judge(file, Options(verify=False))
        with options.cache.open("a") as cache:
            cache.write(json.dumps(records[file.name]) + "\n")
    left = sorted(file.name for file in files if file.name not in records)
    text = report(sorted(records.values(), key=lambda record: str(record["model"])), left)
    RESULTS.write_text(text) if options.write else print(text)


if __name__ == "__main__":
    main()
