"""Layers of networks compiled by ST's releases 2.x against `--numerics 2.x`: the same inputs, are the outputs equal?

DIR holds the files that `ST_SETS.csv` lists, as `owner+name[@commit]/path`. ST's program runs on the emulator with
every buffer recorded; wherever a tensor of the model is found in memory, the operator that computes it is run in the
integer semantics of our own lowering, on the values that ST's program had in front of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare import layers
from atonc.compiler.compare.layers import Match, ObservedBuffer, to_tensor
from atonc.compiler.compile.pipeline import target_of, typical_runs
from atonc.compiler.inputs.images import is_picture
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.facts import Facts
from atonc.compiler.lower.map_ops import Mapped, map_ops
from atonc.compiler.lower.semantics.run import mapped_op
from atonc.compiler.ops import OpResult, is_move, run_op, start_values
from atonc.compiler.passes import order
from atonc.compiler.plan.policy import whole_room
from atonc.compiler.request.options import Options
from atonc.insight.runs import runs
from atonc.insight.runs.runs import EdgeBuffers
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork
from benchmarks.shared import tables as markdown
from benchmarks.shared.declare import IMAGES, ONE_FETCHED, ONLY, WRITE, Report, argument
from benchmarks.shared.fetched import Compilation, complete

GROUP = "st"
ARGUMENTS = (
    ONE_FETCHED,
    IMAGES,
    ONLY,
    argument("--layers", action="store_true", help="name the layers that differ"),
    WRITE,
)

NUMERICS = "2.x"
MANY = 512  # output channels that one ARITH has coefficients for


def make_input(net: EmulatedNetwork, info: BufferInfo, photo: Path, seed: int) -> Any:
    """The photo for what takes pictures, else something synthetic."""
    if is_picture(tensors.io_shape(info)) and min(tensors.io_shape(info)[1:3]) != 1:
        return runs.image_input(runs.edges_of(net), info, photo)
    return runs.made(EdgeBuffers((info,), net.network.internals), seed)[info.name]


@dataclass(frozen=True)
class Row:
    """One operator of one network on one input."""

    family: str
    op: str
    shape: tuple[int, ...]
    values: int
    different: int
    most: float


@dataclass
class Network:
    title: str
    tool: str
    rows: list[Row] = field(default_factory=list)
    outputs: int = 0  # values of the network's outputs that were found in memory
    outputs_different: int = 0  # from a run of our own, from the input on


class Walk(layers._GraphWalk):
    """The layer check, with our lowering in place of exact arithmetic."""

    def __init__(self, mapped: Mapped, *given: Any) -> None:
        super().__init__(*given)
        self.mapped, self.rows = mapped, []
        self.on_cpu = mapped.reason_of

    def _compare(self, op: Op, tensor: Tensor, result: OpResult, match: Match) -> layers.LayerResult:
        read = [name for name in op.inputs if name and not self.graph.tensors[name].is_constant]
        if all(name in self.matches or name in self.graph.inputs for name in read):
            self.rows.append(self._row(op, tensor, match))
        return super()._compare(op, tensor, result, match)

    def _row(self, op: Op, tensor: Tensor, match: Match) -> Row:
        kind = np.float32 if tensor.is_float else np.int64
        ours = np.asarray(self._ours(op)[op.outputs.index(tensor.name)]).reshape(-1).astype(kind)
        theirs = to_tensor(match.values, tensor).reshape(-1).astype(kind)
        difference = np.abs(theirs.astype(np.float64) - ours)
        family = family_of(self.graph, op, op.name in self.on_cpu)
        return Row(
            family, op.name, tensor.shape, ours.size, int((difference > 0).sum()), float(difference.max(initial=0))
        )

    def _ours(self, op: Op) -> list[Any]:
        if op.name in self.on_cpu:
            return [result.codes for result in run_op(self.graph, op, self.values)]
        return mapped_op(self.mapped.context, op, self.values)


def family_of(graph: Graph, op: Op, on_cpu: bool) -> str:
    if is_move(op.kind):
        return "moves (concat, pad, slice, resize, ...)"
    if on_cpu:
        return f"{op.kind} on the CPU"
    if op.kind == "conv":
        weights = graph.tensors[op.inputs[1]].shape
        kind = "depthwise" if op.attrs.get("groups", 1) > 1 else "conv"
        kind = f"{kind} {weights[1]}x{weights[2]}"
        return f"{kind}, more than {MANY} outputs" if weights[0] > MANY else kind
    return op.kind


def judge(item: Compilation, photos: list[Path]) -> Network:
    network = Network(item.title, item.tool)
    blobs = item.ecblobs if item.epoch_controller else None
    options = runs.RunOptions(item.network_c, weights=item.weights[:1], blobs=blobs, observe=True)
    net = runs.load(options)
    source = runs.read_model(item.model_file)
    graph = order.run(source, Options(numerics=NUMERICS))
    target = target_of(Options())
    facts = Facts(graph, target, whole_room(target.machine), NUMERICS, lambda: typical_runs(graph))
    mapped = map_ops(facts)
    for seed, photo in enumerate(photos):
        inputs = {info.name: make_input(net, info, photo, seed + 10 * k) for k, info in enumerate(net.inputs)}
        result = runs.execute(net, inputs, options)
        buffers = [runs.observed(s) for s in result.snapshots]
        streams = [ObservedBuffer(s.unit, s.epoch, None, 0, s.data.shape, s.data) for s in result.streams]
        values = as_canonical(runs.model_inputs(result, source), graph)
        walked = walk(graph, mapped, values, [*buffers, *streams])
        network.rows += walked.rows
        count_outputs(network, walked, run_all(graph, mapped, values))
    return network


def run_all(graph: Graph, mapped: Mapped, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """All tensors by our lowering, each in its own number format."""
    values = start_values(graph, inputs)
    on_cpu = mapped.reason_of
    for op in graph.ops:
        exact = op.name in on_cpu
        found = [r.codes for r in run_op(graph, op, values)] if exact else mapped_op(mapped.context, op, values)
        values |= {n: np.asarray(v).astype(graph.tensors[n].dtype) for n, v in zip(op.outputs, found, strict=True)}
    return values


def count_outputs(network: Network, walked: Walk, ours: Mapping[str, Any]) -> None:
    for name in walked.graph.outputs:
        if name in walked.matches:
            tensor = walked.graph.tensors[name]
            theirs = to_tensor(walked.matches[name].values, tensor)
            kind = np.float32 if tensor.is_float else np.int64
            same = theirs.astype(kind).reshape(-1) == ours[name].astype(kind).reshape(-1)
            network.outputs += same.size
            network.outputs_different += int((~same).sum())


def as_canonical(values: Mapping[str, Any], graph: Graph) -> dict[str, Any]:
    """Pictures of ONNX models are channel last in the canonical graph."""
    found = {name: np.asarray(values[name]) for name in graph.inputs}
    return {n: v if v.shape == graph.tensors[n].shape else np.moveaxis(v, 1, -1) for n, v in found.items()}


def walk(graph: Graph, mapped: Mapped, values: Mapping[str, Any], observed: list[ObservedBuffer]) -> Walk:
    first = Walk(mapped, graph, values, observed, {})
    first.run()
    known = layers.parts_of_concats(graph, first.matches) | first.left_over()
    if not known:
        return first
    again = Walk(mapped, graph, values, observed, known)
    again.run()
    return again


HEAD = """# ST's releases 2.x and `--numerics 2.x`, layer by layer

One thread, photos {photos}. Networks that
ST's compiler made run on the emulator; every operator whose inputs and output are found in memory is computed a second
time as `--numerics 2.x` lowers it, from the same inputs. *Equal* layers have no value that differs. *Outputs*: values
of the network's outputs, and how many differ when our lowering runs the whole network from the input on.
"""


def table(rows: Iterable[Row], title: str) -> str:
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    lines = [f"| {title} | layers | equal | values | different | most |\n|---|---:|---:|---:|---:|---:|\n"]
    for family, own in sorted(families.items()):
        cells = [family, len(own), sum(not r.different for r in own), f"{sum(r.values for r in own):,}"]
        cells += [f"{sum(r.different for r in own):,}", f"{max(r.most for r in own):.3g}"]
        lines.append(markdown.row(cells) + "\n")
    return "".join(lines)


def report(networks: list[Network], photos: list[Path]) -> str:
    text = HEAD.format(photos=", ".join(f"`{p.name}`" for p in photos))
    text += "\n| network | layers | equal | values | different | outputs | different |\n|---|" + "---:|" * 6 + "\n"
    for network in networks:
        rows = network.rows
        cells = [network.title, len(rows), sum(not r.different for r in rows), f"{sum(r.values for r in rows):,}"]
        cells += [f"{sum(r.different for r in rows):,}", f"{network.outputs:,}", f"{network.outputs_different:,}"]
        text += markdown.row(cells) + "\n"
    releases = sorted({network.tool for network in networks})
    for release in releases:
        rows = [row for network in networks if network.tool == release for row in network.rows]
        text += f"\n## Release {release}\n\n" + table(rows, "operator")
    return text + WHY


WHY = """
## What differs

- *table*: ST's tables are up to a code away from the function. Their rows are the quadratics with the smallest largest
  error on the codes of each segment; how the segments are chosen is not known, so ours are as close to the function as
  tables get.
- Release 2.1 sets the factor of channels with tiny scales to 0, release 2.2 does not, and neither do we: the depthwise
  layers (3x3 in fall_guard, 5x5 in 033), and single values of 1x1 layers.
- *conv 3x3, more than 512 outputs*: a stride of 3; equal to release 2.2, another form in release 2.1.
- *depthwise 7x7* of release 2.1: its seventh column is computed by hybrid epochs.
- *prelu*: the positive side is such a table.
- *conv on the CPU*, *moves*, *affine*: face_detection_front_128_weight_quant computes with real numbers, whose sums
  depend on their order; so do the last real numbers of mobilefacenet.
"""


def run(arguments: argparse.Namespace) -> Report:
    networks: list[Network] = []
    for item in complete(arguments.fetched, arguments.only):
        if not item.tool.startswith("2."):
            continue
        try:
            networks.append(judge(item, arguments.images))
        except AtoncError as error:
            print(f"{item.title}: FAILED {error}", flush=True)
            continue
        print(networks[-1].title, flush=True)
        for row in networks[-1].rows if arguments.layers else ():
            if row.different:
                print(f"  {row.family} {row.op} {row.shape}: {row.different} of {row.values}, most {row.most:g}")
    text = report(networks, arguments.images)
    return Report(text)
