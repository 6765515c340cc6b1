"""Was the model read as it is meant? Every operator as we read it, on the inputs that the reference kernels really
had, against what those kernels gave.

This finds an attribute that was misunderstood by its layer, however little of it the outputs show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.compare.layers import WEIGHTED, code_size
from atonc.compiler.compare.reference import TABLE_END, softmax_codes
from atonc.compiler.frontends.tflite_ops import shifts_overflow
from atonc.compiler.ir import Array, Graph, Op, Tensor, layer_name
from atonc.compiler.ops.elementwise import DIVISION, zero_by_zero
from atonc.compiler.ops.values import Arg
from atonc.compiler.verify.verify import Forced, differences, forced_run
from atonc.insight.validating.references import References
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass

LIMIT = 1.0  # code; two correct roundings of one number are never further apart
ANYTHING = 255.0  # codes: where their kernels overflow, they say nothing of ours
MOST_ELEMENTS = 1 << 28  # of all tensors together: they are all held at a time


@dataclass(frozen=True)
class ReadingCheck:
    """One tensor of the model, in codes."""

    tensor: str
    kind: str
    node: str
    max_diff: float
    limit: float = LIMIT

    @property
    def bad(self) -> bool:
        return not self.max_diff <= self.limit


def check_reading(references: References, source: Graph, samples: Sequence[Mapping[str, Array]]) -> list[ReadingCheck]:
    """The worst of all samples. Nothing where no kernels of others run, or where they keep their tensors."""
    # the model's value of an alias is held by another tensor of ours
    wanted = [name for op in source.ops for name in op.outputs if name and name not in source.aliases]
    if sum(source.tensors[name].elements for name in wanted) > MOST_ELEMENTS:
        references.notes.append("the model's tensors are too large to compare its operators one by one")
        return []
    worst: dict[str, ReadingCheck] = {}
    for sample in samples:
        for check in _one_sample(references, source, sample, wanted):
            known = worst.get(check.tensor)
            if known is None or not check.max_diff <= known.max_diff:
                worst[check.tensor] = check
    return [worst[name] for name in wanted if name in worst]


def _one_sample(
    references: References, source: Graph, sample: Mapping[str, Array], wanted: Sequence[str]
) -> Iterator[ReadingCheck]:
    sample = {**sample, **{state.input: state.first for state in source.states}}  # the kernels know no other
    try:
        theirs = references.tensors(sample, wanted)
    except AtoncError as error:
        references.notes.append(f"operators were not compared one by one: {error.what}")
        return
    held = {name: value for name, value in theirs.items() if _same_kind(source.tensors[name], value)}
    for forced in forced_run(source, sample, held):
        got = held[forced.name].reshape(forced.exact.shape)
        apart = differences(source, forced.name, got, forced.exact)
        if forced.op.kind == DIVISION:
            apart = np.where(zero_by_zero(source, forced.op, forced.given), 0.0, apart.reshape(forced.exact.shape))
        difference = float(apart.max(initial=0.0))
        node = layer_name(forced.op)
        limit = LIMIT + _hybrid_error(source, forced)
        if difference > limit and (inexact := softmax_codes(source, forced.op)):
            limit += inexact
            _note_once(references, f"{node}: softmax of TFLite's kernels {TABLE_END.format(count=inexact // 2)}")
        if difference > limit and _overflows(source, forced.op):
            limit = ANYTHING
            note = f"{node}: TFLite's own 32-bit integers overflow there, so its kernels are no reference"
            _note_once(references, note)
        yield ReadingCheck(forced.name, forced.op.kind, node, difference, limit)


def _overflows(source: Graph, op: Op) -> bool:
    """A scale beyond all use shifts sums out of the 32 bits of TFLite's kernels."""
    if source.source != "tflite" or op.kind not in WEIGHTED:
        return False
    tensors = [source.tensors[name] if name else None for name in (*op.inputs[:3], "", "")][:3]
    x, weights, bias = tensors
    return x is not None and weights is not None and shifts_overflow(x, weights, bias, source.tensors[op.outputs[0]])


def _note_once(references: References, note: str) -> None:
    if note not in references.notes:
        references.notes.append(note)


def _same_kind(tensor: Tensor, value: Array) -> bool:
    """One name may stand for codes here and for real numbers there."""
    return value.size == tensor.elements and tensor.is_float == (value.dtype.kind == "f")


def _hybrid_error(source: Graph, forced: Forced) -> float:
    """In codes. Where weights are bytes and values are floats, TFLite turns the values into bytes on the way: each may
    be half a 127th of the largest one off, and the weights of an output add that up."""
    op, inputs = forced.op, [source.tensors[name] for name in forced.op.inputs if name]
    if source.source != "tflite" or op.kind not in WEIGHTED or len(inputs) < 2:
        return 0.0
    x, weights = inputs[:2]
    if not x.is_float or weights.data is None or weights.quant is None:
        return 0.0
    step = float(np.abs(forced.given[x.name]).max(initial=0.0)) / 127
    real = Arg(weights, weights.data).real
    most = float(np.abs(real.reshape(weights.shape[0], -1)).sum(axis=1).max(initial=0.0))
    return step / 2 * most / code_size(source, source.tensors[forced.name], forced.exact)
