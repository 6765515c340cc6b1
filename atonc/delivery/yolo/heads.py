"""Where an exported YOLO model ends for the NPU: at the last convolutions of its heads. What stands behind them (places
of distances, sigmoids, the best 300) is arithmetic for the few boxes above the threshold, and is done in C."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.frontends.tails import reads_of
from atonc.insight.evaluating.decoders import YOLO26_HEADS, YOLOV8_HEADS
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass

DETECT, POSE, SEGMENT, CLASSIFY = TASKS = ("detect", "pose", "segment", "classify")
GROUPS = {DETECT: 2, POSE: 3, SEGMENT: 3}  # outputs of each grid: boxes, scores, points or coefficients
BINS = 16  # of a distance, in YOLOv8 and YOLO11
_ROLE = re.compile(r"(?:^|[./])(?:one2one_)?cv([234])(?=[._/])")  # as the exporter names the three parts of a head
_MOST_CHARACTERS = 1 << 16


@dataclass(frozen=True)
class YoloModel:
    """What an export says of itself, and where it is cut."""

    task: str
    names: tuple[str, ...]  # of the classes; empty where the file does not say
    side: tuple[int, int]  # width and height of the input
    family: str = ""  # of the decoder; none for classes
    outputs: tuple[str, ...] = ()  # boxes of each grid, scores of each, ...
    suppressed: bool = False  # one cell answers an object: nothing has to be suppressed
    points: int = 0


def told(model: Any) -> dict[str, Any]:
    """What the exporter wrote into the file; values that are no literals are left out."""
    found = {}
    for entry in model.metadata_props:
        text = entry.value[:_MOST_CHARACTERS]
        try:
            found[entry.key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found[entry.key] = text
    return found


def sides(model: Any, imgsz: int) -> dict[str, int]:
    """Height and width where the export leaves them open: what is asked for, else those that the exporter wrote into
    the file."""
    stored = {proto.name for proto in model.graph.initializer}
    images = [value for value in model.graph.input if value.name not in stored and len(_shape(value)) == 4]
    left_open = {
        dim.dim_param or f"{image.name}:{axis}": axis - 2
        for image in images for axis, dim in enumerate(image.type.tensor_type.shape.dim) if axis > 1 > dim.dim_value
    }  # fmt: skip
    if imgsz and not left_open:
        raise InputError("an export has its size", where="--imgsz", remedy="export again with imgsz=")
    written = told(model).get("imgsz")
    known = isinstance(written, list | tuple) and len(written) == 2 and all(type(one) is int for one in written)
    sizes = (imgsz, imgsz) if imgsz else written if known else None
    return {label: sizes[which] for label, which in left_open.items()} if sizes else {}


def yolo_model(model: Any, where: str) -> YoloModel:
    """`model`: an ONNX model with fixed shapes."""
    said, graph = told(model), model.graph
    stored = {proto.name for proto in graph.initializer}
    inputs = [_shape(value) for value in graph.input if value.name not in stored]
    if len(inputs) != 1 or len(inputs[0]) != 4 or inputs[0][1] != 3 or min(inputs[0]) < 1:
        raise InputError(
            f"inputs {inputs} instead of one image [1, 3, height, width]",
            where=where,
            rule="an export of Ultralytics has one image, channels first, its size fixed",
            remedy="export again: yolo export format=onnx dynamic=False batch=1",
        )
    task = str(said.get("task") or _guessed(graph))
    if task not in TASKS:
        raise UnsupportedError(
            f"a model for the task {task[:40]!r}", where=where, rule=f"tasks are {', '.join(TASKS)}",
            remedy="quantize, generate and evaluate take it step by step (docs/quantize.md)",
        )  # fmt: skip
    names = said.get("names", {})
    names = tuple(str(name)[:100] for name in (names.values() if isinstance(names, dict) else ()))
    side = (inputs[0][3], inputs[0][2])
    if task == CLASSIFY:
        return YoloModel(task, names, side)
    outputs, bins, values = _outputs(model, task, len(names), where)
    points = _points(said.get("kpt_shape"), values, where) if task == POSE else 0
    suppressed = any(node.op_type == "TopK" for node in graph.node)
    family = YOLOV8_HEADS.name if bins > 1 else YOLO26_HEADS.name
    return YoloModel(task, names, side, family, outputs, suppressed, points)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)


def _guessed(graph: Any) -> str:
    """The task of a file that does not say it."""
    ranks = [len(_shape(value)) for value in graph.output]
    return SEGMENT if 4 in ranks else CLASSIFY if ranks == [2] else DETECT


def _points(shape: Any, values: int, where: str) -> int:
    count, each = shape if isinstance(shape, list | tuple) and len(shape) == 2 else (values // 3, 3)
    if each != 3 or count * each != values:
        raise UnsupportedError(
            f"{values} values of key points, {shape or '3 each'}", where=where,
            rule="a key point has x, y and whether it is seen", remedy="train with kpt_shape [N, 3]",
        )  # fmt: skip
    return int(count)


def _outputs(model: Any, task: str, classes: int, where: str) -> tuple[tuple[str, ...], int, int]:
    """The tensors to end with, in the order of the decoder; bins of a distance; values of the third group."""
    from onnx.shape_inference import infer_shapes

    graph = model.graph
    known = infer_shapes(model).graph
    shapes = {value.name: _shape(value) for value in (*known.value_info, *known.output)}
    prototypes = [value.name for value in graph.output if len(shapes.get(value.name, ())) == 4]
    rows = [(shapes.get(name, ()), role, name) for role, name in _last_convolutions(graph, prototypes)]
    wanted = GROUPS[task]
    grids = sorted({shape[2:] for shape, _, _ in rows if len(shape) == 4}, key=prod, reverse=True)
    by_grid = [_by_role([row for row in rows if row[0][2:] == grid], wanted, classes) for grid in grids]
    good = len(grids) > 1 and len(rows) == wanted * len(grids) and all(by_grid)
    counts = {tuple(shapes[name][1] for name in names) for names in by_grid} if good else set()
    if len(counts) != 1 or len(prototypes) != (task == SEGMENT) or next(iter(counts))[0] not in (4, 4 * BINS):
        found = ", ".join(f"{'x'.join(map(str, shape[1:]))}" for shape, _, _ in rows[:12]) or "none"
        raise ModelError(
            "the ends of a YOLO head were not found",
            where=where,
            rule=f"a head for {task} ends with {wanted} convolutions for each of its grids; found: {found}",
            remedy="export again: yolo export format=onnx; or end it yourself with quantize --cut-output-tensors",
        )
    (widths,) = counts
    order = [names[k] for k in range(wanted) for names in by_grid]
    return (*order, *prototypes), widths[0] // 4, widths[2] if wanted > 2 else 0


def _last_convolutions(graph: Any, prototypes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Role and output of the layers with weights that are nearest to the outputs, in the order of the file. Prototypes
    of masks are an output as they are."""
    makers = {name: node for node in graph.node for name in node.output if name}
    weights = {proto.name: proto for proto in graph.initializer}
    waiting = [value.name for value in graph.output if value.name not in prototypes]
    found, seen = dict[str, str](), set[str]()
    while waiting:
        node = makers.get(name := waiting.pop())
        if node is None or name in seen or node.op_type in ("Shape", "Size"):
            continue
        seen.add(name)
        if node.op_type == "Conv" and not _is_ramp(weights.get(node.input[1])):
            role = _ROLE.search(node.input[1]) or _ROLE.search(node.name) or _ROLE.search(node.output[0])
            found[node.output[0]] = role[1] if role else ""
        else:
            waiting += reads_of(node)
    return ((found[name], name) for node in graph.node for name in node.output if name in found)


def _is_ramp(proto: Any) -> bool:
    """Weights 0, 1, 2, ...: no layer, but the mean of the places of a distance."""
    from onnx import numpy_helper

    if proto is None or list(proto.dims) != [1, BINS, 1, 1]:
        return False
    return bool(np.array_equal(numpy_helper.to_array(proto).ravel(), np.arange(BINS)))


def _by_role(rows: Sequence[tuple[tuple[int, ...], str, str]], wanted: int, classes: int) -> tuple[str, ...]:
    """Names of boxes, scores and the rest of one grid: by the exporter's names, else by their channels."""
    roles: Mapping[str, str] = {role: name for _, role, name in rows}
    if sorted(roles) == ["2", "3", "4"][:wanted] and len(rows) == wanted:
        return tuple(roles[key] for key in sorted(roles))
    boxes = [name for shape, _, name in rows if shape[1] in (4, 4 * BINS)]
    scores = [name for shape, _, name in rows if shape[1] == classes]
    if len(rows) != wanted or len(boxes) != 1 or len(scores) != 1 or boxes == scores:
        return ()
    rest = [name for _, _, name in rows if name not in (*boxes, *scores)]
    return (*boxes, *scores, *rest)
