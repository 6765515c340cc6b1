"""Our programs beside ST's published times: first its newest release, then its best figure for the same file.

`zoo_400.csv` pairs rows of ST's zoo for release 4.0.0 with public files of the same architecture and resolution (the
zoo has retrained its files since; those behind the figures are not public). Left out: MoveNet, whose 4.0.0 files have
2304 KiB of weights where the public ones have 2757, so that it is another network; OSNet 1.0 and 0.25 of 3.0.0, which
are MobileNetV2 (results/hw_cycles.md); and networks without a public file. The folders hold them as
`owner+name@commit/path`; rows of the corpus need no folder. Figures for the same file come from what
`schedule` measured (results/schedule.json), so that both tables are of the same programs: run that first.
What is compiled here is kept in results/against_st.json by the version of the code, so that a run can be interrupted.
Ours are predicted, ST's are measured by ST; nothing of ours has run on a board.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from atonc.insight.workers.unit import code_version
from benchmarks.schedule import RECORDS, VARIANTS, measure, published
from benchmarks.shared import kept as kept_records
from benchmarks.shared.corpus import asked_for, corpus_dir
from benchmarks.shared.declare import FETCHED, FRESH, KEEP, ONLY, WRITE, Report
from benchmarks.shared.pages import RESULTS
from benchmarks.shared.tables import geometric_mean

GROUP = "st"
KEPT = RESULTS / "against_st.json"
ARGUMENTS = (FETCHED.but(required=False, default=()), ONLY, KEEP.but(default=KEPT), FRESH, WRITE)

PAIRS = Path(__file__).with_name("zoo_400.csv")
NEWEST = "4.0.0"
_MODEL = re.compile(r"([\w.-]+)/([\w.-]+)(@\w+):(.+)")
Row = dict[str, Any]


# ------------------------------------------------------------------------------------------------------------- newest


def newest(roots: Sequence[Path], kept: Mapping[str, Row], only: Sequence[str]) -> Iterator[Row]:
    """A row for every pair; what was compiled by the same code is taken over."""
    with PAIRS.open(newline="") as file:
        pairs = list(csv.DictReader(file))
    for pair in pairs:
        row: Row = {key: pair[key] for key in ("network", "resolution", "file", "dataset", "model")}
        row |= {"st_ms": float(pair["ms"]), "external_kib": float(pair["external_kib"])}
        known, path = kept.get(key_of(row)), place(pair["model"], roots)
        if known is not None and (not asked_for(only, pair["model"]) or path is None):
            yield known
        elif path is None:
            yield row | {"refused": "not fetched"}
        elif known is not None and known.get("code") == code_version():
            yield known
        else:
            found = measure(path, {})
            kept_keys = ("ms", "low_ms", "high_ms", "seconds", "refused")
            figures = {key: found[key] for key in kept_keys if key in found}
            figures["resident_ms"] = measure(path, VARIANTS["resident"]).get("ms")
            yield row | figures | {"code": code_version()}


def key_of(row: Row) -> str:
    return f"{row['file']} {row['dataset']}"


def place(model: str, roots: Sequence[Path]) -> Path | None:
    if model.startswith("corpus:"):
        found = [corpus_dir() / "models" / model.removeprefix("corpus:")]
    else:
        match = _MODEL.fullmatch(model)
        assert match is not None, model
        owner, name, commit, path = match.groups()
        found = [root / f"{owner}+{name}{commit}" / path for root in roots]
    return next((path for path in found if path.is_file()), None)


# ---------------------------------------------------------------------------------------------------------- same file


def same_file() -> list[Row]:
    """Our time and the best of ST's for every model of the corpus that ST published a time of."""
    ours, rows = _records("default"), []
    resident = _records("resident")
    for name, best in sorted(published().items()):
        if "ms" in ours.get(name, {}):
            figures = {key: round(ours[name][key], 4) for key in ("ms", "low_ms", "high_ms")}
            figures["resident_ms"] = resident.get(name, {}).get("ms")
            st = {"st_ms": best.ms, "release": best.release, "external_kib": best.external_kib}
            rows.append({"model": name, **figures, **st})
    return rows


def elsewhere() -> list[Row]:
    """Models that others than the zoo measured; a row at the clocks of the prediction is preferred."""
    folder, ours, rows = corpus_dir(), _records("default"), []
    with (folder / "figures" / "bench_n6.csv").open() as file:
        measured = list(csv.DictReader(file))
    with (folder / "models.csv").open() as file:
        models = [row for row in csv.DictReader(file) if row["figures"] == "True" and not row["st_ms"]]
    for model in sorted(models, key=lambda row: row["file"]):
        name = model["file"]
        known = [row for row in measured if row["md5"] == model["md5"] or name.startswith(row["model"].split()[0])]
        known = [row for row in known if "npu_freq=1000MHz" in row["detail"]] or known
        if not known or "ms" not in ours.get(name, {}):
            continue
        best = min(known, key=lambda row: float(row["inference_ms"]))
        clocks = re.search(r"mcu_freq=(\d+).*npu_freq=(\d+)", best["detail"])
        remark = f"CPU {clocks[1]}, NPU {clocks[2]} MHz" if clocks else best["method"]
        figures = {key: round(ours[name][key], 4) for key in ("ms", "low_ms", "high_ms")}
        board = f"{best['board'].removesuffix(' (see attrs)')}, {remark}"
        theirs = {"st_ms": float(best["inference_ms"]), "release": best["tool"].split("-")[0], "board": board}
        rows.append({"model": name, **figures, **theirs})
    return rows


def _records(variant: str) -> Mapping[str, Row]:
    found: Mapping[str, Row] = json.loads(RECORDS.read_text())[variant]
    return found


# ----------------------------------------------------------------------------------------------------------- summaries


def summary(groups: Mapping[str, Sequence[Row]]) -> Row:
    """Networks count once, whatever number of rows they have."""
    ratios = {name: geometric_mean(row["ms"] / row["st_ms"] for row in rows) for name, rows in groups.items()}
    inside = {name: ratio for name, ratio in ratios.items() if not any(row["external_kib"] for row in groups[name])}
    upper = [geometric_mean(row["high_ms"] / row["st_ms"] for row in groups[name]) for name in inside]
    return {
        "networks": len(ratios), "mean": round(geometric_mean(ratios.values()), 4),
        "on_chip": len(inside), "on_chip_mean": round(geometric_mean(inside.values()), 4),
        "on_chip_median": round(median(inside.values()), 4) if inside else 0.0,
        "on_chip_high": round(geometric_mean(upper), 4),  # if every prediction were as slow as its band allows
        "resident": _resident(groups[name] for name in inside),
        "slower": {name: round(ratio, 4) for name, ratio in ratios.items() if ratio > 1},
        "weakest": sorted(((round(r, 4), n) for n, r in inside.items()), reverse=True)[:5],
        "strongest": sorted((round(r, 4), n) for n, r in inside.items())[:5],
    }  # fmt: skip


def _resident(groups: Iterable[Sequence[Row]]) -> list[float]:
    """How many networks were measured with weights in RAM, their mean, and the weakest."""
    measured = [[row["resident_ms"] / row["st_ms"] for row in rows if row.get("resident_ms")] for rows in groups]
    ratios = [geometric_mean(ratios) for ratios in measured if ratios]
    return [len(ratios), round(geometric_mean(ratios), 4), round(max(ratios), 4)] if ratios else [0, 0.0, 0.0]


def by_network(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "ms" in row:
            groups.setdefault(f"{row['network']} {row['resolution']}", []).append(row)
    return groups


def document(rows: list[Row]) -> Row:
    same = same_file()
    releases = sorted({row["release"] for row in same})
    counted = {release: sum(row["release"] == release for row in same) for release in releases}
    return {
        "newest": {"release": NEWEST, "rows": rows, "summary": summary(by_network(rows))},
        "same_file": {
            "rows": same, "releases": counted, "summary": summary({row["model"]: [row] for row in same}),
        },
        "elsewhere": elsewhere(),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- page


def page(found: Row) -> str:
    seconds = sum(row.get("seconds", 0.0) for row in found["newest"]["rows"])
    lines = [
        "# Against ST's published times", "",
        f"{seconds:.0f} s of compiling; ours predicted, ST's published. Nothing of ours has run on a board.",
        " *may be*: the band around the prediction. A network counts once, as the mean of its",
        "rows. All means are geometric.",
        "", f"## Release {NEWEST}, same architecture and resolution", "", said(found["newest"]["summary"]), "",
        "| network | resolution | data | ours, ms | may be | ST, ms | ours / ST | with --resident, ms | / ST | "
        "ST's external RAM, KiB | our file |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|", *map(_newest_line, found["newest"]["rows"]),
        "", "## Best figure of any release, same file", "", said(found["same_file"]["summary"]), "",
        "| model | ours, ms | may be | ST, ms | release | ours / ST | with --resident, ms | / ST | "
        "ST's external RAM, KiB |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|", *map(_same_line, found["same_file"]["rows"]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def said(s: Row) -> str:
    slower = ", ".join(f"{name} {ratio:.2f}" for name, ratio in s["slower"].items()) or "none"
    ends = [", ".join(f"{name} {ratio:.2f}" for ratio, name in s[key]) for key in ("weakest", "strongest")]
    count, mean, most = s["resident"]
    return (
        f"{s['networks']} networks: {s['mean']:.3f}. Without those that ST puts into external RAM {s['on_chip']}: "
        f"{s['on_chip_mean']:.3f} (median {s['on_chip_median']:.3f}, upper ends of the bands {s['on_chip_high']:.3f}). "
        f"With `--resident` {mean:.3f} on {count} of these (none above {most:.2f}). "
        f"Slower: {slower}. Weakest: {ends[0]}. Strongest: {ends[1]}."
    )


def _times(row: Row) -> str:
    return f"{row['ms']:.3f} | {row['low_ms']:.3f} to {row['high_ms']:.3f} | {row['st_ms']:g}"


def _newest_line(row: Row) -> str:
    head = f"| {row['network']} | {row['resolution']} | {row['dataset']} |"
    if "ms" not in row:
        why = row["refused"][:160].replace("|", "/")
        return f"{head} refused: {why} | | {row['st_ms']:g} | | | | | {row['model']} |"
    return f"{head} {_times(row)} | {_ratios(row)} | {row['external_kib']:g} | {row['model']} |"


def _same_line(row: Row) -> str:
    return f"| {row['model']} | {_times(row)} | {row['release']} | {_ratios(row)} | {row['external_kib']:g} |"


def _ratios(row: Row) -> str:
    resident = row.get("resident_ms")
    kept = f"{resident:.3f} | {resident / row['st_ms']:.2f}" if resident else " | "
    return f"{row['ms'] / row['st_ms']:.2f} | {kept}"


def run(arguments: argparse.Namespace) -> Report:
    old = [] if arguments.fresh else kept_records.read(arguments.keep).get("newest", {}).get("rows", [])
    kept, rows = {key_of(row): row for row in old}, {}
    for row in newest(arguments.fetched, kept, arguments.only):
        print(row["network"], row["resolution"], row.get("ms", row.get("refused")), row["st_ms"], flush=True)
        rows[key_of(row)] = row
        kept_records.write(arguments.keep, document(list((kept | rows).values())))  # for the next run
    found = document(list(rows.values()))
    kept_records.write(arguments.keep, found)
    text = page(found)
    return Report(text)
