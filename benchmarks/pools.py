"""What pooling behind the convolution brings: every network with such a layer, with and without the pass.

A network counts where a 2x2 pooling directly follows a convolution, in the graph as
it is compiled. Both programs run on the emulator with one input; outputs must have the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import POOLS
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.ec import ec_program
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import append, read_lines

GROUP = "speed"
ARGUMENTS = (MODEL_FILES, ONLY, KEEP, FRESH, WRITE)

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
    """Names a model; outside the corpus with the repository that has it."""
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
    yield "Predicted by the calibrated model, with and without `pools`.\n"
    done = [one for one in records if "refused" not in one]
    unlike = [one["model"] for one in done if not one["same"]]
    yield f"* {len(done)} networks with a pooling directly behind a convolution; outputs unlike: {unlike or 'none'}."
    some = [one for one in done if one["merged"]]
    for key, what in (("cycles", "time"), ("words", "program words"), ("bytes", "bytes of activations")):
        ratios = [one["on"][key] / one["off"][key] for one in some]
        mean = tables.geometric_mean(ratios)
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
        yield tables.row(cells)


def run(arguments: argparse.Namespace) -> Report:
    kept = [] if arguments.fresh else read_lines(arguments.keep)
    known = {one["model"] for one in kept}
    for path in chosen(arguments):
        record = measure(path) if name_of(path) not in known else None
        if record is not None:
            kept.append(record)
            append(arguments.keep, record)
            print(record["model"], record.get("merged"), record.get("same"), file=sys.stderr, flush=True)
    return Report("\n".join(report(sorted(kept, key=lambda one: str(one["model"])))) + "\n")
