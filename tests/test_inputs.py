"""`atonc.run` takes codes or real numbers, by name and one sample at a time, and says what it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.inputs.arrays import read_arrays
from atonc.insight.runs import runs
from atonc.insight.runs.run_options import RunOptions
from atonc.machine.base.errors import InputError
from tests.frontends.onnx_models import Net, model_of

EXAMPLES = Path(__file__).parents[1] / "examples"
DIGITS = EXAMPLES / "digits" / "digits.tflite"
SHAPE = (1, 8, 8, 1)


@pytest.fixture(scope="module")
def digits() -> Compiled:
    return atonc.compile(DIGITS, verify=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating

    where = tmp_path_factory.mktemp("digits")
    generating.generate(generating.analyze(DIGITS, Options(verify=False)), where / "out")
    return where / "out"


def both(digits: Compiled, folder: Path, values: Any) -> list[np.ndarray[Any, Any]]:
    """The model's program and the same from its folder."""
    network = atonc.load(folder)
    name = network.inputs[0].name
    return [next(iter(atonc.run(digits, {"image": values}).values())).reshape(-1),
            next(iter(atonc.run(network, {name: values}).values())).reshape(-1)]  # fmt: skip


def test_real_numbers_become_codes(digits: Compiled, folder: Path) -> None:
    tensor = digits.graph.tensors["image"]
    codes = np.arange(-32, 32, dtype=np.int8).reshape(SHAPE)
    reals = (codes.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
    wanted = both(digits, folder, codes)
    for values in (reals, reals.astype(np.float64), codes.astype(np.int64), codes.reshape(8, 8), codes.tolist()):
        for found, expected in zip(both(digits, folder, values), wanted, strict=True):
            assert np.array_equal(found, expected)
    assert not np.array_equal(wanted[0], both(digits, folder, np.zeros(SHAPE, np.float32))[0])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.full(SHAPE, 200, np.uint8), "takes int8, the data is uint8"),
        (np.full(SHAPE, 3, np.uint8), "takes int8, the data is uint8"),
        (np.full(SHAPE, 200), "takes int8, the data is int64 with values outside that range"),
        (np.zeros((5, 8, 7, 1), np.int8), "has shape 1x8x8x1, the data 5x8x7x1"),
        (np.zeros((64,), np.int8), "has shape 1x8x8x1, the data 64"),
        (np.full(SHAPE, np.nan), "not numbers, or infinite"),
        (np.full(SHAPE, "a"), "takes int8, the data is str"),
        (np.zeros(SHAPE, bool), "takes int8, the data is bool"),
        (np.zeros(SHAPE, complex), "takes int8, the data is complex"),
    ],
)
def test_what_does_not_fit_is_refused(values: Any, sentence: str, digits: Compiled, folder: Path) -> None:
    network = atonc.load(folder)
    for place, name in ((digits, "image"), (network, network.inputs[0].name)):
        with pytest.raises(InputError, match=sentence) as refused:
            atonc.run(place, {name: values})
        assert refused.value.remedy


def test_wrong_names_get_suggestions(digits: Compiled, folder: Path) -> None:
    network = atonc.load(folder)
    for place, name in ((digits, "image"), (network, network.inputs[0].name)):
        wrong = {name[:-1]: np.zeros(SHAPE, np.int8)}
        with pytest.raises(InputError, match=f"did you mean '{name}'") as refused:
            atonc.run(place, wrong)
        assert f"no value for input '{name}'" in str(refused.value)
        with pytest.raises(InputError, match="no input 'other'"):
            atonc.run(place, {name: np.zeros(SHAPE, np.int8), "other": 1})
        with pytest.raises(InputError, match="inputs are given by name"):
            atonc.run(place, np.zeros(SHAPE, np.int8))  # type: ignore[arg-type]


def test_float_inputs_take_numbers() -> None:
    floats = atonc.compile(DIGITS, verify=False, input_type="float32")
    reals = np.linspace(0, 1, 64).reshape(SHAPE)
    codes = atonc.run(atonc.compile(DIGITS, verify=False), {"image": reals})
    assert np.array_equal(atonc.run(floats, {"image": reals})["probabilities"], codes["probabilities"])


def test_an_index_outside_its_table_is_refused_where_data_comes_in(tmp_path: Path) -> None:
    """The C code would take the last row, or the first."""
    net, model, folder = Net(), tmp_path / "m.onnx", tmp_path / "network"
    there = net.node("Reshape", ["n", net.const(np.array([3]))])[0]
    y = net.node("Gather", [net.const(np.arange(10, dtype=np.float32).reshape(5, 2)), there])[0]
    model.write_bytes(model_of(net, {"n": (7, (1, 3))}, [y]))
    compiled = atonc.compile(model, allow_float=True)
    compiled.save(folder)
    good, file = np.array([[-5, 0, 4]]), tmp_path / "n.npz"
    whole = compiled.stream()({"n": good})[y]
    loaded = atonc.load(folder)
    assert np.array_equal(loaded.stream()({"n": good})[loaded.outputs[0].name].ravel(), whole.ravel())
    for wrong in (-6, 5):
        indices = np.array([[0, wrong, 4]])
        np.savez(file, n=indices)
        for refuses in (
            lambda n: compiled.stream()({"n": n}),
            lambda n: atonc.load(folder).stream()({"n": n}),
            lambda _: runs.run(RunOptions(folder, inputs=(file,))),
            lambda _: atonc.validate(compiled, file),
        ):
            with pytest.raises(InputError, match=rf"{wrong} for input n, which picks from 5 rows"):
                refuses(indices)


def test_arrays_that_are_no_numbers_say_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "given.npy"
    ragged = np.empty(2, object)
    for array, what in ((np.array(["one"]), "holds text"), (ragged, r"Python objects \(samples of different shapes"),
                        (np.zeros(2, complex), "complex numbers")):  # fmt: skip
        np.save(path, array)
        with pytest.raises(InputError, match=what) as refused:
            read_arrays(path)
        assert "numpy.stack(samples)" in refused.value.remedy
    np.savez(tmp_path / "whole.npz", x=np.zeros(99))
    for data in ((tmp_path / "whole.npz").read_bytes()[:300], b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x04\x00{a}\n"):
        path.write_bytes(data)
        with pytest.raises(InputError) as refused:
            read_arrays(path)
        assert "write it again with numpy.save" in refused.value.remedy
