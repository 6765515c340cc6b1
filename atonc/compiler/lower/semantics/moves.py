"""Operators that move values: requantised by a line where formats differ, then moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import requantising_line
from atonc.compiler.lower.semantics.arithmetic import Ints, clipped, ints, line
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.values import Arg, finish


def changed(op: Op, source: Tensor, target: Tensor) -> Callable[[Any], Ints]:
    """Makes the function from one tensor's codes to another's."""
    clip = op.attrs.get("clip")
    if source.quant is None or source.quant.same_as(target.quant):
        return lambda x: clipped(ints(x), clip)
    rule = requantising_line(source, target)
    return lambda x: clipped(line(rule, x), clip)


def moved(op: Op, context: Context) -> Callable[[Sequence[Any]], list[Ints]]:
    """The operator of the reference kernels, on codes that already have the format of the output."""

    def codes(values: Sequence[Any]) -> list[Ints]:
        return [_one(op, context, values, number) for number in range(len(op.outputs))]

    return codes


def _one(op: Op, context: Context, values: Sequence[Any], number: int) -> Ints:
    target = context.tensor(op.outputs[number])
    tensors, given = dict(context.graph.tensors), list(values)
    for name in op.outputs:
        tensors[name] = replace(tensors[name], quant=target.quant, dtype=target.dtype)
    for index, name in enumerate(op.inputs):
        source = context.tensor(name)
        if op.kind == "gather" and index:
            continue
        tensors[name] = replace(source, quant=target.quant, dtype=target.dtype)
        if source.is_float:
            continue  # real numbers move as they are
        if source.is_constant:
            same = source.quant is None or source.quant.same_as(target.quant)
            given[index] = values[index] if same else finish(Arg(source, values[index]).real, target).codes
        else:
            given[index] = changed(op, source, target)(values[index]).astype(target.dtype)
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    codes = evaluate(replace(context.graph, tensors=tensors), plain, given)[number].codes
    return codes if target.is_float else ints(codes)
