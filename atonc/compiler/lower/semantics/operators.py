"""What the tasks of operators without weights compute.

- Linear resizing: weighted neighbours along the lines with 16 bits, then along the columns.
- Products of two activations: terms that are added with 24 bits between units, cut to 16 bits and made codes.
- Pooling and means: exact sums, one division with 8 fractional bits, one line.
- Moves: requantised by a line where formats differ, then moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.move.copies import requantising_line
from atonc.compiler.lower.pool.means import Line, divisor_of, joining, parts_of
from atonc.compiler.lower.semantics.arithmetic import Ints, clipped, ints, limited, line, pair, shifted
from atonc.compiler.lower.semantics.sums import requantised
from atonc.compiler.lower.units.arith import AffinePair
from atonc.compiler.lower.units.pool import channel_groups, division, frame_of
from atonc.compiler.ops.conv import Geometry
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.ops.values import Arg, finish

if TYPE_CHECKING:
    from atonc.compiler.lower.product.plan import Addend
    from atonc.compiler.lower.resize.recipe import Ends, ResizePiece

ONE = 256  # of the weights


def along(x: Any, axis: int, size: int, pieces: Sequence[ResizePiece], ends: Ends | None) -> Ints:
    """One axis, straight to codes; without ends with 8 fractional bits."""
    given = np.moveaxis(ints(x), axis, 0)
    result = np.zeros((size, *given.shape[1:]), np.int64)
    for piece in pieces:
        steps = np.arange(piece.count)
        low, high = given[piece.low + steps * piece.step], given[piece.high + steps * piece.step]
        if ends is None:
            blend = pair(AffinePair(1, piece.weight, 0, 0, 0, 0, 0, 2), low * (ONE - piece.weight), high)
        else:
            blend = clipped(pair(ends.pair(piece), low, high), ends.clip)
        result[piece.start + steps * piece.ahead] = blend
    return np.moveaxis(result, 0, axis)


def multiplied(
    left: NDArray[Any], right: NDArray[Any], passes: Sequence[Sequence[Addend]], zero: int, rule: Requantisation
) -> Ints:
    """`left` [..., rows, depth] and `right` [..., depth, columns] as codes; `zero` of the features, 0..255."""
    features, kernels, total = ints(left) + 128, ints(right), np.zeros(1, np.int64)
    for number, chain in enumerate(passes):
        total = total << rule.out_shift if number else total
        for unit, (term, some) in enumerate(chain, 1):
            own = features[..., some.first : some.first + some.count]
            by = (kernels[..., some.first : some.first + some.count, :] & some.keep) ^ some.value
            total = total + _product(np.full_like(own, zero) if term.of_zero else own, by)
            total = total if unit == len(chain) else limited(total, 24)
        total = limited(shifted(total, rule.out_shift), 16)
    return requantised(rule, total)


def _product(left: Ints, right: Ints) -> Ints:
    """Far below 2^53, so float64 loses nothing."""
    return ints(left.astype(np.float64) @ right.astype(np.float64))


def changed(op: Op, source: Tensor, target: Tensor) -> Callable[[Any], Ints]:
    """Makes the function from one tensor's codes to another's."""
    clip = op.attrs.get("clip")
    if source.quant is None or source.quant.same_as(target.quant):
        return lambda x: clipped(ints(x), clip)
    rule = requantising_line(source, target)
    return lambda x: clipped(line(rule, x), clip)


def moved(op: Op, context: Context) -> Callable[[Sequence[Any]], list[Ints]]:
    """The operator of the reference kernels, on codes that already have the format of the output."""

    def codes(values: Sequence[Any]) -> list[Ints]:
        return [_one(op, context, values, number) for number in range(len(op.outputs))]

    return codes


def _one(op: Op, context: Context, values: Sequence[Any], number: int) -> Ints:
    target = context.tensor(op.outputs[number])
    tensors, given = dict(context.graph.tensors), list(values)
    for name in op.outputs:
        tensors[name] = replace(tensors[name], quant=target.quant, dtype=target.dtype)
    for index, name in enumerate(op.inputs):
        source = context.tensor(name)
        if op.kind == "gather" and index:
            continue
        tensors[name] = replace(source, quant=target.quant, dtype=target.dtype)
        if source.is_float:
            continue  # real numbers move as they are
        if source.is_constant:
            same = source.quant is None or source.quant.same_as(target.quant)
            given[index] = values[index] if same else finish(Arg(source, values[index]).real, target).codes
        else:
            given[index] = changed(op, source, target)(values[index]).astype(target.dtype)
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    codes = evaluate(replace(context.graph, tensors=tensors), plain, given)[number].codes
    return codes if target.is_float else ints(codes)


Codes = Callable[[Sequence[Any]], list[Ints]]
Windows = tuple[Geometry, tuple[int, int]]  # and the size of the output


def maximum(op: Op, x: Tensor, y: Tensor, windows: Windows) -> Codes:
    change = changed(op, x, y)
    return lambda values: [change(_taps(_picture(values[0]), windows, -128).max(axis=0)).reshape(y.shape)]


def largest(op: Op, x: Tensor, y: Tensor) -> Codes:
    """Over axes."""
    change = changed(op, x, y)
    return lambda values: [change(ints(values[0]).max(axis=tuple(op.attrs["axes"]))).reshape(y.shape)]


def average_of_four(op: Op, x: Tensor, y: Tensor, windows: Windows) -> Codes:
    """Rounded to codes of the input first."""
    change = changed(op, x, y)

    def codes(values: Sequence[Any]) -> list[Ints]:
        sums = _taps(_picture(values[0]), windows, 0).sum(axis=0)
        return [change(limited(shifted(sums, 2), 8)).reshape(y.shape)]

    return codes


def averages(y: Tensor, windows: Windows, area: int, line_of: Callable[[int], Line]) -> Codes:
    """`area`: the divisor for all windows, or 0 where only pixels inside count; the line follows from their number."""

    def codes(values: Sequence[Any]) -> list[Ints]:
        x = _picture(values[0])
        sums = _taps(x, windows, 0).sum(axis=0)
        inside = _taps(np.ones((*x.shape[:2], 1), np.int64), windows, 0).sum(axis=0)[..., 0]
        result = np.zeros(sums.shape, np.int64)
        for pixels in np.unique(inside).tolist():
            for first, batch, count in channel_groups(x.shape[2], 8):
                some = slice(first, first + batch * count)
                where = inside == pixels
                if frame_of(pixels, batch) is None:
                    assert inside.size == 1  # the recipe refuses several windows of so many pixels
                    flat = x.reshape(-1, x.shape[2])[:, some]
                    result[where, some] = _from_parts(flat, batch, line_of(pixels))
                else:
                    result[where, some] = divided(sums[where, some], area or pixels, line_of(pixels))
        return [result.reshape(y.shape)]

    return codes


def means(x: Tensor, y: Tensor, axes: set[int], line: Line, channels: int) -> Codes:
    """`channels`: how many neighbours are kept at the end of the shape."""
    order = (*(a for a in range(len(x.shape)) if a not in axes), *sorted(axes))
    pixels = prod(x.shape[axis] for axis in axes)

    def codes(values: Sequence[Any]) -> list[Ints]:
        rows = ints(values[0]).transpose(order).reshape(-1, pixels)  # one for every result
        result = np.zeros(rows.shape[0], np.int64)
        places = np.arange(rows.shape[0]) % channels
        for first, batch, count in channel_groups(channels, 8):
            some = (places >= first) & (places < first + batch * count)
            if frame_of(pixels, batch) is None:
                result[some] = _from_parts(rows[some].T, batch, line)
            else:
                result[some] = divided(rows[some].sum(axis=1), pixels, line)
        return [result.reshape(y.shape)]

    return codes


def divided(sums: Ints, divisor: int, line: Line) -> Ints:
    """The codes of exact sums in one part."""
    return _finished(_mean(sums, divisor, line), line)


def _mean(sums: Ints, divisor: int, line: Line) -> Ints:
    multiplier, shift = division(divisor, line.most)
    return limited(shifted(sums * multiplier, shift), 16)


def _finished(mean: Ints, line: Line) -> Ints:
    return clipped(limited(shifted(shifted(mean * line.a, 8) + line.c, line.shift), 8), line.clip)


def _from_parts(pixels: Ints, batch: int, line: Line) -> Ints:
    """[pixels, results]: parts, then two at a time."""
    whole = pixels.shape[0]
    sizes = parts_of(whole, batch)
    ends = np.cumsum(sizes)[:-1]
    divided = (
        (_mean(part.sum(axis=0), divisor_of(len(part), whole), line), len(part)) for part in np.split(pixels, ends)
    )
    parts = list(divided)
    while len(parts) > 1:
        joined = []
        for (a, m), (b, n) in zip(parts[::2], parts[1::2], strict=False):
            joined.append((pair(joining(m, n, whole), a, b), m + n))
        parts = joined + (parts[-1:] if len(parts) % 2 else [])
    return _finished(parts[0][0], line)


def _picture(values: Any) -> Ints:
    return ints(values).reshape((-1, *values.shape[-2:]))


def _taps(picture: Ints, windows: Windows, fill: int) -> Ints:
    """[taps, rows, columns, channels]"""
    geometry, size = windows
    padded = geometry.pad(picture[None], fill)
    return np.stack([tap[0] for _, _, tap in geometry.taps(padded, size)])
