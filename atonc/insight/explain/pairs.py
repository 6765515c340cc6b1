"""Which layers of two builds do the same work: by name, else operator by operator in the order of the model.

ST's compiler numbers the operators of a model in the order of the file, cuts them into epochs of its own and often puts
several into one. So operators are paired first: those with weights by kernel and order, the others by kind between two
pairs of them. Layers that share paired operators then form a group, one or more on each side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from math import prod

from atonc.insight.explain.types import NOTHING, LayerView, OperatorView
from atonc.machine.base.frozen import dataclass

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
