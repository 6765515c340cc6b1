"""A pad of zeros before a window becomes the padding of that window."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite, with_attrs

Padding = tuple[int, int, int, int]


def fold_pads(graph: Graph) -> Graph:
    return rewrite(graph, _fold)


def _fold(op: Op, editor: Editor) -> list[Op] | None:
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
    if not same_codes(x, padded) or x.dtype != padded.dtype:
        return None
    return pads[1][0], pads[2][0], pads[1][1], pads[2][1]


def fits(op: Op, padded: Tensor) -> bool:
    """Pools ignore their own padding: the largest value is never in it, and an average does not count it."""
    if op.kind == "conv":
        return True
    if op.kind == "max_pool":  # the zero point must be the smallest code
        return padded.quant is not None and padded.zero_point == padded.code_range[0]
    return op.attrs.get("count_include_pad", False) or not any(op.attrs["padding"])
