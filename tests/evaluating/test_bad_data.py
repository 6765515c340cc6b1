"""What is wrong with the data is said in a sentence, before the long work begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc import evaluate
from atonc.insight.evaluating import run
from atonc.machine.base.errors import InputError
from tests.evaluating.networks import SIDE, colour_folder, colour_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colour_model(tmp_path_factory.mktemp("model") / "int8.onnx")


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: Any) -> None:
        raise AssertionError("the long work began")

    monkeypatch.setattr(run, "_work", work)


def refused(model: Path, data: Path, said: str, **more: Any) -> None:
    with pytest.raises(InputError, match=said):
        evaluate(model, data, output=data.parent / "out", **more)


def test_an_empty_folder(model: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "class").mkdir(parents=True)
    refused(model, tmp_path / "data", "holds no images")


def test_a_broken_picture(model: Path, tmp_path: Path) -> None:
    folder = colour_folder(tmp_path / "data")
    whole = (folder / "red" / "2.png").read_bytes()
    (folder / "red" / "2.png").write_bytes(whole[: len(whole) // 2])
    refused(model, folder, "2.png: cannot be read as an image")


def test_a_float_model_that_is_not_there(model: Path, tmp_path: Path) -> None:
    folder = colour_folder(tmp_path / "data")
    refused(model, folder, r"absent\.onnx: there is no such file", float_model=str(tmp_path / "absent.onnx"))


@pytest.mark.parametrize("number", [0, 1001])
def test_units_of_work_have_some_samples(model: Path, tmp_path: Path, number: int) -> None:
    refused(model, tmp_path, f"{number} samples together", samples_together=number)


def test_more_folders_than_classes(model: Path, tmp_path: Path) -> None:
    folder = colour_folder(tmp_path / "data")
    (folder / "yellow").mkdir()
    refused(model, folder, "4 folders of classes, the model has 3 classes")


def test_labels_without_classes(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 3, SIDE, SIDE), np.float32), labels=[0, 1, 3])
    refused(model, tmp_path / "data.npz", "a label 3, the model has 3 classes")


def test_no_labels_at_all(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 3, SIDE, SIDE), np.float32))
    refused(model, tmp_path / "data.npz", "no labels", metric="top")


def test_labels_in_some_files_of_a_folder(model: Path, tmp_path: Path) -> None:
    values, folder = np.zeros((3, 3, SIDE, SIDE), np.float32), tmp_path / "parts"
    folder.mkdir()
    np.savez(folder / "a.npz", x=values, labels=[0, 1, 2])
    np.savez(folder / "b.npz", x=values)
    refused(model, folder, "1 of 2 files have no labels")
    np.savez(folder / "b.npz", x=values, labels=[[0, 1], [1, 2], [2, -1]])
    refused(model, folder, "labels of some files are sequences")


def test_nothing_to_compare_with(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).random((3, 3, SIDE, SIDE), np.float32))
    refused(model, tmp_path / "data.npz", "nothing to compare with", int8=False)


def test_samples_of_another_size(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 3, SIDE, SIDE + 1), np.float32), labels=[0, 1, 2])
    refused(model, tmp_path / "data.npz", "samples of shape 3x12x13")


def test_lines_of_different_length(model: Path, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2,3\n1,2\n")
    refused(model, tmp_path / "data.csv", "line 2 of the data has 2 values")


def test_pictures_of_different_sizes_are_noted(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    folder = colour_folder(tmp_path / "data", each=1)
    Image.new("RGB", (40, 20)).save(folder / "red" / "wide.png")
    seen = {}

    def work(units: Any, count: int, *_: Any) -> list[Any]:
        seen["count"] = count
        answer = {"sides": {"NPU": {"classes": [0], "of": 3, "score": 1.0}}, "distance": {}}
        return [{"records": [answer] * count, "notes": []}]

    monkeypatch.setattr(run, "_work", work)
    found = evaluate(model, folder, output=tmp_path / "out")
    assert seen["count"] == 4
    assert any("2 sizes, from 12x12 to 40x20, all resized" in note for note in found.notes)


def test_one_sample(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 3, SIDE, SIDE), np.float32), labels=[0])
    refused(model, tmp_path / "data.npz", "1 sample: an accuracy needs many")


def test_a_float_model_of_something_else(model: Path, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 7]) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["b"])], "other", value[:1], value[1:])
    other = str(tmp_path / "other.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), other)
    refused(model, colour_folder(tmp_path / "data"), "both are the same model", float_model=other)


def coco(tmp_path: Path, **changed: Any) -> Path:
    from PIL import Image

    (tmp_path / "images").mkdir()
    for k in range(2):
        Image.new("RGB", (16, 16)).save(tmp_path / "images" / f"{k}.png")
    document = {
        "images": [{"id": k, "file_name": f"{k}.png"} for k in range(2)],
        "annotations": [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 1, 4, 4]}],
        "categories": [{"id": 1, "name": "person"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps({**document, **changed}))
    return tmp_path / "boxes.json"


BOX = {"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 1, 4, 4]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"annotations": [{**BOX, "category_id": 7}]}, "its category 7 is not listed"),
        ({"annotations": [{**BOX, "image_id": 9}]}, "its image 9 is not listed"),
        ({"annotations": [{**BOX, "bbox": [1, 2]}]}, "bbox is not x, y, width, height"),
        ({"categories": []}, "has no categories"),
        ({"images": [{"id": 0, "file_name": "0.png"}, {"id": 1, "file_name": "no.png"}]}, "there is no image"),
        ({"images": [{"id": 0, "file_name": "../../x.png"}, {"id": 1, "file_name": "1.png"}]}, "outside of its folder"),
        ({"images": 3}, "is no COCO file"),
    ],
)
def test_damaged_annotations(model: Path, tmp_path: Path, changed: Any, said: str) -> None:
    refused(model, coco(tmp_path, **changed), said)


def test_a_classifier_is_no_detector(model: Path, tmp_path: Path) -> None:
    refused(model, coco(tmp_path), "not those of YOLOv8|no detector")
