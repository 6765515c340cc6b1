"""What the tensors of the float model hold over the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atonc.ir import Array
from atonc.quantizing.graph import FloatGraph
from atonc.quantizing.layers import Layer
from atonc.quantizing.observe import watch
from atonc.quantizing.ranges import Seen
from atonc.quantizing.samples import Feed

VALUES_A_SAMPLE, PLACES_AT_LEAST = 400, 4  # of each tensor


@dataclass(frozen=True)
class Look:
    """What one tensor held in some of the samples."""

    low: float
    high: float
    values: Array  # a few
    tops: Array | None  # per channel: the largest, without its sign


Looks = dict[str, Look]


def calibrate(
    graph: FloatGraph, names: Sequence[str], layers: Sequence[Layer], feeds: Sequence[Feed], scheduler: str = ""
) -> dict[str, Seen]:
    """`scheduler`: of a Dask cluster that runs the samples; what is found is the same."""
    if scheduler:
        from atonc.quantizing.calibrate_apart import looks_from_cluster

        looks = looks_from_cluster(graph.model, names, feeds, scheduler)
    else:
        looks = [look(graph.model, names, feeds)]
    weights = channel_weights(graph, layers)
    return {name: _together([one[name] for one in looks], weights.get(name)) for name in names}


def look(model: Any, names: Sequence[str], feeds: Sequence[Feed], first: int = 0) -> Looks:
    """`first`: number of the first of these among all samples."""
    kept: dict[str, list[Array]] = {name: [] for name in names}
    tops: dict[str, Array] = {}
    lows, highs = dict.fromkeys(names, np.inf), dict.fromkeys(names, -np.inf)

    def see(index: int, found: dict[str, Array]) -> None:
        for number, (name, value) in enumerate(found.items()):
            lows[name], highs[name] = min(lows[name], float(value.min())), max(highs[name], float(value.max()))
            if value.ndim == 4:
                tops[name] = np.maximum(tops.get(name, 0.0), np.abs(value).max((0, 2, 3)))
            kept[name].append(some_values(value, np.random.default_rng((first + index, number))))

    watch(model, feeds, names, see, "calibrating")
    return {name: Look(lows[name], highs[name], np.concatenate(kept[name]), tops.get(name)) for name in names}


def _together(looks: Sequence[Look], weights: Array | None) -> Seen:
    values = np.concatenate([one.values for one in looks])
    tops = [one.tops for one in looks if one.tops is not None]
    return Seen(
        min(one.low for one in looks), max(one.high for one in looks), values, _fitting(weights, values),
        np.max(tops, axis=0) if tops else None,
    )  # fmt: skip


def some_values(value: Array, random: np.random.Generator) -> Array:
    """A few places with all their channels: place x channel."""
    if value.ndim == 4 and value.shape[0] == 1:
        places = value[0].reshape(value.shape[1], -1)
        count = max(PLACES_AT_LEAST, VALUES_A_SAMPLE // max(1, value.shape[1]))
        if places.shape[1] > count:
            places = places[:, random.integers(0, places.shape[1], count)]
        return places.T.astype(np.float32)
    if value.ndim == 2 and value.shape[0] == 1:
        return value.astype(np.float32)
    flat = value.reshape(-1, 1)
    few = flat if len(flat) <= VALUES_A_SAMPLE else flat[random.integers(0, len(flat), VALUES_A_SAMPLE)]
    return few.astype(np.float32)


def channel_weights(graph: FloatGraph, layers: Sequence[Layer]) -> dict[str, Array]:
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


def _fitting(weights: Array | None, values: Array) -> Array | None:
    if weights is None or weights.shape != values.shape[1:] or not weights.any():
        return None
    return weights / weights.sum()
