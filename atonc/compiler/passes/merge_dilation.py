"""Space-to-batch, convolution, batch-to-space is one convolution with dilation."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite, with_attrs


def merge_dilation(graph: Graph) -> Graph:
    return rewrite(graph, _merge)


def _merge(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind != "batch_to_space":
        return None
    conv = editor.producer(op.inputs[0])
    if conv is None or conv.kind != "conv" or not editor.read_once(op.inputs[0]) or not _is_plain(conv):
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


def _is_plain(conv: Op) -> bool:
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
