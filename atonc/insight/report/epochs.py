"""Decoded epochs in readable form: what each unit does, how the streams are wired, which memory is touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from atonc.machine.base.words import count
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, arith, pool
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


def epoch_lines(epoch: Epoch) -> Iterator[str]:
    if epoch.empty:
        yield f"epoch {epoch.number}: nothing for the NPU"
        return
    yield f"epoch {epoch.number}: {count(epoch.words, 'word')}, waits for {', '.join(epoch.waits) or 'nothing'}"
    for name, config in epoch.units.items():
        yield f"  {name:9} {describe(config)}"
        if config.unmodelled:
            yield f"            not modelled: {', '.join(f'{k}={v:#x}' for k, v in config.unmodelled)}"
    for link in epoch.links:
        yield f"  {link}"


def epoch_data(epoch: Epoch) -> dict[str, Any]:
    """The same as plain data: every field that differs from reset."""
    return {
        "epoch": epoch.number,
        "words": epoch.words,
        "waits": list(epoch.waits),
        "units": {name: _fields(config) for name, config in epoch.units.items()},
        "links": [_link_data(link) for link in epoch.links],
        "buffers": [
            {"engine": name, "writes": bool(c.to_memory), "start": c.span()[0], "end": c.span()[1]}
            for name, c in epoch.engines().items()
        ],
    }


def describe(config: UnitConfig) -> str:
    """One line that says what a unit does."""
    if isinstance(config, StrengConfig):
        return _streng(config)
    if isinstance(config, ConvaccConfig):
        return _convacc(config)
    if isinstance(config, ArithConfig):
        return _arith(config)
    if isinstance(config, ActivConfig):
        return _activ(config)
    if isinstance(config, PoolConfig):
        return _pool(config)
    return "used"


def _streng(c: StrengConfig) -> str:
    low, high = c.span()
    lines, pixels, depth = c.shape
    frame = f"{depth}" if c.raw else f"{lines}x{pixels}x{depth}"
    text = f"{'write' if c.to_memory else 'read '} {low:#010x}..{high - 1:#010x}  {c.frames} frames of {frame}"
    text += f" x {round(8 * c.bytes_per_element)} bit{' signed' if c.sign_extend else ''}"
    if not c.raw:
        text += f", line +{c.line_offset}, pixel +{c.pixel_offset}"
    loops = c.frame_loops()
    if len(loops) == 2:
        text += f", frames {loops[1][0]} x {loops[1][1]:+d}, then {loops[0][1]:+d}"
    elif c.frames > 1:
        text += f", frame {loops[0][1]:+d}"
    text += f", after frames of STRENG{c.sync_source}" if c.sync else ""
    return text + (", cached" if c.cacheable else "") + (" and kept" if c.cache_allocate else "")


def _convacc(c: ConvaccConfig) -> str:
    height, width = c.out_size
    mode = "deep" if c.deep else "depthwise stride 2" if c.dss2 else {0: "16x16", 1: "8x8", 2: "16x8"}.get(c.simd, "?")
    text = f"conv {c.kernel_width}x{c.kernel_height} {mode}  {c.height}x{c.width}x{c.batch} -> {height}x{width}x"
    text += f"{c.kernels}, stride {c.stride_x}x{c.stride_y}"
    if any(c.padding):
        text += f", pad {c.padding}" + (f" of {c.frame_value}" if c.frame_value else "")
    text += f", zero point {c.feature_offset}" if c.feature_offset else ""
    text += f", features kept for {c.stationary_sets} sets" if c.feature_stationary else ""
    if not c.no_sum:
        text += f", adds accumulator << {c.in_shift}"
    if c.accumulator_filter:
        text += f" (of {c.frames_per_sum} frames {c.sum_first}..{c.sum_last})"
    return f"{text}, >> {c.out_shift} to {8 * c.out_bytes} bit"


def _arith(c: ArithConfig) -> str:
    operation = arith.OP_NAMES.get(c.operation, f"operation {c.operation:#x}")
    if c.operation == arith.AFFINE:
        a = "A[]" if c.vector_a else str(c.a)
        addend = "C[]" if c.vector_c else str(c.b << 16 | c.c & 0xFFFF if c.combine_bc else c.c)
        second = f" + ({'B[]' if c.vector_b else c.b}*y >> {c.shift_b})" if c.dual_input else ""
        shifted = f" << {c.shift_c}" if c.shift_c else ""
        operation = f"({a}*x >> {c.shift_a}){second} + {addend}{shifted}"
    elif c.operation == arith.CLIP:
        operation = f"clip {c.a}..{c.c}"
    text = f"{operation} >> {c.shift_out}, {8 * c.bytes_x} -> {8 * c.out_bytes} bit"
    return text + (f", clipped to {c.clip_min}..{c.clip_max}" if c.clip_out else "")


def _activ(c: ActivConfig) -> str:
    name = activ.TYPE_NAMES.get(c.type, f"type {c.type}")
    return f"{name} x > {c.parameter} ? x : {c.parameter2}" if c.type == activ.THRESHOLD_RELU else name


def _pool(c: PoolConfig) -> str:
    name = pool.TYPE_NAMES.get(c.type, f"type {c.type}")
    frame = f"{c.height}x{c.line_elements // max(1, c.batch)}x{c.batch}"
    if c.is_global:
        return f"{name} of {frame}, x {c.multiplier} >> {c.out_shift}"
    return f"{name} {c.window_x}x{c.window_y} stride {c.stride_x}  {frame} -> {c.out_height}x{c.out_width}x{c.batch}"


def _fields(config: UnitConfig) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, bytes):
            out.update({field.name: value.hex()} if value else {})
        elif field.name == "unmodelled":
            out.update({"unmodelled": dict(value)} if value else {})
        elif value != field.default:
            out[field.name] = value
    return out


def _link_data(link: Any) -> dict[str, Any]:
    data = {"source": link.source, "destination": link.destination, "port": link.port}
    return data if link.permanent else data | {"gate": link.gate}
