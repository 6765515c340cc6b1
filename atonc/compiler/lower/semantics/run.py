"""Runs a mapped graph in its integer semantics: NPU operators as they are mapped, CPU operators exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.ir import Array, Graph, Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.semantics.operators import moved
from atonc.compiler.lower.sixteen.streams import never_negative
from atonc.compiler.ops import run_op
from atonc.compiler.ops.registry import is_move
from atonc.compiler.ops.run import start_values
from atonc.compiler.plan.policy import TELLING_VALUES

if TYPE_CHECKING:
    from atonc.compiler.lower.map_ops import Mapped


class Unexplained(Exception):
    """A recipe has not said what its epochs compute."""


def run_mapped(graph: Graph, mapped: Mapped, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor by name."""
    values = start_values(graph, inputs)
    for op in graph.ops:
        if op.name in mapped.reason_of:
            results = [result.codes for result in run_op(graph, op, values)]
        else:
            results = mapped_op(mapped.context, op, values)
        values |= zip(op.outputs, results, strict=True)
    return values


def mapped_op(context: Context, op: Op, values: Mapping[str, Array]) -> list[Array]:
    """The outputs of one operator of the NPU on these values."""
    given = [values[name] if name else None for name in op.inputs]
    explained = context.semantics.get(op.name)
    if explained is None and not (is_move(op.kind) or op.kind == "identity"):
        raise Unexplained(f"{op.kind} {op.name}")
    codes = explained.codes if explained else moved(op, context)
    found = zip(op.outputs, codes(given), strict=True)
    return [np.asarray(result).astype(context.tensor(name).dtype) for name, result in found]


def farthest(context: Context, op: Op) -> float:
    """How far an operator of the NPU is from exact arithmetic, in codes: on typical inputs, and on codes of its own at
    random, which its channels may meet one day. Few values say nothing."""
    found, values_seen = 0.0, 0
    for values in _looked_at(context, op):
        exact = [result.codes for result in run_op(context.graph, op, values)]
        for got, wanted in zip(mapped_op(context, op, values), exact, strict=True):
            found = max(found, float(np.abs(got.astype(np.int64) - wanted).max(initial=0)))
            values_seen += wanted.size
    return found if values_seen >= TELLING_VALUES else inf


def _looked_at(context: Context, op: Op) -> Iterator[dict[str, Array]]:
    for run in context.facts.typical:
        yield {name: np.asarray(run[name]) for name in op.inputs if name}
    x = context.tensor(op.inputs[0])
    low, high = x.code_range
    low = 0 if never_negative(x.name, context.graph) else low  # sums have room for what can be, and no more
    others = {t.name: t.data for t in map(context.tensor, filter(None, op.inputs[1:])) if t.data is not None}
    rng = np.random.default_rng(0)
    for most in (high, x.zero_point + (high - x.zero_point) // 8, low):  # all codes, those near zero, either end
        codes = rng.integers(low, most, x.shape, endpoint=True) if most > low else rng.choice([low, high], x.shape)
        yield {x.name: codes.astype(x.dtype), **others}
