"""Does any predicted epoch lie below what the chip can do at best, and do programs use both interfaces to the bus?

Every epoch of the published programs in the folders and of ours for the corpus (default, and with all weights in RAM
that fit, resident or fetched ahead) is priced without its programming and compared with the bounds of
`atonc.machine.hw.cycles.hardware`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.bounds import tightest
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine, stm32n6
from benchmarks.schedule import INPUTS, VARIANTS
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FETCHED, FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept
from benchmarks.shared.published import Reading, read_programs

GROUP = "time"
ARGUMENTS = (FETCHED.but(required=False, default=()), MODEL_FILES, ONLY, KEEP, FRESH, WRITE)

OURS = ("default", "resident and prefetch")
HEAD = """# Predictions against bounds from first principles

Epochs without their programming; *below*: predicted faster than units, engines, banks, interfaces or external memory
can be (`hw/cycles/hardware.py`); *one interface*: epochs with two or more engines that all hang on one; *interface
binds*: what bounds the prediction; *nearest*: the smallest prediction by its bound. Predicted, not yet run on a board.

| programs | epochs | below | one interface | interface binds | nearest |
|---|---:|---:|---:|---:|---:|
"""
Row = dict[str, Any]


def judged(epochs: Iterable[Epoch], machine: Machine) -> Row:
    counts: Counter[str] = Counter()
    nearest = 9.99
    for epoch in epochs:
        if epoch.empty:
            continue
        found, bound = hardware.epoch_cycles(epoch, machine, hardware.NOBODY), tightest(epoch, machine)
        places = [machine.interfaces[name] for name in epoch.engines()]
        counts["epochs"] += 1
        counts["below"] += found.cycles < bound.cycles
        counts["one"] += len(places) > 1 and len(set(places)) == 1
        counts["binds"] += found.bound_by == hardware.INTERFACE
        nearest = min(nearest, found.cycles / max(1.0, bound.cycles))
    return {key: counts[key] for key in ("epochs", "below", "one", "binds")} | {"nearest": nearest}


def together(rows: Iterable[Row]) -> Row:
    rows = list(rows)
    total = {key: sum(row[key] for row in rows) for key in ("epochs", "below", "one", "binds")}
    return total | {"nearest": min((row["nearest"] for row in rows), default=9.99)}


def published_rows(folders: list[Path]) -> Iterator[Row]:
    return (judged(program.epochs, stm32n6()) for program in read_programs(folders, Reading()))


def ours(model: Path, variant: str) -> Row | None:
    try:
        compiled = compile_file(model, Options(verify=False, **INPUTS.get(model.name, {}), **VARIANTS[variant]))
    except AtoncError:
        return None
    return judged(compiled.program.epochs, compiled.target.machine)


def our_rows(arguments: argparse.Namespace) -> dict[str, Row]:
    rows = Kept(arguments.keep, arguments.fresh)
    wanted = [(f"{model.name}, {variant}", model, variant) for model in chosen(arguments) for variant in OURS]
    found = {key: rows.of(key, partial(ours, model, variant)) for key, model, variant in wanted}
    return {key: row for key, row in found.items() if row is not None and row["epochs"]}


def line(name: str, row: Row) -> str:
    return f"| {name} | {row['epochs']:,} | {row['below']} | {row['one']} | {row['binds']} | {row['nearest']:.3f} |"


def run(arguments: argparse.Namespace) -> Report:
    theirs, found = list(published_rows(arguments.fetched)), our_rows(arguments)
    lines = [line(f"**{len(theirs)} published programs**", together(theirs))] if theirs else []
    for variant in OURS:
        some = [row for name, row in found.items() if name.endswith(f", {variant}")]
        lines.append(line(f"**{len(some)} of ours, {variant}**", together(some)))
    lines += [line(name, row) for name, row in sorted(found.items())]
    text = HEAD + "\n".join(lines) + "\n"
    missed = any(row["below"] for row in [*theirs, *found.values()]) or any(row["one"] for row in found.values())
    return Report(text, failed=missed)
