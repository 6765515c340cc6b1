"""What does it cost to do only what ST does, `--silicon seen` against ST's published times?

First the networks of release 4.0.0 (`zoo_400.csv`, as `against_st` pairs them; `--fetched` names the folders), and
MoveNet 256, whose public file has more weights than the one that ST measured. Then the models of the corpus that ST
published a figure for, against the best one for the same file. Times as by default are those of `against_st` and
`schedule` where they have them: run these first. One record a model, kept in results/silicon_seen.json by the version
of the code: predicted ms, grades of epochs, operators that are on the CPU only so, each with the reason.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.lower.map_ops import CpuReason
from atonc.compiler.request.options import Options
from atonc.compiler.select.rules import NO_EVIDENCE
from atonc.insight.workers.unit import code_version
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.safety.evidence import counts
from benchmarks.against_st import KEPT as AGAINST_ST
from benchmarks.against_st import PAIRS, place
from benchmarks.schedule import INPUTS, RECORDS, mean, published
from benchmarks.shared.corpus import asked_for, chosen
from benchmarks.shared.declare import FETCHED, FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import Kept, read
from benchmarks.shared.pages import RESULTS
from benchmarks.shared.tables import geometric_mean

KEPT = RESULTS / "silicon_seen.json"
GROUP = "st"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    FETCHED.but(required=False, default=()),
    argument("--all", action="store_true", help="also models without a figure of ST's"),
    FRESH,
    KEEP.but(default=KEPT),
    WRITE,
)
Record = dict[str, Any]

_ZOO = "STMicroelectronics/stm32ai-modelzoo@ea27f2e:"
MOVENET = {
    "network": "movenet lightning heatmaps", "resolution": "256", "dataset": "COCO-Person", "ms": "34.16",
    "external_kib": "0",
    "model": f"{_ZOO}pose_estimation/movenet/Public_pretrainedmodel_custom_dataset/custom_dataset_person_17kpts/"
    "movenet_lightning_heatmaps_256/movenet_lightning_heatmaps_256_int8_pc.tflite",
}  # fmt: skip
TEN = {  # the networks on which the mode was looked at by others
    ("osnet 0.25 re-id", "256x128"), ("mobilenet_v1 0.25", "224"), ("yamnet 256", "64x96"), ("st_yolo_lc_v1", "192"),
    ("mobilenet_v2 0.35", "224"), ("st_efficientnet_lc_v1", "224"), ("squeezenet v1.1", "224"),
    ("st_yolo_x 0.33 0.25", "256"), ("face_landmarks_v1", "192"), ("movenet lightning heatmaps", "256"),
}  # fmt: skip


def measure(model: Path, default_ms: float | None) -> Record:
    inputs = INPUTS.get(model.name, {})
    try:
        seen = compile_file(model, Options(verify=False, silicon="seen", **inputs))
        default = None
        if default_ms is None or refused(seen):
            default = compile_file(model, Options(verify=False, **inputs))
    except AtoncError as error:
        return {"refused": error.one_line, "code": code_version()}
    return {
        "ms": round(seen.cost.latency_ms, 3),
        "default_ms": round(default.cost.latency_ms if default else default_ms or 0.0, 3),
        "epochs": len(seen.program.epochs),
        "grades": counts(seen.grades),
        "moved": moved(seen, default),
        "code": code_version(),
    }


def refused(seen: Compiled) -> list[CpuReason]:
    """Operators that some rule of units or evidence keeps from the NPU, not their kind or type."""
    return [r for r in seen.choices.reasons if r.rule == NO_EVIDENCE.id or not r.rule.startswith("CPU-")]


def moved(seen: Compiled, default: Compiled | None) -> list[list[str]]:
    """Operators that only `--silicon seen` sends to the CPU."""
    already = {reason.node for reason in default.choices.reasons} if default else set()
    found = [r for r in refused(seen) if r.node not in already]
    return [[r.op, r.node, r.rule, f"{r.seen} (seen: {r.limit})"] for r in found]


def by_default() -> dict[str, float]:
    """Times of the other benchmarks, by the names that they use."""
    rows = read(AGAINST_ST).get("newest", {}).get("rows", ())
    found = {row["model"]: row["ms"] for row in rows if "ms" in row}
    same = read(RECORDS).get("default", {}).items()
    return found | {name: record["ms"] for name, record in same if "ms" in record}


def newest(arguments: argparse.Namespace, kept: Kept) -> list[Record]:
    """Networks of release 4.0.0 whose files are at hand."""
    with PAIRS.open(newline="") as file:
        pairs = [*csv.DictReader(file), MOVENET]
    found = []
    for pair in pairs:
        path = place(pair["model"], arguments.fetched)
        if path is not None and asked_for(arguments.only, pair["model"]):
            known = {key: pair[key] for key in ("network", "resolution", "dataset", "external_kib")}
            found.append(known | {"st_ms": float(pair["ms"])} | made(kept, pair["model"], path))
    return found


def made(kept: Kept, name: str, path: Path) -> Record:
    """The record of this code."""
    if kept.get(name, {}).get("code") != code_version():
        kept.pop(name, None)
    found: Record = kept.of(name, partial(measure, path, by_default().get(name)))
    return found


def newest_lines(rows: Sequence[Record]) -> Iterator[str]:
    rows = [row for row in rows if "ms" in row]
    zoo = [row for row in rows if row["network"] != MOVENET["network"]]
    groups = {
        "Ten that others looked at": [r for r in rows if (r["network"], r["resolution"]) in TEN],
        "Without external RAM of ST's": [r for r in zoo if r["external_kib"] == "0"],
        "All": rows,
    }
    for name, some in groups.items():
        ratios = by_network(some)
        if ratios:
            worst = max(ratios, key=lambda network: ratios[network])
            yield f"* {name}: geometric mean {mean(ratios.values())} networks, at most {ratios[worst]:.2f} ({worst})."
    yield f"* Against our programs as by default: {mean(r['ms'] / r['default_ms'] for r in rows)} files."
    yield f"* Operators on the CPU that are not by default: {sum(len(r['moved']) for r in rows)}."
    yield ""
    yield "| network | resolution | data | by default, ms | seen, ms | ST 4.0.0, ms | seen / ST | epochs | of the ten |"
    yield "|---|---|---|---:|---:|---:|---:|---:|---|"
    for row in rows:
        ten = "yes" if (row["network"], row["resolution"]) in TEN else ""
        figures = f"{row['default_ms']:.3f} | {row['ms']:.3f} | {row['st_ms']:g} | {row['ms'] / row['st_ms']:.2f}"
        yield f"| {row['network']} | {row['resolution']} | {row['dataset']} | {figures} | {row['epochs']} | {ten} |"


def by_network(rows: Iterable[Record]) -> dict[str, float]:
    """Networks count once, whatever number of files they have."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(f"{row['network']} {row['resolution']}", []).append(row["ms"] / row["st_ms"])
    return {network: geometric_mean(ratios) for network, ratios in found.items()}


def lines(records: Mapping[str, Record]) -> Iterator[str]:
    best = published()
    rows = {name: record for name, record in sorted(records.items()) if "ms" in record}
    ratios = [record["ms"] / best[name].ms for name, record in rows.items() if name in best]
    yield f"* Against ST's best published figure: geometric mean {mean(ratios)} models."
    yield f"* Against our programs as by default: {mean(r['ms'] / r['default_ms'] for r in rows.values())} models."
    yield f"* Operators on the CPU that are not by default: {sum(len(r['moved']) for r in rows.values())}."
    yield ""
    yield "| model | ms | by default | ST ms | to ST | epochs | on the CPU besides |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, r in rows.items():
        st = (f"{best[name].ms:g}", f"{r['ms'] / best[name].ms:.2f}") if name in best else ("", "")
        figures = f"{r['ms']:.3f} | {r['default_ms']:.3f} | {st[0]} | {st[1]} | {r['epochs']} | {len(r['moved'])}"
        yield f"| {name} | {figures} |"


def reason_lines(records: Iterable[Record]) -> Iterator[str]:
    reasons = Counter((kind, rule, why) for r in records for kind, _, rule, why in r.get("moved", ()))
    yield from ("", "| operators | kind | rule | why |", "|---:|---|---|---|")
    for (kind, rule, why), count in reasons.most_common():
        yield f"| {count} | {kind} | {rule} | {why.replace('|', chr(92) + '|')} |"


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    names = read(RECORDS)["default"] if arguments.all else published()
    models = [path for path in chosen(arguments) if arguments.models or path.name in names]
    rows = [] if arguments.models else newest(arguments, kept)
    same = {path.name: made(kept, path.name, path) for path in models}
    page = ["# With --silicon seen", "", "Times are predicted; nothing has run on a board."]
    if rows:
        page += ["", "## Release 4.0.0, same architecture and resolution", "", *newest_lines(rows)]
    if same:
        page += ["", "## Best figure of any release, same file", "", *lines(same)]
    page += reason_lines([*rows, *same.values()])
    graded = Counter(grade for one in (*rows, *same.values()) for grade, n in one.get("grades", {}).items() if n)
    return Report("\n".join(page) + "\n", failed=bool({"composed", "unseen"} & set(graded)))
