"""Two builds of a network side by side: totals, and layer by layer where they can be paired."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.compile.reproduce import BOARD_HASH, EVIDENCE_HASH, MODEL_HASH, POOLS_HASH
from atonc.compiler.place.usage import RAM_FOR, MemoryUse, Use
from atonc.insight.explain.accuracy import OutputAgreement
from atonc.insight.explain.pairs import BY_NAME, LayerPair, pair_layers
from atonc.insight.explain.types import CPU, HYBRID, NOTHING, NPU, LayerView, NetworkView
from atonc.machine.base.frozen import dataclass

TIMES, MICROJOULES = "times", "uJ"  # units: of a ratio, of an inference
ENERGY = "energy, estimated"


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
    """All RAM, its parts by use as far as one of both has them, what of it is outside, and the weights."""
    yield "RAM", a.ram_bytes, b.ram_bytes
    for use in Use:
        parts = a.ram_by_use.get(use, 0), b.ram_by_use.get(use, 0)
        if use == Use.ACTIVATIONS or any(parts):
            yield RAM_FOR[use], *parts
    yield "spilled", a.spilled_bytes, b.spilled_bytes
    yield "weights", a.weights_bytes, b.weights_bytes


def _limits(a: NetworkView, b: NetworkView) -> Iterator[tuple[str, float, float, str]]:
    """How near both are to what the chip could do, where their files tell."""
    if a.limit is not None and b.limit is not None:
        yield "at the practical bound", a.limit.practical, b.limit.practical, "cycles"
        yield "against that bound", a.limit.times_practical, b.limit.times_practical, TIMES
        yield "against the absolute one", a.limit.times_absolute, b.limit.times_absolute, TIMES


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
            ("cycles by ST's estimate", a.st_cycles, b.st_cycles, ""),
            ("epochs", len(a.steps), len(b.steps), ""),
            ("epochs on the NPU", a.count(NPU), b.count(NPU), ""),
            ("epochs on the CPU", a.count(CPU) + a.count(HYBRID), b.count(CPU) + b.count(HYBRID), ""),
            *((name, x, y, "bytes") for name, x, y in _memory(a.memory, b.memory)),
        )
    )
    pairs, paired_by = pair_layers(a.layers, b.layers)
    pairs.sort(key=lambda pair: (-abs(pair.difference), pair.nodes))
    return Comparison(a, b, figures, tuple(pairs), paired_by, outputs)
