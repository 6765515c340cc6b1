"""Matrix products, reductions, normalisations and layers that move elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import Bench, Struct, general

RNG = np.random.default_rng(9)


def values(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


def test_matmul_multiplies_height_by_width() -> None:
    bench, a, b = Bench(), values(1, 3, 4, 2), values(1, 4, 5, 2)
    out = bench.output((1, 3, 5, 2), np.float32)
    run_call(
        "ll_sw_forward_matmul", [general("X", bench.tensor(a), out) | {"operand_b": bench.tensor(b)}], bench.memory
    )
    result = bench.result(out, np.float32)
    for h, w, c in np.ndindex(3, 5, 2):
        assert result[0, h, w, c] == pytest.approx(
            sum(float(a[0, h, k, c]) * float(b[0, k, w, c]) for k in range(4)), abs=1e-5
        )
    wrong = general("X", bench.tensor(a), out) | {"operand_b": bench.tensor(values(1, 3, 5, 2))}
    with pytest.raises(InputError, match="cannot be multiplied"):
        run_call("ll_sw_forward_matmul", [wrong], bench.memory)


@pytest.mark.parametrize("flags", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm(flags: tuple[int, int]) -> None:
    bench, a, b, c = Bench(), values(3, 4), values(4, 5), values(1, 5)
    stored = [m.T.copy() if flag else m for m, flag in zip((a, b), flags, strict=True)]
    out = bench.output((1, 3, 5, 1), np.float32)
    info = general("X", bench.tensor(stored[0][None, :, :, None]), out) | {
        "operand_b": bench.tensor(stored[1][None, :, :, None])
    }
    info |= {"operand_c": bench.tensor(c[None, :, :, None]), "alpha": 0.5, "beta": 2.0, "tA": flags[0], "tB": flags[1]}
    run_call("ll_sw_forward_gemm", [info], bench.memory)
    assert np.allclose(bench.result(out, np.float32)[0, :, :, 0], 0.5 * a @ b + 2 * c, atol=1e-5)


@pytest.mark.parametrize("name", ["gemm_integer", "qlinearmatmul"])
def test_fully_connected(name: str) -> None:
    """QLinearMatMul has no bias: the runtime clears the one that it is given."""
    bench, x = Bench(), RNG.integers(-128, 128, 6).astype(np.int8)
    weights, bias = RNG.integers(-127, 128, (4, 6)).astype(np.int8), RNG.integers(-900, 900, 4).astype(np.int32)
    out = bench.output((1, 1, 1, 4), np.int8)
    bias_tensor = bench.tensor(bias.reshape(1, 1, 1, 4))
    info = general("X", bench.tensor(x.reshape(1, 1, 1, 6)), out)
    info |= {"weights": bench.tensor(weights.reshape(6, 1, 1, 4)), "bias": bias_tensor}
    info |= bench.quant("is", "izp", 0.05, -7) | bench.quant("ws", "wzp", 0.02, 1) | bench.quant("os", "ozp", 0.3, 5)
    run_call(f"ll_sw_forward_{name}", [info], bench.memory)
    sums = (weights.astype(int) - 1) @ (x.astype(int) + 7) + (bias if name == "gemm_integer" else 0)
    factor = float(np.float32(0.05)) * float(np.float32(0.02)) / float(np.float32(0.3))
    assert np.abs(bench.result(out, np.int8).reshape(4) - np.clip(sums * factor + 5, -128, 127)).max() <= 0.5001
    assert bench.result(bias_tensor, np.int32).any() == (name == "gemm_integer")


@pytest.mark.parametrize(("axis", "position"), [(0, 0), (1, 3), (2, 1), (3, 2)])
def test_reductions(axis: int, position: int) -> None:
    bench, x = Bench(), values(2, 3, 4, 5)
    shape = tuple(1 if k == position else n for k, n in enumerate(x.shape))
    expected = {
        "SUM": x.sum(position, keepdims=True),
        "MIN": x.min(position, keepdims=True),
        "MAX": np.maximum(x.max(position, keepdims=True), 0),  # the published neutral value is 0
        "LOGSUMEXP": np.log(np.exp(x).sum(position, keepdims=True)),
    }
    for kind, wanted in expected.items():
        out = bench.output(shape, np.float32)
        run_call(
            "ll_sw_forward_reduce",
            [general(f"LL_SW_REDUCE{kind}", bench.tensor(x), out) | {"axis": axis}],
            bench.memory,
        )
        assert np.allclose(bench.result(out, np.float32), wanted, atol=1e-5)
    with pytest.raises(NotModelledError, match="REDUCEPROD"):
        run_call("ll_sw_forward_reduce", [general("LL_SW_REDUCEPROD", bench.tensor(x), out)], bench.memory)
    plain = bench.output(shape, np.float32)  # a published network gives no axis: the shapes say it
    run_call("ll_sw_forward_reduce", [general("LL_SW_REDUCESUM", bench.tensor(x), plain)], bench.memory)
    assert np.allclose(bench.result(plain, np.float32), expected["SUM"], atol=1e-5)


@pytest.mark.parametrize("suffix", ["", "_integer"])
@pytest.mark.parametrize("last", [0, 1])
def test_arg_min_and_max(suffix: str, last: int) -> None:
    bench, x = Bench(), RNG.integers(-3, 4, (1, 2, 6, 4))  # many ties
    stored = x.astype(np.int8 if suffix else np.float32)
    for name, pick in (("argmax", max), ("argmin", min)):
        out = bench.output((1, 2, 1, 4), np.int32)
        info = general("X", bench.tensor(stored), out) | {"axis": 3, "select_last_index": last}
        run_call(f"ll_sw_forward_{name}{suffix}", [info], bench.memory)
        result = bench.result(out, np.int32)
        for h, c in np.ndindex(2, 4):
            row = x[0, h, :, c].tolist()
            places = [k for k, value in enumerate(row) if value == pick(row)]
            assert result[0, h, 0, c] == places[-1 if last else 0]


def test_sign_counts_zero_as_negative() -> None:
    bench, x = Bench(), np.array([-2, 0, 3, np.nan], np.float32).reshape(1, 1, 4, 1)
    out = bench.output(x.shape, np.float32)
    run_call("ll_sw_forward_sign", [general("X", bench.tensor(x), out)], bench.memory)
    assert bench.result(out, np.float32).reshape(-1).tolist() == [-1, -1, 1, -1]


def test_normalisations() -> None:
    bench, x = Bench(), values(1, 3, 4, 5)
    parameters = {name: np.abs(values(1, 1, 1, 5)) for name in ("mean", "var", "scale", "bias")}
    described: Struct = {name: bench.tensor(array) for name, array in parameters.items()}
    p = {name: array.reshape(5).astype(float) for name, array in parameters.items()}
    out = bench.output(x.shape, np.float32)
    run_call("ll_sw_forward_bn", [general("X", bench.tensor(x), out) | described], bench.memory)
    wanted = (x - p["mean"]) / np.sqrt(p["var"] + 1e-5) * p["scale"] + p["bias"]
    assert np.allclose(bench.result(out, np.float32), wanted, atol=1e-4)
    run_call("ll_sw_forward_instance_normalization", [general("X", bench.tensor(x), out) | described], bench.memory)
    for c in range(5):
        plane = x[0, :, :, c].astype(float)
        mean = plane.mean()
        deviation = math.sqrt(((plane - mean) ** 2).mean() + 1e-5)
        assert np.allclose(
            bench.result(out, np.float32)[0, :, :, c],
            (plane - mean) / deviation * p["scale"][c] + p["bias"][c],
            atol=1e-4,
        )


@pytest.mark.parametrize("order", [1, 2])
def test_norm_along_an_axis(order: int) -> None:
    bench, x = Bench(), values(1, 2, 3, 4)
    out = bench.output(x.shape, np.float32)
    run_call(
        "ll_sw_forward_lpnormalization", [general("X", bench.tensor(x), out) | {"axis": 1, "p": order}], bench.memory
    )
    for h, w in np.ndindex(2, 3):
        size = sum(abs(float(v)) ** order for v in x[0, h, w]) ** (1 / order)
        assert np.allclose(bench.result(out, np.float32)[0, h, w], x[0, h, w] / size, atol=1e-6)


@pytest.mark.parametrize(("suffix", "dtype"), [("", np.float32), ("_integer", np.int8)])
def test_gather_and_tile(suffix: str, dtype: type) -> None:
    bench, x = Bench(), RNG.integers(-128, 128, (1, 4, 3, 2)).astype(dtype)
    indices = np.array([3, 0, -1, 1, 1], np.int32).reshape(1, 1, 5, 1)
    out = bench.output((1, 5, 3, 2), dtype)
    info = general("X", bench.tensor(x), out) | {"operand": bench.tensor(indices), "axis": 2}
    run_call(f"ll_sw_forward_gather{suffix}", [info], bench.memory)
    assert np.array_equal(bench.result(out, dtype), x[:, [3, 0, 3, 1, 1]])
    outside = general("X", bench.tensor(x), out) | {"operand": bench.tensor(indices + 5), "axis": 2}
    with pytest.raises(InputError, match="outside"):
        run_call(f"ll_sw_forward_gather{suffix}", [outside], bench.memory)
    tiled = bench.output((1, 8, 9, 4), dtype)
    run_call(
        f"ll_sw_forward_tile{suffix}", [general("X", bench.tensor(x), tiled) | {"repeats": [1, 2, 2, 3]}], bench.memory
    )
    result = bench.result(tiled, dtype)
    for h, w, c in np.ndindex(8, 9, 4):
        assert result[0, h, w, c] == x[0, h % 4, w % 3, c % 2]


def test_gather_from_a_vector_whichever_axis_it_lies_on() -> None:
    """As in a published network: two dimensions, of which the second is stored as the width and named the channels."""
    bench, x = Bench(), np.array([2.5, -7.0], np.float32).reshape(1, 1, 2, 1)
    out = bench.output((1, 1, 1, 1), np.float32)
    info = general("X", bench.tensor(x), out) | {"operand": bench.tensor(np.ones((1, 1, 1, 1), np.int32)), "axis": 1}
    run_call("ll_sw_forward_gather", [info], bench.memory)
    assert bench.result(out, np.float32).item() == -7.0
    beyond = info | {"operand": bench.tensor(np.full((1, 1, 1, 1), 2, np.int32))}
    with pytest.raises(InputError, match="outside"):
        run_call("ll_sw_forward_gather", [beyond], bench.memory)


@pytest.mark.parametrize(("axis", "position"), [(1, 3), (2, 2), (3, 1)])
def test_concatenation_layer_counts_axes_its_own_way(axis: int, position: int) -> None:
    bench = Bench()
    parts = [values(*(2 + k if p == position else 3 for p in range(4))) for k in range(3)]
    wanted = np.concatenate(parts, position)
    out = bench.output(wanted.shape, np.float32)
    info = general("X", bench.tensor(parts[0]), out) | {
        "operand": bench.tensor(parts[1]),
        "operand1": bench.tensor(parts[2]),
    }
    run_call("ll_sw_forward_concat", [info | {"num_of_inputs": 3, "concat_axis": axis}], bench.memory)
    assert np.array_equal(bench.result(out, np.float32), wanted)


def test_unknown_functions_are_named() -> None:
    for name in ("ll_sw_forward_lrn", "LL_ATON_LIB_ConvInteger", "anything"):
        with pytest.raises(NotModelledError, match=name):
            run_call(name, [], Bench().memory)


@pytest.mark.parametrize("name", ["scale", "bias"])
def test_normalisations_have_a_number_for_each_channel(name: str) -> None:
    bench, x = Bench(), values(1, 3, 4, 5)
    described = {key: bench.tensor(values(1, 1, 1, 5 - (key == name))) for key in ("mean", "var", "scale", "bias")}
    call = general("X", bench.tensor(x), bench.output(x.shape, np.float32)) | described
    for kind in ("bn", "instance_normalization"):
        with pytest.raises(InputError, match="4 values for 5 channels"):
            run_call(f"ll_sw_forward_{kind}", [call], bench.memory)
