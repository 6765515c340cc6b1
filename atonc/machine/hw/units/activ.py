"""ACTIV: two units for thresholded ReLU and piecewise quadratic functions of one byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields
from atonc.machine.hw.stream import Array, Ints, finish, low_bytes

bits = fields.declare("ACTIV")

RELU, PRELU, THRESHOLD_RELU, FUNCTION = 0, 1, 2, 3
TYPE_NAMES = {RELU: "relu", PRELU: "prelu", THRESHOLD_RELU: "trelu", FUNCTION: "function"}

ROM0, ROM0_ROWS = 256, 32
ROM1, ROM1_ROWS = 512, 64


@dataclass(frozen=True)
class ActivConfig(fields.UnitConfig):
    KIND = "ACTIV"

    type: int = bits("CTRL.TYPE")
    feature_bytes: int = bits("CTRL.FBYTES")
    feature_shift: int = bits("CTRL.FSHIFT")
    feature_round: int = bits("CTRL.FROUND")
    feature_saturate: int = bits("CTRL.FSAT")
    feature_round_mode: int = bits("CTRL.FRNDMODE")
    feature_out_bytes: int = bits("CTRL.FOBYTES")
    rounded: int = bits("CTRL.ROUND")
    saturated: int = bits("CTRL.SAT")
    out_bytes: int = bits("CTRL.OBYTES")
    round_mode: int = bits("CTRL.ORNDMODE")
    parameter: int = bits("ACTIVPARAM.PARAM", signed=True)
    normalise: int = bits("ACTIVPARAM.FUNC")
    out_shift: int = bits("FUNC.OUTSHIFT")
    shift_c: int = bits("FUNC.CSHIFT")
    shift_b: int = bits("FUNC.BSHIFT")
    signed_operand: int = bits("FUNC.SIGNEDOP")
    index_bits: int = bits("FUNC.BWIDTH")
    parameter2: int = bits("ACTIVPARAM2.PARAM2", signed=True)
    rom0: bytes = field(default=b"", repr=False)  # segment selectors
    rom1: bytes = field(default=b"", repr=False)  # (A, B, C) of int16 per segment


def decode(
    words: Mapping[int, int], rom0: NDArray[np.uint8] | None = None, rom1: NDArray[np.int16] | None = None
) -> ActivConfig:
    config = fields.decode(ActivConfig, words)
    if config.type != FUNCTION:
        return config
    first = np.zeros(ROM0_ROWS, np.uint8) if rom0 is None else rom0
    second = np.zeros((ROM1_ROWS, 3), "<i2") if rom1 is None else rom1
    return fields.decode(ActivConfig, words, rom0=first.tobytes(), rom1=second.astype("<i2").tobytes())


def encode(config: ActivConfig) -> dict[int, int]:
    return fields.encode(config)


def function_table(config: ActivConfig) -> NDArray[np.int8]:
    """The outputs for the 256 input codes -128..127."""
    x = np.arange(-128, 128, dtype=np.int64)
    position = x + 128
    selectors = np.frombuffer(config.rom0, np.uint8).astype(np.int64)
    selector = selectors[position >> (8 - config.index_bits)]
    inner, base = selector >> 6, selector & 63
    rest = position & ((1 << (8 - config.index_bits)) - 1)
    segment = base + (rest >> (8 - config.index_bits - inner))
    a, b, c = np.frombuffer(config.rom1, "<i2").reshape(-1, 3)[segment & (ROM1_ROWS - 1)].astype(np.int64).T
    total = a * x * x + (b << config.shift_b) * x + (c << config.shift_c)
    return finish(total, config.out_shift, 1, bool(config.rounded), bool(config.saturated)).astype(np.int8)


def execute(config: ActivConfig, x: Array, unit: str = "ACTIV") -> Ints:
    check(config, unit)
    codes = low_bytes(x, 1, False)
    if config.type == FUNCTION:
        result: Ints = function_table(config)[codes.view(np.uint8) ^ 0x80]
    else:
        result = np.where(codes > config.parameter, codes, np.int8(config.parameter2))
    return result


def check(config: ActivConfig, unit: str) -> None:
    config.require_modelled(unit)
    if config.type not in (THRESHOLD_RELU, FUNCTION):
        raise fields.not_modelled(unit, "CTRL.TYPE", config.type)
    if config.feature_bytes != 1 or config.out_bytes != 1:
        raise fields.not_modelled(unit, "CTRL.FBYTES/OBYTES", config.feature_bytes | config.out_bytes << 4)
    if config.feature_shift != 16:
        raise fields.not_modelled(unit, "CTRL.FSHIFT", config.feature_shift)
    if config.type == FUNCTION:
        if (config.normalise, config.parameter) != (8, 0x7F80):
            raise fields.not_modelled(unit, "ACTIVPARAM", config.parameter & 0xFFFF | config.normalise << 16)
        if config.round_mode != 1:
            raise fields.not_modelled(unit, "CTRL.ORNDMODE", config.round_mode)
        if config.index_bits > 5 or not config.saturated or not config.rounded:
            raise fields.not_modelled(unit, "FUNC", config.index_bits << 23)
    elif not -128 <= config.parameter2 <= 127:
        raise fields.not_modelled(unit, "ACTIVPARAM2.PARAM2", config.parameter2 & 0xFFFF)
