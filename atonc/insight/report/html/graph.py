"""The graph of a network as boxes with places and edges with shapes: layers between inputs and outputs."""

from __future__ import annotations

from typing import Any

from atonc.insight.explain.tensors import ACTIVATION
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.insight.report.html.layout import layered

HEIGHT = 72  # four lines: operator and activation, name, shapes of kernel and bias, time
_CHARACTER, _NARROW, _WIDE = 7.2, 118, 244  # pixels


def graph_data(network: NetworkView, tensors: dict[str, int]) -> dict[str, Any]:
    """Boxes: left, top, width, and the layer's place or -1 - tensor of an input or output. Edges: upper box, lower box,
    tensor, then the points of the line."""
    ends = [one.name for one in network.inputs], [one.name for one in network.outputs]
    first, count = len(ends[0]), len(network.layers)
    widths = [*map(_edge_width, ends[0]), *map(_width, network.layers), *map(_edge_width, ends[1])]
    source = {name: k for k, name in enumerate(ends[0])}
    links: dict[tuple[int, int], str] = {}
    for k, layer in enumerate(network.layers):
        for name in layer.inputs:
            if name in source and source[name] < first + k:
                links.setdefault((source[name], first + k), name)
        source |= dict.fromkeys(layer.outputs, first + k)
    for k, name in enumerate(ends[1]):
        if name in source:
            links.setdefault((source[name], first + count + k), name)
    picture = layered(widths, HEIGHT, list(links))
    meaning = [
        *(-1 - tensors[name] for name in ends[0]),
        *range(count),
        *(-1 - tensors[name] for name in ends[1]),
    ]
    places = zip(picture.boxes, widths, meaning, strict=True)
    edges = zip(links.items(), picture.edges, strict=True)
    return {
        "w": picture.width,
        "h": picture.height,
        "box": HEIGHT,
        "boxes": [[x, y, width, what] for (x, y), width, what in places],
        "edges": [[a, b, tensors[name], *points] for ((a, b), name), points in edges],
    }


def _width(layer: LayerView) -> int:
    activation = layer.attributes.get(ACTIVATION, "")
    held = sum(3 + 4 * len(one.shape) for one in layer.weights[:2])
    return _fitting(max(len(layer.title) + (len(activation) + 3 if activation else 0), min(len(layer.name), 24), held))


def _edge_width(name: str) -> int:
    return _fitting(min(len(name), 24))


def _fitting(characters: int) -> int:
    return round(min(_WIDE, max(_NARROW, _CHARACTER * characters + 20)))
