"""Runs: float, without rounding, with only one kind of loss, exact integers, the NPU's integers; and what lies between.

A layer's own loss is what it adds to exact inputs. Its cost is what this loss alone does to the outputs of the network:
the error is put into a run that has no other, and followed to the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import inf, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.inputs.inputs import as_input, in_order_of, program_inputs
from atonc.compiler.inputs.inputs import real as real_value
from atonc.compiler.ir import Graph, Op, Tensor, layer_name
from atonc.compiler.lower.semantics.run import mapped_op, run_mapped
from atonc.compiler.ops import run_graph
from atonc.insight.accuracy.twin import (
    SUMMED,
    Twin,
    fake,
    in_order_of_tflite,
    is_format,
    make_twin,
    match,
    run_real,
)
from atonc.insight.explain.types import ACTIVATION, ARITHMETIC, KINDS, WEIGHTS
from atonc.insight.quantizing.from_tflite import FIRST
from atonc.machine.base import progress
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
FLOOR = 1e-9  # of the mean power of all channels: a channel with less is silent
MOST = 10.0  # noise per signal of a channel beyond which more makes no difference


def channel_axis(shape: tuple[int, ...], channels_first: bool) -> int | None:
    """None: the tensor is one group. Of a list of things the shorter axis has their properties."""
    if len(shape) < 3:
        return None
    if len(shape) == 3:
        return 1 if shape[1] <= shape[2] else 2
    return 1 if channels_first else len(shape) - 1


@dataclass
class SignalPower:
    """The power of a tensor: squares of its signal and of its error, summed over samples, by channel: a small channel
    beside a large one counts as much."""

    axis: int | None
    signal: Real = field(default_factory=lambda: np.zeros(1))
    noise: Real = field(default_factory=lambda: np.zeros(1))

    def add(self, reference: Real, value: Real) -> SignalPower:
        self.signal = self.signal + self._summed(reference)
        self.noise = self.noise + self._summed(value - reference)
        return self

    def _summed(self, values: Real) -> Real:
        squares = np.square(values, dtype=np.float64)
        squares[~np.isfinite(squares)] = 0.0
        if self.axis is None:
            return squares.sum().reshape(1)
        return squares.sum(axis=tuple(k for k in range(squares.ndim) if k != self.axis))

    @property
    def db(self) -> float:
        return decibel(float(self.signal.sum()), float(self.noise.sum()))

    @property
    def ratios(self) -> Real:
        """Noise per signal of every channel."""
        floor = max(float(self.signal.mean()) * FLOOR, 1e-30)
        return np.minimum(self.noise / np.maximum(self.signal, floor), MOST)

    @property
    def mean_ratio(self) -> float:
        return float(self.ratios.mean())

    @property
    def worst_db(self) -> float:
        return from_ratio(float(self.ratios.max(initial=0.0)))


def decibel(signal: float, noise: float) -> float:
    if noise <= 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf


def from_ratio(ratio: float) -> float:
    return inf if ratio <= 0 else -10 * log10(ratio)


Sample = Mapping[str, Any]  # real values of the model's inputs
COST_SAMPLES = 3  # whose losses are followed to the outputs
LIMITS = ("relu", "relu6", "clip")
BELOW = 1e-6  # of the largest value: less than zero
STAGE = "measuring every layer"


@dataclass
class ActivationFacts:
    """What is known of one activation, in float, over all samples."""

    low: float = np.inf
    high: float = -np.inf
    above: int = 0  # values beyond the format's ends
    below: int = 0
    values: int = 0
    clip_noise: float = 0.0
    codes: set[float] = field(default_factory=set)  # a few of the values that the format gives
    peaks: Real = field(default_factory=lambda: np.zeros(1))  # largest magnitude by channel


@dataclass
class MeasuredLayer:
    """An operator of the quantised graph with an activation in few bits."""

    chain: tuple[Op, ...]  # the last gives the activation; before it those whose results have no format
    format: Tensor
    own: dict[str, SignalPower]
    accumulated: dict[str, SignalPower]
    quantised: SignalPower
    facts: ActivationFacts = field(default_factory=ActivationFacts)
    max_codes: float = 0.0  # of the NPU's arithmetic
    errors: dict[int, Real] = field(default_factory=dict)  # of the NPU's arithmetic, on the first samples
    measured: set[str] = field(default_factory=set)  # parts that could be looked at

    @property
    def op(self) -> Op:
        return self.chain[-1]

    @property
    def weighted(self) -> Op:
        """Whose constants it is about."""
        return self.chain[0]


class Measurement:
    """All runs of all samples; `layers` in the order in which they run."""

    def __init__(self, compiled: Compiled, original: Graph | None, samples: Sequence[Sample]) -> None:
        """`original`: the float model; without one the quantised model's own numbers are compared with, not rounded."""
        self.compiled, self.samples = compiled, samples
        self.source, self.canonical = compiled.source, compiled.graph
        self.original = None if original is None else Twin(original, {}, {})
        # tensor of the quantised graph -> of the float model
        self.names = {} if original is None else match(self.source, original)
        self.first_axis = self.source.source == "onnx"
        self._in_order_of_tflite = in_order_of_tflite(self.source)
        self.twin = make_twin(self.source, self._signed())
        self.layers = self._layers()
        self.by_tensor = {layer.format.name: layer for layer in self.layers}
        self.outputs = {name: (self._power(name), self._power(name)) for name in self.source.outputs}
        for number in range(len(samples)):
            progress.stage(STAGE, number, len(samples))
            self._measure(number)

    def _power(self, name: str) -> SignalPower:
        return SignalPower(channel_axis(self.source.tensors[name].shape, self.first_axis))

    def _layers(self) -> list[MeasuredLayer]:
        found = []
        edges = [Op("input", name, (), (name,)) for name in self.source.inputs]
        for op in (*edges, *self.source.ops):
            tensor = self.source.tensors[op.outputs[0]]
            if len(op.outputs) == 1 and is_format(tensor):
                own, accumulated = ({part: self._power(tensor.name) for part in KINDS} for _ in range(2))
                found.append(MeasuredLayer(self._chain(op), tensor, own, accumulated, self._power(tensor.name)))
        return found

    def _chain(self, op: Op) -> tuple[Op, ...]:
        """With the convolution in front of a ReLU, where nothing is rounded between them."""
        before = self.source.producers.get(op.inputs[0]) if op.kind in LIMITS else None
        if before is None or before.kind not in SUMMED or is_format(self.source.tensors[op.inputs[0]]):
            return (op,)
        return (before, op) if len(self.source.consumers[op.inputs[0]]) == 1 else (op,)

    def name_of(self, layer: MeasuredLayer) -> str:
        """As all views call it: the layer of the compiled graph that gives its values, or that its node went into."""
        writers, owners = self._layer_names
        return writers.get(layer.format.name) or owners.get(layer.op.name, layer.op.name)

    @cached_property
    def _layer_names(self) -> tuple[dict[str, str], dict[str, str]]:
        """By tensor, and by node of the model."""
        ops = self.canonical.ops
        writers = {name: layer_name(op) for op in ops for name in op.outputs}
        return writers, {node: layer_name(op) for op in reversed(ops) for node in (*op.origin, op.name)}

    # ------------------------------------------------------------------------------------------------------------ runs

    def _signed(self) -> set[str]:
        """Tensors whose format begins at zero although the float model goes below."""
        if self.original is None:
            return set()
        values = self._float_values(self.samples[0])
        found = set()
        for name, tensor in self.source.tensors.items():
            value = values.get(name)
            if is_format(tensor) and value is not None and value.min() < -BELOW * np.abs(value).max():
                found.add(name)
        return found

    def _float_values(self, sample: Sample) -> dict[str, Real]:
        """Runs the float model: its values by the names of the quantised graph, in the shapes of that graph."""
        if self.original is None:
            return {}
        graph = self.original.graph
        given = {
            name: in_order_of(graph, name, np.asarray(sample[ours]))
            for ours, name in zip(self.source.inputs, graph.inputs, strict=True)
        }
        values = self.original.run(given)
        turn = graph.source != self.source.source  # channels first in one format, last in the other
        found = {}
        for ours, theirs in self.names.items():
            other = turn and ours not in self._in_order_of_tflite
            value = _arranged(values[theirs], self.source.tensors[ours].shape, other, self.first_axis)
            if value is not None:
                gains = self.gains_of(ours)
                found[ours] = value if gains is None else value * gains.reshape(-1, *[1] * (value.ndim - 2))
        return found

    def gains_of(self, tensor: str) -> Real | None:
        """What the quantiser multiplied the channels of the float tensor with; ONNX alone tells, channels first."""
        known, name = self.source.equalised, self.names.get(tensor, "")
        factors = np.array(known.get(name) or known.get(f"{name}{FIRST}", ()))
        shape = self.source.tensors[tensor].shape
        return factors if len(shape) > 2 and factors.size == shape[1] else None

    def codes(self, sample: Sample) -> dict[str, Any]:
        """The inputs as the quantised model takes them."""
        found = {}
        for name in self.source.inputs:
            tensor, value = self.source.tensors[name], np.asarray(sample[name])
            found[name] = as_input(tensor, value.astype(np.float32)) if tensor.quant is not None else value
        return found

    def _measure(self, number: int) -> None:
        sample = self.samples[number]
        floats = self._float_values(sample)
        rounded = {name: real_value(self.source.tensors[name], codes) for name, codes in self.codes(sample).items()}
        plain = self.twin.run(sample)  # weights as they are, nothing rounded
        reference = {**plain, **floats}
        formats = self.twin.formats
        coarse = self.twin.run(rounded, lambda name, v: fake(formats[name], v) if name in formats else v)
        exact = run_graph(self.source, self.codes(sample))
        for layer in self.layers:
            name = layer.format.name
            _look(layer, reference[name], self.first_axis)
            layer.own[ACTIVATION].add(reference[name], fake(layer.format, reference[name]))
            layer.accumulated[ACTIVATION].add(plain[name], coarse[name])
            layer.quantised.add(reference[name], real_value(layer.format, exact[name]))
            layer.measured.add(ACTIVATION)
            if self._has_float(layer, floats):
                layer.own[WEIGHTS].add(floats[name], self._alone(layer, reference))
                layer.accumulated[WEIGHTS].add(floats[name], plain[name])
                layer.measured.add(WEIGHTS)
        npu = self._measure_arithmetic(number, exact)
        for name, (quantised, chip) in self.outputs.items():
            wanted = self.output_reference(reference, name)
            quantised.add(wanted, real_value(self.source.tensors[name], exact[name]))
            chip.add(wanted, npu[name])

    def _has_float(self, layer: MeasuredLayer, floats: Mapping[str, Real]) -> bool:
        """The float model has its inputs and its result; one of its inputs is a constant."""
        inputs, outputs = layer.weighted.inputs, layer.op.outputs
        constant = {name for name in inputs if name and self.source.tensors[name].is_constant}
        return bool(constant) and all(n in floats or n in constant for n in (*inputs, *outputs) if n)

    def _alone(self, layer: MeasuredLayer, values: Mapping[str, Any], twin: Twin | None = None) -> Real:
        """What it gives for these inputs, with its own weights or those of another twin."""
        graph = (twin or self.twin).graph
        constants = {name: graph.tensors[name].data for name in layer.weighted.inputs if name}
        given = {**values, **{name: data for name, data in constants.items() if data is not None}}
        for op in layer.chain:
            given[op.outputs[0]] = run_real(graph, op, given)[0]
        result, limits = given[layer.format.name], self.twin.limits.get(layer.format.name)
        return result if limits is None else np.clip(result, *limits)

    def output_reference(self, values: Mapping[str, Real], name: str) -> Real:
        producer = self.source.producers.get(name)
        source = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else name
        return np.asarray(values.get(source, values[name]), np.float64).reshape(self.source.tensors[name].shape)

    @property
    def npu_ratio(self) -> float:
        """Noise per signal on the NPU, the mean over all outputs and their channels."""
        ratios = [npu.mean_ratio for _, npu in self.outputs.values()]
        return sum(ratios) / len(ratios)

    # ------------------------------------------------------------------------------------------------------ arithmetic

    @cached_property
    def owners(self) -> dict[str, MeasuredLayer]:
        """Tensor of the canonical graph -> the layer of the source whose work it is."""
        found, by_origin = {}, {node: layer for layer in self.layers for node in (layer.op.name, *layer.op.origin)}
        for op in self.canonical.ops:
            name = op.outputs[0]
            layer = self.by_tensor.get(name) or next((by_origin[o] for o in op.origin if o in by_origin), None)
            if layer is not None:
                found[name] = layer
        return found

    def _measure_arithmetic(self, number: int, source: Mapping[str, Any]) -> dict[str, Real]:
        """The NPU's integers against exact ones, both on the canonical graph; gives the outputs of the NPU."""
        graph, mapped = self.canonical, self.compiled.mapped
        inputs = program_inputs(self.compiled, self.codes(self.samples[number]))
        exact, chip = run_graph(graph, inputs), run_mapped(graph, mapped, inputs)
        for op in graph.ops:
            name, layer = op.outputs[0], self.owners.get(op.outputs[0])
            tensor = graph.tensors[name]
            if layer is None or op.name in mapped.reason_of or not is_format(tensor):
                continue
            got = mapped_op(mapped.context, op, exact)[0]
            worst = float(np.abs(got.astype(np.float64) - exact[name]).max(initial=0.0))
            layer.max_codes = max(layer.max_codes, worst)
            right, alone, together = (real_value(tensor, codes) for codes in (exact[name], got, chip[name]))
            if worst and number < COST_SAMPLES:
                layer.errors[number] = _as_layer(real_value(layer.format, source[layer.format.name]), right, alone)
            _add_flat(layer.own[ARITHMETIC], right, alone)
            _add_flat(layer.accumulated[ARITHMETIC], right, together)
            layer.measured.add(ARITHMETIC)
        return _outputs(self.compiled, chip)

    # ------------------------------------------------------------------------------------------------------------ cost

    def cost(self, layer: MeasuredLayer, part: str) -> float:
        """Noise per signal of the outputs when this loss is the only one, on the first samples."""
        powers = {name: self._power(name) for name in self.source.outputs}
        name, behind = layer.format.name, self.twin.behind(layer.format.name)
        for number, (sample, plain, floats) in enumerate(self._first_runs):
            reference = np.asarray(floats.get(name, plain[name]))
            if part == ACTIVATION:
                error = fake(layer.format, reference) - reference
            elif part == ARITHMETIC:
                error = layer.errors.get(number, np.zeros(()))
            else:
                error = self._alone(layer, {**plain, **floats}) - reference
            known = {key: value for key, value in plain.items() if key not in behind}
            right = self.twin.run(sample, known={**known, name: reference}) if name in floats else plain
            wrong = self.twin.run(sample, known={**known, name: reference + error})
            for output, power in powers.items():
                power.add(right[output], wrong[output])
        return _mean_ratio(powers)

    @cached_property
    def _first_runs(self) -> list[tuple[Sample, dict[str, Any], dict[str, Real]]]:
        """Without rounding, and in float."""
        return [(one, self.twin.run(one), self._float_values(one)) for one in self.samples[:COST_SAMPLES]]

    def layer_error(self, layer: MeasuredLayer, twin: Twin) -> Real:
        """Squares of the errors of a layer by output, with the weights of another twin, on the first sample."""
        _, plain, floats = self._first_runs[0]
        values = {**plain, **floats}
        found = self._alone(layer, values, twin)
        power = SignalPower(channel_axis(found.shape, self.first_axis) if found.ndim > 2 else found.ndim - 1)
        reference = np.asarray(values[layer.format.name])
        return power.add(reference, found).noise

    def ratio_of(self, graph: Graph) -> float:
        """Noise per signal of the outputs of a changed quantised graph, in exact arithmetic, over all samples."""

        def outputs(codes: dict[str, Any]) -> dict[str, Real]:
            values = run_graph(graph, codes)
            return {name: real_value(graph.tensors[name], values[name]) for name in self.source.outputs}

        return self._ratio(outputs)

    def chip_ratio(self, compiled: Compiled) -> float:
        """The same of another program of this model, with the NPU's integers."""

        def outputs(codes: dict[str, Any]) -> dict[str, Real]:
            return _outputs(compiled, run_mapped(compiled.graph, compiled.mapped, program_inputs(compiled, codes)))

        return self._ratio(outputs)

    def _ratio(self, outputs: Callable[[dict[str, Any]], dict[str, Real]]) -> float:
        """`outputs`: from the codes of the inputs to real values."""
        powers = {name: self._power(name) for name in self.source.outputs}
        for sample in self.samples:
            reference = {**self.twin.run(sample), **self._float_values(sample)}
            for name, value in outputs(self.codes(sample)).items():
                powers[name].add(self.output_reference(reference, name), value)
        return _mean_ratio(powers)


def _mean_ratio(powers: Mapping[str, SignalPower]) -> float:
    return float(np.mean([power.mean_ratio for power in powers.values()]))


def _outputs(compiled: Compiled, codes: Mapping[str, Any]) -> dict[str, Real]:
    """Real outputs of the program by the names and in the order of the model; the user may have asked for others."""
    source, graph = compiled.source, compiled.graph
    found = {}
    for ours, name in zip(source.outputs, graph.outputs, strict=True):
        value = real_value(graph.tensors[name], codes[name])
        if name in graph.turned:
            value = value.transpose(np.argsort(graph.turned[name]))
        found[ours] = value.reshape(source.tensors[ours].shape)
    return found


def _arranged(value: Real, shape: tuple[int, ...], turn: bool, channels_first: bool) -> Real | None:
    """A value of the float model as the quantised one has it; None if it is another."""
    if turn and value.ndim == len(shape) == 4:
        value = value.transpose((0, 3, 1, 2) if channels_first else (0, 2, 3, 1))
    plain = [tuple(size for size in one if size != 1) for one in (value.shape, shape)]
    return value.reshape(shape) if plain[0] == plain[1] else None


def _add_flat(power: SignalPower, reference: Real, value: Real) -> None:
    """Channels of the canonical graph may stand in another order: they count as one."""
    power.axis = None
    power.add(reference, value)


def _as_layer(source: Real, exact: Real, got: Real) -> Real:
    """The error of the canonical graph in the order of the model: its channels are last and perhaps sorted, so they are
    recognised by their exact values. What cannot be recognised counts as noise of the same power."""
    error = (got - exact).reshape(-1, got.shape[-1])
    for order in ((0, *range(2, source.ndim), 1), tuple(range(source.ndim))):
        turned = source.transpose(order) if len(order) == source.ndim and source.ndim > 1 else source
        columns = {np.ascontiguousarray(c).tobytes(): k for k, c in enumerate(_columns(exact).T)}
        places = [columns.get(np.ascontiguousarray(column).tobytes()) for column in _columns(turned).T]
        if turned.size == exact.size and None not in places:
            found = error[:, [place or 0 for place in places]].reshape(turned.shape)
            return found.transpose(np.argsort(order)) if turned.ndim > 1 else found
    noise = np.random.default_rng(0).normal(size=source.shape)
    return noise * float(np.sqrt(np.square(error).mean()))


def _columns(values: Real) -> Real:
    return values.reshape(-1, values.shape[-1] if values.ndim else 1)


def _look(layer: MeasuredLayer, value: Real, channels_first: bool) -> None:
    """What the format does to the float values."""
    facts, tensor = layer.facts, layer.format
    low, high = ((code - tensor.zero_point) * tensor.scale for code in tensor.code_range)
    facts.low, facts.high = min(facts.low, float(value.min())), max(facts.high, float(value.max()))
    above, below = value > high + tensor.scale / 2, value < low - tensor.scale / 2
    facts.above, facts.below = facts.above + int(above.sum()), facts.below + int(below.sum())
    facts.values += value.size
    limited = np.clip(value, low, high)
    facts.clip_noise += float(np.square(limited - value).sum())
    if len(facts.codes) < 4:
        facts.codes |= set(np.unique(fake(tensor, value))[:4].tolist())
    axis = channel_axis(value.shape, channels_first)
    if axis is not None:
        peaks = np.abs(value).max(axis=tuple(k for k in range(value.ndim) if k != axis))
        facts.peaks = np.maximum(facts.peaks if facts.peaks.size == peaks.size else 0.0, peaks)
