"""What was trained as the file that it came from: the same nodes and names, other weights, biases and scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from atonc.compiler.ir import Array
from atonc.insight.quantizing.write import four_bit_tensor
from atonc.insight.training.network import TrainingNetwork


def written(network: TrainingNetwork) -> Any:
    """The ONNX model with QuantizeLinear and DequantizeLinear."""
    from onnx import numpy_helper

    with torch.no_grad():
        values = _values(network)
    source, graph = network.graph.model, network.graph
    made = type(source)()
    made.CopyFrom(source)
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
