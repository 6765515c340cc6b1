"""Networks compiled by ST on the emulator, judged: every layer against exact arithmetic, outputs against other kernels.

DIR holds the files that `ST_SETS.csv` lists, as `owner+name[@commit]/path`. One input per photo, resized; for inputs
that are no pictures as many synthetic ones.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare import reference
from atonc.compiler.compare.metrics import cosine
from atonc.compiler.inputs.images import is_picture
from atonc.compiler.ir import Graph
from atonc.insight.runs import runs
from atonc.insight.runs.runs import EdgeBuffers
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork
from benchmarks.shared import tables
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import IMAGES, ONE_FETCHED, ONLY, WRITE, Report
from benchmarks.shared.fetched import Compilation, compilations

GROUP = "st"
ARGUMENTS = (ONE_FETCHED, IMAGES, ONLY, WRITE)


@dataclass
class Row:
    title: str
    epochs: int = 0
    cpu: int = 0
    layers: int = 0
    worst: float = 0.0
    differ: float = 0.0
    exceptions: dict[str, str] = field(default_factory=dict)  # by layer; the input that shows it first
    unmatched: int = 0
    cosines: list[float] = field(default_factory=list)  # worst output per input
    spread: list[float] = field(default_factory=list)  # worst of the reference's own other kernels
    seconds: float = 0.0
    reference_seconds: float = 0.0

    @property
    def close(self) -> int:
        """Inputs on which the outputs are close enough."""
        return sum(1 for c, s in zip(self.cosines, self.spread, strict=True) if c >= 0.999 or c >= s - 0.003)


def make_input(net: EmulatedNetwork, info: BufferInfo, photo: Path, seed: int) -> Any:
    if is_picture(tensors.io_shape(info)) and min(tensors.io_shape(info)[1:3]) != 1:
        return runs.image_input(runs.edges_of(net), info, photo)
    return runs.made(EdgeBuffers((info,), net.network.internals), seed)[info.name]


def judge(item: Compilation, photos: list[Path]) -> Row:
    row = Row(item.title)
    options = runs.RunOptions(
        item.network_c, weights=item.weights[:1], blobs=item.ecblobs if item.epoch_controller else None, observe=True
    )
    net = runs.load(options)
    graph = runs.read_model(item.model_file)
    real = [s for s in net.steps if not s.empty]
    row.epochs, row.cpu = len(real), sum(1 for s in real if s.kind != "npu")
    for seed, photo in enumerate(photos):
        inputs = {info.name: make_input(net, info, photo, seed + 10 * k) for k, info in enumerate(net.inputs)}
        started = time.perf_counter()
        result = runs.execute(net, inputs, options)
        row.seconds = time.perf_counter() - started
        layers = runs.layer_report(result, graph)
        row.layers, row.unmatched = len(layers.results), len(layers.unmatched)
        row.worst, row.differ = max(row.worst, layers.max_diff), max(row.differ, layers.differ_percent)
        for e in layers.exceptions():
            layer = f"{e.kind} {e.tensor[-40:]} (epoch {e.epoch}, {e.buffer})"
            text = f"{layer}: {e.max_diff:g}, {e.differ_percent:.2f} %; {e.cause or e.note}"
            row.exceptions.setdefault(layer, text)
        model_values = runs.model_inputs(result, graph)
        started = time.perf_counter()
        reference_outputs = run_reference(item.model_file, model_values, "reference")
        row.reference_seconds = time.perf_counter() - started
        row.cosines.append(output_cosine(result, reference_outputs, graph))
        row.spread.append(kernel_spread(item.model_file, model_values, reference_outputs, graph))
    return row


def run_reference(path: Path, inputs: Mapping[str, Any], kernels: str) -> dict[str, Any]:
    if path.suffix == ".onnx":
        return reference.run_onnx(path, inputs)
    return reference.run_tflite(path, list(inputs.values()), kernels)


def optimised_onnx(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """onnxruntime as it is by default: fused integer kernels."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def kernel_spread(path: Path, inputs: Mapping[str, Any], expected: Mapping[str, Any], graph: Graph) -> float:
    """The worst cosine of the framework's own other kernels to its reference kernels."""
    worst = 1.0
    for kernels in ("optimised", "xnnpack"):
        other = optimised_onnx(path, inputs) if path.suffix == ".onnx" else run_reference(path, inputs, kernels)
        for name, value in expected.items():
            worst = min(worst, cosine(real_values(other[name], graph, name), real_values(value, graph, name)))
    return worst


def output_cosine(result: runs.RunResult, expected: Mapping[str, Any], graph: Graph) -> float:
    """Worst output; outputs are paired by size and closeness, in any order of axes."""
    remaining = {name: real_values(value, graph, name) for name, value in expected.items()}
    worst = 1.0
    for info in result.net.outputs:
        value = result.outputs[info.name].astype(np.float64)
        if value.size and info.scales and info.type != "FLOAT":
            value = (value - info.offsets[0]) * info.scales[0]
        same_size = {name: other for name, other in remaining.items() if other.size == value.size}
        scored = [(best_arrangement(value, other), name) for name, other in same_size.items()]
        score, name = max(scored, default=(0.0, ""))
        remaining.pop(name, None)
        worst = min(worst, score)
    return worst


def best_arrangement(value: Any, other: Any) -> float:
    squeezed, wanted = value.squeeze(), other.squeeze()
    best = cosine(value.reshape(-1), other.reshape(-1))
    for axes in itertools.permutations(range(squeezed.ndim)):
        if tuple(squeezed.shape[a] for a in axes) == wanted.shape:
            best = max(best, cosine(squeezed.transpose(axes).reshape(-1), wanted.reshape(-1)))
    return best


def real_values(value: Any, graph: Graph, name: str) -> Any:
    tensor = graph.tensors.get(name)
    out = np.asarray(value, np.float64)
    if value.dtype.kind != "f" and tensor is not None and tensor.quant is not None:
        out = (out - float(tensor.quant.zero_points[0])) * float(tensor.quant.scales[0])
    return out


HEAD = """# Networks compiled by ST on the emulator

One thread. Every epoch is executed, CPU and
hybrid ones included; nothing is inserted from a reference. Inputs: the photos `grace_hopper.jpg` (matplotlib),
`china.jpg` (scikit-learn), `astronaut.png`, `coffee.png`, `chelsea.png` (scikit-image); spectrograms are synthetic.

- *layers*: layers compared with exact arithmetic on the inputs they really had; *max diff* in codes over all photos and
  the percentage of values that *differ*. What is above 1 is listed below with its cause.
- *cosine*: worst output, free running, to TFLite's reference kernels (onnxruntime without optimisation for ONNX), for
  the first two photos. *kernels*: the same for TFLite's own optimised and XNNPACK kernels (onnxruntime with
  optimisation). *passes*: photos on which the cosine is at least 0.999, or at least *kernels* - 0.003.
- *s*: emulation with all buffers recorded; *reference s*: TFLite's reference kernels, one thread, same run.

| network | epochs | CPU/hybrid | layers | max diff | differ % | cosine | kernels | passes | s | reference s |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def line(r: Row) -> str:
    cosines, spread = (" / ".join(f"{v:.5f}" for v in values[:2]) for values in (r.cosines, r.spread))
    cells = [r.title, r.epochs, r.cpu, r.layers, f"{r.worst:.3g}", f"{r.differ:.2f}", cosines, spread]
    cells += [f"{r.close} of {len(r.cosines)}", f"{r.seconds:.2f}", f"{r.reference_seconds:.2f}"]
    return tables.row(cells) + "\n"


def table(rows: list[Row]) -> str:
    exceptions = [f"- {r.title}: {e}\n" for r in rows for e in r.exceptions.values()]
    text = HEAD + "".join(map(line, rows))
    return text + "\nLayers further than 1 from exact arithmetic:\n\n" + ("".join(exceptions) or "- none\n")


def run(arguments: argparse.Namespace) -> Report:
    rows: list[Row] = []
    for item in complete(compilations(arguments.fetched), arguments.only):
        try:
            rows.append(judge(item, arguments.images))
            print(line(rows[-1]), end="", flush=True)
        except AtoncError as error:
            print(f"{item.title}: FAILED {error}", flush=True)
    text = table(rows)
    return Report(text)


def complete(items: list[Compilation], only: Sequence[str]) -> list[Compilation]:
    """One compilation per title with all its files; weights known to match, or (4.0.0) of the right size."""
    chosen: dict[str, Compilation] = {}
    for item in items:
        files = item.network_c and item.weights and (item.ecblobs or not item.epoch_controller)
        if files and asked_for(only, item.title) and (item.verified_pair or item.tool == "4.0.0"):
            chosen.setdefault(item.title, item)
    return list(chosen.values())
