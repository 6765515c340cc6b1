"""Joins that are sliced apart again are taken apart: heads of detectors join boxes and scores, join their maps, and
slice the boxes and the scores out of all. One scale for the whole would leave the scores a few codes; what reads a
slice reads the part instead, through joins along other axes, transposes, reshapes and functions of one value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.frontends.tails import MOVES, PIECES, SCORES, tell_tail, told_tail
from atonc.compiler.ir import Array
from atonc.compiler.ir.types import Tail, TailOperator
from atonc.insight.quantizing.graph import ONE_VALUE, FloatGraph, attribute, copied, is_scalar
from atonc.insight.quantizing.judge import UNLIKE
from atonc.insight.quantizing.loading import cut
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.scales import Seen
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

THROUGH = ("Concat", "Transpose", "Reshape", "Flatten")
ORDERED = ("NonMaxSuppression", "TopK", "EfficientNMS_TRT", "BatchedNMS_TRT", "NON_MAX_SUPPRESSION_V4",
           "NON_MAX_SUPPRESSION_V5", "TOPK_V2")  # fmt: skip
MADE, BEFORE = ":part", ":before"  # in names of tensors: of parts, and of what a function makes scores of
MOST_DEPTH = 32  # nodes between a slice and the join
USUAL_SCORE = 0.25  # that a box needs, where the model does not say
NEARLY = 0.5  # of that, from which on a place is judged


@dataclass(frozen=True, eq=False)
class CountedPlaces:
    """What suppression behind the model goes on with: places of boxes with a score that is nearly enough, of each
    sample one at least. The others, most of all, come to nothing, however exact they are; but objects are rare and
    their values large, so that ranges which all places like best clip those of objects."""

    model: Any  # gives scores as suppression reads them
    scores: str
    count: int
    least: float

    @staticmethod
    def of(model: Any) -> CountedPlaces | None:
        """None where no boxes and scores are told apart by their shapes."""
        tail = told_tail(model)
        if tail is None or not any(one.kind in ORDERED for one in tail.operators):
            return None
        shapes = {value.name: [int(d.dim_value) for d in value.type.tensor_type.shape.dim]
                  for value in model.graph.output if value.name in tail.outputs}  # fmt: skip
        counts = [shape[-2] for shape in shapes.values() if len(shape) > 1 and shape[-1] == 4]
        scores = [name for name, shape in shapes.items() if counts and shape.count(counts[0]) == 1 and shape[-1] != 4]
        said = [one.values["score"] for one in tail.operators if 0 < one.values.get("score", 0) < 1]
        if len(counts) != 1 or len(scores) != 1:
            return None
        return CountedPlaces(copied(model), scores[0], counts[0], NEARLY * min([*said, USUAL_SCORE]))

    def of_samples(self, feeds: Sequence[Feed]) -> list[Array]:
        """Whether each place counts."""
        scores = [value for (value,) in outputs(self.model, feeds, "which boxes count", [self.scores])]
        best = [np.moveaxis(one, one.shape.index(self.count), 0).reshape(self.count, -1).max(1) for one in scores]
        return [one >= min(self.least, one.max()) for one in best]


def apart(model: Any) -> Any:
    """The model with its joins taken apart, if there is one that nobody reads but by slices."""
    work = _Parts(FloatGraph(model))
    return work.run() if any(node.op_type == "Concat" for node in model.graph.node) else model


def before_scores(model: Any) -> Any:
    """What suppression reads is given before its last sigmoid or softmax: codes of scores near 1 are all alike, so that
    which box is the best would be lost. The application computes the function, of the few boxes that count."""
    from onnx.shape_inference import infer_shapes

    tail = told_tail(model)
    makers = {name: node for node in model.graph.node for name in node.output}
    outputs, moved = list[str](), dict[str, Any]()
    for name in (value.name for value in model.graph.output):
        behind, node = list[Any](), makers.get(name)
        while node is not None and node.op_type in (*MOVES, "Identity"):
            behind, node = [node, *behind], makers.get(node.input[0])
        if tail is None or name not in tail.outputs or name in tail.fixed or node is None or node.op_type not in SCORES:
            outputs.append(name)
            continue
        moved |= {one.name: one for one in [node, *behind]}
        if MADE in node.input[0]:  # the user knows the name of the scores alone
            source, before = node.input[0], f"{name}{BEFORE}"
            for one in model.graph.node:
                one.input[:], one.output[:] = ([before if n == source else n for n in names]
                                               for names in (one.input, one.output))  # fmt: skip
        outputs.append(node.input[0])
    if tail is None or not moved or not any(one.kind in ORDERED for one in tail.operators):
        return model
    cut(model, list(dict.fromkeys(outputs)))
    rows = (*(TailOperator(one.op_type, one.name, {}) for one in moved.values()), *tail.operators)
    tell_tail(model, Tail(tuple(dict.fromkeys(outputs)), rows, tail.fixed))
    return infer_shapes(model)


def joins(graph: FloatGraph, seen: Mapping[str, Seen], in_float: Collection[str]) -> list[str]:
    """Notes on slices of parts that could not be taken apart, and share a scale that is not theirs."""
    found, seen_by = dict[str, list[float]](), [node.input[0] for node in graph.nodes if node.op_type in PIECES]
    while seen_by:
        node = graph.producer.get(seen_by.pop())
        if node is not None and node.op_type in THROUGH and node.name not in (*found, *in_float):
            found[node.name] = [max(abs(seen[n].low), abs(seen[n].high)) for n in node.input if n in seen]
            seen_by += graph.activations(node)
    unlike = [name for name, tops in found.items() if tops and max(tops) > UNLIKE * max(min(tops), 1e-12)]
    return [
        f"{count(len(unlike), 'join')} of parts of unlike range ({', '.join(unlike[:4])}) could not be taken apart: "
        "smaller parts have few codes. End the model before it (--cut-output-tensors), or --wide"
    ] if unlike else []  # fmt: skip


class _Parts:
    def __init__(self, graph: FloatGraph) -> None:
        self.graph, self.made = graph, list[Any]()
        self.shapes, self.known = dict(graph.shapes), dict[tuple[str, int, int, int], str]()

    def run(self) -> Any:
        from onnx.shape_inference import infer_shapes

        nodes, renamed = list[Any](), dict[str, str]()
        for node in self.graph.nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            ranges = list(self._ranges(node))
            self.made = []
            free = bool(ranges) and self._only_sliced(node.input[0], 0)
            found = [self._piece(node.input[0], axis, low, high, 0) if free else None for _, axis, low, high in ranges]
            nodes += self.made  # what is not read in the end goes
            if not ranges or None in found:
                nodes.append(node)
                continue
            for (output, axis, *_), part in zip(ranges, found, strict=True):
                self._put(nodes, node, output, axis, str(part), renamed)
        if not renamed:
            return self.graph.model
        used = {*self.graph.outputs}
        kept = list[Any]()
        for node in reversed(nodes):
            if used.intersection(node.output):
                used.update(node.input)
                kept.append(copied(node))
        model = self.graph.model
        del model.graph.node[:]
        model.graph.node.extend(reversed(kept))
        del model.graph.value_info[:]
        return infer_shapes(model)

    def _put(self, nodes: list[Any], node: Any, output: str, axis: int, part: str, renamed: dict[str, str]) -> None:
        """The part takes the place of an output of the slice."""
        scalar = node.op_type == "Gather" and self.graph.constants[node.input[1]].ndim == 0
        if scalar or output in self.graph.outputs:
            self.made = []
            self._node("Squeeze" if scalar else "Identity", [part, *([self._numbers([axis])] if scalar else [])],
                       self.shapes[output], output)  # fmt: skip
            nodes += self.made
        renamed[output] = output if scalar or output in self.graph.outputs else part

    def _ranges(self, node: Any) -> Iterator[tuple[str, int, int, int]]:
        """Output, axis, first and end of what the node takes of one axis."""
        graph, shape = self.graph, self.shapes.get(node.input[0], ()) if node.input else ()
        known = all(name in graph.constants for name in node.input[1:] if name)
        if node.op_type not in PIECES or node.input[0] not in graph.floats or not known or not all(shape):
            return
        rest = [graph.constants[name].reshape(-1).tolist() if name else [] for name in node.input[1:]]
        if node.op_type == "Slice" and len(rest) > 2 and len(rest[2]) == 1 and rest[3:] in ([], [[1]]):
            axis = int(rest[2][0]) % len(shape)
            yield node.output[0], axis, *slice(rest[0][0], rest[1][0]).indices(shape[axis])[:2]
        elif node.op_type == "Split":
            axis, start = attribute(node, "axis", 0) % len(shape), 0
            for name in node.output:
                start, low = start + self.shapes[name][axis], start
                yield name, axis, low, start
        elif node.op_type == "Gather" and rest[0]:
            axis = attribute(node, "axis", 0) % len(shape)
            places = [int(place) % shape[axis] for place in rest[0]]
            if places == list(range(places[0], places[-1] + 1)) and graph.constants[node.input[1]].ndim < 2:
                yield node.output[0], axis, places[0], places[-1] + 1

    def _only_sliced(self, name: str, depth: int) -> bool:
        """Whether the whole is read by nobody: whatever stands behind takes pieces in the end."""
        readers = self.graph.readers[name]
        return name not in self.graph.outputs and bool(readers) and depth < MOST_DEPTH and all(
            one.op_type in PIECES or ((one.op_type in THROUGH or one.op_type in ONE_VALUE)
                                      and self._only_sliced(one.output[0], depth + 1)) for one in readers
        )  # fmt: skip

    def _piece(self, name: str, axis: int, low: int, high: int, depth: int) -> str | None:
        """The tensor with this stretch of an axis, made without the join; None where there is none to take apart."""
        key, node = (name, axis, low, high), self.graph.producer.get(name)
        if key in self.known:
            return self.known[key]
        if node is None or depth > MOST_DEPTH or low >= high:
            return None
        shape = (*self.shapes[name][:axis], high - low, *self.shapes[name][axis + 1 :])
        made: str | None = None
        if node.op_type == "Concat":
            parts = self._of_join(node, axis, low, high, depth + 1) or []
            at = attribute(node, "axis", 0) % len(shape)
            made = self._node("Concat", parts, shape, axis=at) if len(parts) > 1 else next(iter(parts), None)
        elif node.op_type == "Transpose":
            order = attribute(node, "perm", list(range(len(shape)))[::-1])
            inner = self._piece(node.input[0], order[axis], low, high, depth + 1)
            made = inner and self._node("Transpose", [inner], shape, perm=order)
        elif node.op_type in ("Reshape", "Flatten"):
            before, whole = self.shapes.get(node.input[0], ()), self.shapes[name]
            places = [k for k, size in enumerate(before)
                      if size == whole[axis] and prod(before[:k]) == prod(whole[:axis])]  # fmt: skip
            inner = self._piece(node.input[0], places[0], low, high, depth + 1) if places else None
            made = inner and self._node("Reshape", [inner, self._numbers(shape)], shape)
        elif node.op_type in ONE_VALUE and len(live := self.graph.activations(node)) == 1:
            alone = all(not n or n in live or is_scalar(self.graph, n) for n in node.input)
            inner = self._piece(live[0], axis, low, high, depth + 1) if alone else None
            if inner:
                again = [inner if one == live[0] else one for one in node.input]
                made = self._node(node.op_type, again, shape)
                self.made[-1].attribute.extend(node.attribute)
        if made:
            self.known[key] = made
        return made

    def _of_join(self, node: Any, axis: int, low: int, high: int, depth: int) -> list[str] | None:
        """The parts of a join that make up the stretch: whole ones, or a stretch of one, or of each along another."""
        rank = len(self.shapes[node.output[0]])
        if axis != attribute(node, "axis", 0) % rank:
            found = [self._piece(name, axis, low, high, depth) for name in node.input]
            return None if None in found else [str(one) for one in found]
        start, whole = 0, list[str]()
        for name in node.input:
            end = start + self.shapes[name][axis]
            if low <= start and end <= high:
                whole.append(name)
            elif start <= low and high <= end:
                inner = self._piece(name, axis, low - start, high - start, depth)
                return [inner or self._slice(name, axis, low - start, high - start)]
            elif start < high and low < end:
                return None  # across a border: the parts keep nothing apart
            start = end
        return whole if len(whole) < len(node.input) else None

    def _slice(self, name: str, axis: int, low: int, high: int) -> str:
        shape = (*self.shapes[name][:axis], high - low, *self.shapes[name][axis + 1 :])
        return self._node("Slice", [name, *(self._numbers([one]) for one in (low, high, axis))], shape)

    def _node(self, kind: str, inputs: list[str], shape: tuple[int, ...], output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"{inputs[0].partition(MADE)[0]}{MADE}{len(self.shapes)}"
        self.made.append(helper.make_node(kind, inputs, [output], f"{output}:apart", **attributes))
        self.shapes[output] = tuple(shape)
        return output

    def _numbers(self, values: Any) -> str:
        from onnx import numpy_helper

        name = f"apart:{','.join(map(str, values))}"
        if name not in self.graph.constants:
            self.graph.constants[name] = np.array(values, np.int64)
            self.graph.model.graph.initializer.append(numpy_helper.from_array(self.graph.constants[name], name))
        return name
