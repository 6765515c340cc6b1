"""Figures in the documents: everything between `<!-- figures: NAME -->` and `<!-- end -->` is written from the result
files of benchmarks by `tools/gen_reference.py`, so that two pages cannot say two things.

Each name below is one function of the results (those of docs/cases: case_figures.py). What they read: schedule.json,
against_st.json, hw_cycles.json, energy.json, st_scripts.json and pools.md under benchmarks/results, the constants of
the cycle and energy models, and the folder of recordings.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from atonc.compiler.schedule.passes import ALL, Pass
from atonc.delivery.recordings import store
from atonc.machine.cost.band import limits
from atonc.machine.hw.board import board_names, find_board

sys.path.insert(0, str(Path(__file__).parent))
from case_figures import CASES

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RECORDINGS = ROOT / "recordings"
POWER = ROOT / "atonc" / "machine" / "cost" / "power.toml"
MACHINE = ROOT / "atonc" / "machine" / "hw" / "stm32n6.toml"
REGION = re.compile(r"(<!-- figures: ([\w-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
_CONSTANT = re.compile(r"(?P<name>\w+) = (?P<value>[-\d.]+)\s+# (?P<tag>[PFLU]): (?P<why>.+)")
_POWER = re.compile(r"(?P<name>\w+) = \[(?P<values>[-\d., ]+)\]\s+# (?P<tag>[PFLU]): (?P<why>.+)")
OUTSIDE = 0x6000_0000  # where memories outside the chip begin, in the map of a Cortex-M
Row = dict[str, Any]


def filled(text: str) -> str:
    """The text with all its regions as the results have it."""

    def region(match: re.Match[str]) -> str:
        inside = FIGURES[match[2]]()
        inside = f"\n{inside}\n" if "\n" in inside or inside.startswith("|") or "\n" in match[3] else inside
        return f"{match[1]}{inside}{match[4]}"

    return REGION.sub(region, text)


def documents() -> dict[Path, str]:
    """Every page with a region, as it should be; none where benchmarks are not part of the checkout."""
    if not RESULTS.is_dir():
        return {}
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    return {page: filled(page.read_text()) for page in pages if REGION.search(page.read_text())}


@cache
def _results(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


# ------------------------------------------------------------------------------------------------------ against ST


def front() -> str:
    """The three figures of the front page, each with where it comes from."""
    new = _results("against_st")["newest"]
    n, blind = new["summary"], _errors(row for row in _measured() if row["kind"] == "blind")
    rows = {
        f"**{n['on_chip_mean']:.2f}x** the latency that ST publishes": (
            f"predicted, against release {new['release']} as measured by ST: geometric mean of {n['on_chip']} networks"
            f", {n['strongest'][0][0]:.2f}x to {n['weakest'][0][0]:.2f}x; {n['on_chip_high']:.2f}x with all "
            "predictions at the upper error bound",
            "[tables](benchmarks/results/against_st.md), [where it comes from](docs/schedule.md)",
        ),
        f"**{fmean(blind):.1f} %** mean error of a predicted latency": (
            f"{len(blind)} ST programs with published measurements, held out from calibration; worst "
            f"{max(blind):.1f} %; within error bounds: {inside_the_band()}",
            "[latency](docs/latency.md)",
        ),
        f"**{st_scripts_count()}** public `stedgeai` scripts": (
            "run unchanged with atonc in place of `stedgeai`, on virtual boards",
            "[table](docs/quickstart-st-project.md)",
        ),
    }
    lines = [f"| {figure} | {what} | {source} |" for figure, (what, source) in rows.items()]
    return "\n".join(["| result | measured on | source |", "|---|---|---|", *lines])


def speed() -> str:
    """The whole claim, for pages in docs."""
    new, same = _results("against_st")["newest"], _results("against_st")["same_file"]
    n, s = new["summary"], same["summary"]
    old = sum(count for release, count in same["releases"].items() if release.startswith("2."))
    return "\n".join([
        "Our predicted latency divided by the latency that ST measured and published; means are geometric "
        "([tables](../benchmarks/results/against_st.md), [all models](../benchmarks/results/schedule.md)):\n",
        f"- ST's newest release ({new['release']}), same architecture and resolution: **{n['on_chip_mean']:.2f}x** on "
        f"the {n['on_chip']} networks that ST keeps on the chip (median {n['on_chip_median']:.2f}x;",
        f"  {n['on_chip_high']:.2f}x with all predictions at the upper error bound), {n['mean']:.2f}x with the "
        f"{_more(n)} that ST puts into external RAM. Lowest {_end(n, 'strongest')}, highest {_end(n, 'weakest')};",
        f"  slower than ST's: {_slower(n)}.",
        f"- The same with weights copied to free RAM (`--resident`): {n['resident'][1]:.2f}x on {n['resident'][0]} "
        f"networks, highest {n['resident'][2]:.2f}x.",
        f"- ST's best latency of any release, same file: {s['on_chip_mean']:.2f}x on {s['on_chip']} models on the chip "
        f"(median {s['on_chip_median']:.2f}x), {s['mean']:.2f}x with the {_more(s)} in external RAM; slower than ST's:",
        f"  {_slower(s)}. {old} of these {s['networks']} measurements are of releases 2.x.",
    ])  # fmt: skip


def _more(summary: Row) -> int:
    return int(summary["networks"] - summary["on_chip"])


def _end(summary: Row, key: str) -> str:
    ratio, name = summary[key][0]
    return f"{ratio:.2f}x ({name})"


def _slower(summary: Row) -> str:
    return ", ".join(f"{name} ({ratio:.2f}x)" for name, ratio in summary["slower"].items()) or "none"


def against_newest() -> str:
    rows = [row for row in _results("against_st")["newest"]["rows"] if "ms" in row]
    refused = [row for row in _results("against_st")["newest"]["rows"] if "ms" not in row]
    lines = [
        "| network | resolution | data | ours, predicted ms | error bounds | ST, measured ms | ours / ST |",
        "|---|---|---|---:|---:|---:|---:|",
        *(f"| {r['network']} | {r['resolution']} | {r['dataset']} | {_compared(r)} |" for r in rows),
    ]
    lines += [f"\nNot compiled: {r['network']} {r['resolution']} ({r['refused'][:120]})." for r in refused]
    return "\n".join(lines)


def against_same_file() -> str:
    head = "| model | ours, predicted ms | error bounds | ST, measured ms | ours / ST | release |"
    rows = _results("against_st")["same_file"]["rows"]
    lines = [f"| {row['model']} | {_compared(row)} | {row['release']} |" for row in rows]
    return "\n".join([head, "|---|---:|---:|---:|---:|---|", *lines])


def elsewhere() -> str:
    head = "| model | ours, predicted ms | error bounds | measured ms | ours / measured | tool | board and clocks |"
    rows = _results("against_st")["elsewhere"]
    lines = [f"| {row['model']} | {_compared(row)} | {row['release']} | {row['board']} |" for row in rows]
    return "\n".join([head, "|---|---:|---:|---:|---:|---|---|", *lines])


def _compared(row: Row) -> str:
    mark = " (external RAM)" if row.get("external_kib") else ""
    span = f"{row['low_ms']:.2f} to {row['high_ms']:.2f}"
    return f"{row['ms']:.2f} | {span} | {row['st_ms']:g}{mark} | {row['ms'] / row['st_ms']:.2f}"


# ----------------------------------------------------------------------------------------------- predicted and measured


def model_error() -> str:
    fitted, blind = (_errors(row for row in _measured() if row["kind"] == kind) for kind in ("fitted", "blind"))
    counted = _errors(row for row in _measured() if row["counts"])
    return (
        f"Mean absolute error: {fmean(fitted):.1f} % on {len(fitted)} rows used for calibration (*fitted*); "
        f"{fmean(blind):.1f} % (median {median(blind):.1f} %, worst {max(blind):.1f} %) on {len(blind)} rows held out "
        f"from calibration (*blind*); {fmean(counted):.1f} % on the {len(counted)} rows that were known when the model "
        "was made. *apart*: many unmeasured CPU kernels, in none of these means."
    )


def _measured() -> list[Row]:
    return [row for row in _results("hw_cycles")["networks"] if "ms" in row]


def _errors(rows: Iterable[Row]) -> list[float]:
    return [100 * abs(row["ms"] / row["measured_ms"] - 1) for row in rows]


def inside_the_band() -> str:
    s = _results("hw_cycles")["summary"]
    return (
        f"{s['networks_inside']} of {s['networks']} networks ({s['unfitted_inside']} of {s['unfitted']} held "
        f"out from calibration) and {s['epochs_inside']} of {s['epochs']} single epochs"
    )


def measured_networks() -> str:
    lines = [
        "| network | tool | predicted ms | error bounds | measured ms | error | within | row | measured by |",
        "|---|---|---:|---:|---:|---:|---|---|---|",
    ]
    for row in _measured():
        span = f"{row['low_ms']:.2f} to {row['high_ms']:.2f}"
        error = f"{100 * (row['ms'] / row['measured_ms'] - 1):+.1f} %"
        times = f"{row['ms']:.2f} | {span} | {row['measured_ms']} | {error}"
        inside = "yes" if row["inside"] else "no"
        lines.append(f"| {row['network']} | {row['tool']} | {times} | {inside} | {row['kind']} | {row['source']} |")
    return "\n".join(lines)


def measured_epochs() -> str:
    return "\n".join(f"- {line}" for line in _results("hw_cycles")["epochs"])


def constants() -> str:
    """Name, value, range and the comment of every constant: tag and evidence."""
    ranges = tomllib.loads(MACHINE.read_text())["ranges"]
    lines, part = ["| constant | value | tag | range | meaning, source |", "|---|---:|---|---|---|"], ""
    for line in MACHINE.read_text().splitlines():
        part = line[1:].split("]")[0] if line.startswith("[") else part
        found = _CONSTANT.match(line)
        if part in ("clocks", "timing") and found:
            span = " to ".join(f"{value:g}" for value in ranges.get(found["name"], ()))
            lines.append(f"| `{found['name']}` | {found['value']} | {found['tag']} | {span} | {found['why']} |")
    return "\n".join(lines)


def band() -> str:
    lines = ["| part of the latency | may differ by | source |", "|---|---:|---|"]
    for topic, limit in limits().items():
        lines.append(f"| {topic} | {100 * limit.low:+.0f} to {100 * limit.high:+.0f} % | {limit.why} |")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------ variants


def variants() -> str:
    """What each lever brings, against the default."""
    lines = ["| options | models | latency / default | activations / default |", "|---|---:|---:|---:|"]
    for name, records in _results("schedule").items():
        times, sizes = _ratios(records, "ms"), _ratios(records, "peak_bytes")
        if name != "default" and times:
            lines.append(f"| {name} | {len(times)} | {_mean(times):.3f} | {_mean(sizes):.3f} |")
    return "\n".join(lines) if len(lines) > 2 else "Run `python -m benchmarks schedule --variant ...`."


def memory_price() -> str:
    times = _ratios(_results("schedule").get("memory", {}), "ms")
    if not times:
        return "time"
    most, mean = 100 * (max(times) - 1), 100 * (_mean(times) - 1)
    return f"up to {most:.0f} % more latency, {mean:.0f} % on average"


def _ratios(records: Mapping[str, Row], key: str) -> list[float]:
    plain = _results("schedule")["default"]
    pairs = ((record.get(key), plain.get(name, {}).get(key)) for name, record in records.items())
    return [new / old for new, old in pairs if new and old]


def _mean(ratios: Iterable[float]) -> float:
    found = list(ratios)
    return math.exp(sum(map(math.log, found)) / len(found))


def pools() -> str:
    text = (RESULTS / "pools.md").read_text()
    form = r"\* {}: (\d+\.\d+) of without on the (\d+) with a chain \(geometric mean\), worst (\d+\.\d+)"
    keys = ("time", "program words", "bytes of activations")
    time, words, size = (re.search(form.format(key), text) for key in keys)
    assert time and words and size, "benchmarks/results/pools.md has another form"
    return (
        f"Predicted with the pass on {time[2]} networks: {float(time[1]):.2f}x the latency (geometric mean; at most "
        f"{float(time[3]):.2f}x), {float(size[1]):.2f}x the bytes of activations, {float(words[1]):.2f}x the words of "
        "command streams"
    )


def passes() -> str:
    """Lists the passes of the schedule as the compiler does."""
    rows = (f"| `{one.name}` | {one.what} | {'on' if one.default else 'off'} | {_seen(one)} |" for one in ALL)
    head = ("| pass | what it does | default | seen in ST programs |", "|---|---|---|---|")
    return "\n".join((*head, *rows))


def _seen(one: Pass) -> str:
    return f"its parts ({one.argument})" if one.argument else "yes" if one.seen else "no"


def boards() -> str:
    """Every file of atonc/machine/boards, with the memories that are not the chip's."""
    rows = []
    for name in board_names():
        found = find_board(name)
        outside = [f"{m.name} {m.size_bytes >> 20} MB" for m in found.memories if m.base >= OUTSIDE]
        pools = str(len(found.pool_sets) or "none")
        rows.append(f"| `{name}` | {found.title} | {', '.join(outside) or 'none'} | {pools} |")
    return "\n".join(("| board | | memories outside the chip | pool sets |", "|---|---|---|---|", *rows))


# ------------------------------------------------------------------------------------------------------ ST's scripts


def st_scripts() -> str:
    """Every script of ST's that was tried, and what came of it."""
    lines = ["| repository at commit | script | what was called | result |", "|---|---|---|---|"]
    for row in _results("st_scripts"):
        place = f"{row['repository']} {row['commit']}".strip()
        result = row["result"] if row["passed"] else f"**does not hold**: {row['result']}"
        cells = (place, f"`{row['script']}`", row["called"], result)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def st_scripts_count() -> str:
    """How many of them hold."""
    found = _results("st_scripts")
    return f"{sum(row['passed'] for row in found)} of {len(found)}"


# -------------------------------------------------------------------------------------------------------- recordings


def recorded_times() -> str:
    """Every recording of the repository, recorded beside predicted."""
    return store.latency_table(RECORDINGS)


def energy_inside() -> str:
    """How many measured energies lie inside their band."""
    rows = [row for row in _results("energy")["rows"] if row["kind"] == "measured" and row["unit"] == "uJ"]
    return f"{sum(row['inside'] for row in rows)} of {len(rows)}"


def power_constants() -> str:
    """Every constant of the energy model, with its range and its source."""
    head = ("| constant | low | likely | high | tag | source |", "|---|---:|---:|---:|---|---|")
    found = (_POWER.match(line) for line in POWER.read_text().splitlines())
    return "\n".join((*head, *(_power_row(match) for match in found if match)))


def _power_row(match: re.Match[str]) -> str:
    low, likely, high = match["values"].split(", ")
    return f"| `{match['name']}` | {low} | {likely} | {high} | {match['tag']} | {match['why']} |"


def published_energies() -> str:
    """Measured energies beside ours."""
    head = ("| model | measured | where | ours, likely | error bounds | within |", "|---|---:|---|---:|---:|---|")
    rows = [row for row in _results("energy")["rows"] if row["kind"] == "measured" and row["unit"] == "uJ"]
    return "\n".join((*head, *(_energy_row(row) for row in rows)))


def _energy_row(row: Row) -> str:
    band = f"{row['ours_low']:,.0f} to {row['ours_high']:,.0f}"
    figures = f"{row['published']:,.1f} uJ | {row['scope']} | {row['ours_likely']:,.0f} uJ | {band}"
    return f"| {row['model']} | {figures} | {'yes' if row['inside'] else 'no'} |"


FIGURES: Mapping[str, Callable[[], str]] = {
    "front": front,
    "speed": speed,
    "against-newest": against_newest,
    "against-same-file": against_same_file,
    "elsewhere": elsewhere,
    "model-error": model_error,
    "inside-the-band": inside_the_band,
    "measured-networks": measured_networks,
    "measured-epochs": measured_epochs,
    "constants": constants,
    "band": band,
    "variants": variants,
    "memory-price": memory_price,
    "pools": pools,
    "passes": passes,
    "boards": boards,
    "st-scripts": st_scripts,
    "st-scripts-count": st_scripts_count,
    "recorded-times": recorded_times,
    "energy-inside": energy_inside,
    "power-constants": power_constants,
    "published-energies": published_energies,
    **CASES,
}
