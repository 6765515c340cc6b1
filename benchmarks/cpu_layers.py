"""Which layers of many models run on the processor, by which rule, what they cost, and how to avoid it.

Folders and FILE are those of `public_models`, which compiles and verifies every model and notes what ran on the CPU.
Models with more there than their ends are compiled here once more, without verification, to see what each layer costs;
nothing is downloaded.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.select.rules import RULES
from atonc.machine.base.errors import AtoncError
from benchmarks.public_models import distinct
from benchmarks.shared import tables as markdown
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FOLDERS, FRESH, KEEP, ONLY, SECONDS, WRITE, Report, argument
from benchmarks.shared.kept import KeptLines
from benchmarks.shared.public_models_report import Model

GROUP = "speed"
ARGUMENTS = (
    FOLDERS,
    argument("--survey", type=Path, required=True, metavar="FILE", help="what public_models kept"),
    KEEP.but(default=Path("cpu_layers.jsonl")),
    FRESH,
    ONLY,
    SECONDS.but(default=570.0),
    WRITE,
)

ENDS = ("quantize", "dequantize", "softmax", "log_softmax", "arg_max", "arg_min")
FLOAT = "CPU-FLOAT"  # operators that the model itself has in float or wide integers
ZOO = "STMicroelectronics/stm32ai-modelzoo"
HEAD = """# Layers on the CPU

The models are those of
[public_models.md](public_models.md), and are not part of this repository. Times are predicted by the cycle model, never
measured.

"""

EARLIER = """Those were compiled a day before, all but eight, without verification: beyond their ends, only the index
arithmetic behind MoveNet's arg_max (1 and 17 numbers, float or 32 bits) and a function of floats in the speech enhancer
stft_tcnn were on the CPU."""

Record = dict[str, Any]


# ------------------------------------------------------------------------------------------------------------- models


def judge(model: Model) -> Record:
    asked: Record = {name: tuple(value) if isinstance(value, list) else value for name, value in model.asked.items()}
    options = replace(Options(**asked), verify=False)
    try:
        compiled = compile_file(model.path, options)
    except AtoncError as error:
        return {"refused": error.one_line}
    cost = compiled.cost
    return {"ms": sum(step.milliseconds for step in cost.steps), "cpu": list(_on_cpu(compiled, cost.steps))}


def _on_cpu(compiled: Compiled, costs: Any) -> Iterator[tuple[str, str, float]]:
    rules = {reason.node: (reason.op, reason.rule.id) for reason in compiled.choices.reasons}
    for step, cost in zip(compiled.program.steps, costs, strict=True):
        if cost.bound_by == "cpu":
            kind, rule = rules[step.plan.op]  # type: ignore[union-attr]
            yield kind, rule, cost.milliseconds


def on_cpu(record: Record) -> Counter[tuple[str, str]]:
    """Counts the layers of a record of the survey that run on the CPU, by operator and rule."""
    return Counter({tuple(why.split(": ", 1)): count for why, count in record.get("why", ())})


def inner(record: Record) -> bool:
    """More than its ends is on the CPU."""
    return any(kind not in ENDS for kind, _ in on_cpu(record))


# -------------------------------------------------------------------------------------------------------------- table


@dataclass
class Line:
    """All layers of one kind that one rule sent to the CPU."""

    layers: int = 0
    models: int = 0
    milliseconds: float = 0.0
    worst: tuple[float, str] = (0.0, "")


@dataclass
class Tables:
    counts: dict[Model, Counter[tuple[str, str]]]  # of the survey
    costs: dict[Model, Record]  # of models with more than their ends on the CPU
    left: list[str] = field(default_factory=list)
    not_surveyed: int = 0  # files of the zoo

    def lines(self) -> dict[tuple[str, str], Line]:
        found: dict[tuple[str, str], Line] = defaultdict(Line)
        for model, record in self.costs.items():
            shares: Counter[tuple[str, str]] = Counter()
            for kind, rule, milliseconds in record.get("cpu", ()):
                found[kind, rule].layers += 1
                found[kind, rule].milliseconds += milliseconds
                shares[kind, rule] += milliseconds / record["ms"]
            for key, share in shares.items():
                found[key].models += 1
                found[key].worst = max(found[key].worst, (share, model.source))
        return found

    def zoo(self) -> Counter[str]:
        """What is on the CPU in ST's zoo."""
        return Counter(
            kind for model, counts in self.counts.items() if model.repository == ZOO for kind, _ in counts.elements()
        )


def report(tables: Tables) -> str:
    zoo = tables.zoo()
    files = sum(model.repository == ZOO for model in tables.counts)
    only_ends = sum(all(kind in ENDS for kind, _ in counts) for counts in tables.counts.values())
    beyond = {kind: count for kind, count in zoo.items() if kind not in ENDS}
    text = [
        f"{len(tables.counts)} compiled models: in {only_ends} nothing but the ends is on the CPU ({', '.join(ENDS)}).",
        "",
        f"{files} of them are files of ST's zoo (`{ZOO}`). On the CPU there: "
        + (", ".join(f"{count} {kind}" for kind, count in zoo.most_common()) or "nothing")
        + f". Any other operator: {', '.join(f'{n} {kind}' for kind, n in beyond.items()) or 'none'}. "
        f"The survey has not reached {tables.not_surveyed} others. {EARLIER}",
        "",
        "## What the others leave there, and whether it is avoidable",
        "",
        *_costs(tables),
    ]
    refused = [f"- {m.source}: {record['refused']}" for m, record in tables.costs.items() if "refused" in record]
    later = ["", "## Not compiled yet", "", *(f"- {name}" for name in tables.left)] if tables.left else []
    return HEAD + "\n".join([*text, *(["", "## Refused", "", *refused] if refused else []), *later, ""])


def _costs(tables: Tables) -> Iterator[str]:
    total = sum(record.get("ms", 0.0) for record in tables.costs.values())
    lines = tables.lines()
    cpu = sum(line.milliseconds for line in lines.values())
    yield f"{len(tables.costs)} models, {total:.0f} ms in all, of these {cpu:.0f} ms on the CPU. *Share*: of them all;"
    yield "*largest*: of the one model that is named. *Avoidable*: what the rule advises (`atonc explain` says it for"
    yield f"every layer). {FLOAT} is the model's own choice: the file has these operators in float or wide integers."
    yield ""
    yield "| operator | rule | layers | models | ms | share | largest | in | avoidable |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (kind, key), line in sorted(lines.items(), key=lambda item: -item[1].milliseconds):
        share, name = line.worst
        rule = RULES[key]
        cells = (kind, rule.id, line.layers, line.models, f"{line.milliseconds:.2f}",
                 f"{line.milliseconds / total:.2%}", f"{share:.1%}", name, rule.remedy)  # fmt: skip
        yield markdown.row(cells)


def run(arguments: argparse.Namespace) -> Report:
    survey, known = KeptLines(arguments.survey), KeptLines(arguments.keep, arguments.fresh)
    models = distinct(arguments.folders)
    verified = {m: survey[m.mark] for m in models if "outputs" in survey.get(m.mark, {})}
    wanted = [model for model, record in verified.items() if inner(record)]
    end = time.monotonic() + arguments.seconds
    for model in wanted:
        if model.mark in known or not asked_for(arguments.only, model.source) or time.monotonic() > end:
            continue
        known.of(model.mark, partial(judge, model))
    tables = Tables(
        {model: on_cpu(record) for model, record in verified.items()},
        {model: known[model.mark] for model in wanted if model.mark in known},
        sorted(model.source for model in wanted if model.mark not in known),
        sum(model.repository == ZOO and model.mark not in survey for model in models),
    )
    return Report(report(tables))
