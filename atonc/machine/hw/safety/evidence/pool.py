"""Which features of a POOL are compared with published programs."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.safety.evidence.grades import Named
from atonc.machine.hw.safety.evidence.modes import mode
from atonc.machine.hw.units.pool import TYPE_NAMES, PoolConfig

ANY_VALUE: dict[str, str] = {}


def machine(c: PoolConfig) -> str:
    name = TYPE_NAMES.get(c.type, str(c.type))
    if c.is_global:
        return name
    stride = f"{c.stride_x}" if c.stride_x == c.stride_y else f"{c.stride_x},{c.stride_y}"
    return f"{name} {c.window_x}x{c.window_y}/{stride}"


def _lines(c: PoolConfig) -> str:
    """How many lines a window needs at a time."""
    return "global" if c.is_global else f"{c.window_y} lines"


def features(c: PoolConfig) -> Iterator[Named]:
    role, batch = machine(c), max(1, c.batch)
    width = c.line_elements // batch
    yield mode(c)
    inputs = (c.feature_shift, c.feature_round, c.feature_saturate, c.feature_out_bytes, c.feature_round_mode)
    yield "inputs, CROPEN, ORNDMODE", "", " ".join(map(str, (*inputs, c.crop_enable, c.round_mode)))
    yield "pads", "", f"{c.pad_top} {c.pad_bottom} {c.pad_left} {c.pad_right}"
    yield from (("B", role, c.batch), ("W", role, width), ("H", role, c.height), ("W x B", _lines(c), c.line_elements))
    yield "W x B mod B", "", str(c.line_elements % batch)
    yield from (("MULVAL", role, c.multiplier), ("OUTSHIFT", role, c.out_shift))
    crop = (c.crop_left, c.line_elements - 1 - c.crop_right, c.crop_top, c.height - 1 - c.crop_bottom)
    yield "crop left right top bottom", "", " ".join(map(str, crop))
    yield "OUTDIMS - expected", role, _out_dims(c, width)


def _out_dims(c: PoolConfig, width: int) -> str:
    """Against what the frame, window and stride give; against the frame itself where the whole frame is one window."""
    if c.is_global:
        return f"{c.out_width - width} {c.out_height - c.height}"
    wide = (width - c.window_x) // max(1, c.stride_x) + 1
    tall = (c.height - c.window_y) // max(1, c.stride_y) + 1
    return f"{c.out_width - wide} {c.out_height - tall}"
