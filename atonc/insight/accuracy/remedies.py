"""What would mend a layer: the network is changed, run on the samples and compiled, so gain and price are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.insight.accuracy import edits
from atonc.insight.accuracy.float_layer import float_constants, lost_limit
from atonc.insight.accuracy.measure import MeasuredLayer, Measurement
from atonc.insight.accuracy.power import from_ratio
from atonc.insight.accuracy.twin import SUMMED, make_twin
from atonc.insight.explain.types import ACTIVATION, ARITHMETIC, WEIGHTS, Remedy
from atonc.machine.base.errors import AtoncError, UnsupportedError
from atonc.machine.base.frozen import dataclass

CLIP_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06, 0.03)  # of the largest weight
WORTH_DB = 1.0  # what gains less does not stay
_UNUSABLE = (AtoncError, ValueError, KeyError, IndexError, TypeError)  # what a changed graph may meet


@dataclass(frozen=True, eq=False)
class Change:
    what: str
    edit: Callable[[Graph], Graph]
    keeps_form: bool = False  # operators and tensors are the same, others can be changed after it
    more_bits: bool = False


@dataclass(eq=False)
class RemedyTrials:
    """The network, measured, and the options that it is compiled with. What mends a layer and leaves the network's form
    stays for the layers that are looked at next: behind a large loss small ones cannot be seen."""

    measured: Measurement
    options: Options
    latency_ms: float

    def __post_init__(self) -> None:
        self._graph = self.measured.source
        self._db, self._ms = from_ratio(self.measured.ratio_of(self._graph)), self.latency_ms

    def try_all(self, layer: MeasuredLayer, part: str) -> tuple[Remedy, ...]:
        if part == ARITHMETIC:
            return tuple(self._recompiled(what, options) for what, options in self._other_options(layer))
        tried = [self._edited(change) for change in _changes(self.measured, layer, part)]
        kept = [(one, graph) for one, graph in tried if graph is not None and one.gain_db > WORTH_DB]
        if kept:
            best, self._graph = max(kept, key=lambda pair: pair[0].gain_db)
            self._db, self._ms = best.after_db or self._db, best.after_ms or self._ms
        return tuple(one for one, _ in tried)

    def _edited(self, change: Change) -> tuple[Remedy, Graph | None]:
        """What it brings; and the graph, if the next changes may build on it."""
        what, before_db, before_ms = change.what, self._db, self._ms
        try:
            graph = change.edit(self._graph)
            after_db = from_ratio(self.measured.ratio_of(graph))
        except _UNUSABLE as error:
            return Remedy(what, False, why_not=_why(error), more_bits=change.more_bits), None
        found = Remedy(what, True, before_db, after_db, before_ms, more_bits=change.more_bits)
        try:
            after_ms = compile_graph(graph, replace(self.options, allow_float=True)).cost.latency_ms
        except _UNUSABLE as error:
            return replace(found, why_not=f"no price: {_why(error)}"), None
        return replace(found, after_ms=after_ms), graph if change.keeps_form else None

    def _other_options(self, layer: MeasuredLayer) -> Iterator[tuple[str, Options]]:
        if self.options.numerics != "best":
            yield "compile with --numerics best", replace(self.options, numerics="best")
        nodes = (*self.options.on_cpu, layer.op.origin[0] if layer.op.origin else layer.op.name)
        yield "compute it on the CPU (--on cpu)", replace(self.options, on_cpu=nodes)

    def _recompiled(self, what: str, options: Options) -> Remedy:
        measured = self.measured
        try:
            compiled = compile_graph(measured.source, options)
            after_db = from_ratio(measured.chip_ratio(compiled))
        except _UNUSABLE as error:
            return Remedy(what, False, why_not=_why(error))
        ratios = [chip.mean_ratio for _, chip in measured.outputs.values()]
        before_db = from_ratio(sum(ratios) / len(ratios))
        return Remedy(what, True, before_db, after_db, self.latency_ms, compiled.cost.latency_ms)


def _changes(measured: Measurement, layer: MeasuredLayer, part: str) -> Iterator[Change]:
    facts, name, op, weighted = layer.facts, layer.format.name, layer.op, layer.weighted
    if part == ACTIVATION:
        fits, is_wide = "a range that fits its values", layer.format.dtype == "int16"
        fit = edits.sixteen_bits if is_wide else edits.refit  # codes of 16 bits keep their zero, as the NPU wants it
        yield Change(fits, lambda graph: fit(graph, name, facts.low, facts.high), True)
        if len(facts.peaks) > 1 and weighted.kind in SUMMED:
            equal = "channels equalised with the next layer"
            yield Change(equal, lambda graph: edits.equalise(graph, weighted, facts.peaks), True)
        if op.kind == "concat":
            ranges = {one: _range(measured, one) for one in op.inputs}
            parts = "its parts kept apart, each with a range that fits (outputs: split them)"
            yield Change(parts, lambda graph: edits.apart(graph, op, ranges))
        if not is_wide:
            wide = "16 bits"
            yield Change(wide, lambda graph: edits.sixteen_bits(graph, name, facts.low, facts.high), more_bits=True)
        near = edits.readers(measured.source, name) | ({op.name} if op.kind != "input" else set())
        real = "float on the CPU, with the layers that read it"
        yield Change(real, lambda graph: edits.in_float(graph, near, {}), more_bits=True)
    if part == WEIGHTS:
        if lost_limit(measured, layer):
            zero = "a range that begins at zero, as a ReLU does"
            yield Change(zero, lambda graph: edits.refit(graph, name, 0.0, facts.high), True)
        each = "weights from float, a scale for each channel"
        yield Change(each, lambda graph: edits.per_channel(graph, weighted, *float_constants(measured, layer)), True)
        clip = "the same, with the largest weights clipped where the result gains"
        yield Change(clip, lambda graph: _clipped(measured, layer, graph), True)
        yield Change("float on the CPU", lambda graph: _in_float(measured, layer, graph), more_bits=True)


def _range(measured: Measurement, name: str) -> tuple[float, float]:
    layer = measured.by_tensor.get(name)
    if layer is None:
        raise UnsupportedError("a part of it is not a layer")
    return layer.facts.low, layer.facts.high


def _clipped(measured: Measurement, layer: MeasuredLayer, graph: Graph) -> Graph:
    """For every channel the scale with the least error of the layer's result on the first sample."""
    weights, bias = float_constants(measured, layer)
    best: edits.Real | None = None
    chosen = np.ones(weights.shape[0])
    for share in CLIP_SHARES:
        changed = edits.per_channel(measured.source, layer.weighted, weights, bias, np.full(weights.shape[0], share))
        error = measured.layer_error(layer, make_twin(changed))
        chosen = chosen if best is None else np.where(error < best, share, chosen)
        best = error if best is None else np.minimum(best, error)
    return edits.per_channel(graph, layer.weighted, weights, bias, chosen)


def _in_float(measured: Measurement, layer: MeasuredLayer, graph: Graph) -> Graph:
    weights, bias = float_constants(measured, layer)
    inputs = layer.weighted.inputs
    constants = {inputs[1]: weights} | ({inputs[2]: bias} if bias is not None else {})
    return edits.in_float(graph, {op.name for op in layer.chain}, constants)


def _why(error: Exception) -> str:
    return error.what if isinstance(error, AtoncError) else f"{type(error).__name__}: {str(error)[:120]}"
