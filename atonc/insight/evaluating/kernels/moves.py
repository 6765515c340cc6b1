"""Operators that move codes, requantised on the way where formats differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.semantics.arithmetic import CODES
from atonc.compiler.lower.semantics.operators import changed
from atonc.compiler.ops.registry import evaluate
from atonc.insight.evaluating.kernels.codes import OneCode, by_byte

Array = NDArray[Any]
Kernel = Callable[[Sequence[Array | None]], list[Array]]

RENAMINGS = ("reshape", "squeeze", "expand_dims", "flatten", "identity")


def move_kernel(op: Op, context: Context) -> Kernel | None:
    """Makes a kernel for the commonest moves; None: the operator goes sample by sample."""
    tensors = [context.tensor(name) for name in (*op.inputs[: None if op.kind == "concat" else 1], *op.outputs)]
    if any(tensor.dtype != "int8" or tensor.data is not None for tensor in tensors):
        return None
    if op.kind in RENAMINGS:
        return _renamed(op, context)
    return {"concat": _concat, "transpose": _transpose, "resize_nearest": _by_places}.get(op.kind, _none)(op, context)


def _none(op: Op, context: Context) -> None:
    return None


def _change(op: Op, context: Context, source: str, target: str) -> Callable[[Array], Array]:
    table = changed(op, context.tensor(source), context.tensor(target))(CODES).astype(np.int8)
    if np.array_equal(table, CODES):
        return lambda codes: codes
    return OneCode(by_byte(table))


def _renamed(op: Op, context: Context) -> Kernel:
    change, shape = _change(op, context, op.inputs[0], op.outputs[0]), context.tensor(op.outputs[0]).shape

    def run(values: Sequence[Array | None]) -> list[Array]:
        codes = values[0]
        assert codes is not None
        return [change(codes).reshape(codes.shape[0], *shape)]

    return run


def _concat(op: Op, context: Context) -> Kernel:
    out = context.tensor(op.outputs[0])
    axis = op.attrs["axis"] % len(out.shape) + 1
    changes = [_change(op, context, name, op.outputs[0]) for name in op.inputs]

    def run(values: Sequence[Array | None]) -> list[Array]:
        return [np.concatenate([change(v) for change, v in zip(changes, values, strict=True) if v is not None], axis)]

    return run


def _transpose(op: Op, context: Context) -> Kernel:
    change, shape = _change(op, context, op.inputs[0], op.outputs[0]), context.tensor(op.outputs[0]).shape
    places = _places(op, context)

    def run(values: Sequence[Array | None]) -> list[Array]:
        codes = values[0]
        assert codes is not None
        flat = change(np.ascontiguousarray(codes)).reshape(codes.shape[0], -1)
        return [flat.take(places, axis=1).reshape(codes.shape[0], *shape)]

    return run


_by_places = _transpose


def _places(op: Op, context: Context) -> NDArray[np.intp]:
    """Where each element of the output comes from: the operator on numbers instead of codes."""
    source, target = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    counted = {
        **context.graph.tensors,
        source.name: replace(source, dtype="int32", quant=None),
        target.name: replace(target, dtype="int32", quant=None),
    }
    numbers = np.arange(source.elements, dtype=np.int32).reshape(source.shape)
    rest = [context.tensor(name).data if name else None for name in op.inputs[1:]]
    found = evaluate(replace(context.graph, tensors=counted), plain, [numbers, *rest])[0].codes
    return found.reshape(-1).astype(np.intp)
