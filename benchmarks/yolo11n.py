"""YOLO11n and a transformer, by default and with products of two activations on the NPU: predicted times, and why.

The files are the public models of `MODELS` in any folder: the end of the name counts, nothing is downloaded. Every
program is verified on the emulator, layer by layer.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.machine.cost.network import NetworkCost
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report, argument

GROUP = "speed"
ARGUMENTS = (
    MODEL_FILES.but(required=True),
    argument("--way", nargs="+", metavar="WAY", help="of compiling, instead of all"),
    WRITE,
)


@dataclass(frozen=True)
class Model:
    end: str  # of the file's name
    what: str
    source: str
    st_ms: float | None = None  # published by ST with release 4.0.0 for this file


HOTSPOT = "stm32-hotspot/ultralytics"
MODELS = (
    Model("yolo11n_256_quant_pc_uf_od_coco-person-st.tflite", "detection 256, one class", HOTSPOT, 26.39),
    Model("yolov11n_micro_224_int8.onnx", "detection 224, 80 classes, float", "Magnus3327/stm32n6-edge-ai-benchmarks"),
    Model("quantized_model.tflite", "transformer, 30 tokens of 128", "TitoNicolaDrugman/Transformer-NPU-STM32N6"),
)
INTEGERS = "attention, int8 in and out"  # of models whose edges are float
WAYS = {
    "default": Options(),
    "attention": Options(schedule_with=("attention",)),
    "attention, prefetch": Options(schedule_with=("attention", "prefetch")),
    INTEGERS: Options(schedule_with=("attention",), input_type="int8", output_type="int8"),
}
HEAD = """# YOLO11n and a transformer: attention on the NPU

Times in milliseconds are predicted by the
calibrated model; nothing of ours has run on a board. ST's are published (release 4.0.0, the same file). Every program
is verified on the emulator: the last columns are the worst layer in codes, on the inputs that it really has, and the
outputs of the whole network on synthetic inputs, both against exact arithmetic.
`attention` is `--schedule-with attention`: products of two activations as convolutions whose kernels are read from RAM.
The floats of the ONNX file are converted by the CPU (quantize, dequantize), as its own application would have it.

What brought the detector at 256 there: its depthwise layer, which the file has as 128 convolutions between a split and
a concatenation, as one (0.36 ms), the softmax of the boxes in registers (0.91 ms), both by default; the two products
on the NPU (1.3 ms). What is left is weights that come from flash, large first layers, and the softmax of the boxes.

| model | options | ms | ST ms | to ST | NPU | epochs | bound by | CPU | worst layer | same codes |
|---|---|---:|---:|---:|---:|---:|---|---|---:|---:|
"""


def row(model: Model, way: str, path: Path) -> str:
    options, started = WAYS[way], time.process_time()
    compiled = compile_file(path, options)
    cost = compiled.cost
    report = compiled.report
    assert report is not None
    ours = f"{cost.latency_ms:.2f}"
    st = f"{model.st_ms} | {cost.latency_ms / model.st_ms:.2f}" if model.st_ms else " | "
    bounds = ", ".join(f"{name} {share:.0%}" for name, share in list(cost.bound_by.items())[:4])
    same = min(check.exact_percent for check in report.outputs)
    print(f"{model.what}, {way}: {ours} ms, {time.process_time() - started:.0f} s", file=sys.stderr)
    return (
        f"| {model.what} | {way} | {ours} | {st} | {cost.npu_ms:.2f} | {len(cost.steps)} | {bounds} | "
        f"{_on_cpu(cost)} | {report.worst_layer:.2f} | {same:.1f} % |"
    )


def _on_cpu(cost: NetworkCost) -> str:
    """Milliseconds by kind of operator, the first word of a step's title."""
    found: dict[str, float] = {}
    for step in cost.steps:
        if step.cpu_ms:
            kind = step.origin.split()[0]
            found[kind] = found.get(kind, 0.0) + step.cpu_ms
    return ", ".join(f"{kind} {ms:.2f}" for kind, ms in sorted(found.items(), key=lambda item: -item[1]))


def run(arguments: argparse.Namespace) -> Report:
    rows = [
        row(model, way, path)
        for model in MODELS
        for path in map(Path, arguments.models)
        if path.name.endswith(model.end)
        for way in arguments.way or WAYS
        if way != INTEGERS or model.what.endswith("float")
    ]
    sources = "\n".join(f"* {model.what}: `{model.end}` of {model.source}" for model in MODELS)
    text = HEAD + "\n".join(rows) + f"\n\n{sources}\n"
    return Report(text)
