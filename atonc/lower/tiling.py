"""How a convolution is cut for the CONVACC units: features a pass, kernels a pass, units in a chain, passes.

Candidates come from the limits of the unit; only those whose settings occur in public networks are kept, and the one
with the fewest cycles is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import lcm
from typing import Any

import numpy as np

from atonc.hw.safety import mode_keys
from atonc.hw.safety.values import LEAST_DEEP, LEAST_PLAIN, LEAST_READ_BACK, frame_seen, padding_seen
from atonc.hw.units.convacc import FRAME_ZERO, ConvaccConfig, crop_end
from atonc.lower.convolution import MAX_PADDING, Part, out_size
from atonc.lower.registry import Refusal
from atonc.plan.streams import Area

MAX_CHAIN = 4
MOST_TRIED = 6  # sizes of batches
EVEN, PACKED = 2, 4  # words of three bytes were read from even addresses, in steps of pixels and lines by four
MAX_PASSES = 128  # frames that a gate may drop and keep
RINGS = {1: (True, False), 4: (False, True)}  # units -> whether sums return through the switch, the better way first


@dataclass(frozen=True)
class Mode:
    """How features are read: element size and sign."""

    simd: int
    unsigned: bool = False
    deep: bool = False
    packed_frame: bool = False  # deep: bytes of the whole frame in a row
    offset: int = 0  # zero point that the unit subtracts

    @property
    def feature_bytes(self) -> int:
        if self.deep:
            return 3 if self.packed_frame else 1
        return 2 if self.simd == 2 else 1


@dataclass(frozen=True)
class Slots:
    """Which channels each unit of a chain reads in each pass.

    Passes begin `step` channels apart and see `reach` channels each; what is left of the last unit's batch lies over
    that of the unit before, so that nothing behind the channels is read.
    """

    batch: int  # channels of one feature frame
    passes: int  # frames that are summed through a loop
    reach: int
    step: int

    def start(self, unit: int, number: int = 0) -> int:
        return min(unit * self.batch, self.reach - self.batch) + number * self.step

    def starts(self, units: int) -> list[int]:
        """Where the units begin, and how far passes are apart."""
        return [*(self.start(unit) for unit in range(units)), *([self.step] if self.passes > 1 else [])]

    def own(self, unit: int, number: int) -> tuple[int, int]:
        """First and one past the last channel that nobody has read before."""
        earlier = (number - 1) * self.step + self.reach if number else 0
        first = max(earlier, number * self.step + min(unit * self.batch, self.reach))
        return first, max(first, self.start(unit, number) + self.batch)


@dataclass(frozen=True)
class Tiling:
    mode: Mode
    slots: Slots
    kernels: int  # outputs of one frame
    units: int  # CONVACCs in the chain
    configs: tuple[ConvaccConfig, ...]
    cycles: int

    @property
    def batch(self) -> int:
        return self.slots.batch

    @property
    def passes(self) -> int:
        return self.slots.passes

    @property
    def loop(self) -> str:
        """How partial sums return to the first unit: not at all, through the switch, through memory."""
        return "" if self.passes == 1 else "ring" if self.configs[0].generate_first_sum else "memory"


def limits(mode: Mode, rows: int) -> tuple[int, int, int, int]:
    """Most kernels, channels, kernel bytes and line elements of a unit, as seen in public networks."""
    if mode.deep:
        return 24, 128, 3072, 33_600
    if rows > 1:
        return (8, 8, 576, 1920) if mode.simd == 1 else (4, 8, 288, 1024)
    return 24, 24, 576, 33_600


def least_batch(mode: Mode, rows: int) -> int:
    """Fewest channels of a unit that were seen."""
    if mode.deep:
        return LEAST_DEEP[mode.feature_bytes]
    return LEAST_PLAIN if rows == 1 else 1


def choose(
    parts: tuple[Part, ...],
    channels: int,
    outputs: int,
    modes: list[Mode],
    memory_loops: bool = True,
    share: int | None = None,
    aligned: int = 1,
    whole: int = 1,
) -> Tiling | None:
    """The cheapest proven tiling of `outputs` kernels over `channels` inputs; None when there is none.

    `share`: that many channels in every pass. `aligned`: parts of the channels begin at multiples of this. `whole`:
    kernels that are left over begin at multiples of this.
    """
    outlines = tuple(
        Outline(replace(p.area, offset=p.area.offset % EVEN), p.window, p.padding, p.stride) for p in parts
    )
    return _chosen(outlines, channels, outputs, tuple(modes), memory_loops, share, aligned, whole)


@dataclass(frozen=True)
class Outline:
    """Of a part all that its tiling depends on: layers that look alike are cut alike."""

    area: Area
    window: tuple[int, int]
    padding: tuple[int, int, int, int]
    stride: int

    @property
    def out_size(self) -> tuple[int, int]:
        return out_size(self)


@lru_cache(maxsize=4096)
def _chosen(
    parts: tuple[Outline, ...],
    channels: int,
    outputs: int,
    modes: tuple[Mode, ...],
    memory_loops: bool,
    share: int | None,
    aligned: int,
    whole: int,
) -> Tiling | None:
    if any(max(part.padding) > MAX_PADDING for part in parts):
        return None
    candidates = [c for mode in modes for c in _candidates(parts, channels, outputs, mode, share, aligned, whole)]
    candidates = [c for c in candidates if memory_loops or c.slots.passes == 1 or (c.form.ring and c.units == 1)]
    candidates = [c for c in candidates if not outputs % c.kernels or not (outputs - outputs % c.kernels) % whole]
    best = min(candidates, key=lambda c: (c.cycles, c.units, -c.kernels, -c.slots.batch), default=None)
    if best is None:
        return None
    configs = chain_configs(parts, best.mode, best.slots.batch, best.kernels, best.units, best.slots.passes)
    assert configs is not None  # its form was looked up before
    return Tiling(best.mode, best.slots, best.kernels, best.units, configs, best.cycles)


def no_setting(part: Part, channels: int, where: str) -> Refusal:
    rows, columns = part.window
    return Refusal(
        "CONV-MODE",
        f"no proven setting for a {rows}x{columns} window, stride {part.stride}, padding {part.padding}, "
        f"{channels} channels in {where}",
        "settings that occur in public networks",
        "change the padding or the kernel size",
    )


@dataclass(frozen=True)
class Form:
    """What decides whether a chain was seen: how sums return, and the RAW flag of every unit."""

    ring: bool
    raw: tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    mode: Mode
    slots: Slots
    kernels: int
    units: int
    form: Form
    cycles: int


def _candidates(
    parts: tuple[Outline, ...], channels: int, outputs: int, mode: Mode, share: int | None, aligned: int, whole: int
) -> Iterator[Candidate]:
    rows, columns = parts[0].window
    if mode.deep and (rows, columns) != (1, 1):
        return
    most_kernels, most_batch, most_weights, most_line = limits(mode, rows)
    width = max(part.area.width for part in parts)
    if mode.deep and not mode.packed_frame:
        if not all(_packable(part.area) for part in parts):
            return
        aligned = lcm(aligned, EVEN)
    for units in _unit_counts(parts, channels):
        beside = units if len(parts) == 1 else 1  # units that read different channels
        for slots in _slots(channels, beside, min(most_batch, most_line // width), share, aligned):
            batch, passes = slots.batch, slots.passes
            if batch < least_batch(mode, rows):
                continue
            if mode.packed_frame and not (batch == channels and all(part.area.contiguous for part in parts)):
                continue
            if mode.deep and not mode.packed_frame and not all(_words_fit(part.area, batch) for part in parts):
                continue
            kernels = _kernels(outputs, min(most_kernels, most_weights // (rows * columns * batch)), whole)
            if not kernels or passes > MAX_PASSES:
                continue
            rows_out, columns_out = parts[0].out_size
            results = rows_out * columns_out * kernels
            form = _form(tuple(map(_shape, parts)), mode, units, passes > 1, results < LEAST_READ_BACK)
            if form is not None:
                frame = max(*(_feature_words(part, mode, batch) for part in parts), results, 1)
                cycles = frame * -(-outputs // kernels) * passes
                yield Candidate(mode, slots, kernels, units, form, cycles)


def _packable(area: Area) -> bool:
    """Whether packed words may be read from all pixels."""
    steps = [area.pixel] * (area.width > 1) + [area.line] * (area.height > 1)
    return area.offset % EVEN == 0 and not any(step % PACKED for step in steps)


def _words_fit(area: Area, batch: int) -> bool:
    """Whether the last word of a pixel ends inside of it: words that reach into the next pixel were never seen."""
    return area.width == 1 or -(-batch // 3) * 3 <= area.pixel


def _feature_words(part: Outline, mode: Mode, batch: int) -> int:
    pixels = part.area.height * part.area.width
    if not mode.deep:
        return pixels * batch
    return -(-pixels * batch // 3) if mode.packed_frame else pixels * -(-batch // 3)


def _unit_counts(parts: tuple[Outline, ...], channels: int) -> list[int]:
    if len(parts) > 1:
        return [len(parts)]
    return list(range(1, MAX_CHAIN + 1))


def _slots(channels: int, units: int, most: int, wanted: int | None, aligned: int) -> list[Slots]:
    """Ways worth trying to spread the channels over units and passes: evenly, all of them beginning at aligned
    places, the largest batches first."""
    if wanted is not None:
        found = [Slots(wanted // units, channels // wanted, wanted, wanted)] if wanted % units == 0 else []
    else:
        found = [_even_slots(channels, units, passes, aligned) for passes in range(1, -(-channels // units) + 1)]
    kept: list[Slots] = []
    for slots in found:
        fits = 0 < slots.batch <= most and (not kept or slots.batch < kept[-1].batch)
        if fits and not any(start % aligned for start in slots.starts(units)):
            kept.append(slots)
    return kept[:MOST_TRIED]


def _even_slots(channels: int, units: int, passes: int, aligned: int) -> Slots:
    step = channels // passes // aligned * aligned
    reach = channels - (passes - 1) * step
    batch = reach if units == 1 else -(-reach // units // aligned) * aligned
    return Slots(min(batch, reach), passes, reach, step)


def _kernels(outputs: int, most: int, whole: int) -> int:
    """As many as fit, spread evenly over the groups, or in groups that begin at multiples of `whole`."""
    if most < 1:
        return 0
    groups = -(-outputs // most)
    if whole > 1 and groups > 1:
        return most - most % whole if most >= whole else 1 << (most.bit_length() - 1)
    return -(-outputs // groups)


_Shape = tuple[int, int, int, bool]  # rows, columns, stride, padded


def _shape(part: Part | Outline) -> _Shape:
    return (*part.window, part.stride, any(part.padding))


@cache
def _form(shapes: tuple[_Shape, ...], mode: Mode, units: int, looped: bool, small: bool) -> Form | None:
    """The settings of a chain, if each of its units has some that were seen; other sizes play no part in that.

    Sums return through the switch or, if they are not small, through memory.
    """
    for ring in _loops(units, looped, small):
        raws = []
        for unit in range(units):
            rows, columns, stride, padded = shapes[unit if len(shapes) > 1 else 0]
            area = Area.whole(rows + stride, columns + stride, 1)
            pads = (1, 1, 1, 1) if padded else (0, 0, 0, 0)
            part = Part(area, np.zeros((1, rows, columns, 1), np.int8), pads, stride)
            raws.append(_seen_raw(unit_config(part, mode, 1, 1, unit, units, 2 if looped else 1, ring)))
        if None not in raws:
            return Form(ring, tuple(raw for raw in raws if raw is not None))
    return None


def _loops(units: int, looped: bool, small: bool) -> tuple[bool, ...]:
    """Whether to try the switch; rings of four units were seen, but rarely."""
    if not looped:
        return (False,)
    return tuple(ring for ring in RINGS.get(units, (False,)) if ring or not small)


def chain_configs(
    parts: Sequence[Part | Outline], mode: Mode, batch: int, kernels: int, units: int, passes: int = 1
) -> tuple[ConvaccConfig, ...] | None:
    """The units of a chain, if each of them has settings that were seen."""
    if any(max(part.padding) > MAX_PADDING for part in parts):
        return None
    rows, columns = parts[0].out_size
    form = _form(tuple(map(_shape, parts)), mode, units, passes > 1, rows * columns * kernels < LEAST_READ_BACK)
    if form is None:
        return None
    return tuple(
        replace(
            unit_config(parts[k if len(parts) > 1 else 0], mode, batch, kernels, k, units, passes, form.ring),
            raw_out=form.raw[k],
        )
        for k in range(units)
    )


def as_seen(config: ConvaccConfig) -> ConvaccConfig | None:
    """The unit with the RAW flag that it was seen with, if its settings were seen."""
    raw = _seen_raw(config) if frame_seen(config) else None
    return None if raw is None else replace(config, raw_out=raw)


def _seen_raw(config: ConvaccConfig) -> int | None:
    """The RAW flag with which the settings were seen (it changes nothing), or None."""
    if not padding_seen(config):
        return None
    for raw in (config.raw_out, 1 - config.raw_out):
        if mode_keys.mode_key(replace(config, raw_out=raw)) in mode_keys.proven_modes("CONVACC"):
            return raw
    return None


def unit_config(
    part: Part | Outline, mode: Mode, batch: int, kernels: int, unit: int, units: int, passes: int, ring: bool
) -> ConvaccConfig:
    """Unit number `unit` of the chain; the output shift is set later. `ring`: sums return through the switch."""
    rows, columns = part.window
    top, left, bottom, right = part.padding
    first, last = unit == 0, unit == units - 1
    looped = passes > 1
    line = part.area.width * batch
    sums = {"no_sum": int(first and not looped), "no_first_sum": int(first and not ring)}
    if first and looped:
        sums |= {
            "generate_first_sum": int(ring),
            "accumulator_filter": FRAME_ZERO,
            "frames_per_sum": passes,
            "sum_first": 1,
            "sum_last": passes - 1,
        }
    filters = {}
    if units > 1:
        filters = {
            "kernels_per_round": units * kernels,
            "kernel_first": unit * kernels,
            "kernel_last": (unit + 1) * kernels - 1,
        }
    plain = ConvaccConfig(
        simd=mode.simd,
        deep=int(mode.deep),
        kernel_set_enable=3 if mode.deep else 0,
        features_unsigned=int(mode.unsigned),
        feature_bytes=mode.feature_bytes,
        feature_offset=mode.offset,
        kernel_width=columns,
        kernel_height=rows,
        batch=batch,
        kernels=kernels,
        stride_x=part.stride,
        stride_y=part.stride,
        pad_top=top,
        pad_bottom=bottom,
        pad_left=left,
        pad_right=right,
        height=part.area.height,
        line_elements=line,
        crop_right=crop_end(line // batch, batch),
        crop_bottom=crop_end(part.area.height),
        out_bytes=2 if last else 3,
        raw_out=int(not last),
        out_shift=0,
        in_shift=0,
        rounded=1,
        saturated=1,
        round_mode=1,
    )
    changes: dict[str, Any] = sums | filters
    return replace(plain, **changes)
