"""Does a program compute what the model says? The judge is every layer; the outputs of the whole are shown beside it.

A network may be chaotic, so that its outputs differ widely between any two ways to round. No layer is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf

import numpy as np

from atonc.compiler.compare.extremes import make_extremes
from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compare.metrics import cosine
from atonc.compiler.emit.program import Program
from atonc.compiler.ir import Array, Graph
from atonc.compiler.lower.map_ops import Mapped
from atonc.compiler.ops import run_graph
from atonc.compiler.verify.coarser import CoarserThanDeclared
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.layer_checks import LayerCheck, Layers
from atonc.machine.base.errors import VerificationError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.hw.mpool import MemoryPool

NATURAL = 2  # inputs
LARGE = 4_000_000  # values of all tensors together: a run takes more than a second from about here on


@dataclass(frozen=True)
class OutputCheck:
    name: str
    cosine: float
    max_lsb: float
    exact_percent: float
    within1_percent: float


@dataclass(frozen=True)
class VerifyReport:
    """Every layer within its limit; free-running outputs against exact arithmetic of the canonical graph."""

    samples: int
    outputs: tuple[OutputCheck, ...]
    layers: int = 0
    worst_layer: float = 0.0  # codes
    checks: tuple[LayerCheck, ...] = ()  # every tensor, its worst of all samples
    tensors: int = 0  # that were compared: those in memory, and those that flow on inside an epoch

    @property
    def tightest(self) -> LayerCheck | None:
        """The layer whose sums came nearest to what units can hand on; None where no input saturates any."""
        return min((check for check in self.checks if check.room < inf), key=lambda check: check.room, default=None)

    @property
    def sums(self) -> str:
        """How much room they have, in words."""
        least = self.tightest
        if least is None:
            return "no input saturates a sum"
        if least.room < 1:
            return f"sums of {least.node} reach {1 / least.room:.2g} times their room, where codes end anyway"
        return f"sums use at most 1/{least.room:.3g} of their room ({least.node})"

    @property
    def as_vendor(self) -> int:
        """Layers beyond their limit that round, value for value, as the vendor does."""
        return sum(check.as_vendor for check in self.checks)

    @cached_property
    def by_tensor(self) -> Mapping[str, list[LayerCheck]]:
        found: dict[str, list[LayerCheck]] = {}
        for check in self.checks:
            found.setdefault(check.tensor, []).append(check)
        return found


def verify(
    program: Program,
    graph: Graph,
    mapped: Mapped,
    seed: int = 0,
    given: Sequence[Mapping[str, Array]] = (),
    pools: Iterable[MemoryPool] = (),
) -> VerifyReport:
    """At least two different inputs, and those that the user gave; a program with a layer that is not what it should be
    raises. `pools`: in which addresses of C code are counted."""
    emulation = Emulation(program, graph, pools)
    judge = Layers(program, graph, mapped)
    pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in graph.outputs}
    layers: list[LayerCheck] = []
    samples = [*_synthetic(graph, seed), *given]
    for number, inputs in enumerate(samples):
        got = emulation.run(inputs, observe=True)
        layers += judge.check(inputs, got, semantics=number == 0)
        require_right(layers)
        expected = _outputs(graph, inputs)
        for name in graph.outputs:
            pairs[name].append((got[name], expected[name]))
    worst = max((layer.max_diff for layer in layers), default=0.0)
    outputs = tuple(_check(name, pairs[name]) for name in graph.outputs)
    compared = len(layers) // len(samples)
    return VerifyReport(len(samples), outputs, len(graph.ops), worst, _worst(layers), compared)


def _synthetic(graph: Graph, seed: int) -> list[dict[str, Array]]:
    """Two that look like nature and one that drives sums towards their extremes; of large networks, whose runs take
    seconds each, one of both kinds."""
    elements = sum(tensor.elements for tensor in graph.tensors.values() if not tensor.is_constant)
    natural = NATURAL if elements < LARGE else 1
    return [*(make_inputs(graph, seed + k) for k in range(natural)), make_extremes(graph, seed)]


def _worst(layers: list[LayerCheck]) -> tuple[LayerCheck, ...]:
    """One check a tensor."""
    found: dict[str, LayerCheck] = {}
    for layer in layers:
        known = found.setdefault(layer.tensor, layer)
        worse = (layer.max_diff, layer.differ_percent) > (known.max_diff, known.differ_percent)
        found[layer.tensor] = replace(layer if worse else known, room=min(layer.room, known.room))
    return tuple(found.values())


def require_right(layers: list[LayerCheck]) -> None:
    bad = [layer for layer in layers if layer.bad]
    if not bad:
        return
    first = bad[0]
    step = "which no epoch writes" if first.step is None else f"of epoch {first.step}"
    if not first.meant:
        raise VerificationError(
            f"{first.kind} gives {first.tensor!r}, {step}, with other codes than its mapping says",
            where=first.node,
            rule="epochs compute, bit by bit, the integer function that the operator was mapped to",
            remedy="report the model: nothing was written, because the compiler and its program disagree",
        )
    error = partial(CoarserThanDeclared, first) if first.own else VerificationError
    raise error(
        f"{first.kind} gives {first.tensor!r}, {step}, {count(first.max_diff, 'code')} from exact arithmetic"
        + (f" ({len(bad)} such tensors)" if len(bad) > 1 else ""),
        where=first.node,
        rule=f"a layer is at most {count(first.limit, 'code')} from exact arithmetic on the inputs that it really has",
        remedy=_remedy(first),
    )


def _remedy(layer: LayerCheck) -> str:
    if layer.room < 1:
        return (
            f"its sums reach {1 / layer.room:.2g} times what units hand on: compile with --calibration and inputs like "
            f"this one, or with --on cpu {layer.node}"
        )
    wrong = "nothing was written, because the program would compute wrong numbers"
    elsewhere = "" if layer.on_cpu else f"compile with --on cpu {layer.node}, and "
    return f"{elsewhere}report the model: {wrong}"


def _outputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Computes the model's outputs; everything else is forgotten before the next input."""
    values = run_graph(graph, inputs)
    return {name: values[name] for name in graph.outputs}


def _check(name: str, pairs: list[tuple[Array, Array]]) -> OutputCheck:
    """One array of differences at a time: outputs may be pictures."""
    largest, equal, close, count = 0.0, 0, 0, 0
    for got, expected in pairs:
        difference = np.abs(np.ravel(got).astype(np.float64) - np.ravel(expected))
        largest = float(np.maximum(largest, difference.max(initial=0.0)))
        equal += int(np.count_nonzero(difference == 0))
        close += int(np.count_nonzero(difference <= 1))
        count += difference.size
    del difference
    together = [np.concatenate([np.ravel(pair[side]) for pair in pairs]) for side in (0, 1)]
    of = max(1, count)
    return OutputCheck(name, cosine(*together), largest, 100.0 * (equal / of), 100.0 * (close / of))
