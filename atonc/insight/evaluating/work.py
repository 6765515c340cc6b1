"""A unit of work: some samples through all sides, a record of each. A pure function of files and options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.layers import code_size
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.inputs.inputs import as_input
from atonc.compiler.ir import Array, Graph
from atonc.compiler.request.options import Options
from atonc.insight.evaluating.datasets.arrays import row
from atonc.insight.evaluating.metrics.base import Metric
from atonc.insight.evaluating.metrics.choose import metric_for
from atonc.insight.evaluating.metrics.distance import distance
from atonc.insight.evaluating.pictures import Fit, Preparation, picture_input
from atonc.insight.evaluating.sides import FLOAT, INT8, NPU, Sides
from atonc.insight.workers.unit import WorkUnit, digest
from atonc.machine.base.declare import arguments

PAIRS = ((NPU, FLOAT), (INT8, FLOAT), (NPU, INT8))


def compute(unit: WorkUnit) -> bytes:
    """Records of the samples as JSON. The files are the model, the float model if there is one, then data."""
    words = unit.options
    model, float_model = unit.files[0], unit.files[1] if words["float"] else None
    sides = _sides(*_known(model), *(_known(float_model) if float_model else ("", "")), _text(words), words["int8"])
    source = sides.compiled.source
    samples = [_sample(source, one, unit.files, words) for one in words["samples"]]
    shapes = [sides.compiled.graph.tensors[name].shape for name in sides.compiled.graph.outputs]
    metric = metric_for(words["metric"], words["decoder"], words["anchors"], shapes, input_side(source))
    found = sides.run([values for values, _, _ in samples])
    records = [_record(metric, sides, found, k, truth, fit) for k, (_, truth, fit) in enumerate(samples)]
    notes = sorted(dict.fromkeys(sides.notes))
    return json.dumps({"records": records, "notes": notes}, sort_keys=True).encode()


def _record(
    metric: Metric, sides: Sides, found: Mapping[str, Any], number: int, truth: Any, fit: Fit
) -> dict[str, Any]:
    graph = sides.compiled.graph
    answers = {side: metric.record(values[number], truth, fit) for side, values in found.items()}
    far = {}
    for one, other in PAIRS:
        if one in found and other in found:
            a, b = found[one][number], found[other][number]
            far[f"{one}-{other}"] = distance(a, b, _steps(graph, b))
    return {"sides": answers, "distance": far}


def _steps(graph: Graph, values: Sequence[Array]) -> list[float]:
    """What a code of each output is worth, in real numbers."""
    found = []
    for name, value in zip(graph.outputs, values, strict=True):
        tensor = graph.tensors[name]
        found.append(tensor.scale if tensor.quant is not None else code_size(graph, tensor, value))
    return found


def _sample(
    source: Graph, one: Mapping[str, Any], files: Sequence[Path], words: Mapping[str, Any]
) -> tuple[dict[str, Array], Any, Fit]:
    """Values of the inputs in the model's own formats, truth, and where the picture is in them."""
    path, inputs = files[one["file"]], [source.tensors[name] for name in source.inputs]
    if one["row"] is not None:
        values, label = row(path, one["row"], inputs)
        given = {tensor.name: as_input(tensor, _plain(values[tensor.name], tensor.dtype)) for tensor in inputs}
        return given, label if one["truth"] is None or isinstance(one["truth"], dict) else one["truth"], Fit()
    how = Preparation(words["resize"], _normalisation(words["normalise"]), words["colours"])
    value, fit = picture_input(path, source, inputs[0], how)
    truth = one["truth"]
    if isinstance(truth, dict) and "mask" in truth:
        truth = _mask(files[truth["mask"]])
    return {inputs[0].name: value}, truth, fit


def _plain(value: Array, dtype: str) -> Array:
    """Whole numbers in a file may be wider than codes are."""
    if value.dtype.kind in "iu" and np.dtype(dtype).kind in "iu" and value.dtype != np.dtype(dtype):
        limits = np.iinfo(dtype)
        if limits.min <= value.min() and value.max() <= limits.max:
            return value.astype(dtype)
    return value


def _mask(path: Path) -> Array:
    """The class of every pixel."""
    from PIL import Image

    with Image.open(path) as image:
        found: Array = np.asarray(image if image.mode in ("L", "P") else image.convert("L"), np.uint8)
    return found


def _normalisation(given: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    return None if given is None else (tuple(given[0]), tuple(given[1]))


def input_side(source: Graph) -> tuple[int, int]:
    """Width and height of the input, where it is a picture."""
    shape = source.tensors[source.inputs[0]].shape
    if len(shape) != 4:
        return 1, 1
    return (shape[3], shape[2]) if shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4) else (shape[2], shape[1])


# ------------------------------------------------------------------------------------------ once in every process


def _known(path: Path) -> tuple[str, str]:
    return str(path), digest(path)


def _text(words: Mapping[str, Any]) -> str:
    return json.dumps(words["compiler"], sort_keys=True)


_READY: dict[tuple[str | bool, ...], Sides] = {}  # of the last model


def _sides(path: str, contents: str, float_path: str, float_contents: str, options: str, int8: bool) -> Sides:
    key = (path, contents, float_path, float_contents, options, int8)
    if key not in _READY:
        forget()
        compiled = compile_file(Path(path), arguments(Options, json.loads(options)))
        _READY[key] = Sides(compiled, Path(path), Path(float_path) if float_path else None, int8)
    return _READY[key]


def forget() -> None:
    """Ends the processes of the last model's kernels."""
    while _READY:
        _READY.popitem()[1].close()
