"""The units of a chain of convolutions, in settings that occur in public networks.

What a setting was seen with depends on how features are read, on the window and its padding, and on how sums go on from
unit to unit and from pass to pass.

How units may read the features of a layer: bytes as they are, or with a zero point taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from atonc.compiler.lower.conv.kernel_parts import MAX_PADDING, Part, out_size
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.form import Refusal, without_evidence
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.limits import (
    LEAST_DEEP,
    LEAST_PLAIN,
    LEAST_READ_BACK,
    MAX_CHAIN,
    PRODUCTS,
    Sizes,
    convacc_sizes,
)
from atonc.machine.hw.safety import mode_keys
from atonc.machine.hw.safety.evidence import Feature, Trust
from atonc.machine.hw.safety.evidence.trust import frame_seen, padding_seen, picture_trusted
from atonc.machine.hw.units.convacc import FRAME_ZERO, ConvaccConfig, crop_end

RINGS = {1: (True, False), MAX_CHAIN: (False, True)}  # units -> sums through the switch or not, the better way first


class FeatureMode(NamedTuple):
    """How features are read: element size and sign."""

    simd: int
    unsigned: bool = False
    deep: bool = False
    packed_frame: bool = False  # deep: bytes of the whole frame in a row
    offset: int = 0  # zero point that the unit subtracts
    four_bits: FourBits | None = None  # how engines read kernels of 4 bits; None: in bytes

    @property
    def feature_bytes(self) -> int:
        if self.deep:
            return 3 if self.packed_frame else 1
        return 2 if self.simd == 2 else 1

    @property
    def kernel_bytes(self) -> float:
        """Says what a value takes in memory."""
        return 0.5 if self.four_bits else 1.0

    def multiplying(self, results: float, window: tuple[int, int], batch: int) -> float:
        """Cycles at least for so many results, each of a window over so many channels."""
        return results * window[0] * window[1] * batch / PRODUCTS[self.simd]


@dataclass(frozen=True)
class Outline:
    """All of a part that its tiling depends on: layers that look alike are cut alike."""

    area: Area
    window: tuple[int, int]
    padding: tuple[int, int, int, int]
    stride: int

    @property
    def out_size(self) -> tuple[int, int]:
        return out_size(self)


@dataclass(frozen=True)
class ChainForm:
    """What decides whether a chain was seen: how sums return, and the RAW flag of every unit."""

    ring: bool
    raw: tuple[int, ...]


def limits(mode: FeatureMode, rows: int, columns: int) -> Sizes:
    """Most kernels, channels, kernel bytes and line elements of a unit, as seen in public networks."""
    return convacc_sizes(rows, columns, mode.simd, mode.deep)


def least_batch(mode: FeatureMode, rows: int) -> int:
    """Fewest channels of a unit that were seen."""
    if mode.deep:
        return LEAST_DEEP[mode.feature_bytes]
    return LEAST_PLAIN if rows == 1 else 1


def pictures_trusted(parts: Sequence[Part | Outline], mode: FeatureMode, trust: Trust) -> bool:
    """Whether pictures, padding and results of these sizes may be relied on in this mode."""
    areas = [Area.whole(part.area.height, part.area.width, 1) for part in parts]
    shapes = [Outline(area, p.window, p.padding, p.stride) for area, p in zip(areas, parts, strict=True)]
    return all(_picture_trusted(shape, mode, trust) for shape in shapes)


@lru_cache(maxsize=1 << 16)
def _picture_trusted(part: Outline, mode: FeatureMode, trust: Trust) -> bool:
    return picture_trusted(unit_config(part, mode, 1, 1), trust)


def no_setting(part: Part, channels: int, where: str) -> Refusal:
    rows, columns = part.window
    return Refusal(
        CONV_MODE,
        f"no proven setting for a {rows}x{columns} window, stride {part.stride}, padding {part.padding}, "
        f"{channels} channels in {where}",
        "settings that occur in ST programs",
        "change the padding or the kernel size",
    )


Shape = tuple[int, int, int, bool]  # rows, columns, stride, padded


def shape_of(part: Part | Outline) -> Shape:
    return (*part.window, part.stride, any(part.padding))


@cache
def form_of(shapes: tuple[Shape, ...], mode: FeatureMode, units: int, looped: bool, small: bool) -> ChainForm | None:
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
            raws.append(_seen_raw(unit_config(part, mode, 1, 1, ChainLink(unit, units, 2 if looped else 1, ring))))
        if None not in raws:
            return ChainForm(ring, tuple(raw for raw in raws if raw is not None))
    return None


def _loops(units: int, looped: bool, small: bool) -> tuple[bool, ...]:
    """Whether to try the switch; rings of four units were seen, but rarely."""
    if not looped:
        return (False,)
    return tuple(ring for ring in RINGS.get(units, (False,)) if ring or not small)


def chain_configs(
    parts: Sequence[Part | Outline], mode: FeatureMode, batch: int, kernels: int, units: int, passes: int = 1
) -> tuple[ConvaccConfig, ...] | None:
    """The units of a chain, if each of them has settings that were seen."""
    if any(max(part.padding) > MAX_PADDING for part in parts):
        return None
    rows, columns = parts[0].out_size
    form = form_of(tuple(map(shape_of, parts)), mode, units, passes > 1, rows * columns * kernels < LEAST_READ_BACK)
    if form is None:
        return None
    each = parts if len(parts) > 1 else [parts[0]] * units
    linked = [ChainLink(k, units, passes, form.ring) for k in range(units)]
    made = (unit_config(each[k], mode, batch, kernels, linked[k]) for k in range(units))
    return tuple(changed(config, raw_out=raw) for config, raw in zip(made, form.raw, strict=True))


def as_seen(config: ConvaccConfig) -> ConvaccConfig | None:
    """The unit with the RAW flag that it was seen with, if its settings were seen."""
    raw = _seen_raw(config) if frame_seen(config) else None
    return None if raw is None else changed(config, raw_out=raw)


def _seen_raw(config: ConvaccConfig) -> int | None:
    """The RAW flag with which the settings were seen (it changes nothing), or None."""
    if not padding_seen(config):
        return None
    for raw in (config.raw_out, 1 - config.raw_out):
        if mode_keys.mode_key(changed(config, raw_out=raw)) in mode_keys.proven_modes("CONVACC"):
            return raw
    return None


_PLAIN = ConvaccConfig(out_shift=0, in_shift=0, rounded=1, saturated=1, round_mode=1)


class ChainLink(NamedTuple):
    """Where a unit stands in its chain, and how often the chain runs before its sums are whole."""

    unit: int = 0
    units: int = 1
    passes: int = 1
    ring: bool = False  # sums return through the switch


ALONE = ChainLink()


def unit_config(
    part: Part | Outline, mode: FeatureMode, batch: int, kernels: int, linked: ChainLink = ALONE
) -> ConvaccConfig:
    """One unit of a chain; the output shift is set later."""
    unit, units, passes, ring = linked
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
    changes: dict[str, Any] = sums | filters
    return changed(
        _PLAIN,
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
        **changes,
    )


FSUB = "CONVACC FSUB"
LOWEST = -128  # zero point of what a ReLU leaves


def subtractable(zero: int, trust: Trust) -> bool:
    """Whether units may take this from signed features."""
    return trust.allows(trust.grade(Feature(FSUB, "signed", zero)))


def modes(zero: int, shifted: bool, exactly: bool, trust: Trust) -> list[FeatureMode]:
    """`exactly`: the zero point itself, since units pad with zeros. Without padding a unit may subtract any number: the
    bias makes up for it."""
    deep = [FeatureMode(1, shifted, deep=True, packed_frame=packed) for packed in (True, False)]
    if shifted:
        return [FeatureMode(1, unsigned=True), *deep]
    if zero == 0:
        return [FeatureMode(1), *deep] if exactly else [FeatureMode(1), *deep, FeatureMode(2, offset=1)]
    near = (zero,) if exactly else (zero, zero + 1, zero - 1)
    subtracted = [FeatureMode(2, offset=number) for number in near if subtractable(number, trust)][:1]
    if exactly and not subtracted:
        graded = trust.grade(Feature(FSUB, "signed", zero))
        raise Refusal.of(without_evidence(graded))
    # features of one byte, all as they are: the bias makes up for the zero point
    return subtracted if exactly else [*subtracted, FeatureMode(1), *deep]


def nearest(found: list[FeatureMode], zero: int) -> list[FeatureMode]:
    """Those that leave least of the zero point in the sums."""
    least = min((abs(mode.offset - zero) for mode in found), default=0)
    return [mode for mode in found if abs(mode.offset - zero) == least]
