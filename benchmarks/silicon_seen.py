"""What does it cost to do only what ST does, `--silicon seen` against ST's best published figure for the same file?

By default the models of the corpus that ST published a figure for. One record a model, kept in
results/silicon_seen.json as they come: predicted ms, operators that are on the CPU only so, each with the reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError
from benchmarks.schedule import INPUTS, RECORDS, mean, published
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import Kept, read
from benchmarks.shared.pages import RESULTS

KEPT = RESULTS / "silicon_seen.json"
GROUP = "st"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    argument("--all", action="store_true", help="also models without a figure of ST's"),
    FRESH,
    KEEP.but(default=KEPT),
    WRITE,
)
Record = dict[str, Any]


def measure(model: Path) -> Record:
    inputs = INPUTS.get(model.name, {})
    try:
        seen, default = (compile_file(model, Options(verify=False, silicon=s, **inputs)) for s in ("seen", "composed"))
    except AtoncError as error:
        return {"refused": str(error)}
    return {
        "ms": round(seen.cost.latency_ms, 3),
        "default_ms": round(default.cost.latency_ms, 3),
        "epochs": len(seen.program.epochs),
        "moved": moved(seen, default),
    }


def moved(seen: Compiled, default: Compiled) -> list[list[str]]:
    """Operators that only `--silicon seen` sends to the CPU."""
    already = {reason.node for reason in default.mapped.reasons}
    found = [r for r in seen.mapped.reasons if r.node not in already]
    return [[r.op, r.node, r.rule, f"{r.seen} (seen: {r.limit})"] for r in found]


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
    yield ""
    reasons = Counter((kind, rule, why) for r in rows.values() for kind, _, rule, why in r["moved"])
    yield "| operators | kind | rule | why |"
    yield "|---:|---|---|---|"
    for (kind, rule, why), count in reasons.most_common():
        yield f"| {count} | {kind} | {rule} | {why.replace('|', chr(92) + '|')} |"


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    names = read(RECORDS)["default"] if arguments.all else published()
    models = [path for path in chosen(arguments) if arguments.models or path.name in names]
    for path in models:
        if arguments.only or arguments.models:
            kept.pop(path.name, None)  # asked for by name: once more
        kept.of(path.name, partial(measure, path))
    said = "Times are predicted; nothing has run on a board."
    text = "\n".join(lines({path.name: kept[path.name] for path in models}))
    return Report(f"# With --silicon seen\n\n{said}\n\n{text}\n")
