"""Which activations may have 16 bits, and what an operator reads and writes then.

An operator computes in one width: what reads or writes a wide tensor has 16 bits on all sides, and tensors of 8 bits
are converted at its edges. Mixed operators would run on the CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from atonc.insight.quantizing.assign import scale_groups
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.islands import FUSED, WEIGHTED, ScalePlan, is_move
from atonc.insight.quantizing.ranges import Seen
from atonc.insight.quantizing.types import Scale
from atonc.machine.base.frozen import dataclass

SIXTEEN = 32767  # codes of either sign; the zero point is 0, as the NPU wants it
# A step of 8 bits is so many of 16: codes less any zero point (255 at most) fit, so a tensor of 8 bits widens exactly.
FINER = 128
SUMMED, AVERAGED = ("Add", "Sub", "Mul"), ("GlobalAveragePool", "AveragePool", "ReduceMean")
LEAKY_SLOPE = 0.01  # of ONNX, where none is said


@dataclass(frozen=True)
class WideForms:
    """What has 16 bits."""

    scales: Mapping[str, float]  # of the tensors that are stored so
    nodes: frozenset[str]  # that compute so
    results: frozenset[str]  # of 8 bits, written by such nodes


EIGHT_ONLY = WideForms({}, frozenset(), frozenset())


@dataclass(frozen=True, eq=False)
class WidthPlan:
    """Tensors that are widened together, and around which operators."""

    groups: tuple[tuple[str, ...], ...]
    sides: Mapping[str, tuple[str, ...]]  # node that has a 16-bit form -> tensors with codes that it reads and writes

    @staticmethod
    def of(graph: FloatGraph, plan: ScalePlan) -> WidthPlan:
        coded = frozenset(plan.tensors)
        sides = {node.name: found for node in graph.nodes if (found := _sides(graph, plan, coded, node))}
        writers = {_written(graph, coded, node): node.name for node in graph.nodes if node.name in sides}
        readers = {name for node in graph.nodes if node.name in sides for name in graph.activations(node)}
        floats = {name for node in graph.nodes if node.name in plan.float_nodes for name in graph.activations(node)}
        readers |= floats | set(graph.outputs)  # what computes in float reads either width
        pairs = [*plan.same, *((output, name) for output, names in plan.concats for name in names)]
        groups = []
        for members in scale_groups(plan, pairs):
            makers = [graph.producer.get(name) for name in members]
            made = all(_made(graph, n, m, writers) for n, m in zip(members, makers, strict=True))
            if made and readers & set(members):
                groups.append(tuple(members))
        return WidthPlan(tuple(groups), sides)

    def closed(self, wanted: Collection[str]) -> frozenset[str]:
        """With every tensor that only wide operators write and read: a conversion there would cost and lose."""
        taken = set(wanted)
        while True:
            nodes = self.nodes(taken)
            more = [
                group for group in self.groups
                if not taken.issuperset(group) and self._between(group, nodes)
            ]  # fmt: skip
            if not more:
                return frozenset(taken)
            taken.update(name for group in more for name in group)

    def _between(self, group: tuple[str, ...], nodes: Collection[str]) -> bool:
        around = self.nodes(group)
        return len(around) > 1 and around <= set(nodes)

    def nodes(self, taken: Collection[str]) -> frozenset[str]:
        return frozenset(node for node, names in self.sides.items() if not set(taken).isdisjoint(names))


def _made(graph: FloatGraph, name: str, maker: Any, writers: Collection[str]) -> bool:
    """By an operator with a form for 16 bits, a move, or the application."""
    return name in graph.inputs if maker is None else is_move(maker) or name in writers


def wide_forms(graph: FloatGraph, plan: ScalePlan, seen: Mapping[str, Seen], wide: frozenset[str]) -> WideForms:
    """Wide tensors are not cut: 65,536 codes are enough for the whole range."""
    if not wide:
        return EIGHT_ONLY
    widths, coded, scales = WidthPlan.of(graph, plan), frozenset(plan.tensors), dict[str, float]()
    for group in widths.groups:
        if wide.issuperset(group):
            top = max(max(-seen[name].low, seen[name].high) for name in group)
            scales |= dict.fromkeys(group, max(top / SIXTEEN, 1e-12))
    nodes = widths.nodes(scales)
    written = {_written(graph, coded, node) for node in graph.nodes if node.name in nodes}
    return WideForms(scales, nodes, frozenset(written - scales.keys()))


def widened(scale: Scale) -> float:
    """The scale with 16 bits of a tensor that has 8."""
    return scale.scale / FINER


def _sides(graph: FloatGraph, plan: ScalePlan, coded: Collection[str], node: Any) -> tuple[str, ...]:
    """The tensors with codes around a node that has a form for 16 bits; none where it has not."""
    live, written = graph.activations(node), _written(graph, coded, node)
    weighted, summed = node.op_type in WEIGHTED and graph.weights_of(node), node.op_type in SUMMED and len(live) == 2
    fits = weighted or summed or node.op_type in AVERAGED or _is_leaky(graph, node)
    if not fits or node.name in plan.float_nodes or not written or not live or not all(name in coded for name in live):
        return ()
    return (*live, written)


def _is_leaky(graph: FloatGraph, node: Any) -> bool:
    """Whether it is a ReLU with slopes between 0 and 1 on its negative side."""
    if node.op_type == "LeakyRelu":
        return 0 <= next((a.f for a in node.attribute if a.name == "alpha"), LEAKY_SLOPE) <= 1
    slopes = graph.constants.get(node.input[1]) if node.op_type == "PRelu" else None
    return slopes is not None and bool((slopes >= 0).all() and (slopes <= 1).all())


def _written(graph: FloatGraph, coded: Collection[str], node: Any) -> str:
    """The tensor with codes that a node gives; a ReLU that alone reads it belongs to the node."""
    name = node.output[0]
    if name in coded:
        return name
    followers = graph.readers[name]
    fused = len(followers) == 1 and followers[0].op_type in FUSED and followers[0].output[0] in coded
    return str(followers[0].output[0]) if fused else ""
