"""The compiled graph as an ONNX file for Netron: every node says where it runs, what it takes and why."""

from __future__ import annotations

import json
from typing import Any

from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import NPU, LayerView, NetworkView, StepView, span_of
from atonc.insight.report.columns import figures
from atonc.machine.base.errors import ToolError
from atonc.machine.base.words import ms_text

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

    time = f"{ms_text(network.latency_ms, 3)} predicted{span_of(network, 3)}"
    graph = helper.make_graph(
        [_onnx_node(helper, layer) for layer in network.layers if layer.outputs],
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


def _onnx_node(helper: Any, layer: LayerView) -> Any:
    rules = [f"{one.rule.id}: {one.seen}" + (f". Fix: {one.remedy}" if one.remedy else "") for one in layer.decisions]
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
    return helper.make_node(kind, list(layer.inputs), list(layer.outputs), name=layer.name, domain=DOMAIN, **attributes)


_PROCESS = 1
_LANES = {"npu": 1, "cpu": 2, "hybrid": 2}


def trace(network: NetworkView) -> bytes:
    """Times are microseconds from the start of the inference."""
    events: list[dict[str, Any]] = [
        _name("process_name", 0, f"{network.model} ({network.tool})"),
        _name("thread_name", 1, "NPU"),
        _name("thread_name", 2, "CPU"),
    ]
    live, now = live_bytes(network), 0.0
    for step in network.steps:
        events += [_slice(step, now), _counter(now, live.get(step.number, 0))]
        now += 1000 * step.milliseconds
    document = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(network.reproduce)}
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _name(what: str, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": thread, "name": what, "args": {"name": text}}


def _slice(step: StepView, start_us: float) -> dict[str, Any]:
    details: dict[str, Any] = {"cycles": step.cycles, "bound_by": step.bound_by, "layer": step.layer}
    if step.on == NPU:
        details |= {"chains": "; ".join(step.chains), "modes": ", ".join(step.modes), "bytes": step.bytes_moved}
    return {
        "ph": "X",
        "pid": _PROCESS,
        "tid": _LANES.get(step.on, 2),
        "ts": round(start_us, 4),
        "dur": round(1000 * step.milliseconds, 4),
        "name": f"{step.number} {step.title}",
        "cat": step.on,
        "args": details,
    }


def _counter(at_us: float, size_bytes: int) -> dict[str, Any]:
    return {"ph": "C", "pid": _PROCESS, "ts": round(at_us, 4), "name": "live bytes", "args": {"bytes": size_bytes}}
