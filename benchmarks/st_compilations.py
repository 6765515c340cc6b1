"""What becomes of every network that ST's tool compiled and people published, run on the emulator?

The folder is what `st_inventory` wrote. Networks run in other processes, a few in each, with bounded time and memory;
the verdict is kept in the folder of the network (`verdict.json`), so that a run may be stopped and goes on where it
was.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from atonc.insight.runs import runs
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu import tensors
from atonc.machine.emu.files import network_c as header_comment
from atonc.machine.emu.network import NetworkStep
from benchmarks.shared import tables
from benchmarks.shared.children import run_again
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, SECONDS, WRITE, Report, argument, hidden

GROUP = "st"
FOUND = argument("--found", type=Path, required=True, metavar="DIR", help="what st_inventory took out")
ARGUMENTS = (FOUND, ONLY, SECONDS.but(default=540.0), WRITE, hidden("--work"))

MOST_SECONDS, BYTES = 120, 6 << 30  # of the processor, for one network; of one process
BATCH = 12  # networks of one process
MOST_CHOICES, MOST_MODELS = 2, 4  # files that are tried
SHARE, AGREEING = 0.5, 0.8  # of a model's operators that are found in memory; of these, that a right model explains
BARE = (".raw", ".bin")
Verdict = dict[str, Any]


# ------------------------------------------------------------------------------------------------ networks, in a child


def work(found: Path, keys: list[str]) -> None:
    """Judges one network after the other; `current` says which, so that the parent knows what it died of."""
    models = Models(found / "blobs")
    for key in keys:
        (found / "current").write_text(key)
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        verdict = judge(found / key, models)
        signal.setitimer(signal.ITIMER_PROF, 0)
        (found / key / "verdict.json").write_text(json.dumps(verdict))


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"not done after {MOST_SECONDS} s")


def judge(folder: Path, models: Models) -> Verdict:
    """Loads, runs from the first epoch to the last on synthetic inputs, and compares layers where a model matches."""
    found = json.loads((folder / "found.json").read_text())
    if "unreadable" in found:
        missing = "there is no such file" in found["unreadable"]
        return {"result": "incomplete" if missing else "damaged", "why": found["unreadable"]}
    missing = [pool for pool, files in found["weights"].items() if not files]
    about = _about(folder, found)
    if missing:
        why = f"no weights for {', '.join(missing)}"
        return about | {"result": "incomplete", "why": why, "absent": found["absent"]}
    try:
        return about | _run(folder, models, found)
    except (AtoncError, TimeoutError) as error:
        return about | {"result": "stops", "why": str(error)}


def _about(folder: Path, found: Verdict) -> Verdict:
    """What the head of the C file says; reading all of it takes longer than running the network."""
    comments = (folder / f"{found['stem']}.c").read_bytes()[:20_000].decode("utf-8", "replace")
    version, _ = header_comment.versions([comments])
    return {"compiler": version, "blobs": bool(found["header"])}


def _counts(steps: Iterable[NetworkStep]) -> Verdict:
    real = [step for step in steps if not step.empty]
    return {"epochs": len(real), "cpu": sum(step.kind != "npu" for step in real)}


def _run(folder: Path, models: Models, found: Verdict) -> Verdict:
    """With the nearest weights; with the next nearest where a model says that those are of another compilation."""
    best: Verdict = {}
    choices = _choices(found["weights"])
    for weights in choices:
        files = tuple(_placed(folder, models.blobs / blob, cell, pool, found) for pool, (blob, cell) in weights.items())
        options = runs.RunOptions(folder / f"{found['stem']}.c", weights=files, observe=True)
        try:
            net = runs.load(options)
        except AtoncError:  # of the right length, and yet of another compilation
            if best or weights is not choices[-1]:
                continue
            raise
        inputs = runs.choose_inputs(net, options)
        started = time.process_time()
        result = runs.execute(net, inputs, options)
        verdict: Verdict = {
            "compiler": net.network.atonn_version,
            "blobs": bool(net.network.blobs),
            **_counts(net.steps),
            "result": "runs" if result.complete else "stops",
            "seconds": round(time.process_time() - started, 2),
            "weights": sorted(cell for _, cell in weights.values()),
            "cut": _cut(models.blobs, weights, found),
            "outputs": {name: _spread(value) for name, value in result.outputs.items()},
            **_layers(result, models, found),
        }
        if not best or verdict.get("agreeing", 0.0) > best.get("agreeing", 0.0):
            best = verdict
        if best.get("agreeing", 1.0) > AGREEING:
            break
    return best


def _choices(weights: dict[str, list[list[str]]]) -> list[dict[str, list[str]]]:
    """The nearest files, then the next nearest."""
    most = min(MOST_CHOICES, max((len(files) for files in weights.values()), default=1))
    return [{pool: files[min(k, len(files) - 1)] for pool, files in weights.items()} for k in range(most)]


def _placed(folder: Path, blob: Path, cell: str, pool: str, found: Verdict) -> Path:
    """A name that says which pool it is for. Some files hold a few constants more than the C file speaks of."""
    path = folder / f"{blob.name[:8]}.{pool}.{cell.rsplit('.', 1)[-1].lower()}"
    base, end = found["needs"][pool]
    if path.suffix in BARE and blob.stat().st_size > end - base:
        path.unlink(missing_ok=True)
        path.write_bytes(blob.read_bytes()[: end - base])
        return path
    return _linked(path, blob)


def _cut(blobs: Path, weights: dict[str, list[str]], found: Verdict) -> int:
    """Bytes that bare files have more than their pools need."""
    sizes = [(found["needs"][pool], blobs / blob) for pool, (blob, cell) in weights.items() if cell.endswith(BARE)]
    return sum(max(0, file.stat().st_size - (end - base)) for (base, end), file in sizes)


def _linked(path: Path, target: Path) -> Path:
    if not path.exists():
        path.symlink_to(target.resolve())
    return path


def _spread(value: Any) -> list[float]:
    flat = np.asarray(value, np.float64).reshape(-1)
    return [float(flat.min(initial=0)), float(flat.max(initial=0)), int(np.unique(flat[:10000]).size)]


@dataclass
class Models:
    """Model files by the hash of their content, and how many values their inputs have."""

    blobs: Path
    known: dict[str, list[int]] = field(default_factory=dict)

    def path(self, blob: str, cell: str) -> Path:
        return _linked(self.blobs / f"{blob}.{cell.rsplit('.', 1)[-1].lower()}", self.blobs / blob)

    def input_sizes(self, blob: str, cell: str) -> list[int]:
        memo = self.blobs.parent / "models.json"
        if not self.known and memo.exists():
            self.known = json.loads(memo.read_text())
        if blob not in self.known:
            self.known[blob] = self._sizes(blob, cell)
            memo.write_text(json.dumps(self.known))
        return self.known[blob]

    def _sizes(self, blob: str, cell: str) -> list[int]:
        try:
            graph = runs.read_model(self.path(blob, cell))
        except AtoncError:
            return []
        return [prod(graph.tensors[name].shape) for name in graph.inputs]


def _layers(result: runs.RunResult, models: Models, found: Verdict) -> Verdict:
    """The model whose operators are found in memory, if any lies in the same repository."""
    sizes = {prod(tensors.io_shape(info)) for info in result.net.inputs}
    likely = [pair for pair in found["models"] if sizes & set(models.input_sizes(*pair))]
    likely.sort(key=lambda pair: "_OE_" in pair[1])  # what ST's tool makes of a model on the way comes last
    best: Verdict = {}
    for blob, cell in likely[:MOST_MODELS]:
        try:
            report = runs.layer_report(result, runs.read_model(models.path(blob, cell)))
        except AtoncError:
            continue
        share = len(report.results) / max(1, len(report.results) + len(report.unmatched))
        agreeing = sum(layer.max_diff <= 2 for layer in report.results) / max(1, len(report.results))
        if share * agreeing <= best.get("share", 0.0) * best.get("agreeing", 0.0) or share < SHARE:
            continue
        causes = Counter(_cause(e.cause or e.note or "unexplained") for e in report.exceptions())
        best = {
            "model": cell, "share": share, "agreeing": agreeing, "layers": len(report.results),
            "unmatched": len(report.unmatched), "max_diff": float(report.max_diff),
            "differ": float(report.differ_percent), "exceptions": causes,
        }  # fmt: skip
        if share * agreeing > AGREEING:
            break
    return best


def _cause(text: str) -> str:
    known = ("saturate", "rounded in the lowering", "unexplained")
    return next((word for word in known if word in text), text[:60])


# ------------------------------------------------------------------------------------------------------- all of them


def judge_all(found: Path, keys: list[str], seconds: float) -> None:
    """In processes with bounded memory, a few networks each; one that kills its process is noted and passed over."""
    end, waiting = time.monotonic() + seconds, [k for k in keys if not (found / k / "verdict.json").exists()]
    waiting.sort(key=lambda key: sum(file.stat().st_size for file in (found / key).iterdir()))  # small ones first
    while waiting and time.monotonic() < end:
        some = waiting[:BATCH]
        words = ("--found", found.resolve(), "--work", ",".join(some))
        done = run_again("st_compilations", *words, preexec_fn=_bounded)
        if done.returncode:
            key = (found / "current").read_text()
            lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
            (found / key / "verdict.json").write_text(json.dumps({"result": "crashes", "why": lines[-1]}))
        waiting = [k for k in waiting if not (found / k / "verdict.json").exists()]
        print(f"{len(waiting)} left", flush=True)


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


CAUSES: dict[str, str] = {}  # of what stops, where it was looked into

HEAD = """# Networks that ST's tool compiled and people published
 `st_inventory` finds them in the whole history of the public repositories that could be fetched. A network is counted
once by the hash of its C file and blobs without their dates. Every epoch is executed, CPU and hybrid ones included, on
a synthetic input.

- *runs*: from the first epoch to the last. *incomplete*: no file with the bytes that a pool needs is in any of these
  repositories (absent, or a pointer), or the blobs are not. *damaged*: no C, or not of one piece. *stops*: an error.
- *weights*: the nearest file whose length and address are exactly what the C file asks for.
- *layers*: compared with exact arithmetic on the inputs that they really had, where the repository holds the model;
  *of* counts operators that were not found in memory too. *max diff* in codes; causes of more than 1 behind it
  (*saturate*: a 16-bit stage did; *unexplained*: mostly where only ST's own intermediate file of the model, `_OE_`, is
  there, whose operators are joined in another way).

"""


def table(rows: list[tuple[str, Verdict, Verdict]], left: list[str]) -> str:
    counts = Counter(v["result"] for _, _, v in rows)
    compared = [v for _, _, v in rows if v.get("layers")]
    text = [
        f"{len(rows)} distinct networks from {len({_repo(f) for _, f, _ in rows})} repositories: "
        + ", ".join(f"{n} {name}" for name, n in counts.most_common())
        + f". Of those that run {len(compared)} have a model to compare with: "
        f"{sum(v['layers'] for v in compared)} layers.",
        "",
        "| network | compiler | driven by | epochs | CPU/hybrid | result | s | layers | max diff | differ % | causes |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    text += [_line(key, found, verdict) for key, found, verdict in rows if verdict["result"] == "runs"]
    others = [(key, found, verdict) for key, found, verdict in rows if verdict["result"] != "runs"]
    text += ["", "## Not to the end", "", "| network | compiler | driven by | result | why |", "|---|---|---|---|---|"]
    text += [_other(key, found, verdict) for key, found, verdict in others]
    text += ["", "## Not run yet", "", *(f"- {origin}" for origin in left)] if left else []
    return HEAD + "\n".join(text) + "\n"


def _repo(found: Verdict) -> str:
    return str(found["origin"]).split("@")[0]


def _driver(verdict: Verdict) -> str:
    return "EC" if verdict.get("blobs") else "CPU"


def _line(key: str, found: Verdict, v: Verdict) -> str:
    layers = f"{v['layers']} of {v['layers'] + v['unmatched']}" if v.get("layers") else ""
    worst, differ = (f"{v['max_diff']:.3g}", f"{v['differ']:.2f}") if layers else ("", "")
    causes = ", ".join(f"{name} {n}" for name, n in v.get("exceptions", {}).items())
    if v.get("cut"):
        causes = ", ".join(filter(None, (causes, f"weights longer by {v['cut']} bytes, cut")))
    cells = (found["origin"], v.get("compiler", ""), _driver(v), v.get("epochs", ""), v.get("cpu", ""), v["result"],
             v["seconds"], layers, worst, differ, causes)  # fmt: skip
    return tables.row(cells)


def _other(key: str, found: Verdict, v: Verdict) -> str:
    why = re.sub(r"/\S*/(?=[\w.-]+)", "", str(v.get("why", ""))).replace("|", "/").replace("\n", " ")[:300]
    why += f" Cause: {CAUSES[key]}." if key in CAUSES else ""
    absent = v.get("absent") or []
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        why += f"; absent here: {absent[0].split(':', 1)[1]}{more}"
    cells = (found["origin"], v.get("compiler", ""), _driver(v), v["result"], why)
    return tables.row(cells)


def run(arguments: argparse.Namespace) -> Report:
    if arguments.work:
        work(arguments.found, arguments.work.split(","))
        return Report()
    keys = [key for key in json.loads((arguments.found / "keys.json").read_text()) if asked_for(arguments.only, key)]
    judge_all(arguments.found, keys, arguments.seconds)
    rows, left = [], []
    for key in keys:
        folder = arguments.found / key
        found = json.loads((folder / "found.json").read_text())
        if (folder / "verdict.json").exists():
            rows.append((key, found, json.loads((folder / "verdict.json").read_text())))
        else:
            left.append(str(found["origin"]))
    rows.sort(key=lambda row: str(row[1]["origin"]).lower())
    text = table(rows, sorted(left))
    return Report(text)
