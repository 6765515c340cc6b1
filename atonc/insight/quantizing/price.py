"""What a quantised model costs on the board, compiled and not run; what it gives in the chip's own arithmetic; and
which of several is taken, by what they lose and how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_graph, memories
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.inputs.inputs import as_input
from atonc.compiler.ir import Array
from atonc.compiler.passes.states import declare_states
from atonc.compiler.request.options import Options
from atonc.insight.evaluating.engine import Engine
from atonc.insight.explain.ours import own_steps
from atonc.insight.quantizing.graph import NO_STATES
from atonc.insight.quantizing.judge import Signal
from atonc.insight.quantizing.samples import STATELESS, Carried, Feed
from atonc.insight.quantizing.types import QuantizedCandidate, QuantizeOptions
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import FLASH, kind_of_label

EDGES = {"quantize": "--input-data-type", "dequantize": "--output-data-type"}


@dataclass(frozen=True)
class QuantizationPrice:
    milliseconds: float | None
    cycles: int | None
    refusal: str = ""
    by_layer: Mapping[str, int] = field(default_factory=dict)  # cycles of each operator of the compiled model
    span_ms: tuple[float, ...] = ()  # how little and how much the milliseconds may be
    flash_bytes: int | None = None  # of constants, every weight as a byte
    flash_bound: Mapping[str, int] = field(default_factory=dict)  # of the cycles by operator: those that flash bounds
    edges_ms: float = 0.0  # of the milliseconds: from and to float at the edges
    edges_saved_by: str = ""  # the options with which the application has the integers


def require_board(board: str) -> None:
    """A board that is not known would only show as a price that nobody can tell."""
    memories(Options(board=board))


def price(
    model: Any, board: str = "stm32n6570-dk", states: Mapping[str, str] = NO_STATES, resident: str = "0"
) -> QuantizationPrice:
    """Predicted, as `atonc analyze` does; a model that cannot be compiled has a reason instead."""
    try:
        return price_of(compiled_model(model, board, states, resident))
    except AtoncError as error:
        return QuantizationPrice(None, None, error.one_line)


def compiled_model(model: Any, board: str, states: Mapping[str, str] = NO_STATES, resident: str = "0") -> Compiled:
    """`states`: input -> output that the program keeps."""
    progress.stage("compiling")
    data = model if isinstance(model, bytes) else model.SerializeToString()
    graph = declare_states(read_onnx(data, "quantised"), [f"{output}={given}" for given, output in states.items()])
    return compile_graph(graph, Options(verify=False, allow_float=True, board=board, resident=resident))


def price_of(compiled: Compiled) -> QuantizationPrice:
    cost = compiled.cost
    own = own_steps(compiled, cost.steps)
    by_layer = {name: sum(row.cost.cycles for row in rows) for name, rows in own.items()}
    bound = {
        name: sum(row.cost.cycles for row in rows if kind_of_label(row.cost.bound_by) == FLASH)
        for name, rows in own.items()
    }
    edges = {op.name: op for op in compiled.graph.ops if op.kind in EDGES}
    codes = {op.kind: op.outputs[0] if op.kind == "quantize" else op.inputs[0] for op in edges.values()}
    saved_by = (f"{EDGES[kind]} {compiled.graph.tensors[codes[kind]].dtype}" for kind in EDGES if kind in codes)
    low, high = cost.band.around(cost.latency_ms)
    return QuantizationPrice(
        milliseconds=round(cost.latency_ms, 4),
        cycles=round(sum(step.cycles for step in cost.steps)),
        by_layer=by_layer,
        span_ms=(round(low, 4), round(high, 4)),
        flash_bytes=compiled.memory_use().weights_bytes,
        flash_bound=bound,
        edges_ms=round(sum(row.cost.milliseconds for name in edges for row in own.get(name, ())), 4),
        edges_saved_by=" ".join(saved_by),
    )


AT_ONCE = 4  # samples that are held in memory


def chip_outputs(
    compiled: Compiled, feeds: Sequence[Feed], carried: Carried = STATELESS, names: Sequence[str] = ()
) -> list[list[Array]]:
    """Real values of the outputs, or of those of these names, sample by sample, in the shapes of the model; `carried`:
    states of a model that was compiled without them."""
    outputs = compiled.source.outputs
    wanted = [outputs.index(name) for name in names or outputs]
    engine, found = Engine(compiled), list[list[Array]]()
    inputs = {name: compiled.source.tensors[name] for name in compiled.source.inputs}
    places = {given: outputs.index(output) for given, output in carried.states.items()}
    together, before = 1 if places else AT_ONCE, dict[str, Array]()
    for start in range(0, len(feeds), together):
        progress.stage("judging in the chip's arithmetic", start, len(feeds))
        some = [carried.fed(k, feeds[k], before) for k in range(start, min(start + together, len(feeds)))]
        found += engine.outputs([
            {name: feed[name] if t.quant is None else as_input(t, feed[name]) for name, t in inputs.items()}
            for feed in some
        ])  # fmt: skip
        before = {given: found[-1][place] for given, place in places.items()}
    return [[values[place] for place in wanted] for values in found]


def candidate_of(name: str, signal: Signal, cost: QuantizationPrice) -> QuantizedCandidate:
    return QuantizedCandidate(
        name, signal.db, signal.interval(), cost.milliseconds, cost.cycles, cost.refusal, span_ms=cost.span_ms
    )


def choose(candidates: Sequence[QuantizedCandidate], settings: QuantizeOptions) -> list[QuantizedCandidate]:
    """Marks one: the best signal, or the fastest of those that lose little enough against it; of times that read alike
    the best signal, where not speed alone counts."""
    found = allowed(candidates, settings)
    places = 9 if settings.objective == "speed" else 3
    key = min(found, key=lambda candidate: (round(candidate.time_ms, places), -candidate.snr_db))
    return [replace(candidate, chosen=candidate is key) for candidate in candidates]


def allowed(candidates: Sequence[QuantizedCandidate], settings: QuantizeOptions) -> list[QuantizedCandidate]:
    """Those that lose little enough; all of them where speed alone counts."""
    if settings.objective == "speed":
        return list(candidates)
    sound = [candidate for candidate in candidates if candidate.sound]
    least = max(candidate.snr_db for candidate in sound)
    least -= settings.max_loss_db if settings.objective == "balanced" else 0.0
    return [candidate for candidate in sound if candidate.snr_db >= least]
