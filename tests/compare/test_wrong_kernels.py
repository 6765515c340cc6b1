"""Models that TFLite's kernels get wrong: shown here, so that nobody has to believe it, and said by `validate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.reference import MISREAD, REFERENCE, XNNPACK, kernel_sets, run_tflite
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import run_graph
from atonc.insight.validating import judging, validating
from atonc.insight.validating.references import EXACT, References, check_reading
from tests.frontends.tflite_models import O, T, build

CODE = 32768.0


def transposed(folder: Path, bias: list[int], dtype: str = "int32") -> Path:
    """One pixel in, weights of zero: a code of the output is worth 1,000 of the bias."""
    weights = T("w", (3, 1, 1, 1), scale=[0.5] * 3, data=np.zeros((3, 1, 1, 1)))
    tensors = [T("x", (1, 2, 2, 1), "int16", scale=0.5), weights]
    tensors += [T("s", (4,), "int32", data=[1, 2, 2, 3]), T("b", (3,), dtype, scale=[0.25] * 3, data=bias)]
    tensors += [T("y", (1, 2, 2, 3), "int16", scale=250.0)]
    fields = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1)}
    path = folder / f"bias_{dtype}.tflite"
    op = O("TRANSPOSE_CONV", ["s", "w", "x", "b"], ["y"], "TransposeConvOptions", fields)
    path.write_bytes(build(tensors, [op], ["x"], ["y"]))
    return path


def test_transposed_convolutions_of_16_bits_read_two_biases_as_one(tmp_path: Path) -> None:
    """The kernel takes the first two of three int32 numbers as one of 64 bits: 7,000 and 1 are 2^32 + 7,000,
    far too large."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model, inputs = transposed(tmp_path, [7000, 1, 5000]), [np.zeros((1, 2, 2, 1), np.int16)]
    theirs = run_tflite(model, inputs, REFERENCE)["y"]
    ours = run_graph(read(model), {"x": inputs[0]})["y"]
    assert ours.reshape(-1, 3).tolist() == [[7, 0, 5]] * 4
    assert set(theirs[..., 0].ravel().tolist()) == {32767}
    right = transposed(tmp_path, [7000, 1, 5000], "int64")
    assert run_tflite(right, inputs, REFERENCE)["y"].reshape(-1, 3).tolist() == [[7, 0, 5]] * 4


def test_such_a_model_is_compared_with_exact_arithmetic(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model = transposed(tmp_path, [7000, 1, 5000])
    assert kernel_sets(model) == ((), MISREAD)
    assert len(kernel_sets(transposed(tmp_path, [7000, 1, 5000], "int64"))[0]) == 3
    with References(model) as references:
        compiled = atonc.compile(model, verify=False).compiled
        found = validating.validate(references, compiled, validating.synthetic_samples(compiled.source, 2))
    assert found.reference == EXACT and MISREAD in found.notes and not list(judging.complaints(found))


def softmax(folder: Path, count: int) -> Path:
    path = folder / "softmax.tflite"
    tensors = [T("x", (64, count), "int16", scale=5e-4), T("y", (64, count), "int16", scale=1 / CODE)]
    op = O("SOFTMAX", ["x"], ["y"], "SoftmaxOptions", {0: ("f", 1.0)})
    path.write_bytes(build(tensors, [op], ["x"], ["y"]))
    return path


@pytest.mark.parametrize("count", [6, 20, 100])
def test_softmax_of_16_bits_is_theirs_that_is_off(tmp_path: Path, count: int) -> None:
    """Against real numbers: ours rounds them, theirs is up to 2 codes off for every input."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model = softmax(tmp_path, count)
    codes = np.random.default_rng(count).integers(-32768, 32768, (64, count)).astype(np.int16)
    real = np.exp((codes - codes.max(axis=1, keepdims=True).astype(float)) * float(np.float32(5e-4)))
    exact = np.minimum(real / real.sum(axis=1, keepdims=True) * CODE, CODE - 1)
    ours, theirs = run_graph(read(model), {"x": codes})["y"], run_tflite(model, [codes], REFERENCE)["y"]
    assert np.abs(ours - exact).max() <= 0.51
    assert 6 < np.abs(theirs - exact).max() <= 2 * count + 1
    with References(model) as references:
        (found,) = check_reading(references, read(model), [{"x": codes}])
        assert not found.bad and any("e^-10" in note for note in references.notes)
        (wrong,) = check_reading(references, read(softmax_of_another_scale(tmp_path, count)), [{"x": codes}])
        assert wrong.bad, "a real mistake still shows"


def softmax_of_another_scale(folder: Path, count: int) -> Path:
    path = folder / "other.tflite"
    tensors = [T("x", (64, count), "int16", scale=1e-3), T("y", (64, count), "int16", scale=1 / CODE)]
    op = O("SOFTMAX", ["x"], ["y"], "SoftmaxOptions", {0: ("f", 1.0)})
    path.write_bytes(build(tensors, [op], ["x"], ["y"]))
    return path


def test_sums_of_reference_kernels_take_codes_as_unsigned(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    path = tmp_path / "sum.tflite"
    tensors = [T("x", (1, 4), scale=0.5), T("a", (1,), "int32", data=[1]), T("y", (1,), scale=0.5)]
    path.write_bytes(build(tensors, [O("SUM", ["x", "a"], ["y"], "ReducerOptions", {0: ("b", 0)})], ["x"], ["y"]))
    inputs = [np.array([[-3, 2, -1, 0]], np.int8)]
    assert run_graph(read(path), {"x": inputs[0]})["y"].tolist() == [-2]
    assert run_tflite(path, inputs, XNNPACK)["y"].tolist() == [-2] != run_tflite(path, inputs, REFERENCE)["y"].tolist()
