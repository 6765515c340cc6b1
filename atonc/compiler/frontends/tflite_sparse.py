"""Constants that a TFLite file stores without their zeros: a tree of dimensions, dense or compressed, with values as
leaves. Weights are needed whole, so they are made whole here."""

from __future__ import annotations

import numpy as np

from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.ir import Array
from atonc.machine.base.errors import ModelError
from atonc.machine.base.words import count

ORDER, BLOCKS, LEVELS = 0, 1, 2  # fields of the description
FORMAT, SIZE, SEGMENTS_TYPE, SEGMENTS, INDICES_TYPE, INDICES = 0, 1, 2, 3, 4, 5  # of a level
COMPRESSED = 1
NUMBERS = {1: "<i4", 2: "<u2", 3: "u1"}  # forms in which a level stores its numbers


def dense(values: Array, description: FlatTable, shape: tuple[int, ...], name: str) -> Array:
    """The constant with its zeros; `values` are the stored ones in the order of the tree."""
    order = [int(k) for k in description.array(ORDER, "<i4")]
    blocked = [int(k) for k in description.array(BLOCKS, "<i4")]
    levels = description.tables(LEVELS)
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or len(levels) != len(order):
        raise ModelError("its sparse dimensions are not those of the tensor", where=name)
    if any(not 0 <= k < rank for k in blocked) or len(set(blocked)) != len(blocked):
        raise ModelError("its blocks are along dimensions that do not exist", where=name)
    elements = int(np.prod(shape, dtype=np.int64))
    places, sizes = np.zeros((1, 0), np.int64), dict[int, int]()
    for axis, level in zip(order, levels, strict=True):
        sizes[axis] = level.int32(SIZE)
        places = _deeper(places, level, elements, name)
    if len(places) != values.size:
        raise ModelError(f"{count(int(values.size), 'sparse value')} for {count(len(places), 'place')}", where=name)
    found = {axis: places[:, k] for k, axis in enumerate(order)}
    for k, axis in enumerate(blocked):
        found[axis] = found[axis] * sizes[rank + k] + found[rank + k]
    index = tuple(found[axis] for axis in range(rank))
    if any(np.any((i < 0) | (i >= size)) for i, size in zip(index, shape, strict=True)):
        raise ModelError("a sparse value lies outside of its tensor", where=name)
    whole = np.zeros(shape, values.dtype)
    whole[index] = values
    return whole


def _deeper(places: Array, level: FlatTable, most: int, name: str) -> Array:
    """The places of one level of the tree -> those of the next, each with one more coordinate."""
    if level.int8(FORMAT) == COMPRESSED:
        segments, numbers = _numbers(level, SEGMENTS_TYPE, name), _numbers(level, INDICES_TYPE, name)
        counts = np.diff(segments)
        if len(counts) != len(places) or np.any(counts < 0) or counts.sum() != len(numbers):
            raise ModelError("the segments of a sparse dimension do not fit", where=name)
        return np.column_stack([np.repeat(places, counts, axis=0), numbers])
    size = level.int32(SIZE)
    if size < 0 or len(places) * size > most:
        raise ModelError("more sparse places than the tensor has elements", where=name)
    return np.column_stack([np.repeat(places, size, axis=0), np.tile(np.arange(size), len(places))])


def _numbers(level: FlatTable, kind: int, name: str) -> Array:
    form, table = NUMBERS.get(level.uint8(kind)), level.table(kind + 1)
    if form is None or table is None:
        raise ModelError("a compressed dimension without numbers", where=name)
    return table.array(0, form).astype(np.int64)
