"""BatchNorm that onnxruntime leaves alone: into a ConvTranspose before it, as a depthwise 1x1 convolution, or as a
product and a sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.compiler.ir import Array


def fold_norms(graph: Any) -> None:
    """Changes the graph in place."""
    from onnx import numpy_helper

    constants = {proto.name: proto for proto in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    readers = [name for node in graph.node for name in node.input]
    outputs = {value.name for value in graph.output}
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*graph.input, *graph.value_info, *graph.output)}
    for node in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        before = producers.get(node.input[0])
        if any(name not in constants for name in node.input[1:5]):
            continue
        factor, offset = _affine(node, [numpy_helper.to_array(constants[name]) for name in node.input[1:5]])
        alone = readers.count(node.input[0]) == 1 and node.input[0] not in outputs
        if before is not None and alone and before.op_type == "ConvTranspose" and before.input[1] in constants:
            _into(before, node, factor, offset, graph, constants)
        elif ranks.get(node.input[0]) == 4:
            _as_convolution(node, factor, offset, graph)
        elif ranks.get(node.input[0], 0) > 1:
            _as_line(node, factor, offset, ranks[node.input[0]], graph)


def _affine(node: Any, values: list[Array]) -> tuple[Array, Array]:
    gamma, beta, mean, variance = (value.astype(np.float64) for value in values)
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    factor = gamma / np.sqrt(variance + epsilon)
    return factor, beta - mean * factor


def _into(before: Any, node: Any, factor: Array, offset: Array, graph: Any, constants: dict[str, Any]) -> None:
    from onnx import numpy_helper

    weights = numpy_helper.to_array(constants[before.input[1]]).astype(np.float64)
    groups = next((a.i for a in before.attribute if a.name == "group"), 1)
    split = weights.reshape(groups, -1, *weights.shape[1:])  # group, input channels of it, output channels of it
    scaled = split * factor.reshape(groups, 1, -1, *(1 for _ in weights.shape[2:]))
    bias = numpy_helper.to_array(constants[before.input[2]]) if len(before.input) > 2 and before.input[2] else 0.0
    _replace_inputs(before, graph, scaled.reshape(weights.shape), bias * factor + offset, node.name or node.output[0])
    before.output[0] = node.output[0]
    graph.node.remove(node)


def _as_convolution(node: Any, factor: Array, offset: Array, graph: Any) -> None:
    from onnx import helper

    label = node.name or node.output[0]
    made = helper.make_node("Conv", [node.input[0]], [node.output[0]], f"{label}:conv", group=len(factor))
    made.input.extend(["", ""])
    place = list(graph.node).index(node)
    graph.node.remove(node)
    graph.node.insert(place, made)
    _replace_inputs(graph.node[place], graph, factor.reshape(-1, 1, 1, 1), offset, label)


def _as_line(node: Any, factor: Array, offset: Array, rank: int, graph: Any) -> None:
    """For rows of values, which no convolution takes."""
    from onnx import helper, numpy_helper

    label = node.name or node.output[0]
    names, shape = (f"{label}:factor", f"{label}:offset"), (-1, *(1 for _ in range(rank - 2)))
    for name, value in zip(names, (factor, offset), strict=True):
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32).reshape(shape), name))
    scaled = f"{node.output[0]}:scaled"
    place = list(graph.node).index(node)
    graph.node.remove(node)
    graph.node.insert(place, helper.make_node("Mul", [node.input[0], names[0]], [scaled], f"{label}:mul"))
    graph.node.insert(place + 1, helper.make_node("Add", [scaled, names[1]], [node.output[0]], f"{label}:add"))


def _replace_inputs(node: Any, graph: Any, weights: Array, bias: Array, label: str) -> None:
    from onnx import numpy_helper

    names = f"{label}:weights", f"{label}:bias"
    for name, value in zip(names, (weights, bias), strict=True):
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    node.input[:] = [node.input[0], *names]
