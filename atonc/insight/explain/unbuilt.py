"""The picture of a model that nobody has compiled yet: its operators, tensors and weights, without any figure."""

from __future__ import annotations

from atonc.compiler.ir import Graph, layer_name
from atonc.compiler.ops.shapes import macs
from atonc.compiler.place.usage import MemoryUse
from atonc.insight.explain import tensors
from atonc.insight.explain.types import UNBUILT, LayerFacts, LayerView, NetworkView
from atonc.machine.hw.machine import stm32n6


def model_view(model: str, graph: Graph) -> NetworkView:
    known, clocks = graph.tensors, stm32n6().clocks
    layers = []
    for op in graph.ops:
        inputs = tuple(name for name in op.inputs if name and not known[name].is_constant)
        facts = LayerFacts(
            name=layer_name(op),
            kind=op.kind,
            nodes=op.origin or (op.name,),
            inputs=inputs,
            outputs=op.outputs,
            shape=known[op.outputs[0]].shape,
            macs=macs(op, known),
            label=tensors.label(op, known),
            attributes=tensors.attributes(op),
            weights=tensors.weights(op, known),
        )
        layers.append(LayerView.of(facts, ()))
    held = sum(tensor.data.nbytes for tensor in known.values() if tensor.data is not None)
    flowing = [name for layer in layers for name in (*layer.inputs, *layer.outputs)]
    return NetworkView(
        name=graph.name,
        model=model,
        tool="",
        board="",
        npu_mhz=clocks.npu_mhz,
        cpu_mhz=clocks.cpu_mhz,
        steps=(),
        layers=tuple(layers),
        buffers=(),
        pools=(),
        memory=MemoryUse(weights_bytes=held),
        notes=graph.notes,
        basis=UNBUILT,
        inputs=tuple(tensors.tensor_view(known[name]) for name in graph.inputs),
        outputs=tuple(tensors.tensor_view(known[name]) for name in graph.outputs),
        tensors={name: tensors.tensor_view(known[name]) for name in flowing},
    )
