"""Compiles and runs many random networks and judges them at three levels: emulator, mapped semantics, exact arithmetic.

    python benchmarks/random_graphs.py [--count N] [--first SEED] [--seconds S] [--keep FILE] [--write]
    python benchmarks/random_graphs.py --shrink SEED       # the smallest network that fails in the same way, as text

Networks follow from their seeds (tests/compiler/random_graphs.py). Every verdict is one line of the kept file; a run
that was interrupted goes on behind the last one, as long as the code is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from atonc.ir import text
from tests.compiler.cases import describe, judge
from tests.compiler.layer_checks import WITHIN, Layer, Output
from tests.compiler.random_graphs import random_graph
from tests.compiler.shrink import shrink

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "random_graphs.md"
EXAMPLES = 12

Line = Mapping[str, Any]


# -------------------------------------------------------------------------------------------------------------- running


def run(first: int, count: int, seconds: float, keep: Path | None, accepted: frozenset[str]) -> list[Line]:
    """Verdicts without a problem of `accepted` earlier states of the code count too."""
    code, started = digest(), time.perf_counter()
    known = {line["seed"]: line for line in kept(keep) if line["code"] in accepted and not line["problem"]}
    known |= {line["seed"]: line for line in kept(keep) if line["code"] == code}
    lines = []
    for seed in range(first, first + count):
        if seed not in known:
            if time.perf_counter() - started > seconds:
                break
            known[seed] = {"code": code, "commit": commit(), **verdict_line(seed)}
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps(known[seed]) + "\n")
        lines.append(known[seed])
        if len(lines) % 100 == 0:
            print(f"{len(lines)} networks, problems: {sum(bool(line['problem']) for line in lines)}", flush=True)
    return lines


def kept(keep: Path | None) -> list[Line]:
    return [] if keep is None or not keep.exists() else [json.loads(line) for line in keep.read_text().splitlines()]


@cache
def commit() -> str:
    shown = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True, check=False)
    return shown.stdout.strip() or "unknown"


def digest() -> str:
    """Of all that decides about a verdict."""
    files = sorted([*(ROOT / "atonc").rglob("*.py"), *(ROOT / "tests" / "compiler").glob("*.py")])
    total = hashlib.sha256()
    for path in files:
        total.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:12]


def verdict_line(seed: int) -> dict[str, Any]:
    started = time.process_time()
    graph = random_graph(seed)
    verdict = judge(graph, seed)
    return {
        "seed": seed,
        "operators": len(graph.ops),
        "epochs": verdict.epochs,
        "problem": verdict.problem,
        "layers": Counter(layer_kind(layer) for layer in verdict.layers),
        "kinds": Counter(layer.op.kind for layer in verdict.layers if not layer.on_cpu),
        "values": sum(layer.elements for layer in verdict.layers),
        "beyond": [layer.most for layer in verdict.layers if layer_kind(layer) == "coarse"],
        "outputs": Counter(output_kind(output) for output in verdict.outputs),
        "promised": sum(output.expected <= WITHIN for output in verdict.outputs),
        "saturated": [describe(layer) for layer in verdict.saturated],
        "on_cpu": Counter(verdict.on_cpu),
        "seconds": round(time.process_time() - started, 2),
    }


def layer_kind(layer: Layer) -> str:
    if layer.most <= layer.limit:
        return "exact" if layer.most == 0 else "within"
    return "coarse" if layer.most <= layer.allowed else "saturated" if layer.saturated else "bad"


def output_kind(output: Output) -> str:
    if output.most <= WITHIN:
        return str(output.most)
    return "unexplained" if output.unexplained else "expected" if output.most <= output.expected else "saturated"


def shrunk(seed: int) -> str:
    """For tests/golden/regress."""
    graph = random_graph(seed)
    kind = judge(graph, seed).kind
    if not kind:
        return f"network {seed} has no problem\n"
    return text.dump(shrink(graph, lambda smaller: judge(smaller, seed).kind == kind), complete=True)


# ---------------------------------------------------------------------------------------------------------------- table


def total(lines: Iterable[Line], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in lines:
        found.update(line[name])
    return found


def table(lines: list[Line], first: int, before: list[Line]) -> str:
    problems = Counter(line["problem"].split(":")[0] for line in lines if line["problem"])
    layers, outputs = total(lines, "layers"), total(lines, "outputs")
    rows = [
        ("networks", f"{len(lines)} (seeds {first} to {first + len(lines) - 1})"),
        ("operators", sum(line["operators"] for line in lines)),
        ("epochs", sum(line["epochs"] for line in lines)),
        ("**networks with any problem**", sum(problems.values())),
        ("- that crash, are refused or break a rule", _others(problems)),
        ("- where the emulator differs from the mapped integer semantics", problems["meaning"]),
        ("- with a layer further from exact arithmetic than 1 (tables 2) or the reported error", problems["layer"]),
        ("- with an output further from the source than 2 or the reported deviation", problems["output"]),
        ("values compared bit for bit with the mapped semantics", sum(line["values"] for line in lines)),
        ("layers compared with exact arithmetic (two inputs each)", sum(layers.values())),
        ("- exact", layers["exact"]),
        ("- within 1 code (tables 2)", layers["within"]),
        ("- further, and the compiler reports an error that large (16-bit partial sums)", layers["coarse"]),
        ("- further, and the compiler reports that a sum may saturate, and one did", layers["saturated"]),
        ("- further, not explained", layers["bad"]),
        ("outputs compared with the source, free-running", sum(outputs.values())),
        ("- exact, 1, 2 codes", ", ".join(str(outputs[k]) for k in "012")),
        ("- further, within the deviation that the compiler expects", outputs["expected"]),
        ("- further, behind a reported sum that saturated", outputs["saturated"]),
        ("- further, not explained", outputs["unexplained"]),
        ("outputs for which the compiler promises 2 codes at most", sum(line["promised"] for line in lines)),
        ("CPU seconds", round(sum(line["seconds"] for line in lines))),
    ]
    page = ["# Random networks", "", "Written by `benchmarks/random_graphs.py`.", "", state(lines), ""]
    page += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    beyond = Counter(str(most) for line in lines for most in line["beyond"])
    page += ["", "Layers beyond 1 (2) with a reported error that large, by their largest difference: " + _list(beyond)]
    page += ["", "Layers on the NPU by kind (two inputs each): " + _list(total(lines, "kinds"))]
    page += ["", "Operators on the CPU: " + _list(total(lines, "on_cpu"))]
    return "\n".join([*page, *_remarks(lines), *_mended(lines, before)]) + "\n"


def state(lines: list[Line]) -> str:
    """Which code, and when."""
    found = Counter((line["commit"], line["code"]) for line in lines)
    codes = ", ".join(f"{number} at commit {name} (code {code})" for (name, code), number in found.items())
    return f"{datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}; networks: {codes}."


def _others(problems: Counter[str]) -> int:
    return sum(problems.values()) - problems["meaning"] - problems["layer"] - problems["output"]


def _remarks(lines: list[Line]) -> list[str]:
    found = [f"seed {line['seed']}: {line['problem']}" for line in lines if line["problem"]]
    found += [f"seed {line['seed']}: saturated: {what}" for line in lines for what in line["saturated"]]
    if not found:
        return []
    return ["", f"First of {len(found)} remarks:", "", *(f"- {remark[:240]}" for remark in found[:EXAMPLES])]


def _mended(lines: list[Line], before: list[Line]) -> list[str]:
    """Problems of earlier states: those networks were judged again by the state that is counted above."""
    now = {line["seed"] for line in lines}
    found = [line for line in before if line["problem"] and line["seed"] in now and line not in lines]
    if not found:
        return []
    title = "Problems that earlier states of the code had; what they point at was changed and the networks ran again:"
    return ["", title, "", *(f"- seed {line['seed']} at {line['commit']}: {line['problem'][:200]}" for line in found)]


def _list(counter: Counter[str]) -> str:
    def order(item: tuple[str, int]) -> tuple[int, str]:
        return (int(item[0]) if item[0].isdigit() else 0, item[0])

    return ", ".join(f"{key}: {number}" for key, number in sorted(counter.items(), key=order)) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, help="file of verdicts, one line each; what it holds is not run again")
    parser.add_argument("--accept", nargs="*", default=[], metavar="CODE", help="earlier states of the code that count")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--shrink", type=int, metavar="SEED")
    options = parser.parse_args()
    if options.shrink is not None:
        print(shrunk(options.shrink), end="")
        return 0
    lines = run(options.first, options.count, options.seconds, options.keep, frozenset(options.accept))
    page = table(lines, options.first, kept(options.keep))
    print(page)
    if options.write:
        RESULTS.write_text(page)
    return 1 if any(line["problem"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
