"""Where models are made, judged and priced: a float graph, what its tensors held, the weights that were mended, and the
samples that teach and judge. The searches for ranges, speed, 4 and 16 bits all work on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from atonc.insight.quantizing.calibrate import calibrate, with_curves
from atonc.insight.quantizing.graph import FloatGraph, ScalePlan, decodings, layers_of, make_plan
from atonc.insight.quantizing.judge import QuantizationJudge, Signal
from atonc.insight.quantizing.mend import Mended, MendOptions, mend
from atonc.insight.quantizing.price import QuantizationPrice, price
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.scales import Seen, Tuning, assign, wide_forms
from atonc.insight.quantizing.types import LEAST_SAMPLES, QuantizationStep, QuantizedCandidate, QuantizeOptions
from atonc.insight.quantizing.weights import SHARES, WHOLE, Bounds, nearest
from atonc.insight.quantizing.write import OnnxWriter
from atonc.machine.base.frozen import dataclass

NOTHING = MendOptions(False, False)
UNPRICED = QuantizationPrice(None, None)
MOST_VALUES = 24 << 20  # of one tensor, over all samples that are mended with
ASKED_SAMPLES = 16  # that say what a change costs alone


@dataclass(frozen=True)
class MendedState:
    """What mending gave: a graph, what its tensors hold, the weights, and how those were made."""

    graph: FloatGraph
    seen: dict[str, Seen]
    layers: Mended
    walked: MendOptions
    other: MendedState | None = None  # the same where the halves of the samples are exchanged


@dataclass(frozen=True)
class TriedModel:
    candidate: QuantizedCandidate
    model: Any
    tuning: Tuning
    state: MendedState
    signal: Signal
    layers: Mended = field(default_factory=dict)
    cost: QuantizationPrice = UNPRICED
    models: Sequence[Any] = ()  # that either half taught
    layers_of_halves: Sequence[Mended] = ()
    note: str = ""  # for whoever gets this one


class Workbench:
    """A float graph on its way. `other`: the same way with the halves of the samples exchanged; frames in order have
    none."""

    def __init__(
        self, graph: FloatGraph, settings: QuantizeOptions, learn: Sequence[Feed], judge: QuantizationJudge
    ) -> None:
        self.graph, self.settings, self.learn, self.judge = graph, settings, learn, judge
        self.steps: list[QuantizationStep] = []
        self.layers: Mended = {}
        self.walked = NOTHING  # how those were made
        self.method = settings.calibration
        self.seen: dict[str, Seen] = {}
        self.base = Tuning()  # what nobody pays for: how cells are kept
        self.apart: tuple[str, ...] = ()  # outputs whose parts keep scales of their own
        self.decoding: tuple[str, ...] = ()  # what makes boxes, where that is better in float
        self.other: Workbench | None = None

    @property
    def halves(self) -> tuple[Workbench, ...]:
        return (self,) if self.other is None else (self, self.other)

    def decide(self, **found: Any) -> None:
        """What is decided holds for both halves."""
        for half in self.halves:
            vars(half).update(found)

    @property
    def state(self) -> MendedState:
        other = None if self.other is None else self.other.state
        return MendedState(self.graph, self.seen, self.layers, self.walked, other)

    def back_to(self, state: MendedState) -> None:
        self.graph, self.seen, self.layers, self.walked = state.graph, state.seen, state.layers, state.walked
        if self.other is not None and state.other is not None:
            self.other.back_to(state.other)

    def start(self, graph: FloatGraph, other: FloatGraph | None = None) -> None:
        """Everything that follows from the float weights alone. `other`: the other half's graph, if not this one."""
        self.graph = graph
        if self.other is not None:
            self.other.start(other or graph)
        states = self.judge.carried.states
        layers, last = layers_of(graph), decodings(graph)
        plans = [make_plan(graph, tails, more, states) for tails in (True, False) for more in ((), last)]
        names = tuple(dict.fromkeys(name for plan in plans for name in plan.tensors))
        self.seen = calibrate(graph, names, layers, self.learn, self.settings.scheduler)
        self.seen = with_curves(graph, plans[0], self.seen, self.judge.names)
        self.layers = {layer.name: (layer, nearest(graph, layer)) for layer in layers}

    def plan(self, tuning: Tuning) -> ScalePlan:
        tails = self.settings.float_tails and not tuning.tails
        more = () if tuning.boxes else self.decoding
        return make_plan(self.graph, tails, (*self.apart, *more), self.judge.carried.states)

    def model(self, tuning: Tuning, layers: Mended | None = None) -> Any:
        plan = self.plan(tuning)
        scales = assign(self.graph, plan, self.seen, self.method, tuning)
        wide = wide_forms(self.graph, plan, self.seen, tuning)
        return OnnxWriter(self.graph, plan, scales, self.layers if layers is None else layers, wide).model()

    def models(self, tuning: Tuning, layers: Sequence[Mended] = ()) -> list[Any]:
        """Makes the model of either half."""
        made = layers or [half.layers for half in self.halves]
        return [half.model(tuning, one) for half, one in zip(self.halves, made, strict=True)]

    def verdict(self, models: Sequence[Any], whole: bool = False) -> tuple[Signal, float]:
        """Each half of the samples judges what the other taught."""
        judges = [half.judge.whole if whole else half.judge for half in self.halves]
        return QuantizationJudge.together(list(zip(judges, models, strict=True)), whole)

    def signal(self, tuning: Tuning, layers: Sequence[Mended] = ()) -> Signal:
        return self.verdict(self.models(tuning, layers))[0]

    def walk(self, tuning: Tuning, wishes: MendOptions) -> list[Mended]:
        return [half.mended(tuning, wishes) for half in self.halves]

    def priced(self, model: Any, resident: str = "0") -> QuantizationPrice:
        return price(model, self.settings.board, self.judge.carried.states, resident)

    def mended(
        self,
        tuning: Tuning,
        wishes: MendOptions,
        before: Mended | None = None,
    ) -> Mended:
        """`before`: what every layer is read behind, where each is asked alone."""
        bounds = Bounds(tuning.spread, WHOLE if tuning.whole else SHARES, tuning.layers, tuning.four)
        layers = {name: (layer, nearest(self.graph, layer, bounds)) for name, (layer, _) in self.layers.items()}
        if wishes == NOTHING:
            return layers
        largest = max(int(np.prod(shape, dtype=np.int64)) for shape in self.graph.shapes.values())
        most = max(LEAST_SAMPLES, MOST_VALUES // max(largest, 1))
        feeds = some_of(self.learn, most)
        written = layers if before is None else before
        return mend(self.graph, self.model(tuning, written), layers, feeds, wishes, bounds, before)

    def few_learners(self) -> QuantizationJudge:
        """Judges by some of the samples to learn from: many small questions must not use up the others."""
        return QuantizationJudge.of(self.graph, some_of(self.learn, ASKED_SAMPLES))

    def better(self, name: str, found: Signal, best: Signal | None, anyway: bool = False) -> bool:
        """Whether a model is better than the best so far by more than chance, on samples that it did not see."""
        gain = None if best is None else found.gain_over(best)
        kept = anyway or gain is None or gain[0] > 0
        self.steps.append(QuantizationStep(name, found.db, found.interval(), gain, kept))
        return kept


def some_of(feeds: Sequence[Feed], most: int) -> Sequence[Feed]:
    """Evenly spread."""
    return feeds[:: -(-len(feeds) // most)]
