"""Unit configurations as members of the driver's structs: the inverse of `hw.ll`.

The driver fills some registers by rules of its own (counters, padding, tables). Each function here finds members for
which these rules give the wanted registers, or says that there are none. Nobody has to believe it: `ll_calls` sends
every result through `hw.ll` and compares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.emit.c.calls import ConstantTable
from atonc.compiler.emit.c.ll_types import Base, Constant, Member
from atonc.machine.base.errors import ToolError
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, pool
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ROWS, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

_BYTE, _WORD = 0xFF, 0xFFFF_FFFF
_NO_SHIFT = 16  # register value of the input shifters for shift 0

FILTER_MODES = ("AFILT_MODE_NONE", "AFILT_MODE_PIXELDROP", "AFILT_MODE_FRAMEDROP", "AFILT_MODE_FRAMEZERO")
ARITH_OPERATIONS = {0: "AFFINE", 1: "MIN", 2: "MAX", 7: "MUL", 55: "CLIP"}
ACTIV_OPERATIONS = {
    activ.RELU: "ACTIV_RELU", activ.PRELU: "ACTIV_PRELU", activ.THRESHOLD_RELU: "ACTIV_TRELU",
    activ.FUNCTION: "ACTIV_FUNC",
}  # fmt: skip
POOL_OPERATIONS = {
    pool.MAX: "POOL_MAX", pool.MIN: "POOL_MIN", pool.AVERAGE: "POOL_AVG", pool.GLOBAL_MAX: "POOL_GMAX",
    pool.GLOBAL_MIN: "POOL_GMIN", pool.GLOBAL_AVERAGE: "POOL_GAVG",
}  # fmt: skip


def streng_members(config: StrengConfig, base: Base) -> dict[str, Member]:
    """The engine relative to the start of its buffer."""
    bits, start = round(8 * config.bytes_per_element), config.address - base.address
    frame = config.frame_bytes
    limit = config.address_limit + 1 - base.address if config.address_limit_enabled else 0
    members: dict[str, Member] = {
        "dir": config.to_memory,
        "raw": config.raw,
        "raw_out": config.raw_out,
        "continuous": config.continuous,
        "align_right": config.align_right,
        "nbits_unsigned": 1 - config.sign_extend,
        "sync_with_other": config.sync,
        "cacheable": config.cacheable,
        "cache_allocate": config.cache_allocate,
        **({"cipher_en": 1} if config.ciphers else {}),
        "sync_dma": config.sync_source,
        "addr_base": base,
        "offset_start": start,
        "offset_end": start + frame if config.raw else max(limit, start),
        "offset_limit": limit,
    }
    if config.raw:
        members["frame_count"] = config.frame_elements
    else:
        lines, pixels, depth = config.shape
        members |= {"fwidth": pixels, "fheight": lines, "batch_depth": depth}
        members |= {"batch_offset": config.pixel_offset, "line_offset": config.line_offset & _WORD}
    return members | {
        "frame_offset": config.frame_offset & _WORD,
        "loop_offset": config.repeat_offset & _WORD,
        "frame_loop_cnt": config.frame_repeat,
        "frame_tot_cnt": config.frames,
        "nbits_in": bits,
        "nbits_out": 8 * config.element_bytes,
    }


def convacc_members(config: ConvaccConfig) -> dict[str, Member]:
    top, bottom, left, right = config.padding
    batch = max(1, config.batch)
    members: dict[str, Member] = {
        "simd": config.simd,
        "accumulate": 1 - config.no_sum,
        "accumulate_first": 1 - config.no_first_sum,
        "accumulate_gen_first": config.generate_first_sum,
        "fstat": config.feature_stationary,
        "deepmode": config.deep,
        "dss2mode": config.dss2,
        "f_unsigned": config.features_unsigned,
        "k_unsigned": config.kernels_unsigned,
        "kseten": config.kernel_set_enable,
        "rounding_f": config.feature_round,
        "saturation_f": config.feature_saturate,
        "round_mode_f": config.feature_round_mode,
        "inbytes_f": config.feature_bytes,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.out_shift),
        "raw_o": config.raw_out,
        "shift_a": config.in_shift,
        "fWidth": config.width,
        "fHeight": config.height,
        "kernelWidth": config.kernel_width,
        "kernelHeight": config.kernel_height,
        "nKernels": config.kernels,
        "batchDepth": config.batch,
        "hstride": config.stride_x,
        "vstride": config.stride_y,
        "left_padding": left,
        "right_padding": right,
        "top_padding": top,
        "bot_padding": bottom,
        "left_crop": config.crop_left // batch,
        "right_crop": min((config.crop_right + 1) // batch, config.width) - 1,
        "top_crop": config.crop_top,
        "bot_crop": min(config.crop_bottom + 1, config.height) - 1,
        "fstatcnt": config.stationary_sets,
        "afilt_mode": Constant(FILTER_MODES[config.accumulator_filter]),
        "fsub": config.feature_offset,
        "zfbias": config.frame_value,
    }
    if config.accumulator_filter:
        members |= {"afilt_tot": config.frames_per_sum, "afilt_first": config.sum_first, "afilt_last": config.sum_last}
    if (config.kernels_per_round, config.kernel_first, config.kernel_last) != (1, 0, 0):
        members |= {"kfilt_tot": config.kernels_per_round}
        members |= {"kfilt_first": config.kernel_first, "kfilt_last": config.kernel_last}
    return members


def arith_members(config: ArithConfig) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for axis in ("x", "y"):
        members |= {
            f"rounding_{axis}": getattr(config, f"round_{axis}"),
            f"saturation_{axis}": getattr(config, f"saturate_{axis}"),
            f"round_mode_{axis}": getattr(config, f"round_mode_{axis}"),
            f"inbytes_{axis}": getattr(config, f"bytes_{axis}"),
            f"outbytes_{axis}": getattr(config, f"out_bytes_{axis}"),
            f"shift_{axis}": getattr(config, f"shift_{axis}") - _NO_SHIFT,
        }
    if config.operation not in ARITH_OPERATIONS:
        raise _impossible(f"ARITH operation {config.operation}")
    return members | {
        "combinebc": config.combine_bc,
        "clipout": config.clip_out,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.shift_out),
        "dualinput": config.dual_input,
        "operation": Constant(f"ARITH_{ARITH_OPERATIONS[config.operation]}"),
        "Ax_shift": config.shift_a,
        "By_shift": config.shift_b,
        "C_shift": config.shift_c,
        "clipmin": config.clip_min,
        "clipmax": config.clip_max,
        "A_scalar": config.a,
        "B_scalar": config.b,
        "C_scalar": config.c,
        **(_arith_vectors(config) if config.is_vector else {"scalar": 1, "bcast": Constant("ARITH_BCAST_NONE")}),
    }


def _arith_vectors(config: ArithConfig) -> dict[str, Member]:
    """Counters as dimensions, and the columns of the coefficient memory that differ from the scalars."""
    dimensions, used = _arith_dimensions(config)
    a, b, c = config.rows()[:used].astype(np.int64).T
    columns: list[tuple[str, NDArray[np.int64], int | None, int]] = [("A", a, config.a, 16)]
    if config.combine_bc:
        columns.append(("C", b << 16 | c & 0xFFFF, None, 32))  # B is the upper half of C
    else:
        columns += [("B", b, config.b, 16), ("C", c, config.c, 16)]
    members: dict[str, Member] = {"scalar": 0, **dimensions}
    for name, column, scalar, bits in columns:
        if scalar is None or (column != scalar).any():
            signed = -column if name == "C" and config.c == -1 else column  # the driver takes C_scalar -1 as a sign
            members[f"{name}_vector"] = _table(f"int{bits}_t", _wrapped(signed, bits))
    return members | {"vec_precision": (16, 16, 32 if config.combine_bc else 16)}


def _arith_dimensions(config: ArithConfig) -> tuple[dict[str, Member], int]:
    """Dimensions for which the driver computes these counters, and how many rows it writes for them."""
    if config.count3:
        depth, channels = config.reset1_every + 1, (-config.offset3 % ROWS) + 1
        bcast, width, height, used = "CHAN", (config.reset2_every + 1) // depth, 1, channels
    elif config.step == 0:
        bcast, width, height, depth, channels, used = "SCALAR", 1, 1, 1, 1, 1
    else:
        width, depth = config.step_every + 1, 1
        height = used = (config.reset1_every + 1) // width
        bcast, channels = "HEIGHT", 1
    if used > ROWS:
        raise _impossible(f"{used} rows of coefficients")
    return {
        "bcast": Constant(f"ARITH_BCAST_{bcast}"),
        "fWidth": width,
        "fHeight": height,
        "fChannels": channels,
        "batchDepth": depth,
    }, used


def _table(ctype: str, values: list[int]) -> ConstantTable:
    """The driver reads whole words, and a reader of the C text takes `{0}` for none: no odd, no single number."""
    return ConstantTable(ctype, (*values, *[0] * (len(values) % 2)))


def _wrapped(values: NDArray[np.int64], bits: int) -> list[int]:
    half = 1 << (bits - 1)
    numbers: list[int] = (((values + half) & ((1 << bits) - 1)) - half).tolist()
    return numbers


def activ_members(config: ActivConfig) -> dict[str, Member]:
    members: dict[str, Member] = {
        **_features_and_output(config),
        "signedop": config.signed_operand,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        "parameter": config.parameter & 0xFFFF,
        "operation": Constant(ACTIV_OPERATIONS[config.type]),
    }
    if config.type != activ.FUNCTION:
        return members | {"parameter_2": config.parameter2 & 0xFFFF}
    selectors = np.frombuffer(config.rom0, np.uint8)[: 1 << config.index_bits].astype(int)
    segments = int(((selectors & 63) + (1 << (selectors >> 6))).max())
    rows = np.frombuffer(config.rom1, "<i2")[: 3 * segments]
    return members | {
        "ROM0_vector": _table("uint8_t", selectors.tolist()),
        "ROM1_vector": _table("int16_t", rows.tolist()),
        "ROM0_nbytes": selectors.size,
        "ROM1_nbytes": 2 * rows.size,
        "shift_b": config.shift_b,
        "shift_c": config.shift_c,
        "shift_norm": config.normalise,
        "bwidth": config.index_bits,
    }


def pool_members(config: PoolConfig) -> dict[str, Member]:
    batch = max(1, config.batch)
    return {
        "operation": Constant(POOL_OPERATIONS[config.type]),
        "inputX": config.line_elements // batch,
        "inputY": config.height,
        "outputX": config.out_width,
        "outputY": config.out_height,
        "poolWinX": config.window_x,
        "poolWinY": config.window_y,
        "strideX": config.stride_x,
        "strideY": config.stride_y,
        "topCrop": config.crop_top,
        "bottomCrop": config.crop_bottom,
        "leftCrop": config.crop_left // batch,
        "rightCrop": (config.crop_right + 1) // batch - 1,
        "topPad": config.pad_top,
        "bottomPad": config.pad_bottom,
        "leftPad": config.pad_left,
        "rightPad": config.pad_right,
        "batchSize": config.batch,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        "dualLine": config.dual_line,
        **_features_and_output(config),
        "mulval": config.multiplier,
    }


def _features_and_output(config: ActivConfig | PoolConfig) -> dict[str, Member]:
    return {
        "rounding_f": config.feature_round,
        "saturation_f": config.feature_saturate,
        "round_mode_f": config.feature_round_mode,
        "inbytes_f": config.feature_bytes,
        "outbytes_f": config.feature_out_bytes,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.out_shift),
    }


def _output(mode: int, rounded: int, saturated: int, out_bytes: int, shift: int) -> dict[str, Member]:
    """The output stage, which all processing units share."""
    return {
        "rounding_o": rounded,
        "saturation_o": saturated,
        "round_mode_o": mode & 1,
        "relu_mode_o": mode >> 1,
        "outbytes_o": out_bytes,
        "shift_o": shift,
    }


def unit_members(config: UnitConfig) -> dict[str, Member]:
    """The members of a processing unit."""
    if isinstance(config, ConvaccConfig):
        return convacc_members(config)
    if isinstance(config, ArithConfig):
        return arith_members(config)
    if isinstance(config, ActivConfig):
        return activ_members(config)
    if isinstance(config, PoolConfig):
        return pool_members(config)
    raise _impossible(f"unit {config.KIND}")


def _impossible(what: str) -> ToolError:
    return ToolError(
        f"{what} cannot be said in calls of the driver",
        rule="without epoch controller the driver's structs must be able to say every epoch",
        remedy="compile with the epoch controller, and report the model",
    )
