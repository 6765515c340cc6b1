"""Do stripes keep large pictures on the chip, and are their outputs the same bits? With and without, on one input.

YOLOv8n at 640x640 is made from the graph for 256x256: all pictures are 2.5 times as wide and high, and the constants of
the points of its head are repeated. It is compared, not used.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories, read_model
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.compiler.search.generators.row_tiles import PASS
from atonc.compiler.verify.emulation import Emulation
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, ONLY, WRITE, Report, argument

GROUP = "speed"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    argument("--verify", action="store_true", help="every layer against exact arithmetic as well"),
    WRITE,
)

MODELS = (
    "deeplabv3_mnv2_pascal_quant.tflite",
    "coco_2017_pascal_voc_2012__deeplab_v3_mobilenetv2_05_16_512_asppv1_int8.tflite",
    "yolov8n_256_quant_pc_uf_pose_coco-st.tflite",
)
SIDES, WIDER = (256, 128, 64, 32, 16, 8), 2.5  # of the pictures of YOLOv8n, and how much wider they become
LEVELS = (1024, 256, 64)  # points of its head, which come one level after the other
POINTS = sum(LEVELS)


@dataclass(frozen=True)
class Row:
    name: str
    striped: Compiled
    whole: Compiled
    same: bool

    def text(self) -> str:
        figures = [_figures(one) for one in (self.whole, self.striped)]
        runs = ", ".join(f"{len(stripe.ops)} layers in {stripe.bands}" for stripe in self.striped.mapped.stripes)
        verified = "yes" if self.striped.report else "not here"
        cells = (self.name, *(f"{a} → {b}" for a, b in zip(*figures, strict=True)), runs or "none")
        return f"| {' | '.join(cells)} | {verified} | {'yes' if self.same else 'NO'} |"


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    for name, graph in _graphs(chosen(arguments, MODELS)):
        rows.append(_row(name, graph, arguments.verify))
        print(rows[-1].text(), flush=True)
    return Report(_page(rows), failed=not all(row.same for row in rows))


def _graphs(models: Iterable[Path]) -> Iterator[tuple[str, Graph]]:
    for path in models:
        options = Options()
        graph = order.run(read_model(path, options), options)
        wide = path.name.startswith("yolov8n")
        yield (f"{path.name} at 640x640", resized(graph)) if wide else (path.name, graph)


def _row(name: str, graph: Graph, verify: bool) -> Row:
    found = []
    for without in ((), (PASS,)):
        options = Options(verify=verify and not without, schedule_without=without)
        found.append(compile_canonical(graph, graph, options, memories(options)))
    inputs = make_inputs(graph, 7)
    one, other = (Emulation(compiled.program, graph).run(inputs) for compiled in found)
    return Row(name, *found, all(np.array_equal(one[n], other[n]) for n in graph.outputs))


def _figures(compiled: Compiled) -> tuple[str, str, str]:
    cost = compiled.cost
    layout = compiled.layout
    return f"{cost.latency_ms:.1f}", f"{layout.peak_bytes:,}", f"{layout.spilled_bytes:,}"


def _page(rows: Sequence[Row]) -> str:
    head = "model | predicted ms | activations, bytes | bytes ever outside the chip | stripes | verified | same bits"
    lines = [
        "# Stripes",
        "",
        "Rows of several convolutions in turn, against all rows at once (`--schedule-without stripe`).",
        "Predicted by the calibrated model, which prices external RAM.",
        "",
        f"| {head} |",
        "|" + "---|" * (head.count("|") + 1),
        *(row.text() for row in rows),
        "",
        "What remains outside is larger than the chip's memory: 513 x 513 x 21 bytes in front of the argmax",
        "of the first one, 512 x 512 x 21 floats of the second.",
        "YOLOv8n at 640x640 is made from the graph for 256x256 by its input size.",
        "",
    ]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ YOLOv8n at 640x640


def resized(graph: Graph) -> Graph:
    tensors = {name: _resized(tensor) for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors, ops=tuple(map(_moved, graph.ops)))


def _resized(tensor: Tensor) -> Tensor:
    shape, data = tuple(tensor.shape), tensor.data
    if data is not None:
        for axis in (axis for axis, size in enumerate(shape) if size == POINTS):
            data = np.take(data, _points(), axis=axis)
        return tensor if data is tensor.data else replace(tensor, shape=data.shape, data=data)
    if len(shape) == 4 and shape[1] == shape[2] in SIDES:
        side = int(WIDER * shape[1])
        return replace(tensor, shape=(1, side, side, shape[3]))
    own = (POINTS, *LEVELS) if len(shape) == 3 else (POINTS,)
    grown = [_more(size) if size == POINTS or (size in own and axis == 1) else size for axis, size in enumerate(shape)]
    return replace(tensor, shape=tuple(grown))


def _more(points: int) -> int:
    return int(WIDER * WIDER * points)


def _points() -> np.ndarray:
    """Finds for every new point an old one of the same level."""
    starts = np.cumsum([0, *LEVELS])
    return np.concatenate([s + np.arange(_more(n)) * n // _more(n) for s, n in zip(starts, LEVELS, strict=False)])


def _moved(op: Op) -> Op:
    stops = op.attrs.get("stops")
    if stops is None:
        return op
    return replace(op, attrs={**op.attrs, "stops": tuple(_more(n) if n == POINTS else n for n in stops)})
