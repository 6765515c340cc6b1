"""The engine of `atonc evaluate` against the emulator, bit for bit: models of the corpus and random networks.

Every tensor that the emulator holds is compared, on three inputs for a model and two for a random network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.inputs import make_inputs, make_noise
from atonc.compiler.compile.pipeline import Compiled, compile_file, compile_graph
from atonc.compiler.ir import Array
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.insight.evaluating.engine import Engine
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.declare import KEEP, RANDOM, SECONDS, WRITE, Report, argument
from benchmarks.shared.kept import append, read_lines
from tests.compiler.random_graphs import random_graph, random_inputs

GROUP = "quantising"
ARGUMENTS = (
    RANDOM.but(default=500),
    argument("--random-first", action="store_true"),
    SECONDS.but(default=540),
    KEEP.but(required=True),
    WRITE,
)

MOST_BYTES = 40 << 20  # of a model

HEAD = """# The engine of `atonc evaluate` against the emulator

One thread. Every tensor that the emulator
holds after its step is compared value for value: three inputs for each model of the corpus (two natural-looking ones
and noise), two for each random network. *s*: processor seconds for one sample, the engine in a batch of three. Other
work ran on the machine at the same time.

"""


def compare(compiled: Compiled, inputs: list[Mapping[str, Array]]) -> dict[str, Any]:
    graph = compiled.graph
    started = time.process_time()
    engine = Engine(compiled)
    built = time.process_time() - started
    batch = {name: np.stack([one[name] for one in inputs]) for name in graph.inputs}
    found = engine.run(batch, observe=True)
    started = time.process_time()
    outputs = engine.run(batch)
    fast = (time.process_time() - started) / len(inputs)
    emulation, unlike, slow = Emulation(compiled.program, graph), set(), 0.0
    for number, one in enumerate(inputs):
        started = time.process_time()
        emulation.run(one)
        slow += time.process_time() - started
        for name, value in emulation.run(one, observe=True).items():
            ours = [side[name][number].reshape(value.shape) for side in (found, outputs) if name in side]
            if not ours or not all(np.array_equal(our, value, equal_nan=value.dtype.kind == "f") for our in ours):
                unlike.add(name)
    return {
        "tensors": len(found),
        "unlike": sorted(unlike),
        "build": round(built, 2),
        "engine": round(fast, 4),
        "emulator": round(slow / len(inputs), 4),
    }


def of_model(path: Path) -> dict[str, Any]:
    try:
        compiled = compile_file(path, Options(verify=False))
    except AtoncError as error:
        return {"refused": error.what[:80]}
    inputs = [make_inputs(compiled.graph, seed) for seed in (1, 2)]
    return compare(compiled, [*inputs, make_noise(inputs[0], 3)])


def of_random(seed: int) -> dict[str, Any]:
    graph = random_graph(seed, plain=seed % 2 == 0)
    try:
        compiled = compile_graph(graph, Options(verify=False))
    except AtoncError as error:
        return {"refused": error.what[:80]}
    return compare(compiled, [random_inputs(compiled.graph, 2 * seed + k) for k in range(2)])


def run(arguments: argparse.Namespace) -> Report:
    lines = read_lines(arguments.keep)
    known = {line["name"] for line in lines}
    work = [(p.name, partial(of_model, p)) for p in by_size(chosen(arguments)) if p.stat().st_size < MOST_BYTES]
    work += [(f"random {seed}", partial(of_random, seed)) for seed in range(arguments.random)]
    started = time.perf_counter()
    for name, action in reversed(work) if arguments.random_first else work:
        if name in known or time.perf_counter() - started > arguments.seconds:
            continue
        line = {"name": name, **action()}
        lines.append(line)
        append(arguments.keep, line)
        if line.get("unlike"):
            print("UNLIKE", line, flush=True)
    left = [name for name, _ in work if name not in {line["name"] for line in lines}]
    return Report(table(lines, left))


def table(lines: list[dict[str, Any]], left: list[str]) -> str:
    models = [line for line in lines if not line["name"].startswith("random ")]
    networks = [line for line in lines if line["name"].startswith("random ")]
    rows = ["| model | tensors | unlike | engine s | emulator s |", "|---|---|---|---|---|"]
    for line in sorted(models, key=lambda line: line["name"]):
        if "refused" in line:
            rows.append(f"| {line['name']} | not compiled: {line['refused']} | | | |")
        else:
            figures = f"{len(line['unlike'])} | {line['engine']:.3f} | {line['emulator']:.3f}"
            rows.append(f"| {line['name']} | {line['tensors']} | {figures} |")
    sentences = [sentence("models", models), sentence("random networks", networks)]
    if left:
        more = sum(name.startswith("random ") for name in left)
        sentences.append(f"Not run yet: {len(left) - more} models and {more} random networks.")
    return HEAD + "\n".join(rows) + "\n\n" + "  \n".join(sentences) + "\n"


def sentence(what: str, lines: list[dict[str, Any]]) -> str:
    done = [line for line in lines if "refused" not in line]
    tensors, unlike = sum(line["tensors"] for line in done), sum(bool(line["unlike"]) for line in done)
    counted = f"{len(done)} {what} ({len(lines) - len(done)} not compiled), {tensors} tensors"
    return f"{counted}: {unlike} {what} with a difference."
