"""A C operator of the user (`generate --custom`): what it computes is what its function gives, so there is no other
arithmetic to compare it with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.registry import runs
from atonc.compiler.ops.values import OpCall
from atonc.machine.base.errors import InputError
from atonc.machine.base.user_c import CustomCall, CustomOperator, CustomTensor
from atonc.machine.base.words import listed

OPERATOR, VALUES = "operator", "values"  # its attributes: the declaration, and what this node hands on


def call_of(op: Op, tensors: Sequence[Tensor]) -> CustomCall:
    """`tensors`: inputs, then outputs."""
    operator: CustomOperator = op.attrs[OPERATOR]
    first = len(operator.inputs)
    titles = [f"input {k + 1}" if k < first else f"output {k + 1 - first}" for k in range(len(tensors))]
    operands = (
        CustomTensor(title, one.dtype, one.shape, one.scale, one.zero_point)
        for title, one in zip(titles, tensors, strict=True)
    )
    return CustomCall(operator, tuple(operands), op.attrs[VALUES])


def scratch_name(op: Op) -> str:
    """Names the memory that one call may use."""
    return f"{op.name}:scratch"


def may_give(op: Op, output: str, dtype: str) -> bool:
    """Whether an operator can write codes of this type itself: C of the user writes what it is declared to."""
    return op.kind != "custom" or op.attrs[OPERATOR].outputs[op.outputs.index(output)].type == dtype


def require_declared(graph: Graph) -> Graph:
    """The graph, all of whose C operators take and give the types that are declared."""
    for op in graph.ops:
        if op.kind != "custom":
            continue
        operator: CustomOperator = op.attrs[OPERATOR]
        sides = ("input", op.inputs, operator.inputs), ("output", op.outputs, [one.type for one in operator.outputs])
        for side, names, kinds in sides:
            for number, (name, kind) in enumerate(zip(names, kinds, strict=True), 1):
                if (found := graph.tensors[name].dtype) != kind:
                    raise InputError(
                        f"{side} {number} of {operator.function}(), {name!r}, is {found}, not {kind}",
                        where=op.name,
                        rule="a C operator takes and gives what its declaration says; what a DequantizeLinear gives or "
                        "only a QuantizeLinear takes may be declared as float32, or as the codes behind it",
                        remedy="change the type in the declaration, or give the operator a QuantizeLinear of its own",
                    )
    return graph


@runs("custom")
def _run(call: OpCall) -> list[Array]:
    given = [arg for arg in call.args if arg is not None]
    made = call_of(call.op, [*(arg.tensor for arg in given), *call.outputs])
    stored = [np.ascontiguousarray(arg.codes.astype(arg.tensor.dtype)).tobytes() for arg in given]
    found = [
        np.frombuffer(data, tensor.dtype).reshape(tensor.shape)
        for data, tensor in zip(made.run(stored, call.op.name), call.outputs, strict=True)
    ]
    return [values.astype(np.float64) if values.dtype.kind == "f" else values for values in found]


def notes(graph: Graph, declared: Collection[str] = ()) -> Iterator[str]:
    """What everybody should know who reads a figure of such a network. `declared`: operators by their names."""
    found = {one.name for one in of_graph(graph).values()}
    if unused := [name for name in declared if name not in found]:
        yield f"the model has no {listed(unused, 'and no')}, which --custom declares"
    for op in graph.ops:
        if op.kind != "custom":
            continue
        operator: CustomOperator = op.attrs[OPERATOR]
        cost = "its cycles are those of the declaration"
        if operator.cycles is None:
            cost = (
                "its declaration gives no cycles, so the latency has a rough estimate: 20 for each value of its outputs"
            )
        yield (
            f"{op.name} is C of the user, {operator}: it can be verified against itself only (it stays in its buffers, "
            f"ends, and gives equal outputs in its runs on this computer); {cost}"
        )


def of_graph(graph: Graph) -> dict[str, CustomOperator]:
    """The declared operators that a graph has, by their functions."""
    return {op.attrs[OPERATOR].function: op.attrs[OPERATOR] for op in graph.ops if op.kind == "custom"}
