"""The layer check: every layer on the inputs that it really had, against exact arithmetic.

The graph is run once in exact arithmetic. Wherever a buffer of the emulator run holds the tensor that was just
computed, the two are compared, and the run goes on with the observed values: so each result is computed from the
nearest observed ancestors, through as many operators as lie between, rounded only where the model rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from atonc.compiler.compare.causes import explain, saturation
from atonc.compiler.compare.matching import CLOSE, Match, Matcher
from atonc.compiler.compare.observed import ObservedBuffer, Real, centre, may_hold, to_tensor
from atonc.compiler.compare.subgraph import (
    code_size,
    computed_ops,
    keeps_values,
    observed_ancestors,
    parts_of_concats,
    weighted_consumers,
)
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import OpResult, run_op, start_values
from atonc.machine.base.frozen import dataclass

MAX_TRIALS = 6  # buffers that are tried in place of a tensor that no buffer resembles


@dataclass(frozen=True)
class LayerResult:
    """One observed tensor against exact arithmetic. Differences count codes, observed minus exact."""

    tensor: str
    kind: str
    ops: tuple[str, ...]  # evaluated from the observed inputs, the producer last
    computing_ops: int  # those of them that do more than move values
    inputs: tuple[str, ...]  # the observed tensors (and graph inputs) that they read
    buffer: str
    epoch: int
    elements: int
    max_diff: float
    differ_percent: float
    over_one_percent: float
    mean_diff: float
    max_real_error: float  # largest distance of a code from the real number before rounding
    note: str = ""
    cause: str = ""  # why more than one code apart, where it is known


@dataclass(frozen=True)
class Unmatched:
    """A tensor that no buffer holds."""

    tensor: str
    kind: str
    reason: str


@dataclass(frozen=True)
class LayerReport:
    results: tuple[LayerResult, ...]
    unmatched: tuple[Unmatched, ...]
    unused_buffers: tuple[str, ...]  # have the quantisation of some tensor, but resemble none

    def exceptions(self, allowed: float = 1.0) -> tuple[LayerResult, ...]:
        """Layers that are further than `allowed` codes from exact arithmetic."""
        return tuple(result for result in self.results if result.max_diff > allowed)

    @property
    def max_diff(self) -> float:
        return max((result.max_diff for result in self.results), default=0.0)

    @property
    def differ_percent(self) -> float:
        """Over all values of all layers."""
        total = sum(result.elements for result in self.results)
        return sum(result.differ_percent * result.elements for result in self.results) / total if total else 0.0


def check_layers(graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer]) -> LayerReport:
    """Compares an emulator run with the model. `inputs` are the model's inputs by name."""
    walk = _GraphWalk(graph, inputs, observed, {})
    walk.run()
    known = parts_of_concats(graph, walk.matches) | walk.left_over()
    if known:  # once more, with tensors inside concatenations and those that only one buffer can be
        walk = _GraphWalk(graph, inputs, observed, known)
        walk.run()
    return walk.report()


class _GraphWalk:
    """One exact run through the graph that takes over every observed tensor."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer], known: dict[str, Match]
    ) -> None:
        self.graph, self.observed, self.known = graph, observed, known
        self.matcher = Matcher(observed)
        self.values = start_values(graph, inputs)
        self.epochs: dict[str, int] = {}  # the latest epoch that a value depends on
        self.matches: dict[str, Match] = {}
        self.results: list[LayerResult] = []
        self.unmatched: list[Unmatched] = []

    def run(self) -> None:
        for name in self.graph.inputs:  # copies of the input in memory
            tensor = self.graph.tensors[name]
            self.matcher.claim_copies(tensor, centre(self.values[name], tensor.zero_point, tensor))
        for op in self.graph.ops:
            earliest = max((self.epochs.get(name, -1) for name in op.inputs), default=-1)
            for name, result in zip(op.outputs, run_op(self.graph, op, self.values), strict=True):
                self._take(op, self.graph.tensors[name], result, earliest)

    def report(self) -> LayerReport:
        tensors = [t for t in self.graph.tensors.values() if not t.is_constant]
        unused = (
            buffer.name
            for buffer in self.observed
            if self.matcher.free(buffer) and not buffer.is_raw and any(may_hold(buffer, t) for t in tensors)
        )
        return LayerReport(tuple(self.results), tuple(self.unmatched), tuple(unused))

    def left_over(self) -> dict[str, Match]:
        """Tensors for which exactly one unclaimed buffer is left, and no other tensor for that buffer.

        If what follows was found from the computed value, that value was right and the buffer is something else.
        """
        tensors = [self.graph.tensors[row.tensor] for row in self.unmatched if not self._has_seen_readers(row.tensor)]
        free = [b for b in self.observed if self.matcher.free(b) and not b.is_raw]
        holders = {t.name: [b for b in free if may_hold(b, t) and b.epoch >= self.epochs[t.name]] for t in tensors}
        takers = Counter(id(buffer) for found in holders.values() for buffer in found)
        result = {}
        for tensor in tensors:
            if len(found := holders[tensor.name]) == 1 and takers[id(found[0])] == 1:
                stored = next(found[0].arrangements(tensor), None)
                if stored is not None:
                    values = centre(stored.full(), found[0].offset_for(tensor), tensor)
                    result[tensor.name] = Match(found[0], values, "the only buffer left")
        return result

    def _has_seen_readers(self, name: str) -> bool:
        return any(output in self.matches for op in self.graph.consumers.get(name, []) for output in op.outputs)

    def _take(self, op: Op, tensor: Tensor, result: OpResult, earliest: int) -> None:
        """Finds the tensor among the buffers, records the difference, goes on with the observed value."""
        self.values[tensor.name] = result.codes
        self.epochs[tensor.name] = earliest
        if tensor.quant is None and not tensor.is_float:
            return  # shape arithmetic
        match = self._find(tensor, result, earliest, keeps_values(op.kind)) or self.known.get(tensor.name)
        match = match or self._by_its_consumers(tensor, result, earliest)
        if match is None:
            self.unmatched.append(Unmatched(tensor.name, op.kind, self._reason(tensor, result, earliest)))
            return
        self.matches[tensor.name] = match
        self.matcher.claim(match.buffer)
        self.epochs[tensor.name] = max(earliest, match.buffer.epoch)
        self.results.append(self._compare(op, tensor, result, match))
        self.values[tensor.name] = to_tensor(match.values, tensor)

    def _find(self, tensor: Tensor, result: OpResult, earliest: int, reuse: bool) -> Match | None:
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        return self.matcher.find(tensor, expected, unit, earliest, reuse)

    def _by_its_consumers(self, tensor: Tensor, result: OpResult, earliest: int) -> Match | None:
        """A layer that went wrong resembles no buffer. But if a convolution of some buffer is found in memory, that
        buffer is what the convolution read, whatever it contains."""
        consumers = weighted_consumers(self.graph, tensor.name)
        if not consumers:
            return None
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        candidates = self.matcher.candidates(tensor, expected, unit, earliest)
        free = [c for c in candidates if self.matcher.free(c.buffer)]
        for candidate in sorted(free, key=lambda c: c.buffer.epoch)[:MAX_TRIALS]:
            match = candidate.match(tensor, "found by what its consumer computed")
            if any(self._explains(chain, tensor, match) for chain in consumers):
                self.matcher.claim(match.buffer)
                return match
        return None

    def _explains(self, chain: tuple[Op, ...], tensor: Tensor, match: Match) -> bool:
        values = {**self.values, tensor.name: to_tensor(match.values, tensor)}
        for op in chain:
            results = run_op(self.graph, op, values)
            values[op.outputs[0]] = results[0].codes
        target = self.graph.tensors[chain[-1].outputs[0]]
        expected = centre(results[0].codes, target.zero_point, target)
        unit = code_size(self.graph, target, results[0].codes)
        found = self.matcher.candidates(target, expected, unit, match.buffer.epoch)
        return any(c.distance < CLOSE / 4 and self.matcher.free(c.buffer) for c in found)

    def _reason(self, tensor: Tensor, result: OpResult, earliest: int) -> str:
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        found = self.matcher.candidates(tensor, expected, unit, earliest)
        if not found:
            return "no later buffer has its scale, zero point and size: fused into another layer"
        near = min(found, key=lambda c: c.distance)
        state = "free" if self.matcher.free(near.buffer) else "another tensor's"
        return f"not seen: the nearest buffer {near.buffer.name} ({state}) is {near.distance:.1f} codes away on average"

    def _compare(self, op: Op, tensor: Tensor, result: OpResult, match: Match) -> LayerResult:
        unit = code_size(self.graph, tensor, result.codes)
        difference = (match.values - centre(result.codes, tensor.zero_point, tensor)).astype(np.float64) / unit
        size = np.abs(difference)
        ops, ancestors = observed_ancestors(self.graph, tensor.name, set(self.matches))
        return LayerResult(
            tensor=tensor.name,
            kind=op.kind,
            ops=ops,
            computing_ops=computed_ops(self.graph, ops),
            inputs=ancestors,
            buffer=match.buffer.name,
            epoch=match.buffer.epoch,
            elements=tensor.elements,
            max_diff=float(size.max(initial=0)),
            differ_percent=percent(size > (1e-3 if tensor.is_float else 0)),
            over_one_percent=percent(size > 1.001),
            mean_diff=float(difference.mean()) if difference.size else 0.0,
            max_real_error=_real_error(match.values, result, tensor, unit),
            note=match.note,
            cause=self._cause(op, ops, difference) if np.any(size > 1.001) else "",
        )

    def _cause(self, op: Op, ops: tuple[str, ...], difference: Array) -> str:
        """Explains the difference by the layer itself, or by layers before it that were not observed."""
        if own := explain(self.graph, op, self.values, difference):
            return own
        before = [o for o in self.graph.ops if o.name in ops and o is not op]
        return "; ".join(found for o in before if (found := saturation(self.graph, o, self.values)))


def percent(mask: Array) -> float:
    return 100.0 * float(mask.mean()) if mask.size else 0.0


def _real_error(values: Array, result: OpResult, tensor: Tensor, unit: float) -> float:
    exact: Real = result.exact
    if tensor.quant is not None:
        low, high = tensor.code_range
        exact = np.clip(exact, low, high) - tensor.zero_point
    return float((np.abs(values - exact) / unit).max(initial=0))
