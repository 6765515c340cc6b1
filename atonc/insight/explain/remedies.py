"""What a remedy would bring, found by trying it: the network is compiled again with the remedy applied.

A trial changes an option, the memories or a property of the model. What cannot be tried is priced at most with what
the layer costs today, and says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation
from atonc.compiler.lower import edge_advice
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.insight.explain import rules
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import BufferView, Decision, LayerView, NetworkView, RemedyPrice, StepView
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import size_text


@dataclass(frozen=True)
class Trial:
    """One change, for all the layers whose rule it answers."""

    rules: frozenset[str]
    how: str
    compile: Callable[[CompileView, Options], Compiled]


def priced(
    view: CompileView, network: NetworkView, options: Options, wanted: Collection[str] | None = None
) -> NetworkView:
    """The network with a price on every decision, or on those whose rules are `wanted`."""
    options = replace(options, verify=False)
    present = {d.rule.id for layer in network.layers for d in layer.decisions if _as_usual(d)}
    present = present if wanted is None else present & set(wanted)
    trials = [trial for trial in TRIALS if trial.rules & present]
    results = []
    for number, trial in enumerate(trials, 1):
        with progress.part(f"action {number} of {len(trials)}"):
            results.append((trial, _run(trial, view, options)))
    layers = (
        replace(layer, decisions=tuple(_price(one, layer, network, results) for one in layer.decisions))
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers))


def _as_usual(decision: Decision) -> bool:
    """Whether its remedy is the one of its rule, which the trials try."""
    return bool(decision.remedy) and decision.remedy == decision.rule.remedy


def _run(trial: Trial, view: CompileView, options: Options) -> NetworkView | None:
    """None where the change is not possible: the model does not allow it, or it does not fit."""
    try:
        compiled = trial.compile(view, options)
    except AtoncError:
        return None
    cost, macs = compiled.cost, graph_macs(compiled.graph)
    return network_view(CompileView(view.model, view.name, compiled.memory, compiled, cost, macs, options))


def _price(
    decision: Decision, layer: LayerView, before: NetworkView, results: Sequence[tuple[Trial, NetworkView | None]]
) -> Decision:
    if not _as_usual(decision):
        return decision
    for trial, after in results:
        if decision.rule.id in trial.rules and after is not None:
            same = next((other for other in after.layers if other.name == layer.name), None)
            gained = layer.cycles - (same.cycles if same is not None else 0)
            saved = before.memory.ram_bytes - after.memory.ram_bytes
            price = RemedyPrice(gained, saved, True, trial.how)
            helps = saved > 0 or (gained > 0 and after.cycles < before.cycles)
            return replace(decision, price=price, remedy=decision.remedy if helps else "")
    return replace(
        decision, price=RemedyPrice(layer.cycles, 0, False, f"at most the {layer.cycles:,} cycles that the layer takes")
    )


# ------------------------------------------------------------------------------------------------------------- trials


def _integer_inputs(view: CompileView, options: Options) -> Compiled:
    graph = view.compiled.graph
    read = {name: [op.outputs[0] for op in graph.consumers.get(name, [])] for name in graph.inputs}
    return compile_graph(view.compiled.source, replace(options, input_type=_types(graph, list(read.values()))))


def _integer_outputs(view: CompileView, options: Options) -> Compiled:
    graph = view.compiled.graph
    made = [[*graph.producers[name].inputs[:1]] if name in graph.producers else [] for name in graph.outputs]
    return compile_graph(view.compiled.source, replace(options, output_type=_types(graph, made)))


def _types(graph: Graph, beside: Sequence[Sequence[str]]) -> str:
    """For each edge the width of the codes beside it: int16 where those have 16 bits, else int8."""
    wide = [any(graph.tensors[name].dtype == "int16" for name in names) for names in beside]
    return ",".join("int16" if one else "int8" for one in wide)


def _with(**changed: Any) -> Callable[[CompileView, Options], Compiled]:
    return lambda view, options: compile_graph(view.compiled.source, replace(options, **changed))


def _without_flash(view: CompileView, options: Options) -> Compiled:
    compiled, board = view.compiled, view.board
    on_chip = replace(board, pools=tuple(pool for pool in board.pools if pool in board.on_chip))
    return compile_canonical(compiled.source, compiled.graph, options, on_chip)


def _symmetric(view: CompileView, options: Options) -> Compiled:
    """The same network as if its activations had been quantised symmetrically; only its cost is of interest."""
    compiled = view.compiled
    return compile_canonical(compiled.source, _zeroed(compiled.graph), options, view.board)


def _without_softmax(view: CompileView, options: Options) -> Compiled:
    """The network cut before every softmax at its end: what --cut-output-tensors gives."""
    compiled = view.compiled
    return compile_canonical(compiled.source, _cut(compiled.graph, "softmax"), options, view.board)


def _cut(graph: Graph, kind: str) -> Graph:
    """Ends at the inputs of the last operators of a kind; what lies behind them only is left out."""
    ends = dict[str, str]()
    for op in graph.ops:  # in the order of execution, so that ends pass through what follows
        last = op.kind == kind and edge_advice.holds(op, graph)
        source = op.inputs[0] if last else next((ends[n] for n in op.inputs if n in ends), "")
        if source:
            ends |= dict.fromkeys(op.outputs, source)
    wanted = list(dict.fromkeys(ends.get(name, name) for name in graph.outputs))
    needed, kept = set(wanted), list[Op]()
    for op in reversed(graph.ops):
        if needed & set(op.outputs):
            kept.append(op)
            needed |= set(op.inputs)
    return replace(graph, ops=tuple(reversed(kept)), outputs=tuple(wanted))


def _zeroed(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for name, tensor in graph.tensors.items():
        if tensor.quant is not None and not tensor.is_constant and tensor.zero_point:
            quant = Quantisation(tensor.quant.scales, np.zeros_like(tensor.quant.zero_points), tensor.quant.axis)
            tensors[name] = replace(tensor, quant=quant)
    return replace(graph, tensors=tensors)


TRIALS = (
    Trial(frozenset({"CPU-QUANTIZE"}), "compiled with --input-data-type of integers", _integer_inputs),
    Trial(frozenset({"CPU-DEQUANTIZE"}), "compiled with --output-data-type of integers", _integer_outputs),
    Trial(frozenset({"ON-CPU"}), "compiled without --on cpu", _with(on_cpu=())),
    Trial(frozenset({"CPU-EVIDENCE"}), "compiled with --allow-unproven", _with(allow_unproven=True)),
    Trial(frozenset({"CPU-SOFTMAX"}), "compiled without it and what follows", _without_softmax),
    Trial(frozenset({rules.BOUNDS["flash"].id}), "compiled with all constants on the chip", _without_flash),
    Trial(frozenset({rules.ZERO_POINT.id}), "compiled as if quantised with zero points of 0", _symmetric),
)


@dataclass(frozen=True)
class Peak:
    step: StepView
    live_bytes: int
    buffers: tuple[BufferView, ...]  # largest first


@dataclass(frozen=True)
class Demand:
    """What a build needs: `fits` is False when even external memory is too small, and cycles are then unknown."""

    ram_bytes: int
    spilled_bytes: int
    cycles: int
    fits: bool = True


@dataclass(frozen=True)
class FitLever:
    """A change that the user can make, with what it does to memory and time."""

    what: str
    options: Options
    before: Demand
    after: Demand

    @property
    def moves(self) -> bool:
        """Whether the bytes only go elsewhere: the application must find room for them."""
        kept = (self.options.inputs_allocation, self.options.outputs_allocation)
        return kept != (True, True)

    @property
    def saved_bytes(self) -> int:
        return self.before.ram_bytes - self.after.ram_bytes

    @property
    def unspilled_bytes(self) -> int:
        return self.before.spilled_bytes - self.after.spilled_bytes

    @property
    def cycles(self) -> int:
        """That it takes longer; 0 where one of the two builds does not exist."""
        return self.after.cycles - self.before.cycles if self.before.fits and self.after.fits else 0

    def __str__(self) -> str:
        parts = [f"-{size_text(self.saved_bytes)}" if self.saved_bytes > 0 else "no RAM"]
        if self.unspilled_bytes and self.before.fits:
            parts.append(f"{size_text(self.unspilled_bytes)} less in external RAM")
        if self.before.fits and self.after.fits and self.before.cycles:
            parts.append(f"{100 * self.cycles / self.before.cycles:+.1f} % cycles")
        if not self.before.fits and self.after.fits:
            parts.append("then it fits")
        if not self.after.fits:
            parts.append("not enough alone")
        return f"{self.what}: {', '.join(parts)}"


def peak(network: NetworkView) -> Peak | None:
    """The step at which most bytes of RAM live."""
    live = live_bytes(network)
    if not any(live.values()):
        return None
    worst = max(network.steps, key=lambda step: (live[step.number], -step.number))
    alive = [b for b in distinct(network.buffers) if b.first <= worst.number <= b.last and b.size_bytes]
    found = sorted((b for b in alive if b.kind != BufferKind.CONSTANT), key=lambda b: (-b.size_bytes, b.name))
    return Peak(worst, live[worst.number], tuple(found))


def levers(source: Graph, options: Options, at_peak: Collection[str] = ()) -> tuple[FitLever, ...]:
    """All changes that lower the demand, the best first. Every one is compiled.

    `at_peak`: kinds of the buffers that live at the peak; without an input among them none about inputs is tried.
    """
    before = demand(source, options)
    changes = list(_changes(source, options, at_peak or ("input", "output")))
    found = []
    for number, (what, changed) in enumerate(changes, 1):
        with progress.part(f"option {number} of {len(changes)}"):
            found.append(FitLever(what, changed, before, demand(source, changed)))
    useful = [one for one in found if one.saved_bytes > 0 or one.unspilled_bytes > 0]
    return tuple(sorted(useful, key=lambda one: (one.moves, -one.unspilled_bytes, -one.saved_bytes, one.what)))


def demand(source: Graph, options: Options, compile: Callable[[Graph, Options], Compiled] = compile_graph) -> Demand:
    options = replace(options, verify=False)
    try:
        compiled = compile(source, options)
    except PlacementError as error:
        return Demand(error.shortage.demand_bytes, max(0, error.shortage.gap_bytes), 0, fits=False)
    except AtoncError:
        return Demand(1 << 40, 1 << 40, 0, fits=False)  # not possible for this model: never useful
    memory = compiled.memory_use(epoch_controller=options.epoch_controller)
    return Demand(memory.ram_bytes, memory.spilled_bytes, compiled.cost.cycles)


def _changes(source: Graph, options: Options, at_peak: Collection[str]) -> Iterator[tuple[str, Options]]:
    inputs, outputs = "input" in at_peak, "output" in at_peak
    if inputs and _has_floats(source, source.inputs) and not options.input_type:
        yield "int8 input (--input-data-type int8)", replace(options, input_type="int8")
    if outputs and _has_floats(source, source.outputs) and not options.output_type:
        yield "int8 output (--output-data-type int8)", replace(options, output_type="int8")
    if options.prefer != "memory":
        yield "--prefer memory", replace(options, prefer="memory")
    if inputs and options.inputs_allocation:
        yield "input in the application's memory (--no-inputs-allocation)", replace(options, inputs_allocation=False)
    if outputs and options.outputs_allocation:
        yield "output in the application's memory (--no-outputs-allocation)", replace(options, outputs_allocation=False)


def _has_floats(source: Graph, names: Iterable[str]) -> bool:
    return any(source.tensors[name].dtype == "float32" for name in names)


def shortage_lines(source: Graph, options: Options, error: PlacementError) -> list[str]:
    """What the user of a model that does not fit wants to know, behind the error itself."""
    found = error.shortage
    lines = [f"live in step {found.peak_step + 1} ({found.peak_title}):"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.live[:12]]
    return [*lines, *lever_lines(levers(source, options, {str(b.kind) for b in found.live}))]


def peak_lines(found: Peak | None, most: int = 6) -> list[str]:
    if found is None:
        return []
    lines = [f"peak of memory: {found.live_bytes:,} bytes live in epoch {found.step.number} ({found.step.title})"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.buffers[:most]]
    more = len(found.buffers) - most
    return [*lines, f"  and {more} more"] if more > 0 else lines


def lever_lines(found: Sequence[FitLever]) -> list[str]:
    if not found:
        return ["no option lowers the demand; a smaller input or fewer channels would"]
    return ["what would help, each tried:", *(f"  {number}. {one}" for number, one in enumerate(found, 1))]
