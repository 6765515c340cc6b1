"""Operators on shapes: integers only, known before the model runs unless a front end kept them."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real


@computes("shape")
def shape(call: OpCall) -> list[Real]:
    return [np.array(call.arg(0).codes.shape, np.float64)]


@computes("fill")
def fill(call: OpCall) -> list[Real]:
    return [np.full(call.out.shape, float(call.arg(0).real.reshape(-1)[0]))]


@computes("range")
def number_range(call: OpCall) -> list[Real]:
    start, limit, delta = (float(call.arg(i).codes.reshape(-1)[0]) for i in range(3))
    return [np.arange(start, limit, delta)]
