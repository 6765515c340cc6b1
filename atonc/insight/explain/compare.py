"""Two builds of a network side by side: totals, and layer by layer where they can be paired.

Which layers do the same work: by name, else operator by operator in the order of the model. ST's compiler numbers the
operators of a model in the order of the file, cuts them into epochs of its own and often puts several into one. So
operators are paired first: those with weights by kernel and order, the others by kind between two pairs of them. Layers
that share paired operators then form a group, one or more on each side.

Outputs for the same inputs: builds may differ in the types and the layout of their edges (float, uint8, channels
first), so real values are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.metrics import cosine
from atonc.compiler.compile.reproduce import BOARD_HASH, EVIDENCE_HASH, MODEL_HASH, POOLS_HASH
from atonc.compiler.place.usage import RAM_FOR, MemoryUse, Use
from atonc.insight.explain.types import CPU, HYBRID, NOTHING, NPU, LayerView, NetworkView, OperatorView
from atonc.insight.runs import runs
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork

BY_NAME, BY_OPERATOR = "names", "operators in the order of the model"
_ENOUGH = 0.5  # share of weighted operators that must align, else pairs would be chance
_NUMBER = re.compile(r"_(\d+)$")
_FAMILIES = {
    **dict.fromkeys(("conv", "dense"), "conv"),
    **dict.fromkeys(("average_pool", "mean", "reducemean"), "mean"),
    **dict.fromkeys(("quantize", "dequantize", "requantize", "requantizelinear", "identity", "cast"), "quantize"),
    **dict.fromkeys(("uint8_to_int8", "int8_to_uint8"), "quantize"),
    **dict.fromkeys(("sigmoid", "logistic"), "sigmoid"),
    **dict.fromkeys(("split", "slice", "strided_slice"), "slice"),
}


@dataclass(frozen=True)
class LayerPair:
    """Layers of one build and those of the other that hold the same operators; a side may be empty."""

    nodes: tuple[str, ...]
    a: tuple[LayerView, ...]
    b: tuple[LayerView, ...]

    @property
    def a_ms(self) -> float:
        return sum(layer.milliseconds for layer in self.a)

    @property
    def b_ms(self) -> float:
        return sum(layer.milliseconds for layer in self.b)

    @property
    def difference(self) -> float:
        """Milliseconds that b takes longer."""
        return self.b_ms - self.a_ms


@dataclass(frozen=True)
class _Item:
    """An operator and the places of the layers that compute parts of it."""

    layers: tuple[int, ...]
    operator: OperatorView
    elements: int

    @property
    def family(self) -> str:
        kind = self.operator.kind
        return _FAMILIES.get(kind, "resize" if kind.startswith("resize") else kind)


def pair_layers(a: Sequence[LayerView], b: Sequence[LayerView]) -> tuple[list[LayerPair], str]:
    """Pairs of layers that run, and what they were paired by; empty if the builds are of different models."""
    left, right = ([layer for layer in side if layer.on != NOTHING] for side in (a, b))
    links, how = _by_name(left, right), BY_NAME
    if len(links) < _ENOUGH * min(len(left), len(right)):  # some nodes may keep their names by chance
        operators = _by_operator(left, right)
        links, how = (operators, BY_OPERATOR) if len(operators) > len(links) or not links else (links, how)
    return _groups(left, right, links), how


def _by_name(a: Sequence[LayerView], b: Sequence[LayerView]) -> list[tuple[int, int]]:
    """By the name of the layer; where that is in one build only, by the last source node."""
    names = {layer.name: k for k, layer in enumerate(b)}
    found = {k: names[one.name] for k, one in enumerate(a) if one.name in names}
    taken = set(found.values())
    nodes = {layer.nodes[-1]: k for k, layer in enumerate(b) if layer.nodes and k not in taken}
    rest = ((k, nodes.get(one.nodes[-1])) for k, one in enumerate(a) if one.nodes and k not in found)
    return sorted([*found.items(), *((k, place) for k, place in rest if place is not None)])


def _by_operator(a: Sequence[LayerView], b: Sequence[LayerView]) -> list[tuple[int, int]]:
    left, right = _items(a), _items(b)
    heavy = [[k for k, item in enumerate(side) if item.family == "conv"] for side in (left, right)]
    anchors = _aligned(left, right, *heavy)
    if not anchors or len(anchors) < _ENOUGH * min(map(len, heavy)):
        return []
    pairs = [*anchors, *_between(left, right, anchors)]
    return [(one, two) for i, k in pairs for one in left[i].layers for two in right[k].layers]


def _items(layers: Sequence[LayerView]) -> list[_Item]:
    """Operators in the order of the model: ST's names end with it, ours are listed so."""
    places: dict[str, list[int]] = {}
    for place, layer in enumerate(layers):
        for operator in layer.operators:
            places.setdefault(operator.node, []).append(place)
    first = {operator.node: operator for layer in reversed(layers) for operator in layer.operators}
    found = [
        _Item(tuple(own), first[node], prod(layers[own[-1]].shape))
        for node, own in places.items()
        if first[node].kind != "epoch"
    ]
    numbers = [_NUMBER.search(item.operator.node) for item in found]
    if all(numbers):
        order = sorted(range(len(found)), key=lambda k: int(match[1]) if (match := numbers[k]) else 0)
        return [found[k] for k in order]
    return found


def _aligned(
    left: Sequence[_Item], right: Sequence[_Item], some: Sequence[int], others: Sequence[int]
) -> list[tuple[int, int]]:
    """Operators with weights: in order by kernel, then those that are alone with their kernel on both sides."""
    listed = all(any(side[k].operator.kernel for k in places) for side, places in ((left, some), (right, others)))

    def key(item: _Item) -> Hashable:
        """Folders of older versions do not list weights: there the size of the output must do."""
        return item.operator.kernel if listed else item.elements

    keys = [key(left[i]) for i in some], [key(right[k]) for k in others]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    found = [
        (some[block.a + n], others[block.b + n]) for block in matcher.get_matching_blocks() for n in range(block.size)
    ]
    rest = [i for i in some if i not in {x for x, _ in found}], [k for k in others if k not in {y for _, y in found}]
    return sorted([*found, *_alike(left, right, *rest, key)])


def _between(
    left: Sequence[_Item], right: Sequence[_Item], anchors: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The other operators: by family between two anchors that follow each other on both sides, then alone of a kind."""
    found: list[tuple[int, int]] = []
    ends = [(-1, -1), *anchors, (len(left), len(right))]
    for (i, k), (j, m) in pairwise(ends):
        if k < m:
            inner = range(i + 1, j), range(k + 1, m)
            matcher = SequenceMatcher(
                None, [left[x].family for x in inner[0]], [right[y].family for y in inner[1]], autojunk=False
            )
            found += [
                (inner[0][block.a + n], inner[1][block.b + n])
                for block in matcher.get_matching_blocks()
                for n in range(block.size)
            ]
    used = {x for x, _ in (*anchors, *found)}, {y for _, y in (*anchors, *found)}
    rest = [x for x in range(len(left)) if x not in used[0]], [y for y in range(len(right)) if y not in used[1]]
    return [*found, *_alike(left, right, *rest, lambda item: (item.family, item.elements))]


def _alike(
    left: Sequence[_Item],
    right: Sequence[_Item],
    some: Iterable[int],
    others: Iterable[int],
    key: Callable[[_Item], Hashable],
) -> list[tuple[int, int]]:
    """What is left: as many with a key on one side as on the other, in order."""
    found: list[tuple[int, int]] = []
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, (items, places) in enumerate(((left, some), (right, others))):
        for place in places:
            groups.setdefault(key(items[place]), ([], []))[side].append(place)
    for one, two in groups.values():
        if len(one) == len(two):
            found += zip(one, two, strict=True)
    return found


def _groups(a: Sequence[LayerView], b: Sequence[LayerView], links: Iterable[tuple[int, int]]) -> list[LayerPair]:
    """Layers that are linked, directly or over others, belong together."""
    root = {("a", i): ("a", i) for i in range(len(a))} | {("b", k): ("b", k) for k in range(len(b))}

    def top(node: tuple[str, int]) -> tuple[str, int]:
        while root[node] != node:
            node = root[node] = root[root[node]]
        return node

    linked = set[tuple[str, int]]()
    for i, k in links:
        linked |= {("a", i), ("b", k)}
        one, two = sorted((top(("a", i)), top(("b", k))))
        root[two] = one
    members: dict[tuple[str, int], tuple[list[LayerView], list[LayerView]]] = {}
    for side, place in sorted(linked, key=lambda node: (node[0], node[1])):
        group = members.setdefault(top((side, place)), ([], []))
        group[side == "b"].append((a if side == "a" else b)[place])
    return [_pair(tuple(one), tuple(two)) for one, two in members.values()]


def _pair(a: tuple[LayerView, ...], b: tuple[LayerView, ...]) -> LayerPair:
    names = dict.fromkeys(layer.name for layer in (*a, *b))
    return LayerPair(tuple(names), a, b)


Array = NDArray[Any]


@dataclass(frozen=True)
class OutputAgreement:
    """One output of A beside the output of B with as many elements."""

    a: str
    b: str
    elements: int
    cosine: float
    exact_percent: float  # equal within a hundredth of a step
    within1_percent: float  # within one step of the coarser of both
    largest: float  # difference, in the model's units
    span: float  # largest less smallest value of A


def agreement(
    a: EmulatedNetwork, b: EmulatedNetwork, inputs: Sequence[Path] = (), seed: int = 0
) -> tuple[OutputAgreement, ...]:
    """Runs both on the emulator; inputs are made for A and converted for B."""
    if len(a.inputs) != len(b.inputs):
        raise InputError(f"A has {len(a.inputs)} inputs, B {len(b.inputs)}", remedy="compare builds of the same model")
    options = runs.RunOptions(Path(), inputs=tuple(inputs), seed=seed)
    given = runs.choose_inputs(a, options)
    shared = {
        theirs.name: converted(given[ours.name], ours, theirs) for ours, theirs in zip(a.inputs, b.inputs, strict=True)
    }
    left, right = runs.execute(a, given, options), runs.execute(b, shared, options)
    return _pairs(_real(a.outputs, left.outputs), _real(b.outputs, right.outputs))


def converted(value: Array, ours: BufferInfo, theirs: BufferInfo) -> Array:
    """The same picture as the other network wants it: codes where they mean the same, else real values."""
    same = (ours.type, ours.scales, ours.offsets) == (theirs.type, theirs.scales, theirs.offsets)
    arranged = _arranged(value, tensors.io_shape(theirs), theirs.name)
    return arranged if same or value.dtype.kind == "f" else real_values(arranged, ours).astype(np.float32)


def real_values(value: Array, info: BufferInfo) -> Array:
    if value.dtype.kind == "f" or not info.scales:
        return value.astype(np.float64)
    offset = info.offsets[0] if info.offsets else 0
    result: Array = (value.astype(np.float64) - offset) * info.scales[0]
    return result


def _arranged(value: Array, shape: tuple[int, ...], name: str) -> Array:
    """The same elements in another shape: equal up to axes of size one, or channels last against first."""
    if _plain(value.shape) == _plain(shape):
        return value.reshape(shape)
    if value.ndim == len(shape) == 4:
        for axes in ((0, 3, 1, 2), (0, 2, 3, 1)):
            if tuple(value.shape[axis] for axis in axes) == shape:
                return np.ascontiguousarray(value.transpose(axes))
    raise InputError(f"input {name} of B has shape {shape}, the one of A {value.shape}", remedy="compare equal models")


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


@dataclass(frozen=True)
class _OutputLoss:
    info: BufferInfo
    values: Array  # real, channels last

    @property
    def step(self) -> float:
        return self.info.scales[0] if self.info.scales else 0.0


def _real(infos: Sequence[BufferInfo], outputs: Mapping[str, Array]) -> list[_OutputLoss]:
    return [_OutputLoss(i, real_values(tensors.channel_last(i, outputs[i.name]), i)) for i in infos]


def _pairs(left: Sequence[_OutputLoss], right: Sequence[_OutputLoss]) -> tuple[OutputAgreement, ...]:
    """By name, else by size; among equals the nearest, as compilers order outputs differently."""
    found, free = [], list(right)
    for one in left:
        same = [other for other in free if other.info.name == one.info.name and other.values.size == one.values.size]
        candidates = same or [other for other in free if other.values.size == one.values.size]
        if not candidates:
            raise InputError(
                f"no output of B has the {prod(one.values.shape):,} elements of {one.info.name}",
                remedy="compare builds of the same model with the same outputs",
            )
        best = max((_agreement(one, other) for other in candidates), key=lambda agreed: agreed.cosine)
        free = [other for other in free if other.info.name != best.b]
        found.append(best)
    return tuple(found)


def _agreement(one: _OutputLoss, other: _OutputLoss) -> OutputAgreement:
    x, y = one.values.reshape(-1), other.values.reshape(-1)
    difference, step = np.abs(x - y), max(one.step, other.step) or float(np.ptp(x)) / 255 or 1.0
    return OutputAgreement(
        one.info.name,
        other.info.name,
        x.size,
        cosine(x, y),
        100 * float(np.mean(difference <= 0.01 * step)),
        100 * float(np.mean(difference <= 1.01 * step)),
        float(difference.max(initial=0.0)),
        float(np.ptp(x)) if x.size else 0.0,
    )


TIMES, MICROJOULES = "times", "uJ"  # units: of a ratio, of an inference
ENERGY = "energy of core and memories"


@dataclass(frozen=True)
class ComparedFigure:
    """One number of both; less is better where `ratio` below 1 is good."""

    name: str
    a: float
    b: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a else None


@dataclass(frozen=True)
class Asked:
    """Something that was asked of one build otherwise than of the other; None: not asked for."""

    option: str
    a: str | None
    b: str | None

    def __str__(self) -> str:
        return f"{self.option}: A {said(self.a)}, B {said(self.b)}"


def said(value: str | None) -> str:
    return "without" if value is None else value or "with"


@dataclass(frozen=True)
class Comparison:
    a: NetworkView
    b: NetworkView
    figures: tuple[ComparedFigure, ...]
    layers: tuple[LayerPair, ...]  # largest difference first
    paired_by: str = BY_NAME
    outputs: tuple[OutputAgreement, ...] = ()  # if both were run on the same inputs

    @property
    def same_model(self) -> bool | None:
        """By the hash of the model's file; None where one of the builds does not keep it."""
        a, b = (view.reproduce.get(MODEL_HASH) for view in (self.a, self.b))
        return a == b if a and b else None

    @property
    def asked(self) -> tuple[Asked, ...] | None:
        """What the builds were asked for and does not agree; None where one of them does not tell."""
        if self.a.options is None or self.b.options is None:
            return None
        a, b = (_all_asked(view) for view in (self.a, self.b))
        return tuple(Asked(key, a.get(key), b.get(key)) for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key))

    @property
    def differ(self) -> tuple[Asked, ...]:
        """All that is known to differ and is no figure: model, tool, board, clocks, options, versions."""
        a, b = (_told(view) for view in (self.a, self.b))
        rows = (Asked(name, a[name], b[name]) for name in a if a[name] != b[name])
        return (*rows, *(self.asked or ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.same_model is False:
            return ("A and B are builds of different models: figures and layers of one say little about the other",)
        if self.same_model is None and self.a.model != self.b.model:
            return ("the models have different names, and a build does not keep its hash: they may not be the same",)
        return ()

    @property
    def paired(self) -> tuple[int, int]:
        """Layers of each build that have partners in the other."""
        return sum(len(pair.a) for pair in self.layers), sum(len(pair.b) for pair in self.layers)

    @property
    def alone(self) -> tuple[tuple[LayerView, ...], tuple[LayerView, ...]]:
        """Layers that run and have no partner, of each build."""
        a = {id(one) for pair in self.layers for one in pair.a}
        b = {id(one) for pair in self.layers for one in pair.b}
        return (
            tuple(layer for layer in self.a.layers if layer.on != NOTHING and id(layer) not in a),
            tuple(layer for layer in self.b.layers if layer.on != NOTHING and id(layer) not in b),
        )

    @property
    def unmatched(self) -> int:
        return sum(map(len, self.alone))


def _told(view: NetworkView) -> dict[str, str]:
    """Files keep these whoever compiled; a model's hash tells two files of one name apart."""
    return {
        "model": view.model,
        "hash of the model": view.reproduce.get(MODEL_HASH, "")[:16] or "not told",
        "compiled by": view.tool,
        "board": view.board or "not told",
        "NPU clock": f"{view.npu_mhz:g} MHz",
        "CPU clock": f"{view.cpu_mhz:g} MHz",
        "cycles are": view.basis,
    }


def _all_asked(view: NetworkView) -> dict[str, str]:
    """Options, and what stands in the files that some of them name."""
    files = {key: view.reproduce[key][:16] for key in (BOARD_HASH, POOLS_HASH, EVIDENCE_HASH) if key in view.reproduce}
    version = {"version of atonc": view.reproduce["atonc"]} if "atonc" in view.reproduce else {}
    return {**(view.options or {}), **files, **version}


def _memory(a: MemoryUse, b: MemoryUse) -> Iterator[tuple[str, int, int]]:
    """All RAM, its parts by use as far as one of both has them, what of it is outside, weights, and flash."""
    yield "RAM", a.ram_bytes, b.ram_bytes
    for use in Use:
        parts = a.ram_by_use.get(use, 0), b.ram_by_use.get(use, 0)
        if use == Use.ACTIVATIONS or any(parts):
            yield RAM_FOR[use], *parts
    yield "spilled", a.spilled_bytes, b.spilled_bytes
    yield "weights", a.weights_bytes, b.weights_bytes
    yield "flash", a.flash_bytes, b.flash_bytes


def _limits(a: NetworkView, b: NetworkView) -> Iterator[tuple[str, float, float, str]]:
    """How near both are to what the chip could do, where their files tell."""
    if a.limit is not None and b.limit is not None:
        yield "attainable minimum", a.limit.practical, b.limit.practical, "cycles"
        yield "x attainable minimum", a.limit.times_practical, b.limit.times_practical, TIMES
        yield "x theoretical minimum", a.limit.times_absolute, b.limit.times_absolute, TIMES


def _energy(a: NetworkView, b: NetworkView) -> Iterator[tuple[str, float, float, str]]:
    """What both are estimated to take, where their files tell what their steps do."""
    if a.energy.known and b.energy.known:
        yield ENERGY, a.energy.uj.likely, b.energy.uj.likely, MICROJOULES


def compare(a: NetworkView, b: NetworkView, outputs: tuple[OutputAgreement, ...] = ()) -> Comparison:
    figures = tuple(
        ComparedFigure(name, float(x), float(y), unit)
        for name, x, y, unit in (
            ("latency", a.latency_ms, b.latency_ms, "ms"),
            ("cycles", a.cycles, b.cycles, ""),
            *_energy(a, b),
            *_limits(a, b),
            ("ST's cycle estimate", a.st_cycles, b.st_cycles, ""),
            ("epochs", len(a.steps), len(b.steps), ""),
            ("epochs on the NPU", a.count(NPU), b.count(NPU), ""),
            ("epochs on the CPU", a.count(CPU) + a.count(HYBRID), b.count(CPU) + b.count(HYBRID), ""),
            *((name, x, y, "bytes") for name, x, y in _memory(a.memory, b.memory)),
        )
    )
    pairs, paired_by = pair_layers(a.layers, b.layers)
    pairs.sort(key=lambda pair: (-abs(pair.difference), pair.nodes))
    return Comparison(a, b, figures, tuple(pairs), paired_by, outputs)
