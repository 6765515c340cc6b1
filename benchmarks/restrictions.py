"""Does the search find what a restriction of it finds: is any program with less allowed faster than the default?

Every model is compiled by default, without each argument of docs/silicon.md (`--distrust`) and without each pass of the
schedule (`--schedule-without`), without verification. A program that is faster with less allowed is one that the search
missed. Times are predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import PASSES
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS as ARGUED
from benchmarks.shared import tables
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.declare import COUNT, FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept

GROUP = "speed"
ARGUMENTS = (MODEL_FILES, ONLY, COUNT.but(default=1000, help="models, the small ones first"), KEEP, FRESH, WRITE)
RESTRICTIONS: Mapping[str, Mapping[str, Any]] = {
    **{f"--distrust {one.id}": {"distrust": (one.id,)} for one in ARGUED},
    **{f"--schedule-without {name}": {"schedule_without": (name,)} for name in PASSES},
}
DEFAULT, ALLOWED = "default", 0.005  # what a restriction may bring

Record = dict[str, float]  # cycles by setting; 0 where the model is refused


def measured(model: Path) -> Record:
    found = {DEFAULT: _cycles(model, {})}
    if found[DEFAULT]:
        found |= {name: _cycles(model, changes) for name, changes in RESTRICTIONS.items()}
    return found


def _cycles(model: Path, changes: Mapping[str, Any]) -> int:
    try:
        return compile_file(model, Options(verify=False, **changes)).cost.cycles
    except AtoncError:
        return 0


def gain(record: Record, setting: str) -> float:
    """What the setting brings, as a part of the default's cycles."""
    return 1 - record[setting] / record[DEFAULT] if record[setting] else 0.0


def rows(found: Mapping[str, Record]) -> Iterator[tuple[str, ...]]:
    for name, record in found.items():
        best = max(RESTRICTIONS, key=partial(gain, record))
        if gain(record, best) > 0:
            by = f"{100 * gain(record, best):.2f} %"
            missed = "missed" if gain(record, best) > ALLOWED else ""
            yield tables.in_a_cell(name), f"{record[DEFAULT]:,.0f}", f"`{best}`", by, missed


def run(arguments: argparse.Namespace) -> Report:
    kept, models = Kept(arguments.keep, arguments.fresh), by_size(chosen(arguments))[: arguments.count]
    found = {model.name: kept.of(model.name, partial(measured, model)) for model in models}
    good = {name: record for name, record in found.items() if record[DEFAULT]}
    listed = list(rows(good))
    missed = sum(bool(row[-1]) for row in listed)
    lines = ["# Whether less is ever faster", "", (__doc__ or "").partition("\n\n")[2].strip(), ""]
    lines.append(
        f"{len(good)} models, {len(RESTRICTIONS)} restrictions each: on **{missed}** one of them is more than "
        f"{100 * ALLOWED:g} % faster, on {len(listed)} faster at all."
    )
    lines += ["", *tables.table(("model", ">cycles", "restriction", ">faster by", ""), listed)]
    return Report("\n".join(lines) + "\n", failed=missed > 0)
