"""The layer check: every layer on the inputs that it really had, against exact arithmetic.

The graph is run once in exact arithmetic. Wherever a buffer of the emulator run holds the tensor that was just
computed, the two are compared, and the run goes on with the observed values: so each result is computed from the
nearest observed ancestors, through as many operators as lie between, rounded only where the model rounds.

A buffer belongs to a tensor if quantisation and size agree and no other buffer is closer to the computed value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atonc.compare.observed import ObservedBuffer, Real, centre, distance, may_hold, to_tensor
from atonc.ir import Array, Graph, Op, Tensor
from atonc.ops import Result, is_move, run_op, start_values

CLOSE = 2.0  # mean difference in codes up to which a buffer may be this tensor at all


@dataclass(frozen=True)
class LayerResult:
    """One observed tensor against exact arithmetic. Differences count codes, observed minus exact."""

    tensor: str
    kind: str
    ops: tuple[str, ...]  # evaluated from the observed inputs, the producer last
    inputs: tuple[str, ...]  # the observed tensors (and graph inputs) that they read
    buffer: str
    epoch: int
    elements: int
    max_diff: float
    differ_percent: float
    mean_diff: float
    max_real_error: float  # largest distance of a code from the real number before rounding
    note: str = ""


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
    unused_buffers: tuple[str, ...]  # could have held a tensor, but none was close

    def exceptions(self, allowed: float = 1.0) -> tuple[LayerResult, ...]:
        """Layers that are further than `allowed` from exact arithmetic."""
        return tuple(result for result in self.results if result.max_diff > allowed)

    @property
    def max_diff(self) -> float:
        return max((result.max_diff for result in self.results), default=0.0)

    @property
    def differ_percent(self) -> float:
        """Over all values of all layers."""
        total = sum(result.elements for result in self.results)
        return sum(result.differ_percent * result.elements for result in self.results) / total if total else 0.0


@dataclass(frozen=True, eq=False)
class _Match:
    buffer: ObservedBuffer
    values: Array  # centred, in the tensor's shape
    note: str = ""


def check_layers(
    graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer]
) -> LayerReport:
    """Compares an emulator run with the model. `inputs` are the model's inputs by name."""
    first = _Walk(graph, inputs, observed, {})
    first.run()
    parts = _parts_of_concats(graph, first.matches)
    walk = _Walk(graph, inputs, observed, parts) if parts else first
    if parts:
        walk.run()
    return walk.report()


class _Walk:
    """One exact run through the graph that takes over every observed tensor."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer], parts: dict[str, _Match]
    ) -> None:
        self.graph, self.parts = graph, parts
        self.observed = sorted(observed, key=lambda buffer: buffer.epoch)
        self.values = start_values(graph, inputs)
        self.epochs: dict[str, int] = {}  # the latest epoch that a value depends on
        self.matches: dict[str, _Match] = {}
        self.claimed: set[int] = set()
        self.results: list[LayerResult] = []
        self.unmatched: list[Unmatched] = []

    def run(self) -> None:
        for name in self.graph.inputs:
            self._claim_copies_of_input(self.graph.tensors[name])
        for op in self.graph.ops:
            earliest = max((self.epochs.get(name, -1) for name in op.inputs), default=-1)
            for name, result in zip(op.outputs, run_op(self.graph, op, self.values), strict=True):
                self._take(op, self.graph.tensors[name], result, earliest)

    def report(self) -> LayerReport:
        tensors = [t for t in self.graph.tensors.values() if not t.is_constant]
        unused = (
            buffer.name
            for buffer in self.observed
            if id(buffer) not in self.claimed and any(may_hold(buffer, tensor) for tensor in tensors)
        )
        return LayerReport(tuple(self.results), tuple(self.unmatched), tuple(unused))

    def _claim_copies_of_input(self, tensor: Tensor) -> None:
        for buffer in self.observed:
            if may_hold(buffer, tensor):
                expected = centre(self.values[tensor.name], tensor)
                if any(np.array_equal(values, expected) for values in buffer.arrangements(tensor)):
                    self.claimed.add(id(buffer))

    def _take(self, op: Op, tensor: Tensor, result: Result, earliest: int) -> None:
        """Finds the tensor among the buffers, records the difference, goes on with the observed value."""
        self.values[tensor.name] = result.codes
        self.epochs[tensor.name] = earliest
        if tensor.quant is None and not tensor.is_float:
            return  # shape arithmetic
        match, reason = self._find(op, tensor, result, earliest)
        if match is None:
            self.unmatched.append(Unmatched(tensor.name, op.kind, reason))
            return
        self.matches[tensor.name] = match
        self.claimed.add(id(match.buffer))
        self.epochs[tensor.name] = max(earliest, match.buffer.epoch)
        self.results.append(self._compare(op, tensor, result, match))
        self.values[tensor.name] = to_tensor(match.values, tensor)

    def _find(self, op: Op, tensor: Tensor, result: Result, earliest: int) -> tuple[_Match | None, str]:
        expected, unit = centre(result.codes, tensor), code_size(self.graph, tensor, result.codes)
        candidates: list[tuple[float, bool, int, _Match]] = []
        for buffer in self.observed:
            if buffer.epoch < earliest or not may_hold(buffer, tensor):
                continue
            taken = id(buffer) in self.claimed
            for values in buffer.arrangements(tensor):
                far = distance(values, expected, unit, sampled=True)
                candidates.append((far, taken and not is_move(op.kind), buffer.epoch, _Match(buffer, values)))
        if not candidates:
            return self._part(tensor), "no buffer has its scale, zero point and size: fused into another layer"
        best = self._closest(candidates, expected, unit)
        if best is None:
            near = min(candidates, key=lambda c: c[0])
            reason = f"not in memory: nearest buffer {near[3].buffer.name} is {near[0]:.1f} codes away on average"
            return self._part(tensor), reason
        return best, ""

    def _closest(
        self, candidates: list[tuple[float, bool, int, _Match]], expected: Array, unit: float
    ) -> _Match | None:
        """The sample only selects; the decision is taken on all values. Equal ones go to the earliest free buffer."""
        nearest = min(c[0] for c in candidates)
        if nearest > CLOSE:
            return None
        short = [c for c in candidates if c[0] <= 1.5 * nearest + 0.05]
        ranked = [(distance(m.values, expected, unit, sampled=False), taken, epoch, m) for _, taken, epoch, m in short]
        far, taken, _, match = min(ranked, key=lambda c: c[:3])
        return None if far > CLOSE or (taken and far > 0) else match

    def _part(self, tensor: Tensor) -> _Match | None:
        """A tensor that exists only inside the buffer of a later concatenation."""
        return self.parts.get(tensor.name)

    def _compare(self, op: Op, tensor: Tensor, result: Result, match: _Match) -> LayerResult:
        unit = code_size(self.graph, tensor, result.codes)
        difference = (match.values - centre(result.codes, tensor)).astype(np.float64) / unit
        differs = np.abs(difference) > (1e-3 if tensor.is_float else 0)
        ops, ancestors = observed_ancestors(self.graph, tensor.name, set(self.matches))
        return LayerResult(
            tensor=tensor.name,
            kind=op.kind,
            ops=ops,
            inputs=ancestors,
            buffer=match.buffer.name,
            epoch=match.buffer.epoch,
            elements=tensor.elements,
            max_diff=float(np.abs(difference).max(initial=0)),
            differ_percent=100.0 * float(differs.mean()) if differs.size else 0.0,
            mean_diff=float(difference.mean()) if difference.size else 0.0,
            max_real_error=_real_error(match.values, result, tensor, unit),
            note=match.note,
        )


def _real_error(values: Array, result: Result, tensor: Tensor, unit: float) -> float:
    exact: Real = result.exact
    if tensor.quant is not None:
        low, high = tensor.code_range
        exact = np.clip(exact, low, high) - tensor.zero_point
    return float((np.abs(values - exact) / unit).max(initial=0))


def code_size(graph: Graph, tensor: Tensor, values: Array) -> float:
    """What one code is worth: 1 for codes, for floats the scale of the quantised tensor that they come from."""
    if not tensor.is_float:
        return 1.0
    name = tensor.name
    for _ in range(64):
        op = graph.producers.get(name)
        if op is None or not (op.kind in ("dequantize", "identity") or is_move(op.kind)):
            break
        name = op.inputs[0]
        if graph.tensors[name].quant is not None:
            return graph.tensors[name].scale
    return float(np.abs(values).max(initial=0)) / 255 or 1.0


def observed_ancestors(graph: Graph, name: str, observed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators between a tensor and the nearest observed tensors, and those tensors."""
    ops: dict[str, Op] = {}
    ancestors: dict[str, None] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        op = graph.producers.get(current)
        if op is None or (current != name and current in observed):
            if not graph.tensors[current].is_constant:
                ancestors[current] = None
            continue
        if op.name not in ops:
            ops[op.name] = op
            pending.extend(i for i in op.inputs if i)
    return tuple(reversed(ops)), tuple(ancestors)


def _parts_of_concats(graph: Graph, matches: Mapping[str, _Match]) -> dict[str, _Match]:
    """Compilers let layers write straight into the buffer of a concatenation or reshape: find them there."""
    found: dict[str, _Match] = {}
    for op in reversed(graph.ops):
        if op.kind not in ("concat", "reshape") or len(op.outputs) != 1:
            continue
        match = matches.get(op.outputs[0]) or found.get(op.outputs[0])
        if match is None:
            continue
        start, target = 0, graph.tensors[op.outputs[0]]
        for name in op.inputs:
            tensor = graph.tensors[name]
            values, start = _cut(op, match.values, tensor, start)
            same = tensor.quant is not None and tensor.quant.same_as(target.quant) and tensor.dtype == target.dtype
            if same and name not in matches and not tensor.is_constant and name not in graph.inputs:
                found.setdefault(name, _Match(match.buffer, values, f"inside {match.buffer.name}"))
    return found


def _cut(op: Op, values: Array, tensor: Tensor, start: int) -> tuple[Array, int]:
    if op.kind == "reshape":
        return values.reshape(tensor.shape), 0
    axis = op.attrs["axis"]
    stop = start + tensor.shape[axis]
    window = tuple(slice(start, stop) if i == axis else slice(None) for i in range(values.ndim))
    return values[window], stop
