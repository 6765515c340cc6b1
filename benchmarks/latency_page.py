"""Writes docs/latency.md from the tables under benchmarks/results and the published figures in the corpus.

    python benchmarks/latency_page.py [--check]

Predicted against measured for networks that ST compiled (results/hw_cycles.md), and our prediction for our own
programs beside what ST measured for its own (results/explain.md): the latter are different programs, so the ratio
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
MACHINE = HERE.parent / "atonc" / "hw" / "stm32n6.toml"
_CONSTANT = re.compile(r"(?P<name>\w+) = (?P<value>[-\d.]+)\s+# (?P<tag>[PFLU])(?P<range>[^:]*): (?P<why>.+)")
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


def networks() -> tuple[list[str], list[float], list[float], list[float]]:
    """Lines of the table; errors of rows that the fit saw, that it did not see, and that were known at the time."""
    lines, seen, blind, known = [], [], [], []
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
            known += [abs(error)] if "not in the mean" not in source else []
        lines.append(
            f"| {name} | {tool} | {row['NPU ms']} | {row['CPU ms']} | {row['predicted ms']} | {row['measured ms']} | "
            f"{error:+.1f} % | {kind} | {source} |"
        )
    return lines, seen, blind, known


def recorded() -> list[str]:
    """The lines about single epochs."""
    text = (HERE / "results" / "hw_cycles.md").read_text()
    return [line.replace("* ", "- ", 1) for line in text.splitlines() if re.match(r"\* \d+ epochs with", line)]


def constants() -> list[str]:
    """Name, value and the comment of every constant: tag, uncertainty, evidence."""
    lines, part = [], ""
    for line in MACHINE.read_text().splitlines():
        part = line[1:].split("]")[0] if line.startswith("[") else part
        found = _CONSTANT.match(line)
        if part in ("clocks", "timing") and found:
            lines.append(
                f"| `{found['name']}` | {found['value']} | {found['tag']} | {found['range'].strip()} | {found['why']} |"
            )
    return lines


def ours() -> tuple[list[str], list[float]]:
    folder = corpus_dir()
    with (folder / "models.csv").open() as file:
        published = {row["file"]: _FIGURE.findall(row["st_ms"]) for row in csv.DictReader(file)}
    lines, ratios = [], []
    for row in table(HERE / "results" / "explain.md", "model"):
        figures = published.get(row["model"], [])
        if not figures or not row["ms"]:
            continue
        best = min(figures, key=lambda figure: float(figure[1]))
        ratio = float(row["ms"]) / float(best[1])
        ratios.append(ratio)
        lines.append(f"| {row['model']} | {row['ms']} | {float(best[1]):.2f} | {best[0]} | {ratio:.2f} |")
    return lines, ratios


def elsewhere() -> list[str]:
    """Models that others than the zoo measured; a row at the clocks of the prediction is preferred."""
    folder = corpus_dir()
    with (folder / "figures" / "bench_n6.csv").open() as file:
        measured = list(csv.DictReader(file))
    with (folder / "models.csv").open() as file:
        models = [row for row in csv.DictReader(file) if row["figures"] == "True" and not row["st_ms"]]
    predicted = {row["model"]: row["ms"] for row in table(HERE / "results" / "explain.md", "model")}
    lines = []
    for model in sorted(models, key=lambda row: row["file"]):
        rows = [
            row for row in measured if row["md5"] == model["md5"] or model["file"].startswith(row["model"].split()[0])
        ]
        rows = [row for row in rows if "npu_freq=1000MHz" in row["detail"]] or rows
        ours_ms = predicted.get(model["file"], "")
        if not rows or not ours_ms:
            continue
        best = min(rows, key=lambda row: float(row["inference_ms"]))
        clocks = re.search(r"mcu_freq=(\d+).*npu_freq=(\d+)", best["detail"])
        remark = f"CPU {clocks[1]}, NPU {clocks[2]} MHz" if clocks else best["method"]
        ratio = float(ours_ms) / float(best["inference_ms"])
        tool = best["tool"].split("-")[0]
        board = best["board"].removesuffix(" (see attrs)")
        cells = (model["file"], ours_ms, best["inference_ms"], tool, f"{board}, {remark}", f"{ratio:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


TEXT = """<!-- written by benchmarks/latency_page.py -->
# Predicted and measured latency

The model: `atonc/hw/cycles/hardware.py`; every constant with its evidence: `atonc/hw/stm32n6.toml`. Clocks of ST's
published applications: NPU 1000 MHz, CPU 800 MHz, NPU RAM 900 MHz, flash 400 MB/s. `--npu-mhz`, `--cpu-mhz` and
`--flash-mbps` set others.

## Networks compiled by ST, predicted from their own programs

Mean absolute error: {seen:.1f} % on {seen_count} rows that fixed or supported a constant (*fitted*); {blind:.1f} %
(median {blind_median:.1f} %, worst {blind_worst:.1f} %) on {blind_count} rows that no constant saw (*blind*). The
{counted} rows that were known when the model was made: {counted_mean:.1f} %. Rows *apart* compare another compilation,
or consist of CPU kernels that nobody measured.

| network | tool | NPU ms | CPU ms | predicted ms | measured ms | error | row | measured by |
|---|---|---:|---:|---:|---:|---:|---|---|
{rows}

Single epochs of a MobileNetV2 recorded on a board (NPU cycles; every epoch is listed in
`benchmarks/results/hw_cycles.md`):

{epochs}

Five of the epochs with cached streams (35, 36, 38, 39, 41) fixed `cache_beat`.

## The constants

From `atonc/hw/stm32n6.toml`. P: proven by counters or by many epochs; F: fitted on the measurements named; L: likely;
U: assumed, never measured.

| constant | value | tag | uncertainty | evidence |
|---|---:|---|---|---|
{constants}

## What is uncertain

- cached re-reads of weights (ALLOC): up to 12 % of such an epoch; our own programs do not use them
- external RAM: 400 MB/s assumed, no measured network
- CPU kernels of our own: instructions counted, waits for memory fitted to measured kernels of ST's
  ([table](../benchmarks/results/cpu_waits.md)); not measured on a board, marked `~` in reports
- CPU kernels of ST's library with a constant: within 10 to 15 %; those without one are marked `~`

Every report states an error band for its network: 3 % of the time in NPU epochs, 15 % of measured CPU kernels, 100 % of
what nobody measured.

## Energy

`explain` and the HTML report give the energy of the NPU and the memories by the powers that ST publishes with its
machine and pool descriptions (per unit and cycle, per byte read and written), as ST's own `c_info.json` does. The
processor, the oscillators and leakage are not in it; no measurement of ours confirms it.

## Our programs beside ST's

Predicted for our build, measured by ST for its own best build of the same model. Different programs: the ratio
compares compilers. Our programs have not yet run on a board. Geometric mean of the ratio: {ratio:.2f} over {models}
models.

| model | ours, predicted ms | ST, measured ms | tool | ours / ST |
|---|---:|---:|---|---:|
{own}

Models that ST's zoo does not list, measured by others with ST's compiler. Predictions are for NPU 1000 MHz and CPU
800 MHz; mind the clocks of the measurement. Single layers carry the processor's start of each epoch.

| model | ours, predicted ms | measured ms | tool | board and clocks | ours / measured |
|---|---:|---:|---|---|---:|
{others}
"""


def page() -> str:
    rows, seen, blind, known = networks()
    own, ratios = ours()
    return TEXT.format(
        seen=fmean(seen),
        seen_count=len(seen),
        blind=fmean(blind),
        blind_median=median(blind),
        blind_worst=max(blind),
        blind_count=len(blind),
        counted=len(known),
        counted_mean=fmean(known),
        rows="\n".join(rows),
        ratio=exp(fmean(map(log, ratios))),
        models=len(ratios),
        own="\n".join(own),
        others="\n".join(elsewhere()),
        epochs="\n".join(recorded()),
        constants="\n".join(constants()),
    )


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
