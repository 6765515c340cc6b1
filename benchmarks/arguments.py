"""What does each argument of docs/silicon.md carry, and what does it cost to do without it?

Every model is compiled as by default and once more for each argument that its program rests on, with `--distrust`. A
program that does not rest on an argument is the same without it. One record a model and setting, kept
in a folder. `--write` also keeps arguments.json, from which
`tools/gen_reference.py` fills docs/silicon.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS as ARGUED
from benchmarks.shared import kept, tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FEW, FRESH, KEEP, MODEL_FILES, ONLY, SHARD, WRITE, Report, argument
from benchmarks.shared.tables import geometric_mean
from benchmarks.silicon import Record, judge

DEFAULT = "default"
IDS = tuple(one.id for one in ARGUED)
GROUP = "silicon"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    FEW,
    argument("--arguments", nargs="+", choices=IDS, default=IDS, metavar="ID"),
    SHARD,
    KEEP.but(default=kept.HOME / "atonc_arguments", metavar="DIR"),
    FRESH,
    WRITE,
)
Records = dict[str, dict[str, Record]]  # by model, by setting


def rests_on(record: Record, argument: str) -> int:
    """Epochs."""
    return int(record.get("by_argument", {}).get(argument, 0))


def settings(record: Record, asked: tuple[str, ...]) -> list[str]:
    """Those whose program differs from the default one."""
    return [argument for argument in asked if rests_on(record, argument)]


def compiled(arguments: argparse.Namespace, model: Path, setting: str) -> Record:
    """The record of one compilation."""
    distrust = () if setting == DEFAULT else (setting,)
    options = Options(verify=False, distrust=distrust)
    return dict(kept.in_folder(arguments.keep / setting, model.name, partial(judge, model, options), arguments.fresh))


def all_records(arguments: argparse.Namespace) -> Records:
    records: Records = {}
    for model in chosen(arguments):
        default = compiled(arguments, model, DEFAULT)
        own = {one: compiled(arguments, model, one) for one in settings(default, arguments.arguments)}
        records[model.name] = {DEFAULT: default} | own
    return records


def row(records: Records, argument: str) -> Record:
    """What an argument carries and what doing without it costs, over all models."""
    rest = {name: found for name, found in records.items() if argument in found}
    ratios = {name: price(found, argument) for name, found in records.items()}
    known = {name: ratio for name, ratio in ratios.items() if ratio}
    worst = max(known, key=lambda name: known[name], default="")
    moved = {name: moved_without(found, argument) for name, found in rest.items()}
    return {
        "argument": argument,
        "epochs": sum(rests_on(found[DEFAULT], argument) for found in rest.values()),
        "models": len(rest),
        "to_cpu": sum(map(len, moved.values())),
        "left": sum(rests_on(found[argument], argument) for found in rest.values()),
        "refused": sorted(name for name, found in rest.items() if "refused" in found[argument]),
        "price": geometric_mean(known.values()),
        "worst": known.get(worst, 1.0),
        "worst_model": worst,
        "moved": {name: names for name, names in moved.items() if names},
    }


def price(found: Mapping[str, Record], argument: str) -> float:
    """Predicted cycles without the argument, of those by default; none where nothing is predicted."""
    default, without = found[DEFAULT], found.get(argument, found[DEFAULT])
    return float(without.get("cycles", 0) / default["cycles"]) if default.get("npu_cycles") else 0.0


def moved_without(found: Mapping[str, Record], argument: str) -> list[str]:
    """Operators that the CPU has to do then, and only then."""
    return sorted(set(found[argument].get("on_cpu", ())) - set(found[DEFAULT].get("on_cpu", ())))


def lines(rows: list[Record], models: int) -> Iterator[str]:
    yield "# What each argument carries, and the price of doing without it\n"
    yield f"{models} models of the corpus. Price: predicted"
    yield "cycles, the CPU with them, with `--distrust ID` of those by default; a model whose program does not rest on"
    yield "the argument counts as 1.\n"
    yield "| argument | epochs that rest on it | models | operators to the CPU without | price, mean | worst |"
    yield "|---|---:|---:|---:|---:|---|"
    for found in rows:
        worst = f"{found['worst']:.3f} {found['worst_model']}" if found["worst"] > 1 else ""
        cells = (found["argument"], found["epochs"], found["models"], found["to_cpu"], f"{found['price']:.4f}", worst)
        yield tables.row(cells)
    yield ""
    for found in rows:
        yield from (f"- without {found['argument']}, {m}: {', '.join(names)}" for m, names in found["moved"].items())
        yield from (f"- without {found['argument']}, {m}: refused" for m in found["refused"])
        if found["left"]:
            yield f"- without {found['argument']}: {found['left']} epochs still rest on it"


def run(arguments: argparse.Namespace) -> Report:
    records = all_records(arguments)
    rows = [row(records, one) for one in arguments.arguments]
    text = "\n".join(lines(rows, len(records))) + "\n"
    missed = any(found["left"] or found["refused"] for found in rows)
    return Report(text, failed=missed, data={"models": len(records), "rows": rows})
