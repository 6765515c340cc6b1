"""Why an output is far from the source although every layer is close to exact arithmetic on the values that it had.

A difference of one code may become many further down. Two measurements tell that from a mistake: the layer where the
difference grows most, and how far the same output moves in exact arithmetic when as many roundings as the program has,
or a few more, differ anywhere, up or down, by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops import run_op
from atonc.compiler.ops.run import start_values

Array = NDArray[Any]
Values = Mapping[str, Array]

REPEATS = 8
FEWEST = 24  # places that a layer's errors hit: a single one may miss the only value that matters


@dataclass(frozen=True)
class Growth:
    """Where a difference grows most on the way to an output, in codes."""

    kind: str
    before: int
    after: int


def growth(graph: Graph, got: Values, wanted: Values, output: str) -> Growth:
    """Along the tensors that differ most, from the output back to where nothing differs any more."""
    best, ratio, name = Growth("", 0, 0), 0.0, output
    while name in graph.producers:
        op = graph.producers[name]
        sources = {n: _most(got[n], wanted[n]) for n in op.inputs if n and graph.tensors[n].data is None}
        after, before = _most(got[name], wanted[name]), max(sources.values(), default=0)
        if before and after / before > ratio:
            best, ratio = Growth(op.kind, before, after), after / before
        if not before:
            break
        name = max(sources, key=sources.__getitem__)
    return best


def by_chance(graph: Graph, inputs: Values, got: Values, wanted: Values, seed: int = 0) -> dict[str, int]:
    """The largest deviation of each output when the layers' own errors hit other places, with any sign."""
    rng = np.random.default_rng(seed)
    own = {op.name: _own_errors(graph, op, got) for op in graph.ops}
    found = dict.fromkeys(graph.outputs, 0)
    for _ in range(REPEATS):
        values = start_values(graph, inputs)
        for op in graph.ops:
            results = [r.codes for r in run_op(graph, op, values)]
            hit = [_hit(rng, codes, error, op) for codes, error in zip(results, own[op.name], strict=True)]
            values |= zip(op.outputs, hit, strict=True)
        found = {name: max(most, _most(values[name], wanted[name])) for name, most in found.items()}
    return found


def _own_errors(graph: Graph, op: Op, got: Values) -> list[Array]:
    exact = run_op(graph, op, got)
    return [got[n].astype(np.int64) - r.codes.astype(np.int64) for n, r in zip(op.outputs, exact, strict=True)]


def _hit(rng: np.random.Generator, codes: Array, error: Array, op: Op) -> Array:
    """Values at the ends of the format hardly ever have an error, so those between them get all of it."""
    if not error.any():
        return codes
    low, high = op.attrs.get("clip", (-128, 127))
    free = np.flatnonzero((codes > low) & (codes < high))
    if not free.size:
        return codes
    sizes = error[error != 0]
    places = rng.choice(free, min(free.size, max(FEWEST, sizes.size)), replace=False)
    flat = codes.astype(np.int64).reshape(-1)
    flat[places] += rng.choice(sizes, places.size) * rng.choice((-1, 1), places.size)
    return np.clip(flat, low, high).astype(codes.dtype).reshape(codes.shape)


def _most(got: Array, wanted: Array) -> int:
    return int(np.ceil(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)))
