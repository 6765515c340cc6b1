"""`atonc quantize`: from a float model and samples to the int8 model that fits the objective best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.frontends.tails import note_of, told_tail
from atonc.compiler.ir import Array
from atonc.insight.evaluating.datasets import Dataset
from atonc.insight.evaluating.work import input_side
from atonc.insight.quantizing.graph import WEIGHTED, FloatGraph, copied, decodings, layers_of, magnitudes, own_constants
from atonc.insight.quantizing.judge import LabelledTask, QuantizationJudge, Signal, poor_outputs, unlike_heads
from atonc.insight.quantizing.loading import WIDTHS_OPSET, parse, raised, read, require_fixed_outputs, tidy, told_ranges
from atonc.insight.quantizing.mend import Mended, MendOptions, equalise
from atonc.insight.quantizing.narrow import Narrowed, PrecisionSearch, tensors_of
from atonc.insight.quantizing.observe import first_norm, require_trained_range, still_outputs, threads, watch
from atonc.insight.quantizing.parts import CountedPlaces, apart, before_scores, joins
from atonc.insight.quantizing.price import QuantizationPrice, allowed, candidate_of, choose, require_board
from atonc.insight.quantizing.recurrent import own_sums, write_out
from atonc.insight.quantizing.samples import Feed, Samples, read_samples, typed
from atonc.insight.quantizing.scales import Tuning, WidthPlan, assign, cells_of
from atonc.insight.quantizing.states import declared, read_frames, unpack
from atonc.insight.quantizing.types import (
    EIGHT_BITS,
    NO_LIMIT,
    ClippedTensor,
    OutputAccuracy,
    Quantised,
    QuantizationStep,
    QuantizedCandidate,
    QuantizeOptions,
    Scale,
)
from atonc.insight.quantizing.weights import SPREADS, spread_of
from atonc.insight.quantizing.widen import TargetMissed, Widened, WidthSearch, affordable, missed
from atonc.insight.quantizing.workbench import NOTHING, MendedState, TriedModel, Workbench
from atonc.insight.quantizing.write import codes_reach, decoded, reaches
from atonc.insight.workers.run import require_scheduler
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError

WALKS = {
    MendOptions(True, True): "weights rounded by the layer's output, biases corrected",
    MendOptions(True, False): "weights rounded by the layer's output",
    MendOptions(False, True): "biases corrected",
}
METHODS = ("minmax", "percentile", "careful", "mse", "output")  # the plain first: who cuts more must earn it
# With nearest rounding these learn nothing. Our percentile is not onnxruntime's: see `scales.PERCENTILE`.
PLAIN = ("minmax", "percentile")
RANGES = {"careful": "output, a quarter cut at most"}
HEADROOM = (1.5, 1.25, 1.1)  # times the range that was seen
OFTEN = 1e-3  # of the held values, where so many are beyond the codes
PREMIUM_DB = 0.25  # what wider ranges may cost: a value beyond the range costs its sample tens of dB
SLOWER = 1.01  # that a model may take longer which has learnt from all samples
CELL_ENDS = (8.0, 16.0, 32.0, 64.0)  # of ranges; a Tanh is 1 from 4 on
TUNABLE: tuple[dict[str, Any], ...] = (
    *({flag: True} for flag in ("tails", "boxes", "whole", "concats", "near_zeros", "adds", "zeros")),
    *({"spread": spread} for spread in SPREADS),
    *({"room": room} for room in (2.0, 3.0, 4.0)),
)


def quantize(model: Path, data: Path | None, settings: QuantizeOptions | None = None) -> Quantised:
    """A model that cannot be quantised says so before it asks for data."""
    settings = settings or QuantizeOptions()
    require_board(settings.board)
    if settings.scheduler:
        require_scheduler(settings.scheduler)
    with threads(settings.threads):
        exported = read(model, settings.fixed_shapes, settings.cut_outputs)
        norm = first_norm(exported)
        float_model = tidy(exported, model.name)
        float_model, carried, notes = _prepared(float_model, settings, model.name)
        counted = CountedPlaces.of(apart(copied(float_model)))
        if settings.precision != EIGHT_BITS or settings.widens or cells_of(FloatGraph(float_model)):
            float_model = raised(float_model, model.name)
        elif counted and settings.may_widen:
            with suppress(UnsupportedError):  # 8 bits everywhere then
                float_model = raised(float_model, model.name)
        float_model = before_scores(apart(float_model))
        graph, trained = FloatGraph(own_constants(float_model, WEIGHTED)), told_ranges(exported)
        graph.counted = counted
        graph.ranges = {name: scale for *names, scale in trained for name in names}
        if trained:  # nothing is learnt anew
            settings = replace(settings, objective="accuracy", equalise=False, correct_rounding=False,
                               correct_bias=False, wide=settings.wide or NO_LIMIT)  # fmt: skip
        require_fixed_outputs(graph, exported, model.name)
        if data is None:
            raise InputError(
                "no samples to calibrate with", where=model.name, remedy="--data FOLDER of images, or FILE.npz"
            )
        if carried:
            samples = read_frames(data, graph, carried, settings)
        else:
            samples = read_samples(data, {name: graph.shapes[name] for name in graph.inputs}, settings)
            samples = replace(samples, feeds=tuple(typed(feed, graph.types, str(data)) for feed in samples.feeds))
        require_trained_range(norm, samples.feeds, str(data))
        tail = told_tail(float_model)
        notes += [note_of(tail)] if tail else []
        notes += [f"steps are judged where a score is {counted.least:g} or more in float"] if counted else []
        samples = replace(samples, notes=(*samples.notes, *notes))
        found = quantize_graph(graph, samples, settings, model.name)
        return replace(found, tail=tail, notes=(*found.notes, *_told_trained(trained, found.model)))


def _told_trained(trained: Sequence[tuple[str, str, Scale]], made: bytes) -> list[str]:
    """Which ranges of fake quantisation are those of the file."""
    if not trained:
        return []
    written = FloatGraph(parse(made, "quantised"))
    ends = {"QuantizeLinear": lambda node: node.input[0], "DequantizeLinear": lambda node: node.output[0]}
    nodes = [node for node in written.nodes if node.op_type in ends]
    held = {ends[node.op_type](node): written.constants[node.input[1]].tolist() for node in nodes}
    lost = [one for one, other, scale in trained if np.float32(scale.scale) not in (held.get(one), held.get(other))]
    says = f"{len(trained) - len(lost)} ranges are those of fake quantisation in training"
    rest = f"; not so {', '.join(lost[:5])}: not quantised, or with the scale of what it is joined with"
    return [says + (rest if lost else "")]


def _prepared(model: Any, settings: QuantizeOptions, name: str) -> tuple[Any, dict[str, str], list[str]]:
    """States that are packed are taken apart, and cells written out: states by input, and notes."""
    before, carried = model, dict[str, str]()
    if settings.state:
        model, carried = unpack(model, declared(FloatGraph(model), settings.state))
    model, notes = write_out(model)
    return (model if model is before else own_sums(tidy(model, name))), carried, notes


def quantize_graph(graph: FloatGraph, samples: Samples, settings: QuantizeOptions, name: str) -> Quantised:
    learn, held = samples.split()
    work = QuantizationWork(graph, settings, learn, QuantizationJudge.of(graph, held, samples.carried))
    task, told = work.labelled(samples.data)
    work.mend()
    tried = work.tune()
    if graph.counted and settings.may_widen and graph.model.opset_import[0].version >= WIDTHS_OPSET:
        tried += work.afford(tried)
    front = choose([one.candidate for one in tried], settings)
    place = next(index for index, candidate in enumerate(front) if candidate.chosen)
    chosen, narrowed, widened, other = replace(tried[place], candidate=front[place]), None, None, False
    if settings.precision != EIGHT_BITS:
        narrowed = work.narrow(chosen)
        other = narrowed.chosen.tuning.four != chosen.tuning.four
        chosen = work.narrowed(narrowed) if other else chosen
    elif settings.widens:
        widened = work.widen([chosen, tried[0]])
        other = widened.chosen.tuning.wide != chosen.tuning.wide
        chosen = work.widened(widened) if other else chosen
    if other:
        front = [*(replace(one, chosen=False) for one in front), chosen.candidate]
        place = len(front) - 1
    # before the samples that judge are learnt from, too
    front[place], final, layers = work.learnt_again(chosen, samples.feeds)
    figures = work.accuracy(chosen, final)
    answers = (half.judge.seen(model, half.judge.shown) for half, model in zip(work.halves, chosen.models, strict=True))
    in_float = work.plan(chosen.tuning).float_nodes
    return Quantised(
        source=name,
        model=final.SerializeToString(),
        samples=len(samples.feeds),
        held_samples=sum(len(half.judge.feeds) for half in work.halves),
        outputs=figures,
        clipped_inside=work.clipped_inside(chosen),
        steps=tuple(work.steps),
        front=tuple(front),
        float_nodes=in_float,
        notes=(
            *(*samples.notes, *told, *still_outputs(work.judge.shown, work.judge.expected)),
            *poor_outputs(figures, bool(work.graph.ranges)),
            *joins(work.graph, work.seen, in_float),
            *(narrowed.notes if narrowed else ()),
            *([chosen.note] if chosen.note else []),
            *(missed(figures, settings) if settings.widens else ()),
        ),
        wide=bool(chosen.tuning.wide),
        sizes=narrowed.points if narrowed else (),
        tensors=tensors_of(work.graph, layers, narrowed.alone_db) if narrowed else (),
        widths=widened.points if widened else (),
        task=task.figures([one for some in answers for one in some]) if task else {},
        states=tuple(f"{output}={given}" for given, output in samples.carried.states.items()),
    )  # fmt: skip


class QuantizationWork(Workbench):
    """What is done to the graph; a step is kept only if it helps by more than chance on samples that it did not see."""

    def __init__(
        self, graph: FloatGraph, settings: QuantizeOptions, learn: Sequence[Feed], judge: QuantizationJudge
    ) -> None:
        super().__init__(graph, settings, learn, judge)
        self.plain: list[Signal] = []  # what plain ranges reach
        self.best: Signal | None = None  # with what is kept so far
        self.unequalised: MendedState | None = None  # where the other was better
        if not judge.carried.states:
            self.other = Workbench(graph, settings, judge.feeds, QuantizationJudge.of(graph, learn))

    # ------------------------------------------------------------------------------------------------------- mending

    def mend(self) -> None:
        self.start(self.graph)
        self._ranges()
        self._heads()
        self._decoding()
        self._magnitudes()
        self._cells()
        self._headroom()
        self._walk()
        if self.settings.equalise:
            self._equalise()

    def keeps(self, name: str, found: Signal, anyway: bool = False) -> bool:
        """Whether a model is better than the best so far, or taken `anyway`; it is the best then."""
        kept = self.better(name, found, self.best, anyway)
        self.best = found if kept else self.best
        return kept

    def _ranges(self) -> None:
        """The way to choose ranges that the outputs like best; `output` tries others, too."""
        kept = ""
        for method in METHODS if self.settings.calibration == "output" else (self.settings.calibration,):
            self.decide(method=method)
            found = self.signal(self.base)
            if self.keeps(f"ranges by {RANGES.get(method, method)}, nearest rounding", found):
                kept = method
            if method in PLAIN:
                self.plain.append(found)
        self.decide(method=kept)

    def _heads(self) -> None:
        """Outputs that join boxes and scores stay joined in float, where that helps."""
        self.decide(apart=unlike_heads(self.graph, self.seen) if self.settings.float_tails else ())
        name = "joined outputs keep the scales of their parts"
        if self.apart and not self.keeps(name, self.signal(self.base)):
            self.decide(apart=())

    def _decoding(self) -> None:
        """Boxes are made of the last layers' results in float, where that helps."""
        free = self.settings.float_tails and not self.judge.carried.states
        self.decide(decoding=decodings(self.graph) if free else ())
        if self.decoding and not self.keeps("arithmetic of boxes in float", self.signal(self.base)):
            self.decide(decoding=())

    def _magnitudes(self) -> None:
        before, found = self.apart, magnitudes(self.graph)
        self.decide(apart=(*before, *found))
        if found and not self.keeps("roots of squares in float", self.signal(self.base)):
            self.decide(apart=before)

    def _cells(self) -> None:
        """Where cells end, and whether they have 16 bits: they sum up over many steps what 8 bits lose in each."""
        cells = cells_of(self.graph)
        if not cells:
            return
        widths, ends = WidthPlan.of(self.graph, self.plan(self.base)), sorted(CELL_ENDS, reverse=True)
        wide = widths.closed({name for group in widths.groups if not cells.isdisjoint(group) for name in group})
        top = max(max(-self.seen[name].low, self.seen[name].high) for name in cells)
        eight = [(f"cells up to {end:g}", Tuning(cells=end)) for end in ends if end < top]
        both = [("cells of 16 bits", Tuning(wide=wide)), *((f"{name}, 16 bits", replace(tuning, wide=wide))
                                                           for name, tuning in eight)]  # fmt: skip
        for name, tuning in (*eight, *(both if wide and self.settings.precision == EIGHT_BITS else ())):
            if self.keeps(name, self.signal(tuning)):
                self.decide(base=tuning)

    def _headroom(self) -> None:
        """New samples go beyond what was seen, and few samples show what room for them spares: where values that are
        judged often do, the outputs get as much as costs little."""
        plain = self.best or self.signal(self.base)
        values = sum(one.size for half in self.halves for row in half.judge._apart(half.judge.reference) for one in row)
        often = plain.beyond.sum() > OFTEN * values
        for name in ("head", "inner"):
            for room in HEADROOM:
                tuning = replace(self.base, **{name: room})  # type: ignore[arg-type]
                found = self.signal(tuning)
                if self.keeps(tuning.name, found, often and name == "head" and found.db > plain.db - PREMIUM_DB):
                    self.decide(base=tuning)
                    break

    def accuracy(self, tried: TriedModel, file: Any) -> tuple[OutputAccuracy, ...]:
        """Whole outputs. `file`: what is written, which has learnt from samples that judge here."""
        models = tried.models
        judged, learnt = self.verdict(models, True)[0], self.verdict([file] * len(models), True)[0].by_column
        found = []
        for k, (name, one) in enumerate(zip(self.judge.shown, judged.by_column, strict=True)):
            values = sum(row[k].size for half in self.halves for row in half.judge.expected)
            coded = np.isfinite(codes_reach(file, name)).all()
            clipped = int(judged.beyond[:, k].sum()) if coded else None
            found.append(OutputAccuracy(name, one.db, one.interval(learnt[k]), clipped, values))
        return tuple(found)

    def clipped_inside(self, tried: TriedModel) -> tuple[ClippedTensor, ...]:
        """By the ranges that the other half taught; frames in order are not counted."""
        if self.judge.carried.states:
            return ()
        plan, counts = self.plan(tried.tuning), defaultdict[str, Array](lambda: np.zeros(2, np.int64))
        states = tried.state, tried.state.other
        for half, model, state in zip(self.halves, tried.models, states, strict=False):
            assert state is not None
            ends = {name: found[decoded(name)] for found in [reaches(model)] for name in plan.tensors
                    if not state.seen[name].curve and decoded(name) in found}  # fmt: skip
            for values in watch(state.graph.model, half.judge.feeds, list(ends), "counting clipped values"):
                for name, (low, high) in ends.items():
                    beyond = (values[name] < low) | (values[name] > high)
                    counts[name] += int(beyond.sum()), beyond.size
        found = [
            ClippedTensor(name, int(clipped), int(values)) for name, (clipped, values) in counts.items() if clipped
        ]
        return tuple(sorted(found, key=lambda one: -one.clipped / one.values))

    def labelled(self, data: Dataset | None) -> tuple[LabelledTask | None, list[str]]:
        """What measures the task, and notes. Labels of which nobody said what they are may not fit."""
        asked = self.settings.metric
        if asked == "distance" or (asked == "auto" and not (data and data.labelled and self.other)):
            return None, []
        try:
            if data is None or self.other is None:
                raise InputError("no labels to measure by", where="--metric", rule="see docs/quantize.md, Labels")
            data = replace(data, entries=(*data.entries[1::2], *data.entries[::2]))  # as the halves judge
            side, told = input_side(self.graph.shapes[self.graph.inputs[0]]), self.judge.expected
            task = LabelledTask.of(data, side, [*told, *self.other.judge.expected], self.settings)
        except AtoncError as error:
            if asked != "auto":
                raise
            return None, [f"labels are not used: {error.one_line}"]
        return task, [task.metric.note] if task.metric.note else []

    def _walk(self) -> None:
        """Weights and biases that make up for the rest: biases alone, or weights rounded by the layers' outputs."""
        rounding, biases = self.settings.correct_rounding, self.settings.correct_bias
        ways = [MendOptions(False, biases), *([MendOptions(True, biases)] if rounding else ())]
        for wishes in (way for way in ways if way in WALKS):
            trial = self.walk(self.base, wishes)
            if self.keeps(WALKS[wishes], self.signal(self.base, trial)):
                self._take(trial)
                self.decide(walked=wishes)

    def _take(self, layers: Sequence[Mended]) -> None:
        for half, one in zip(self.halves, layers, strict=True):
            half.layers = one

    def _equalise(self) -> None:
        """The same with equalised channels, mended as was best without."""
        before = self.state
        copies = [FloatGraph(copied(half.graph.model)) for half in self.halves]
        copies[0].counted = self.graph.counted
        changed = [equalise(one, layers_of(one), half.seen) for one, half in zip(copies, self.halves, strict=True)]
        if not any(changed):
            return
        self.start(copies[0], copies[-1])
        self._take(self.walk(self.base, self.walked))
        also = f", {WALKS[self.walked]}" if self.walked in WALKS else ""
        if self.keeps(f"channels equalised{also}", self.signal(self.base)):
            self.unequalised = before
        else:
            self.back_to(before)

    # -------------------------------------------------------------------------------------------------------- tuning

    def tune(self) -> list[TriedModel]:
        """One liking of the NPU after the other, each kept for the next if it is faster and loses little enough."""
        tried = [self._tried(self.base)]
        if self.settings.objective == "accuracy":
            return tried
        current = tried[0]
        models = {current.model.SerializeToString(deterministic=True)}
        for more in TUNABLE:
            tuning = self._where_it_pays(current, replace(current.tuning, **more))
            if not self._changes(current.tuning, tuning):
                continue
            trial = self._tried(tuning)
            data = trial.model.SerializeToString(deterministic=True)
            if data in models:
                continue
            models.add(data)
            tried.append(trial)
            sound = allowed([one.candidate for one in tried], self.settings)
            if trial.candidate.time_ms < current.candidate.time_ms and trial.candidate in sound:
                current = trial
        if self.unequalised is not None:  # equalised channels may need a shift of their own; the others may be worth it
            self.back_to(self.unequalised)
            plain = self._tried(current.tuning)
            name = f"{plain.candidate.name}, channels not equalised"
            tried.append(replace(plain, candidate=replace(plain.candidate, name=name)))
        return tried

    def _where_it_pays(self, current: TriedModel, tuning: Tuning) -> Tuning:
        """Scales of channels are bounded in those layers alone that are faster with it: elsewhere it only loses."""
        if tuning.spread == current.tuning.spread or not self._changes(current.tuning, tuning):
            return tuning
        with progress.part(tuning.name):
            found = self.priced(self.model(tuning, self.mended(tuning, NOTHING))).by_layer
        faster = {name for name, cycles in found.items() if cycles < current.cost.by_layer.get(name, 0)}
        return replace(tuning, layers=frozenset(faster & self.layers.keys()))

    def _changes(self, old: Tuning, new: Tuning) -> bool:
        plan = self.plan(new)
        if (new.tails, new.boxes) != (old.tails, old.boxes):
            return plan != self.plan(old)
        if new.whole != old.whole:
            return True
        if new.spread != old.spread:
            layers = [layer for layer, _ in self.layers.values() if new.layers is None or layer.name in new.layers]
            return any(spread_of(self.graph, layer) > new.spread for layer in layers)
        scales = [assign(self.graph, plan, self.seen, self.method, tuning) for tuning in (old, new)]
        return scales[0] != scales[1]

    def _tried(self, tuning: Tuning) -> TriedModel:
        with progress.part(tuning.name):
            anew = tuning.spread < np.inf or tuning.zeros or tuning.whole
            layers = self.walk(tuning, self.walked) if anew else [half.layers for half in self.halves]
            found = self._as_tried(tuning, layers)
            return replace(found, candidate=replace(found.candidate, sound=self._sound(found.signal)))

    def _as_tried(self, tuning: Tuning, layers: Sequence[Mended], cost: QuantizationPrice | None = None) -> TriedModel:
        models = self.models(tuning, layers)
        signal, cost = self.verdict(models)[0], cost or self.priced(models[0])
        candidate = candidate_of(tuning.name, signal, cost)
        return TriedModel(
            candidate, models[0], tuning, self.state, signal, layers[0], cost, models=models, layers_of_halves=layers
        )

    def _sound(self, signal: Signal) -> bool:
        """Whether it is no less sure to be as good as plain ranges and nearest rounding than the best untuned one."""
        best = self.best
        return best is None or all(
            signal.gain_over(plain)[0] >= min(0.0, best.gain_over(plain)[0]) for plain in self.plain
        )

    # ---------------------------------------------------------------------------------------------- 4 bits and 16 bits

    def narrow(self, tried: TriedModel) -> Narrowed:
        """Weights of 4 bits in the model that was chosen."""
        self.back_to(tried.state)
        found = PrecisionSearch(self, tried).run()
        if found.chosen.tuning.four:
            self.walked = found.wishes
        return found

    def narrowed(self, found: Narrowed) -> TriedModel:
        """What was chosen of it, with its price."""
        one = found.chosen
        made = self._as_tried(one.tuning, one.layers)
        return replace(made, candidate=replace(made.candidate, chosen=True))

    def widen(self, starts: Sequence[TriedModel]) -> Widened:
        """Activations of 16 bits in the model that was chosen; in the one before tuning where that is too far off."""
        for tried in starts[:-1]:
            with suppress(TargetMissed):
                return self._widened_from(tried)
        return self._widened_from(starts[-1])

    def _widened_from(self, tried: TriedModel) -> Widened:
        self.back_to(tried.state)
        found = WidthSearch(self, tried, WidthPlan.of(self.graph, self.plan(tried.tuning))).run()
        if found.chosen.tuning.wide:
            self.walked = found.wishes
        return found

    def widened(self, found: Widened) -> TriedModel:
        one = found.chosen
        layers = [one.layers, *(half.mended(one.tuning, found.wishes) for half in self.halves[1:])]
        made = self._as_tried(one.tuning, layers, cost=one.cost)
        return replace(made, candidate=replace(made.candidate, chosen=True))

    def afford(self, ways: Sequence[TriedModel]) -> list[TriedModel]:
        """A few tensors of 16 bits, where that is better: small errors of scores decide which boxes are left."""
        front = choose([one.candidate for one in ways], self.settings)
        tried = next(one for one, candidate in zip(ways, front, strict=True) if candidate.chosen)
        self.back_to(tried.state)
        wide = affordable(self, tried, WidthPlan.of(self.graph, self.plan(tried.tuning)))
        if not wide:
            return []
        found = self._as_tried(replace(tried.tuning, wide=wide), tried.layers_of_halves)
        before, after, gain = tried.candidate.time_ms, found.candidate.time_ms, found.signal.db - tried.signal.db
        note = (f"{found.candidate.name}: {gain:+.1f} dB for {after - before:+.3f} ms ({after / before - 1:+.0%}), as "
                "small errors of scores decide which boxes are left; ST's tool refuses such files (--wide none: 8 bits "
                "everywhere)")  # fmt: skip
        return [replace(found, note=note)] if self.better(found.candidate.name, found.signal, tried.signal) else []

    def learnt_again(self, tried: TriedModel, feeds: Sequence[Feed]) -> tuple[QuantizedCandidate, Any, Mended]:
        """The chosen way once more from all samples; the file of a half where all of them cost too much: ranges
        of more samples are wider, and one sample may stretch them all.

        The figure stays what it was without the samples that judge: now they have been learnt from.
        """
        self.back_to(tried.state)
        old, taught = tried.candidate, Workbench(self.graph, self.settings, feeds, self.judge)
        vars(taught).update(method=self.method, apart=self.apart, decoding=self.decoding)
        taught.start(self.graph)
        layers = taught.mended(tried.tuning, self.walked)
        files = [("all samples", taught.model(tried.tuning, layers), layers, self.graph)]
        halves = zip(("one half", "the other half"), self.halves, tried.models, tried.layers_of_halves, strict=False)
        files += [(who, model, one, half.graph) for who, half, model, one in halves]
        kept = old, tried.model, tried.layers
        best: Signal | None = None
        for who, model, layers, graph in files:
            found = self.verdict([model] * len(self.halves))[0]
            if best is not None and found.db <= best.db + PREMIUM_DB:
                continue
            cost = tried.cost if model is tried.model else self.priced(model)
            better = old.milliseconds is None or (cost.milliseconds or np.inf) / old.milliseconds <= SLOWER
            name = f"file calibrated on {who} (compared on all samples)"
            gain = None if best is None else found.gain_over(best)
            self.steps.append(QuantizationStep(name, found.db, found.interval(), gain, better))
            if better:
                candidate = replace(candidate_of(old.name, found, cost), snr_db=old.snr_db, interval_db=old.interval_db)
                kept, best, self.graph = (replace(candidate, chosen=old.chosen), model, layers), found, graph
        return kept
