"""What the search finds: time, memory and processor time of every model under five wishes, beside an earlier run.

Every model by default, every second one with `--prefer memory` and `--resident`, every fifth with the numbers of 2.x
and without the epoch controller. A program is worse if it takes more cycles or more RAM, or leaves more to
the processor; with `--prefer memory` a few more cycles for less RAM are what was asked for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen, corpus_dir
from benchmarks.shared.declare import BEFORE, KEEP, MODEL_FILES, ONLY, SHARD, WRITE, Report
from benchmarks.shared.kept import Kept, Record, read
from benchmarks.shared.tables import geometric_mean, in_a_cell, short, table

GROUP = "speed"
ARGUMENTS = (BEFORE, KEEP, MODEL_FILES, ONLY, SHARD, WRITE)
WISHES: dict[str, tuple[int, dict[str, Any]]] = {  # every so many-th model, options
    "default": (1, {}),
    "memory": (2, {"prefer": "memory"}),
    "resident": (2, {"resident": "all"}),
    "2.x": (5, {"numerics": "2.x"}),
    "driver": (5, {"epoch_controller": False}),
}


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, Path, Options]]:
    models = sorted(chosen(arguments), key=lambda path: path.stat().st_size)
    for wish, (step, options) in WISHES.items():
        for model in models[::step]:
            yield f"{wish}|{model.relative_to(corpus_dir())}", model, Options(verify=False, **options)


def measured(model: Path, options: Options) -> Record:
    started = time.process_time()
    try:
        found = compile_file(model, options)
    except AtoncError as error:
        return {"error": str(error)[:200]}
    return {
        "cycles": found.cost.cycles,
        "peak": found.layout.peak_bytes,
        "cpu": len(found.mapped.reason_of),
        "builds": len(found.search),
        "s": round(time.process_time() - started, 2),
    }


def is_worse(wish: str, before: Record, after: Record) -> bool:
    paid = wish == "memory" and after["peak"] < before["peak"]
    slower = after["cycles"] > before["cycles"] and not paid
    return bool(slower or after["peak"] > before["peak"] or after["cpu"] > before["cpu"])


def changed(before: dict[str, Record], after: dict[str, Record]) -> Iterator[tuple[object, ...]]:
    """Rows of programs that differ."""
    for name, now in after.items():
        wish, _, model = name.partition("|")
        then = before[name]
        if (now["cycles"], now["peak"]) != (then["cycles"], then["peak"]):
            ratios = (f"{now[figure] / then[figure]:.3f}" for figure in ("cycles", "peak"))
            verdict = "worse" if is_worse(wish, then, now) else "better"
            yield wish, in_a_cell(short(Path(model).name)), *ratios, now["builds"], verdict


def summary(before: dict[str, Record], after: dict[str, Record]) -> Iterator[tuple[object, ...]]:
    for wish in WISHES:
        names = [name for name in after if name.startswith(f"{wish}|")]
        pairs = [(before[name], after[name]) for name in names]
        if pairs:
            means = (f"{geometric_mean(a[key] / b[key] for b, a in pairs):.4f}" for key in ("cycles", "peak"))
            faster = sum(a["cycles"] < b["cycles"] for b, a in pairs)
            smaller = sum(a["peak"] < b["peak"] for b, a in pairs)
            worse = sum(is_worse(wish, b, a) for b, a in pairs)
            seconds = sum(a["s"] for _, a in pairs) / sum(b["s"] for b, _ in pairs)
            yield wish, len(pairs), *means, faster, smaller, worse, f"{seconds:.2f}"


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep)
    found = {name: kept.of(name, partial(measured, *case)) for name, *case in cases(arguments)}
    before: dict[str, Record] = read(arguments.before)
    known = {name: one for name, one in found.items() if name in before and "s" in one and "cycles" in before[name]}
    lost = [name for name, one in found.items() if "error" in one and "cycles" in before.get(name, {})]
    lines = ["# What the search finds, beside before", "", (__doc__ or "").partition("\n\n")[2].strip(), ""]
    lines += table(
        ("options", ">programs", ">cycles", ">peak", ">faster", ">smaller", ">worse", ">processor time"),
        summary(before, known),
    )
    rows = list(changed(before, known))
    lines += ["", f"{len(known)} compilations, {len(lost)} refused that were not; {len(rows)} programs differ:", ""]
    lines += table(("options", "model", ">cycles", ">peak", ">builds", "verdict"), rows)
    return Report("\n".join(lines), failed=bool(lost) or any(row[-1] == "worse" for row in rows))
