"""The order in which dimensions are stored: channels become the last one, and transposes vanish.

An order says which logical axis each stored dimension is; stored = transpose(logical, order).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from atonc.compiler.ir import CarriedState, Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.registry import filed
from atonc.compiler.ops.shapes import ALONG_AXIS
from atonc.compiler.passes.edit import Editor, renamed, rewrite, rewrites, same_format
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import replace

Order = tuple[int, ...]
Shape = tuple[int, ...]


def plain(rank: int) -> Order:
    return tuple(range(rank))


def channel_last(rank: int) -> Order:
    """(N, C, ...) stored as (N, ..., C)."""
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def turned_matrix(rank: int) -> Order:
    """The last two axes swapped; nothing where there are no two."""
    return (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else ()


def permuted(shape: Shape, order: Order) -> Shape:
    return tuple(shape[axis] for axis in order)


def between(stored: Order, wanted: Order) -> Order:
    """The permutation that turns what is stored in one order into another order."""
    return tuple(stored.index(axis) for axis in wanted)


def without_units(shape: Shape, order: Order) -> Order:
    return tuple(axis for axis in order if shape[axis] != 1)


def moves_nothing(shape: Shape, perm: Order) -> bool:
    """True if a permutation of this shape leaves the bytes where they are."""
    kept = without_units(shape, perm)
    return list(kept) == sorted(kept)


def reshape_order(shape: Shape, order: Order, target: Shape, favoured: Order) -> Order | None:
    """The order in which the bytes of a stored tensor already hold its reshaped form; None if they do not."""
    atoms = _atoms(shape, target)
    if atoms is None:
        stored = without_units(shape, order)
        return plain(len(target)) if list(stored) == sorted(stored) else None
    of_source, of_target = atoms
    sequence = [atom for axis in order for atom in of_source[axis]]
    owner = {atom: axis for axis, owned in enumerate(of_target) for atom in owned}
    found: list[int] = []
    for atom in sequence:
        axis = owner[atom]
        if not found or found[-1] != axis:
            found.append(axis)
    if len(set(found)) != len(found) or [a for axis in found for a in of_target[axis]] != sequence:
        return None
    return _with_units(target, tuple(found), favoured)


def _with_units(target: Shape, found: Order, favoured: Order) -> Order:
    """Dimensions of size 1 may stand anywhere: keep a usual order if one fits."""
    for candidate in (favoured, plain(len(target)), channel_last(len(target))):
        if without_units(target, candidate) == found:
            return candidate
    units = tuple(axis for axis, size in enumerate(target) if size == 1)
    return units + found


def _atoms(source: Shape, target: Shape) -> tuple[list[list[int]], list[list[int]]] | None:
    """Both shapes cut at each other's borders: which pieces each dimension has. None if the borders cross."""
    if 0 in source or 0 in target:
        return None
    borders = sorted({*_borders(source), *_borders(target)})
    if any(high % low for low, high in pairwise(borders)):
        return None
    return _pieces(source, borders), _pieces(target, borders)


def _borders(shape: Shape) -> list[int]:
    """Products of the sizes from each axis to the end."""
    products = [1]
    for size in reversed(shape):
        products.append(products[-1] * size)
    return products


def _pieces(shape: Shape, borders: list[int]) -> list[list[int]]:
    """For each dimension the pieces (named by their lower border) from slow to fast."""
    products = list(reversed(_borders(shape)))
    return [[border for border in reversed(borders) if inner <= border < outer] for outer, inner in pairwise(products)]


WINDOWED = ("conv", "transpose_conv", "max_pool", "average_pool", "space_to_depth", "depth_to_space")
ELEMENTWISE = (
    *FUNCTIONS, "quantize", "dequantize", "requantize", "identity", "cast", "table", "uint8_to_int8", "int8_to_uint8",
)  # fmt: skip
BROADCASTING = (*BINARY, "select", "prelu")
REDUCING = ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")


def make_channel_last(graph: Graph) -> Graph:
    """Channels become the last dimension everywhere, and transposes vanish into the way tensors are stored.

    Every tensor has an order in which it is stored. Operators are rewritten to work on what is stored; a transpose only
    changes the order and moves nothing. Where an operator needs another order than its input has, a transpose is made,
    at most once per tensor and order. Inputs and outputs of the graph keep their own order.
    """
    return _Layouts(graph).run()


class _Layouts:
    """What is stored where, while the operators are rewritten one by one."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.editor = graph, Editor(graph)
        self.stored = {name: name for name in graph.tensors}
        self.order = {name: plain(len(tensor.shape)) for name, tensor in graph.tensors.items()}
        self.made: dict[tuple[str, Order], str] = {}
        self.channels_first = any(op.attrs.get("layout") == "NCHW" for op in graph.ops)
        self.turned = self._turned()  # edges that have another order than in the model
        self.order |= self.turned

    def run(self) -> Graph:
        for name, order in self.turned.items():
            tensor = self.logical(name)
            self.editor.tensors[name] = replace(tensor, shape=permuted(tensor.shape, order))
        for op in self.graph.ops:
            RULES.get(op.kind, _leave_plain)(self, op)
        for name in self.graph.outputs:
            self._restore(name)
        return replace(self.editor.finish(), states=self._states(), turned={**self.graph.turned, **self.turned})

    def _turned(self) -> dict[str, Order]:
        """States whose order nobody outside sees are stored as windows and products want them, both ends."""
        found: dict[str, Order] = {}
        counted = Counter(state.output for state in self.graph.states)
        for state in self.graph.states:
            alone = counted[state.output] == 1 and state.input not in self.graph.outputs and not state.shown
            order = self._wanted(state.input)
            if state.kept and alone and state.output not in self.graph.inputs and order:
                found |= {state.input: order, state.output: order}
        return found

    def _states(self) -> tuple[CarriedState, ...]:
        turns = ((state, self.turned.get(state.input, plain(state.first.ndim))) for state in self.graph.states)
        return tuple(replace(state, first=np.ascontiguousarray(state.first.transpose(order))) for state, order in turns)

    def _wanted(self, name: str) -> Order:
        """By whom it reaches by joins, parts and functions alone: a window with channels first, or a row whose products
        with it are sums along the wrong axis; () where nobody wants anything."""
        seen, waiting, rank = set[str](), [name], len(self.logical(name).shape)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            for op in self.graph.consumers.get(name, ()):
                if op.kind in WINDOWED and op.attrs.get("layout") == "NCHW":
                    return channel_last(rank)
                if op.kind == "matmul" and name == op.inputs[1] != op.inputs[0] and self._sums_across(op):
                    return turned_matrix(rank)
                if op.kind in ELEMENTWISE or op.kind in ("concat", "slice", "pad"):
                    waiting += [output for output in op.outputs if output not in seen]
        return ()

    def _sums_across(self, op: Op) -> bool:
        """Whether a single row meets the columns of a matrix whose rows lie together."""
        left = self.logical(op.inputs[0]).shape[-2:]
        row = len(left) == 2 and left[bool(op.attrs.get("transpose_a"))] == 1
        return row and not op.attrs.get("transpose_b")

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
        outputs = tuple(self.output(name, order) for name in op.outputs)
        self.editor.append(replace(op, inputs=tuple(inputs), outputs=outputs, attrs={**op.attrs, **attrs}))

    def output(self, name: str, order: Order) -> str:
        tensor = self.logical(name)
        self.order[name] = order
        wanted = self.turned.get(name, plain(len(tensor.shape)))
        if order == wanted == plain(len(tensor.shape)):
            return name
        changed = replace(tensor, shape=permuted(tensor.shape, order), quant=_moved_axis(tensor.quant, order))
        if name in self.graph.outputs and order != wanted:
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
        perm = between(self.order[name], self.turned.get(name, plain(len(self.logical(name).shape))))
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
    return filed(RULES, *kinds)


def _leave_plain(state: _Layouts, op: Op) -> None:
    """Operators that depend on the order of dimensions in a way of their own."""
    inputs = [state.fetch(name, plain(len(state.logical(name).shape)), op.origin) if name else "" for name in op.inputs]
    outputs = [state.output(name, plain(len(state.logical(name).shape))) if name else "" for name in op.outputs]
    state.editor.append(replace(op, inputs=tuple(inputs), outputs=tuple(outputs)))


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


@lays_out("batch_norm", "layer_norm", "rms_norm")
def _to_the_end(state: _Layouts, op: Op) -> None:
    """Gains along the last axis go into weights, or are a line of the NPU; along another one there is no form."""
    order = state.order[op.inputs[0]]
    axis = op.attrs["axis"] % len(order)
    if order[-1] != axis:
        order = (*(one for one in range(len(order)) if one != axis), axis)
    rest = [state.stored[name] if name else "" for name in op.inputs[1:]]
    state.emit(op, [state.fetch(op.inputs[0], order, op.origin), *rest], order, axis=len(order) - 1)


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
    if source.is_constant or not same_format(source, target):
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


@lays_out("matmul")
def _product(state: _Layouts, op: Op) -> None:
    """A factor may lie with its last two axes swapped: the product reads it so."""
    inputs, attrs = [], dict[str, bool]()
    for name, flag in zip(op.inputs, ("transpose_a", "transpose_b"), strict=True):
        tensor, rank = state.logical(name), len(state.logical(name).shape)
        swapped = state.order[name] == turned_matrix(rank) and not tensor.is_constant
        inputs.append(state.stored[name] if swapped else state.fetch(name, plain(rank), op.origin))
        attrs[flag] = bool(op.attrs.get(flag)) != swapped
    state.emit(op, inputs, plain(len(state.logical(op.outputs[0]).shape)), **attrs)


@lays_out("dense")
def _dense(state: _Layouts, op: Op) -> None:
    """Rows may come in any order as long as each row stays together."""
    x, weights, y = (state.logical(name) for name in (op.inputs[0], op.inputs[1], op.outputs[0]))
    order = state.order[x.name]
    rows_kept = len(x.shape) == len(y.shape) and x.shape[-1] == weights.shape[1] and order[-1] == len(order) - 1
    if not rows_kept or x.shape[:-1] != y.shape[:-1]:
        return _leave_plain(state, op)
    return state.emit(op, [state.stored[x.name], *op.inputs[1:]], order)


@rewrites
def absorb_transposes(op: Op, editor: Editor) -> list[Op] | None:
    """A transpose whose values are flattened into a dense layer goes into the order of its weights."""
    if op.kind != "dense":
        return None
    row = editor.producer(op.inputs[0])
    transpose = editor.producer(row.inputs[0]) if row is not None and row.kind == "reshape" else None
    if row is None or transpose is None or transpose.kind != "transpose":
        return None
    x, flat, weights = (editor.tensor(name) for name in (transpose.inputs[0], op.inputs[0], op.inputs[1]))
    if weights.data is None or flat.elements != weights.shape[1] or not same_format(x, flat):
        return None
    # column j of the weights meets the value that lies at index[j] of the tensor before the transpose
    index = np.arange(x.elements).reshape(x.shape).transpose(transpose.attrs["perm"]).reshape(-1)
    data = np.empty_like(weights.data)
    data[:, index] = weights.data
    moved = editor.add(replace(weights, name=f"{weights.name}:moved", data=data))
    inner = editor.like(x.name, "row", shape=flat.shape)
    origin = (*transpose.origin, *op.origin)
    return [
        Op("reshape", f"{op.name}:row", (x.name,), (inner,), {}, row.origin),
        replace(op, inputs=(inner, moved, *op.inputs[2:]), origin=origin),
    ]


MAX_STEPS = 8


def move_transposes(graph: Graph) -> Graph:
    """A transpose of real numbers that were codes a moment ago is done on the codes: a quarter of the bytes.

    Transposes and reshapes climb above operators that make real numbers, until nothing moves any more.
    """
    for _ in range(MAX_STEPS):
        moved = rewrite(graph, _move)
        if _places(moved) == _places(graph):
            break
        graph = moved
    return graph


def _places(graph: Graph) -> list[tuple[str, tuple[str, ...]]]:
    return [(op.kind, op.outputs) for op in graph.ops]


def _move(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in ("transpose", "reshape"):
        return None
    source = editor.producer(op.inputs[0])
    if source is None or source.kind not in ELEMENTWISE or not editor.read_once(op.inputs[0]):
        return None
    x, middle, y = (editor.tensor(name) for name in (source.inputs[0], op.inputs[0], op.outputs[0]))
    per_tensor = x.quant is None or x.quant.is_per_tensor
    # real numbers, or the bytes of an edge: above them are codes, or real numbers on their way from codes
    gets_smaller = (middle.is_float or middle.dtype == "uint8") and x.dtype not in ("float64", "int64")
    if not (per_tensor and gets_smaller) or x.is_constant or len(source.inputs) != 1:
        return None
    shape = permuted(x.shape, op.attrs["perm"]) if op.kind == "transpose" else y.shape
    inner = editor.like(x.name, "moved", shape=shape)
    editor.readers[x.name] += 1
    return [replace(op, inputs=(x.name,), outputs=(inner,)), replace(source, inputs=(inner,), outputs=op.outputs)]


POSITIONS = ("chfirst", "chlast")
CONVERSIONS = ("quantize", "dequantize", "uint8_to_int8", "int8_to_uint8")


def set_channel_positions(graph: Graph, inputs: str, outputs: str) -> Graph:
    """Channels first or last at the inputs and outputs, if the user asks for it.

    Only edges that have a transpose can be turned to channel last: all others are channel last already.
    """
    for wanted in (inputs, outputs):
        if wanted and wanted not in POSITIONS:
            raise InputError(f"channel position {wanted!r} is not one of {', '.join(POSITIONS)}")
    turned = dict(graph.turned)
    edges = ((_turn_input, graph.frame_inputs, inputs), (_turn_output, graph.frame_outputs, outputs))
    for turn, names, position in edges:
        for name in names if position else ():
            before, rank = graph, len(graph.tensors[name].shape)
            graph = turn(graph, name, position)
            if graph is not before:
                turned[name] = channel_last(rank) if position == "chlast" else channel_first(rank)
    return replace(check(rewrite(graph, lambda op, editor: None)), turned=turned)


def channel_first(rank: int) -> Order:
    """The inverse of channel_last."""
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else plain(rank)


def _turn_input(graph: Graph, name: str, position: str) -> Graph:
    """x - conversion - transpose, the way of an input with channels first."""
    tensor, chain = graph.tensors[name], _chain(graph, name)
    rank = len(tensor.shape)
    has_transpose = bool(chain) and chain[-1].kind == "transpose" and chain[-1].attrs["perm"] == channel_last(rank)
    if rank < 3 or has_transpose == (position == "chfirst"):
        return graph
    if position == "chlast":
        return _without_input_transpose(graph, name, chain)
    first = f"{name}:last"
    shape = permuted(tensor.shape, channel_first(rank))
    tensors = {**graph.tensors, name: replace(tensor, shape=shape), first: replace(tensor, name=first)}
    turn = Op("transpose", first, (name,), (first,), {"perm": channel_last(rank)})
    return replace(graph, tensors=tensors, ops=(turn, *renamed(graph.ops, {name: first})))


def _chain(graph: Graph, name: str) -> list[Op]:
    """Conversions that are the only readers, up to and with a transpose."""
    found: list[Op] = []
    while True:
        readers = graph.consumers.get(name, [])
        if len(readers) != 1 or name in graph.outputs:
            return found
        found.append(readers[0])
        if readers[0].kind not in CONVERSIONS:
            return found
        name = readers[0].outputs[0]


def _without_input_transpose(graph: Graph, name: str, chain: list[Op]) -> Graph:
    perm, last = chain[-1].attrs["perm"], chain[-1]
    tensors = dict(graph.tensors)
    for before in (name, *(op.outputs[0] for op in chain[:-1])):
        tensors[before] = replace(tensors[before], shape=permuted(tensors[before].shape, perm))
    ops = renamed((op for op in graph.ops if op is not last), {last.outputs[0]: last.inputs[0]})
    return replace(graph, tensors=tensors, ops=ops)


def _turn_output(graph: Graph, name: str, position: str) -> Graph:
    """transpose - conversion - y, the way of an output with channels first."""
    tensor, rank = graph.tensors[name], len(graph.tensors[name].shape)
    convert = graph.producers.get(name)
    if convert is None or rank < 3 or graph.consumers.get(name):
        return graph
    end = graph.producers.get(convert.inputs[0]) if convert.kind in CONVERSIONS else convert
    has_transpose = end is not None and end.kind == "transpose" and end.attrs["perm"] == channel_first(rank)
    if has_transpose == (position == "chfirst"):
        return graph
    tensors = dict(graph.tensors)
    if position == "chlast" and end is not None:
        tensors[name] = replace(tensor, shape=permuted(tensor.shape, channel_last(rank)))
        if end is convert:
            ops = tuple(Op("identity", op.name, op.inputs, op.outputs, {}, op.origin) if op is end else op
                        for op in graph.ops)  # fmt: skip
        else:
            ops = tuple(replace(op, inputs=end.inputs) if op is convert else op for op in graph.ops if op is not end)
        return replace(graph, tensors=tensors, ops=ops)
    last = f"{name}:last"
    tensors[last] = replace(tensor, name=last)
    tensors[name] = replace(tensor, shape=permuted(tensor.shape, channel_first(rank)))
    turn = Op("transpose", f"{name}:first", (last,), (name,), {"perm": channel_first(rank)})
    return replace(graph, tensors=tensors, ops=(*renamed(graph.ops, {name: last}), turn))
