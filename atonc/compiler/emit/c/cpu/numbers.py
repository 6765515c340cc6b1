"""Changes of the number format, functions of one value, softmax, arg max, and layers with a state."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from atonc.compiler.emit.c.calls import Argument, CpuCall
from atonc.compiler.emit.c.cpu.site import Site, around, kernel_for, table
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops import evaluate
from atonc.compiler.ops.curves import curve_of
from atonc.compiler.ops.functions import C_NUMBERS, FUNCTIONS, RANGES
from atonc.compiler.ops.portable import exp
from atonc.compiler.ops.recurrent import CELLS, MOST_CELLS

BYTES = ("int8", "uint8")


def code_table(site: Site) -> Array:
    """What exact arithmetic gives for each of the 256 codes of the input, by the byte that stores the code."""
    codes = np.arange(256, dtype=np.uint8).view(site.input().dtype)
    small = {
        name: replace(tensor, shape=(256,), data=None)
        for name in (site.op.inputs[0], site.op.outputs[0])
        for tensor in (site.graph.tensors[name],)
    }
    graph = replace(site.graph, tensors={**site.graph.tensors, **small})
    return evaluate(graph, site.op, [codes, *(site.graph.tensors[n].data for n in site.op.inputs[1:])])[
        0
    ].codes.reshape(256)


def by_table(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    site.scale_zero(source), site.scale_zero(target)
    if any(site.offsets.get(name) for name in (*site.op.inputs, *site.op.outputs)):
        raise site.refuse("shifted codes in a table")
    with np.errstate(over="ignore"):  # a float32 may be infinite where a float64 is not
        stored = code_table(site).astype("uint8" if target.dtype == "bool" else target.dtype)
    entries = table("uint8_t", stored.view(np.uint8))  # as bytes: floats may be infinite
    return site.call(
        "atonc_lookup", site.target(target), site.source(source, "uint8_t"), source.elements, entries, stored.itemsize
    )


def _is_byte_to_byte(site: Site) -> bool:
    return site.input().dtype in BYTES and site.output().dtype in BYTES


@kernel_for("quantize", "dequantize", "requantize", "identity", "uint8_to_int8", "int8_to_uint8")
def convert(site: Site) -> tuple[CpuCall, ...]:
    return by_table(site) if _is_byte_to_byte(site) else converted(site)


def converted(site: Site, least: float = -math.inf, most: float = math.inf) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    return site.call(
        "atonc_convert",
        site.target(target),
        site.out_format(least, most),
        site.source(source),
        site.format(source),
        target.elements,
    )


@kernel_for(*RANGES, "clip")
def clip(site: Site) -> tuple[CpuCall, ...]:
    if _is_byte_to_byte(site):
        return by_table(site)
    limits = (site.attrs["low"], site.attrs["high"]) if site.op.kind == "clip" else RANGES[site.op.kind]
    return converted(site, *limits)


@kernel_for(*(kind for kind in FUNCTIONS if kind not in (*RANGES, "clip")), "table")
def unary(site: Site) -> tuple[CpuCall, ...]:
    if site.input().dtype in BYTES:
        return by_table(site)
    curve = curve_of(site.op, site.graph)
    if curve is not None:
        entries, count = table("int16_t", curve.lines.reshape(-1)), site.output().elements
        return site.call(
            "atonc_curve", site.target(site.output()), site.source(site.input()), count, entries, curve.bits
        )
    if site.op.kind not in C_NUMBERS:
        raise site.refuse(f"on {site.input().dtype} values has no kernel")
    alpha = float(site.attrs.get("alpha", 1.0))
    kind = "gelu_tanh" if site.op.kind == "gelu" and site.attrs.get("approximate", False) else site.op.kind
    return _unary(site, site.format(site.input()), kind, alpha, float(site.attrs.get("beta", 0.0)))


@kernel_for("cast")
def cast(site: Site) -> tuple[CpuCall, ...]:
    """Codes as numbers, cut towards zero where they become integers."""
    target = site.output()
    if target.is_float or target.dtype == "bool":
        source = site.input()
        plain = site.plain_format(source)
        return site.call(
            "atonc_convert", site.target(target), site.out_format(), site.source(source), plain, target.elements
        )
    return _unary(site, site.plain_format(site.input()), "trunc", 0.0, 0.0)


def _unary(site: Site, in_format: Argument, function: str, alpha: float, beta: float) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    if not (math.isfinite(alpha) and math.isfinite(beta)):
        raise site.refuse("a parameter is not finite")
    return site.call(
        "atonc_unary",
        site.target(target),
        site.out_format(),
        site.source(source),
        in_format,
        target.elements,
        C_NUMBERS[function],
        alpha,
        beta,
    )


@kernel_for("softmax", "log_softmax")
def softmax(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    beta = float(site.attrs.get("beta", 1.0))
    if not 0 < beta < math.inf:
        raise site.refuse(f"beta {beta}")
    sizes = around(source.shape, site.attrs.get("axis", -1))
    if source.dtype in BYTES and site.op.kind == "softmax":
        return _softmax_of_bytes(site, source, sizes, beta)
    return site.call(
        "atonc_softmax",
        site.target(target),
        site.out_format(),
        site.source(source),
        site.format(source),
        *sizes,
        beta,
        int(site.op.kind == "log_softmax"),
    )


def _softmax_of_bytes(site: Site, source: Tensor, sizes: tuple[int, int, int], beta: float) -> tuple[CpuCall, ...]:
    """Exponentials depend on the difference to the largest code only: 256 of them."""
    scale, _ = site.scale_zero(source)
    exponentials = exp(-np.arange(256.0) * (scale * beta))
    return site.call(
        "atonc_softmax_8",
        site.target(site.output()),
        site.out_format(),
        site.source(source, "uint8_t"),
        int(source.dtype == "int8"),
        *sizes,
        table("double", exponentials),
    )


@kernel_for("arg_max", "arg_min")
def arg_extreme(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    if target.quant is not None or target.dtype == "bool":
        raise site.refuse(f"positions as {target.dtype} codes")
    return site.call(
        "atonc_arg_extreme",
        site.target(target),
        site.type_of(target),
        site.source(source),
        site.type_of(source),
        *around(source.shape, site.attrs["axis"]),
        int(site.op.kind == "arg_min"),
    )


@kernel_for("lstm")
def lstm(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    batch, steps, inputs = source.shape
    cells = target.shape[-1]
    if cells > MOST_CELLS:
        raise site.refuse(f"{cells} cells, the kernel has room for {MOST_CELLS}")
    if source.dtype != "int8" or target.dtype != "int8" or "clip" in site.attrs:
        raise site.refuse(f"of {source.dtype} values with a result of {target.dtype}")
    multipliers = [number for pair in site.attrs["multipliers"] for number in pair]
    return site.call(
        "atonc_lstm",
        site.target(target),
        site.source(source),
        batch,
        steps,
        inputs,
        cells,
        *(site.source(site.input(k)) for k in (1, 2, 3)),
        table("int32_t", multipliers),
        int(site.attrs["cell_bits"]),
        int(site.attrs["cell_clip"]),
        target.zero_point,
    )


@kernel_for("recurrent")
def recurrent(site: Site) -> tuple[CpuCall, ...]:
    given, target = site.input(), site.output()
    steps, _, batch, cells = target.shape
    constants = [site.input(k) for k in (1, 2)]
    start = site.input(3) if site.has(3) else None
    if cells > MOST_CELLS:
        raise site.refuse(f"{cells} cells, the kernel has room for {MOST_CELLS}")
    floats = [target, *constants, *([start] if start else [])]
    if any(tensor.dtype != "float32" for tensor in floats) or "clip" in site.attrs:
        raise site.refuse(f"states of {', '.join(tensor.dtype for tensor in floats)}")
    return site.call(
        "atonc_recurrent",
        site.target(target),
        site.source(given),
        site.format(given),
        site.source(start) if start else 0,
        list(CELLS).index(site.attrs["cell"]),
        steps,
        batch,
        cells,
        int(site.attrs["reverse"]),
        *map(site.source, constants),
    )
