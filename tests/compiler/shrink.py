"""Makes a failing graph small: operators go one by one, then the sizes of what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor, check
from atonc.compiler.ops.shapes import infer_shape
from atonc.machine.base.errors import AtoncError

Fails = Callable[[Graph], bool]


def shrink(graph: Graph, fails: Fails) -> Graph:
    """The smallest graph on the way down that still fails."""
    progress = True
    while progress:
        progress = False
        for candidate in candidates(graph):
            if fails(candidate):
                graph, progress = candidate, True
                break
    return graph


def candidates(graph: Graph) -> Iterator[Graph]:
    """Halves first, then without a single operator, then with a smaller image."""
    count = len(graph.ops)
    if count > 3:
        yield from (part(graph, graph.ops[: count // 2]), part(graph, graph.ops[count // 2 :]))
    if count > 1:
        for gone in reversed(graph.ops):
            yield part(graph, [op for op in graph.ops if op is not gone])
    for first, second in ((1, 2), (3, 4)):
        yield from _resized(graph, first, second)


def part(graph: Graph, ops: list[Op] | tuple[Op, ...]) -> Graph:
    """Only these operators: what they read from others becomes an input, what nobody reads an output."""
    made = {name for op in ops for name in op.outputs}
    read = dict.fromkeys(n for op in ops for n in op.inputs if n)
    inputs = tuple(n for n in read if n not in made and not graph.tensors[n].is_constant)
    outputs = tuple(n for op in ops for n in op.outputs if n not in read)
    tensors = {n: graph.tensors[n] for n in (*read, *(n for op in ops for n in op.outputs))}
    return check(Graph(tensors, tuple(ops), inputs, outputs, graph.name, graph.source))


# ------------------------------------------------------------------------------------------------------------- sizes


def _resized(graph: Graph, halves: int, _: int) -> Iterator[Graph]:
    """One dimension of one input smaller, everything behind it inferred anew; weights are cut to fit."""
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        for axis in range(1, len(shape)):
            smaller = shape[axis] // 2 if halves == 1 else shape[axis] - 1
            if smaller >= 1 and smaller != shape[axis]:
                found = _with_input(graph, name, (*shape[:axis], smaller, *shape[axis + 1 :]))
                if found is not None:
                    yield found
    for op in graph.ops:
        if op.kind in ("conv", "dense"):
            found = _fewer_outputs(graph, op, 2 if halves == 1 else 1)
            if found is not None:
                yield found


def _with_input(graph: Graph, name: str, shape: tuple[int, ...]) -> Graph | None:
    return _inferred(graph, {**graph.tensors, name: replace(graph.tensors[name], shape=shape)})


def _fewer_outputs(graph: Graph, op: Op, divisor: int) -> Graph | None:
    weights = graph.tensors[op.inputs[1]]
    groups = op.attrs.get("groups", 1)
    outputs = weights.shape[0] // divisor if divisor > 1 else weights.shape[0] - groups
    if outputs < 1 or outputs == weights.shape[0] or outputs % groups or weights.data is None:
        return None
    tensors = {**graph.tensors, weights.name: _cut(weights, (outputs, *weights.shape[1:]))}
    return _inferred(graph, tensors)


def _cut(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first elements along every axis; formats per channel follow."""
    if tensor.data is None or any(a > b for a, b in zip(shape, tensor.shape, strict=True)):
        return replace(tensor, shape=shape)
    data = np.ascontiguousarray(tensor.data[tuple(slice(0, n) for n in shape)])
    quant = tensor.quant
    if quant is not None and quant.axis is not None and not quant.is_per_tensor:
        kept = shape[quant.axis]
        quant = replace(quant, scales=quant.scales[:kept], zero_points=quant.zero_points[:kept])
    return replace(tensor, shape=shape, data=data, quant=quant)


def _inferred(graph: Graph, tensors: dict[str, Tensor]) -> Graph | None:
    """Shapes behind a change; None where the operators no longer fit each other."""
    ops = []
    try:
        for old in graph.ops:
            op = _fitted(old, graph, tensors)
            shape = infer_shape(op.kind, op.attrs, [tensors[n].shape for n in op.inputs if n])
            for name in op.outputs:
                if shape is None:
                    if any(tensors[n].shape != graph.tensors[n].shape for n in op.inputs if n):
                        return None
                    continue
                tensors[name] = replace(tensors[name], shape=shape)
            ops.append(op)
        return check(replace(graph, ops=tuple(ops), tensors=tensors))
    except (AtoncError, ValueError, IndexError):
        return None


def _fitted(op: Op, graph: Graph, tensors: dict[str, Tensor]) -> Op:
    """Constants cut to the new sizes; depthwise layers change their groups with their channels."""
    if op.kind == "conv":
        channels, weights = tensors[op.inputs[0]].shape[3], tensors[op.inputs[1]]
        before = graph.tensors[op.inputs[0]].shape[3]
        groups, outputs, inside = op.attrs["groups"], weights.shape[0], weights.shape[3]
        if groups == before > 1 and channels != before:
            outputs, groups = outputs // groups * channels, channels
        elif channels != before:
            inside = channels // groups
        tensors[weights.name] = _cut(weights, (outputs, *weights.shape[1:3], inside))
        op = replace(op, attrs={**op.attrs, "groups": groups})
    if op.kind == "dense":
        weights = tensors[op.inputs[1]]
        elements = tensors[op.inputs[0]].elements
        tensors[weights.name] = _cut(weights, (weights.shape[0], elements))
    if op.kind in ("conv", "dense") and len(op.inputs) > 2 and op.inputs[2]:
        bias = tensors[op.inputs[2]]
        tensors[bias.name] = _cut(bias, (tensors[op.inputs[1]].shape[0],))
    return op
