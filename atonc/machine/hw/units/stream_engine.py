"""STRENG: ten engines that move frames between memory and the stream switch.

A frame is either contiguous (raw) or a raster of lines, pixels and elements; frames follow each other at fixed
offsets, optionally in two nested loops. Proven for 8, 16 and 24 bit elements. Raw reads of 4 bits are modelled as
`four_bits.py` assumes, for whoever asks for that; other bit sizes, gaps, byte swaps and ciphering were never observed
and raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields
from atonc.machine.hw.four_bits import BITS, FourBits
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.stream import Array, Stream, signed

bits = fields.declare("STRENG")

# What LL_Streng_TensorInit writes for `cipher_en`: each word of eight bytes by its address, with key 0 of the engine's
# bus interface, 12 rounds, identification 0; LL_Streng_WeightEncryptionInit of 2.x gives the same registers. No
# published program has it; the cipher itself is not public.
CIPHER = ("ENCR_MSB.EN", 1)
CIPHER_WORD = 8  # bytes

LARGEST_RASTER = (25_200, 2_100, 256)  # lines, pixels and elements that published programs count
FARTHEST_PIXEL = (41_472, 131_072)  # bytes between pixels, of readers and of writers
FARTHEST_LINE = 600_000
RARE_RASTERS = ((4, 4_725, 1, 75_600, 16), (4_725, 2, 8, 8, 151_200))  # of writers, sizes and steps; one program
USUAL_LINE = (82_944, 600_000)  # the same by direction: no reader was seen to step farther


@dataclass(frozen=True)
class StrengConfig(fields.UnitConfig):
    KIND = "STRENG"

    to_memory: int = bits("CTRL.DIR")
    single: int = bits("CTRL.SINGLE")
    continuous: int = bits("CTRL.CONT")
    raw: int = bits("CTRL.RAW")
    raw_out: int = bits("CTRL.RAW_OUT")
    align_right: int = bits("CTRL.LSBMODE")
    sign_extend: int = bits("CTRL.SIGNEXT")
    size0: int = bits("CTRL.SIZE0")
    size1: int = bits("CTRL.SIZE1")
    size2: int = bits("CTRL.SIZE2")
    address: int = bits("ADDR.REG")
    fsize_low: int = bits("FSIZE.WIDTH")
    fsize_high: int = bits("FSIZE.HEIGHT")
    depth: int = bits("DEPTH.SIZE")
    pixel_offset_low: int = bits("DEPTH.OFFSET")
    line_offset_low: int = bits("STRD.LOFF")
    frame_offset: int = bits("FOFFSET.REG", signed=True)
    frame_repeat: int = bits("FRAME_RPT.REG")
    repeat_offset: int = bits("FRPTOFF.REG", signed=True)
    gap_cycles: int = bits("POS.GAPCYCLES")
    illegal_config_event: int = bits("EVENT.EN_ILLCFG")
    overflow_event: int = bits("EVENT.EN_OFLOW_FRM")
    sync: int = bits("EVENT.FRMTRG_EN")
    sync_source: int = bits("EVENT.FRMTRG_SRC")
    address_limit_enabled: int = bits("LIMITEN.ADDRLIMIT")
    stop_prefetch: int = bits("LIMITEN.STOPPREFTC")
    frame_limit_enabled: int = bits("LIMITEN.FRAMELIMIT")
    pixel_offset_high: int = bits("LIMITEN.DOFF_MSB")
    frames: int = bits("LIMIT.CNT")
    address_limit: int = bits("LIMITADDR.REG")
    cacheable: int = bits("CID_CACHE.CACHEABLE")
    cache_allocate: int = bits("CID_CACHE.ALLOC")
    line_offset_high: int = bits("CID_CACHE.LOFF_MSB")

    @fields.derived
    def element_bytes(self) -> int:
        return (self.size0 > 0) + (self.size1 > 0) + (self.size2 > 0)

    @fields.derived
    def four_bits(self) -> bool:
        """Two values lie in a byte: an element is one of them, or three for deep mode."""
        return (self.size0, self.size1, self.size2) in ((BITS, 0, 0), (BITS, BITS, BITS))

    @fields.derived
    def bytes_per_element(self) -> float:
        return self.element_bytes / 2 if self.four_bits else self.element_bytes

    @fields.derived
    def stored_bytes(self) -> int:
        """Bytes of a word as it lies in memory; `stored_shape` counts these."""
        return 1 if self.four_bits else self.element_bytes

    @property
    def ciphers(self) -> bool:
        """Whether what it moves is deciphered on its way in, or enciphered on its way out."""
        return CIPHER in self.unmodelled

    @property
    def pixel_offset(self) -> int:
        return self.pixel_offset_high << 16 | self.pixel_offset_low

    @fields.derived
    def line_offset(self) -> int:
        return signed(self.line_offset_high << 16 | self.line_offset_low, 32)

    @fields.derived
    def shape(self) -> tuple[int, int, int]:
        """Lines, pixels and elements of a raster frame; a raw frame is one line of one pixel."""
        if self.raw:
            return 1, 1, self.fsize_high << 16 | self.fsize_low
        return self.fsize_high, self.fsize_low, self.depth

    @fields.derived
    def stored_shape(self) -> tuple[int, int, int]:
        """The frame in memory, in words of `stored_bytes`: two values of 4 bits are one of them."""
        lines, pixels, depth = self.shape
        return (lines, pixels, -(-depth * self.element_bytes // 2)) if self.four_bits else self.shape

    @fields.derived
    def frame_bytes(self) -> int:
        lines, pixels, depth = self.stored_shape
        return lines * pixels * depth * self.stored_bytes

    @property
    def raster_seen(self) -> bool:
        """Whether published programs count and step as far."""
        return self.raw == 1 or is_seen(self.shape, self.line_offset, self.pixel_offset, int(self.to_memory > 0))

    @fields.derived
    def frame_elements(self) -> int:
        lines, pixels, depth = self.shape
        return lines * pixels * depth

    @fields.derived
    def elements(self) -> int:
        return self.frames * self.frame_elements

    @fields.derived
    def steps(self) -> tuple[int, int, int]:
        """Bytes between lines, pixels and words of `stored_shape`."""
        return (0, 0, self.stored_bytes) if self.raw else (self.line_offset, self.pixel_offset, self.stored_bytes)

    def frame_loops(self) -> tuple[tuple[int, int], ...]:
        """The frames as nested loops (count, byte step), outermost first; the last outer turn may be cut short."""
        if self.raw and self.continuous:
            return ((self.frames, self.frame_bytes),)
        if self.frame_repeat == 0 or self.frame_repeat >= self.frames:
            return ((self.frames, self.frame_offset),)
        turns = -(-self.frames // self.frame_repeat)
        return ((turns, self.repeat_offset), (self.frame_repeat, self.frame_offset))

    @fields.derived
    def runs(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Bytes that follow each other in memory (an element, a line, or the frame), and the loops (count, byte step)
        over all such runs."""
        size = self.stored_bytes
        lines, pixels, depth = self.stored_shape
        line_step, pixel_step, _ = self.steps
        loops = self.frame_loops()
        if len(loops) == 2 and self.frames % loops[1][0]:
            loops = ((self.frames, 0),)  # the last turn is cut short: take every frame to start like the first
        if self.raw:
            return depth * size, loops
        if pixel_step != depth * size:
            return depth * size, (*loops, (lines, line_step), (pixels, pixel_step))
        if line_step != pixels * depth * size:
            return pixels * depth * size, (*loops, (lines, line_step))
        return lines * pixels * depth * size, loops

    @fields.derived
    def bus_loops(self) -> tuple[tuple[int, int], ...]:
        """The same loops, each with how far its turns move within a word of the bus."""
        return tuple([(count, step % BUS_BYTES) for count, step in self.runs[1]])

    def span(self) -> tuple[int, int]:
        """First and one-past-last address that the frames touch."""
        low, high = self._reach
        return self.address + low, self.address + high

    @fields.derived
    def _reach(self) -> tuple[int, int]:
        low = high = 0
        for count, step in (*self.frame_loops(), *zip(self.stored_shape, self.steps, strict=True)):
            if count > 1:
                reach = (count - 1) * step
                low, high = (low + reach, high) if reach < 0 else (low, high + reach)
        return low, high + self.stored_bytes


def is_seen(shape: tuple[int, int, int], line: int, pixel: int, to_memory: int) -> bool:
    """Lines, pixels and elements of a raster and the bytes between them, against those of published programs."""
    common = (*LARGEST_RASTER, FARTHEST_LINE, FARTHEST_PIXEL[to_memory])
    known = (common, *RARE_RASTERS) if to_memory else (common,)
    sizes = (*shape, line, pixel)
    return any([all(map(le, sizes, box)) for box in known])


MOST_ELEMENTS, MOST_FRAMES = 1 << 28, 1 << 24
_SIZES = f"an engine moves something, and at most {MOST_ELEMENTS:,} elements in {MOST_FRAMES:,} frames"


def decode(words: Mapping[int, int]) -> StrengConfig:
    return fields.decode(StrengConfig, words)


def encode(config: StrengConfig) -> dict[int, int]:
    return fields.encode(config)


def frame_addresses(config: StrengConfig) -> NDArray[np.int64]:
    """Byte offset of every frame from ADDR."""
    numbers = np.arange(config.frames, dtype=np.int64)
    loops = config.frame_loops()
    if len(loops) == 1:
        return numbers * loops[0][1]
    (_, outer), (inner_count, inner) = loops
    return numbers // inner_count * outer + numbers % inner_count * inner


def read(
    config: StrengConfig,
    memory: NDArray[np.uint8],
    base: int,
    unit: str = "STRENG",
    four_bits: FourBits | None = None,
) -> Stream:
    """The stream that the engine reads; `memory` is the region that starts at bus address `base`. `four_bits`: how
    elements of 4 bits are read, None where nobody says."""
    check(config, unit, four_bits)
    index = None
    if (step := _even_step(config)) is not None:
        frames = _evenly_spaced(config, memory, base, step, unit, writeable=False)
    else:
        distinct, index = _distinct(config)
        frames = _window(config, memory, base, distinct, unit, writeable=False)
    size = config.element_bytes
    data = np.ascontiguousarray(frames).reshape(len(frames), -1)
    if config.four_bits and four_bits is not None:
        values = _unpacked(data.reshape(-1), config.elements * size, four_bits).reshape(config.frames, -1)
        return Stream(values.view(np.uint8), word_bytes=3) if size == 3 else Stream(values)
    if size == 3:
        return Stream(data, index, word_bytes=3)
    wanted: Any = {1: (np.uint8, np.int8), 2: (np.uint16, np.int16)}[size][config.sign_extend]
    data = data.view(wanted)
    return Stream(data, None if index is None else index.astype(np.int64))


def _unpacked(data: NDArray[np.uint8], count: int, form: FourBits) -> NDArray[np.int8]:
    """The first `count` elements, each with its sign."""
    low, high = (data << BITS).view(np.int8) >> BITS, data.view(np.int8) >> BITS
    both = (low, high) if form.low_first else (high, low)
    return np.stack(both, axis=-1).reshape(-1)[:count]


def write(config: StrengConfig, stream: Stream, memory: NDArray[np.uint8], base: int, unit: str = "STRENG") -> None:
    """Stores as many elements as the engine is programmed for; the caller has checked that there are enough."""
    check(config, unit)
    size, lines_pixels_depth = config.element_bytes, config.shape
    data = _to_bytes(stream, config.elements, size).reshape(config.frames, *lines_pixels_depth, size)
    if (step := _even_step(config)) is not None and not _may_collide(config):
        _evenly_spaced(config, memory, base, step, unit, writeable=True)[...] = data
        return
    offsets = frame_addresses(config)
    if _repeats(config):
        # a frame address that is written several times ends with its last frame
        reversed_first = np.unique(offsets[::-1], return_index=True)
        last = np.sort(config.frames - 1 - reversed_first[1])
        data, offsets = data[last], offsets[last]
    one_by_one = _may_collide(config)
    target = _window(config, memory, base, offsets, unit, writeable=True)
    if one_by_one or isinstance(target, list):
        for frame, values in zip(target, data, strict=True):
            frame[...] = values
    else:
        target[...] = data


def _may_collide(config: StrengConfig) -> bool:
    """Whether a frame may overwrite a part of another one, so that their order matters."""
    step = min((abs(step) for count, step in config.frame_loops() if count > 1 and step), default=0)
    run = config.shape[2] * config.element_bytes  # frames that lie between each other's pixels do not collide
    interleaved = not config.raw and run <= step and config.frames * step <= abs(config.pixel_offset)
    reach = sum((count - 1) * abs(size) for count, size in zip(config.shape, config.steps, strict=True))
    return 0 < step < reach + config.element_bytes and not interleaved


def check(config: StrengConfig, unit: str, four_bits: FourBits | None = None) -> None:
    if config.ciphers:
        raise NotModelledError(
            f"the engine ciphers what it moves ({CIPHER[0]} = {CIPHER[1]:#x}), and the cipher is not public",
            where=unit,
            rule="only modes whose result is proven are emulated",
            remedy="compile without --encrypt-weights: the program is the same in plain",
        )
    config.require_modelled(unit)
    if not (0 < config.elements <= MOST_ELEMENTS and config.frames <= MOST_FRAMES):
        raise InputError(f"{config.elements:,} elements in {config.frames:,} frames", where=unit, rule=_SIZES)
    sizes = (config.size0, config.size1, config.size2)
    if config.four_bits:
        _check_four_bits(config, unit, four_bits)
    elif sizes not in {(8, 0, 0), (8, 8, 0), (8, 8, 8)}:
        raise fields.not_modelled(unit, "CTRL.SIZE0..2", size_fields(config))
    if config.sign_extend != config.align_right:
        raise fields.not_modelled(unit, "CTRL.LSBMODE/SIGNEXT", config.align_right | config.sign_extend << 1)
    if not config.frame_limit_enabled:
        raise fields.not_modelled(unit, "LIMITEN.FRAMELIMIT", 0)


def size_fields(config: StrengConfig) -> int:
    return config.size0 | config.size1 << 4 | config.size2 << 8


def is_narrow_form(config: StrengConfig) -> bool:
    """The one form of 4 bits that is modelled: a reader of one raw frame, aligned right and sign extended; three values
    to an element as published engines read them, without either flag."""
    one_frame = config.raw and config.frames == 1 and not config.to_memory
    signs = int(config.element_bytes == 1)
    return bool(config.four_bits and one_frame and config.align_right == config.sign_extend == signs)


def _check_four_bits(config: StrengConfig, unit: str, four_bits: FourBits | None) -> None:
    unknown = four_bits is None or (config.element_bytes == 3 and not four_bits.deep)
    if unknown or not is_narrow_form(config):
        raise NotModelledError(
            f"CTRL.SIZE0..2 = {size_fields(config):#x}: how an engine takes 4 bits from memory was never observed",
            where=unit,
            rule="only proven modes are emulated; one raw frame of 4 bits, sign extended, where a build says so",
            remedy="build the network with --allow-unproven w4-stream, or with the evidence file of a board",
        )


def _repeats(config: StrengConfig) -> bool:
    return config.frames > 1 and any(step == 0 and count > 1 for count, step in config.frame_loops())


def _distinct(config: StrengConfig) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Offsets of the frames, each once, and which of them every frame of the stream is."""
    offsets = frame_addresses(config)
    if not _repeats(config):
        return offsets, None
    # as numpy.unique with its inverse does it, which loads masked arrays for that
    order = np.argsort(offsets, kind="stable")
    ranked = offsets[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]]
    index = np.empty(offsets.size, np.int64)
    index[order] = np.cumsum(first) - 1
    return ranked[first], index


def _even_step(config: StrengConfig) -> int | None:
    """Bytes from frame to frame, where each frame lies as far from the one before; None where some lie otherwise."""
    loops = config.frame_loops()
    return loops[0][1] if len(loops) == 1 and (loops[0][1] or config.frames == 1) else None


def _evenly_spaced(
    config: StrengConfig, memory: NDArray[np.uint8], base: int, step: int, unit: str, writeable: bool
) -> Any:
    last = (config.frames - 1) * step
    _require_inside(config, memory, base, (min(0, last), max(0, last)), unit)
    shape, strides = (config.frames, *config.stored_shape, config.stored_bytes), (step, *config.steps, 1)
    found: Array = np.ndarray(shape, np.uint8, memory, config.address - base, strides)  # as_strided is slow
    found.flags.writeable = writeable
    return found


def _to_bytes(stream: Stream, elements: int, size: int) -> Array:
    if stream.word_bytes == size:
        return stream.bytes()[: elements * size]
    values = stream.flat()[:elements]
    if size == 3:
        wide = values.astype("<i4").view(np.uint8).reshape(-1, 4)
        return wide[:, :3]
    wanted = np.uint8 if size == 1 else np.dtype("<u2")
    return np.ascontiguousarray(values.astype(wanted)).view(np.uint8)


def _window(
    config: StrengConfig, memory: NDArray[np.uint8], base: int, offsets: NDArray[np.int64], unit: str, writeable: bool
) -> Any:
    """Strided view [frames, lines, pixels, depth, bytes] of memory, gathered where the frames are not evenly spaced."""
    start = config.address - base
    shape, steps, size = config.stored_shape, config.steps, config.stored_bytes
    _require_inside(config, memory, base, (int(offsets.min(initial=0)), int(offsets.max(initial=0))), unit)
    even = offsets.size < 3 or bool((np.diff(offsets) == offsets[1] - offsets[0]).all())
    inner_steps = (*steps, 1)
    if even:
        step = int(offsets[1] - offsets[0]) if offsets.size > 1 else 0
        first = memory[start + int(offsets[0]) :] if offsets.size else memory[:0]
        return np.lib.stride_tricks.as_strided(
            first, (offsets.size, *shape, size), (step, *inner_steps), writeable=writeable
        )
    views = [
        np.lib.stride_tricks.as_strided(memory[start + int(o) :], (*shape, size), inner_steps, writeable=writeable)
        for o in offsets
    ]
    return views if writeable else np.stack(views)


def _require_inside(
    config: StrengConfig, memory: NDArray[np.uint8], base: int, frames: tuple[int, int], unit: str
) -> None:
    """`frames`: the lowest and the highest offset of a frame."""
    reach = [(count - 1) * step for count, step in zip(config.stored_shape, config.steps, strict=True)]
    low = config.address + frames[0] + sum(min(r, 0) for r in reach)
    high = config.address + frames[1] + sum(max(r, 0) for r in reach) + config.stored_bytes
    if low < base or high > base + memory.size:
        raise InputError(
            f"the engine touches {low:#010x}..{high - 1:#010x}, "
            f"outside the memory at {base:#010x} ({memory.size} bytes)",
            where=unit,
            rule="an access stays inside one memory pool",
            remedy="check that program, initialisers and pools belong to the same compilation",
        )
