"""What a quantised model costs on the board: compiled, not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_graph, memories
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.explain.ours import own_steps
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import FLASH, kind_of_label


@dataclass(frozen=True)
class QuantizationPrice:
    milliseconds: float | None
    cycles: int | None
    refusal: str = ""
    by_layer: Mapping[str, int] = field(default_factory=dict)  # cycles of each operator of the compiled model
    span_ms: tuple[float, ...] = ()  # how little and how much the milliseconds may be
    flash_bytes: int | None = None  # of constants, every weight as a byte
    flash_bound: Mapping[str, int] = field(default_factory=dict)  # of the cycles by operator: those that flash bounds


def require_board(board: str) -> None:
    """A board that is not known would only show as a price that nobody can tell."""
    memories(Options(board=board))


def price(model: Any, board: str = "stm32n6570-dk") -> QuantizationPrice:
    """Predicted, as `atonc analyze` does; a model that cannot be compiled has a reason instead."""
    try:
        return price_of(compiled_model(model, board))
    except AtoncError as error:
        return QuantizationPrice(None, None, str(error))


def compiled_model(model: Any, board: str) -> Compiled:
    progress.stage("compiling")
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return compile_graph(read_onnx(data, "quantised"), Options(verify=False, allow_float=True, board=board))


def price_of(compiled: Compiled) -> QuantizationPrice:
    cost = compiled.cost
    own = own_steps(compiled, cost.steps)
    by_layer = {name: sum(row.cost.cycles for row in rows) for name, rows in own.items()}
    bound = {
        name: sum(row.cost.cycles for row in rows if kind_of_label(row.cost.bound_by) == FLASH)
        for name, rows in own.items()
    }
    low, high = cost.band.around(cost.latency_ms)
    return QuantizationPrice(
        milliseconds=round(cost.latency_ms, 4),
        cycles=round(sum(step.cycles for step in cost.steps)),
        by_layer=by_layer,
        span_ms=(round(low, 4), round(high, 4)),
        flash_bytes=compiled.memory_use().weights_bytes,
        flash_bound=bound,
    )
