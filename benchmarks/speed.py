"""Speed and memory of the emulator beside TFLite's reference kernels, in one run on one thread."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

from atonc.compiler.compare import reference
from atonc.insight.runs import runs
from atonc.insight.runs.runs import image_input
from benchmarks.networks import complete
from benchmarks.shared.declare import IMAGES, ONE_FETCHED, ONLY, WRITE, Report
from benchmarks.shared.fetched import compilations

GROUP = "tools"
ARGUMENTS = (
    ONE_FETCHED,
    IMAGES.but(nargs=1),
    ONLY.but(default=("st_yolo_x_nano_480_1.0_0.25_3_st_int8 2.1.0",)),
    WRITE,
)

HEAD = """# Emulator against TFLite's reference kernels

One thread, best of five, both in the same run. *load*: reading C file, blobs and weights. *peak*: largest resident
memory of the process before TFLite is loaded.

| network | load s | emulated s | reference s | ratio | peak MB |
|---|---|---|---|---|---|
"""


def best(action: Callable[[], Any], times: int = 5) -> float:
    measured = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        measured.append(time.perf_counter() - started)
    return min(measured)


def run(arguments: argparse.Namespace) -> Report:
    item = complete(compilations(arguments.fetched), arguments.only)[0]
    request = runs.RunOptions(
        item.network_c, weights=item.weights[:1], blobs=item.ecblobs if item.epoch_controller else None
    )
    started = time.perf_counter()
    net = runs.load(request)
    loading = time.perf_counter() - started
    inputs = {info.name: image_input(runs.edges_of(net), info, arguments.images[0]) for info in net.inputs}
    emulated = best(lambda: runs.execute(net, inputs, request))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = runs.execute(net, inputs, request)
    values = list(runs.model_inputs(result, runs.read_model(item.model_file)).values())
    interpreter = reference._interpreter(item.model_file, "reference", False)
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    expected = best(interpreter.invoke)
    figures = (loading, emulated, expected, emulated / expected)
    text = f"| {item.title} | {' | '.join(f'{f:.2f}' for f in figures)} | {peak:.0f} |\n"
    return Report(HEAD + text)
