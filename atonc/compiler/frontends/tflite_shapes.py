"""Files whose batch is free: the shapes that they store are placeholders, and what TFLite computes when it runs them is
computed here, from the shapes of the inputs on. Numbers that only depend on shapes become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.frontends.tflite_ops import Source, axis_of
from atonc.compiler.frontends.tflite_schema import TensorField
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import run_op
from atonc.machine.base.errors import ModelError, UnsupportedError

Shape = tuple[int, ...]
Rule = Callable[[Source], Sequence[Shape]]

FREE = -1
WHOLE = ("int32", "int64", "bool")
MOST_NUMBERS = 1 << 12  # of a constant that follows from shapes
_rules: dict[str, Rule] = {}


def free_axes(table: FlatTable) -> frozenset[int]:
    """Finds the axes of a tensor in the file whose stored size says nothing."""
    return frozenset(k for k, size in enumerate(table.array(TensorField.SIGNATURE, "<i4")) if int(size) == FREE)


def same_but_free(declared: Shape, computed: Shape, free: frozenset[int]) -> bool:
    """The batch may be wrong too: files whose batch was set to 1 by hand keep others inside."""
    if len(declared) != len(computed):
        return declared[1:] == computed[1:]
    return all(k == 0 or k in free or a == b for k, (a, b) in enumerate(zip(declared, computed, strict=True)))


def computed_shapes(source: Source) -> Sequence[Shape]:
    """Works out all output shapes where operands other than shapes decide; none where the operator's rule does so."""
    rule = _rules.get(source.code)
    return () if rule is None else rule(source)


def fold_numbers(op: Op, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> list[Array] | None:
    """The results of an operator on whole numbers that are known; None where something is not."""
    if any(t.dtype not in WHOLE or t.quant is not None or t.elements > MOST_NUMBERS for t in outputs):
        return None
    if op.kind == "shape" and inputs[0] is not None:
        return [np.array(inputs[0].shape, outputs[0].dtype)]
    known = [tensor for tensor in inputs if tensor is not None]
    if any(t.data is None or t.dtype not in WHOLE or t.quant is not None for t in known):
        return None
    graph = Graph({t.name: t for t in (*known, *outputs)}, (op,), (), tuple(t.name for t in outputs))
    results = run_op(graph, op, {t.name: t.data for t in known if t.data is not None})
    return [np.ascontiguousarray(r.codes.astype(t.dtype)) for r, t in zip(results, outputs, strict=True)]


def with_shapes(source: Source, shapes: Sequence[Shape]) -> Source:
    outputs = [replace(t, shape=shape) for t, shape in zip(source.outputs, shapes, strict=False)]
    return replace(source, outputs=[*outputs, *source.outputs[len(outputs) :]])


# ---------------------------------------------------------------------------------------------------- by operator


def _gives(*codes: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(codes, rule))
        return rule

    return register


@_gives("RESHAPE")
def _reshape(source: Source) -> Sequence[Shape]:
    elements = source.input(0).elements
    if len(source.inputs) > 1 and source.inputs[1] is not None:
        wanted = source.integers(1, "a shape that is")
    else:
        wanted = [int(size) for size in source.options.array(0, "<i4")]
    rest = prod(size for size in wanted if size != FREE)
    if wanted.count(FREE) > 1 or min(wanted, default=0) < FREE or (FREE in wanted and (not rest or elements % rest)):
        raise ModelError(f"{source.input(0).shape} cannot become {tuple(wanted)}", where=source.name)
    return [tuple(elements // rest if size == FREE else size for size in wanted)]


@_gives("SQUEEZE")
def _squeeze(source: Source) -> Sequence[Shape]:
    shape = source.input(0).shape
    axes = [axis_of(int(a), len(shape), source.name) for a in source.options.array(0, "<i4")]
    gone = axes or [k for k, size in enumerate(shape) if size == 1]
    return [tuple(size for k, size in enumerate(shape) if k not in gone)]


@_gives("EXPAND_DIMS")
def _expand_dims(source: Source) -> Sequence[Shape]:
    shape = source.input(0).shape
    axis = axis_of(source.integers(1, "an axis that is")[0], len(shape) + 1, source.name)
    return [(*shape[:axis], 1, *shape[axis:])]


@_gives("FULLY_CONNECTED")
def _dense(source: Source) -> Sequence[Shape]:
    x, weights = source.input(0), source.input(1)
    if len(weights.shape) != 2 or not weights.shape[1] or x.elements % weights.shape[1]:
        raise ModelError(f"{x.shape} does not fit weights {weights.shape}", where=source.name)
    if source.options.uint8(2):  # as many dimensions as the input has
        return [(*x.shape[:-1], weights.shape[0])]
    return [(x.elements // weights.shape[1], weights.shape[0])]


@_gives("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
def _windows(source: Source) -> Sequence[Shape]:
    """Batch, height and width; the channels are those of the weights, which are no placeholder."""
    x, y, options = source.input(0).shape, source.output().shape, source.options
    if len(x) != 4 or len(y) != 4:
        raise ModelError(f"{source.code} of shape {x}", where=source.name)
    if source.code.endswith("CONV_2D"):
        first = 4 if source.code == "CONV_2D" else 5
        spread = (options.int32(first + 1, 1), options.int32(first, 1))
        kernel = source.input(1).shape[1:3]
        channels = y[3]
    else:
        spread, kernel, channels = (1, 1), (options.int32(4), options.int32(3)), x[3]
    steps = (options.int32(2), options.int32(1))
    if min(*steps, *spread, *kernel) < 1:
        raise ModelError(f"{source.code} with stride {steps} and window {kernel}", where=source.name)
    reach = [0 if options.int8(0) == 0 else (k - 1) * d for k, d in zip(kernel, spread, strict=True)]
    sizes = [-(-(size - r) // step) for size, r, step in zip(x[1:3], reach, steps, strict=True)]
    return [(x[0], sizes[0], sizes[1], channels)]


@_gives("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(source: Source) -> Sequence[Shape]:
    x, size = source.input(0).shape, source.integers(1, "a size that is")
    if len(x) != 4 or len(size) != 2:
        raise ModelError(f"{source.code} of shape {x} to {size}", where=source.name)
    return [(x[0], *size, x[3])]


@_gives("TILE")
def _tile(source: Source) -> Sequence[Shape]:
    x, times = source.input(0).shape, source.integers(1, "multiples that are")
    if len(times) != len(x):
        raise ModelError(f"TILE of shape {x} by {times}", where=source.name)
    return [tuple(size * count for size, count in zip(x, times, strict=True))]


@_gives("BROADCAST_TO")
def _broadcast(source: Source) -> Sequence[Shape]:
    return [tuple(source.integers(1, "a shape that is"))]


@_gives("FILL")
def _fill(source: Source) -> Sequence[Shape]:
    return [tuple(source.integers(0, "a shape that is"))]


@_gives("SPLIT")
def _split(source: Source) -> Sequence[Shape]:
    x, parts = source.input(1).shape, len(source.outputs)
    axis = axis_of(source.integers(0, "an axis that is")[0], len(x), source.name)
    if not parts or x[axis] % parts:
        raise ModelError(f"{x} cannot be cut into {parts} along axis {axis}", where=source.name)
    return [(*x[:axis], x[axis] // parts, *x[axis + 1 :])] * parts


@_gives("UNPACK")
def _unpack(source: Source) -> Sequence[Shape]:
    x = source.input(0).shape
    axis = axis_of(source.options.int32(1), len(x), source.name)
    return [(*x[:axis], *x[axis + 1 :])] * len(source.outputs)


@_gives("ARG_MAX", "ARG_MIN")
def _arg(source: Source) -> Sequence[Shape]:
    x = source.input(0).shape
    axis = axis_of(source.integers(1, "an axis that is")[0], len(x), source.name)
    return [(*x[:axis], *x[axis + 1 :])]


@_gives("TRANSPOSE_CONV")
def _transpose_conv(source: Source) -> Sequence[Shape]:
    return [tuple(source.integers(0, "a shape that is"))]


@_gives("RANGE")
def _range(source: Source) -> Sequence[Shape]:
    first, end, step = (source.constant(k, "bounds that are").reshape(-1)[0] for k in range(3))
    if not step:
        raise UnsupportedError("RANGE with step 0", where=source.name)
    return [(max(0, int(np.ceil((end - first) / step))),)]
