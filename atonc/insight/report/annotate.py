"""The compiled graph as an ONNX file for Netron: every node says where it runs, what it takes and why."""

from __future__ import annotations

from typing import Any

from atonc.insight.explain.band import span_of
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.insight.report.columns import figures
from atonc.machine.base.errors import ToolError

DOMAIN = "atonc"


def annotated(network: NetworkView) -> bytes:
    """Nodes of a domain of our own: to look at, not to run."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ToolError("the package onnx is missing", remedy="pip install 'atonc[models]'") from None
    produced = {name for layer in network.layers for name in layer.outputs}
    read = {name for layer in network.layers for name in layer.inputs}
    shapes = {layer.outputs[0]: layer.shape for layer in network.layers if layer.outputs}

    def value(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.INT8, list(shapes.get(name, ())) or None)

    time = f"{network.latency_ms:.3f} ms predicted{span_of(network, 3)}"
    graph = helper.make_graph(
        [_node(helper, layer) for layer in network.layers if layer.outputs],
        network.name,
        [value(name) for name in sorted(read - produced)],
        [value(name) for name in sorted(produced - read)],
        value_info=[value(name) for name in sorted(produced & read)],
        doc_string=f"{network.model}: {time}, compiled by {network.tool}",
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(DOMAIN, 1)], producer_name="atonc", ir_version=8
    )
    return bytes(model.SerializeToString(deterministic=True))


def _node(helper: Any, layer: LayerView) -> Any:
    rules = [
        f"{one.rule.id}: {one.seen}" + (f". What to do: {one.remedy}" if one.remedy else "") for one in layer.decisions
    ]
    attributes = {
        "runs_on": layer.on,
        "epochs": list(layer.steps) or [-1],
        "milliseconds": float(layer.milliseconds),
        **figures(layer),
        "bound_by": ", ".join(f"{label} {100 * share:.0f} %" for label, share in layer.bound_by.items()) or "nothing",
        "chain": "; ".join(layer.chains) or "none",
        "modes": ", ".join(layer.modes) or "none",
        "rules": "\n".join(rules) or "none",
    }
    kind = f"{layer.kind} [{layer.on}]"
    return helper.make_node(
        kind, list(layer.inputs), list(layer.outputs), name=layer.name, domain=DOMAIN, **attributes
    )
