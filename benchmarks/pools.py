"""What pooling behind the convolution brings: every network with such a layer, with and without the pass.

    python benchmarks/pools.py [MODEL ...] [--keep FILE] [--write]

Without MODELs those of the corpus. A network counts where a 2x2 pooling directly follows a convolution, in the graph as
it is compiled. Both programs run on the emulator with one input; outputs must have the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fetched import corpus_dir

from atonc.compare.inputs import make_inputs
from atonc.emulation import Emulation
from atonc.errors import AtoncError
from atonc.frontends.read import read
from atonc.hw.ec import ec_program
from atonc.ir import Graph
from atonc.options import Options
from atonc.passes import order
from atonc.pipeline import Compiled, compile_graph
from atonc.schedule import POOLS

RESULTS = Path(__file__).parent / "results" / "pools.md"
MEASURED = "2026-11-16, 2-core aarch64 Linux"
KINDS = ("max_pool", "average_pool")
Record = dict[str, Any]


def pooled(graph: Graph) -> int:
    """Poolings that directly follow a convolution."""
    made = {name: op for op in graph.ops for name in op.outputs}
    pools = (op for op in graph.ops if op.kind in KINDS)
    return sum(made[op.inputs[0]].kind == "conv" for op in pools if op.inputs[0] in made)


def figures(compiled: Compiled) -> Record:
    epochs = compiled.program.epochs
    return {
        "cycles": compiled.cost.cycles,
        "words": len(ec_program.words(epochs)),
        "epochs": len(epochs),
        "bytes": compiled.layout.peak_bytes,
    }


def name_of(path: Path) -> str:
    """Of a model outside the corpus with the repository that has it."""
    return path.name if path.parent.name == "models" else f"{path.parent.name}/{path.name}"


def measure(path: Path) -> Record | None:
    """None for a network without such a layer."""
    try:
        graph = read(path)
        layers = pooled(order.run(graph, Options()))
        if not layers:
            return None
        made = [compile_graph(graph, Options(verify=False, schedule_without=w)) for w in ((POOLS,), ())]
    except AtoncError as error:
        return {"model": name_of(path), "refused": str(error)[:200]}
    inputs = make_inputs(graph, 11)
    one, two = (Emulation(compiled.program, compiled.graph).run(inputs) for compiled in made)
    kinds = {op.name: op.kind for op in made[1].graph.ops}
    merged = sum(kinds.get(merge.consumer) in KINDS for merge in made[1].scheduled.schedule.merges)
    apart = [one.seen for one in made[1].scheduled.schedule.apart if kinds.get(one.consumer) in KINDS]
    same = all(np.array_equal(one[name], two[name]) for name in graph.outputs)
    before, after = map(figures, made)
    record = {"model": name_of(path), "layers": layers, "merged": merged, "apart": apart, "same": same}
    return {**record, "off": before, "on": after}


def report(records: Sequence[Record]) -> Iterator[str]:
    yield "# Pooling behind the convolution\n"
    yield f"`python benchmarks/pools.py`, {MEASURED}. Predicted by the calibrated model, with and without `pools`.\n"
    done = [one for one in records if "refused" not in one]
    unlike = [one["model"] for one in done if not one["same"]]
    yield f"* {len(done)} networks with a pooling directly behind a convolution; outputs unlike: {unlike or 'none'}."
    some = [one for one in done if one["merged"]]
    for key, what in (("cycles", "time"), ("words", "program words"), ("bytes", "bytes of activations")):
        ratios = [one["on"][key] / one["off"][key] for one in some]
        mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0
        worst = max(ratios, default=1)
        yield f"* {what}: {mean:.3f} of without on the {len(some)} with a chain (geometric mean), worst {worst:.3f}."
    yield "\n| model | layers | chained | ms | of without | words | epochs | RAM | why not |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for one in done:
        off, on = one["off"], one["on"]
        time, words, ram = (f"{on[key] / off[key]:.3f}" for key in ("cycles", "words", "bytes"))
        ms, epochs = f"{off['cycles'] / 1e6:.3f} → {on['cycles'] / 1e6:.3f}", f"{off['epochs']} → {on['epochs']}"
        why = "; ".join(dict.fromkeys(seen[:90] for seen in one["apart"]))
        cells = (one["model"], one["layers"], one["merged"], ms, time, words, epochs, ram, why)
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("pools.jsonl"))
    parser.add_argument("--write", action="store_true", help="the table, from what was kept")
    options = parser.parse_args()
    kept = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    models = options.models or sorted((corpus_dir() / "models").iterdir())
    for path in models:
        if path.suffix in (".tflite", ".onnx") and name_of(path) not in {one["model"] for one in kept}:
            record = measure(path)
            if record is not None:
                kept.append(record)
                with options.keep.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(record["model"], record.get("merged"), record.get("same"), flush=True)
    if options.write:
        RESULTS.write_text("\n".join(report(sorted(kept, key=lambda one: str(one["model"])))) + "\n")


if __name__ == "__main__":
    main()
