"""Compiles and runs many random networks: crashes, findings of the rules, layers beyond their limits.

    python benchmarks/random_graphs.py [--count N] [--first SEED] [--seconds S] [--write]

Networks follow from their seeds (tests/compiler/random_graphs.py); with --seconds the run ends early and says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.compiler.cases import Verdict, describe, judge
from tests.compiler.random_graphs import random_graph

RESULTS = Path(__file__).parent / "results" / "random_graphs.md"
EXAMPLES = 12


@dataclass
class Tally:
    """What all networks together come to."""

    graphs: int = 0
    operators: int = 0
    epochs: int = 0
    seconds: float = 0.0
    layers: Counter[str] = field(default_factory=Counter)
    beyond: Counter[int] = field(default_factory=Counter)  # how far roundings of sums took a layer
    on_cpu: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, seed: int, operators: int, verdict: Verdict) -> None:
        self.graphs += 1
        self.operators += operators
        self.epochs += verdict.epochs
        self.on_cpu.update(verdict.on_cpu)
        if verdict.problem:
            self.problems[verdict.kind] += 1
            self.examples.append(f"seed {seed}: {verdict.problem}")
        for layer in verdict.layers:
            within = layer.most <= layer.limit
            rounded = not within and layer.most <= layer.allowed
            kind = "within" if within else "rounded" if rounded else "saturated" if layer.saturated else "bad"
            self.layers["exact" if layer.most == 0 else kind] += 1
            if rounded:
                self.beyond[layer.most] += 1
            if kind == "saturated":
                self.examples.append(f"seed {seed}: saturated: {describe(layer)}")


def run(first: int, count: int, seconds: float) -> Tally:
    tally, started = Tally(), time.perf_counter()
    for seed in range(first, first + count):
        if time.perf_counter() - started > seconds:
            break
        graph = random_graph(seed)
        tally.add(seed, len(graph.ops), judge(graph, seed))
        if tally.graphs % 100 == 0:
            print(f"{tally.graphs} networks, problems: {dict(tally.problems)}", flush=True)
    tally.seconds = time.perf_counter() - started
    return tally


def table(tally: Tally, first: int) -> str:
    layers = sum(tally.layers.values())
    rows = [
        ("networks", f"{tally.graphs} (seeds {first} to {first + tally.graphs - 1})"),
        ("operators", tally.operators),
        ("epochs", tally.epochs),
        ("networks that crash, are refused or break a rule", sum(tally.problems.values()) - tally.problems["layer"]),
        ("networks with a layer beyond its limit", tally.problems["layer"]),
        ("layers compared (two inputs each)", layers),
        ("- exact", tally.layers["exact"]),
        ("- within 1 code (tables 2)", tally.layers["within"]),
        ("- further, explained by 16-bit roundings of partial sums", tally.layers["rounded"]),
        ("- further, a 16-bit partial sum saturated", tally.layers["saturated"]),
        ("- further, not explained", tally.layers["bad"]),
        ("seconds", round(tally.seconds)),
    ]
    lines = ["# Random networks", "", "Written by `benchmarks/random_graphs.py`.", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "Layers beyond 1 (2) by roundings, by their largest difference: " + _counted(tally.beyond)]
    lines += ["", "Operators on the CPU: " + _counted(tally.on_cpu)]
    if tally.examples:
        lines += ["", f"First of {len(tally.examples)} remarks:", ""]
        lines += [f"- {example[:240]}" for example in tally.examples[:EXAMPLES]]
    return "\n".join(lines) + "\n"


def _counted(counter: Counter[int] | Counter[str]) -> str:
    return ", ".join(f"{key}: {number}" for key, number in sorted(counter.items(), key=lambda i: str(i[0]))) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    tally = run(options.first, options.count, options.seconds)
    text = table(tally, options.first)
    print(text)
    if options.write:
        RESULTS.write_text(text)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
