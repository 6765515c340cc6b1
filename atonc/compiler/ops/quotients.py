"""Divisions whose divisor may be zero: 0/0 has no value, and every set of kernels makes another code of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Graph, Op, layer_name
from atonc.compiler.ops.values import Arg
from atonc.machine.base.words import count

DIVISION = "div"


def zero_by_zero(graph: Graph, op: Op, values: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Where a division meets 0/0."""
    a, b = (Arg(graph.tensors[name], values[name]).real for name in op.inputs[:2])
    return np.asarray((a == 0) & (b == 0))


def divisor_notes(graph: Graph) -> tuple[str, ...]:
    """A note where codes of a divisor include zero; of floats nobody knows."""
    found = [op for op in graph.ops if op.kind == DIVISION and _may_be_zero(graph, op.inputs[1])]
    if not found:
        return ()
    several = f" (and in {count(len(found) - 1, 'more division')})" if len(found) > 1 else ""
    return (
        f"the divisor of {layer_name(found[0])} can be zero{several}: 0/0 has no value, and kernels differ there; add "
        "a small constant to the divisor before it is quantised",
    )


def _may_be_zero(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    if tensor.data is not None:
        return bool((Arg(tensor, tensor.data).real == 0).any())
    if tensor.quant is None:
        return False
    low, high = tensor.code_range
    return low <= tensor.zero_point <= high
