"""What the tensors of the float model hold over the samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.calibrate_apart import looks_from_cluster
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.layers import LinearLayer
from atonc.insight.quantizing.look import Look, look
from atonc.insight.quantizing.ranges import Seen
from atonc.insight.quantizing.samples import Feed
from atonc.machine.base.errors import ModelError


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
                rule="ranges of activations are learnt from finite values",
                remedy="look for weights that are not numbers, and whether the samples are scaled as in training",
            )
    return found


def _together(looks: Sequence[Look], weights: Array | None) -> Seen:
    values = np.concatenate([one.values for one in looks])
    tops = [one.tops for one in looks if one.tops is not None]
    return Seen(
        min(one.low for one in looks), max(one.high for one in looks), values, _fitting(weights, values),
        np.max(tops, axis=0) if tops else None,
    )  # fmt: skip


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


def _fitting(weights: Array | None, values: Array) -> Array | None:
    if weights is None or weights.shape != values.shape[1:] or not weights.any():
        return None
    return weights / weights.sum()
