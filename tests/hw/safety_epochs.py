"""Small legal epochs, built by hand: the safety rules find nothing in them."""

from __future__ import annotations

from dataclasses import replace

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.activ import FUNCTION, ROM0_ROWS, ROM1_ROWS, ActivConfig
from atonc.machine.hw.units.convacc import FRAME_ZERO
from atonc.machine.hw.units.pool import GLOBAL_AVERAGE, MAX, PoolConfig
from tests.hw.safety_parts import (
    NPU_RAM3,
    NPU_RAM4,
    NPU_RAM5,
    affine,
    bias,
    build,
    change,
    convacc,
    features,
    gated,
    kernels,
    limited,
    reader,
    scale,
    writer,
)


def convolution() -> Epoch:
    """[f=IN k=IN]>CONVACC>ARITH>ARITH>OUT: 3 x 3 on two frames of 16 x 16 x 8."""
    return build(
        {
            "STRENG0": features(NPU_RAM5, 2048, 2),
            "STRENG5": kernels(2 * 8 * 8 * 9),
            "CONVACC0": convacc(16, 16, 8, 8, (3, 3)),
            "ARITH0": scale(256, 16, 8),
            "ARITH1": bias(256, 16, 8),
            "STRENG6": writer(NPU_RAM3, 2048, 2),
        },
        [
            "STRENG0 > CONVACC0:0",
            "STRENG5 > CONVACC0:1",
            "CONVACC0 > ARITH0",
            "ARITH0 > ARITH1",
            "ARITH1 > STRENG6",
        ],
    )


def strided_convolution() -> Epoch:
    """The same with stride 2."""
    epoch = change(convolution(), "CONVACC0", stride_x=2, stride_y=2)
    epoch = change(epoch, "ARITH0", reset2_every=511, reset3_every=1023)
    epoch = change(epoch, "ARITH1", reset2_every=511, reset3_every=1023)
    return replace(epoch, units={**epoch.units, "STRENG6": writer(NPU_RAM3, 512, 2)})


def memory_loop(side: int = 4) -> Epoch:
    """~[f=IN k=IN a=IN]>CONVACC#1>ARITH>ARITH>OUT ; CONVACC#1>OUT: four passes of 1 x 1, sums through memory."""
    size = side * side * 16
    summing = {"no_sum": 0, "accumulator_filter": FRAME_ZERO, "frames_per_sum": 4, "sum_first": 1, "sum_last": 3}
    wide = {"simd": 2, "features_unsigned": 0, "feature_bytes": 2, "feature_offset": -5}  # 16 x 8 bit
    signed = {"align_right": 1, "sign_extend": 1}
    return build(
        {
            "STRENG0": features(NPU_RAM5, size, 8, **signed),
            "STRENG5": kernels(8 * 16 * 16, **signed),
            "STRENG7": reader(NPU_RAM4, size, 8, element_bytes=2, frame_offset=0, sync=1, sync_source=8, **signed),
            "CONVACC0": convacc(side, side, 16, 16, (1, 1), **summing, **wide),
            "ARITH0": scale(side * side, 32, 16),
            "ARITH1": bias(side * side, 32, 16),
            "STRENG6": writer(NPU_RAM3, size, 2),
            "STRENG8": writer(NPU_RAM4, size, 8, element_bytes=2, frame_offset=0),
        },
        [
            "STRENG0 > CONVACC0:0",
            "STRENG5 > CONVACC0:1",
            "STRENG7 > CONVACC0:2",
            "CONVACC0 > STRENG8",
            gated("CONVACC0", "ARITH0", 0, 3, 1),
            "ARITH0 > ARITH1",
            "ARITH1 > STRENG6",
        ],
    )


def ring() -> Epoch:
    """~[f=IN k=IN a=CONVACC#1]>CONVACC#1>ARITH>ARITH>OUT: the same sums, fed back through the switch."""
    epoch = memory_loop(side=1)
    config = replace(epoch.units["CONVACC0"], generate_first_sum=1, no_first_sum=0)
    units = {name: c for name, c in epoch.units.items() if name not in ("STRENG7", "STRENG8")}
    wired = [k for k in epoch.links if not {k.source, k.destination} & {"STRENG7", "STRENG8"}]
    return build({**units, "CONVACC0": config}, [*wired, "CONVACC0 > CONVACC0:2"])


def chain() -> Epoch:
    """Two CONVACC units, each with half of the channels, one kernel stream for both."""
    part = {"kernels_per_round": 32, "out_shift": 0}
    first = convacc(12, 12, 16, 16, (1, 1), **part, out_bytes=3, raw_out=1, in_shift=0, kernel_last=15)
    last = convacc(
        12, 12, 16, 16, (1, 1), **part, no_sum=0, no_first_sum=0, in_shift=0, kernel_first=16, kernel_last=31
    )
    return build(
        {
            "STRENG0": features(NPU_RAM5, 2304, 2),
            "STRENG5": kernels(2 * 2 * 16 * 16),
            "STRENG7": features(NPU_RAM5 + 0x2000, 2304, 2),
            "CONVACC0": first,
            "CONVACC1": replace(last, out_shift=2),
            "ARITH0": scale(144, 32, 16),
            "ARITH1": bias(144, 32, 16),
            "STRENG6": writer(NPU_RAM3, 2304, 2),
        },
        [
            "STRENG0 > CONVACC0:0",
            "STRENG7 > CONVACC1:0",
            "STRENG5 > CONVACC0:1",
            "STRENG5 > CONVACC1:1",
            "CONVACC0 > CONVACC1:2",
            "CONVACC1 > ARITH0",
            "ARITH0 > ARITH1",
            "ARITH1 > STRENG6",
        ],
    )


def addition() -> Epoch:
    """[x=IN y=IN]>ARITH>OUT."""
    return build(
        {
            "STRENG0": reader(NPU_RAM5, 512),
            "STRENG5": reader(NPU_RAM4, 512),
            "ARITH0": affine(dual_input=1, combine_bc=0, b=1 << 14, shift_out=15),
            "STRENG6": writer(NPU_RAM3, 512),
        },
        ["STRENG0 > ARITH0:0", "STRENG5 > ARITH0:1", "ARITH0 > STRENG6"],
    )


def chained_features() -> Epoch:
    """[f=~IN>ARITH k=IN]>CONVACC>ARITH>ARITH>OUT: an ARITH feeds the convolution, gated after its two frames."""
    epoch = convolution()
    suboff = affine(rounded=0, saturated=0, b=32)
    units = {**epoch.units, "ARITH2": suboff, "STRENG0": reader(NPU_RAM5, 2048, 2)}
    wired = [k for k in epoch.links if k.source != "STRENG0"]
    return build(units, [*wired, "STRENG0 > ARITH2", limited("ARITH2", "CONVACC0", 2)])


def copy() -> Epoch:
    """IN>OUT, four groups of eight channels written between each other."""
    raster = {"raw": 0, "depth": 8, "pixel_offset_low": 32, "line_offset_low": 512, "fsize_low": 16, "fsize_high": 16}
    raster |= {"frame_repeat": 4, "frame_offset": 8, "repeat_offset": 8192}
    return build(
        {
            "STRENG0": reader(NPU_RAM5, 2048, 4),
            "STRENG5": writer(NPU_RAM3, 2048, 4, **raster),
        },
        ["STRENG0 > STRENG5"],
    )


def pooling() -> Epoch:
    """IN>POOL>POOL>OUT: two 3 x 3 maxima, one after the other."""
    first = PoolConfig(
        type=MAX,
        rounded=1,
        saturated=1,
        dual_line=1,
        crop_enable=1,
        feature_bytes=1,
        feature_out_bytes=1,
        out_bytes=1,
        round_mode=1,
        window_x=3,
        window_y=3,
        stride_x=1,
        stride_y=1,
        batch=1,
        line_elements=12,
        height=12,
        crop_right=11,
        crop_bottom=11,
        out_width=10,
        out_height=10,
    )
    second = replace(first, line_elements=10, height=10, crop_right=9, crop_bottom=9, out_width=8, out_height=8)
    return build(
        {
            "STRENG0": reader(NPU_RAM5, 144, 4),
            "POOL0": first,
            "POOL1": second,
            "STRENG5": writer(NPU_RAM3, 64, 4),
        },
        ["STRENG0 > POOL0", "POOL0 > POOL1", "POOL1 > STRENG5"],
    )


def global_average() -> Epoch:
    """IN>POOL>ARITH>OUT: one pixel of four frames of 8 x 8 x 4."""
    pool = PoolConfig(
        type=GLOBAL_AVERAGE,
        rounded=1,
        saturated=1,
        dual_line=1,
        feature_bytes=1,
        feature_out_bytes=1,
        out_bytes=2,
        round_mode=1,
        multiplier=1 << 14,
        out_shift=12,
        stride_x=1,
        stride_y=1,
        batch=4,
        line_elements=32,
        height=8,
        crop_enable=1,
        crop_right=31,
        crop_bottom=7,
        out_width=9,
        out_height=9,
    )
    mean = affine(bytes_x=2, out_bytes_x=2, shift_a=8)
    units = {"STRENG0": reader(NPU_RAM5, 256, 4), "POOL0": pool, "ARITH0": mean, "STRENG5": writer(NPU_RAM3, 4, 4)}
    return build(units, ["STRENG0 > POOL0", "POOL0 > ARITH0", "ARITH0 > STRENG5"])


def activation() -> Epoch:
    """IN>ACTIV>OUT."""
    table = ActivConfig(
        type=FUNCTION,
        feature_bytes=1,
        feature_out_bytes=1,
        out_bytes=1,
        rounded=1,
        saturated=1,
        round_mode=1,
        signed_operand=1,
        out_shift=15,
        index_bits=3,
        normalise=8,
        parameter=0x7F80,
        rom0=bytes(ROM0_ROWS),
        rom1=bytes(6 * ROM1_ROWS),
    )
    units = {"STRENG0": reader(NPU_RAM5, 512), "ACTIV0": table, "STRENG5": writer(NPU_RAM3, 512)}
    return build(units, ["STRENG0 > ACTIV0", "ACTIV0 > STRENG5"])


def deep() -> Epoch:
    """[f=IN k=IN]>CONVACC>ARITH>ARITH>OUT in deep mode: 1 x 1 with 48 channels a frame, three to the word."""
    config = convacc(6, 6, 48, 16, (1, 1), deep=1, kernel_set_enable=3, feature_bytes=3)
    return build(
        {
            "STRENG0": features(NPU_RAM5, 576, 2, element_bytes=3, raw_out=1),
            "STRENG5": kernels(2 * 48 * 16, element_bytes=3),
            "CONVACC0": config,
            "ARITH0": scale(36, 32, 16),
            "ARITH1": bias(36, 32, 16),
            "STRENG6": writer(NPU_RAM3, 576, 2),
        },
        [
            "STRENG0 > CONVACC0:0",
            "STRENG5 > CONVACC0:1",
            "CONVACC0 > ARITH0",
            "ARITH0 > ARITH1",
            "ARITH1 > STRENG6",
        ],
    )


LEGAL = {
    "convolution": convolution,
    "strided convolution": strided_convolution,
    "memory loop": memory_loop,
    "ring": ring,
    "chain": chain,
    "addition": addition,
    "chained features": chained_features,
    "copy": copy,
    "pooling": pooling,
    "global average": global_average,
    "activation": activation,
    "deep": deep,
}
