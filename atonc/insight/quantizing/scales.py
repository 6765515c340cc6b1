"""From what tensors were seen to hold to scales and zero points: ranges by several methods, tensors that share a scale,
and which activations may have 16 bits.

An operator computes in one width: what reads or writes a wide tensor has 16 bits on all sides, and tensors of 8 bits
are converted at its edges. Mixed operators would run on the CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.plan.policy import LEAST_FUNCTION
from atonc.insight.quantizing.graph import (
    A_MASK,
    FUSED,
    ONE_VALUE,
    WEIGHTED,
    FloatGraph,
    ScalePlan,
    attribute,
    is_move,
    is_scalar,
)
from atonc.insight.quantizing.types import Scale
from atonc.machine.base.frozen import dataclass

# With onnxruntime's own 128 bins there is one range to choose from, the whole one.
BINS, QUANTISED_BINS = 1024, 128
_LITTLE = 1e-4  # of one value: stands for none, whose logarithm nobody has


def entropy_range(values: Array) -> tuple[float, float]:
    """The range that keeps most of what a histogram says, by relative entropy: the same choice as onnxruntime's, which
    counts in Python and takes minutes for small networks.

    Ranges around zero, from `QUANTISED_BINS` bins on to all of them; the first of the best.
    """
    flat = values.astype(np.float32).reshape(-1)
    top = np.abs(flat).max()
    counts, edges = np.histogram(flat, BINS, range=(-top, top))
    middle = BINS // 2
    spans = [(middle - half, min(middle + half + 1, BINS)) for half in range(QUANTISED_BINS // 2, middle + 1)]
    start, end = spans[int(np.argmin([_divergence(counts, *span) for span in spans]))]
    return float(max(edges[start], flat.min())), float(min(edges[end], flat.max()))


def _divergence(counts: Array, start: int, end: int) -> float:
    """Between what is there, with all that lies outside at the ends, and the same in `QUANTISED_BINS` steps."""
    inside = counts[start:end]
    there = inside.copy()
    there[0] += counts[:start].sum()
    there[-1] += counts[end:].sum()
    stepped = _stepped(inside, there != 0)
    if not there.any() or not stepped.any():
        return np.inf
    p, q = (_shares(one) for one in (there, stepped))
    return float((p * np.log(p / q)).sum())


def _stepped(inside: Array, filled: Array) -> Array:
    """Bins of one step share its values, as whole numbers; bins behind the last whole step have none."""
    width = len(inside) // QUANTISED_BINS
    whole = width * QUANTISED_BINS
    sums = inside[:whole].reshape(QUANTISED_BINS, width).sum(1)
    sums[-1] += inside[whole:].sum()
    filled_bins = filled[:whole].reshape(QUANTISED_BINS, width).sum(1)
    found = np.zeros_like(inside)
    found[:whole] = np.repeat(np.where(filled_bins > 0, sums // np.maximum(filled_bins, 1), 0), width)
    return found


def _shares(counts: Array) -> Array:
    """Shares of the whole; empty bins get a little of what the others have. In single precision, so ties fall alike."""
    empty = counts == 0
    taken = _LITTLE * empty.sum() / max(1, (~empty).sum())
    found: Array = np.where(empty, _LITTLE, counts - taken).astype(np.float32)
    return found / found.sum()


LOW, HIGH = -128, 127
STEPS = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)  # shares of the widest range that are tried
CAREFUL = 0.75  # of it that stays, where other data than the samples' is thought of
ROUNDS = 3
# Of the values that are looked at (some hundred a sample) so many stay within the range. A harder cut than that of
# onnxruntime: 99.999 of all values.
PERCENTILE = 99.99


@dataclass(frozen=True)
class Seen:
    """A tensor over all samples: its extremes and a few of its values, channels last, with what an error costs."""

    low: float
    high: float
    values: Array  # rows x channels
    weights: Array | None = None  # per channel: how much of an error reaches the outputs of the layers that read it
    tops: Array | None = None  # per channel: the largest value, without its sign
    curve: FunctionValues | None = None  # the function that alone reads it

    @cached_property
    def by_entropy(self) -> tuple[float, float]:
        """Asked for in every step of a calibration, and dear."""
        low, high = entropy_range(self.values)
        return max(low, self.low), min(high, self.high)


@dataclass(frozen=True, eq=False)
class FunctionValues:
    """A function of one value between two tensors with codes (SiLU, hard-swish, leaky ReLU), which is one table. What
    its argument loses matters by what becomes of it: codes for arguments of which it makes nearly the same, such as
    SiLU of -20 to -5, are missing elsewhere."""

    result: str
    points: Array  # evenly over the range that was seen, and zero
    values: Array

    def told_apart(self, step: float) -> tuple[float, float]:
        """Ends of the argument, beyond which the result changes by less than half of a step of its own codes."""
        low = max(min(_flat_until(self.values, step / 2, self.points), 0.0), float(self.points[0]))
        return low, max(_flat_until(self.values[::-1], step / 2, self.points[::-1]), 0.0)


def _flat_until(values: Array, most: float, points: Array) -> float:
    """The last point from which none before is further off than `most`."""
    highest, lowest = np.maximum.accumulate(values), np.minimum.accumulate(values)
    flat = (highest - values <= most) & (values - lowest <= most)
    return float(points[np.flatnonzero(flat)[-1]])


def scale_of(low: float, high: float) -> Scale:
    """Codes from -128 to 127 over the range; zero itself is always a code."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / (HIGH - LOW), 1e-9)
    return Scale(float(np.float32(scale)), int(np.clip(round(LOW - low / scale), LOW, HIGH)))


def symmetric(low: float, high: float) -> Scale:
    """The zero point that the NPU reads without its 16-bit path: -128 for one sign, else 0."""
    if low >= 0:
        return scale_of(0.0, high)
    return Scale(float(np.float32(max(high / HIGH, low / LOW, 1e-9))), 0)


def rounded(values: Array, scale: Scale) -> Array:
    """Values as int8 would hold them."""
    codes = np.clip(np.rint(values / scale.scale) + scale.zero, LOW, HIGH)
    return (codes - scale.zero) * scale.scale


def error(seen: Seen, scale: Scale) -> float:
    """Mean squared error; weighed by channel it is, to first order, that of the layers behind."""
    squares = np.square(rounded(seen.values, scale) - seen.values)
    if seen.weights is None:
        return float(squares.mean())
    return float((squares.mean(0) * seen.weights).sum())


def choose(seen: Seen, method: str, is_symmetric: bool = False) -> tuple[float, float]:
    """The range: lowest and highest value that codes can say. `careful` is `output` that cuts a quarter at most."""
    if method == "minmax":
        return seen.low, seen.high
    if method == "percentile":
        cut = (100 - PERCENTILE) / 2
        low, high = np.percentile(seen.values, (cut, 100 - cut))
        return float(low), float(high)
    if method == "entropy":
        return seen.by_entropy
    plain = Seen(seen.low, seen.high, seen.values) if method == "mse" or seen.weights is None else seen
    make = symmetric if is_symmetric else scale_of
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    best, least = (low, high), error(plain, make(low, high))
    steps = [share for share in STEPS if share >= CAREFUL] if method == "careful" else STEPS
    for _ in range(ROUNDS):
        before = best
        for share in steps:
            for trial in ((low * share, best[1]), (best[0], high * share), (low * share, high * share)):
                found = error(plain, make(*trial))
                if found < least:
                    best, least = trial, found
        if best == before:
            break
    return best


FULL = {"Sigmoid": (0.0, 255 / 256), "HardSigmoid": (0.0, 255 / 256), "Softmax": (0.0, 255 / 256),
        "Tanh": (-1.0, 127 / 128)}  # fmt: skip
USED = 0.6  # of the fixed range, from which on it is taken
WHITE = (1.0, 255.0)


@dataclass(frozen=True)
class Tuning:
    """What the NPU likes; each may cost accuracy."""

    tails: bool = False  # softmax and what follows in int8
    boxes: bool = False  # the arithmetic that makes boxes in int8
    concats: bool = False  # one scale for what is joined
    adds: bool = False  # one scale for what is added
    near_zeros: bool = False  # zero point 0 where the range is nearly symmetric
    zeros: bool = False  # zero points 0 and -128 only
    whole: bool = False  # no weight is cut: channels that share a shift stay together
    spread: float = inf  # how far the scales of a layer's channels may be apart
    layers: frozenset[str] | None = None  # that keep to it; None: all
    four: frozenset[str] = frozenset()  # layers whose weights have 4 bits
    wide: frozenset[str] = frozenset()  # tensors that have 16 bits
    cells: float = inf  # where the ranges of cells end
    room: float = 1.0  # what gates add up has so many times the range that they tell apart
    head: float = 1.0  # outputs have so many times the range that was seen
    inner: float = 1.0  # the same of what lies between inputs and outputs

    @property
    def name(self) -> str:
        titles = [title for flag, title in TITLES.items() if getattr(self, flag)]
        if self.spread < inf:
            where = "" if self.layers is None else f" in {len(self.layers)} layer{'s' * (len(self.layers) > 1)}"
            titles.append(f"scales of channels within a factor of {self.spread:g}{where}")
        if self.four:
            titles.append(f"weights of 4 bits in {len(self.four)} layer{'s' * (len(self.four) > 1)}")
        if self.wide:
            titles.append(f"16 bits in {len(self.wide)} tensor{'s' * (len(self.wide) > 1)}")
        if self.cells < inf:
            titles.append(f"cells up to {self.cells:g}")
        if self.room > 1:
            titles.append(f"{self.room:g} times the range in sums of gates")
        rooms = (self.head, "of the outputs"), (self.inner, "inside")
        titles += [f"{room:g} times the range {where}" for room, where in rooms if room > 1]
        return ", ".join(titles) or "free scales"


TITLES = {
    "tails": "softmax in int8",
    "boxes": "arithmetic of boxes in int8",
    "concats": "one scale where tensors are joined",
    "adds": "one scale where tensors are added",
    "near_zeros": "zero point 0 where that costs little",
    "zeros": "zero points 0 and -128",
    "whole": "no weight cut",
}
NEARLY_SYMMETRIC = 1.15  # by how much the step may grow


def assign(
    graph: FloatGraph, plan: ScalePlan, seen: Mapping[str, Seen], method: str, tuning: Tuning
) -> dict[str, Scale]:
    pairs = list(plan.same)
    if tuning.concats:
        pairs += [(output, name) for output, names in plan.concats for name in names]
    if tuning.adds:
        pairs += [(names[0], other) for names in plan.adds for other in names[1:]]
    scales, cells, alone = dict[str, Scale](), cells_of(graph), dict[str, tuple[float, float]]()
    for members in grouped(plan.tensors, pairs):
        if trained := [graph.ranges[name] for name in members if name in graph.ranges]:
            scales |= dict.fromkeys(members, trained[0])
            continue
        ranges = [_range(graph, name, seen, method, tuning) for name in members]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if not cells.isdisjoint(members):
            low, high = max(low, -tuning.cells), min(high, tuning.cells)
        scales |= dict.fromkeys(members, _liked(tuning, low, high))
        alone |= {members[0]: (low, high)} if len(members) == 1 else {}
    for name, (low, high) in alone.items():
        curve = seen[name].curve
        if curve and curve.result in scales and name not in graph.inputs:
            least, most = curve.told_apart(scales[curve.result].scale)
            scales[name] = _liked(tuning, max(low, least), min(high, most))
    return scales


def _liked(tuning: Tuning, low: float, high: float) -> Scale:
    free, plain = scale_of(low, high), symmetric(low, high)
    near = tuning.near_zeros and plain.scale <= NEARLY_SYMMETRIC * free.scale
    return plain if near or tuning.zeros else free


def _range(
    graph: FloatGraph, name: str, everything: Mapping[str, Seen], method: str, tuning: Tuning
) -> tuple[float, float]:
    producer: Any = graph.producer.get(name)
    seen = everything[name]
    if producer is None:
        return input_range(seen)
    if table := graph.table_of(producer):  # samples need not have picked the row with the largest value
        return float(graph.constants[table].min()), float(graph.constants[table].max())
    fixed = FULL.get(producer.op_type)
    if fixed is not None and max(abs(seen.low), abs(seen.high)) > USED * fixed[1]:
        return fixed
    seen = _unmasked(graph, name, everything)
    room = tuning.head if name in graph.outputs else tuning.inner
    low, high = (room * end for end in choose(seen, method, tuning.zeros))
    reach = _reach(graph, name, everything, tuning.room)
    return max(low, -reach), min(high, reach)


FADED = 8.0  # below the least score that counts: a softmax makes less than a code of it


def _unmasked(graph: FloatGraph, name: str, everything: Mapping[str, Seen]) -> Seen:
    """What a softmax can tell apart: the scores, and below them what a mask hides."""
    seen, node = everything[name], graph.producer[name]
    if node.op_type != "Add" or {reader.op_type for reader in graph.readers[name]} != {"Softmax"}:
        return seen
    ends = {
        one: (float(graph.constants[one].min()), float(graph.constants[one].max()))
        if one in graph.constants else (everything[one].low, everything[one].high)
        for one in node.input if one in graph.constants or one in everything
    }  # fmt: skip
    scores = [low for low, high in ends.values() if not (low <= A_MASK and high <= 0)]
    if len(ends) != 2 or len(scores) != 1 or scores[0] - FADED <= seen.low:
        return seen
    least = scores[0] - FADED
    return replace(seen, low=least, values=np.maximum(seen.values, np.float32(least)))


# beyond, the result changes by less than half of a step of its own codes
REACHES = {"Sigmoid": 8.0, "Tanh": 4.0}


def _reach(graph: FloatGraph, name: str, seen: Mapping[str, Seen], room: float) -> float:
    """How large values may be that all readers tell apart: gates of cells saturate. Their results are no outputs."""
    readers = graph.readers[name]
    if name in graph.outputs or not readers:
        return inf
    return max(_told_apart(graph, node, name, seen, room) for node in readers)


def _told_apart(graph: FloatGraph, node: Any, name: str, seen: Mapping[str, Seen], room: float) -> float:
    if is_move(node):
        return max(_reach(graph, output, seen, room) for output in node.output if output)
    others = [one for one in graph.activations(node) if one != name]
    if node.op_type == "Add" and len(others) == 1 and others[0] in seen:
        other = seen[others[0]]
        return room * (_reach(graph, node.output[0], seen, room) + max(abs(other.low), abs(other.high)))
    return REACHES.get(node.op_type, inf) if graph.readers[node.output[0]] else inf


def cells_of(graph: FloatGraph) -> frozenset[str]:
    """Sums that are computed once more for a Tanh alone, and what they add: cells may grow where that is saturated."""
    sums = [node for node in graph.nodes if node.op_type == "Add"]
    gates = {frozenset(node.input) for node in sums if {reader.op_type for reader in graph.readers[node.output[0]]} == {
        "Tanh"}}  # fmt: skip
    found = [node for node in sums if frozenset(node.input) in gates]
    twice = [node for node in found if [frozenset(one.input) for one in found].count(frozenset(node.input)) > 1]
    return frozenset(
        name
        for node in twice
        for name in (*node.input, *(n for n in node.output if any(r.op_type != "Tanh" for r in graph.readers[n])
                                    or n in graph.outputs))
    )  # fmt: skip


def input_range(seen: Seen) -> tuple[float, float]:
    """Inputs are not cut; where they are pixels, the codes are the bytes of the camera (less 128)."""
    if seen.low >= 0:
        for white in WHITE:
            if 0.9 * white <= seen.high <= white:
                return 0.0, white
    return seen.low, seen.high


def grouped(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Names that pairs connect, in the order of the names."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in pairs:
        leader[find(other)] = find(one)
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(find(name), []).append(name)
    return list(found.values())


SIXTEEN = 32767  # codes of either sign; the zero point is 0, as the NPU wants it
# A step of 8 bits is so many of 16: codes less any zero point (255 at most) fit, so a tensor of 8 bits widens exactly.
FINER = 128
NORMS = ("LayerNormalization", "RMSNormalization")
SUMMED, AVERAGED = ("Add", "Sub", "Mul"), ("GlobalAveragePool", "AveragePool", "ReduceMean")
LEAKY_SLOPE = 0.01  # of ONNX, where none is said
JUMPS = {row.onnx for row in FUNCTIONS.values() if row.jumps or row.boolean}  # no lines go through them


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
        for node in graph.nodes:
            if node.name not in sides:
                sides |= _function_sides(graph, plan, coded, node)
        writers = {_written(graph, coded, node): node.name for node in graph.nodes if node.name in sides}
        readers = {name for node in graph.nodes if node.name in sides for name in graph.activations(node)}
        floats = {name for node in graph.nodes if node.name in plan.float_nodes for name in graph.activations(node)}
        readers |= floats | set(graph.outputs)  # what computes in float reads either width
        pairs = [*plan.same, *((output, name) for output, names in plan.concats for name in names)]
        groups = []
        for members in grouped(plan.tensors, pairs):
            makers = {name: graph.producer.get(name) for name in members}
            # by the application, a move, or an operator with a form for 16 bits
            made = all(n in graph.inputs if m is None else is_move(m) or n in writers for n, m in makers.items())
            if made and readers & set(members):
                groups.append(tuple(members))
        return WidthPlan(tuple(groups), sides)

    def closed(self, wanted: Collection[str]) -> frozenset[str]:
        """With every tensor that only wide operators write and read: a conversion there would cost and lose."""
        taken = set(wanted)
        while True:
            nodes, left = self.nodes(taken), [group for group in self.groups if not taken.issuperset(group)]
            more = [group for group in left if len(around := self.nodes(group)) > 1 and around <= nodes]
            if not more:
                return frozenset(taken)
            taken.update(name for group in more for name in group)

    def nodes(self, taken: Collection[str]) -> frozenset[str]:
        return frozenset(node for node, names in self.sides.items() if not set(taken).isdisjoint(names))


def wide_forms(graph: FloatGraph, plan: ScalePlan, seen: Mapping[str, Seen], tuning: Tuning) -> WideForms:
    """Wide tensors are not cut, but cells: 65,536 codes are enough for the whole range."""
    if not tuning.wide:
        return EIGHT_ONLY
    widths, coded, scales = WidthPlan.of(graph, plan), frozenset(plan.tensors), dict[str, float]()
    cells = cells_of(graph)
    for group in widths.groups:
        if tuning.wide.issuperset(group):
            top = max(max(-seen[name].low, seen[name].high) for name in group)
            top = top if cells.isdisjoint(group) else min(top, tuning.cells)
            scales |= dict.fromkeys(group, max(top / SIXTEEN, 1e-12))
    nodes = widths.nodes(scales)
    written = {_written(graph, coded, node) for node in graph.nodes if node.name in nodes}
    return WideForms(scales, nodes, frozenset(written - scales.keys() - {""}))


def widened(scale: Scale) -> float:
    """The scale with 16 bits of a tensor that has 8."""
    return scale.scale / FINER


def _sides(graph: FloatGraph, plan: ScalePlan, coded: Collection[str], node: Any) -> tuple[str, ...]:
    """The tensors with codes around a node that has a form for 16 bits; none where it has not."""
    live, written = graph.activations(node), _written(graph, coded, node)
    weighted, summed = node.op_type in WEIGHTED and graph.weights_of(node), node.op_type in SUMMED and len(live) == 2
    fits = weighted or summed or node.op_type in (*AVERAGED, *NORMS) or _is_leaky(graph, node)
    if not fits or node.name in plan.float_nodes or not written or not live or not all(name in coded for name in live):
        return ()
    return (*live, written)


def _function_sides(graph: FloatGraph, plan: ScalePlan, coded: frozenset[str], last: Any) -> dict[str, tuple[str, ...]]:
    """The operators that are one function of one tensor up to `last`, each with the tensors around them all; none
    where the compiler would leave that to the CPU."""
    target, found, sources, waiting = last.output[0], dict[str, Any](), set[str](), [last]
    if target not in coded or prod(graph.shapes.get(target, ())) < LEAST_FUNCTION:
        return {}
    while waiting:
        node = waiting.pop()
        if not _is_of_one_value(graph, plan, node):
            return {}
        found[node.name] = node
        live = graph.activations(node)
        sources |= coded & set(live)
        inner = [name for name in live if name not in coded]
        if not all(name in graph.producer for name in inner):
            return {}
        waiting += [graph.producer[name] for name in inner if graph.producer[name].name not in found]
    inside = {node.output[0] for node in found.values()} - {target}
    read = {reader.name for name in inside for reader in graph.readers[name]}
    alone = read <= found.keys() and inside.isdisjoint(graph.outputs)
    clamps = {node.op_type for node in found.values()} <= set(FUSED)
    return dict.fromkeys(found, (*sources, target)) if alone and len(sources) == 1 and not clamps else {}


def _is_of_one_value(graph: FloatGraph, plan: ScalePlan, node: Any) -> bool:
    live = graph.activations(node)
    single = len({graph.shapes.get(name) for name in (*live, *node.output)}) == 1
    single = single and all(is_scalar(graph, name) for name in node.input if name and name not in live)
    return single and node.op_type in ONE_VALUE and node.op_type not in JUMPS and node.name not in plan.float_nodes


def _is_leaky(graph: FloatGraph, node: Any) -> bool:
    """Whether it is a ReLU with slopes between 0 and 1 on its negative side."""
    if node.op_type == "LeakyRelu":
        return bool(0 <= attribute(node, "alpha", LEAKY_SLOPE) <= 1)
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
