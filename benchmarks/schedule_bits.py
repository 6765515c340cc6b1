"""Do the passes of the schedule change a value? Every network with all of them and without any, on the emulator.

The models of the corpus; `random_graphs` does the same for random networks. A network counts as equal when every output
has the same bytes on one input and the same operators run on the NPU. What lanes cost decides between forms of a layer:
where others would be chosen without them, lanes stay in both programs. `--weights` compares weights in RAM, kept there
and fetched ahead, with those in flash.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import append, read_lines
from tests.compiler.other_schedules import NO_PASSES, ONLY_LANES, other_forms

GROUP = "truth"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    KEEP,
    FRESH,
    WRITE,
    argument("--weights", action="store_true", help="weights in RAM against weights in flash"),
)

Record = dict[str, Any]
WEIGHTS_IN_RAM = ({"schedule_with": ("prefetch",)}, {}), ({"schedule_with": ("prefetch",), "resident": "256k"}, {})


def with_and_without(graph: Graph) -> Record:
    """With all passes and without any."""
    found = compare(graph, ({}, {"schedule_without": NO_PASSES.schedule_without}))
    if not found.get("forms"):
        return found
    others = compare(graph, ({}, {"schedule_without": ONLY_LANES.schedule_without}))
    return {**others, "forms": found["forms"]}


def compare(graph: Graph, pair: Sequence[Mapping[str, Any]]) -> Record:
    try:
        made = [compile_graph(graph, Options(verify=False, **changes)) for changes in pair]
    except AtoncError as error:
        return {"refused": str(error)[:200]}
    inputs = make_inputs(graph, 11)
    one, other = (Emulation(compiled.program, compiled.graph).run(inputs) for compiled in made)
    unlike = [name for name in graph.outputs if not np.array_equal(one[name], other[name])]
    merged = [len(made[k].program.epochs) for k in (1, 0)]
    moved = sorted(_on_cpu(made[0]) ^ _on_cpu(made[1]))
    return {"unlike": unlike, "moved": moved, "epochs": merged, "forms": other_forms(*made)}


def _on_cpu(compiled: Compiled) -> set[str]:
    return {reason.node for reason in compiled.mapped.reasons}


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, Graph]]:
    return ((model.name, read(model)) for model in chosen(arguments))


def report(kept: Mapping[str, Record]) -> Iterator[str]:
    yield "# Schedules with and without passes: the same bits?\n"
    yield "All passes of the schedule on, against all off.\n"
    done = [record for record in kept.values() if "refused" not in record]
    before, after = (sum(record["epochs"][k] for record in done) for k in (0, 1))
    unlike, moved = (sum(bool(record[what]) for record in done) for what in ("unlike", "moved"))
    yield f"* Corpus: {len(done)} compared, {unlike} unlike, {moved} with other operators on the CPU,"
    yield f"  {len(kept) - len(done)} refused; {before:,} epochs without passes, {after:,} with them."
    lanes = {name: len(record["forms"]) for name, record in kept.items() if record.get("forms")}
    yield f"* With lanes in both, since other forms would be chosen without them: {len(lanes)}."
    yield from (f"  * {name}: {count} operators" for name, count in lanes.items())
    yield "* Random networks: [random_graphs.md](random_graphs.md)."
    for name, record in kept.items():
        if record.get("unlike") or record.get("moved"):
            yield f"* {name}: unlike {record['unlike']}, on the CPU in one of them {record['moved']}"


def run(arguments: argparse.Namespace) -> Report:
    if arguments.weights:
        found = [(name, compare(graph, pair)) for name, graph in networks(arguments) for pair in WEIGHTS_IN_RAM]
        print(*found, sep="\n")
        return Report(failed=any(record.get("unlike") or record.get("moved") for _, record in found))
    lines = [] if arguments.fresh else read_lines(arguments.keep)
    kept: dict[str, Record] = {line.pop("network"): line for line in lines}
    for name, graph in networks(arguments):
        if name not in kept:
            kept[name] = with_and_without(graph)
            append(arguments.keep, {"network": name, **kept[name]})
            print(name, kept[name], file=sys.stderr, flush=True)
    return Report("\n".join(report(kept)) + "\n")
