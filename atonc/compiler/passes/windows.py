"""Windows and dense layers in the forms that the NPU has: pictures with channels last, dilation, groups, one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.rounding import ATTRIBUTE
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite, rewrites, same_format, with_attrs

WINDOWED = ("conv", "transpose_conv", "max_pool", "average_pool")


@rewrites
def lift_sequences(op: Op, editor: Editor) -> list[Op] | None:
    """Windows over sequences become windows over pictures of height 1."""
    if op.kind not in WINDOWED or len(editor.tensor(op.inputs[0]).shape) != 3 or op.attrs["layout"] != "NHWC":
        return None
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    wide = replace(x, name=f"{x.name}:picture", shape=(x.shape[0], 1, *x.shape[1:]))
    picture = editor.derived(x.name, wide, "reshape", f"{op.name}:picture", op.origin)
    result = editor.like(y.name, "picture", shape=(y.shape[0], 1, *y.shape[1:]))
    lifted = replace(op, inputs=(picture, *op.inputs[1:]), outputs=(result,))
    return [lifted, Op("reshape", f"{op.name}:sequence", (result,), op.outputs, {}, op.origin)]


def lower_dense(graph: Graph) -> Graph:
    """Dense layers see one row, (1, in) -> (1, out). Several rows are a 1x1 convolution over a picture of height 1;
    weights that are computed make a product of two matrices, whatever the number of rows."""
    return rewrite(rewrite(rewrite(graph, _from_matmul), _to_matmul), _one_row)


def _from_matmul(op: Op, editor: Editor) -> list[Op] | None:
    """A product with a constant matrix is a dense layer without bias."""
    if op.kind != "matmul" or op.attrs.get("transpose_a"):
        return None
    matrix = editor.tensor(op.inputs[1])
    if matrix.data is None or matrix.elements != int(np.prod(matrix.shape[-2:])):
        return None
    if matrix.quant is not None and not matrix.quant.is_per_tensor:
        return None
    data = matrix.data.reshape(matrix.shape[-2:])
    data = data if op.attrs.get("transpose_b") else data.T
    name = editor.constant(f"{matrix.name}:dense", np.ascontiguousarray(data), matrix.quant, matrix.dtype)
    attrs = {key: op.attrs[key] for key in ("clip", "activation", ATTRIBUTE) if key in op.attrs}
    return [Op("dense", op.name, (op.inputs[0], name, ""), op.outputs, attrs, op.origin)]


def _to_matmul(op: Op, editor: Editor) -> list[Op] | None:
    """TFLite writes the products of attention as dense layers too: the second factor is computed, so there are no
    weights that a convolution could hold."""
    if op.kind != "dense" or (len(op.inputs) > 2 and op.inputs[2]):
        return None
    weights = editor.tensor(op.inputs[1])
    if weights.data is not None or (weights.quant is not None and not weights.quant.is_per_tensor):
        return None
    turn = editor.producer(weights.name)
    source = turn.inputs[0] if turn is not None and turn.kind == "transpose" else ""
    turned = turn is not None and bool(source) and tuple(turn.attrs["perm"]) == (1, 0)
    turned = turned and same_codes(editor.tensor(source), weights)
    factor = source if turned else weights.name
    attrs = {**op.attrs, "transpose_b": not turned}
    outputs, size = weights.shape
    rows = editor.tensor(op.inputs[0]).elements // size
    product = Op("matmul", op.name, (op.inputs[0], factor), op.outputs, attrs, op.origin)
    return _reshaped(product, (rows, size), (rows, outputs), editor)


def _one_row(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind != "dense":
        return None
    x, weights = editor.tensor(op.inputs[0]), editor.tensor(op.inputs[1])
    outputs, size = weights.shape
    rows = x.elements // size
    if rows == 1 or weights.data is None:
        return _reshaped(op, (rows, size), (rows, outputs), editor)
    data = weights.data.reshape(outputs, 1, 1, size)
    kernel = editor.constant(f"{weights.name}:1x1", data, weights.quant, weights.dtype)
    attrs = {**op.attrs, "layout": "NHWC", "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
    conv = Op("conv", op.name, (x.name, kernel, *op.inputs[2:]), op.outputs, attrs, op.origin)
    return _reshaped(conv, (1, 1, rows, size), (1, 1, rows, outputs), editor)


def _reshaped(op: Op, shape_in: tuple[int, ...], shape_out: tuple[int, ...], editor: Editor) -> list[Op]:
    """The operator between reshapes to the shapes that it wants."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    ops = [op]
    if x.shape != shape_in:
        inner = editor.like(x.name, "row", shape=shape_in)
        ops = [Op("reshape", f"{op.name}:row", (x.name,), (inner,), {}, op.origin),
               replace(op, inputs=(inner, *op.inputs[1:]))]  # fmt: skip
    if y.shape != shape_out:
        inner = editor.like(y.name, "row", shape=shape_out)
        ops[-1] = replace(ops[-1], outputs=(inner,))
        ops.append(Op("reshape", f"{op.name}:shape", (inner,), op.outputs, {}, op.origin))
    return ops


Padding = tuple[int, int, int, int]


@rewrites
def fold_pads(op: Op, editor: Editor) -> list[Op] | None:
    """A pad of zeros before a window becomes the padding of that window."""
    if op.kind not in ("conv", "max_pool", "average_pool") or op.attrs["layout"] != "NHWC":
        return None
    pad = editor.producer(op.inputs[0])
    if pad is None or pad.kind != "pad" or len(editor.tensor(op.inputs[0]).shape) != 4:
        return None
    x, padded = editor.tensor(pad.inputs[0]), editor.tensor(op.inputs[0])
    border = spatial_zeros(pad, x, padded)
    if border is None or not fits(op, padded):
        return None
    total = tuple(a + b for a, b in zip(op.attrs["padding"], border, strict=True))
    editor.readers[x.name] += 1
    editor.readers[padded.name] -= 1
    op = replace(op, inputs=(x.name, *op.inputs[1:]), origin=(*pad.origin, *op.origin))
    if op.kind == "average_pool":
        return [with_attrs(op, padding=total, count_include_pad=True)]
    return [with_attrs(op, padding=total)]


def spatial_zeros(pad: Op, x: Tensor, padded: Tensor) -> Padding | None:
    """(top, left, bottom, right) if the pad adds the real value 0 around the picture and nothing else."""
    pads = pad.attrs["pads"]
    zeros = pad.attrs.get("mode", "constant") == "constant" and pad.attrs.get("value", 0.0) == 0.0
    if not zeros or any(pads[0]) or any(pads[3]) or min(min(both) for both in pads) < 0:
        return None
    if not same_format(x, padded):
        return None
    return pads[1][0], pads[2][0], pads[1][1], pads[2][1]


def fits(op: Op, padded: Tensor) -> bool:
    """Pools ignore their own padding: the largest value is never in it, and an average does not count it."""
    if op.kind == "conv":
        return True
    if op.kind == "max_pool":  # the zero point must be the smallest code
        return padded.quant is not None and padded.zero_point == padded.code_range[0]
    return op.attrs.get("count_include_pad", False) or not any(op.attrs["padding"])


@rewrites
def merge_dilation(op: Op, editor: Editor) -> list[Op] | None:
    """Space-to-batch, convolution, batch-to-space is one convolution with dilation."""
    if op.kind != "batch_to_space":
        return None
    conv = editor.producer(op.inputs[0])
    if conv is None or conv.kind != "conv" or not editor.read_once(op.inputs[0]) or not _is_dense(conv):
        return None
    spread = editor.producer(conv.inputs[0])
    if spread is None or spread.kind != "space_to_batch" or spread.attrs["blocks"] != op.attrs["blocks"]:
        return None
    x, inner = editor.tensor(spread.inputs[0]), editor.tensor(conv.inputs[0])
    result, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    padding = _padding(spread, conv, op)
    if padding is None or len(x.shape) != 4 or not (same_codes(x, inner) and same_codes(result, y)):
        return None
    origin = (*spread.origin, *conv.origin, *op.origin)
    merged = replace(conv, inputs=(x.name, *conv.inputs[1:]), outputs=op.outputs, origin=origin)
    editor.readers[x.name] += 1
    return [with_attrs(merged, dilation=tuple(op.attrs["blocks"]), padding=padding)]


def _is_dense(conv: Op) -> bool:
    return tuple(conv.attrs["stride"]) == (1, 1) and tuple(conv.attrs.get("dilation", (1, 1))) == (1, 1)


def _padding(spread: Op, conv: Op, gather: Op) -> tuple[int, int, int, int] | None:
    """What is added before, minus what is cut after; padding inside counts once per block."""
    blocks, pads, crops = spread.attrs["blocks"], spread.attrs["pads"], gather.attrs["crops"]
    if len(blocks) != 2:
        return None
    top, left, bottom, right = conv.attrs["padding"]
    inner = ((top, bottom), (left, right))
    both = [tuple(pads[i][end] + inner[i][end] * blocks[i] - crops[i][end] for end in (0, 1)) for i in (0, 1)]
    if min(min(ends) for ends in both) < 0:
        return None
    return both[0][0], both[1][0], both[0][1], both[1][1]


@rewrites
def join_batch(op: Op, editor: Editor) -> list[Op] | None:
    """Pictures of a batch become rows of one picture, where no window reaches from row to row.

    So Keras writes dilated convolutions over time: every step of the dilation a picture of one row.
    """
    if op.kind != "conv" or op.attrs["layout"] != "NHWC" or not _row_by_row(op, editor):
        return None
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    rows, result = (editor.like(tensor.name, "rows", shape=_as_rows(tensor)) for tensor in (x, y))
    before = Op("reshape", f"{op.name}:rows", (x.name,), (rows,), {}, op.origin)
    joined = replace(op, inputs=(rows, *op.inputs[1:]), outputs=(result,))
    return [before, joined, Op("reshape", f"{op.name}:batch", (result,), op.outputs, {}, op.origin)]


def _row_by_row(op: Op, editor: Editor) -> bool:
    x, weights = editor.tensor(op.inputs[0]), editor.tensor(op.inputs[1])
    if len(x.shape) != 4 or x.shape[0] == 1 or weights.shape[1] != 1:
        return False
    top, _, bottom, _ = op.attrs["padding"]
    return bool(op.attrs["stride"][0] == 1 and top == bottom == 0)


def _as_rows(tensor: Tensor) -> tuple[int, ...]:
    batch, height, *rest = tensor.shape
    return (1, batch * height, *rest)


@rewrites
def merge_groups(op: Op, editor: Editor) -> list[Op] | None:
    """Split, convolutions of the parts, concatenation: one convolution with groups. Exporters write depthwise layers
    so."""
    if op.kind != "concat" or len(op.inputs) < 2 or not _is_along_channels(op, editor) or "clip" in op.attrs:
        return None
    convs = [editor.producer(name) for name in op.inputs]
    found = [conv for conv in convs if conv is not None and conv.kind == "conv"]
    if len(found) < len(op.inputs) or not _alike(found, op, editor):
        return None
    split = editor.producer(found[0].inputs[0])
    if split is None or not _feeds(split, found, editor):
        return None
    x = split.inputs[0]
    weights = _joined(found, 1, editor)
    biases = (_joined(found, 2, editor),) if len(found[0].inputs) > 2 else ()
    attrs = {**found[0].attrs, "groups": len(found)}
    origin = (*split.origin, *(name for conv in found for name in conv.origin), *op.origin)
    editor.readers[x] += 1
    return [Op("conv", found[0].name, (x, weights, *biases), op.outputs, attrs, origin)]


def _is_along_channels(op: Op, editor: Editor) -> bool:
    rank = len(editor.tensor(op.inputs[0]).shape)
    return bool(rank == 4 and op.attrs["axis"] % rank == rank - 1)


def _alike(convs: Sequence[Op], concat: Op, editor: Editor) -> bool:
    """Nobody else reads them, and they differ in nothing but their constants."""
    first, out = convs[0], editor.tensor(concat.outputs[0])
    if first.attrs.get("layout", "NHWC") != "NHWC" or int(first.attrs.get("groups", 1)) != 1:
        return False
    shape = editor.tensor(first.inputs[1]).shape
    return all(
        conv.attrs == first.attrs
        and len(conv.inputs) == len(first.inputs)
        and all(conv.inputs)
        and editor.read_once(conv.outputs[0])
        and same_codes(editor.tensor(conv.outputs[0]), out)
        and all(_is_plain(editor.tensor(name)) for name in conv.inputs[1:])
        and editor.tensor(conv.inputs[1]).shape == shape
        and editor.tensor(conv.inputs[1]).quant is not None
        for conv in convs
    )


def _is_plain(constant: Tensor) -> bool:
    """Weights with scales of output channels, biases without."""
    along = constant.quant is None or constant.quant.is_per_tensor or constant.quant.axis == 0
    return constant.is_constant and along and (len(constant.shape) > 1 or constant.quant is None)


def _feeds(split: Op, convs: Sequence[Op], editor: Editor) -> bool:
    """Whether the convolutions take the parts one by one, in their order, as the codes that they were."""
    if split.kind != "split" or not _is_along_channels(split, editor):
        return False
    if tuple(conv.inputs[0] for conv in convs) != split.outputs:
        return False
    source, parts = editor.tensor(split.inputs[0]), editor.tensors_of(split.outputs)
    return all(same_codes(source, part) and part.shape == parts[0].shape for part in parts)


def _joined(convs: Sequence[Op], index: int, editor: Editor) -> str:
    """The constants of all, one behind the other along the output channels."""
    tensors = [editor.tensor(conv.inputs[index]) for conv in convs]
    data = np.concatenate([np.asarray(tensor.data) for tensor in tensors])
    return editor.constant(f"{tensors[0].name}:groups", data, _quantisation(tensors), tensors[0].dtype)


def _quantisation(tensors: Sequence[Tensor]) -> Quantisation | None:
    quants = [(tensor.quant, tensor.shape[0]) for tensor in tensors]
    scales = [np.broadcast_to(quant.scales, (count,)) for quant, count in quants if quant is not None]
    zeros = [np.broadcast_to(quant.zero_points, (count,)) for quant, count in quants if quant is not None]
    return Quantisation(np.concatenate(scales), np.concatenate(zeros), 0) if scales else None


PICTURE = (1, 2)


@rewrites
def name_reductions(op: Op, editor: Editor) -> list[Op] | None:
    """Averages over the whole picture are means; maxima over it are pools."""
    if op.kind == "average_pool":
        return _mean(op, editor)
    if op.kind == "reduce_max":
        return _max_pool(op, editor)
    return None


def _mean(op: Op, editor: Editor) -> list[Op] | None:
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if op.attrs["layout"] != "NHWC" or len(x.shape) != 4 or any(op.attrs["padding"]):
        return None
    if op.attrs.get("activation", "none") != "none":
        return None
    if tuple(op.attrs["window"]) != x.shape[1:3] or y.shape[1:3] != (1, 1):
        return None
    kept = {key: op.attrs[key] for key in ("clip", "activation", ATTRIBUTE) if key in op.attrs}
    return [replace(op, kind="mean", attrs={"axes": PICTURE, "keepdims": True, **kept})]


def _max_pool(op: Op, editor: Editor) -> list[Op] | None:
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if len(x.shape) != 4 or tuple(op.attrs["axes"]) != PICTURE or not same_format(x, y):
        return None
    attrs = {"layout": "NHWC", "window": x.shape[1:3], "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    pool = with_attrs(replace(op, kind="max_pool", attrs={}), **attrs)  # type: ignore[arg-type]
    shape = (x.shape[0], 1, 1, x.shape[3])
    if y.shape == shape:
        return [pool]
    inner = editor.like(op.outputs[0], "picture", shape=shape)
    return [replace(pool, outputs=(inner,)), Op("reshape", f"{op.name}:shape", (inner,), op.outputs, {}, op.origin)]
