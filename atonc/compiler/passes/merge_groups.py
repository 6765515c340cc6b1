"""Split, convolutions of the parts, concatenation: one convolution with groups. Exporters write depthwise layers so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite


def merge_groups(graph: Graph) -> Graph:
    return rewrite(graph, _merge)


def _merge(op: Op, editor: Editor) -> list[Op] | None:
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
