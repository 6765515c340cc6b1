"""Padding and casts of the hybrid library against the published walk and formulas."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import Array, Bench, sym

RNG = np.random.default_rng(8)
TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def pad_args(
    bench: Bench, image: Array, pads: list[tuple[int, int]], mode: int, constant: int = 0
) -> tuple[list[Any], int, tuple[int, ...]]:
    """The arguments as the code generator computes them: byte distances per axis, input steps for cuts."""
    nbytes, rank = image.itemsize, image.ndim
    out_shape = tuple(n + a + b for n, (a, b) in zip(image.shape, pads, strict=True))
    minimum = [min(n, n + min(a, 0) + min(b, 0)) for n, (a, b) in zip(image.shape, pads, strict=True)]
    in_step = [int(np.prod(image.shape[k + 1 :], dtype=int)) * nbytes for k in range(rank)]
    out_step = [int(np.prod(out_shape[k + 1 :], dtype=int)) * nbytes for k in range(rank)]
    last = max([k for k in range(rank) if pads[k] != (0, 0)], default=0)
    run = int(np.prod(minimum[last:]))
    out = bench.reserve(int(np.prod(out_shape)) * nbytes)
    lists = [
        [step[k] * pads[k][end] for k in range(rank)]
        for step, end in ((in_step, 0), (in_step, 1), (out_step, 0), (out_step, 1))
    ]
    args: list[Any] = [
        bench.place(image),
        out,
        0,
        0,
        minimum,
        mode,
        nbytes,
        int(np.prod(out_shape)),
        constant,
        last,
        run,
    ]
    return [*args, *lists, list(out_shape), out_step, rank, 2, 3], out, out_shape


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_constant_padding_and_cutting(data: st.DataObject) -> None:
    nbytes = data.draw(st.sampled_from([1, 2, 4]))
    shape = tuple(data.draw(st.integers(2, 4)) for _ in range(4))
    pads = [(data.draw(st.integers(-1, 2)), data.draw(st.integers(0, 2))) for _ in range(4)]
    bench, image = Bench(), RNG.integers(0, 200, shape).astype(TYPES[nbytes])
    args, out, out_shape = pad_args(bench, image, pads, 0, 77)
    run_call(data.draw(st.sampled_from(["LL_ATON_LIB_Pad", "LL_ATON_LIB_Pad_Standard"])), args, bench.memory)
    cut = image[tuple(slice(-min(a, 0), n + min(b, 0)) for n, (a, b) in zip(shape, pads, strict=True))]
    wanted = np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pads], constant_values=77)
    assert np.array_equal(bench.array(out, out_shape, TYPES[nbytes]), wanted)


@pytest.mark.parametrize(("mode", "name"), [(1, "reflect"), (2, "edge")])
@pytest.mark.parametrize("nbytes", [1, 2, 4])
def test_repeating_padding(mode: int, name: Any, nbytes: int) -> None:
    bench, image = Bench(), RNG.integers(0, 200, (1, 3, 4, 2)).astype(TYPES[nbytes])
    pads = [(0, 0), (2, 1), (1, 2), (0, 1)]
    args, out, shape = pad_args(bench, image, pads, mode)
    run_call("LL_ATON_LIB_Pad", args, bench.memory)
    assert np.array_equal(bench.array(out, shape, TYPES[nbytes]), np.pad(image, pads, mode=name))


def test_float_constant_and_channel_padding() -> None:
    """As in a float network of ST's: channels first, four channels more, the constant as its bits."""
    bench, image = Bench(), RNG.normal(0, 1, (1, 3, 4, 4)).astype(np.float32)
    bits = struct.unpack("<i", struct.pack("<f", -1.5))[0]
    args, out, shape = pad_args(bench, image.view(np.uint32), [(0, 0), (0, 4), (0, 0), (0, 0)], 0, bits)
    assert args[9:11] == [1, 48]
    run_call("LL_ATON_LIB_Pad", args, bench.memory)
    result = bench.array(out, shape, np.float32)
    assert np.array_equal(result[:, :3], image) and (result[:, 3:] == -1.5).all()


def test_broken_paddings_are_input_errors() -> None:
    bench, image = Bench(), np.zeros((1, 3, 4, 2), np.uint8)
    args, _, _ = pad_args(bench, image, [(0, 0), (1, 1), (1, 1), (0, 0)], 0)
    changes = {0: 0x5, 4: [1, 3], 5: 9, 6: 7, 7: 1 << 40, 9: 8, 10: -3, 17: 99}
    for index, value in changes.items():
        with pytest.raises(InputError):
            run_call("LL_ATON_LIB_Pad", [*args[:index], value, *args[index + 1 :]], bench.memory)
    with pytest.raises(InputError):
        run_call("LL_ATON_LIB_Pad", args[:8], bench.memory)


@pytest.mark.parametrize("as_struct", [False, True])
def test_four_loop_padding(as_struct: bool) -> None:
    bench, image = Bench(), RNG.integers(0, 256, (3, 4, 2)).astype(np.uint8)
    target = bench.reserve(5 * 6 * 2)
    read: list[Any] = [0, 24, 0, 24]
    write: list[Any] = [14, 8, 1, 48, 12, 3]
    if as_struct:
        names = ["initial_cumulative_start_offset_in_bytes", "inner_bytes_to_copy", "nr_of_stream_eng_loops"]
        read, write = (
            dict(zip([*names, "total_bytes_to_copy"], loops[:4], strict=True))
            | {"four_items_array": [{"offset_in_bytes": 12, "nr_of_loops": 3}]}
            for loops in (read, write)
        )
    source = bench.place(image)
    args = [source, source + 24, 0, target, target + 60, 0, 9, 1, read, write, 0, 1, "instance"]
    run_call("LL_ATON_LIB_Pad_4Loop", args, bench.memory)
    wanted = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=9)
    assert np.array_equal(bench.array(target, (5, 6, 2), np.uint8), wanted)


# -- Cast


def float_side(bench: Bench, values: Array) -> dict[str, Any]:
    return bench.buffer(values, (1, 1, 1, values.size), 32, values.size, type=sym("DataType_FLOAT"))


def fixed_side(
    bench: Bench, count: int, nbits: int, qm: int, qn: int, kind: str = "FXP", **extra: Any
) -> dict[str, Any]:
    more = {"type": sym(f"DataType_{kind}"), "Qm": qm, "Qn": qn, **extra}
    return bench.out_buffer((1, 1, 1, count), nbits, count, **more)


@pytest.mark.parametrize(("qm", "qn", "nbits"), [(16, -1, 16), (8, 7, 16), (3, 4, 8), (9, -2, 8), (7, 0, 8)])
def test_float_to_fixed_point(qm: int, qn: int, nbits: int) -> None:
    """Rounded half away from zero, but cut towards zero where n is negative."""
    bench, values = Bench(), (RNG.normal(0, 1, 200) * 2.0 ** (qm - 1)).astype(np.float32)
    out = fixed_side(bench, 200, nbits, qm, qn)
    run_call("LL_ATON_LIB_Cast", [[float_side(bench, values)], [out], 2, 3], bench.memory)
    dtype = np.int16 if nbits == 16 else np.int8
    for x, code in zip(values, bench.contents(out, dtype), strict=True):
        scaled = float(np.float32(x) * np.float32(2.0**qn))
        if qn >= 0:
            scaled = float(np.float32(scaled + (0.5 if x > 0 else -0.5)))
        limit = 1 << (qm + qn)
        whole = int(min(max(scaled, -limit), limit - 1))
        assert code == np.array(whole).astype(dtype)


def test_in_place_cast_to_a_smaller_type() -> None:
    bench, values = Bench(), RNG.normal(0, 900, 64).astype(np.float32)
    source = float_side(bench, values)
    out = fixed_side(bench, 64, 16, 16, -1) | {"addr_base": source["addr_base"]}
    run_call("LL_ATON_LIB_Cast", [[source], [out], 2, 3], bench.memory)
    assert np.array_equal(bench.contents(out, np.int16), np.trunc(values / 2).astype(np.int16))


def test_scale_and_offset_codes() -> None:
    bench, values = Bench(), RNG.normal(0, 2, 100).astype(np.float32)
    codes = fixed_side(bench, 100, 8, 7, 0, "INT8", scale=[0.05], offset=[-3])
    run_call("LL_ATON_LIB_Cast", [[float_side(bench, values)], [codes], 0, 1], bench.memory)
    for x, code in zip(values, bench.contents(codes, np.int8), strict=True):
        real = float(np.float32(x) / np.float32(0.05) + np.float32(-3))
        assert code == np.array(int(real + (0.5 if real > 0 else -0.5))).astype(np.int8)
    back = bench.out_buffer((1, 1, 1, 100), 32, 100, type=sym("DataType_FLOAT"))
    run_call("LL_ATON_LIB_Cast", [[codes], [back], 0, 1], bench.memory)
    wanted = (bench.contents(codes, np.int8).astype(np.float32) + 3) * np.float32(0.05)
    assert np.array_equal(bench.contents(back, np.float32), wanted)


def test_fixed_point_to_fixed_point_shifts_left_and_wraps() -> None:
    bench, codes = Bench(), RNG.integers(-128, 128, 40).astype(np.int8)
    source = bench.buffer(codes, (1, 1, 1, 40), 8, 40, type=sym("DataType_FXP"), Qm=5, Qn=2)
    out = fixed_side(bench, 40, 16, 12, 3)
    run_call("LL_ATON_LIB_Cast", [[source], [out], 0, 1], bench.memory)
    assert np.array_equal(bench.contents(out, np.int16), codes.astype(np.int16) << 1)


def test_equal_types_are_copied_and_others_refused() -> None:
    bench, codes = Bench(), RNG.integers(-128, 128, 64).astype(np.int8)
    source = bench.buffer(codes, (1, 1, 1, 64), 8, 64, type=sym("DataType_INT8"), Qm=7)
    out = fixed_side(bench, 64, 8, 7, 0, "INT8")
    run_call("LL_ATON_LIB_Cast", [[source], [out], 0, 1, "instance"], bench.memory)
    assert np.array_equal(bench.contents(out, np.int8), codes)
    with pytest.raises(NotModelledError):
        run_call("LL_ATON_LIB_Cast", [[source], [fixed_side(bench, 64, 32, 7, 0, "INT32")], 0, 1], bench.memory)
    with pytest.raises(NotModelledError):
        run_call(
            "LL_ATON_LIB_Cast",
            [[float_side(bench, codes.astype(np.float32))], [fixed_side(bench, 64, 24, 12, 8)], 0, 1],
            bench.memory,
        )
    with pytest.raises(InputError):
        run_call("LL_ATON_LIB_Cast", [[source], [fixed_side(bench, 65, 8, 7, 0)], 0, 1], bench.memory)
