"""`atonc explain --accuracy`: a model, perhaps its float original, perhaps inputs; out comes the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.inputs import read_real_samples, real
from atonc.compiler.ir import Graph
from atonc.compiler.ops import is_move
from atonc.compiler.ops.registry import moved_inputs
from atonc.compiler.request.options import Options
from atonc.insight.accuracy import edits
from atonc.insight.accuracy.measure import MeasuredLayer, Measurement, Sample, SignalPower, from_ratio
from atonc.insight.accuracy.symptoms import diagnose, float_constants, lost_limit
from atonc.insight.accuracy.twin import SUMMED, make_twin
from atonc.insight.explain.types import (
    ACTIVATION,
    ARITHMETIC,
    KINDS,
    WEIGHTS,
    AccuracyReport,
    LayerNoise,
    LossFinding,
    Remedy,
)
from atonc.insight.quantizing.loading import read as read_float
from atonc.insight.quantizing.samples import read_samples
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError, plain
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
    """What would mend a layer: the network is changed, run on the samples and compiled, so gain and price are measured.

    The network, measured, and the options that it is compiled with. What mends a layer and leaves the network's form
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
        return Remedy(what, True, from_ratio(measured.npu_ratio), after_db, self.latency_ms, compiled.cost.latency_ms)


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


MENDED = 3  # findings whose remedies are tried
MOST_COSTS = 24  # losses that are followed to the outputs: those that are largest where they arise
MOST_FINDINGS = 12
SYNTHETIC = 2  # samples, where none are given
Cost = tuple[float, MeasuredLayer, str]  # noise per signal of the outputs, if this part of the layer were all


def explain_accuracy(
    compiled: Compiled,
    options: Options,
    float_model: Path | None = None,
    inputs: Sequence[Path] = (),
    samples: int = 0,
    remedies: bool = True,
) -> AccuracyReport:
    """Without a float model the quantised one is compared with itself, not rounded; without inputs with made ones."""
    original, given = _references(compiled, float_model, inputs, samples)
    found = examine(compiled, original, given, options, remedies)
    name = "" if float_model is None else plain(float_model.name)
    return replace(found, float_model=name, synthetic=not inputs)


def outputs_db(compiled: Compiled, float_model: Path | None, inputs: Sequence[Path], samples: int) -> float:
    """Only the outputs on the NPU: the mean of noise per signal over all of them and their channels, in dB."""
    original, given = _references(compiled, float_model, inputs, samples)
    measured = Measurement(compiled, original, given)
    return from_ratio(measured.npu_ratio)


def _references(
    compiled: Compiled, float_model: Path | None, inputs: Sequence[Path], samples: int
) -> tuple[Graph | None, Sequence[Sample]]:
    """The float graph and the inputs, checked."""
    original = read(float_model) if float_model is not None else None
    if original is not None and any(tensor.quant is not None for tensor in original.tensors.values()):
        raise InputError("is quantised", where=str(float_model), remedy="give the float model after --float")
    source = compiled.source
    if inputs:
        given = read_real_samples(source, inputs, samples or None)
    else:
        made = [make_inputs(source, seed) for seed in range(samples or SYNTHETIC)]
        given = [{name: real(source.tensors[name], value) for name, value in one.items()} for one in made]
    if not given:
        raise InputError("no samples to measure with", remedy="give inputs with at least one sample")
    return original, given


def examine(
    compiled: Compiled, original: Graph | None, samples: Sequence[Sample], options: Options, remedies: bool = True
) -> AccuracyReport:
    """Everything but the names of the files."""
    measured = Measurement(compiled, original, samples)
    predicted = compiled.cost.latency_ms
    costs = _costs(measured)
    return AccuracyReport(
        model=compiled.source.name,
        float_model="" if original is None else original.name,
        samples=len(samples),
        synthetic=False,
        outputs=tuple((name, a.db, b.db) for name, (a, b) in measured.outputs.items()),
        layers=tuple(_noise(measured, layer) for layer in measured.layers),
        findings=_findings(measured, costs, RemedyTrials(measured, options, predicted) if remedies else None),
        latency_ms=predicted,
        notes=_notes(measured),
        latency_span_ms=compiled.cost.band.around(predicted),
        unexplained_db=_unexplained(measured, costs),
    )


def _unexplained(measured: Measurement, costs: Sequence[Cost]) -> float:
    """By how much the outputs are worse than all losses together, if they add up; what is not matched is not seen."""
    known, seen = sum(cost for cost, _, _ in costs), measured.npu_ratio
    return max(0.0, from_ratio(known) - from_ratio(seen)) if known and seen else 0.0


def _notes(measured: Measurement) -> tuple[str, ...]:
    if measured.original is None:
        return ("no float model was given: weights count as they are, and losses of weights cannot be seen (--float)",)
    known = measured.names
    missing = [measured.name_of(layer) for layer in measured.layers if layer.format.name not in known]
    if not missing:
        return ()
    return (f"{len(missing)} of {len(measured.layers)} layers were not found in the float model, first {missing[0]}",)


def _noise(measured: Measurement, layer: MeasuredLayer) -> LayerNoise:
    def decibels(powers: Mapping[str, SignalPower]) -> tuple[float | None, ...]:
        return tuple(powers[part].db if part in layer.measured else None for part in KINDS)

    names, tensor = measured.names, layer.format.name
    return LayerNoise(
        measured.name_of(layer),
        layer.op.kind,
        names.get(tensor, tensor),
        tensor in names,
        decibels(layer.own),
        decibels(layer.accumulated),
        layer.quantised.db,
        layer.own[ACTIVATION].worst_db,
    )


def _costs(measured: Measurement) -> list[Cost]:
    """Losses by what they do to the outputs, the dearest first."""
    losses = [(layer, part) for layer in measured.layers for part in KINDS if _is_own(measured, layer, part)]
    losses.sort(key=lambda loss: -loss[0].own[loss[1]].mean_ratio)
    costs = []
    for number, (layer, part) in enumerate(losses[:MOST_COSTS]):
        progress.stage("following losses to the outputs", number, min(len(losses), MOST_COSTS))
        costs.append((measured.cost(layer, part), layer, part))
    return sorted(costs, key=lambda cost: (-cost[0], -cost[1].own[cost[2]].mean_ratio))


def _findings(measured: Measurement, costs: Sequence[Cost], bench: RemedyTrials | None) -> tuple[LossFinding, ...]:
    """Mistakes first, then losses by what they do to the outputs."""
    found = []
    for number, (cost, layer, part) in enumerate(costs[:MOST_FINDINGS]):
        symptom = diagnose(measured, layer, part)
        tried: tuple[Remedy, ...] = ()
        if bench is not None and number < MENDED:
            with progress.part(f"actions for {measured.name_of(layer)}"):
                tried = bench.try_all(layer, part)
        name, tensor = measured.name_of(layer), measured.names.get(layer.format.name, layer.format.name)
        own, whole = layer.own[part].db, from_ratio(cost)
        found.append(LossFinding(name, tensor, part, symptom.id, symptom.says, own, whole, tried))
    return tuple(sorted(found, key=lambda finding: not finding.wrong))


def _is_own(measured: Measurement, layer: MeasuredLayer, part: str) -> bool:
    """A loss of its own: what only moves values on in the same format loses nothing again."""
    if part not in layer.measured or not layer.own[part].noise.sum() > 0:
        return False
    if part != ACTIVATION or not (is_move(layer.op.kind) or layer.op.kind in ("max_pool", "relu", "relu6", "clip")):
        return True
    data = [measured.source.tensors[name] for name in layer.op.inputs[: moved_inputs(layer.op.kind)] if name]
    quant = layer.format.quant
    return quant is None or not all(quant.same_as(tensor.quant) for tensor in data)


MEASURED = 4  # samples: layers differ by more than samples do


def examine_quantised(compiled: Compiled, model: Path, data: Path, settings: QuantizeOptions) -> AccuracyReport:
    """`compiled`: of the int8 model; `model` and `data`: what it was made of. No remedies: quantising tried its own."""
    exported = read_float(model, settings.fixed_shapes, settings.cut_outputs)
    original = read_onnx(exported.SerializeToString(), model.name)
    samples = read_samples(data, {name: original.tensors[name].shape for name in original.inputs}, settings)
    _, held = samples.split()
    return examine(compiled, original, held[:MEASURED], Options(verify=False), remedies=False)
