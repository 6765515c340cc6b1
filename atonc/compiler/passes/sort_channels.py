"""Channels inside a network in an order in which neighbours have similar scales.

One shift serves all channels that a unit computes together, so a channel whose scale is far from its neighbours' is
computed coarsely. Inside a network the order of channels is free: the weights of those who read them are put into
the same order. Inputs, outputs and operators that give channels a meaning keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, is_int8, rewrite
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
Order = NDArray[np.int64]

ONE_BY_ONE = ("table", "requantize", "clip", "max_pool", "average_pool", "resize_nearest", "resize_linear", "identity")
PAIRS = ("add", "sub", "mul", "minimum", "maximum", "prelu", "affine")
PIECES = 8  # groups of channels with a shift of their own that an order is judged by
SMALLEST = 4  # channels of such a group
BINS = 4
MOST_ORDERS = 12
_SORTED = ":sorted"  # behind the name of a constant, once
HELPS = 0.8  # an order that leaves less than this of the error is worth it


@dataclass
class Groups:
    """Which channels belong together: tensors whose channels correspond have the same groups in the same order."""

    sizes: list[int]
    parents: list[int]
    fixed: list[bool]
    of: dict[str, tuple[int, ...]]  # by tensor

    def new(self, size: int, fixed: bool = False) -> int:
        self.sizes.append(size)
        self.parents.append(len(self.parents))
        self.fixed.append(fixed)
        return len(self.parents) - 1

    def root(self, group: int) -> int:
        while self.parents[group] != group:
            group = self.parents[group]
        return group

    def roots(self, name: str) -> tuple[int, ...]:
        return tuple(self.root(group) for group in self.of[name])

    def fix(self, groups: Iterable[int]) -> None:
        for group in groups:
            self.fixed[self.root(group)] = True

    def tie(self, left: tuple[int, ...], right: tuple[int, ...]) -> None:
        """Corresponding channels; where the groups are cut differently, nothing may move."""
        if [self.sizes[g] for g in left] != [self.sizes[g] for g in right]:
            self.fix((*left, *right))
            return
        for one, other in zip(left, right, strict=True):
            first, second = sorted((self.root(one), self.root(other)))
            self.parents[second] = first
            self.fixed[first] = self.fixed[first] or self.fixed[second]


@dataclass(frozen=True, eq=False)
class Maker:
    """A layer that computes the channels of a group: codes per step of the accumulator, largest accumulator."""

    scale: Real
    needed: Real
    wide: NDArray[np.bool_]  # weights beyond 8 bits take a unit more


def sort_channels(graph: Graph) -> Graph:
    groups = _groups(graph)
    makers = _makers(graph, groups)
    orders = {group: order for group, found in makers.items() if (order := _best_order(found)) is not None}
    if not orders:
        return graph
    return rewrite(graph, lambda op, editor: [_with_order(op, graph, groups, orders, editor)])


# -------------------------------------------------------------------------------------------------------------- groups


def _groups(graph: Graph) -> Groups:
    groups = Groups([], [], [], {})
    for name, tensor in graph.tensors.items():
        if name in graph.inputs or tensor.is_constant:
            groups.of[name] = (groups.new(_channels(tensor), fixed=not tensor.is_constant),)
    for op in graph.ops:
        made = _relation(op, graph, groups)
        for name in op.outputs:
            tensor = graph.tensors[name]
            if made is None:
                groups.fix(g for i in op.inputs if i for g in groups.of[i])
            groups.of[name] = (groups.new(_channels(tensor), fixed=True),) if made is None else made
            if sum(groups.sizes[g] for g in groups.of[name]) != _channels(tensor):
                groups.fix((*groups.of[name], *(g for i in op.inputs if i for g in groups.of[i])))
    for name in graph.outputs:
        groups.fix(groups.of[name])
    return groups


def _channels(tensor: Tensor) -> int:
    return tensor.shape[-1] if tensor.shape else 1


def _relation(op: Op, graph: Graph, groups: Groups) -> tuple[int, ...] | None:
    """The groups of the output; None where channels have a meaning."""
    if len(op.outputs) != 1 or not op.inputs:
        return None
    x, y = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    own, last = groups.of[x.name], len(x.shape) - 1
    if _is_layer(op, graph):
        return own if _is_depthwise(op, graph) else (groups.new(_channels(y)),)
    if op.kind in PAIRS:
        return _pair(op, graph, groups)
    if op.kind == "concat":
        return _concat(op, graph, groups)
    keeps = (
        (op.kind in ONE_BY_ONE and op.attrs.get("layout", "NHWC") == "NHWC")
        or (op.kind == "reshape" and x.shape[-1:] == y.shape[-1:] and x.shape[-1] > 1)
        or (op.kind == "mean" and last not in [axis % len(x.shape) for axis in op.attrs.get("axes", (last,))])
        or (op.kind == "pad" and op.attrs.get("mode") == "constant" and tuple(op.attrs["pads"][-1]) == (0, 0))
    )
    return own if keeps and not x.is_constant and is_int8(x) and is_int8(y) else None


def _is_layer(op: Op, graph: Graph) -> bool:
    """Convolutions and dense layers on int8 codes with constant weights."""
    if op.kind not in ("conv", "dense") or op.attrs.get("layout", "NHWC") != "NHWC":
        return False
    x, weights, y = (graph.tensors[name] for name in (*op.inputs[:2], op.outputs[0]))
    if not (is_int8(x) and is_int8(y) and weights.is_constant and weights.quant is not None):
        return False
    if any(not graph.tensors[name].is_constant for name in op.inputs[2:] if name):
        return False
    return weights.shape[-1] == _channels(x) if op.attrs.get("groups", 1) == 1 else _is_depthwise(op, graph)


def _is_depthwise(op: Op, graph: Graph) -> bool:
    channels = _channels(graph.tensors[op.inputs[0]])
    weights = graph.tensors[op.inputs[1]]
    return op.attrs.get("groups", 1) == channels > 1 and weights.shape[0] == channels and weights.shape[-1] == 1


def _pair(op: Op, graph: Graph, groups: Groups) -> tuple[int, ...] | None:
    """Operands that are not constant correspond; constants follow if they have one value per channel or one at all."""
    tensors = [graph.tensors[name] for name in op.inputs if name]
    channels = _channels(graph.tensors[op.outputs[0]])
    moving = [tensor for tensor in tensors if not tensor.is_constant]
    if not moving or any(not is_int8(t) or _channels(t) != channels for t in (*moving, graph.tensors[op.outputs[0]])):
        return None
    for tensor in tensors:
        if tensor.is_constant and (tensor.elements != 1 and _channels(tensor) != channels):
            return None
        if tensor.is_constant and tensor.quant is not None and not tensor.quant.is_per_tensor:
            return None
    for tensor in moving[1:]:
        groups.tie(groups.of[moving[0].name], groups.of[tensor.name])
    return groups.of[moving[0].name]


def _concat(op: Op, graph: Graph, groups: Groups) -> tuple[int, ...] | None:
    tensors = [graph.tensors[name] for name in op.inputs]
    if any(t.is_constant or not is_int8(t) for t in tensors) or not is_int8(graph.tensors[op.outputs[0]]):
        return None
    if op.attrs["axis"] % len(tensors[0].shape) == len(tensors[0].shape) - 1:
        return tuple(group for t in tensors for group in groups.of[t.name])
    for tensor in tensors[1:]:
        groups.tie(groups.of[tensors[0].name], groups.of[tensor.name])
    return groups.of[tensors[0].name]


# -------------------------------------------------------------------------------------------------------------- orders


def _makers(graph: Graph, groups: Groups) -> dict[int, list[Maker]]:
    found: dict[int, list[Maker]] = {}
    for op in graph.ops:
        if not _is_layer(op, graph):
            continue
        maker, start = _maker(op, graph), 0
        for group in groups.roots(op.outputs[0]):
            part = slice(start, start := start + groups.sizes[group])
            if not groups.fixed[group] and groups.sizes[group] > 1:
                found.setdefault(group, []).append(Maker(maker.scale[part], maker.needed[part], maker.wide[part]))
    return found


def _maker(op: Op, graph: Graph) -> Maker:
    x, weights, y = (graph.tensors[name] for name in (*op.inputs[:2], op.outputs[0]))
    assert weights.quant is not None and weights.data is not None
    outputs = weights.shape[0]
    scale = np.broadcast_to(x.scale * weights.quant.scales / y.scale, (outputs,)) + 1e-30
    centred = weights.data.reshape(outputs, -1) - weights.quant.zero_points.reshape(-1, 1)
    possible = np.abs(centred).sum(axis=1) * float(max(127 - x.zero_point, x.zero_point + 128))
    offset = y.zero_point + scale * _bias(op, graph, x.scale * weights.quant.scales, outputs)
    if len(weights.shape) == 2 or weights.shape[1:3] == (1, 1):  # the unit may leave the zero point in the sum
        offset = offset - scale * centred.sum(axis=1) * x.zero_point
    wide = (np.abs(centred + 0.5) > 128).any(axis=1)
    return Maker(scale, np.minimum(possible, (np.abs(offset) + 128.0) / scale), wide)


def _bias(op: Op, graph: Graph, unit: Real, outputs: int) -> Real:
    """Gives the bias in steps of the accumulator."""
    tensor = graph.tensors[op.inputs[2]] if len(op.inputs) > 2 and op.inputs[2] else None
    if tensor is None or tensor.data is None:
        return np.zeros(outputs)
    values = tensor.data.astype(np.float64).reshape(-1)
    if tensor.quant is not None:
        return np.asarray((values - tensor.quant.zero_points) * tensor.quant.scales / unit)
    return values / unit if tensor.is_float else values


def _best_order(makers: list[Maker]) -> Order | None:
    """By the reach of the accumulators of one layer, or of one and inside it of another; None where nothing helps
    much."""
    size = makers[0].scale.size
    candidates = [np.argsort(values, kind="stable") for maker in makers for values in (maker.needed, maker.scale)]
    keys = [np.argsort(order, kind="stable") for order in candidates]  # ranks
    for major, minor in list(permutations(range(0, len(keys), 2), 2))[:MOST_ORDERS]:
        bins = keys[major] * BINS // size
        turned = np.where(bins % 2 == 1, -keys[minor], keys[minor])  # so that the ends of bins meet
        candidates.append(np.lexsort((turned, bins)))
    orders = np.stack([np.arange(size), *candidates])
    costs: Real = sum((_costs(maker, orders) for maker in makers), np.zeros(len(orders)))
    best = int(np.argmin(costs))
    order = candidates[best - 1] if best and costs[best] < HELPS * costs[0] else np.arange(size)
    wide = np.sum([maker.wide for maker in makers], axis=0)
    order = order[np.argsort(wide[order], kind="stable")]  # those that need more units at the end
    return None if np.array_equal(order, np.arange(size)) else order


def _costs(maker: Maker, orders: Order) -> Real:
    """How coarsely channels are computed in each order when pieces of equal size share their shifts."""
    total = np.zeros(len(orders))
    pieces = max(1, min(PIECES, orders.shape[1] // SMALLEST))
    length, longer = divmod(orders.shape[1], pieces)  # the first pieces have a channel more
    ends = longer * (length + 1)
    for part, size in ((orders[:, :ends], length + 1), (orders[:, ends:], length)):
        piece = part.reshape(len(orders), -1, size)
        scale, needed = maker.scale[piece], maker.needed[piece]
        shared = np.minimum(needed * scale.max(axis=2, keepdims=True), scale * needed * 2**15)
        for coarse in (scale * needed.max(axis=2, keepdims=True) + shared).sum(axis=2).T:
            total += coarse
    return total


# ---------------------------------------------------------------------------------------------------------- reordering


def _order_of(name: str, groups: Groups, orders: dict[int, Order]) -> Order | None:
    """Finds the new order of the channels of a tensor; None if they stay."""
    roots = groups.roots(name)
    if not any(root in orders for root in roots):
        return None
    pieces, start = [], 0
    for root in roots:
        pieces.append(start + orders.get(root, np.arange(groups.sizes[root])))
        start += groups.sizes[root]
    return np.concatenate(pieces)


def _with_order(op: Op, graph: Graph, groups: Groups, orders: dict[int, Order], editor: Editor) -> Op:
    made = _order_of(op.outputs[0], groups, orders) if op.outputs else None
    if _is_layer(op, graph):
        taken = None if _is_depthwise(op, graph) else _order_of(op.inputs[0], groups, orders)
        weights, *others = op.inputs[1:]
        inputs = (op.inputs[0], _moved(editor, weights, taken, -1), *others)
        return replace(op, inputs=(inputs[0], *(_moved(editor, name, made, 0) for name in inputs[1:])))
    if op.kind in PAIRS and made is not None:
        constant = [bool(name) and graph.tensors[name].is_constant for name in op.inputs]
        names = zip(op.inputs, constant, strict=True)
        return replace(op, inputs=tuple(_moved(editor, n, made, -1) if c else n for n, c in names))
    return op


def _moved(editor: Editor, name: str, order: Order | None, axis: int) -> str:
    """The constant with its channels in order."""
    if not name or order is None or editor.tensor(name).elements == 1:
        return name
    tensor = editor.tensor(name)
    assert tensor.data is not None
    data: Array = np.ascontiguousarray(np.take(tensor.data, order, axis=axis))
    quant = tensor.quant
    if quant is not None and not quant.is_per_tensor and axis == quant.axis:
        quant = replace(quant, scales=quant.scales[order], zero_points=quant.zero_points[order])
    return editor.constant(f"{name.removesuffix(_SORTED)}{_SORTED}", data, quant, tensor.dtype)
