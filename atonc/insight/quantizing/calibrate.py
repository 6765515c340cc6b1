"""What the tensors of the float model hold over the samples: extremes, and a few values of each. On a cluster
each unit takes some of the samples, and what its tensors held comes back."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight import workers
from atonc.insight.quantizing.graph import FloatGraph, LinearLayer, ScalePlan, roots_of
from atonc.insight.quantizing.observe import part_of, run, session, watch
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.scales import FunctionValues, Seen
from atonc.machine.base import progress
from atonc.machine.base.errors import ModelError

VALUES_A_SAMPLE, PLACES_AT_LEAST = 400, 4  # of each tensor
POINTS = 4096  # of a function: 16 to a code of the whole range


Looks = dict[str, Seen]  # what tensors held in some of the samples, without the weights of errors


def look(model: Any, names: Sequence[str], feeds: Sequence[Feed], first: int = 0) -> Looks:
    """`first`: number of the first of these among all samples."""
    kept: dict[str, list[Array]] = {name: [] for name in names}
    tops: dict[str, Array] = {}
    lows, highs = dict.fromkeys(names, np.inf), dict.fromkeys(names, -np.inf)

    for index, found in enumerate(watch(model, feeds, names, "calibrating")):
        for number, (name, value) in enumerate(found.items()):
            if not value.size:
                raise ModelError(f"{name!r} of shape {value.shape} has no elements", remedy="look at its paddings")
            lows[name], highs[name] = min(lows[name], float(value.min())), max(highs[name], float(value.max()))
            if value.ndim == 4:
                tops[name] = np.maximum(tops.get(name, 0.0), np.abs(value).max((0, 2, 3)))
            kept[name].append(some_values(value, np.random.default_rng((first + index, number))))
    return {name: Seen(lows[name], highs[name], np.concatenate(kept[name]), tops=tops.get(name)) for name in names}


def some_values(value: Array, random: np.random.Generator) -> Array:
    """A few places with all their channels: place x channel."""
    if value.ndim == 4 and value.shape[0] == 1:
        places = value[0].reshape(value.shape[1], -1)
        count = max(PLACES_AT_LEAST, VALUES_A_SAMPLE // max(1, value.shape[1]))
        if places.shape[1] > count:
            places = places[:, random.integers(0, places.shape[1], count)]
        return places.T.astype(np.float32)
    if value.ndim == 3 and value.shape[0] == 1:  # rows of tokens
        count = max(PLACES_AT_LEAST, VALUES_A_SAMPLE // max(1, value.shape[2]))
        few = value[0] if value.shape[1] <= count else value[0, random.integers(0, value.shape[1], count)]
        return few.astype(np.float32)
    if value.ndim == 2 and value.shape[0] == 1:
        return value.astype(np.float32)
    flat = value.reshape(-1, 1)
    few = flat if len(flat) <= VALUES_A_SAMPLE else flat[random.integers(0, len(flat), VALUES_A_SAMPLE)]
    return few.astype(np.float32)


FUNCTION = "atonc.insight.quantizing.calibrate:compute"
SAMPLES_TOGETHER = 8
_TOPS = "tops"


def looks_from_cluster(model: Any, names: Sequence[str], feeds: Sequence[Feed], scheduler: str) -> list[Looks]:
    """The model and the samples lie in a folder below the current one meanwhile: all machines must see it."""
    with tempfile.TemporaryDirectory(prefix="atonc-calibration-", dir=Path.cwd()) as folder:
        units = _units(Path(folder), model, names, feeds)
        results = workers.run(
            units, FUNCTION, scheduler=scheduler,
            progress=lambda done, count: progress.stage("calibrating on the cluster", done, count),
        )  # fmt: skip
    return [_looks(result, names) for result in results]


def _units(folder: Path, model: Any, names: Sequence[str], feeds: Sequence[Feed]) -> list[workers.WorkUnit]:
    network = folder / "float.onnx"
    network.write_bytes(model.SerializeToString(deterministic=True))
    units = []
    for first in range(0, len(feeds), SAMPLES_TOGETHER):
        some, file = feeds[first : first + SAMPLES_TOGETHER], folder / f"samples_{first}.npz"
        np.savez(file, **_numbered([np.stack([feed[name] for feed in some]) for name in some[0]]))
        options = {"tensors": list(names), "inputs": list(some[0]), "first": first}
        units.append(workers.WorkUnit(f"samples {first} to {first + len(some) - 1}", (network, file), options))
    return units


def _numbered(arrays: Sequence[Any]) -> dict[str, Any]:
    """Names of tensors may be anything, those of arrays in a file may not."""
    return {str(index): value for index, value in enumerate(arrays)}


def compute(unit: workers.WorkUnit) -> bytes:
    from onnx import ModelProto

    names, inputs = unit.options["tensors"], unit.options["inputs"]
    with np.load(unit.files[1]) as stored:
        arrays = [stored[str(index)] for index in range(len(inputs))]
    feeds = [dict(zip(inputs, values, strict=True)) for values in zip(*arrays, strict=True)]
    found = look(ModelProto.FromString(unit.files[0].read_bytes()), names, feeds, unit.options["first"])
    made = io.BytesIO()
    ranges = np.array([(found[name].low, found[name].high) for name in names])
    tops = {f"{_TOPS}{index}": found[name].tops for index, name in enumerate(names) if found[name].tops is not None}
    np.savez(made, ranges=ranges, **_numbered([found[name].values for name in names]), **tops)  # type: ignore[arg-type]
    return made.getvalue()


def _looks(result: bytes, names: Sequence[str]) -> Looks:
    with np.load(io.BytesIO(result)) as stored:
        lows, highs = stored["ranges"].T
        return {
            name: Seen(float(lows[index]), float(highs[index]), stored[str(index)], tops=stored.get(f"{_TOPS}{index}"))
            for index, name in enumerate(names)
        }


def calibrate(
    graph: FloatGraph, names: Sequence[str], layers: Sequence[LinearLayer], feeds: Sequence[Feed], scheduler: str = ""
) -> dict[str, Seen]:
    """`scheduler`: of a Dask cluster that runs the samples; what is found is the same."""
    looks = looks_from_cluster(graph.model, names, feeds, scheduler) if scheduler else [look(graph.model, names, feeds)]
    weights = channel_weights(graph, layers)
    found = {name: _together([one[name] for one in looks], weights.get(name)) for name in names}
    for name, seen in found.items():
        if not (isfinite(seen.low) and isfinite(seen.high)):
            raise ModelError(
                "the float model gives values that are not finite on the samples",
                where=graph.producer[name].name if name in graph.producer else name,
                rule="ranges of activations are calibrated on finite values",
                remedy="look for weights that are not numbers, and whether the samples are scaled as in training",
            )
    return found


def _together(looks: Sequence[Seen], weights: Array | None) -> Seen:
    low, high = min(one.low for one in looks), max(one.high for one in looks)
    values = np.concatenate([one.values for one in looks])
    tops = [one.tops for one in looks if one.tops is not None]
    if weights is not None:
        weights = weights / weights.sum() if weights.shape == values.shape[1:] and weights.any() else None
    return Seen(low, high, values, weights, np.max(tops, axis=0) if tops else None)


def channel_weights(graph: FloatGraph, layers: Sequence[LinearLayer]) -> dict[str, Array]:
    """Tensor -> energy of the weights that read each of its channels, where nothing but layers reads it."""
    found: dict[str, Array] = {}
    for layer in layers:
        stored = graph.constants[layer.weights].astype(np.float64)
        if layer.kind == "Conv" and stored.ndim == 4:
            energy = np.square(stored).sum((2, 3)).reshape(layer.groups, -1, stored.shape[1]).sum(1).reshape(-1)
        elif layer.kind != "ConvTranspose" and stored.ndim == 2:
            energy = np.square(stored).sum(layer.axis)
        else:
            continue
        found[layer.source] = found.get(layer.source, 0.0) + energy
    readers = {name: {id(node) for node in graph.readers[name]} for name in found}
    weighted = {id(layer.node) for layer in layers}
    return {name: value for name, value in found.items() if readers[name] <= weighted and name not in graph.outputs}


def with_curves(graph: FloatGraph, plan: ScalePlan, seen: Mapping[str, Seen], but: Collection[str]) -> dict[str, Seen]:
    """`but`: tensors that are judged themselves, so not by what becomes of them."""
    found = dict(seen)
    for name, (result, nodes) in arguments(graph, plan).items():
        if name not in but:
            found[name] = replace(seen[name], curve=_curve(graph, nodes, name, result, seen[name]))
    return found


def arguments(graph: FloatGraph, plan: ScalePlan) -> dict[str, tuple[str, list[Any]]]:
    """Tensors with codes that one function alone reads: its result, and its nodes."""
    roots, found = roots_of(graph, set(plan.float_nodes)), dict[str, tuple[str, list[Any]]]()
    for result in plan.tensors:
        name, inside, waiting = roots.get(result, result), set[str](), [result]
        if name == result or name not in plan.tensors or name in graph.outputs:
            continue
        while waiting:
            if (one := waiting.pop()) not in (*inside, name):
                inside.add(one)
                waiting += graph.activations(graph.producer[one])
        nodes = [node for node in graph.nodes if inside.intersection(node.output)]
        inside.remove(result)
        read = [reader for one in (*inside, name) for reader in graph.readers[one]]
        if all(reader in nodes for reader in read) and inside.isdisjoint(graph.outputs):
            found[name] = result, nodes
    return found


def _curve(graph: FloatGraph, nodes: list[Any], name: str, result: str, one: Seen) -> FunctionValues:
    """`nodes`: of the function."""
    from onnx import TensorProto, helper, numpy_helper

    points = np.linspace(min(one.low, 0.0), max(one.high, 0.0), POINTS, dtype=np.float32)
    constants = dict.fromkeys(n for node in nodes for n in node.input if n in graph.constants)
    stored = [numpy_helper.from_array(graph.constants[n], n) for n in constants]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, points.shape)]
    values = run(session(part_of(graph.model, nodes, given, [result], stored)), {name: points})[0]
    return FunctionValues(result, points, values.reshape(-1).astype(np.float64))
