"""Writes docs/latency.md from the tables under benchmarks/results and the published figures in the corpus.

    python benchmarks/latency_page.py [--check]

Predicted against measured for networks that ST compiled (results/hw_cycles.md), and our prediction for our own
programs beside what ST measured for its own (results/corpus.md): the latter are different programs, so the ratio
compares compilers and says nothing about the model's error.
"""

from __future__ import annotations

import csv
import re
import sys
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from fetched import corpus_dir

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "latency.md"
FITTED = {  # rows that fixed or supported a constant of the model
    "hand_landmark", "deeplab_v3 320", "movenet heatmaps 192", "efficientnet_v2B1 240", "ssdlite_mobilenetv3small 300",
    "kws_micronet_m (EC part)", "mobilenet_v2 224 (EC part)",
}  # fmt: skip
FITTED_BUILDS = {("blazeface 128", "4.0.0")}
_FIGURE = re.compile(r"([\d.]+):([\d.]+)ms")


def table(path: Path, first: str) -> list[dict[str, str]]:
    """Rows of the first table whose first column is called so."""
    rows, head = [], None
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if head is None:
            head = cells if cells and cells[0] == first else None
        elif not cells:
            break
        elif not set(cells[0]) <= set("-:"):
            rows.append(dict(zip(head, cells, strict=False)))
    return rows


def networks() -> tuple[list[str], list[float], list[float]]:
    """Lines of the table, errors of rows that the fit saw and of those that it did not."""
    lines, seen, blind = [], [], []
    for row in table(HERE / "results" / "hw_cycles.md", "network"):
        if row["network"].startswith("**"):
            continue
        name, tool, source = row["network"], row["tool"], row["measured by"]
        apart = "another compilation" in source or "most kinds unmeasured" in source
        fitted = name in FITTED or (name, tool) in FITTED_BUILDS
        kind = "apart" if apart else "fitted" if fitted else "blind"
        error = float(row["error"].rstrip("%"))
        if not apart:
            (seen if fitted else blind).append(abs(error))
        lines.append(
            f"| {name} | {tool} | {row['NPU ms']} | {row['CPU ms']} | {row['predicted ms']} | {row['measured ms']} | "
            f"{error:+.1f} % | {kind} | {source} |"
        )
    return lines, seen, blind


def ours() -> tuple[list[str], list[float]]:
    folder = corpus_dir()
    with (folder / "models.csv").open() as file:
        published = {row["file"]: _FIGURE.findall(row["st_ms"]) for row in csv.DictReader(file)}
    lines, ratios = [], []
    for row in table(HERE / "results" / "corpus.md", "model"):
        figures = published.get(row["model"], [])
        if not figures or not row["ms"]:
            continue
        best = min(figures, key=lambda figure: float(figure[1]))
        ratio = float(row["ms"]) / float(best[1])
        ratios.append(ratio)
        lines.append(f"| {row['model']} | {row['ms']} | {float(best[1]):.2f} | {best[0]} | {ratio:.2f} |")
    return lines, ratios


TEXT = """<!-- written by benchmarks/latency_page.py -->
# Predicted and measured latency

The model: `atonc/hw/cycles/hardware.py`; every constant with its evidence: `atonc/hw/stm32n6.toml`. Clocks of ST's
published applications: NPU 1000 MHz, CPU 800 MHz, NPU RAM 900 MHz, flash 400 MB/s. `--npu-mhz`, `--cpu-mhz` and
`--flash-mbps` set others.

## Networks compiled by ST, predicted from their own programs

Mean absolute error: {seen:.1f} % on {seen_count} rows that fixed or supported a constant (*fitted*); {blind:.1f} %
(median {blind_median:.1f} %, worst {blind_worst:.1f} %) on {blind_count} rows that no constant saw (*blind*). Rows
*apart* compare another compilation, or consist of CPU kernels that nobody measured.

| network | tool | NPU ms | CPU ms | predicted ms | measured ms | error | row | measured by |
|---|---|---:|---:|---:|---:|---:|---|---|
{rows}

Single epochs of a MobileNetV2 recorded on a board: mean error 0.18 % on 36 epochs without, 5.5 % on 13 with streams
that allocate cache lines (`benchmarks/results/hw_cycles.md`).

## What is uncertain

- cached re-reads of weights (ALLOC): 5 to 10 % of such an epoch; our own programs do not use them
- external RAM: 400 MB/s assumed, no measured network
- CPU kernels without a measured constant are marked `~`; a report says how many milliseconds rest on them
- CPU steps at all: within 10 to 15 %

## Our programs beside ST's

Predicted for our build, measured by ST for its own best build of the same model. Different programs: the ratio
compares compilers. Our programs have not yet run on a board. Geometric mean of the ratio: {ratio:.2f} over {models}
models.

| model | ours, predicted ms | ST, measured ms | tool | ours / ST |
|---|---:|---:|---|---:|
{own}
"""


def page() -> str:
    rows, seen, blind = networks()
    own, ratios = ours()
    return TEXT.format(
        seen=fmean(seen),
        seen_count=len(seen),
        blind=fmean(blind),
        blind_median=median(blind),
        blind_worst=max(blind),
        blind_count=len(blind),
        rows="\n".join(rows),
        ratio=exp(fmean(map(log, ratios))),
        models=len(ratios),
        own="\n".join(own),
    )


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
