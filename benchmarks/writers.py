"""What do interleaved writers bring, and what does it cost to do without them?

Every network of `against_st` (release 4.0.0) is compiled as by default, with three and more writers
(`--schedule-with many-writers`), without argument S10 and with `--silicon seen`; predicted cycles are compared, and the
share of the predicted time of epochs with interleaved writers is stated by what was published of them. Goals: without
S10 no network above 1.15 of the default; seen has no writers but published ones; three and more are on by default only
if they bring 2 %. Records are kept as they come.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import MANY_WRITERS
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.reasons import Severity
from atonc.machine.hw.safety.evidence.epochs import Writers
from benchmarks.against_st import PAIRS, place
from benchmarks.schedule import INPUTS
from benchmarks.shared import kept, tables
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FETCHED, FRESH, KEEP, ONLY, WRITE, Report
from benchmarks.shared.tables import geometric_mean

DEFAULT, MANY, WITHOUT, SEEN = "default", "many", "without", "seen"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    DEFAULT: {},
    MANY: {"schedule_with": (MANY_WRITERS,)},
    WITHOUT: {"distrust": ("S10",)},
    SEEN: {"silicon": "seen"},
}
MOST_WITHOUT = 1.15  # of the default's time, on any network
WORTH = 1.02  # what three and more must bring to be on by default
GROUP = "silicon"
ARGUMENTS = (FETCHED.but(required=False, default=()), ONLY, KEEP.but(default=kept.HOME / "atonc_writers"), FRESH, WRITE)
Record = dict[str, Any]
Records = dict[str, dict[str, Record]]  # by network and file, by setting


def judge(model: Path, changes: Mapping[str, Any]) -> Record:
    try:
        compiled = compile_file(model, Options(verify=False, **INPUTS.get(model.name, {}), **changes))
    except AtoncError as error:
        return {"refused": error.one_line}
    found = compiled.silicon
    return {
        "cycles": compiled.cost.cycles,
        "on_cpu": len(compiled.choices.reasons),
        "findings": sum(one.severity == Severity.VIOLATION for one in compiled.findings),
        "shares": {str(kind): share.of_time for kind, share in found.interleaved.items()},
        "rests": found.by_argument["S10"].of_time if "S10" in found.by_argument else 0.0,
    }


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, Path, bool]]:
    """Name, file, and whether it fits on the chip with ST's compiler; those that are not here are left out."""
    with PAIRS.open(newline="") as file:
        for pair in csv.DictReader(file):
            path = place(pair["model"], arguments.fetched)
            if path is not None and asked_for(arguments.only, pair["model"]):
                name = " ".join(filter(None, (pair["network"], pair["resolution"], pair["dataset"])))
                yield name, path, not float(pair["external_kib"])


def all_records(arguments: argparse.Namespace) -> Records:
    found: Records = {}
    for name, path, inside in networks(arguments):
        if inside:
            key = "+".join(path.parts[-3:])
            make = {setting: partial(judge, path, changes) for setting, changes in SETTINGS.items()}
            found[name] = {
                setting: kept.in_folder(arguments.keep / setting, key, one, arguments.fresh)
                for setting, one in make.items()
            }
    return found


def ratio(found: Mapping[str, Record], setting: str) -> float | None:
    one, default = found[setting], found[DEFAULT]
    return one["cycles"] / default["cycles"] if "cycles" in one and "cycles" in default else None


def ratios(records: Records, setting: str) -> dict[str, float]:
    return {name: value for name, found in records.items() if (value := ratio(found, setting)) is not None}


def shares(record: Record) -> Iterator[str]:
    yield from (f"{100 * record.get('shares', {}).get(str(kind), 0):.1f}" for kind in Writers)


def lines(records: Records) -> Iterator[str]:
    yield "# Interleaved writers: what they bring, and the price of doing without\n"
    yield f"{len(records)} files of networks that ST's compiler puts into the chip's own RAM, compiled four times;"
    yield "predicted cycles of those by default. Interleaved: several engines of one epoch fill one buffer in turns of"
    yield "bytes. Shares of the predicted time: of epochs with two such writers as published, two otherwise, three or"
    yield "more.\n"
    yield from (_said(records, setting) for setting in (MANY, WITHOUT, SEEN))
    yield ""
    yield (
        "| network | ms by default | two as published, % | two otherwise, % | with `many-writers` | "
        "its three or more, % | `--distrust S10` | its two as published, % | `--silicon seen` | "
        "its two as published, % |"
    )
    yield "|---|" + "---:|" * 9
    for name, found in records.items():
        yield tables.row([name, *_cells(found)])


def _said(records: Records, setting: str) -> str:
    known = ratios(records, setting)
    name = max(known, key=lambda one: known[one], default="")
    titles = {MANY: "With `--schedule-with many-writers`", WITHOUT: "With `--distrust S10`", SEEN: "`--silicon seen`"}
    worst = f"; at most {known[name]:.3f} ({name})" if known else ""
    return f"* {titles[setting]}: {geometric_mean(known.values()):.4f} of the default{worst}."


def _cells(found: Mapping[str, Record]) -> Iterator[str]:
    default = found[DEFAULT]
    if "cycles" not in default:
        yield f"refused: {default['refused'][:120]}"
        return
    yield f"{default['cycles'] / 1e6:.3f}"
    as_published, otherwise, _ = shares(default)
    yield from (as_published, otherwise)
    for setting, shown in ((MANY, Writers.MANY), (WITHOUT, Writers.PUBLISHED), (SEEN, Writers.PUBLISHED)):
        value = ratio(found, setting)
        yield "refused" if value is None else f"{value:.3f}"
        yield f"{100 * found[setting].get('shares', {}).get(str(shown), 0):.1f}"


def missed(records: Records) -> Iterator[str]:
    without = ratios(records, WITHOUT)
    yield from (f"{name} {value:.3f} without S10" for name, value in without.items() if value > MOST_WITHOUT)
    for name, found in records.items():
        for setting, forbidden in ((DEFAULT, (Writers.MANY,)), *((one, _UNPUBLISHED) for one in (WITHOUT, SEEN))):
            if any(found[setting].get("shares", {}).get(str(kind)) for kind in forbidden):
                yield f"{name}, {setting}: {', '.join(forbidden)}"
        yield from (f"{name}, {one}: findings of the rules" for one in SETTINGS if found[one].get("findings"))
    brought = geometric_mean(1 / value for value in ratios(records, MANY).values())
    if brought >= WORTH:
        yield f"three and more writers bring {brought:.3f}: they should be on by default"


_UNPUBLISHED = (Writers.OTHERWISE, Writers.MANY)


def run(arguments: argparse.Namespace) -> Report:
    records = all_records(arguments)
    found = list(missed(records))
    page = "\n".join([*lines(records), "", *(f"Missed: {one}" for one in found)]).rstrip() + "\n"
    return Report(page, failed=bool(found), data=_figures(records))


def _figures(records: Records) -> Record:
    return {
        "networks": len(records),
        **{setting: _figure(ratios(records, setting).values()) for setting in (MANY, WITHOUT, SEEN)},
    }


def _figure(values: Iterable[float]) -> Record:
    known = list(values)
    return {"mean": round(geometric_mean(known), 4), "most": round(max(known, default=1.0), 4)}
