"""A quantised model as a PyTorch module: weights, biases and scales are its parameters, and every tensor that has codes
in the compiled network has them here. Real values become codes and real values again, rounded as the chip rounds;
gradients go through the rounding as if it were not there, and stop where codes end. What was trained becomes the file
that it came from: the same nodes and names, other weights, biases and scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.ir import Array
from atonc.compiler.request.options import Options
from atonc.insight.quantizing.graph import copied
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.scales import symmetric
from atonc.insight.quantizing.weights import EIGHT, FOUR, MOST_BIAS, CodeRange
from atonc.insight.quantizing.write import four_bit_tensor
from atonc.insight.training.coded_graph import CodedActivation, CodedGraph, CodedWeights
from atonc.insight.training.operators import OPERATORS, UntrainableForm, refusal
from atonc.insight.training.types import BY_RANGE, CHIP, LEARNED, PLAIN, TO_EVEN, PrepareOptions

LOW, HIGH = -128, 127


def rounded(values: Tensor, zero: Tensor | None = None) -> Tensor:
    """Nearest integers, with the gradient of the values themselves. Ties go away from zero once `zero` is added, as the
    NPU's shifts round, or to even numbers where it is None."""
    plain = values.detach()
    nearest = torch.round(plain)
    if zero is not None:
        tie = (plain - torch.trunc(plain)).abs() == 0.5
        nearest = torch.where(tie, plain + torch.where(plain + zero < 0, -0.5, 0.5), nearest)
    return values + (nearest - plain)  # exact: a number and its nearest integer differ by a number of its own precision


def coded(values: Tensor, scale: Tensor, zero: Tensor, to_even: bool) -> Tensor:
    """Values as a tensor of 8 bits holds them."""
    steps = rounded(values / scale, None if to_even else zero)
    return (torch.clamp(steps + zero, LOW, HIGH) - zero) * scale


def weight_codes(values: Tensor, scales: Tensor, low: int, high: int) -> Tensor:
    """Codes of weights, which were rounded on a computer: to even, as the quantiser does."""
    return torch.clamp(rounded(values / scales), low, high)


def range_form(low: Tensor, high: Tensor, plain: bool) -> tuple[Tensor, Tensor]:
    """Scale and zero point of a range, as the quantiser chooses them (`quantizing.ranges`: scale_of, symmetric)."""
    low, high = torch.clamp(low, max=0.0), torch.clamp(high, min=0.0)
    if plain and bool(low < 0):
        return torch.maximum(torch.maximum(high / HIGH, low / LOW), torch.tensor(1e-9)), torch.zeros(())
    scale = torch.clamp((high - low) / (HIGH - LOW), min=1e-9)
    return scale, torch.clamp(torch.round(LOW - low / scale), LOW, HIGH)


Ranges = dict[int, tuple[Tensor, Tensor]]  # by group: lowest and highest value


class TrainingNetwork(nn.Module):
    """The network as the chip computes it, on batches; `parameter_groups` are for an optimiser."""

    def __init__(self, model: bytes, options: PrepareOptions | None = None) -> None:
        super().__init__()
        self.graph, self.options = CodedGraph.of(model), options or PrepareOptions()
        self.attributes = {node.name: _attributes(node) for node in self.graph.nodes}
        for node in self.graph.nodes:
            if node.op_type not in OPERATORS:
                raise refusal(node, f"the operator {node.op_type} cannot be trained")
        learned = self.options.scales == LEARNED
        self._names: dict[str, str] = {}
        self.weights, self.weight_scales, self.biases = nn.ParameterDict(), nn.ParameterDict(), nn.ParameterDict()
        self.reals, self.scales = nn.ParameterDict(), nn.ParameterDict()
        constants = self.graph.constants
        for name, weights in self.graph.weights.items():
            scale = torch.tensor(constants[weights.scale])
            start = torch.tensor(constants[weights.codes]).float() * _along(scale, weights, constants)
            self.weights[self._key(name)] = nn.Parameter(start)
            self.weight_scales[self._key(name)] = nn.Parameter(torch.log2(scale), requires_grad=learned)
        for name, bias in self.graph.biases.items():
            values = constants[bias.codes].astype(np.float64) * constants[bias.scale]
            self.biases[self._key(name)] = nn.Parameter(torch.tensor(values, dtype=torch.float32))
        for name in self.graph.learnt:
            self.reals[self._key(name)] = nn.Parameter(torch.tensor(constants[name]))
        groups = sorted({one.group for one in self.graph.activations.values()})
        for group in groups:
            scale_value, zero = self._start_of(next(self.graph.members(group)))
            free = learned and not any(one.is_input for one in self.graph.members(group))
            self.scales[str(group)] = nn.Parameter(torch.log2(torch.tensor(scale_value)), requires_grad=free)
            self.register_buffer(f"zero_{group}", torch.tensor(float(zero)))
            self.register_buffer(f"low_{group}", torch.tensor(scale_value * (LOW - zero)))
            self.register_buffer(f"high_{group}", torch.tensor(scale_value * (HIGH - zero)))
        self._program: tuple[bytes, Compiled] | None = None  # the file, and what was compiled of it
        plain = {name: value for name, value in constants.items() if value.dtype == np.float32}
        self._plain = {name: torch.tensor(value) for name, value in plain.items()}
        self._encoded = {one.source: one for one in self.graph.activations.values()}
        self._readers: dict[str, list[str]] = {name: [] for name in self.graph.activations}
        for target, source in self.graph.decoded.items():
            self._readers[source].append(target)

    def __getstate__(self) -> dict[str, Any]:
        """A copy compiles its own program."""
        return {**self.__dict__, "_program": None}

    def _key(self, name: str) -> str:
        """Dots are not allowed in names of parameters."""
        return self._names.setdefault(name, name.replace(".", "/"))

    def _start_of(self, one: CodedActivation) -> tuple[float, int]:
        scale, zero = (self.graph.constants[name].reshape(()).item() for name in (one.scale, one.zero))
        if self.options.zero_points == PLAIN and not one.is_input and zero not in (0, LOW):
            found = symmetric(scale * (LOW - zero), scale * (HIGH - zero))
            return found.scale, found.zero
        return scale, zero

    # ----------------------------------------------------------------------------------------------------- parameters

    def parameter_groups(self, rate: float, scale_rate: float | None = None) -> list[dict[str, Any]]:
        """For an optimiser: weights and biases at the rate; scales, which are logarithms, at their own."""
        values = [*self.weights.values(), *self.biases.values(), *self.reals.values()]
        scales = [one for one in (*self.weight_scales.values(), *self.scales.values()) if one.requires_grad]
        groups = [{"params": values, "lr": rate}]
        return [*groups, {"params": scales, "lr": rate if scale_rate is None else scale_rate}] if scales else groups

    def form(self, group: int) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the activations of a group, as they are now."""
        zero, exponent = getattr(self, f"zero_{group}"), self.scales[str(group)]
        if any(one.is_input for one in self.graph.members(group)):  # the application writes those codes
            return torch.exp2(exponent), zero
        if self.options.scales == BY_RANGE:
            scale, zero = range_form(
                getattr(self, f"low_{group}"), getattr(self, f"high_{group}"), self.options.zero_points == PLAIN
            )
            exponent = torch.log2(scale)
        return torch.exp2(rounded(exponent) if self.options.power_of_two else exponent), zero

    def weight_form(self, name: str) -> tuple[Tensor, Tensor]:
        """Codes and scales of weights; scales leave room for the bias, as in the quantiser."""
        weights = self.graph.weights[name]
        values, bounds = self.weights[self._key(name)], code_range(weights)
        if self.options.scales == BY_RANGE:
            axes = [axis for axis in range(values.ndim) if axis != weights.axis]
            top = values.detach().abs().amax(axes) if weights.axis is not None else values.detach().abs().amax()
            scales = torch.clamp(top / bounds.high, min=1e-8)
        else:
            scales = torch.exp2(self.weight_scales[self._key(name)])
        if weights.bias and weights.source is not None:
            bias = self.biases[self._key(weights.bias)].detach().abs()
            if bias.shape == scales.shape:
                scales = torch.maximum(scales, bias / (MOST_BIAS * self.form(weights.source)[0].detach()))
        codes = weight_codes(values, _along(scales, weights, self.graph.constants), bounds.low, bounds.high)
        return codes, scales

    def bias_form(self, name: str, weight_scales: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes and scales of a bias; `weight_scales`: where they are known already."""
        bias = self.graph.biases[name]
        others = self.weight_form(bias.weights)[1] if weight_scales is None else weight_scales
        scales = self.form(bias.source)[0] * others
        return rounded(self.biases[self._key(name)] / scales), scales

    # ------------------------------------------------------------------------------------------------------- computing

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Outputs of a batch in the order of the module's; one tensor where there is one. While it trains, what lies
        between codes is real numbers; else the answers are those of the compiled program, with the same gradients."""
        batched = [self._as_batch(name, value) for name, value in zip(self.graph.inputs, inputs, strict=True)]
        compiled = not self.training and self.options.rounding == CHIP
        found: Sequence[Tensor] = ()
        if not compiled or torch.is_grad_enabled():
            constants, forms = self._constants(), {one.group: self.form(one.group) for one in self._activations()}
            found, ranges = torch.vmap(lambda *values: self._run(values, constants, forms))(*batched)
            if self.training and self.options.scales == BY_RANGE:
                self._follow(ranges)
        if compiled:
            answers = self._as_compiled(batched)
            found = [y - y.detach() + exact for y, exact in zip(found, answers, strict=True)] if found else answers
        flat = tuple(value[:, 0] if self._single and value.ndim > 1 and value.shape[1] == 1 else value
                     for value in found)  # fmt: skip
        return flat[0] if len(flat) == 1 else flat

    def _as_compiled(self, batched: Sequence[Tensor]) -> list[Tensor]:
        """Outputs as the chip gives them: whatever the compiler makes of layers (sums that are cut to 16 bits, tables,
        layers in pieces) is in the program, so there is no second description of it that could differ. Compiled anew
        where weights or scales have changed."""
        data = written(self).SerializeToString(deterministic=True)
        if self._program is None or self._program[0] != data:
            self._program = data, compiled_model(data, Options().board)
        arrays = {name: value.detach().numpy() for name, value in zip(self.graph.inputs, batched, strict=True)}
        feeds = [{name: values[k] for name, values in arrays.items()} for k in range(len(batched[0]))]
        outputs = zip(*chip_outputs(self._program[1], feeds), strict=True)
        return [torch.tensor(np.stack(values), dtype=torch.float32) for values in outputs]

    @property
    def _single(self) -> bool:
        """Whether the file has a batch of one, which a batch of samples takes the place of."""
        return all(shape[:1] == (1,) for shape in self.graph.shapes.values())

    def _as_batch(self, name: str, value: Tensor) -> Tensor:
        return value[:, None] if self._single and value.ndim == len(self.graph.shapes[name]) else value

    def _activations(self) -> Iterator[CodedActivation]:
        return iter(self.graph.activations.values())

    def _constants(self) -> dict[str, Any]:
        """What nodes read besides activations, as it is now: decoded weights and biases, real and whole numbers."""
        found: dict[str, Any] = {**self.graph.constants, **self._plain}
        by_weights = {}
        for name, weights in self.graph.weights.items():
            codes, by_weights[name] = self.weight_form(name)
            found[name] = codes * _along(by_weights[name], weights, self.graph.constants)
        for name, bias in self.graph.biases.items():
            codes, scales = self.bias_form(name, by_weights[bias.weights])
            found[name] = codes * scales
        found.update({name: self.reals[self._key(name)] for name in self.graph.learnt})
        return found

    def _run(
        self, inputs: Sequence[Tensor], constants: Mapping[str, Any], forms: Mapping[int, tuple[Tensor, Tensor]]
    ) -> tuple[tuple[Tensor, ...], Ranges]:
        """One sample."""
        values, ranges = {**constants, **dict(zip(self.graph.inputs, inputs, strict=True))}, Ranges()
        for name in self.graph.inputs:
            self._encode(name, values, forms, ranges)
        for node in self.graph.nodes:
            args = [values[name] if name else None for name in node.input]
            try:
                made = OPERATORS[node.op_type](args, self.attributes[node.name])
            except UntrainableForm as error:
                raise refusal(node, f"{node.op_type} has {error}") from None
            for name, value in zip(node.output, made if isinstance(made, tuple) else (made,), strict=False):
                values[name] = value
                self._encode(name, values, forms, ranges)
        return tuple(values[name] for name in self.graph.outputs), ranges

    def _encode(
        self,
        name: str,
        values: dict[str, Any],
        forms: Mapping[int, tuple[Tensor, Tensor]],
        ranges: Ranges,
    ) -> None:
        """A tensor that QuantizeLinear reads, as its readers see it."""
        one = self._encoded.get(name)
        if one is None:
            return
        value = values[name]
        if self.training and self.options.scales == BY_RANGE:
            low, high = value.detach().amin(), value.detach().amax()
            before = ranges.get(one.group, (low, high))
            ranges[one.group] = torch.minimum(low, before[0]), torch.maximum(high, before[1])
        decoded = coded(value, *forms[one.group], one.is_input or self.options.rounding == TO_EVEN)
        values.update(dict.fromkeys(self._readers[one.name], decoded))

    def _follow(self, ranges: Ranges) -> None:
        """Moving ranges, after the batch."""
        keep = self.options.momentum
        for group, (low, high) in ranges.items():
            for word, seen in (("low", low.amin()), ("high", high.amax())):
                buffer = getattr(self, f"{word}_{group}")
                buffer.copy_(keep * buffer + (1 - keep) * seen)


def code_range(weights: CodedWeights) -> CodeRange:
    return FOUR if weights.bits == 4 else EIGHT


def _along(scales: Tensor, weights: CodedWeights, constants: Mapping[str, Any]) -> Tensor:
    """Scales in the shape of the weights' channels."""
    if weights.axis is None:
        return scales
    rank = constants[weights.codes].ndim
    return scales.reshape([-1 if axis == weights.axis else 1 for axis in range(rank)])


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute} | {"outputs": len(node.output)}


def written(network: TrainingNetwork) -> Any:
    """The ONNX model with QuantizeLinear and DequantizeLinear."""
    from onnx import numpy_helper

    with torch.no_grad():
        values = _values(network)
    graph = network.graph
    made = copied(graph.model)
    four = {weights.codes for weights in graph.weights.values() if weights.bits == 4}
    for proto in made.graph.initializer:
        if proto.name in values:
            value = values[proto.name]
            proto.CopyFrom(
                four_bit_tensor(value, proto.name)
                if proto.name in four
                else numpy_helper.from_array(value.reshape(tuple(proto.dims)), proto.name)
            )
    made.producer_name = "atonc.torch"
    return made


def _values(network: TrainingNetwork) -> dict[str, Array]:
    """By name of the constant."""
    graph, found = network.graph, dict[str, Array]()
    for one in graph.activations.values():
        scale, zero = network.form(one.group)
        found |= {one.scale: scale.numpy().astype(np.float32), one.zero: zero.numpy().astype(np.int8)}
    for name, weights in graph.weights.items():
        codes, scales = network.weight_form(name)
        found |= {weights.codes: codes.numpy().astype(np.int8), weights.scale: scales.numpy().astype(np.float32)}
    for name, bias in graph.biases.items():
        codes, scales = network.bias_form(name)
        found |= {bias.codes: codes.double().numpy().astype(np.int32), bias.scale: scales.numpy().astype(np.float32)}
    return found | {name: network.reals[network._key(name)].detach().numpy() for name in graph.learnt}
