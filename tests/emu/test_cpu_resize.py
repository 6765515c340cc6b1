"""Resize against loops over pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import Array, Bench, Struct, general, sym

RNG = np.random.default_rng(11)


def layer(
    bench: Bench, image: Array, out_hw: tuple[int, int], mode: str, rule: str, nearest: str = "FLOOR"
) -> tuple[Struct, Struct]:
    scales = np.array([1, 1, out_hw[0] / image.shape[1], out_hw[1] / image.shape[2]], np.float32)
    out = bench.output((image.shape[0], *out_hw, image.shape[3]), image.dtype)
    info = general("LL_SW_RESIZE", bench.tensor(image), out) | {"scales": bench.params(scales)}
    info |= {"mode": sym(mode), "nearest_mode": sym(nearest), "coord_transf_mode": sym(rule)}
    return info, out


def position(x: int, size: int, out_size: int, rule: str) -> float:
    scale = out_size / size
    if rule == "HALF_PIXEL":
        return (x + 0.5) / scale - 0.5
    if rule == "ASYMMETRIC":
        return x / scale
    return x * (size - 1) / (out_size - 1)


def bilinear(image: Array, y: float, x: float) -> Array:
    h, w = image.shape[:2]
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    y0, x0 = math.floor(y), math.floor(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = y - y0, x - x0
    top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    result: Array = top * (1 - fy) + bottom * fy
    return result


@pytest.mark.parametrize("rule", ["HALF_PIXEL", "ASYMMETRIC", "ALIGN_CORNERS"])
@pytest.mark.parametrize("out_hw", [(8, 6), (5, 9), (3, 2)])
def test_linear(rule: str, out_hw: tuple[int, int]) -> None:
    image = RNG.integers(-128, 128, (1, 4, 3, 2)).astype(np.int8)
    for dtype, name in ((np.float32, "resize"), (np.int8, "resize_integer")):
        bench = Bench()
        info, out = layer(bench, image.astype(dtype), out_hw, "RESIZE_LINEAR", rule)
        run_call(f"ll_sw_forward_{name}", [info], bench.memory)
        result = bench.result(out, dtype)
        for y in range(out_hw[0]):
            for x in range(out_hw[1]):
                real = bilinear(
                    image[0].astype(float), position(y, 4, out_hw[0], rule), position(x, 3, out_hw[1], rule)
                )
                assert np.abs(result[0, y, x] - real).max() <= (0.5001 if dtype == np.int8 else 1e-3)


def test_int8_ties_go_away_from_zero() -> None:
    image = np.array([-3, -2, 2, 3], np.int8).reshape(1, 1, 4, 1)
    bench = Bench()
    info, out = layer(bench, image, (1, 8), "RESIZE_LINEAR", "ASYMMETRIC")
    run_call("ll_sw_forward_resize_integer", [info], bench.memory)
    assert bench.result(out, np.int8).reshape(-1).tolist() == [-3, -3, -2, 0, 2, 3, 3, 3]


def test_one_pixel_spreads() -> None:
    bench, image = Bench(), RNG.integers(-128, 128, (1, 1, 1, 7)).astype(np.int8)
    info, out = layer(bench, image, (5, 4), "RESIZE_LINEAR", "HALF_PIXEL")
    run_call("ll_sw_forward_resize_integer", [info], bench.memory)
    assert np.array_equal(bench.result(out, np.int8), np.broadcast_to(image, (1, 5, 4, 7)))


@pytest.mark.parametrize(
    ("mode", "pick"),
    [
        ("FLOOR", math.floor),
        ("CEIL", math.ceil),
        ("ROUND_PREFER_FLOOR", lambda x: math.ceil(x - 0.5)),
        ("ROUND_PREFER_CEIL", lambda x: math.floor(x + 0.5)),
    ],
)
def test_nearest(mode: str, pick: object) -> None:
    image = RNG.integers(-128, 128, (1, 3, 4, 2)).astype(np.int8)
    bench = Bench()
    info, out = layer(bench, image, (6, 8), "RESIZE_NEAREST", "HALF_PIXEL", mode)
    run_call("ll_sw_forward_resize_integer", [info], bench.memory)
    result = bench.result(out, np.int8)
    for y in range(6):
        for x in range(8):
            row = min(max(pick(position(y, 3, 6, "HALF_PIXEL")), 0), 2)
            column = min(max(pick(position(x, 4, 8, "HALF_PIXEL")), 0), 3)
            assert np.array_equal(result[0, y, x], image[0, row, column])


def test_quantisation_must_not_change() -> None:
    """Under its usual names, and one position too early as release 3.0.0 has it."""
    bench, image = Bench(), np.zeros((1, 2, 2, 1), np.int8)
    info, _ = layer(bench, image, (4, 4), "RESIZE_LINEAR", "HALF_PIXEL")
    same = bench.quant("is", "izp", 0.5, 3) | bench.quant("os", "ozp", 0.5, 3)
    run_call("ll_sw_forward_resize_integer", [info | same], bench.memory)
    other = bench.quant("is", "izp", 0.5, 3) | bench.quant("os", "ozp", 0.25, 3)
    with pytest.raises(NotModelledError, match="different quantisations"):
        run_call("ll_sw_forward_resize_integer", [info | other], bench.memory)
    early: Struct = {"sizes": same["is"], "is": same["izp"], "izp": same["os"], "os": same["ozp"]}
    run_call("ll_sw_forward_resize_integer", [info | early], bench.memory)
    early["izp"] = other["os"]
    with pytest.raises(NotModelledError, match="different quantisations"):
        run_call("ll_sw_forward_resize_integer", [info | early], bench.memory)


def test_unknown_modes_and_broken_sizes() -> None:
    bench, image = Bench(), np.zeros((1, 2, 2, 1), np.int8)
    info, _ = layer(bench, image, (4, 4), "RESIZE_LINEAR", "HALF_PIXEL")
    for change in ({"mode": sym("RESIZE_CUBIC")}, {"mode": None}, {"coord_transf_mode": sym("TF_CROP_AND_RESIZE")}):
        with pytest.raises(NotModelledError):
            run_call("ll_sw_forward_resize_integer", [info | change], bench.memory)
    with pytest.raises(InputError):
        run_call(
            "ll_sw_forward_resize_integer", [info | {"scales": bench.params(np.zeros(4, np.float32))}], bench.memory
        )
    with pytest.raises(InputError):
        run_call(
            "ll_sw_forward_resize_integer", [info | {"scales": bench.params(np.ones(2, np.float32))}], bench.memory
        )
