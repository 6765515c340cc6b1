"""What decides between two ways to quantise: the outputs, on samples that taught nothing; how much better one is than
the other, and how sure that is.

Detectors join parts of unlike range in one output, boxes in pixels and scores below 1: each part counts. One scale for
both would leave the scores a few codes. From the first such Concat on the output stays in float, however often it is
joined and reshaped on the way: its parts keep scales of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.evaluating import metrics
from atonc.insight.evaluating.datasets import Dataset, Fit
from atonc.insight.evaluating.decoders import parse_anchors
from atonc.insight.evaluating.metrics import MetricFigure
from atonc.insight.quantizing.graph import FloatGraph, is_move
from atonc.insight.quantizing.loading import require_equal_sizes
from atonc.insight.quantizing.observe import outputs, part_of, run, session
from atonc.insight.quantizing.samples import STATELESS, Carried, Feed
from atonc.insight.quantizing.scales import Seen
from atonc.insight.quantizing.types import OutputAccuracy, QuantizeOptions
from atonc.insight.quantizing.write import codes_reach, decoded
from atonc.machine.base.frozen import dataclass

DRAWS = 1000  # of as many samples as there are, with repetition
SURE = 2.5, 97.5  # percent: an interval of 95 %
EQUAL_DB, LEAST_DB = 120.0, -20.0  # of a sample: with ten times its amplitude as noise nothing is left
POOR_DB = 10.0  # below, the noise is a third of the signal or more
_NONE = 1e-300  # power of a signal that is none: squares of the smallest float32 are 1e-90


Values = Sequence[Sequence[Array]]  # by sample and column
Ends = Sequence[tuple[float, float]]  # by column, the lowest and the highest value


@dataclass(frozen=True, eq=False)
class Signal:
    """Squares of what is judged, sample by sample: rows are samples, columns outputs or parts of them."""

    signal: Array
    noise: Array
    clipped: Array = field(default_factory=partial(np.zeros, (1, 1)))  # noise beyond what codes say
    beyond: Array = field(default_factory=partial(np.zeros, (1, 1)))  # how many values that is

    @staticmethod
    def of(expected: Values, seen: Values, ends: Sequence[Ends] = (), still: bool = False) -> Signal:
        """Compares sample by sample; what is the same in all, such as a detector's anchors, is a column if `still`.
        `ends`: of every sample, lowest and highest value of each column's codes."""
        live = np.array([any(not np.array_equal(one, values[0]) for one in values[1:])
                         for values in zip(*expected, strict=True)])  # fmt: skip
        wanted = live if live.any() and not still else np.ones_like(live)
        rows = []
        for number, values in enumerate(expected):
            lost = [one.astype(np.float64) - other for one, other in zip(values, seen[number], strict=True)]
            row = [[*map(power, values)], [*map(power, lost)]]
            if ends:
                outside = [(one < low) | (one > high) for one, (low, high) in zip(values, ends[number], strict=True)]
                row += [[power(one[where]) for one, where in zip(lost, outside, strict=True)]]
                row += [[float(one.sum()) for one in outside]]
            rows.append(row)
        return Signal(*np.array(rows, np.float64).transpose(1, 0, 2)[:, :, wanted])

    @property
    def unclipped(self) -> Signal:
        """Without the noise of clipped values: what those hide."""
        return Signal(self.signal, np.maximum(self.noise - self.clipped, 0.0))

    @cached_property
    def by_sample(self) -> Array:
        """Signal to noise in dB: samples x columns. A silent one that stays so is as the others of its column."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.ma.masked_invalid(np.clip(10 * np.log10(self.signal / self.noise), LEAST_DB, EQUAL_DB))
        return np.where(np.ma.getmaskarray(found), np.ma.filled(found.mean(0), EQUAL_DB), found.data)

    @cached_property
    def db(self) -> float:
        """The mean over samples and columns: of all samples' energy together the few loudest would decide."""
        return float(self.by_sample.mean())

    @property
    def by_column(self) -> list[Signal]:
        return [Signal(self.signal[:, [k]], self.noise[:, [k]]) for k in range(self.noise.shape[1])]

    def interval(self, file: Signal | None = None) -> tuple[float, float]:
        """95 % of the figures that as many new samples give, by the spread of these (Student's t); and never less than
        either half is off. `file`: what was learnt from these samples, too; new ones lie between."""
        found, both = self.by_sample.mean(1), [self.db, *([file.db] if file else [])]
        count, halves = len(found), [float(half.mean()) for half in np.array_split(found, 2) if len(half)]
        half_width = (1.96 + 2.5 / max(count - 1, 1)) * float(found.std()) * (2 / max(count - 1, 1)) ** 0.5
        return min(self.db - half_width, *both, *halves), max(max(both) + half_width, *halves)

    def gain_over(self, other: Signal) -> tuple[float, float]:
        """By how many dB it is better, 95 %, drawn from the samples again and again; the other is of the same ones."""
        count, gain = len(self.noise), (self.by_sample - other.by_sample).mean(1)
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
        low, high = np.percentile(drawn @ gain / count, SURE)
        return float(low), float(high)


def power(value: Array) -> float:
    return float(np.square(value.astype(np.float64)).sum())


def decibels(signal: Array, noise: Array) -> Array:
    """The mean over the last axis; from -120 (all is noise) to 120 (equal)."""
    floor, ends = np.maximum(signal, _NONE), 10 ** (EQUAL_DB / 10)
    return (10 * np.log10(floor / np.clip(noise, floor / ends, floor * ends))).mean(-1)


UNLIKE = 4.0  # from which factor on between the largest values of two parts
JOINING = ("Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity")  # nothing is lost or made


@dataclass(frozen=True)
class Joined:
    """An output that is put together of several tensors."""

    output: str
    nodes: tuple[Any, ...]  # that put it together, in the order of the graph
    parts: tuple[str, ...]


def joined_outputs(graph: FloatGraph) -> list[Joined]:
    found = []
    for output in graph.outputs:
        nodes, parts = _put_together(graph, output)
        if len(parts) > 1 and all(graph.shapes.get(part) for part in parts):
            ordered = tuple(node for node in graph.nodes if node.name in nodes)
            found.append(Joined(output, ordered, tuple(parts)))
    return found


def _put_together(graph: FloatGraph, output: str) -> tuple[set[str], dict[str, None]]:
    """Names of the nodes that only move values into this output and nowhere else, and the tensors they begin with."""
    nodes, parts, waiting = set[str](), dict[str, None](), [output]
    while waiting:
        name = waiting.pop(0)
        node = graph.producer.get(name)
        alone = not graph.readers[name] if name == output else graph.read_once(name)
        if node is None or node.op_type not in JOINING or not alone:
            parts[name] = None
            continue
        nodes.add(node.name)
        waiting += graph.activations(node)
    return nodes, parts


def unlike_heads(graph: FloatGraph, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """Names of the nodes that join what a shared scale does not bear, and of those that follow them to the output."""
    found = set[str]()
    for joined in joined_outputs(graph):
        tops = {part: [max(abs(seen[part].low), abs(seen[part].high))] for part in joined.parts if part in seen}
        apart = set[str]()  # tensors
        for node in joined.nodes:
            live = graph.activations(node)
            below = [top for name in live for top in tops.get(name, [])]
            unlike = node.op_type == "Concat" and bool(below) and max(below) > UNLIKE * max(min(below), 1e-12)
            if unlike or apart.intersection(live):
                found.add(node.name)
                apart.add(node.output[0])
            tops[node.output[0]] = below
    return tuple(node.name for node in graph.nodes if node.name in found)


def parts_of(graph: FloatGraph) -> dict[str, Array]:
    """Output -> for each of its values the number of the part that it comes from."""
    return {joined.output: _owners(graph, joined) for joined in joined_outputs(graph)}


def _owners(graph: FloatGraph, joined: Joined) -> Array:
    return _run_on(graph, joined, [np.full(graph.shapes[part], k) for k, part in enumerate(joined.parts)])


def part_places(graph: FloatGraph, joined: Joined) -> Array:
    """For each value of the output, in its order, the place among those of all parts behind each other."""
    ends = np.cumsum([0, *(int(np.prod(graph.shapes[part])) for part in joined.parts)])
    numbers = [ends[k] + np.arange(ends[k + 1] - ends[k]) for k in range(len(joined.parts))]
    shapes = [graph.shapes[part] for part in joined.parts]
    return _run_on(graph, joined, [one.reshape(shape) for one, shape in zip(numbers, shapes, strict=True)]).reshape(-1)


def _run_on(graph: FloatGraph, joined: Joined, values: Sequence[Array]) -> Array:
    """The joining nodes themselves say where values go, run on parts that hold nothing but numbers."""
    from onnx import TensorProto, helper, numpy_helper

    constants = {name for node in joined.nodes for name in node.input if name in graph.constants}
    inputs = [helper.make_tensor_value_info(p, TensorProto.FLOAT, graph.shapes[p]) for p in joined.parts]
    stored = [numpy_helper.from_array(graph.constants[name], name) for name in sorted(constants)]
    model = part_of(graph.model, joined.nodes, inputs, [joined.output], stored)
    feed = {part: value.astype(np.float32) for part, value in zip(joined.parts, values, strict=True)}
    return run(session(model), feed)[0].astype(np.int64)


SATURATING = ("Softmax", "Sigmoid")


def _counted(value: Array, places: Array | None) -> Array:
    """What the value holds at these places of boxes; all of it where it has no such places."""
    if places is None or value.shape.count(len(places)) != 1:
        return value
    return value.compress(places, value.shape.index(len(places)))


@dataclass(frozen=True, eq=False)
class QuantizationJudge:
    feeds: tuple[Feed, ...]
    names: tuple[str, ...]  # of the float graph: its outputs first
    reference: list[list[Array]]
    outputs: int
    parts: Mapping[str, Array]  # of outputs that join several tensors: whose each value is; each part counts
    carried: Carried = STATELESS  # a model that is judged goes on from its own states
    counted: Sequence[Array] = ()  # of each sample's places of boxes, those that count; empty: all do

    @staticmethod
    def of(graph: FloatGraph, feeds: Sequence[Feed], carried: Carried = STATELESS) -> QuantizationJudge:
        states = frozenset(carried.states.values())  # what is wrong with them shows in the frames behind
        names = judged(graph, states)
        reference = outputs(graph.model, feeds, "running the float model", names)
        require_equal_sizes(names, reference)
        count = len(graph.outputs) - len(states)
        counted = graph.counted.of_samples(feeds) if graph.counted else ()
        parts = {} if counted else parts_of(graph)  # boxes and scores are outputs of their own
        return QuantizationJudge(tuple(feeds), names, reference, count, parts, carried, counted)

    @property
    def shown(self) -> tuple[str, ...]:
        """The outputs that are judged; those of states are not."""
        return self.names[: self.outputs]

    @property
    def expected(self) -> list[list[Array]]:
        """The outputs in float, sample by sample."""
        return [values[: self.outputs] for values in self.reference]

    def signal(self, model: Any) -> Signal:
        """All that is judged, by sample; small scores beside large boxes count as much as those."""
        return self.together([(self, model)])[0]

    @staticmethod
    def together(pairs: Sequence[tuple[QuantizationJudge, Any]], still: bool = False) -> tuple[Signal, float]:
        """The verdict on a way to quantise: every model by a judge of its own, whose samples did not teach it. And the
        share of the samples whose first class is another than in float."""
        seen = [(judge, judge.seen(model, judge.names)) for judge, model in pairs]
        expected = [values for judge, _ in seen for values in judge._apart(judge.reference)]
        found = [values for judge, some in seen for values in judge._apart(some)]
        ends = [end for judge, model in pairs for end in [judge._ends(model)] * len(judge.feeds)]
        changed = sum(judge._changed(some) * len(some) for judge, some in seen) / max(len(found), 1)
        return Signal.of(expected, found, ends, still), changed

    @property
    def whole(self) -> QuantizationJudge:
        """Judges outputs alone, not taken apart."""
        return replace(self, names=self.shown, parts={}, counted=())

    def _ends(self, model: Any) -> Ends:
        columns = zip(self.names, self.reference[0], strict=False)
        return [codes_reach(model, name) for name, value in columns for _ in self._split(name, value)]

    def signal_of_outputs(self, places: Sequence[int], seen: list[list[Array]]) -> Signal:
        """Judges outputs alone, which somebody else has computed for the samples at these places."""
        expected = [self.expected[place] for place in places]
        for one, other in zip(expected, seen, strict=True):
            assert [value.shape for value in one] == [value.shape for value in other]
        some = replace(self, counted=[self.counted[place] for place in places] if self.counted else ())
        return Signal.of(some._apart(expected), some._apart(seen))

    @property
    def class_outputs(self) -> tuple[int, ...]:
        """Outputs that are one row of values, of which the largest may be a class."""
        found = enumerate(self.reference[0][: self.outputs])
        return tuple(index for index, value in found if value.size == max(value.shape, default=1) > 1)

    def _changed(self, seen: list[list[Array]]) -> float:
        return sum(
            any(one[index].argmax() != other[index].argmax() for index in self.class_outputs)
            for one, other in zip(self.reference, seen, strict=True)
        ) / max(len(seen), 1)

    def _apart(self, samples: list[list[Array]]) -> list[list[Array]]:
        """Names beyond the outputs may be left out."""
        counted: Sequence[Array | None] = self.counted or [None] * len(samples)
        return [[part for name, value in zip(self.names, values, strict=False)
                 for part in self._split(name, _counted(value, places))]
                for values, places in zip(samples, counted, strict=True)]  # fmt: skip

    def _split(self, name: str, value: Array) -> list[Array]:
        if name not in self.parts:
            return [value]
        owners = self.parts[name]
        return [value[owners == part] for part in range(int(owners.max()) + 1)]

    def seen(self, model: Any, names: Sequence[str]) -> list[list[Array]]:
        made = {name for node in model.graph.node for name in node.output}
        inside = [decoded(name) if decoded(name) in made else name for name in names]
        found = outputs(model, self.feeds, "judging", inside, self.carried)
        for expected, values in zip(self.reference, found, strict=True):  # int8 may pick another number of values
            require_equal_sizes(names, [expected[: len(names)], values])
        return found


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """What labels say of answers, by a metric of `evaluate`."""

    metric: metrics.Metric
    data: Dataset
    side: tuple[int, int]  # of the input
    reference: Any = ()  # records of the float model's answers
    in_float: Any = ()  # their figures

    @staticmethod
    def of(data: Dataset, side: tuple[int, int], expected: Values, settings: QuantizeOptions) -> LabelledTask:
        """Whatever does not fit shows before the long work begins."""
        name = metrics.metric_name(settings.metric, data)
        metrics.require_fit(name, data, expected[0][0].size, "--data")
        words = {"decoder": settings.decoder, "anchors": parse_anchors(settings.anchors), "iou": 0.0}
        words["blank"] = settings.blank
        metric = metrics.metric_for(name, words, [value.shape for value in expected[0]], side)
        metrics.require_categories(metric, data, "--data")
        reference = LabelledTask(metric, data, side).records(expected)
        return LabelledTask(metric, data, side, reference, metric.figures(reference, data))

    def records(self, outputs: Values) -> list[Any]:
        (w, h), found = self.side, list[Any]()
        for entry, values in zip(self.data.entries, outputs, strict=True):
            size = entry.size or self.side
            fit = Fit((w / size[0], h / size[1]), (0.0, 0.0), size, self.side)
            found.append(self.metric.record(values, entry.truth, fit))
        return found

    def figures(self, outputs: Values) -> dict[str, list[MetricFigure]]:
        """The figures of the quantised model, beside those in float."""
        ours, metric, data = self.records(outputs), self.metric, self.data
        lost = metric.differences(ours, self.reference, data)
        return {"float": self.in_float, "quantised": metric.figures(ours, data), "difference": lost}


def judged(graph: FloatGraph, states: Collection[str] = ()) -> tuple[str, ...]:
    """The outputs but states, and what those that saturate are computed from.

    Probabilities near 0 and 1 hide every error: only the few samples that are undecided would choose.
    """
    outputs = [name for name in graph.outputs if name not in states]
    found = dict.fromkeys(outputs)
    for name in outputs:
        node = graph.producer.get(name)
        while node is not None and is_move(node) and len(graph.activations(node)) == 1:
            node = graph.producer.get(graph.activations(node)[0])
        if node is not None and node.op_type in SATURATING:
            found[node.input[0]] = None
    return tuple(found)


def poor_outputs(figures: Iterable[OutputAccuracy], trained: bool = False) -> list[str]:
    """Notes on outputs that are mostly noise. `trained`: ranges are those of fake quantisation."""
    wide = "--wide gives some activations 16 bits"
    remedy = "ranges are those of fake quantisation in training: look at its scales" if trained else wide
    return [
        f"output {one.name} has {one.snr_db:.1f} dB: the noise is a third of its signal or more; are the samples what "
        f"the network takes? {remedy}"
        for one in figures
        if one.snr_db < POOR_DB
    ]
