"""Constants in a file beside the model: read from the model's own folder, nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.frontends.limits import data_files, model_bytes
from atonc.insight.quantizing.loading import load
from atonc.insight.workers.unit import digest
from atonc.machine.base.errors import AtoncError
from tests.quantizing.float_models import network

onnx = pytest.importorskip("onnx")


def _apart(folder: Path, place: str = "m.onnx.data") -> Path:
    """As PyTorch's exporter writes it."""
    path = folder / "m.onnx"
    onnx.save_model(network(), path, save_as_external_data=True, location="m.onnx.data", size_threshold=16)
    model = onnx.load(path, load_external_data=False)
    for constant in model.graph.initializer:
        for entry in constant.external_data:
            entry.value = place if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    return path


def _weights(model: Any) -> dict[str, Any]:
    return {constant.name: onnx.numpy_helper.to_array(constant) for constant in model.graph.initializer}


def test_a_model_with_its_data_beside_it_is_the_same_model(tmp_path: Path) -> None:
    path = _apart(tmp_path)
    assert not onnx.load(path, load_external_data=False).graph.initializer[0].raw_data
    whole = _weights(onnx.ModelProto.FromString(model_bytes(path)))
    for name, values in _weights(network()).items():
        np.testing.assert_array_equal(whole[name], values)
    assert load(path).graph.node


def test_a_model_in_one_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(network(), path)
    assert model_bytes(path) == path.read_bytes() and data_files(path) == ()


def test_who_names_a_model_by_its_hash_sees_other_data(tmp_path: Path) -> None:
    path = _apart(tmp_path)
    (data,) = data_files(path)
    before = digest(path)
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:] + b"\0")
    assert digest(path) != before


OUTSIDE = ["n" * 5000, "../m.onnx.data", "/etc/hostname", "C:\\data", "\\\\host\\share", "", "a\0b", "link"]


@pytest.mark.parametrize("place", OUTSIDE)
def test_files_elsewhere_are_not_read(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    path = _apart(folder, place)
    (tmp_path / "m.onnx.data").write_bytes((folder / "m.onnx.data").read_bytes())
    (folder / "link").symlink_to(tmp_path / "m.onnx.data")
    with pytest.raises(AtoncError, match="not in its folder"):
        model_bytes(path)


def test_a_file_that_was_left_behind_is_named(tmp_path: Path) -> None:
    path = _apart(tmp_path)
    (tmp_path / "m.onnx.data").unlink()
    with pytest.raises(AtoncError, match=r"m\.onnx\.data(?s:.*)not there"):
        model_bytes(path)


@pytest.mark.parametrize(("key", "value"), [("offset", "999999999"), ("length", "999999999"), ("offset", "-1")])
def test_values_outside_the_file_are_refused(tmp_path: Path, key: str, value: str) -> None:
    path = _apart(tmp_path)
    model = onnx.load(path, load_external_data=False)
    entry = next(e for c in model.graph.initializer for e in c.external_data if e.key == key)
    entry.value = value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(AtoncError, match="bytes"):
        model_bytes(path)
