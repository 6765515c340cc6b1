"""What decides between two ways to quantise: the outputs, on samples that taught nothing; how much better one is than
the other, and how sure that is.

Detectors join parts of unlike range in one output, boxes in pixels and scores below 1: each part counts. One scale for
both would leave the scores a few codes. From the first such Concat on the output stays in float, however often it is
joined and reshaped on the way: its parts keep scales of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, is_move
from atonc.insight.quantizing.loading import require_equal_sizes
from atonc.insight.quantizing.observe import outputs, part_of, run, session
from atonc.insight.quantizing.samples import STATELESS, Carried, Feed
from atonc.insight.quantizing.scales import Seen
from atonc.insight.quantizing.write import decoded
from atonc.machine.base.frozen import dataclass

DRAWS = 1000  # of as many samples as there are, with repetition
SURE = 2.5, 97.5  # percent: an interval of 95 %
EQUAL_DB = 120.0
POOR_DB = 10.0  # below, the noise is a third of the signal or more
_NONE = 1e-300  # power of a signal that is none: squares of the smallest float32 are 1e-90


@dataclass(frozen=True, eq=False)
class Signal:
    """Squares of what is judged, sample by sample: rows are samples, columns outputs or parts of them."""

    signal: Array
    noise: Array

    @staticmethod
    def of(expected: Sequence[Sequence[Array]], seen: Sequence[Sequence[Array]]) -> Signal:
        """Compares sample by sample; what is the same in all, such as a detector's anchors, says nothing."""
        live = np.array([any((one != values[0]).any() for one in values[1:]) for values in zip(*expected, strict=True)])
        wanted = live if live.any() else ~live
        signal = [[power(value) for value in values] for values in expected]
        noise = [[power(one.astype(np.float64) - other) for one, other in zip(*values, strict=True)]
                 for values in zip(expected, seen, strict=True)]  # fmt: skip
        return Signal(*(np.array(rows)[:, wanted] for rows in (signal, noise)))

    @cached_property
    def db(self) -> float:
        """Signal to noise, the mean over the columns."""
        return float(decibels(self.signal.sum(0), self.noise.sum(0)))

    def gain_over(self, other: Signal) -> tuple[float, float]:
        """By how many dB it is better, drawn from the samples again and again; the other is of the same samples."""
        count = len(self.noise)
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
        signal = drawn @ self.signal
        low, high = np.percentile(decibels(signal, drawn @ self.noise) - decibels(signal, drawn @ other.noise), SURE)
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


@dataclass(frozen=True, eq=False)
class QuantizationJudge:
    feeds: tuple[Feed, ...]
    names: tuple[str, ...]  # of the float graph: its outputs first
    reference: list[list[Array]]
    outputs: int
    parts: Mapping[str, Array]  # of outputs that join several tensors: whose each value is; each part counts
    carried: Carried = STATELESS  # a model that is judged goes on from its own states

    @staticmethod
    def of(graph: FloatGraph, feeds: Sequence[Feed], carried: Carried = STATELESS) -> QuantizationJudge:
        states = frozenset(carried.states.values())  # what is wrong with them shows in the frames behind
        names = judged(graph, states)
        reference = outputs(graph.model, feeds, "running the float model", names)
        require_equal_sizes(names, reference)
        count = len(graph.outputs) - len(states)
        return QuantizationJudge(tuple(feeds), names, reference, count, parts_of(graph), carried)

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
        return self.verdict(model)[0]

    def verdict(self, model: Any) -> tuple[Signal, float]:
        """The same, and the share of the samples whose first class is another than in float."""
        return self.together([(self, model)])

    @staticmethod
    def together(pairs: Sequence[tuple[QuantizationJudge, Any]]) -> tuple[Signal, float]:
        """The verdict on a way to quantise: every model by a judge of its own, whose samples did not teach it."""
        seen = [(judge, judge._seen(model, judge.names)) for judge, model in pairs]
        expected = [values for judge, _ in seen for values in judge._apart(judge.reference)]
        found = [values for judge, some in seen for values in judge._apart(some)]
        changed = sum(judge._changed(some) * len(some) for judge, some in seen) / max(len(found), 1)
        return Signal.of(expected, found), changed

    def signal_of_outputs(self, places: Sequence[int], seen: list[list[Array]]) -> Signal:
        """Judges outputs alone, which somebody else has computed for the samples at these places."""
        expected = [self.expected[place] for place in places]
        for one, other in zip(expected, seen, strict=True):
            assert [value.shape for value in one] == [value.shape for value in other]
        return Signal.of(self._apart(expected), self._apart(seen))

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
        return [[part for name, value in zip(self.names, values, strict=False) for part in self._split(name, value)]
                for values in samples]  # fmt: skip

    def _split(self, name: str, value: Array) -> list[Array]:
        if name not in self.parts:
            return [value]
        owners = self.parts[name]
        return [value[owners == part] for part in range(int(owners.max()) + 1)]

    def outputs_db(self, model: Any) -> list[float]:
        """Signal to noise of each output of the model over all samples."""
        seen, figures = self._seen(model, self.shown), list[float]()
        for expected, got in zip(zip(*self.expected, strict=True), zip(*seen, strict=True), strict=True):
            signal = sum(power(one) for one in expected)
            noise = sum(power(a.astype(np.float64) - b) for a, b in zip(expected, got, strict=True))
            figures.append(float(decibels(np.array([signal]), np.array([noise]))))
        return figures

    def _seen(self, model: Any, names: Sequence[str]) -> list[list[Array]]:
        made = {name for node in model.graph.node for name in node.output}
        inside = [decoded(name) if decoded(name) in made else name for name in names]
        return outputs(model, self.feeds, "judging", inside, self.carried)


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


def poor_outputs(figures: Mapping[str, float]) -> list[str]:
    """Notes on outputs that are mostly noise, by their signal to noise in dB."""
    return [
        f"output {name} has {db:.1f} dB: the noise is a third of its signal or more; are the samples what the network "
        "takes? --wide gives some activations 16 bits"
        for name, db in figures.items()
        if db < POOR_DB
    ]
