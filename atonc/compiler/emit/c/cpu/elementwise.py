"""Pairs of values with broadcasting, gains and offsets per channel, choices, reductions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from atonc.compiler.emit.c.calls import Argument, CpuCall, Struct
from atonc.compiler.emit.c.cpu.numbers import BYTES, by_table
from atonc.compiler.emit.c.cpu.site import Site, broadcast_steps, changed, kernel_for, nested, packed, table
from atonc.compiler.ir import Tensor
from atonc.compiler.ops.integers import slopes
from atonc.compiler.ops.rounding import is_counted
from atonc.compiler.ops.values import Arg

# functions in the order of atonc_kernels.h
BINARY = {
    kind: number
    for number, kind in enumerate(
        (
            "add", "sub", "mul", "div", "div_trunc", "minimum", "maximum", "floor_div", "floor_mod",
            "squared_difference", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
            "logical_and", "logical_or", "prelu", "prelu_twice", "fmod", "pow",
        )
    )
}  # fmt: skip
PRELU_TWICE = BINARY["prelu_twice"]
SPECIAL = ("div_trunc", "prelu", "prelu_twice", "pow")  # these have functions of their own
REDUCTIONS = {kind: number for number, kind in enumerate(("sum", "mean", "reduce_max", "reduce_min", "reduce_prod"))}


@kernel_for(*(kind for kind in BINARY if kind not in SPECIAL))
def binary(site: Site) -> tuple[CpuCall, ...]:
    a, b, target = site.input(0), site.input(1), site.output()
    whole = site.op.kind == "div" and not (target.is_float or target.quant)
    formats = (site.activated_format(), site.format(a), site.format(b))
    return _pairs(site, BINARY["div_trunc" if whole else site.op.kind], formats)


@kernel_for("pow")
def power(site: Site) -> tuple[CpuCall, ...]:
    """Bytes to a constant power are a table."""
    is_table = site.input().dtype in BYTES and site.input(1).data is not None and site.input(1).elements == 1
    return by_table(site) if is_table else binary(site)


@kernel_for("prelu")
def prelu(site: Site) -> tuple[CpuCall, ...]:
    x, slope, target = site.input(0), site.input(1), site.output()
    if not is_counted(site.op, [x, slope], target):
        return binary(site)
    sides = slopes(x, slope, target)
    if not all(0 < side.value < math.inf for side in sides):
        raise site.refuse("multipliers out of range")
    bits = table("uint8_t", [int(side.first_bits) for side in sides])
    formats = (
        changed(site.out_format(), scale=1.0, first_bits=bits),
        changed(site.format(x), scale=sides[0].value),
        changed(site.format(slope), scale=sides[1].value),
    )
    return _pairs(site, PRELU_TWICE, formats)


def _pairs(site: Site, function: int, formats: tuple[Struct, Struct, Struct]) -> tuple[CpuCall, ...]:
    a, b, target = site.input(0), site.input(1), site.output()
    return site.call(
        "atonc_binary",
        site.target(target),
        formats[0],
        site.source(a),
        formats[1],
        site.source(b),
        formats[2],
        *nested(site, target.shape, *(broadcast_steps(tensor.shape, target.shape) for tensor in (a, b))),
        function,
    )


@kernel_for("select")
def select(site: Site) -> tuple[CpuCall, ...]:
    condition, a, b, target = site.input(0), site.input(1), site.input(2), site.output()
    steps = (broadcast_steps(tensor.shape, target.shape) for tensor in (condition, a, b))
    return site.call(
        "atonc_select",
        site.target(target),
        site.out_format(),
        site.source(condition),
        site.type_of(condition),
        site.source(a),
        site.format(a),
        site.source(b),
        site.format(b),
        *nested(site, target.shape, *steps),
    )


@kernel_for("affine")
def affine(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    channels = target.shape[-1] if target.shape else 1
    gain, offset = (_per_channel(site, index, channels) for index in (1, 2))
    return site.call(
        "atonc_affine",
        site.target(target),
        site.out_format(),
        site.source(source),
        site.format(source),
        target.elements // max(1, channels),
        channels,
        site.reals(gain),
        site.reals(offset),
    )


def _per_channel(site: Site, index: int, channels: int) -> np.ndarray:
    tensor = site.input(index)
    if tensor.data is None or tensor.elements not in (1, channels):
        raise site.refuse("a gain or an offset that is not one constant per channel")
    return np.broadcast_to(Arg(tensor, tensor.data).real.reshape(-1), (channels,))


@kernel_for(*REDUCTIONS)
def reduce(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    axes = {axis % max(1, len(source.shape)) for axis in site.attrs["axes"]}
    steps = packed(source.shape)
    parts = [
        [(n, step) for axis, (n, step) in enumerate(zip(source.shape, steps, strict=True)) if (axis in axes) == wanted]
        for wanted in (False, True)
    ]
    loops = [nested(site, [n for n, _ in part], [step for _, step in part]) for part in parts]
    return site.call(
        "atonc_reduce",
        site.target(target),
        site.out_format(),
        site.source(source),
        site.format(source),
        REDUCTIONS[site.op.kind],
        *loops[0],
        *loops[1],
    )


@kernel_for("l2_norm")
def l2_norm(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    count = source.shape[-1]
    inputs = (site.source(source), site.format(source), source.elements // max(1, count), count)
    return site.call("atonc_l2_norm", site.target(target), site.out_format(), *inputs)


@kernel_for("layer_norm", "rms_norm")
def norm(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    count, epsilon = source.shape[-1], float(site.attrs["epsilon"])
    if site.attrs["axis"] % len(source.shape) != len(source.shape) - 1 or not 0 <= epsilon < math.inf:
        raise site.refuse(f"along axis {site.attrs['axis']} of {source.shape}, epsilon {epsilon}")
    parts = [_per_column(site, site.input(k)) if site.has(k) else (0, site.format(target)) for k in (1, 2)]
    return site.call(
        "atonc_norm",
        site.target(target),
        site.out_format(),
        site.source(source),
        site.format(source),
        source.elements // max(1, count),
        count,
        int(site.op.kind == "layer_norm"),
        epsilon,
        *parts[0],
        *parts[1],
    )


def _per_column(site: Site, tensor: Tensor) -> tuple[Argument, Struct]:
    """Values that the network computes, or constants with whatever scales they have."""
    if tensor.data is not None and tensor.quant is not None and not tensor.quant.is_per_tensor:
        tensor = replace(tensor, dtype="float64", quant=None, data=Arg(tensor, tensor.data).real)
    return site.source(tensor), site.format(tensor)
