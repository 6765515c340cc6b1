"""Speed and memory of the emulator against TFLite's reference kernels, in one run on one thread.

OMP_NUM_THREADS=1 python benchmarks/speed.py --fetched DIR --image PHOTO [--only TEXT] [--write]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fetched import compilations
from run_networks import complete

from atonc.app import comparing, runs
from atonc.compare import reference

RESULTS = Path(__file__).parent / "results" / "speed.md"
HEAD = """# Emulator against TFLite's reference kernels

Date 2026-11-15, 2-core x86-64 Linux, one thread, best of five, both in the same run. Script: `benchmarks/speed.py`.
*load*: reading C file, blobs and weights. *peak*: largest resident memory of the process before TFLite is loaded.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetched", type=Path, required=True)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--only", default="st_yolo_x_nano_480_1.0_0.25_3_st_int8 2.1.0")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    item = complete(compilations(options.fetched), options.only)[0]
    request = runs.RunOptions(
        item.network_c, weights=item.weights[:1], blobs=item.ecblobs if item.epoch_controller else None
    )
    started = time.perf_counter()
    net = runs.load(request)
    loading = time.perf_counter() - started
    inputs = {info.name: runs.image_input(net, info, options.image) for info in net.inputs}
    emulated = best(lambda: runs.execute(net, inputs, request))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = runs.execute(net, inputs, request)
    values = list(comparing.model_inputs(result, comparing.read_model(item.model_file)).values())
    interpreter = reference._interpreter(item.model_file, "reference", False)
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    expected = best(interpreter.invoke)
    figures = (loading, emulated, expected, emulated / expected)
    text = f"| {item.title} | {' | '.join(f'{f:.2f}' for f in figures)} | {peak:.0f} |\n"
    print(HEAD + text)
    if options.write:
        RESULTS.write_text(HEAD + text)


if __name__ == "__main__":
    main()
