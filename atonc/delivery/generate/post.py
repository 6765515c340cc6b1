"""`generate --post`: boxes from the outputs of a detector, as C. Its twin is the decoder of `insight.evaluating`, and
both give the same bits; what is known when the network is compiled stands in the C file as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import buffers_info, names
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.delivery.generate.generating import c_network
from atonc.insight.evaluating import boxes
from atonc.insight.evaluating.boxes import BoxLimits, Decoder, DetectorHead
from atonc.insight.evaluating.decoders import decoder_for, parse_anchors, told_family, told_limits
from atonc.insight.evaluating.options import CANDIDATES, SCORE, PostOptions
from atonc.insight.evaluating.work import input_side
from atonc.machine.base.disk import together
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import Words, render
from atonc.machine.base.words import elided

CODE_BYTES = 2560  # at most: -O2 on a Cortex-M55, GCC 12
_CANDIDATE_BYTES, _WORD_BYTES = 12, 4
_C_TYPES = {
    "INT8": ("int8_t", -128, 127), "UINT8": ("uint8_t", 0, 255), "INT16": ("int16_t", -0x8000, 0x7FFF),
    "UINT16": ("uint16_t", 0, 0xFFFF), "FLOAT": ("float", 0, 0),
}  # fmt: skip
_FLOAT = "FLOAT"
_SHARES_END = 2.0  # coordinates whose codes reach no further are shares of the input
_COARSE = 0.05  # a step between scores that hides boxes
_MARGIN = 0.01  # of a logit, below which no score is worked out; the sigmoid is exact to far less


@dataclass(frozen=True)
class PostProcessing:
    """A decoder with the outputs of the network that it reads."""

    decoder: Decoder
    outputs: tuple[Info, ...]
    notes: tuple[str, ...] = ()  # what was concluded from the model, and what to look at

    @property
    def scores(self) -> Info:
        return self.outputs[self.decoder.heads[0].scores.output]

    @property
    def boxes(self) -> Info:
        return self.outputs[self.decoder.heads[0].boxes.output]

    @property
    def scratch_bytes(self) -> int:
        softmax = self.decoder.classes if self.decoder.family.score == boxes.SOFTMAX else 0
        return _CANDIDATE_BYTES * self.decoder.limits.candidates + _WORD_BYTES * (1 + softmax)

    @property
    def constants_bytes(self) -> int:
        rows = [len(_fields(self, head, k)) for k, head in enumerate(self.decoder.heads)]
        pairs = sum(2 * len(sizes) for sizes in _sizes(self.decoder)) if _has_grids(self.decoder) else 0
        return _WORD_BYTES * (sum(rows) + pairs + 4 * len(self.decoder.anchors))

    def as_dict(self) -> dict[str, object]:
        decoder = self.decoder
        return {
            **{"family": decoder.family.name, "candidates": sum(head.count for head in decoder.heads)},
            **{"classes": decoder.classes, "score": decoder.limits.score, "iou": decoder.limits.overlap},
            **{"constants_bytes": self.constants_bytes, "code_bytes_most": CODE_BYTES},
            "scratch_bytes": self.scratch_bytes,
        }


def require_family(source: Graph, wanted: PostOptions) -> None:
    """Refuses what the outputs of a model tell before it is compiled."""
    where = _outputs(source.outputs)
    shapes = [source.tensors[name].shape for name in source.outputs]
    decoder_for(told_family(source, wanted.post), parse_anchors(wanted.anchors), shapes, _side(source), where)


def _outputs(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 6} more" if len(labels) > 6 else ""
    return f"{'output' if len(labels) == 1 else 'outputs'} {', '.join(elided(name, 40) for name in labels[:6])}{more}"


def _side(source: Graph) -> tuple[int, int]:
    side = input_side(source.tensors[source.inputs[0]].shape)
    if side == (1, 1):
        where = f"input {elided(source.inputs[0], 40)}"
        raise InputError("the input is no image", where=where, rule="--post gives boxes in pixels of an image")
    return side


def post_processing(view: CompileView, wanted: PostOptions) -> PostProcessing:
    """What the user asked for, held against the outputs; raises where they do not fit."""
    network, graph = c_network(view), view.compiled.graph
    outputs = tuple(buffers_info.outputs(network))
    where, side = _outputs([info.label for info in outputs]), _side(view.compiled.source)
    shapes = [info.mem_shape for info in outputs]
    name, told = told_family(view.compiled.source, wanted.post), told_limits(view.compiled.source)
    decoder = decoder_for(name, parse_anchors(wanted.anchors), shapes, side, where)
    overlap = wanted.post_iou or told.get("--post-iou", decoder.family.overlap)
    score = wanted.post_score or told.get("--post-score", SCORE)
    decoder = replace(decoder, limits=BoxLimits(score, overlap, wanted.post_boxes, CANDIDATES))
    if decoder.family.placed == boxes.OUTPUT:
        decoder = decoder.with_anchors_at(_constant_output(graph, decoder, where), decoder.heads[0])
    _require_types(decoder, outputs, where)
    notes: list[str] = []
    if decoder.family.placed in boxes.LISTS:
        tensor = _codes_of(graph, graph.outputs[decoder.heads[0].boxes.output])
        decoder, source = decoder.in_unit(_unit(tensor, view.compiled.source.source)), view.compiled.source.source
        why = f"exports to {source} have them so" if tensor is None else f"the largest value is {_largest(tensor):.4g}"
        notes.append(f"coordinates are taken for {decoder.unit}: {why}")
        if decoder.family.placed == boxes.LIST and tensor is not None and tensor.scale > _COARSE:
            notes.append(
                f"scores are multiples of {tensor.scale:.3g}, since they share a scale with the coordinates; quantise "
                "both apart, or export coordinates as shares of the input"
            )
    return PostProcessing(decoder, outputs, tuple(notes))


def _constant_output(graph: Graph, decoder: Decoder, where: str) -> int:
    """The anchors of ST's SSD: the output that no input reaches."""
    reached = set(graph.inputs)
    for op in graph.ops:
        if reached.intersection(op.inputs):
            reached.update(op.outputs)
    constant = [k for k, name in enumerate(graph.outputs) if name not in reached]
    if len(constant) != 1 or constant[0] == decoder.heads[0].scores.output:
        raise InputError(
            f"{len(constant)} outputs are constant",
            where=where,
            rule=f"{decoder.family.title} has its anchors as one constant output",
            remedy="--post ssd --anchors FILE.npy takes anchors of a file, for models with scores and offsets alone",
        )
    return constant[0]


def _require_types(decoder: Decoder, outputs: Sequence[Info], where: str) -> None:
    for info in outputs:
        if info.type not in _C_TYPES or (info.type != _FLOAT and len(info.scales) != 1):
            raise InputError(
                f"values of output {info.label} are {info.type} with {len(info.scales)} scales",
                where=where,
                rule=f"--post reads {', '.join(_C_TYPES)}, whole numbers with one scale",
                remedy="--output-data-type int8 or float32",
            )
    for what in ("scores", "boxes", "more"):
        types = {outputs[at.output].type for head in decoder.heads if (at := getattr(head, what)) is not None}
        if len(types) > 1:
            raise InputError(
                f"{what} are {' and '.join(sorted(types))}",
                where=where,
                rule=f"all outputs with {what} have one type",
                remedy="--output-data-type int8 or float32 makes them alike",
            )


def _codes_of(graph: Graph, name: str) -> Tensor | None:
    """The tensor whose codes an output has, or had before it became floats."""
    writer = next((op for op in graph.ops if name in op.outputs), None)
    before = writer.inputs[:1] if writer is not None and writer.kind == "dequantize" else ()
    found = [graph.tensors[one] for one in (name, *before)]
    return next((one for one in found if one.quant is not None and one.dtype.upper() in _C_TYPES), None)


def _largest(tensor: Tensor) -> float:
    return (_C_TYPES[tensor.dtype.upper()][2] - tensor.zero_point) * tensor.scale


def _unit(tensor: Tensor | None, source: str) -> str:
    """The unit of coordinates: from the largest value that codes have, without codes from the format."""
    shares = "tflite" in source.lower() if tensor is None else _largest(tensor) <= _SHARES_END
    return boxes.SHARES if shares else boxes.PIXELS


# ----------------------------------------------------------------------------------------------------------- the files


def with_post(view: CompileView, files: Mapping[str, bytes], post: PostProcessing) -> dict[str, bytes]:
    """The files of a network and those of its post-processing."""
    return together([("the network", files), ("the post-processing", post_files(post, c_network(view).words))])


def post_files(post: PostProcessing, words: Words) -> dict[str, bytes]:
    """`words`: the names of the network, as its own templates have them."""
    shared = {**words, **_numbers(post), "upper": str(words["name"]).upper()}
    return {f"{words['name']}_post.{end}": render(f"network/post.{end}", shared).encode() for end in ("h", "c")}


def _numbers(post: PostProcessing) -> Words:
    decoder, literal = post.decoder, names.float_literal
    family, head, limits = decoder.family, decoder.heads[0], decoder.limits
    used, grids = {family.score, family.objectness, family.centre, family.size}, _has_grids(decoder)
    by_class = not family.objectness and head.scores.value > head.scores.cell
    anchors_info = post.outputs[decoder.anchors_at]
    heads, first = family.placed == boxes.HEADS, decoder.heads[0]
    more = _C_TYPES[post.outputs[first.more.output].type][0] if first.more is not None else ""
    act = {boxes.PLAIN: "v[{}]", boxes.SIGMOID: "sigmoid(v[{}])"}[family.centre]
    return {
        **{"title": family.title, "outputs": len(post.outputs), "classes": decoder.classes, "most": limits.most},
        **{"width": decoder.side[0], "height": decoder.side[1], "has_points": bool(decoder.points)},
        **{"points": decoder.points, "values": 4 + 2 * decoder.points, "scratch": f"{post.scratch_bytes:,}"},
        **{"distances": heads, "whole": not heads, "bins": decoder.bins},
        **{"binned": heads and decoder.bins > 1, "unbinned": decoder.bins == 1},
        **{"more": bool(more), "more_type": more, "more_value": _more_value(post)},
        **{"point_scores": heads and bool(decoder.points), "point_step": literal(family.point_step)},
        **{"point_offset": literal(family.point_offset), "box_points": not heads and bool(decoder.points)},
        **_mask_numbers(post),
        **{"score_text": f"{limits.score:g}", "overlap_text": f"{limits.overlap:g}", "first": family.first},
        **{"candidates": limits.candidates, "score": literal(limits.score), "overlap": literal(limits.overlap)},
        **{"score_type": _C_TYPES[post.scores.type][0], "box_type": _C_TYPES[post.boxes.type][0]},
        **{"score_codes": post.scores.type != _FLOAT, "score_floats": post.scores.type == _FLOAT},
        **{"box_codes": post.boxes.type != _FLOAT, "box_floats": post.boxes.type == _FLOAT},
        "gate_type": "float" if post.scores.type == _FLOAT else "int32_t",
        **{"grids": grids, "placed": grids and not heads, "given": bool(decoder.anchors)},
        **{"corners": family.corners and not grids, "plain_corners": family.corners and grids},
        **{"centres": not family.corners and not heads, "limited": family.size == boxes.EXPONENTIAL},
        **{"factor": literal(family.factor), "variance": literal(boxes.VARIANCE)},
        **{"centre_x": act.format(0), "centre_y": act.format(1)},
        "exponential": bool(used - {boxes.PLAIN, ""}),
        **{"sigmoid": boxes.SIGMOID in used, "probability": boxes.PLAIN in (family.score, family.objectness)},
        **{"objectness": bool(family.objectness), "softmax": family.score == boxes.SOFTMAX},
        **{"plain": family.score != boxes.SOFTMAX, "score_of": _function(family.score)},
        **{"objectness_of": _function(family.objectness), "classes_first": by_class},
        "boxes_first": not family.objectness and not by_class,
        **{name.lower(): literal(float(getattr(boxes, name))) for name in ("LOG2_E", "LN2_HIGH", "LN2_LOW")},
        "factors": ", ".join(literal(float(factor)) for factor in boxes.FACTORS),
        "heads": [{"fields": ", ".join(_fields(post, one, k))} for k, one in enumerate(decoder.heads)],
        "sizes": list(_size_rows(decoder)),
        "anchors": "".join(f"  {{{', '.join(map(literal, row))}}},\n" for row in decoder.anchors),
        **{"anchor_type": _C_TYPES[anchors_info.type][0], "anchors_at": decoder.anchors_at},
        "anchor_value": _value("own[k]", anchors_info),
        **{"side_x": literal(decoder.side[0]), "side_y": literal(decoder.side[1])},
    }


def _more_value(post: PostProcessing) -> str:
    at = post.decoder.heads[0].more
    if at is None or post.outputs[at.output].type == _FLOAT:
        return "code"
    return "(float)((int32_t)code - head->more_zero) * head->more_scale"


def _mask_numbers(post: PostProcessing) -> Words:
    """Says where the prototypes of masks are, and how many of their pixels are one of the input."""
    masks, literal = post.decoder.masks, names.float_literal
    if masks is None:
        return {"has_masks": False}
    info, size = post.outputs[masks.values.output], (masks.columns, masks.rows)
    steps = [float(np.float32(n) / np.float32(side)) for n, side in zip(size, post.decoder.side, strict=True)]
    return {
        **{"has_masks": True, "mask_values": masks.count, "mask_columns": masks.columns, "mask_rows": masks.rows},
        **{"mask_output": masks.values.output, "mask_type": _C_TYPES[info.type][0]},
        **{"mask_cell": masks.values.cell, "mask_value": masks.values.value},
        **{"mask_code": _value(f"codes[k * {masks.values.value}U]", info)},
        **{"mask_step_x": literal(steps[0]), "mask_step_y": literal(steps[1])},
    }


def _function(kind: str) -> str:
    return {boxes.PLAIN: "probability", boxes.SIGMOID: "sigmoid"}.get(kind, "")


def _value(code: str, info: Info) -> str:
    if info.type == _FLOAT:
        return code
    return f"(float)((int32_t){code} - ({info.offsets[0]})) * {names.float_literal(info.scales[0])}"


def _has_grids(decoder: Decoder) -> bool:
    return decoder.family.placed not in (boxes.GIVEN, boxes.OUTPUT)


def _sizes(decoder: Decoder) -> list[tuple[tuple[float, float], ...]]:
    """Each table of sizes once."""
    return list(dict.fromkeys(head.sizes for head in decoder.heads))


def _size_rows(decoder: Decoder) -> Iterator[Words]:
    for k, sizes in enumerate(_sizes(decoder)):
        yield {"k": k, "values": ", ".join(f"{{{', '.join(map(names.float_literal, pair))}}}" for pair in sizes)}


def _fields(post: PostProcessing, head: DetectorHead, number: int) -> list[str]:
    """The members of `head_t`, in its order."""
    literal, decoder = names.float_literal, post.decoder
    scores, where = post.outputs[head.scores.output], post.outputs[head.boxes.output]
    whole = [head.scores.output, head.boxes.output, head.cells, head.columns, len(head.sizes)]
    for at in (head.scores, head.boxes):
        whole += [at.start, at.cell, at.anchor, at.value]
    scales = [literal(info.scales[0] if info.scales else 1.0) for info in (scores, where)]
    zeros = [str(info.offsets[0] if info.offsets else 0) for info in (scores, where)]
    found = [*(f"{value}U" for value in whole), gate(decoder, scores), *scales, *zeros]
    if _has_grids(decoder):
        found += [literal(value) for value in (head.offset, *head.stride, *head.step)]
        found.append(f"sizes_{_sizes(decoder).index(head.sizes)}")
    if head.more is not None:
        more, at = post.outputs[head.more.output], head.more
        found += [f"{value}U" for value in (at.output, at.start, at.cell, at.value)]
        found += [literal(more.scales[0] if more.scales else 1.0), str(more.offsets[0] if more.offsets else 0)]
    return found


def gate(decoder: Decoder, info: Info) -> str:
    """The least code, or float, whose score may be above what is asked for: what is less is passed over unread. Further
    factors of a score are 1 at most."""
    kind, least = decoder.family.objectness or decoder.family.score, decoder.limits.score
    if info.type == _FLOAT:
        return names.float_literal(least if kind == boxes.PLAIN else log(least / (1 - least)) - _MARGIN)
    _, low, high = _C_TYPES[info.type]
    codes = np.arange(low, high + 1)
    passing = codes[boxes.score_of(kind, real(codes, info.scales[0], info.offsets[0])) > np.float32(least)]
    return str(passing.min() if passing.size else high + 1)


def real(codes: Array, scale: float, zero: int) -> boxes.Single:
    """As the C file makes floats of codes."""
    found: boxes.Single = (codes.astype(np.int32) - zero).astype(np.float32) * np.float32(scale)
    return found


def boxes_of(post: PostProcessing, outputs: Sequence[Array]) -> boxes.Boxes:
    """What the C file gives for these outputs: codes, or floats where the network has floats."""
    return post.decoder(_reals(post, outputs))


def mask_of(post: PostProcessing, outputs: Sequence[Array], found: boxes.Boxes, number: int) -> Array:
    """The mask of one of these boxes, as the C file gives it."""
    return post.decoder.mask(_reals(post, outputs), found, number)


def _reals(post: PostProcessing, outputs: Sequence[Array]) -> list[Array]:
    values = []
    for info, output in zip(post.outputs, outputs, strict=True):
        given = np.asarray(output)
        codes = info.type != _FLOAT and given.dtype.kind in "iu"
        values.append(real(given, info.scales[0], info.offsets[0]) if codes else given)
    return values
