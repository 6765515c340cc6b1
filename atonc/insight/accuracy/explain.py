"""`atonc explain --accuracy`: a model, perhaps its float original, perhaps inputs; out comes the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.inputs import read_real_samples, real
from atonc.compiler.ir import Graph
from atonc.compiler.ops import is_move
from atonc.compiler.ops.registry import moved_inputs
from atonc.compiler.request.options import Options
from atonc.insight.accuracy.measure import MeasuredLayer, Measurement, Sample, reference_of
from atonc.insight.accuracy.power import SignalPower, from_ratio
from atonc.insight.accuracy.remedies import RemedyTrials
from atonc.insight.accuracy.symptoms import diagnose
from atonc.insight.explain.types import ACTIVATION, KINDS, AccuracyReport, LayerNoise, LossFinding, Remedy
from atonc.machine.base import progress
from atonc.machine.base.errors import InputError, plain

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
    measured = Measurement(compiled, reference_of(compiled.source, original), given)
    ratios = [npu.mean_ratio for _, npu in measured.outputs.values()]
    return from_ratio(sum(ratios) / len(ratios))


def _references(
    compiled: Compiled, float_model: Path | None, inputs: Sequence[Path], samples: int
) -> tuple[Graph | None, Sequence[Sample]]:
    """The float graph and the inputs, checked."""
    original = read(float_model) if float_model is not None else None
    if original is not None and any(tensor.quant is not None for tensor in original.tensors.values()):
        raise InputError("is quantised", where=str(float_model), remedy="give the float model after --float")
    given = read_real_samples(compiled.source, inputs, samples or None) if inputs else _made(compiled.source, samples)
    if not given:
        raise InputError("no samples to measure with", remedy="give inputs with at least one sample")
    return original, given


def _made(source: Graph, samples: int) -> list[Sample]:
    made = [make_inputs(source, seed) for seed in range(samples or SYNTHETIC)]
    return [{name: real(source.tensors[name], value) for name, value in one.items()} for one in made]


def examine(
    compiled: Compiled, original: Graph | None, samples: Sequence[Sample], options: Options, remedies: bool = True
) -> AccuracyReport:
    """Everything but the names of the files."""
    measured = Measurement(compiled, reference_of(compiled.source, original), samples)
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
    ratios = [npu.mean_ratio for _, npu in measured.outputs.values()]
    known, seen = sum(cost for cost, _, _ in costs), sum(ratios) / len(ratios)
    return max(0.0, from_ratio(known) - from_ratio(seen)) if known and seen else 0.0


def _notes(measured: Measurement) -> tuple[str, ...]:
    if measured.reference.twin is None:
        return ("no float model was given: weights count as they are, and losses of weights cannot be seen (--float)",)
    known = measured.reference.names
    missing = [measured.name_of(layer) for layer in measured.layers if layer.format.name not in known]
    if not missing:
        return ()
    return (f"{len(missing)} of {len(measured.layers)} layers were not found in the float model, first {missing[0]}",)


def _noise(measured: Measurement, layer: MeasuredLayer) -> LayerNoise:
    def decibels(powers: Mapping[str, SignalPower]) -> list[float | None]:
        return [powers[part].db if part in layer.measured else None for part in KINDS]

    names, tensor = measured.reference.names, layer.format.name
    return LayerNoise(
        measured.name_of(layer),
        layer.op.kind,
        names.get(tensor, tensor),
        tensor in names,
        tuple(decibels(layer.own)),
        tuple(decibels(layer.accumulated)),
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
            with progress.part(f"remedies of {measured.name_of(layer)}"):
                tried = bench.try_all(layer, part)
        tensor = measured.reference.names.get(layer.format.name, layer.format.name)
        own = layer.own[part].db
        name, whole = measured.name_of(layer), from_ratio(cost)
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
