"""Shape rules: what shape an operator's result has, and how many multiplications that takes (those of the units are
counted in `hw/cycles/work.py`). Shapes are Python integers, so nothing overflows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.recurrent import CELLS
from atonc.compiler.ops.registry import filed
from atonc.machine.base.errors import ModelError

Shape = tuple[int, ...]
Kernel = TypeVar("Kernel")
Rule = Callable[[Mapping[str, Any], Sequence[Shape]], Shape]

_rules: dict[str, Rule] = {}
# operators whose reader says the shape: it is in their operands or attributes
FROM_READER = frozenset((
    "arg_max", "arg_min", "custom", "dense", "expand", "expand_dims", "fill", "flatten", "gather_nd", "range",
    "reshape", "resize_linear", "resize_nearest", "shape", "slice", "split", "squeeze", "tile", "transpose_conv",
    "unpack",
))  # fmt: skip
# Storage orders: operators that work on any, along the axis of their attribute `axis`; and those whose inputs are put
# back into the order of the model. All others have a rule of their own in passes/layout.py.
ALONG_AXIS = {"split", "softmax", "log_softmax"}
AS_IN_MODEL = {
    "affine", "batch_to_space", "custom", "expand_dims", "fill", "flatten", "gather", "gather_nd", "l2_norm", "lstm",
    "pack", "range", "recode", "recurrent", "shape", "space_to_batch", "squeeze", "unpack",
}  # fmt: skip


def infer_shape(kind: str, attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape | None:
    """The shape of the (single) output, None if this kind takes its shape from somewhere else."""
    rule = _rules.get(kind)
    return None if rule is None else rule(attrs, inputs)


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    return filed(_rules, *kinds)


def keeps_shape(kind: str, along_axis: bool) -> Callable[[Kernel], Kernel]:
    """Beside the arithmetic of an operator whose result is as large as its first input. `along_axis`: it works in any
    storage order, along the axis that its attribute `axis` names; otherwise its inputs are put back."""
    rule(kind)(_unchanged)
    (ALONG_AXIS if along_axis else AS_IN_MODEL).add(kind)
    return lambda kernel: kernel


def broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, dim in enumerate(shape, start=rank - len(shape)):
            if dim not in (1, result[i]) and result[i] != 1:
                raise ModelError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
            result[i] = dim if dim != 1 else result[i]
    return tuple(result)


rule(*BINARY, "select")(lambda attrs, inputs: broadcast(inputs))
rule("transpose")(lambda attrs, inputs: tuple(inputs[0][axis] for axis in attrs["perm"]))


@rule(
    *FUNCTIONS, "prelu", "softmax", "log_softmax", "quantize", "dequantize", "requantize", "identity", "cast",
    "batch_norm", "l2_norm", "layer_norm", "rms_norm", "reverse", "table", "recode", "uint8_to_int8", "int8_to_uint8",
    "affine",
)  # fmt: skip
def _unchanged(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    return inputs[0]


def _spatial(shape: Shape, layout: str) -> tuple[Shape, int]:
    """(spatial sizes, channels)."""
    if len(shape) not in (3, 4):
        raise ModelError(f"shape {shape} is neither an image nor a sequence")
    return (shape[2:], shape[1]) if layout == "NCHW" else (shape[1:-1], shape[-1])


def _assemble(batch: int, spatial: Shape, channels: int, layout: str) -> Shape:
    return (batch, channels, *spatial) if layout == "NCHW" else (batch, *spatial, channels)


def window_sizes(spatial: Shape, kernel: Shape, attrs: Mapping[str, Any]) -> Shape:
    """How often a window fits; attributes are pairs even for sequences (height 1)."""
    top, left, bottom, right = attrs["padding"]
    sizes = (1, *spatial) if len(spatial) == 1 else spatial
    result = []
    for size, reach, step, spread, border in zip(
        sizes, kernel, attrs["stride"], attrs.get("dilation", (1, 1)), (top + bottom, left + right), strict=True
    ):
        count = (size + border - (reach - 1) * spread - 1) // step + 1
        if count < 1:
            raise ModelError(f"a window of {kernel} does not fit {spatial}")
        result.append(count)
    return tuple(result[-len(spatial) :])


@rule("conv")
def _conv(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    spatial, channels = _spatial(inputs[0], attrs["layout"])
    weights = inputs[1]
    if len(weights) != 4 or weights[3] * attrs.get("groups", 1) != channels:
        raise ModelError(f"{channels} input channels do not fit weights {weights}")
    sizes = window_sizes(spatial, weights[1:3], attrs)
    return _assemble(inputs[0][0], sizes, weights[0], attrs["layout"])


@rule("max_pool", "average_pool")
def _pool(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    spatial, channels = _spatial(inputs[0], attrs["layout"])
    window = attrs["window"] if len(attrs["window"]) == 2 else (1, *attrs["window"])
    return _assemble(inputs[0][0], window_sizes(spatial, window, attrs), channels, attrs["layout"])


@rule("concat")
def _concat(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    axis, first = attrs["axis"], inputs[0]
    for shape in inputs:
        if len(shape) != len(first) or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ModelError(f"shapes {', '.join(map(str, inputs))} cannot be joined along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in inputs), *first[axis + 1 :])


@rule("pack")
def _pack(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    axis = attrs["axis"]
    return (*inputs[0][:axis], len(inputs), *inputs[0][axis:])


@rule("pad")
def _pad(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    sizes = tuple(size + before + after for size, (before, after) in zip(inputs[0], attrs["pads"], strict=True))
    if min(sizes, default=0) < 0:
        raise ModelError(f"paddings {attrs['pads']} remove more than there is")
    return sizes


@rule("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")
def _reduce(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    kept = [1 if i in attrs["axes"] else dim for i, dim in enumerate(inputs[0])]
    if not attrs.get("keepdims"):
        kept = [dim for i, dim in enumerate(inputs[0]) if i not in attrs["axes"]]
    return tuple(kept)


@rule("matmul")
def _matmul(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    a, b = inputs[0], inputs[1]
    if len(a) < 2 or len(b) < 2:
        raise ModelError(f"cannot multiply {a} by {b}")
    a = (*a[:-2], a[-1], a[-2]) if attrs.get("transpose_a") else a
    b = (*b[:-2], b[-1], b[-2]) if attrs.get("transpose_b") else b
    if a[-1] != b[-2]:
        raise ModelError(f"cannot multiply {a} by {b}")
    return (*broadcast([a[:-2], b[:-2]]), a[-2], b[-1])


@rule("lstm")
def _lstm(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    x, weights, recurrent, biases = inputs
    cells = weights[1] if len(weights) == 3 else 0
    wanted = ((4, cells, x[-1]), (4, cells, cells), (8, cells))
    if len(x) != 3 or not cells or (weights, recurrent, biases) != wanted:
        raise ModelError(f"a sequence {x} does not fit weights {weights}, {recurrent} and {biases}")
    return (*x[:2], cells)


@rule("recurrent")
def _recurrent(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    (given, weights, biases), (gates, states) = inputs[:3], CELLS[attrs["cell"]]
    cells = weights[-1] if len(weights) == 2 else 0
    fits = len(given) == 3 and cells > 0 and weights[0] == given[-1] == gates * cells and biases == weights[:1]
    if not fits or inputs[3:] not in ([], [(states, given[1], cells)]):
        raise ModelError(f"gates {given} do not fit weights {weights}, biases {biases} and states {inputs[3:]}")
    return (given[0], states, given[1], cells)


@rule("gather")
def _gather(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    axis = attrs["axis"]
    return (*inputs[0][:axis], *inputs[1], *inputs[0][axis + 1 :])


@rule("space_to_batch")
def _space_to_batch(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    batch, rest = inputs[0][0], list(inputs[0][1:])
    for i, (block, (before, after)) in enumerate(zip(attrs["blocks"], attrs["pads"], strict=True)):
        batch, rest[i] = batch * block, (rest[i] + before + after) // block
    return (batch, *rest)


@rule("batch_to_space")
def _batch_to_space(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    batch, rest = inputs[0][0], list(inputs[0][1:])
    for i, (block, (before, after)) in enumerate(zip(attrs["blocks"], attrs["crops"], strict=True)):
        if batch % block:
            raise ModelError(f"a batch of {batch} has no blocks of {block}")
        batch, rest[i] = batch // block, rest[i] * block - before - after
    return (batch, *rest)


@rule("space_to_depth")
def _space_to_depth(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    (height, width), channels = _picture(inputs[0], attrs["layout"])
    block = attrs["block"]
    if height % block or width % block:
        raise ModelError(f"shape {inputs[0]} has no blocks of {block}")
    return _assemble(inputs[0][0], (height // block, width // block), channels * block**2, attrs["layout"])


@rule("depth_to_space")
def _depth_to_space(attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
    (height, width), channels = _picture(inputs[0], attrs["layout"])
    block = attrs["block"]
    if channels % block**2:
        raise ModelError(f"{channels} channels have no blocks of {block}")
    return _assemble(inputs[0][0], (height * block, width * block), channels // block**2, attrs["layout"])


def _picture(shape: Shape, layout: str) -> tuple[tuple[int, int], int]:
    spatial, channels = _spatial(shape, layout)
    if len(spatial) != 2:
        raise ModelError(f"shape {shape} is not an image")
    return (spatial[0], spatial[1]), channels


def macs(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Counts the multiplications of one operator."""
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    if op.kind in ("conv", "dense"):
        return target.elements * prod(tensors[op.inputs[1]].shape[1:])
    if op.kind == "transpose_conv":  # each input value meets all its weights
        weights = tensors[op.inputs[1]].shape
        return source.elements * prod(weights[:-1]) // max(1, op.attrs.get("groups", 1))
    if op.kind == "matmul":
        return target.elements * source.shape[-2 if op.attrs.get("transpose_a") else -1]
    if op.kind == "lstm":  # in every step of the sequence, input and state meet the weights of all gates
        return target.elements // target.shape[-1] * sum(prod(tensors[name].shape) for name in op.inputs[1:3])
    if op.kind == "recurrent":
        return target.elements // CELLS[op.attrs["cell"]][1] * tensors[op.inputs[1]].shape[0]
    return 0


def graph_macs(graph: Graph) -> int:
    return sum(macs(op, graph.tensors) for op in graph.ops)
