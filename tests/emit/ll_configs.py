"""Random unit configurations that the driver's structs can say, one engine in and one engine out."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, pool
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig, crop_end
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

BIT, BYTE, INT16 = st.integers(0, 1), st.integers(0, 255), st.integers(-(1 << 15), (1 << 15) - 1)
SHORT = st.integers(1, 12)
OUTPUT = {"rounded": BIT, "saturated": BIT, "round_mode": st.integers(0, 3), "out_bytes": st.integers(1, 3)}
FEATURE = {
    "feature_bytes": st.integers(1, 3), "feature_shift": st.integers(0, 39), "feature_round": BIT,
    "feature_saturate": BIT, "feature_round_mode": st.integers(0, 3),
}  # fmt: skip


@st.composite
def engines(draw: st.DrawFn, to_memory: int, base: int = 0x3420_0000) -> StrengConfig:
    size = draw(st.integers(1, 3))
    lanes = {f"size{k}": 8 if k < size else 0 for k in range(3)}
    frames, right = draw(st.integers(1, 300)), draw(BIT)
    fields: dict[str, Any] = {
        "to_memory": to_memory, "frames": frames, "single": int(frames == 1), "align_right": right,
        "sign_extend": right and draw(BIT), "raw_out": draw(BIT), "continuous": draw(BIT), "gap_cycles": 0,
        "address": base + draw(st.integers(0, 1 << 16)), "frame_offset": draw(st.integers(-9999, 9999)),
        "frame_repeat": draw(BYTE), "repeat_offset": draw(st.integers(-(1 << 20), 1 << 20)),
        "cacheable": draw(BIT), "cache_allocate": draw(BIT), "illegal_config_event": 1, "frame_limit_enabled": 1,
        "address_limit_enabled": 1, "stop_prefetch": 1, "address_limit": base + draw(st.integers(1 << 17, 1 << 20)),
    }  # fmt: skip
    if not to_memory and draw(BIT):
        fields |= {"sync": 1, "sync_source": draw(st.integers(0, 9))}
    if draw(BIT):
        elements = draw(st.integers(1, 1 << 24))
        fields |= {"raw": 1, "fsize_low": elements & 0xFFFF, "fsize_high": elements >> 16}
    else:
        line = draw(st.integers(-(1 << 20), 1 << 20).filter(bool)) & 0xFFFF_FFFF
        pixel = draw(st.integers(0, 1 << 18))
        fields |= {
            "raw": 0, "fsize_low": draw(BYTE), "fsize_high": draw(BYTE), "depth": draw(st.integers(1, 999)),
            "pixel_offset_low": pixel & 0xFFFF, "pixel_offset_high": pixel >> 16,
            "line_offset_low": line & 0xFFFF, "line_offset_high": line >> 16,
        }  # fmt: skip
    return StrengConfig(**lanes, **fields)


@st.composite
def convaccs(draw: st.DrawFn) -> ConvaccConfig:
    batch, width, height, kernel = draw(SHORT), draw(SHORT), draw(SHORT), draw(st.integers(1, 5))
    mode = draw(st.sampled_from(["", "feature_stationary", "deep", "dss2", "frame_value"]))
    fields: dict[str, Any] = {mode: draw(st.integers(1, 99)) if mode == "frame_value" else 1} if mode else {}
    for side in ("top", "bottom", "left", "right"):
        padding = draw(st.integers(0, 4))
        window = 0 if mode in ("deep", "dss2", "frame_value") else min(padding, kernel - 1, 2)
        scale = batch if side in ("left", "right") else 1
        fields |= {f"pad_{side}": window, f"frame_{side}": (padding - window) * scale}
    if mode == "feature_stationary":
        fields["stationary_sets"] = draw(st.integers(0, 0xFFFF))
    if draw(BIT):
        fields |= {"accumulator_filter": draw(st.integers(1, 3)), "frames_per_sum": draw(BYTE)}
        fields |= {"sum_first": draw(BYTE), "sum_last": draw(BYTE)}
    if draw(BIT):
        fields |= {"kernels_per_round": draw(st.integers(1, 255)), "kernel_first": draw(BYTE)}
    cut_left = draw(st.integers(0, width - 1))
    return ConvaccConfig(
        line_elements=width * batch, height=height, batch=batch, kernel_width=kernel, kernel_height=kernel,
        kernels=draw(BYTE), stride_x=draw(st.integers(1, 7)), stride_y=draw(st.integers(1, 7)), simd=draw(SHORT) % 3,
        crop_left=cut_left * batch, crop_right=crop_end(width, batch), crop_bottom=crop_end(height),
        no_sum=draw(BIT), no_first_sum=draw(BIT), generate_first_sum=draw(BIT), features_unsigned=draw(BIT),
        kernels_unsigned=draw(BIT), kernel_set_enable=draw(st.integers(0, 3)), raw_out=draw(BIT),
        feature_offset=draw(INT16), in_shift=draw(st.integers(0, 63)), out_shift=draw(st.integers(0, 63)),
        **fields, **draw(st.fixed_dictionaries(FEATURE | OUTPUT)),
    )  # fmt: skip


@st.composite
def ariths(draw: st.DrawFn) -> ArithConfig:
    fields: dict[str, Any] = {}
    for axis in "xy":
        fields |= {
            f"bytes_{axis}": draw(st.integers(1, 3)), f"shift_{axis}": draw(st.integers(0, 39)),
            f"round_{axis}": draw(BIT), f"saturate_{axis}": draw(BIT), f"round_mode_{axis}": draw(st.integers(0, 3)),
            f"out_bytes_{axis}": draw(st.integers(1, 3)),
        }  # fmt: skip
    if draw(BIT):
        fields |= {"clip_out": 1, "clip_min": draw(INT16), "clip_max": draw(INT16)}
    scalars = {"a": draw(INT16), "b": draw(INT16), "c": draw(st.one_of(st.just(-1), INT16))}
    if draw(BIT):
        fields |= _vectors(draw)
    return ArithConfig(
        operation=draw(st.sampled_from([0, 1, 2, 7, 55])), dual_input=draw(BIT), combine_bc=draw(BIT), **scalars,
        shift_a=draw(st.integers(0, 31)), shift_b=draw(st.integers(0, 31)), shift_c=draw(st.integers(0, 31)),
        shift_out=draw(st.integers(0, 63)), **fields, **draw(st.fixed_dictionaries(OUTPUT)),
    )  # fmt: skip


def _vectors(draw: st.DrawFn) -> dict[str, Any]:
    used = draw(st.one_of(st.integers(1, 40), st.sampled_from([384, 385, 512])))
    table = np.zeros((512, 3), "<i2")
    seed = draw(st.integers(0, 1 << 30))
    table[:used] = np.random.default_rng(seed).integers(-(1 << 15), 1 << 15, (used, 3))
    table[0] = [draw(st.sampled_from([-(1 << 15), 5])), -(1 << 15), -(1 << 15)]
    fields = {"vector_a": 1, "vector_b": 1, "vector_c": 1, "count1": 1, "translate": 1, "table": table.tobytes()}
    kind = draw(st.sampled_from(["channels", "rows", "one"]))
    if kind == "one":
        table[1:] = 0
        return fields | {"table": table.tobytes()}
    if kind == "rows":
        step = draw(SHORT)
        counters = {"step_every": step - 1, "reset1_every": step * used - 1, "step": 1}
        return fields | counters | {"offset1": _wrapped(1 - used)}
    batch = draw(st.sampled_from([n for n in range(1, 9) if used % n == 0]))
    pixels = draw(st.integers(1, 5000))
    return fields | {
        "count2": 1, "count3": 1, "step": 1, "reset1_every": batch - 1, "reset2_every": pixels * batch - 1,
        "reset3_every": pixels * used - 1, "offset1": 1 - batch, "offset2": 1, "offset3": _wrapped(1 - used),
    }  # fmt: skip


def _wrapped(value: int) -> int:
    """As a field of nine bits."""
    return (value + 256) % 512 - 256


@st.composite
def activs(draw: st.DrawFn) -> ActivConfig:
    common = draw(st.fixed_dictionaries(FEATURE | OUTPUT | {"feature_out_bytes": st.integers(1, 3)}))
    common |= {"parameter": draw(INT16), "signed_operand": draw(BIT), "out_shift": draw(st.integers(0, 63))}
    kind = draw(st.sampled_from([activ.RELU, activ.PRELU, activ.THRESHOLD_RELU, activ.FUNCTION]))
    if kind != activ.FUNCTION:
        return ActivConfig(type=kind, parameter2=draw(INT16), **common)
    bits = draw(st.integers(0, 5))
    rom0, rom1 = np.zeros(32, np.uint8), np.zeros((64, 3), "<i2")
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    rom0[: 1 << bits] = np.arange(1 << bits)
    rom1[: 1 << bits] = rng.integers(-(1 << 15), 1 << 15, (1 << bits, 3))
    tables = {"rom0": rom0.tobytes(), "rom1": rom1.tobytes()}
    shifts = {"shift_b": draw(st.integers(0, 31)), "shift_c": draw(st.integers(0, 63))}
    return ActivConfig(type=kind, normalise=draw(st.integers(0, 15)), index_bits=bits, **tables, **shifts, **common)


@st.composite
def pools(draw: st.DrawFn) -> PoolConfig:
    batch, width, height = draw(st.integers(1, 8)), draw(SHORT), draw(SHORT)
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    small = {f"pad_{side}": draw(st.integers(0, 7)) for side in ("top", "bottom", "left", "right")}
    small |= {f"window_{axis}": draw(st.integers(0, 7)) for axis in "xy"}
    small |= {f"stride_{axis}": draw(st.integers(0, 15)) for axis in "xy"}
    kinds = [pool.MAX, pool.MIN, pool.AVERAGE, pool.GLOBAL_MAX, pool.GLOBAL_MIN, pool.GLOBAL_AVERAGE]
    return PoolConfig(
        type=draw(st.sampled_from(kinds)), batch=batch, line_elements=width * batch, height=height, crop_enable=1,
        crop_left=left * batch, crop_right=width * batch - 1, crop_top=top, crop_bottom=height - 1,
        out_width=draw(SHORT), out_height=draw(SHORT), multiplier=draw(INT16), dual_line=draw(BIT),
        out_shift=draw(st.integers(0, 63)), feature_out_bytes=draw(st.integers(1, 3)), **small,
        **draw(st.fixed_dictionaries(FEATURE | OUTPUT)),
    )  # fmt: skip


@st.composite
def epochs(draw: st.DrawFn) -> Epoch:
    """A reader, one unit of a random kind, a writer."""
    kind, made = draw(st.sampled_from(list(UNITS.items())))
    unit = f"{kind}{draw(BIT)}"
    units: dict[str, UnitConfig] = {unit: draw(made), "STRENG2": draw(engines(0)), "STRENG9": draw(engines(1))}
    gate = draw(st.sampled_from([{}, {"frames0": 3, "frames1": 1}]))
    late = {"enabled0": False, "frames0": 5, "enabled1": True, "frames1": 2}
    gate = draw(st.sampled_from([gate, late]))
    links = (Link(unit, "STRENG9", 0, **gate), Link("STRENG2", unit, 0))
    return Epoch(draw(st.integers(1, 999)), units, links, ("STRENG9",))


UNITS = {"CONVACC": convaccs(), "ARITH": ariths(), "ACTIV": activs(), "POOL": pools()}
