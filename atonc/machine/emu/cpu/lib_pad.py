"""LL_ATON_LIB_Pad (Pad_Standard from 4.0.0) and Pad_4Loop, published in full.

All paddings come as byte distances. The output is filled, then the input is copied row by row: two pointers walk
through both tensors, positive paddings skip output bytes, negative ones skip input bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import MAX_RANK, StructView, argument, as_address, as_int, as_ints, fail
from atonc.machine.emu.cpu.tensors import MAX_ELEMENTS, Array, strided
from atonc.machine.emu.files.types import CValue

_PAD, _LOOPS = "LL_ATON_LIB_Pad", "LL_ATON_LIB_Pad_4Loop"
_LOOP_WORDS = (
    "initial_cumulative_start_offset_in_bytes",
    "inner_bytes_to_copy",
    "nr_of_stream_eng_loops",
    "total_bytes_to_copy",
)
_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True)
class Pad:
    source: int
    target: int
    min_shape: tuple[int, ...]
    mode: int
    nbytes: int
    out_elements: int
    constant: int
    last_axis: int  # from here on everything is one run of bytes
    run_elements: int
    in_start: tuple[int, ...]
    in_end: tuple[int, ...]
    out_start: tuple[int, ...]
    out_end: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_offsets: tuple[int, ...]

    @property
    def run_bytes(self) -> int:
        return self.run_elements * self.nbytes

    @property
    def out_bytes(self) -> int:
        return self.out_elements * self.nbytes


def read_pad(args: Sequence[CValue]) -> Pad:
    def integer(index: int) -> int:
        return as_int(argument(args, index, _PAD), _PAD)

    rank = integer(17)
    require(0 < rank <= MAX_RANK, f"{rank} dimensions", _PAD)
    source, target = (as_address(argument(args, k, _PAD), _PAD) for k in (0, 1))
    lists = {k: as_ints(argument(args, k, _PAD), _PAD, rank) for k in (4, 11, 12, 13, 14, 15, 16)}
    pad = Pad(
        source=source,
        target=target,
        min_shape=lists[4],
        mode=integer(5),
        nbytes=integer(6),
        out_elements=integer(7),
        constant=integer(8),
        last_axis=integer(9),
        run_elements=integer(10),
        in_start=lists[11],
        in_end=lists[12],
        out_start=lists[13],
        out_end=lists[14],
        out_shape=lists[15],
        out_offsets=lists[16],
    )
    require(pad.nbytes in (1, 2, 3, 4), f"elements of {pad.nbytes} bytes", _PAD)
    require(0 <= pad.last_axis < rank and 0 <= pad.run_elements <= MAX_ELEMENTS, "impossible run of bytes", _PAD)
    require(0 < pad.out_elements <= MAX_ELEMENTS and min(pad.min_shape) >= 0, "impossible sizes", _PAD)
    return pad


@library("LL_ATON_LIB_Pad_Standard")
@library(_PAD)
def pad(args: Sequence[CValue], memory: AddressSpace) -> None:
    request = read_pad(args)
    if request.mode == 0:
        _constant(request, memory)
    elif request.mode in (1, 2):
        _repeat(request, memory)
    else:
        raise fail(f"padding mode {request.mode}", _PAD)


def _fill(target: int, size_bytes: int, constant: int, nbytes: int, memory: AddressSpace) -> None:
    pattern = np.frombuffer((constant & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)[:nbytes]
    memory.view(target, size_bytes)[:] = np.resize(pattern, size_bytes)


def _walk(shape: tuple[int, ...], start: list[int], end: list[int], run_bytes: int) -> tuple[int, list[int]]:
    """First byte and step per axis of a pointer that skips `start` before and `end` after the steps of each axis."""
    size = start[-1] + run_bytes + end[-1]
    steps: list[int] = []
    for axis in reversed(range(len(shape) - 1)):
        steps.insert(0, size)
        size = start[axis] + shape[axis] * size + end[axis]
    return sum(start), steps


def _runs(
    request: Pad, base: int, start: tuple[int, ...], end: tuple[int, ...], sign: int, memory: AddressSpace
) -> Array:
    """The runs of bytes of one side; `sign` tells which paddings skip bytes on this side."""
    axes = request.last_axis + 1
    skipped = [[max(0, sign * n) for n in amounts[:axes]] for amounts in (start, end)]
    first, steps = _walk(request.min_shape[:axes], skipped[0], skipped[1], request.run_bytes)
    shape = (*request.min_shape[: axes - 1], request.run_bytes)
    return strided(memory, base + first, shape, (*steps, 1), _BYTE)


def _constant(request: Pad, memory: AddressSpace) -> None:
    nothing_to_copy = request.run_bytes == 0 or 0 in request.min_shape[: request.last_axis]
    content = None
    if not nothing_to_copy:
        content = _runs(request, request.source, request.in_start, request.in_end, -1, memory).copy()
    constant = 0 if request.run_bytes == 0 else request.constant
    _fill(request.target, request.out_bytes, constant, request.nbytes, memory)
    if content is not None:
        _runs(request, request.target, request.out_start, request.out_end, 1, memory)[...] = content


def _repeat(request: Pad, memory: AddressSpace) -> None:
    """Reflect or edge: the input (cut where paddings are negative) surrounded by itself."""
    require(min(request.out_offsets) > 0 and min(request.min_shape) > 0, "impossible sizes", _PAD)
    if request.mode == 1:
        require(min(request.in_start + request.in_end) >= 0, "reflection with negative padding", _PAD)
    whole = replace(request, last_axis=len(request.min_shape) - 1, run_elements=request.min_shape[-1])
    content = _runs(whole, request.source, request.in_start, request.in_end, -1, memory).copy()
    content = content.reshape(*request.min_shape, request.nbytes)
    widths = [
        (max(0, before) // step, max(0, after) // step)
        for before, after, step in zip(request.out_start, request.out_end, request.out_offsets, strict=True)
    ]
    shape = [n + before + after for n, (before, after) in zip(request.min_shape, widths, strict=True)]
    require(int(np.prod(shape)) == request.out_elements, f"paddings {widths} do not make the output", _PAD)
    padded = np.pad(content, [*widths, (0, 0)], mode="reflect" if request.mode == 1 else "edge")
    memory.write(request.target, padded.reshape(-1))


@library(_LOOPS)
def pad_4loop(args: Sequence[CValue], memory: AddressSpace) -> None:
    """Release 4.0.0: one DMA transfer whose reader and writer have up to four loops each."""
    source = as_address(argument(args, 0, _LOOPS), _LOOPS)
    target, end = (as_address(argument(args, k, _LOOPS), _LOOPS) for k in (3, 4))
    constant, nbytes = (as_int(argument(args, k, _LOOPS), _LOOPS) for k in (6, 7))
    require(0 < end - target <= MAX_ELEMENTS and nbytes in (1, 2, 3, 4), "impossible sizes", _LOOPS)
    content = _loops(argument(args, 8, _LOOPS), source, memory).copy()
    _fill(target, end - target, constant, nbytes, memory)
    places = _loops(argument(args, 9, _LOOPS), target, memory)
    require(places.size == content.size, "reader and writer move different amounts", _LOOPS)
    places[...] = content.reshape(places.shape)


def _loops(value: CValue, base: int, memory: AddressSpace) -> Array:
    """`struct four_axes`: start, bytes per step, number of loops, all bytes, then (offset, count) innermost first."""
    if isinstance(value, list):
        words = as_ints(value, _LOOPS, 4)
        pairs = as_ints(value[4:], _LOOPS, 2 * words[2])
    else:
        info = StructView.of(value, _LOOPS)
        words = tuple(info.integer(name) for name in _LOOP_WORDS)
        pairs = _loop_pairs(info, words[2])
    start, inner, loops, total = words
    require(0 <= loops <= 4, f"{loops} loops", _LOOPS)
    if loops == 0:
        return strided(memory, base + start, (total,), (1,), _BYTE)
    steps, counts = pairs[0::2], pairs[1::2]
    shape = (*reversed(counts), inner)
    return strided(memory, base + start, shape, (*reversed(steps), 1), _BYTE)


def _loop_pairs(info: StructView, loops: int) -> tuple[int, ...]:
    items = info.value("four_items_array")
    if not isinstance(items, list) or len(items) < loops:
        raise fail(f"{loops} loops are promised", info.where)
    views = [StructView.of(item, info.where) for item in items[:loops]]
    return tuple(n for view in views for n in (view.integer("offset_in_bytes"), view.integer("nr_of_loops")))
