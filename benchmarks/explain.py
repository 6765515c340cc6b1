"""Does `atonc explain` leave any layer of the corpus without a reason?

Models are compiled without verification and without prices.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import CPU, NOTHING, NPU, error_band
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.complete import gaps, unusual
from benchmarks.shared.corpus import ROOT, chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept

GROUP = "truth"
ARGUMENTS = (MODEL_FILES, ONLY, KEEP.but(default=ROOT / "build" / "explain_corpus.json"), FRESH, WRITE)

TITLE = """# The corpus, explained

Every model of the corpus is compiled (default options, without verification)
and explained. *unusual*: layers on the NPU that do not take the default form (one epoch, plain units, 8-bit products);
each of them must carry a MODE rule, and each layer on the CPU a rule, with seen, limit and remedy. *ms*: predicted at
NPU 1000 MHz and CPU 800 MHz, with the expected error; not measured on a board.

{models} models: {explained} explained, {refused} refused with an error that names the node and the rule. {layers}
layers with epochs: {cpu} on the CPU and {unusual} in an unusual form. Without a complete rule: {gaps}. The word
"unknown" in a rule: {unknown}.

| model | ms | +- % | layers | CPU | by rule | unusual | by rule | gaps |
|---|---:|---:|---:|---:|---|---:|---|---:|
"""


def explain(path: Path) -> dict[str, Any]:
    started = time.monotonic()
    try:
        network = network_view(generating.analyze(path, Options(verify=False, allow_float=True)))
    except AtoncError as error:
        return {"refused": str(error)}
    busy = [layer for layer in network.layers if layer.on != NOTHING]
    on_cpu = [layer for layer in busy if layer.on == CPU]
    odd = [layer for layer in busy if layer.on == NPU and unusual(layer)]
    return {
        "ms": round(network.latency_ms, 2),
        "error": round(100 * error_band(network).relative),
        "layers": len(busy),
        "cpu": len(on_cpu),
        "cpu_rules": Counter(d.rule.id for layer in on_cpu for d in layer.decisions),
        "unusual": len(odd),
        "modes": Counter(d.rule.id for layer in odd for d in layer.decisions if d.rule.id.startswith("MODE-")),
        "gaps": gaps(network),
        "seconds": round(time.monotonic() - started, 1),
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    done = [row for row in results.values() if "refused" not in row]
    text = TITLE.format(
        models=len(results),
        explained=len(done),
        refused=len(results) - len(done),
        layers=sum(row["layers"] for row in done),
        cpu=sum(row["cpu"] for row in done),
        unusual=sum(row["unusual"] for row in done),
        gaps=sum(len(row["gaps"]) for row in done),
        unknown=sum("unknown" in gap for row in done for gap in row["gaps"]),
    )
    for name, row in sorted(results.items()):
        if "refused" in row:
            text += f"| {name} | | | refused: {row['refused']} | | | | | |\n"
            continue
        head = [row["ms"], row["error"], row["layers"], row["cpu"], _counts(row["cpu_rules"])]
        cells = [*head, row["unusual"], _counts(row["modes"])]
        text += f"| {name} | {' | '.join(map(str, cells))} | {len(row['gaps'])} |\n"
    total: Counter[str] = Counter()
    for row in done:
        total.update(row["cpu_rules"])
        total.update(row["modes"])
    lines = [f"| {rule} | {count} |" for rule, count in total.most_common()]
    return text + "\n| rule | layers |\n|---|---:|\n" + "\n".join(lines) + "\n"


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {rule}" for rule, count in sorted(found.items(), key=lambda item: (-item[1], item[0])))


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    rows = {path.name: kept.of(path.name, partial(explain, path)) for path in chosen(arguments)}
    return Report(table(rows), failed=any(row.get("gaps") for row in rows.values()))
