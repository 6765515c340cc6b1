"""Operators inside an operator: a recipe for bytes lowers them, as parts of a form for codes of 16 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal, recipe_for
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import attempt
from atonc.compiler.select.form import RefusedForm, Semantics
from atonc.compiler.select.rules import WIDE_CODES

Codes = NDArray[Any]


def require_centred(*tensors: Tensor) -> None:
    """Codes of 16 bits with one scale, whose zero is 0: what TFLite writes, and nobody asked for anything else yet."""
    for tensor in tensors:
        usual = tensor.dtype == "int16" and tensor.quant is not None and tensor.quant.is_per_tensor
        if not usual or tensor.zero_point:
            seen = f"{tensor.name} of type {tensor.dtype}, zero point {tensor.zero_point if usual else 'unlike others'}"
            raise Refusal(WIDE_CODES, seen, "int16 with one scale and zero point 0", "quantise it symmetrically")


def scratch_tensor(context: Context, like: Tensor, dtype: str, scale: float, zero: int = 0) -> Tensor:
    """A tensor that only the tasks of this operator know, in memory of its own."""
    name = context.scratch(like.elements * np.dtype(dtype).itemsize, "inside 16 bits")
    return Tensor(name, like.shape, dtype, Quantisation.per_tensor(scale, zero))


def inside(context: Context, op: Op, tensors: Iterable[Tensor], typical: Callable[[], list[Codes]]) -> None:
    """Makes a draft see an inner operator only."""
    source = op.inputs[0]
    graph = Graph({t.name: t for t in tensors}, (op,), (), op.outputs)

    def runs() -> list[Mapping[str, Codes]]:
        return [{source: codes} for codes in typical()]

    facts = context.facts
    context.facts = replace(
        facts, graph=graph, calibrate=runs, forms={}, user_allocated=frozenset(), error_codes=WIDE_STEP
    )


def lower_inner(
    op: Op, tensors: Iterable[Tensor], typical: Callable[[], list[Codes]], context: Context
) -> tuple[list[TaskGroup], Semantics]:
    """The tasks of an inner operator, and what they compute. `typical`: codes of its input for typical inputs of the
    network."""
    form = attempt(context, partial(_draw, op, tuple(tensors), typical))
    if isinstance(form, RefusedForm):
        raise Refusal.of(form)
    return context.take(replace(form, semantics={})), form.semantics[op.name]


def _draw(op: Op, tensors: tuple[Tensor, ...], typical: Callable[[], list[Codes]], context: Context) -> list[TaskGroup]:
    inside(context, op, tensors, typical)
    recipe = recipe_for(op.kind)
    assert recipe is not None
    return recipe(op, context)
