"""Channels become the last dimension everywhere, and transposes vanish into the way tensors are stored.

Every tensor has an order (see orders.py) in which it is stored. Operators are rewritten to work on what is stored; a
transpose only changes the order and moves nothing. Where an operator needs another order than its input has, a
transpose is made, at most once per tensor and order. Inputs and outputs of the graph keep their own order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.shapes import ALONG_AXIS
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor
from atonc.compiler.passes.orders import (
    Order,
    between,
    channel_last,
    moves_nothing,
    permuted,
    plain,
    reshape_order,
)  # fmt: skip

WINDOWED = ("conv", "transpose_conv", "max_pool", "average_pool", "space_to_depth", "depth_to_space")
ELEMENTWISE = (
    *FUNCTIONS, "quantize", "dequantize", "requantize", "identity", "cast", "table", "uint8_to_int8", "int8_to_uint8",
)  # fmt: skip
BROADCASTING = (*BINARY, "select", "prelu")
REDUCING = ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")


def make_channel_last(graph: Graph) -> Graph:
    return _Layouts(graph).run()


class _Layouts:
    """What is stored where, while the operators are rewritten one by one."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.editor = graph, Editor(graph)
        self.stored = {name: name for name in graph.tensors}
        self.order = {name: plain(len(tensor.shape)) for name, tensor in graph.tensors.items()}
        self.made: dict[tuple[str, Order], str] = {}
        self.channels_first = any(op.attrs.get("layout") == "NCHW" for op in graph.ops)

    def run(self) -> Graph:
        for op in self.graph.ops:
            RULES.get(op.kind, _leave_plain)(self, op)
        for name in self.graph.outputs:
            self._restore(name)
        return self.editor.finish()

    def logical(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def favoured(self, rank: int) -> Order:
        return channel_last(rank) if self.channels_first and rank == 4 else plain(rank)

    def fetch(self, name: str, order: Order, origin: tuple[str, ...] = ()) -> str:
        """The value of a tensor, stored in this order."""
        held = self.stored[name]
        if not name or self.order[name] == order:
            return held
        perm = between(self.order[name], order)
        if (held, perm) not in self.made:
            self.made[held, perm] = self._transposed(held, perm, origin)
        return self.made[held, perm]

    def _transposed(self, held: str, perm: Order, origin: tuple[str, ...]) -> str:
        source = self.editor.tensor(held)
        target = replace(source, name=f"{held}:{''.join(map(str, perm))}", shape=permuted(source.shape, perm),
                         quant=_moved_axis(source.quant, perm))  # fmt: skip
        if source.data is not None:
            return self.editor.add(replace(target, data=np.ascontiguousarray(source.data.transpose(perm))))
        name = self.editor.add(target)
        kind, attrs = ("reshape", {}) if moves_nothing(source.shape, perm) else ("transpose", {"perm": perm})
        self.editor.append(Op(kind, name, (held,), (name,), attrs, origin))
        return name

    def emit(self, op: Op, inputs: list[str], order: Order, **attrs: Any) -> None:
        """The operator on stored tensors; all its outputs are stored in the given order."""
        outputs = tuple(self._output(name, order) for name in op.outputs)
        self.editor.append(replace(op, inputs=tuple(inputs), outputs=outputs, attrs={**op.attrs, **attrs}))

    def _output(self, name: str, order: Order) -> str:
        tensor = self.logical(name)
        self.order[name] = order
        if order == plain(len(tensor.shape)):
            return name
        changed = replace(tensor, shape=permuted(tensor.shape, order), quant=_moved_axis(tensor.quant, order))
        if name in self.graph.outputs:
            self.stored[name] = self.editor.add(replace(changed, name=f"{name}:stored"))
        else:
            self.editor.tensors[name] = changed
        return self.stored[name]

    def alias(self, op: Op, held: str, order: Order) -> None:
        """The output is what is stored already."""
        self.stored[op.outputs[0]], self.order[op.outputs[0]] = held, order

    def _restore(self, name: str) -> None:
        if self.stored[name] == name:
            return
        target = self.logical(name)
        perm = between(self.order[name], plain(len(target.shape)))
        held = self.editor.tensor(self.stored[name])
        kind, attrs = ("reshape", {}) if moves_nothing(held.shape, perm) else ("transpose", {"perm": perm})
        self.editor.append(Op(kind, name, (self.stored[name],), (name,), attrs))


def _moved_axis(quant: Quantisation | None, order: Order) -> Quantisation | None:
    if quant is None or quant.axis is None or quant.is_per_tensor:
        return quant
    return replace(quant, axis=order.index(quant.axis))


# --- rules: one per family of operators --------------------------------------------------------------------------

LayoutRule = Callable[[_Layouts, Op], None]
RULES: dict[str, LayoutRule] = {}


def lays_out(*kinds: str) -> Callable[[LayoutRule], LayoutRule]:
    def register(function: LayoutRule) -> LayoutRule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def _leave_plain(state: _Layouts, op: Op) -> None:
    """Operators that depend on the order of dimensions in a way of their own."""
    inputs = [state.fetch(name, plain(len(state.logical(name).shape)), op.origin) if name else "" for name in op.inputs]
    state.editor.append(replace(op, inputs=tuple(inputs)))


@lays_out(*WINDOWED)
def _window(state: _Layouts, op: Op) -> None:
    rank = len(state.logical(op.inputs[0]).shape)
    order = channel_last(rank) if op.attrs["layout"] == "NCHW" else plain(rank)
    inputs = [state.fetch(op.inputs[0], order, op.origin), *op.inputs[1:]]
    state.emit(op, inputs, order, layout="NHWC")


@lays_out(*ELEMENTWISE)
def _elementwise(state: _Layouts, op: Op) -> None:
    order = state.order[op.inputs[0]]
    state.emit(op, [state.stored[op.inputs[0]], *op.inputs[1:]], order)


@lays_out(*BROADCASTING)
def _broadcast(state: _Layouts, op: Op) -> None:
    rank = len(state.logical(op.outputs[0]).shape)
    order = _majority(state, op, rank)
    state.emit(op, [_full_rank(state, name, order, op) for name in op.inputs], order)


def _majority(state: _Layouts, op: Op, rank: int) -> Order:
    """The order of the largest input that is computed."""
    sizes: dict[Order, int] = {}
    for name in op.inputs:
        tensor = state.logical(name)
        if len(tensor.shape) == rank and not tensor.is_constant:
            order = state.order[name]
            sizes[order] = sizes.get(order, 0) + tensor.elements
    return max(sizes, key=lambda order: (sizes[order], order != plain(rank))) if sizes else plain(rank)


def _full_rank(state: _Layouts, name: str, order: Order, op: Op) -> str:
    """Missing leading dimensions are of size 1."""
    tensor, rank = state.logical(name), len(order)
    missing = rank - len(tensor.shape)
    if not missing:
        return state.fetch(name, order, op.origin)
    shape = (1,) * missing + tensor.shape
    held = state.editor.tensor(state.fetch(name, plain(len(tensor.shape)), op.origin))
    quant = tensor.quant
    if quant is not None and quant.axis is not None:
        quant = replace(quant, axis=order.index(quant.axis + missing))
    stored = replace(held, name=f"{name}:wide", shape=permuted(shape, order), quant=quant)
    if held.data is not None:
        return state.editor.add(replace(stored, data=held.data.reshape(shape).transpose(order)))
    if tensor.elements == 1:
        return held.name
    wide = state.editor.add(replace(held, name=f"{name}:wide", shape=shape))
    state.editor.append(Op("reshape", wide, (held.name,), (wide,), {}, op.origin))
    if order == plain(rank):
        return wide
    made = state.editor.add(stored)
    state.editor.append(Op("transpose", made, (wide,), (made,), {"perm": order}, op.origin))
    return made


@lays_out("concat")
def _concat(state: _Layouts, op: Op) -> None:
    order = _majority(state, op, len(state.logical(op.outputs[0]).shape))
    inputs = [state.fetch(name, order, op.origin) for name in op.inputs]
    state.emit(op, inputs, order, axis=order.index(op.attrs["axis"]))


@lays_out(*ALONG_AXIS)
def _along_axis(state: _Layouts, op: Op) -> None:
    order = state.order[op.inputs[0]]
    axis = order.index(op.attrs.get("axis", -1) % len(order))
    state.emit(op, [state.stored[op.inputs[0]], *op.inputs[1:]], order, axis=axis)


@lays_out("batch_norm")
def _batch_norm(state: _Layouts, op: Op) -> None:
    """Gains along the last axis go into weights, or are a line of the NPU; along another one there is no form."""
    order, axis = state.order[op.inputs[0]], op.attrs["axis"]
    if order[-1] != axis:
        order = (*(one for one in range(len(order)) if one != axis), axis)
    state.emit(op, [state.fetch(op.inputs[0], order, op.origin), *op.inputs[1:]], order, axis=len(order) - 1)


@lays_out("slice", "pad", "resize_nearest", "resize_linear", "reverse", "tile", "expand")
def _per_dimension(state: _Layouts, op: Op) -> None:
    order = _wanted_order(state, op)
    if len(state.logical(op.outputs[0]).shape) != len(order):
        return _leave_plain(state, op)
    attrs = {key: permuted(op.attrs[key], order) for key in ("starts", "stops", "steps", "pads", "scales")
             if op.attrs.get(key)}  # fmt: skip
    if "axes" in op.attrs:
        attrs["axes"] = tuple(sorted(order.index(axis) for axis in op.attrs["axes"]))
    return state.emit(op, [state.fetch(op.inputs[0], order, op.origin), *op.inputs[1:]], order, **attrs)


def _wanted_order(state: _Layouts, op: Op) -> Order:
    """Pads are stored as the window that reads them wants it, so that they can become its padding."""
    readers = state.graph.consumers.get(op.outputs[0], [])
    order = state.order[op.inputs[0]]
    if op.kind == "pad" and any(reader.kind in WINDOWED for reader in readers):
        first = next(reader for reader in readers if reader.kind in WINDOWED)
        return channel_last(len(order)) if first.attrs["layout"] == "NCHW" else plain(len(order))
    return order


@lays_out(*REDUCING)
def _reduce(state: _Layouts, op: Op) -> None:
    order, axes = state.order[op.inputs[0]], op.attrs["axes"]
    stored_axes = tuple(sorted(order.index(axis) for axis in axes))
    state.emit(op, [state.stored[op.inputs[0]]], _reduced(order, axes, op.attrs.get("keepdims", False)),
               axes=stored_axes)  # fmt: skip


@lays_out("arg_max", "arg_min")
def _arg(state: _Layouts, op: Op) -> None:
    order, axis = state.order[op.inputs[0]], op.attrs["axis"]
    keep = len(state.logical(op.outputs[0]).shape) == len(order)
    state.emit(op, [state.stored[op.inputs[0]]], _reduced(order, (axis,), keep), axis=order.index(axis))


def _reduced(order: Order, axes: tuple[int, ...], keep: bool) -> Order:
    if keep:
        return order
    kept = [axis for axis in order if axis not in axes]
    return tuple(sorted(kept).index(axis) for axis in kept)


@lays_out("transpose")
def _transpose(state: _Layouts, op: Op) -> None:
    source, target = state.logical(op.inputs[0]), state.logical(op.outputs[0])
    perm = tuple(op.attrs["perm"])
    order = tuple(perm.index(axis) for axis in state.order[op.inputs[0]])
    if source.is_constant or not same_codes(source, target) or source.dtype != target.dtype:
        return _leave_plain(state, op)
    return state.alias(op, state.stored[op.inputs[0]], order)


@lays_out("reshape")
def _reshape(state: _Layouts, op: Op) -> None:
    source, target = state.logical(op.inputs[0]), state.logical(op.outputs[0])
    favoured = state.favoured(len(target.shape))
    order = reshape_order(source.shape, state.order[op.inputs[0]], target.shape, favoured)
    if order is None or source.is_constant:
        return _leave_plain(state, op)
    return state.emit(op, [state.stored[op.inputs[0]]], order)


@lays_out("dense")
def _dense(state: _Layouts, op: Op) -> None:
    """Rows may come in any order as long as each row stays together."""
    x, weights, y = (state.logical(name) for name in (op.inputs[0], op.inputs[1], op.outputs[0]))
    order = state.order[x.name]
    rows_kept = len(x.shape) == len(y.shape) and x.shape[-1] == weights.shape[1] and order[-1] == len(order) - 1
    if not rows_kept or x.shape[:-1] != y.shape[:-1]:
        return _leave_plain(state, op)
    return state.emit(op, [state.stored[x.name], *op.inputs[1:]], order)
