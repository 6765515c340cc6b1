"""Every tensor of the plan gets its scale; tensors that hold the same values, and those that the NPU wants alike, share
one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.islands import ScalePlan
from atonc.insight.quantizing.ranges import Seen, choose, scale_of, symmetric
from atonc.insight.quantizing.types import Scale
from atonc.machine.base.frozen import dataclass

FULL = {"Sigmoid": (0.0, 255 / 256), "HardSigmoid": (0.0, 255 / 256), "Softmax": (0.0, 255 / 256),
        "Tanh": (-1.0, 127 / 128)}  # fmt: skip
USED = 0.6  # of the fixed range, from which on it is taken
WHITE = (1.0, 255.0)


@dataclass(frozen=True)
class Tuning:
    """What the NPU likes; each may cost accuracy."""

    tails: bool = False  # softmax and what follows in int8
    concats: bool = False  # one scale for what is joined
    adds: bool = False  # one scale for what is added
    near_zeros: bool = False  # zero point 0 where the range is nearly symmetric
    zeros: bool = False  # zero points 0 and -128 only
    whole: bool = False  # no weight is cut: channels that share a shift stay together
    spread: float = inf  # how far the scales of a layer's channels may be apart
    layers: frozenset[str] | None = None  # that keep to it; None: all
    four: frozenset[str] = frozenset()  # layers whose weights have 4 bits
    wide: frozenset[str] = frozenset()  # tensors that have 16 bits

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
        return ", ".join(titles) or "free scales"


TITLES = {
    "tails": "softmax in int8",
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
    groups = _groups(plan, tuning)
    scales: dict[str, Scale] = {}
    for members in groups:
        ranges = [_range(graph, name, seen[name], method, tuning) for name in members]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        scales |= dict.fromkeys(members, _scale(low, high, tuning))
    return scales


def _scale(low: float, high: float, tuning: Tuning) -> Scale:
    free, plain = scale_of(low, high), symmetric(low, high)
    near = tuning.near_zeros and plain.scale <= NEARLY_SYMMETRIC * free.scale
    return plain if near or tuning.zeros else free


def _range(graph: FloatGraph, name: str, seen: Seen, method: str, tuning: Tuning) -> tuple[float, float]:
    producer: Any = graph.producer.get(name)
    if producer is None:
        return input_range(seen)
    fixed = FULL.get(producer.op_type)
    if fixed is not None and max(abs(seen.low), abs(seen.high)) > USED * fixed[1]:
        return fixed
    return choose(seen, method, tuning.zeros)


def input_range(seen: Seen) -> tuple[float, float]:
    """Inputs are not cut; where they are pixels, the codes are the bytes of the camera (less 128)."""
    if seen.low >= 0:
        for white in WHITE:
            if 0.9 * white <= seen.high <= white:
                return 0.0, white
    return seen.low, seen.high


def _groups(plan: ScalePlan, tuning: Tuning) -> list[list[str]]:
    pairs = list(plan.same)
    if tuning.concats:
        pairs += [(output, name) for output, names in plan.concats for name in names]
    if tuning.adds:
        pairs += [(names[0], other) for names in plan.adds for other in names[1:]]
    return scale_groups(plan, pairs)


def scale_groups(plan: ScalePlan, pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Tensors that share a scale, in the order of the plan."""
    leader = {name: name for name in plan.tensors}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in pairs:
        leader[find(other)] = find(one)
    found: dict[str, list[str]] = {}
    for name in plan.tensors:
        found.setdefault(find(name), []).append(name)
    return list(found.values())
