"""What a remedy would bring, found by trying it: the network is compiled again with the remedy applied.

A trial changes an option, the memories or a property of the model. What cannot be tried is priced at most with what
the layer costs today, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation
from atonc.compiler.lower import edge_advice
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.place import BoardMemory
from atonc.compiler.request.options import Options
from atonc.insight.explain import rules
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import Decision, LayerView, NetworkView, RemedyPrice
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass


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
        with progress.part(f"remedy {number} of {len(trials)}"):
            results.append((trial, _run(trial, view, options)))
    return replace(network, layers=tuple(_priced(layer, network, results) for layer in network.layers))


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


def _priced(layer: LayerView, before: NetworkView, results: Sequence[tuple[Trial, NetworkView | None]]) -> LayerView:
    return replace(layer, decisions=tuple(_price(d, layer, before, results) for d in layer.decisions))


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


def _as_the_compiler_wants(view: CompileView, options: Options) -> Compiled:
    return compile_graph(view.compiled.source, replace(options, on_cpu=()))


def _without_evidence(view: CompileView, options: Options) -> Compiled:
    return compile_graph(view.compiled.source, replace(options, allow_unproven=True))


def _without_flash(view: CompileView, options: Options) -> Compiled:
    compiled = view.compiled
    return compile_canonical(compiled.source, compiled.graph, options, _on_chip(view.board))


def _on_chip(board: BoardMemory) -> BoardMemory:
    return replace(board, pools=tuple(pool for pool in board.pools if pool in board.on_chip))


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
    Trial(frozenset({"ON-CPU"}), "compiled without --on cpu", _as_the_compiler_wants),
    Trial(frozenset({"CPU-EVIDENCE"}), "compiled with --allow-unproven", _without_evidence),
    Trial(frozenset({"CPU-SOFTMAX"}), "compiled without it and what follows", _without_softmax),
    Trial(frozenset({rules.BOUNDS["flash"].id}), "compiled with all constants on the chip", _without_flash),
    Trial(frozenset({rules.ZERO_POINT.id}), "compiled as if quantised with zero points of 0", _symmetric),
)
