"""`atonc quantize`: from a float model and samples to the int8 model that fits the objective best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc import progress
from atonc.ir import Array
from atonc.quantizing.assign import Tuning, assign
from atonc.quantizing.calibrate import calibrate
from atonc.quantizing.equalise import equalise
from atonc.quantizing.graph import FloatGraph, own_constants
from atonc.quantizing.islands import WEIGHTED, Plan, make_plan
from atonc.quantizing.layers import layers_of
from atonc.quantizing.loading import read, tidy
from atonc.quantizing.mend import Mended, Wishes, mend
from atonc.quantizing.observe import mean_snr_db, outputs, snr_db
from atonc.quantizing.price import price
from atonc.quantizing.range_check import first_norm, require_trained_range, still_outputs
from atonc.quantizing.ranges import Seen
from atonc.quantizing.samples import Feed, Samples, read_samples
from atonc.quantizing.types import LEAST_SAMPLES, Candidate, Quantised, Settings
from atonc.quantizing.weights import SIMILAR, nearest
from atonc.quantizing.write import write

WALKS = (
    (Wishes(True, True), "weights rounded by the layer's output, biases corrected"),
    (Wishes(False, True), "biases corrected"),
)
MOST_VALUES = 24 << 20  # of one tensor, over all samples that are mended with
TUNABLE = ("tails", "concats", "near_zeros", "adds", "zeros", "channels")


def quantize(model: Path, data: Path, settings: Settings | None = None) -> Quantised:
    settings = settings or Settings()
    exported = read(model, settings.fixed_shapes)
    norm = first_norm(exported)
    graph = FloatGraph(own_constants(tidy(exported, model.name), WEIGHTED))
    samples = read_samples(data, {name: graph.shapes[name] for name in graph.inputs}, settings)
    require_trained_range(norm, samples.feeds, str(data))
    return quantize_graph(graph, samples, settings, model.name)


def quantize_graph(graph: FloatGraph, samples: Samples, settings: Settings, name: str) -> Quantised:
    learn, judge = samples.split()
    reference = outputs(graph.model, judge, "running the float model")
    work = Work(graph, settings, learn, judge, reference)
    work.mend()
    tried = work.tune()
    front = choose([candidate for candidate, _ in tried], settings)
    final = next(model for candidate, (_, model) in zip(front, tried, strict=True) if candidate.chosen)
    figures = snr_db(reference, outputs(final, judge, "judging"))
    return Quantised(
        name, final.SerializeToString(), len(samples.feeds), len(judge), dict(zip(graph.outputs, figures, strict=True)),
        tuple(work.steps), tuple(front), work.plan(Tuning()).float_nodes,
        (*samples.notes, *still_outputs(graph.outputs, reference)),
    )  # fmt: skip


class Work:
    """A float graph on its way; every step is kept only if it helps on samples that it did not see."""

    def __init__(
        self,
        graph: FloatGraph,
        settings: Settings,
        learn: Sequence[Feed],
        judge: Sequence[Feed],
        reference: list[list[Array]],
    ) -> None:
        self.graph, self.settings, self.learn, self.judge, self.reference = graph, settings, learn, judge, reference
        self.steps: list[tuple[str, float, bool]] = []
        self.layers: Mended = {}
        self.walked = Wishes(False, False)  # how those were made
        self.method = settings.calibration
        self.seen: dict[str, Seen] = {}
        self.unequalised: tuple[FloatGraph, dict[str, Seen], Mended, Wishes] | None = None  # where the other was better

    def plan(self, tuning: Tuning) -> Plan:
        return make_plan(self.graph, self.settings.float_tails and not tuning.tails)

    def snr(self, model: Any) -> float:
        return mean_snr_db(self.reference, outputs(model, self.judge, "judging"))

    def model(self, tuning: Tuning, layers: Mended | None = None) -> Any:
        plan = self.plan(tuning)
        scales = assign(self.graph, plan, self.seen, self.method, tuning)
        return write(self.graph, plan, scales, self.layers if layers is None else layers)

    # ------------------------------------------------------------------------------------------------------- mending

    def mend(self) -> None:
        self._start(self.graph)
        best = self._walk(self._ranges())
        if self.settings.equalise:
            self._equalise(best)

    def _ranges(self) -> float:
        """The way to choose ranges that the outputs like best; `output` tries the simpler ones, too."""
        methods = ("output", "mse", "minmax") if self.settings.calibration == "output" else (self.settings.calibration,)
        found: dict[str, float] = {}
        for self.method in methods:
            found[self.method] = self.snr(self.model(Tuning()))
        self.method = max(found, key=lambda method: found[method])
        self.steps += [(f"ranges by {one}, nearest rounding", snr, one == self.method) for one, snr in found.items()]
        return found[self.method]

    def _start(self, graph: FloatGraph) -> None:
        """Everything that follows from the float weights alone."""
        self.graph = graph
        layers, plans = layers_of(graph), [make_plan(graph, tails) for tails in (True, False)]
        names = tuple(dict.fromkeys(name for plan in plans for name in plan.tensors))
        self.seen = calibrate(graph, names, layers, self.learn)
        self.layers = {layer.name: (layer, nearest(graph, layer)) for layer in layers}

    def _walk(self, best: float, title: str = "") -> float:
        """Weights and biases that make up for the rest: rounded by the layers' outputs, or biases alone."""
        wanted, self.walked = (self.settings.correct_rounding, self.settings.correct_bias), Wishes(False, False)
        for wishes, name in WALKS:
            wishes = replace(wishes, rounding=wishes.rounding and wanted[0], biases=wishes.biases and wanted[1])
            if wishes == Wishes(False, False) or (wishes == self.walked):
                continue
            trial = self._mended(Tuning(), wishes)
            found = self.snr(self.model(Tuning(), trial))
            self.steps.append((title + name, found, found > best))
            if found > best:
                best, self.layers, self.walked = found, trial, wishes
        return best

    def _mended(self, tuning: Tuning, wishes: Wishes) -> Mended:
        spread = SIMILAR if tuning.channels else np.inf
        layers = {name: (layer, nearest(self.graph, layer, spread)) for name, (layer, _) in self.layers.items()}
        if wishes == Wishes(False, False):
            return layers
        largest = max(int(np.prod(shape, dtype=np.int64)) for shape in self.graph.shapes.values())
        count = max(LEAST_SAMPLES, MOST_VALUES // max(largest, 1))
        feeds = self.learn[:: -(-len(self.learn) // count)]
        return mend(self.graph, self.model(tuning, layers), layers, feeds, replace(wishes, spread=spread))

    def _equalise(self, best: float) -> None:
        """The same with equalised channels; the better one stays."""
        before = self.graph, self.seen, self.layers, self.walked
        copy = FloatGraph(_copied(self.graph.model))
        if not equalise(copy, layers_of(copy), self.seen):
            return
        self._start(copy)
        found = self.snr(self.model(Tuning()))
        self.steps.append(("channels equalised", found, found > best))
        if self._walk(found, "channels equalised, ") <= best:
            self.graph, self.seen, self.layers, self.walked = before
        else:
            self.unequalised = before

    # -------------------------------------------------------------------------------------------------------- tuning

    def tune(self) -> list[tuple[Candidate, Any]]:
        """One liking of the NPU after the other, each kept for the next if it is faster and loses little enough."""
        tried = [self._tried(Tuning())]
        if self.settings.objective == "accuracy":
            return tried
        current, tuning = tried[0][0], Tuning()
        models = {tried[0][1].SerializeToString(deterministic=True)}
        for flag in TUNABLE:
            trial = replace(tuning, **{flag: True})
            if not self._changes(tuning, trial):
                continue
            candidate, model = self._tried(trial)
            data = model.SerializeToString(deterministic=True)
            if data in models:
                continue
            models.add(data)
            tried.append((candidate, model))
            best = max(one.snr_db for one, _ in tried)
            loss = self.settings.max_loss_db if self.settings.objective == "balanced" else np.inf
            if _faster(candidate, current) and candidate.snr_db >= best - loss:
                current, tuning = candidate, trial
        return [*tried, *self._without_equalisation(tuning)]

    def _without_equalisation(self, tuning: Tuning) -> list[tuple[Candidate, Any]]:
        """Equalised channels may need a shift of their own; the others may be worth their loss."""
        if self.unequalised is None:
            return []
        self.graph, self.seen, self.layers, self.walked = self.unequalised
        candidate, model = self._tried(tuning)
        return [(replace(candidate, name=f"{candidate.name}, channels not equalised"), model)]

    def _changes(self, old: Tuning, new: Tuning) -> bool:
        if new.tails != old.tails:
            return self.plan(new) != self.plan(old)
        plan = self.plan(new)
        if new.channels != old.channels:
            return True
        scales = [assign(self.graph, plan, self.seen, self.method, tuning) for tuning in (old, new)]
        return scales[0] != scales[1]

    def _tried(self, tuning: Tuning) -> tuple[Candidate, Any]:
        with progress.part(tuning.name):
            anew = tuning.channels or tuning.zeros
            model = self.model(tuning, self._mended(tuning, self.walked) if anew else self.layers)
            cost = price(model, self.settings.board)
            return Candidate(tuning.name, self.snr(model), cost.milliseconds, cost.cycles, cost.refusal), model


def _copied(model: Any) -> Any:
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def _faster(one: Candidate, other: Candidate) -> bool:
    if one.milliseconds is None or other.milliseconds is None:
        return other.milliseconds is None and one.milliseconds is not None
    return one.milliseconds < other.milliseconds


def choose(candidates: Sequence[Candidate], settings: Settings) -> list[Candidate]:
    """Marks one: the best signal, or the fastest of those that lose little enough against it."""
    best = max(candidate.snr_db for candidate in candidates)
    loss = {"accuracy": 0.0, "balanced": settings.max_loss_db, "speed": np.inf}[settings.objective]
    allowed = [c for c in candidates if c.snr_db >= best - loss]
    key = min(allowed, key=lambda c: (c.milliseconds is None, c.milliseconds or 0.0, -c.snr_db))
    return [replace(candidate, chosen=candidate is key) for candidate in candidates]
