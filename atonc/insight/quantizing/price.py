"""What a quantised model costs on the board: compiled, not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.explain.own_steps import own_steps
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class QuantizationPrice:
    milliseconds: float | None
    cycles: int | None
    refusal: str = ""
    by_layer: Mapping[str, int] = field(default_factory=dict)  # cycles of each operator of the compiled model
    span_ms: tuple[float, ...] = ()  # how little and how much the milliseconds may be


def price(model: Any, board: str = "stm32n6570-dk") -> QuantizationPrice:
    """Predicted, as `atonc analyze` does; a model that cannot be compiled has a reason instead."""
    options = Options(verify=False, allow_float=True, board=board)
    progress.stage("compiling")
    try:
        data = model if isinstance(model, bytes) else model.SerializeToString()
        compiled = compile_graph(read_onnx(data, "quantised"), options)
    except AtoncError as error:
        return QuantizationPrice(None, None, str(error))
    cost = compiled.cost
    own = own_steps(compiled, cost.steps)
    by_layer = {name: sum(step.cycles for _, step in rows) for name, rows in own.items()}
    low, high = cost.band.around(cost.latency_ms)
    span = round(low, 4), round(high, 4)
    return QuantizationPrice(
        round(cost.latency_ms, 4), round(sum(step.cycles for step in cost.steps)), "", by_layer, span
    )
