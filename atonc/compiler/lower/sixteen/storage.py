"""Which tensors of 16 bits are stored on a coarser scale: those between layers that read them in one pass."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.sixteen.inner import require_centred
from atonc.compiler.lower.sixteen.one_pass import is_allowed, needed_codes
from atonc.compiler.plan.coarse import HIGHEST, LOWEST, CoarseCodes

KINDS = ("conv", "dense")
_CLIPS = ((LOWEST, HIGHEST), (0, HIGHEST))


def coarse_tensors(context: Context, but: frozenset[str]) -> Mapping[str, CoarseCodes]:
    """Written by one such layer and read by others only, each of which says how many bits its sums hold."""
    facts, found = context.facts, dict[str, CoarseCodes]()
    if facts.numerics == "2.x" or not is_allowed(context):
        return found
    for name, tensor in facts.graph.tensors.items():
        if tensor.dtype != "int16" or name in but or name in facts.graph.outputs:
            continue
        producer, readers = facts.graph.producers.get(name), facts.graph.consumers.get(name, [])
        if producer is None or not readers or not _clips(producer, context):
            continue
        if all(_reads(op, name, context) for op in readers) and _is_layer(producer, context):
            codes = _codes(readers, context)
            if codes is not None:
                found[name] = codes
    return found


def _codes(readers: list[Op], context: Context) -> CoarseCodes | None:
    try:
        needs = [needed_codes(op, context.tensor(op.inputs[1]), context) for op in readers]
    except Refusal:
        return None
    return CoarseCodes(max(one.dropped for one in needs))


def _is_layer(op: Op, context: Context) -> bool:
    if op.kind not in KINDS or op.name in context.facts.on_cpu:
        return False
    weights = context.tensor(op.inputs[1])
    try:
        require_centred(context.tensor(op.inputs[0]), context.tensor(op.outputs[0]))
    except Refusal:
        return False
    return _constant(weights)


def _constant(weights: Tensor) -> bool:
    return weights.is_constant and weights.dtype == "int8" and weights.quant is not None


def _reads(op: Op, name: str, context: Context) -> bool:
    return op.inputs[0] == name and op.inputs.count(name) == 1 and _is_layer(op, context)


def _clips(op: Op, context: Context) -> bool:
    """Whether one unit ends its results."""
    clip = op.attrs.get("clip")
    return clip is None or (max(LOWEST, int(clip[0])), min(HIGHEST, int(clip[1]))) in _CLIPS
