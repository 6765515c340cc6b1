"""Random networks as Arm code on the virtual board, data cache included: every output byte against the emulator."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from atonc import pipeline
from atonc.app import boarding
from atonc.app.boarding import Rig
from atonc.compile_view import CompileView
from atonc.cost.macs import graph_macs
from atonc.errors import AtoncError
from atonc.firmware import image as firmware
from atonc.firmware.image import Runtime
from atonc.ir import Graph
from atonc.options import Options
from benchmarks.shared.declare import RUNTIME, Report, argument
from tests.compiler.random_graphs import random_graph, random_inputs

GROUP = "board"
ARGUMENTS = (
    argument("first", type=int),
    argument("last", type=int),
    argument("--no-epoch-controller", action="store_true"),
    RUNTIME,
)


def run(arguments: argparse.Namespace) -> Report:
    runtime = boarding.choose_runtime(arguments.runtime)
    options = Options(verify=False, epoch_controller=not arguments.no_epoch_controller)
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        common = firmware.compile_runtime(runtime, work / "runtime")
        for seed in range(arguments.first, arguments.last + 1):
            outcome, detail = _try(seed, options, runtime, common, work / str(seed))
            outcomes[outcome] += 1
            if outcome != "equal":
                print(f"{seed}: {outcome}: {detail}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    return Report(failed=bool(outcomes["different"] or outcomes["failed"]))


def _try(seed: int, options: Options, runtime: Runtime, common: list[Path], work: Path) -> tuple[str, str]:
    graph = random_graph(seed)
    try:
        view = _view(graph, options)
        network = boarding.image_network(view, work / "network")
    except AtoncError as error:
        return "refused by the compiler", error.what[:200]
    try:
        rig = Rig(firmware.build_firmware([network], runtime, work / "build", common), [network])
        found = boarding.compare(view, [random_inputs(graph, sample) for sample in range(2)], rig)
    except AtoncError as error:
        return "failed", str(error)[:400]
    return ("equal", "") if found.equal else ("different", found.first_difference)


def _view(graph: Graph, options: Options) -> CompileView:
    compiled, board = pipeline.compile_graph(graph, options), pipeline.memories(options)
    cost = compiled.cost
    return CompileView("random.tflite", "network", board, compiled, cost, graph_macs(compiled.graph), options)
