"""Runs a whole graph in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.agreement import impossible
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.values import OpResult
from atonc.machine.base.errors import AtoncError, InputError


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
        values[name] = _fit(inputs[name], graph.tensors[name])
    return values


def run_op(graph: Graph, op: Op, values: Mapping[str, Array]) -> list[OpResult]:
    try:
        return evaluate(graph, op, [values[name] if name else None for name in op.inputs])
    except AtoncError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError) as error:
        raise impossible(graph, op, "cannot be computed", error) from error


def _fit(value: Array, tensor: Tensor) -> Array:
    if value.shape != tensor.shape:
        raise InputError(f"input has shape {value.shape}, the model wants {tensor.shape}", where=tensor.name)
    return value.astype(np.float64) if tensor.is_float else value.astype(tensor.dtype)
