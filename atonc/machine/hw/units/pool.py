"""POOL: two units for maximum, average and global average pooling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields
from atonc.machine.hw.stream import Array, Ints, finish, low_bytes

bits = fields.declare("POOL")

MAX, MIN, AVERAGE, GLOBAL_MAX, GLOBAL_MIN, GLOBAL_AVERAGE = 0, 1, 2, 8, 9, 10
TYPE_NAMES = {MAX: "max", AVERAGE: "avg", GLOBAL_AVERAGE: "global avg", MIN: "min", GLOBAL_MAX: "global max"}


@dataclass(frozen=True)
class PoolConfig(fields.UnitConfig):
    KIND = "POOL"

    type: int = bits("CTRL.TYPE")
    rounded: int = bits("CTRL.ROUND")
    saturated: int = bits("CTRL.SAT")
    out_shift: int = bits("CTRL.OUTSHIFT")
    dual_line: int = bits("CTRL.DUALLINE")
    crop_enable: int = bits("CTRL.CROPEN")
    feature_bytes: int = bits("CTRL.FBYTES")
    feature_shift: int = bits("CTRL.FSHIFT")
    feature_round: int = bits("CTRL.FROUND")
    feature_saturate: int = bits("CTRL.FSAT")
    window_x: int = bits("PDIMS.WINX")
    window_y: int = bits("PDIMS.WINY")
    stride_x: int = bits("PDIMS.STRDX")
    stride_y: int = bits("PDIMS.STRDY")
    pad_top: int = bits("PDIMS.TPAD")
    pad_bottom: int = bits("PDIMS.BPAD")
    pad_left: int = bits("PDIMS.LPAD")
    pad_right: int = bits("PDIMS.RPAD")
    batch: int = bits("PDIMS.BSIZE")
    line_elements: int = bits("FDIMS.FEATX")
    height: int = bits("FDIMS.FEATY")
    out_width: int = bits("OUTDIMS.FEATX")
    out_height: int = bits("OUTDIMS.FEATY")
    multiplier: int = bits("MULVAL.MULVAL", signed=True)
    crop_left: int = bits("XCROP.LCROP")
    crop_right: int = bits("XCROP.RCROP")
    crop_top: int = bits("YCROP.TCROP")
    crop_bottom: int = bits("YCROP.BCROP")
    feature_out_bytes: int = bits("RNDCTRL.FOBYTES")
    feature_round_mode: int = bits("RNDCTRL.FRNDMODE")
    out_bytes: int = bits("RNDCTRL.OBYTES")
    round_mode: int = bits("RNDCTRL.ORNDMODE")

    @property
    def is_global(self) -> bool:
        return self.type >= GLOBAL_MAX

    @property
    def frame_elements(self) -> int:
        return self.line_elements * self.height

    @property
    def out_elements(self) -> int:
        return self.batch if self.is_global else self.out_width * self.out_height * self.batch

    def on_frames(self, height: int, width: int, batch: int) -> PoolConfig:
        """The same windows over frames of this size, all of which is kept. One pixel comes out of a global average, but
        all public programs set OUTDIMS to one more than the frame."""
        frame = {"batch": batch, "line_elements": width * batch, "height": height}
        crop = {"crop_enable": 1, "crop_right": width * batch - 1, "crop_bottom": height - 1}
        wide, tall = (width, height) if self.is_global else (width - self.window_x, height - self.window_y)
        return fields.changed(
            self, **frame, **crop, out_width=wide // self.stride_x + 1, out_height=tall // self.stride_y + 1
        )


def decode(words: Mapping[int, int]) -> PoolConfig:
    return fields.decode(PoolConfig, words)


def encode(config: PoolConfig) -> dict[int, int]:
    return fields.encode(config)


def execute(config: PoolConfig, x: Array, unit: str = "POOL") -> Ints:
    """Output elements of all whole frames in x."""
    check(config, unit)
    frames = x.size // config.frame_elements
    data = low_bytes(x[: frames * config.frame_elements], config.feature_bytes, False)
    maps = data.reshape(frames, config.height, config.line_elements // config.batch, config.batch)
    if config.crop_enable:
        rows = slice(config.crop_top, config.crop_bottom + 1)
        maps = maps[:, rows, config.crop_left // config.batch : (config.crop_right + 1) // config.batch]
    if config.type == GLOBAL_AVERAGE:
        sums = maps.sum(axis=(1, 2), dtype=np.int64)
    elif config.type == AVERAGE:
        sums = _windows(config, maps.astype(np.int64), np.add, unit)
    else:
        return _windows(config, maps, np.maximum, unit).reshape(-1)
    scaled = finish(
        sums * config.multiplier, config.out_shift, config.out_bytes, bool(config.rounded), bool(config.saturated)
    )
    return scaled.reshape(-1).astype({1: np.int8, 2: np.int16}.get(config.out_bytes, np.int32))


def _windows(config: PoolConfig, maps: Array, combine: np.ufunc, unit: str) -> Ints:
    """Combines each window, first along lines then along columns."""
    tall = (config.out_height - 1) * config.stride_y + config.window_y
    wide = (config.out_width - 1) * config.stride_x + config.window_x
    if tall > maps.shape[1] or wide > maps.shape[2]:
        raise InputError(
            f"windows of {tall}x{wide} pixels do not fit the {maps.shape[1]}x{maps.shape[2]} frame",
            where=unit,
            rule="POOL runs without padding: OUTDIMS must follow from the frame, window and stride",
        )
    rows = [maps[:, k : k + tall - config.window_y + 1 : config.stride_y] for k in range(config.window_y)]
    lines = rows[0].copy()
    for row in rows[1:]:
        combine(lines, row, out=lines)
    columns = [lines[:, :, k : k + wide - config.window_x + 1 : config.stride_x] for k in range(config.window_x)]
    result: Ints = columns[0].copy()
    for column in columns[1:]:
        combine(result, column, out=result)
    return result


def check(config: PoolConfig, unit: str) -> None:
    config.require_modelled(unit)
    if config.type not in (MAX, AVERAGE, GLOBAL_AVERAGE):
        raise fields.not_modelled(unit, "CTRL.TYPE", config.type)
    padding = config.pad_top | config.pad_bottom << 3 | config.pad_left << 6 | config.pad_right << 9
    if padding:
        raise fields.not_modelled(unit, "PDIMS padding", padding)
    if config.feature_shift != 16:
        raise fields.not_modelled(unit, "CTRL.FSHIFT", config.feature_shift)
    if config.feature_bytes not in (1, 2) or config.out_bytes == 0:
        raise fields.not_modelled(unit, "CTRL.FBYTES", config.feature_bytes)
    if config.feature_out_bytes < config.feature_bytes:
        raise fields.not_modelled(unit, "RNDCTRL.FOBYTES", config.feature_out_bytes)
    if config.type == MAX and config.out_bytes < config.feature_bytes:
        raise fields.not_modelled(unit, "RNDCTRL.OBYTES of a maximum", config.out_bytes)
    if config.round_mode > 1 or (config.out_shift and config.rounded and config.round_mode == 0):
        raise fields.not_modelled(unit, "RNDCTRL.ORNDMODE", config.round_mode)
    _check_geometry(config, unit)


def _check_geometry(config: PoolConfig, unit: str) -> None:
    sizes = [config.batch, config.frame_elements, config.out_elements]
    if not config.is_global:
        sizes += [config.stride_x, config.stride_y, config.window_x, config.window_y]
    if min(sizes) < 1:
        raise InputError("the frame or window has size zero", where=unit, rule="every dimension is at least 1")
    outside = config.crop_top >= min(config.height, config.crop_bottom + 1) or config.crop_left > config.crop_right
    if config.line_elements % config.batch or (config.crop_enable and outside):
        raise InputError(
            f"lines of {config.line_elements} elements, {config.batch} to a pixel, leave nothing inside the crop",
            where=unit,
            rule="FDIMS.FEATX is a multiple of the batch and the crop keeps a part of the frame",
        )
