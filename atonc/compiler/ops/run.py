"""Runs a whole graph in exact arithmetic. Do its shapes agree? And what a user reads where arithmetic fails inside it.

The text of NumPy or Python names neither operator nor cause, so it never stands alone: it comes last, behind what the
operator was given, which rule it broke and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.ops.values import OpResult
from atonc.machine.base.errors import AtoncError, InputError, InternalError, ModelError

RULE = "the shapes of a graph agree: an operator can compute with what it reads and gives the shape that is stated"
MEMORY_RULE = "what one operator computes fits into the memory of this machine"
REPORT = "if the model runs elsewhere this is a mistake of atonc: report it together with the file"
CUT = "--cut-output-tensors compiles the part of the network before this operator"
SAME_SIZE = ("reshape",)  # takes its shape from its output


def impossible(graph: Graph, op: Op, doing: str, error: Exception) -> ModelError:
    """Makes the error for an operator in which Python or NumPy gave up; `doing`: what could not be done."""
    what = f"{op.kind} {doing}: {disagreement(graph, op) or _seen(graph, op)}{said(error)}"
    if isinstance(error, MemoryError):
        return ModelError(what, where=op.name, rule=MEMORY_RULE, remedy=CUT)
    return ModelError(what, where=op.name, rule=RULE, remedy=f"{REPORT}; {CUT}")


def said(error: Exception) -> str:
    """What the arithmetic itself complained about, for who has to look for the cause."""
    return f" ({type(error).__name__}: {str(error)[:300]})"


def disagreement(graph: Graph, op: Op) -> str:
    """What does not fit between the operator and its tensors; "" if nothing is seen."""
    shapes = [graph.tensors[name].shape for name in op.inputs if name]
    if len(op.outputs) != 1 or not shapes:
        return ""
    out = graph.tensors[op.outputs[0]]
    if op.kind in SAME_SIZE:
        read = graph.tensors[op.inputs[0]].elements
        return "" if read == out.elements else f"{_seen(graph, op)}: {read} values become {out.elements}"
    try:
        expected = infer_shape(op.kind, op.attrs, shapes)
    except (AtoncError, ValueError, IndexError, KeyError, TypeError, ZeroDivisionError) as error:
        return f"{_seen(graph, op)}: {error.one_line}" if isinstance(error, AtoncError) else _seen(graph, op)
    return "" if expected in (None, out.shape) else f"{_seen(graph, op)}: {_shape(expected or ())} was expected"


def require_agreement(source: Graph, canonical: Graph) -> Graph:
    """The canonical graph, unless a pass broke it: a mistake of ours where the model itself agrees."""
    for op in canonical.ops:
        if found := disagreement(canonical, op):
            broken = any(disagreement(source, own) for own in source.ops)
            kind, remedy = (ModelError, "export the model again") if broken else (InternalError, f"{REPORT}; {CUT}")
            raise kind(f"{op.kind}: {found}", where=op.name, rule=RULE, remedy=remedy)
    return canonical


def _seen(graph: Graph, op: Op) -> str:
    read = [graph.tensors[name] for name in op.inputs if name in graph.tensors]
    written = [graph.tensors[name] for name in op.outputs if name in graph.tensors]
    return f"{', '.join(map(_named, read))} -> {', '.join(map(_named, written))}"


def _named(tensor: Tensor) -> str:
    return f"{tensor.name[-60:]} {_shape(tensor.shape)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor's value by name. Quantised tensors hold codes, float ones float64, rounded nowhere."""
    values = start_values(graph, inputs)
    for op in graph.ops:
        results = run_op(graph, op, values)
        values.update((name, result.codes) for name, result in zip(op.outputs, results, strict=True) if name)
    return values


class RunOnDemand(Mapping[str, Array]):
    """The values of `run_graph`, each computed when somebody asks for it, with what it needs."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Array]) -> None:
        self.graph = graph
        self._known = start_values(graph, inputs)
        self._number = {name: number for number, op in enumerate(graph.ops) for name in op.outputs}

    def __getitem__(self, name: str) -> Array:
        if name not in self._known:
            for op in self._missing(name):
                results = run_op(self.graph, op, self._known)
                self._known.update((n, result.codes) for n, result in zip(op.outputs, results, strict=True) if n)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._known, *(name for name in self._number if name))))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _missing(self, name: str) -> list[Op]:
        """What has to run before the value is there, in the order of the graph."""
        found, asked = set[int](), [name]
        while asked:
            number = self._number[asked.pop()]
            if number not in found:
                found.add(number)
                asked += [n for n in self.graph.ops[number].inputs if n and n not in self._known]
        return [self.graph.ops[number] for number in sorted(found)]


def start_values(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Constants and the checked inputs."""
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    for name in graph.inputs:
        if name not in inputs:
            raise InputError(f"no value for input {name!r}", where=graph.name)
        value, tensor = inputs[name], graph.tensors[name]
        if value.shape != tensor.shape:
            raise InputError(f"input has shape {value.shape}, the model wants {tensor.shape}", where=tensor.name)
        values[name] = value.astype(np.float64) if tensor.is_float else value.astype(tensor.dtype)
    return values


def run_op(graph: Graph, op: Op, values: Mapping[str, Array]) -> list[OpResult]:
    try:
        return evaluate(graph, op, [values[name] if name else None for name in op.inputs])
    except AtoncError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError) as error:
        raise impossible(graph, op, "cannot be computed", error) from error
