"""Time and memory of `atonc generate`, each model in a process of its own, and beside Arm's compiler for its NPUs.

Vela is no dependency: `python -m venv DIR` and
`DIR/bin/pip install ethos-u-vela` in a folder to throw away, then `--vela DIR/bin/vela`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.shared.children import Usage, measure
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.corpus import model as path_of
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import HOME, Kept

GROUP = "tools"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    argument("--vela", type=Path, help="the program to compare with"),
    KEEP.but(default=HOME / "atonc_resources.json"),
    FRESH,
    WRITE,
)

MODEL_FOR_VELA = "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite"
ROUNDS = 3
VELA, VELA_IN_PYTHON, OURS = "vela", "vela --debug-force-legacy-core", "atonc generate --no-verify"
MOST_MEGABYTES, MEDIAN_SECONDS, MOST_SECONDS, MOST_TIMES = 1500, 2.0, 30.0, 3.0
MODES = {"compile": ("--no-verify",), "verified": ()}
REFUSED = 2
HEAD = """# Time and memory of a compilation

One thread, on a machine that others used too. Every figure is of a whole process, from its start to the last file
written: `atonc generate MODEL --no-verify` (*compile*) and `atonc generate MODEL` (*verified*: the program also runs on
the emulator, with two inputs). *s*: seconds on the clock, which shows the load of the machine; *CPU s*: of the
processor, against which the limits are held; *MB*: largest resident memory.

"""


def generate(model: Path, folder: Path, more: Sequence[str]) -> Usage:
    return measure([sys.executable, "-m", "atonc", "generate", str(model), "-o", str(folder), "-q", *more])


def epochs(folder: Path) -> int:
    steps = json.loads((folder / "network_program.json").read_text())["steps"]
    return sum(step["kind"] == "npu" for step in steps)


# --------------------------------------------------------------------------------------------------------------- corpus

Row = dict[str, object]


def model_row(model: Path) -> Row:
    row: Row = {}
    with tempfile.TemporaryDirectory() as name:
        for mode, more in MODES.items():
            used = generate(model, Path(name), more)
            if used.code == REFUSED:
                return {"refused": used.said.splitlines()[0]}
            if used.code:
                return {"failed": (used.said.splitlines() or ["no output"])[-1]}
            row[mode] = asdict(used)
        row["epochs"] = epochs(Path(name))
    return row


def corpus_rows(arguments: argparse.Namespace) -> dict[str, Row]:
    kept = Kept(arguments.keep, arguments.fresh)
    rows = {}
    for model in by_size(chosen(arguments)):
        rows[model.name] = kept.of(model.name, partial(model_row, model))
        print(line(model.name, rows[model.name]), file=sys.stderr, flush=True)
    return dict(sorted(rows.items()))


def line(name: str, row: Row) -> str:
    for word in ("refused", "failed"):
        if word in row:
            return f"| {name} | {word} | | | | | | |"
    return f"| {name} | {row['epochs']} | {cells(row['compile'])} | {cells(row['verified'])} |"


def cells(used: object) -> str:
    assert isinstance(used, Mapping)
    return f"{used['seconds']:.2f} | {used['cpu_seconds']:.2f} | {used['megabytes']:.0f}"


def table(rows: Mapping[str, Row]) -> str:
    lines = [
        "| model | epochs | compile s | CPU s | MB | verified s | CPU s | MB |",
        "|---|---|---|---|---|---|---|---|",
        *(line(name, row) for name, row in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def summary(rows: Mapping[str, Row]) -> str:
    """The limits, and who is above them."""
    lines = []
    for mode in MODES:
        used = {name: row[mode] for name, row in rows.items() if mode in row}
        clock, seconds, memory = (
            {name: u[key] for name, u in used.items() if isinstance(u, Mapping)}
            for key in ("seconds", "cpu_seconds", "megabytes")
        )
        if not seconds:
            continue
        slow = [name for name, value in seconds.items() if value > MOST_SECONDS]
        large = [name for name, value in memory.items() if value > MOST_MEGABYTES]
        lines.append(
            f"- {mode}: {len(seconds)} models; CPU seconds: median {median(seconds.values()):.2f} (limit "
            f"{MEDIAN_SECONDS:g}), largest {max(seconds.values()):.2f}; on the clock: median "
            f"{median(clock.values()):.2f}, largest {max(clock.values()):.2f}; memory: largest "
            f"{max(memory.values()):.0f} MB "
            f"(limit {MOST_MEGABYTES}). Above {MOST_SECONDS:g} s: {', '.join(slow) or 'none'}. "
            f"Above the memory limit: {', '.join(large) or 'none'}."
        )
    bad = [f"{name}: {row[word]}" for name, row in rows.items() for word in ("refused", "failed") if word in row]
    return "\n".join([*lines, *(f"- {text}" for text in bad)]) + "\n\n"


# ----------------------------------------------------------------------------------------------------------------- vela


def against_vela(vela: Path) -> str:
    """Both on the same file, in turns."""
    path = path_of(MODEL_FOR_VELA)
    found: dict[str, list[Usage]] = {VELA: [], VELA_IN_PYTHON: [], OURS: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = [str(vela), str(path), "--output-dir", str(folder / "vela")]
        for _ in range(ROUNDS):
            found[VELA].append(measure(plain))
            found[VELA_IN_PYTHON].append(measure([*plain, "--debug-force-legacy-core"]))
            found[OURS].append(generate(path, folder / "atonc", ("--no-verify",)))
    version = subprocess.run([vela, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return vela_text(version, found)


def vela_text(version: str, found: Mapping[str, Sequence[Usage]]) -> str:
    cpu = {name: median(used.cpu_seconds for used in runs) for name, runs in found.items()}
    lines = [
        "## Beside Vela",
        "",
        f"ethos-u-vela {version} on {MODEL_FOR_VELA}, {ROUNDS} rounds in turns, medians of whole processes. Vela's own",
        "default is a compiler in C++; the legacy core is the one in Python. Vela writes one TFLite file. Times",
        "are those of the processor.",
        "",
        "| command | s | CPU s | MB | times Vela | times its Python core |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        failed = sum(used.code != 0 for used in runs)
        figures = (f"{median(used.seconds for used in runs):.2f}", f"{cpu[name]:.2f}")
        times = (f"{cpu[name] / cpu[base]:.1f}" for base in (VELA, VELA_IN_PYTHON))
        cells = (name, *figures, f"{max(used.megabytes for used in runs):.0f}", *times)
        lines.append("| " + " | ".join(cells) + (f" ({failed} failed)" if failed else "") + " |")
    verdict = "met" if cpu[OURS] <= MOST_TIMES * cpu[VELA] else "missed"
    return "\n".join(lines) + f"\n\nAsked: at most {MOST_TIMES:g} times Vela's time: {verdict}.\n\n"


def run(arguments: argparse.Namespace) -> Report:
    rows = corpus_rows(arguments)
    beside = against_vela(arguments.vela) if arguments.vela else ""
    text = HEAD + summary(rows) + beside + "## Models\n\n" + table(rows)
    return Report(text)
