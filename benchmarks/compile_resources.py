"""Time and memory of `atonc generate`, each model in a process of its own, and beside Arm's compiler for its NPUs.

    OMP_NUM_THREADS=1 python benchmarks/compile_resources.py [--only TEXT] [--vela PROGRAM] [--cache FILE] [--write]

The corpus is $ATONC_CORPUS or ../shared/corpus. Vela is no dependency: `python -m venv DIR` and
`DIR/bin/pip install ethos-u-vela` in a folder to throw away, then `--vela DIR/bin/vela`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from corpus_report import CORPUS

RESULTS = Path(__file__).parent / "results" / "compile_resources.md"
MODEL_FOR_VELA = "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite"
ROUNDS = 3
MOST_MEGABYTES, MEDIAN_SECONDS, MOST_SECONDS, MOST_TIMES = 1500, 5.0, 20.0, 5.0
MODES = {"compile": ("--no-verify",), "verified": ()}
REFUSED = 2
HEAD = """# Time and memory of a compilation

Date 2026-11-15, 2-core x86-64 Linux that others used too, one thread. Script: `benchmarks/compile_resources.py`.
Every figure is of a whole process, from its start to the last file written: `atonc generate MODEL --no-verify`
(*compile*) and `atonc generate MODEL` (*verified*: the program also runs on the emulator, with two inputs).
*s*: seconds on the clock; *CPU s*: of the processor; *MB*: largest resident memory. Code of commit 7ccfdf9. The
load average was 5 to 7 on the two cores, so that the clock shows about 2.5 times the seconds of the processor, and
these are more than on a quiet machine too (split_concat: 0.8 there, 1.4 here). The limits on seconds were therefore
held against those of the processor; on this clock the median is above 5.

"""
BEFORE = """
## Before

The same for commit e740c07, when the machine was quiet. What lies between is not only work on time and memory: others
changed in the meantime what is compiled (fewer groups of channels: 388 epochs became 362) and how partial sums of
typical inputs are looked at, which was most of the time and memory of the first two.

| model | compile s | CPU s | MB | verified s | CPU s | MB |
|---|---|---|---|---|---|---|
| deeplab_v3_mobilenetv2_05_16_512_asppv1 | 35.8 | 34.8 | 1407 | 42.6 | 42.6 | 1408 |
| deeplabv3_mnv2_pascal_quant | 22.7 | 21.3 | 943 | 39.5 | 34.3 | 941 |
| st_yolo_x_nano_480_1.0_0.25_3_st | 9.7 | 9.6 | 114 | 14.4 | 14.4 | 175 |

## Since then

2026-11-16, 2-core aarch64 Linux with a load of 18, st_yolo_x_nano_480_1.0_0.25_3_st, one process each, one after the
other; seconds of the processor. More is compiled than before (lanes, chains, packed operators, stripes), in less time.

| command | CPU s | times Vela |
|---|---|---|
| vela 5.2.0 (C++) | 0.80 | 1.0 |
| vela --debug-force-legacy-core (Python) | 5.63 | 7.0 |
| atonc generate --no-verify | 12.97 | 16.2 |
| the same work of commit 7616abc, without lanes and chains, from Python | 12.67 | |
| the same work of this commit, from Python | 12.12 | |

Asked: at most 3 times Vela's time: missed; it is 2.3 times that of its Python core. Words are encoded once, and time
grows with the operators (compile_growth.md); what is left is spread over all stages.
"""


@dataclass(frozen=True)
class Usage:
    """What one process took."""

    code: int
    seconds: float
    cpu_seconds: float
    megabytes: float
    said: str


def measure(command: Sequence[str]) -> Usage:
    """wait4 gives the figures of this one child."""
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    return Usage(child.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)


def generate(model: Path, folder: Path, more: Sequence[str]) -> Usage:
    return measure([sys.executable, "-m", "atonc.cli", "generate", str(model), "-o", str(folder), "-q", *more])


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


def corpus_rows(only: str, cache: Path) -> dict[str, Row]:
    kept: dict[str, Row] = json.loads(cache.read_text()) if cache.exists() else {}
    models = sorted((CORPUS / "models").iterdir(), key=lambda path: path.stat().st_size)
    for model in (m for m in models if only in m.name):
        if model.name not in kept:
            kept[model.name] = model_row(model)
            cache.write_text(json.dumps(kept))
        print(line(model.name, kept[model.name]), file=sys.stderr, flush=True)
    return dict(sorted((name, row) for name, row in kept.items() if only in name))


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
    model = CORPUS / "models" / MODEL_FOR_VELA
    found: dict[str, list[Usage]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = [str(vela), str(model), "--output-dir", str(folder / "vela")]
        for _ in range(ROUNDS):
            found.setdefault("vela", []).append(measure(plain))
            found.setdefault("vela --debug-force-legacy-core", []).append(
                measure([*plain, "--debug-force-legacy-core"])
            )
            found.setdefault("atonc generate --no-verify", []).append(
                generate(model, folder / "atonc", ("--no-verify",))
            )
    version = subprocess.run([vela, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return vela_text(version, found)


def vela_text(version: str, found: Mapping[str, Sequence[Usage]]) -> str:
    base = median(used.seconds for used in found["vela"])
    lines = [
        "## Beside Vela",
        "",
        f"ethos-u-vela {version} on {MODEL_FOR_VELA}, {ROUNDS} rounds in turns, medians of whole processes. Vela's own",
        "default is a compiler in C++; the legacy core is the one in Python. Vela writes one TFLite file.",
        "",
        "| command | s | CPU s | MB | times Vela |",
        "|---|---|---|---|---|",
    ]
    for name, used in found.items():
        failed = sum(u.code != 0 for u in used)
        seconds = median(u.seconds for u in used)
        figures = (seconds, median(u.cpu_seconds for u in used), max(u.megabytes for u in used))
        text = f"{figures[0]:.2f} | {figures[1]:.2f} | {figures[2]:.0f} | {seconds / base:.1f}"
        lines.append(f"| {name} | {text}{f' ({failed} failed)' if failed else ''} |")
    ours = median(used.seconds for used in found["atonc generate --no-verify"]) / base
    verdict = "met" if ours <= MOST_TIMES else "missed"
    return "\n".join(lines) + f"\n\nAsked: at most {MOST_TIMES:g} times Vela's time: {verdict}.\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--vela", type=Path, help="the program to compare with")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "atonc_resources.json")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    rows = corpus_rows(options.only, options.cache)
    beside = against_vela(options.vela) if options.vela else ""
    text = HEAD + summary(rows) + beside + "## Models\n\n" + table(rows) + BEFORE
    if options.write:
        RESULTS.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
