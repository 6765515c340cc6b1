"""Layers with weights as matrix products: the weights as a matrix for every group, the inputs as rows that meet it."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, attribute
from atonc.machine.base.frozen import dataclass

MOST_INPUTS = 2304  # of one sum; larger layers keep nearest rounding: their moments would take gigabytes


@dataclass(frozen=True)
class LinearLayer:
    """result = weights @ row + bias, for every group."""

    name: str
    kind: str
    source: str
    output: str
    weights: str
    bias: str
    groups: int
    node: Any

    @property
    def axis(self) -> int:
        """The axis of the output channels in the stored weights."""
        if self.kind == "Gemm":
            return 0 if attribute(self.node, "transB", 0) else 1
        return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}[self.kind]


def layers_of(graph: FloatGraph) -> list[LinearLayer]:
    found = []
    for node in graph.nodes:
        weights = graph.weights_of(node)
        if not weights or not graph.is_activation(node.input[0]):
            continue
        groups = attribute(node, "group", 1)
        bias = graph.bias_of(node)
        found.append(LinearLayer(node.name, node.op_type, node.input[0], node.output[0], weights, bias, groups, node))
    return found


def matrix(layer: LinearLayer, stored: Array) -> Array:
    """Stored weights as group x outputs x inputs of one sum."""
    if layer.kind == "Conv":
        return stored.reshape(layer.groups, stored.shape[0] // layer.groups, -1)
    return (stored if layer.axis == 0 else stored.T)[None]


def stored_form(layer: LinearLayer, values: Array, like: Array) -> Array:
    if layer.kind == "Conv":
        return values.reshape(like.shape)
    return values[0] if layer.axis == 0 else values[0].T


def is_matrix(layer: LinearLayer, stored: Array) -> bool:
    """Whether its rows can be had; a transposed convolution's are not worth it."""
    if layer.kind == "Conv":
        return stored.ndim == 4 and stored[0].size <= MOST_INPUTS
    return layer.kind in ("Gemm", "MatMul") and stored.ndim == 2 and min(stored.shape) > 0 and stored.size < 1 << 24


def rows(layer: LinearLayer, values: Array, stored: Array, random: np.random.Generator, most: int) -> Array:
    """Some of the rows that meet the weights: row x group x input."""
    if layer.kind != "Conv":
        flat = values.reshape(-1, stored.shape[1 if layer.axis == 0 else 0])
        picked = flat if len(flat) <= most else flat[random.integers(0, len(flat), most)]
        return picked[:, None]
    kernel = stored.shape[2:]
    steps = attribute(layer.node, "strides", [1, 1])
    spread = attribute(layer.node, "dilations", [1, 1])
    padded, sizes = _padded(layer, values, kernel, steps, spread)
    places = random.integers(0, sizes[0] * sizes[1], most) if sizes[0] * sizes[1] > most else np.arange(np.prod(sizes))
    top, left = places // sizes[1] * steps[0], places % sizes[1] * steps[1]
    down = top[:, None, None] + (np.arange(kernel[0]) * spread[0])[None, :, None]
    right = left[:, None, None] + (np.arange(kernel[1]) * spread[1])[None, None, :]
    patches = padded[0][:, down, right]  # channel x place x kernel
    return patches.transpose(1, 0, 2, 3).reshape(len(places), layer.groups, -1)


def _padded(
    layer: LinearLayer, values: Array, kernel: tuple[int, ...], steps: list[int], spread: list[int]
) -> tuple[Array, tuple[int, int]]:
    pads = list(attribute(layer.node, "pads", [0, 0, 0, 0]))
    mode = attribute(layer.node, "auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        for k in range(2):
            size = values.shape[2 + k]
            extra = max(0, (-(-size // steps[k]) - 1) * steps[k] + (kernel[k] - 1) * spread[k] + 1 - size)
            first = extra // 2 if mode == b"SAME_UPPER" else extra - extra // 2
            pads[k], pads[2 + k] = first, extra - first
    padded = np.pad(values, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = [(kernel[k] - 1) * spread[k] + 1 for k in range(2)]
    high, wide = ((padded.shape[2 + k] - reach[k]) // steps[k] + 1 for k in range(2))
    return padded, (high, wide)
