"""Comparisons for `atonc run`: against another run (`--compare`) and against the model (`--layers`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.layers import LayerReport, ObservedBuffer, check_layers
from atonc.compiler.compare.metrics import cosine, lsb_histogram
from atonc.compiler.inputs.arrays import read_arrays
from atonc.compiler.ir import Graph
from atonc.insight.runs.runs import RunResult, Snapshot
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.emu import tensors

Array = NDArray[Any]


@dataclass(frozen=True)
class BufferDifference:
    """How one buffer differs from the reference."""

    name: str
    epoch: int
    elements: int
    histogram: Mapping[int, int]  # difference in codes -> count; floats count as 0 or 1 for equal or not
    cosine: float

    @property
    def different(self) -> int:
        return sum(count for difference, count in self.histogram.items() if difference)


def compare_run(result: RunResult, reference: Mapping[str, Array]) -> list[BufferDifference]:
    """Every buffer and output that the reference names, in the order of the epochs."""
    found = [(s.info.name, s.epoch, s.data) for s in result.snapshots if s.info.name in reference]
    last = result.steps[-1].number if result.steps else 0
    seen = {name for name, _, _ in found}
    found += [(n, last, v) for n, v in result.outputs.items() if n in reference and n not in seen]
    if not found:
        raise InputError(
            "the reference names no buffer or output of this network",
            remedy="use a file written by --output or a folder written by --dump",
        )
    return [_difference(name, epoch, data, reference[name]) for name, epoch, data in found]


def _difference(name: str, epoch: int, data: Array, expected: Array) -> BufferDifference:
    if data.size != expected.size:
        raise InputError(
            f"{name} has {data.size} elements here and {expected.size} in the reference",
            remedy="compare runs of the same network",
        )
    expected = expected.reshape(data.shape)
    if data.dtype.kind == "f" or expected.dtype.kind == "f":
        unequal = int((data != expected).sum())
        histogram = {0: data.size - unequal, 1: unequal}
    else:
        histogram = lsb_histogram(data, expected)
    return BufferDifference(name, epoch, data.size, histogram, cosine(data, expected))


def read_reference(path: Path) -> dict[str, Array]:
    """An .npz, or all of them in a folder written by --dump."""
    files = sorted(path.glob("epoch_*.npz")) if path.is_dir() else [path]
    if not files:
        raise InputError("the folder holds no epoch_*.npz", where=str(path), remedy="write one with --dump")
    merged: dict[str, Array] = {}
    for file in files:
        merged |= read_arrays(file)
    return merged


# ------------------------------------------------------------------------------------------------------------ layers


def read_model(path: Path) -> Graph:
    """The graph of a TFLite or ONNX file."""
    if path.suffix == ".tflite":
        from atonc.compiler.frontends.tflite import read_file as read_tflite_file

        return read_tflite_file(path)
    if path.suffix == ".onnx":
        from atonc.compiler.frontends.onnx_qdq import read_file as read_onnx_file

        return read_onnx_file(path)
    raise InputError("neither .tflite nor .onnx", where=str(path), remedy="give the model that was compiled")


def layer_report(result: RunResult, graph: Graph) -> LayerReport:
    """Each layer on the inputs that it really had, against exact arithmetic."""
    buffers = [observed(s) for s in result.snapshots]
    streams = [ObservedBuffer(s.unit, s.epoch, None, 0, s.data.shape, s.data) for s in result.streams]
    return check_layers(graph, model_inputs(result, graph), [*buffers, *streams])


def observed(snapshot: Snapshot) -> ObservedBuffer:
    info = snapshot.info
    data = tensors.channel_last(info, snapshot.data)
    scale = info.scales[0] if len(info.scales) == 1 else None
    offset = info.offsets[0] if len(info.offsets) == 1 else 0
    return ObservedBuffer(info.name, snapshot.epoch, scale, offset, data.shape, data)


def model_inputs(result: RunResult, graph: Graph) -> dict[str, Array]:
    """The network's inputs in the types and layouts of the model's inputs, in order."""
    values: dict[str, Array] = {}
    if len(graph.inputs) != len(result.net.inputs):
        raise InputError(f"the model has {count(len(graph.inputs), 'input')}, the network {len(result.net.inputs)}")
    for name, info in zip(graph.inputs, result.net.inputs, strict=True):
        values[name] = _as_model_input(result.inputs[info.name], info, graph, name)
    return values


def _as_model_input(value: Array, info: Any, graph: Graph, name: str) -> Array:
    tensor = graph.tensors[name]
    wanted = np.dtype(tensor.dtype)
    value = _arranged(value, tensor.shape, name)
    if value.dtype == wanted:
        return value
    scale, zero = (info.scales[0], info.offsets[0]) if info.scales else (1.0, 0)
    real = value.astype(np.float64) if value.dtype.kind == "f" else (value.astype(np.float64) - zero) * scale
    if wanted.kind == "f":
        return real.astype(wanted)
    quant = tensor.quant
    if quant is None:
        raise InputError(f"the model's input {name} has no quantisation to convert {value.dtype} data with")
    codes = np.rint(real / float(quant.scales[0])) + int(quant.zero_points[0])
    limits = np.iinfo(wanted)
    converted: Array = np.clip(codes, limits.min, limits.max).astype(wanted)
    return converted


def _arranged(value: Array, shape: tuple[int, ...], name: str) -> Array:
    """The same elements in the model's shape: equal up to axes of size one, or channel last against first."""
    plain = tuple(d for d in value.shape if d != 1)
    wanted = tuple(d for d in shape if d != 1)
    if plain == wanted:
        return value.reshape(shape)
    if value.ndim == 4 and len(shape) == 4:
        for axes in ((0, 3, 1, 2), (0, 2, 3, 1)):
            if tuple(value.shape[a] for a in axes) == shape:
                return np.ascontiguousarray(value.transpose(axes))
    raise InputError(f"the network's input has shape {value.shape}, the model's input {name} {shape}")
