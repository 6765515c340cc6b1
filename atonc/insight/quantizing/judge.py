"""What decides between two ways to quantise: the outputs, on samples that taught nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atonc.compiler.ir import Array
from atonc.insight.quantizing.fixed_sizes import require_equal_sizes
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.heads import parts_of
from atonc.insight.quantizing.islands import is_move
from atonc.insight.quantizing.observe import outputs, snr_db
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.signal import Signal
from atonc.insight.quantizing.write import decoded
from atonc.machine.base.frozen import dataclass

SATURATING = ("Softmax", "Sigmoid")


@dataclass(frozen=True, eq=False)
class QuantizationJudge:
    feeds: tuple[Feed, ...]
    names: tuple[str, ...]  # of the float graph: its outputs first
    reference: list[list[Array]]
    outputs: int
    parts: Mapping[str, Array]  # of outputs that join several tensors: whose each value is; each part counts

    @staticmethod
    def of(graph: FloatGraph, feeds: Sequence[Feed]) -> QuantizationJudge:
        names = judged(graph)
        reference = outputs(graph.model, feeds, "running the float model", names)
        require_equal_sizes(names, reference)
        return QuantizationJudge(tuple(feeds), names, reference, len(graph.outputs), parts_of(graph))

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
        """Signal to noise of each output of the model."""
        return snr_db(self.expected, self._seen(model, self.names[: self.outputs]))

    def _seen(self, model: Any, names: Sequence[str]) -> list[list[Array]]:
        made = {name for node in model.graph.node for name in node.output}
        inside = [decoded(name) if decoded(name) in made else name for name in names]
        return outputs(model, self.feeds, "judging", inside)


def judged(graph: FloatGraph) -> tuple[str, ...]:
    """The outputs, and what those that saturate are computed from: probabilities near 0 and 1 hide every error.

    Only the few samples that are undecided would choose.
    """
    found = dict.fromkeys(graph.outputs)
    for name in graph.outputs:
        node = graph.producer.get(name)
        while node is not None and is_move(node) and len(graph.activations(node)) == 1:
            node = graph.producer.get(graph.activations(node)[0])
        if node is not None and node.op_type in SATURATING:
            found[node.input[0]] = None
    return tuple(found)
