"""Averages over the whole picture are means; maxima over it are pools."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.rounding import ATTRIBUTE
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite, with_attrs

PICTURE = (1, 2)


def name_reductions(graph: Graph) -> Graph:
    return rewrite(graph, _rename)


def _rename(op: Op, editor: Editor) -> list[Op] | None:
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
    if len(x.shape) != 4 or tuple(op.attrs["axes"]) != PICTURE or not same_codes(x, y) or x.dtype != y.dtype:
        return None
    attrs = {"layout": "NHWC", "window": x.shape[1:3], "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    pool = with_attrs(replace(op, kind="max_pool", attrs={}), **attrs)  # type: ignore[arg-type]
    shape = (x.shape[0], 1, 1, x.shape[3])
    if y.shape == shape:
        return [pool]
    inner = editor.like(op.outputs[0], "picture", shape=shape)
    return [replace(pool, outputs=(inner,)), Op("reshape", f"{op.name}:shape", (inner,), op.outputs, {}, op.origin)]
