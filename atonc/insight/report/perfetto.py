"""A trace for Perfetto and chrome://tracing: epochs as slices, live memory as a counter."""

from __future__ import annotations

import json
from typing import Any

from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import NPU, NetworkView, StepView

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
