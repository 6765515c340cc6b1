"""The engine of `atonc evaluate` against the emulator, bit for bit: models of the corpus and random networks.

    OMP_NUM_THREADS=1 python benchmarks/evaluate.py [--random 500] [--seconds N] --keep FILE [--write]

Every tensor that the emulator holds is compared, on three inputs for a model and two for a random network. Verdicts
are lines of the kept file; an interrupted run goes on behind the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from atonc.compare.inputs import make_inputs, make_noise
from atonc.emulation import Emulation
from atonc.errors import AtoncError
from atonc.evaluating.engine import Engine
from atonc.ir import Array
from atonc.options import Options
from atonc.pipeline import Compiled, compile_file, compile_graph
from tests.compiler.random_graphs import random_graph, random_inputs

RESULTS = Path(__file__).parent / "results" / "evaluate.md"
CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
MOST_BYTES = 40 << 20  # of a model

HEAD = """# The engine of `atonc evaluate` against the emulator

Date 2026-11-16, 2-core aarch64 Linux, one thread. Script: `benchmarks/evaluate.py`. Every tensor that the emulator
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=500)
    parser.add_argument("--random-first", action="store_true")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {line["name"] for line in lines}
    found = [p for p in (CORPUS / "models").iterdir() if p.suffix in (".tflite", ".onnx")]
    models = sorted(found, key=lambda path: (path.stat().st_size, path.name))  # the quick ones first
    work = [(p.name, lambda p=p: of_model(p)) for p in models if p.stat().st_size < MOST_BYTES]
    work += [(f"random {seed}", lambda seed=seed: of_random(seed)) for seed in range(options.random)]
    started = time.perf_counter()
    for name, action in reversed(work) if options.random_first else work:
        if name in known or time.perf_counter() - started > options.seconds:
            continue
        line = {"name": name, **action()}
        lines.append(line)
        with options.keep.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if line.get("unlike"):
            print("UNLIKE", line, flush=True)
    left = [name for name, _ in work if name not in {line["name"] for line in lines}]
    text = table(lines, left)
    print(*text.splitlines()[-3:], sep="\n")
    if options.write:
        RESULTS.write_text(text)


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


if __name__ == "__main__":
    main()
