"""Is this graph well formed? Every front end and every pass ends here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atonc.compiler.ir.types import TYPES, Graph, Op, Tensor
from atonc.machine.base.errors import ModelError

MAX_RANK = 8
MAX_DIM = 1 << 24
MAX_ELEMENTS = 1 << 31


def check(graph: Graph, checked: Mapping[str, Tensor] | None = None) -> Graph:
    """Returns the graph itself, or raises a ModelError that names the tensor or operator.

    Tensors that are the same objects in `checked` were looked at before.
    """
    trusted = checked or {}
    for name, tensor in graph.tensors.items():
        if trusted.get(name) is tensor:
            continue
        if name != tensor.name:
            raise ModelError(f"tensor {tensor.name!r} is filed under {name!r}", where=name)
        check_tensor(tensor)
    _check_order(graph)
    return graph


def check_tensor(tensor: Tensor) -> None:
    if not tensor.name:
        raise ModelError("a tensor has no name")
    if tensor.dtype not in TYPES:
        raise ModelError(f"element type {tensor.dtype!r} is not known", where=tensor.name)
    _check_shape(tensor)
    _check_quantisation(tensor)
    if tensor.data is not None and tensor.data.shape != tensor.shape:
        raise ModelError(f"constant has shape {tensor.data.shape}, declared {tensor.shape}", where=tensor.name)


def _check_shape(tensor: Tensor) -> None:
    if len(tensor.shape) > MAX_RANK:
        raise ModelError(f"{len(tensor.shape)} dimensions, at most {MAX_RANK} are supported", where=tensor.name)
    if any(not 0 <= dim <= MAX_DIM for dim in tensor.shape):
        raise ModelError(f"shape {tensor.shape} has an impossible dimension", where=tensor.name)
    if tensor.elements > MAX_ELEMENTS:
        raise ModelError(f"{tensor.elements} elements, at most {MAX_ELEMENTS} are supported", where=tensor.name)


def _check_quantisation(tensor: Tensor) -> None:
    quant = tensor.quant
    if quant is None:
        return
    if tensor.is_float or tensor.dtype == "bool":
        raise ModelError(f"{tensor.dtype} values cannot be quantised codes", where=tensor.name)
    if quant.scales.size != quant.zero_points.size or quant.scales.size == 0:
        raise ModelError("scales and zero points differ in number", where=tensor.name)
    if not np.all(np.isfinite(quant.scales)) or np.any(quant.scales <= 0):
        raise ModelError("a scale is not a finite positive number", where=tensor.name)
    low, high = tensor.code_range
    if np.any(quant.zero_points < low) or np.any(quant.zero_points > high):
        raise ModelError(f"a zero point lies outside {low}..{high}", where=tensor.name)
    if not quant.is_per_tensor:
        _check_axis(tensor)


def _check_axis(tensor: Tensor) -> None:
    quant = tensor.quant
    if quant is None or quant.axis is None or not 0 <= quant.axis < len(tensor.shape):
        raise ModelError("quantisation axis is outside the shape", where=tensor.name)
    if tensor.shape[quant.axis] != quant.scales.size:
        raise ModelError(
            f"{quant.scales.size} scales for {tensor.shape[quant.axis]} channels on axis {quant.axis}",
            where=tensor.name,
        )


def _check_order(graph: Graph) -> None:
    """Every input exists before it is used, every output is written once."""
    known = {name for name, tensor in graph.tensors.items() if tensor.is_constant}
    for name in graph.inputs:
        if name not in graph.tensors:
            raise ModelError("graph input has no tensor", where=name)
        known.add(name)
    for op in graph.ops:
        _check_op(graph, op, known)
        known.update(name for name in op.outputs if name)
    for name in graph.outputs:
        if name not in known:
            raise ModelError("graph output is never computed", where=name)


def _check_op(graph: Graph, op: Op, known: set[str]) -> None:
    for name in op.inputs:
        if name and name not in known:
            raise ModelError(
                f"input {name!r} is used before it is computed", where=op.name, rule="graphs have no cycles"
            )
    for name in op.outputs:
        if name and name not in graph.tensors:
            raise ModelError(f"output {name!r} has no tensor", where=op.name)
        if name in known:
            raise ModelError(f"output {name!r} is written twice", where=op.name)
