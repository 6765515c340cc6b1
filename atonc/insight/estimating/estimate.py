"""The program of a model as it is assumed, built once: nobody searches for a better one, nothing is verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, read_model, setting_of
from atonc.compiler.frontends.limits import DECLARE_C
from atonc.compiler.frontends.read import in_file
from atonc.compiler.ir import Graph, layer_name
from atonc.compiler.lower.alike import AlikeForms
from atonc.compiler.ops.shapes import graph_macs, macs
from atonc.compiler.passes import order
from atonc.compiler.price.program import program_cost
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import memories
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Candidate, Setting
from atonc.compiler.search.generators import GENERATORS, row_tiles
from atonc.compiler.search.log import Verdict
from atonc.compiler.search.loop import search
from atonc.compiler.select.choices import Choices
from atonc.compiler.select.decisions import FIRST
from atonc.insight.estimating.assume import QuietRun, has_shifted_weights, is_float, with_codes, with_plain_values
from atonc.insight.explain.ours import own_steps
from atonc.machine.base import progress
from atonc.machine.base.collecting import few_collections
from atonc.machine.base.errors import AtoncError, plain
from atonc.machine.base.frozen import dataclass

WEIGHTS = "random weights, also where the file has some: a compilation is slower where real ones need more precision"
SHIFTED = "uncertain: weights have zero points, as in old uint8 models: the latency may be a fifth more"
BATCH = "one inference: the model leaves its batch open"
CODES = "int8 of a float model, its softmax and arg max too, with scales that fit; its inputs and outputs are int8"
FIRST_PROGRAM = "the first program that fits the memory: a compilation searches for a faster one, and verifies it"
TAKEN = ("board", "mpool", "npu_mhz", "cpu_mhz", "flash_mbps", "cut_outputs", "fixed_shapes")  # options that count here


@dataclass(frozen=True)
class EstimatedLayer:
    name: str
    kind: str
    shape: tuple[int, ...]  # of its first output
    on_cpu: bool
    milliseconds: float  # 0 where it costs nothing, or shares another layer's epochs
    macs: int
    weights_bytes: int


@dataclass(frozen=True)
class Estimate:
    """Predicted of a program that nobody has written."""

    model: str
    board: str
    npu_mhz: float
    cpu_mhz: float
    latency_ms: float
    latency_low_ms: float  # error bounds of the prediction, if this were the program
    latency_high_ms: float
    cpu_ms: float  # of it
    energy_uj: float  # likely: core and memories
    ram_bytes: int
    spilled_bytes: int  # of it outside the chip
    flash_bytes: int  # weights, and constants of the CPU's layers
    macs: int
    layers: tuple[EstimatedLayer, ...]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]  # of the reader

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_figures(self) -> dict[str, Any]:
        """A row of a sweep."""
        names = ("model", "board", "npu_mhz", "cpu_mhz", "layers", "assumed")
        found = {name: value for name, value in self.as_dict().items() if name not in names}
        return {**found, "cpu_layers": sum(layer.on_cpu for layer in self.layers)}


def estimate(model: Path | Graph, options: Options | None = None) -> Estimate:
    """A float or quantised model: a file, or a graph that was read from one."""
    asked = replace(options or Options(), verify=False, allow_float=True)
    if isinstance(model, Graph):
        with few_collections():
            return _of_graph(model.name, model, asked)
    try:
        with few_collections():
            return _of_graph(plain(model.name), read_model(model, asked), asked)
    except AtoncError as error:
        other = f"an estimate has no C of yours; atonc analyze {model.name} --custom FILE predicts it, quantised"
        error.remedy = error.remedy.replace(DECLARE_C, f"{other} (docs/custom_operators.md)")
        raise in_file(model, error) from error.__cause__


def _of_graph(name: str, source: Graph, asked: Options) -> Estimate:
    told = {CODES: is_float(source), WEIGHTS: True, SHIFTED: has_shifted_weights(source), BATCH: source.open_batch}
    assumed = (*(text for text, of_this in told.items() if of_this), FIRST_PROGRAM)
    return _estimate(name, _built(assumed_setting(source, asked)), assumed, source.notes)


def assumed_setting(source: Graph, options: Options) -> Setting:
    progress.stage("simplifying the graph")
    coded = with_codes(source) if is_float(source) else source
    graph = with_plain_values(order.run(coded, options, own_weights=False))
    setting = setting_of(source, graph, options, memories(options), remember=False)
    return replace(setting, calibrate=lambda: [QuietRun(setting.graph)], alike=known_forms(), proved=False)


@cache
def known_forms() -> AlikeForms:
    """Those of this process: candidates of a search share most of their layers."""
    return AlikeForms()


def _built(setting: Setting) -> Candidate:
    """The first program, or one in row tiles where it needs memory outside the chip and they help; where it finds no
    memory, the search says what is tried next."""
    first = build(setting, FIRST)
    if first.built:
        tiled = (build(setting, one.decisions, first) for one in row_tiles.propose(first))
        return next((one for one in tiled if one.built and one.cycles < first.cycles), first)
    return search(setting, FIRST, tuple(one for one in GENERATORS if one.of == Verdict.NO_MEMORY))[0]


def _estimate(name: str, built: Candidate, assumed: tuple[str, ...], notes: tuple[str, ...]) -> Estimate:
    made, setting, graph = built.made, built.setting, built.setting.graph
    cost = program_cost(made.program, graph, setting.memory.pools, setting.target, count_runs=None)
    compiled = Compiled(
        source=graph,
        graph=graph,
        lowered=lambda: made.mapped,
        choices=Choices(made.mapped.reason_of, {}, {}, 0.0, (), made.mapped.stripes),  # no reasons: forms are shared
        scheduled=made.scheduled,
        layout=made.layout,
        program=made.program,
        findings=(),
        report=None,
        seconds=0.0,
        memory=setting.memory,
        target=setting.target,
        priced=(made.program, cost),
    )
    memory, (low, high) = compiled.memory_use(), cost.band.around(cost.latency_ms)
    return Estimate(
        model=name,
        board=setting.options.board,
        npu_mhz=cost.npu_mhz,
        cpu_mhz=cost.cpu_mhz,
        latency_ms=cost.latency_ms,
        latency_low_ms=low,
        latency_high_ms=high,
        cpu_ms=cost.cpu_ms,
        energy_uj=cost.energy.uj.likely,
        ram_bytes=memory.ram_bytes,
        spilled_bytes=memory.spilled_bytes,
        flash_bytes=memory.flash_bytes,
        macs=graph_macs(graph),
        layers=tuple(_layers(compiled)),
        assumed=assumed,
        notes=notes,
    )


def _layers(compiled: Compiled) -> Iterator[EstimatedLayer]:
    tensors, own = compiled.graph.tensors, own_steps(compiled, compiled.cost.steps)
    for op in compiled.graph.ops:
        constants = (tensors[name].data for name in dict.fromkeys(op.inputs) if name)
        yield EstimatedLayer(
            name=layer_name(op),
            kind=op.kind,
            shape=tensors[op.outputs[0]].shape,
            on_cpu=op.name in compiled.choices.on_cpu,
            milliseconds=sum(row.cost.milliseconds for row in own.get(op.name, ())),
            macs=macs(op, tensors),
            weights_bytes=sum(data.nbytes for data in constants if data is not None),
        )
