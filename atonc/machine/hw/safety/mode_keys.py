"""Modes of units as they are counted in the study of public networks: the discrete settings, and sizes beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.links import NEVER_SEEN, Sighting, load, sighting
from atonc.machine.hw.units import arith, pool
from atonc.machine.hw.units.activ import FUNCTION, THRESHOLD_RELU, ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import FRAME_ZERO, ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

Key = tuple[int | str, ...]

_ARITH_OPS = {arith.AFFINE: "AFFINE", arith.MULTIPLY: "MUL", arith.CLIP: "CLIP"}
_POOL_TYPES = {pool.MAX: "MAX", pool.AVERAGE: "AVG", pool.GLOBAL_AVERAGE: "GAVG"}
_ACTIV_TYPES = {FUNCTION: "FUNC", THRESHOLD_RELU: "TRELU"}
_FILTERS = {0: "NONE", FRAME_ZERO: "FRAMEZERO"}


@dataclass(frozen=True)
class SeenMode:
    """One combination of settings with the sizes seen in it."""

    sighting: Sighting
    ranges: Mapping[str, tuple[int, int]]


@cache
def proven_modes(kind: str) -> Mapping[Key, SeenMode]:
    names = load("modes").get(f"{kind} ranges", [])
    found: dict[Key, SeenMode] = {}
    for values, evidence, ranges in load("modes").get(kind, []):
        seen = {name: (r[0], r[1]) for name, r in zip(names, ranges, strict=True) if r is not None}
        found[tuple(values)] = SeenMode(sighting(evidence), seen)
    return found


@cache
def field_names(kind: str) -> tuple[str, ...]:
    return tuple(load("modes").get(f"{kind} fields", ()))


def evidence(config: UnitConfig, role: str = "") -> Sighting:
    """How well the mode of a unit is proven; `role` is what a stream engine is for (`to CONVACC:0`, `from ARITH`)."""
    mode = proven_modes(config.KIND).get(mode_key(config, role))
    return mode.sighting if mode else NEVER_SEEN


def mode_key(config: UnitConfig, role: str = "") -> Key:
    if isinstance(config, ConvaccConfig):
        return _convacc_key(config)
    if isinstance(config, ArithConfig):
        return _arith_key(config)
    if isinstance(config, ActivConfig):
        return _activ_key(config)
    if isinstance(config, PoolConfig):
        return _pool_key(config)
    return _streng_key(config, role) if isinstance(config, StrengConfig) else ()


def _convacc_key(c: ConvaccConfig) -> Key:
    accumulate = (1 - c.no_sum, 1 - c.no_first_sum, c.generate_first_sum)
    filters = (_FILTERS.get(c.accumulator_filter, c.accumulator_filter), c.kernel_set_enable)
    output = (c.raw_out, c.rounded, c.saturated, c.round_mode)
    window_pad = bool(c.pad_left or c.pad_right or c.pad_top or c.pad_bottom)
    frame_pad = bool(c.frame_left or c.frame_right or c.frame_top or c.frame_bottom)
    right, bottom = c.crop_right + 1 < c.line_elements, c.crop_bottom + 1 < c.height
    crop = bool(c.crop_left or c.crop_top or right or bottom)
    return (
        *(c.simd, c.deep, c.dss2, c.feature_stationary),
        *(c.kernel_height, c.kernel_width, c.stride_y, c.stride_x, c.feature_bytes, c.out_bytes),
        *accumulate,
        *filters,
        *(c.features_unsigned, c.kernels_unsigned),
        *output,
        0,  # KT1 is not modelled: a unit that sets it is reported for that
        *(int(window_pad), int(frame_pad), int(bool(c.frame_value)), int(bool(c.feature_offset)), int(crop)),
    )


def _arith_key(c: ArithConfig) -> Key:
    inputs = (c.bytes_x, c.out_bytes_x, c.bytes_y, c.out_bytes_y)
    result = (c.out_bytes, c.rounded, c.saturated, c.round_mode & 1, c.round_mode >> 1, c.round_x, c.saturate_x)
    operation = _ARITH_OPS.get(c.operation, c.operation)
    return (operation, c.dual_input, broadcast(c), c.combine_bc, c.clip_out, *inputs, *result)


def broadcast(c: ArithConfig) -> str:
    """Where the coefficients come from."""
    if not c.is_vector:
        return "scalar coefficients"
    if c.count3:
        return "CHAN"
    return "ROW" if c.step else "SCALAR"


def _activ_key(c: ActivConfig) -> Key:
    output = (c.out_bytes, c.rounded, c.saturated, c.round_mode)
    inputs = (c.feature_bytes, c.feature_out_bytes)
    return (_ACTIV_TYPES.get(c.type, c.type), *inputs, *output, c.feature_round, c.feature_saturate, c.signed_operand)


def _pool_key(c: PoolConfig) -> Key:
    window = (c.window_x, c.window_y, c.stride_x, c.stride_y)
    padded = bool(c.pad_top or c.pad_bottom or c.pad_left or c.pad_right)
    rest = (c.feature_bytes, c.out_bytes, c.dual_line, c.rounded, c.saturated)
    return (_POOL_TYPES.get(c.type, c.type), *window, int(padded), *rest)


def _streng_key(c: StrengConfig, role: str) -> Key:
    memory_bits = 8 * c.element_bytes
    aligned: tuple[int | str, ...] = ("*", 1, 1 - c.sign_extend) if c.align_right else (memory_bits, 0, "*")
    not_modelled = (0, 0, 0)  # NOBLK, NOINC, byte order in memory
    cache_flags = (c.cacheable, c.cache_allocate, 0, 0)
    direction = "write" if c.to_memory else "read"
    loop = int(bool(c.frame_repeat))
    stream = (c.raw_out, c.continuous)
    return (direction, role, c.raw, memory_bits, *aligned, *stream, *not_modelled, loop, c.sync, *cache_flags)


def sizes(config: UnitConfig) -> Iterator[tuple[str, int]]:
    """Numbers whose range is known per mode, under the names of the study."""
    if isinstance(config, ConvaccConfig):
        c = config
        yield from (("B", c.batch), ("H", c.height), ("NR", c.kernels), ("W", c.width), ("W_B", c.line_elements))
        yield "frame_elems", c.line_elements * c.height
        yield "kernel_buffer_NR_B_KW_KH", kernel_buffer(c)
        yield from (("shift_a", c.in_shift), ("shift_o", c.out_shift))
    elif isinstance(config, PoolConfig):
        yield from (("B", config.batch), ("X_B", config.line_elements), ("shift_o", config.out_shift))
        yield from (("inputX", config.line_elements // max(1, config.batch)), ("inputY", config.height))
    elif isinstance(config, ArithConfig):
        yield "shift_o", config.shift_out
        if broadcast(config) == "CHAN":
            yield from (("batch", config.reset1_every + 1), ("channels", -config.offset3 % arith.ROWS + 1))
    elif isinstance(config, StrengConfig):
        yield "frames", config.frames
        if config.raw:
            yield "frame_elems", config.frame_elements
        else:
            yield from (("fheight", config.fsize_high), ("fwidth", config.fsize_low), ("batch_depth", config.depth))


def kernel_buffer(c: ConvaccConfig) -> int:
    """Weights that a CONVACC holds at a time."""
    return c.kernels * c.batch * c.kernel_width * c.kernel_height
