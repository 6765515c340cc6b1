"""`atonc yolo`: where exports are cut, what data sets become, and the whole way to C."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'atonc[yolo]'")
pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'atonc[yolo]'")

from atonc.delivery.yolo.data import read_data
from atonc.delivery.yolo.heads import yolo_model
from atonc.doors.cli import cli
from atonc.machine.base.errors import AtoncError, InputError
from tests.yolo.exports import SIDE, data_set, export


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("task", "bins"), [("detect", 16), ("detect", 1), ("pose", 16), ("segment", 1)])
def test_an_export_is_cut_at_its_last_convolutions(task: str, bins: int, named: bool, tmp_path: Path) -> None:
    model = onnx.load(str(export(tmp_path / "model.onnx", task, bins, named)))
    found = yolo_model(model, "model.onnx")
    widths = [(64 if bins > 1 else 4), 2, *({"pose": [6], "segment": [8]}.get(task, []))]
    stored = {proto.name: list(proto.dims) for proto in model.graph.initializer}
    inside = {node.output[0]: stored[node.input[1]][0] for node in model.graph.node if node.op_type == "Conv"}
    expected = [width for width in widths for _ in range(3)]
    assert [inside[name] for name in found.outputs[: len(expected)]] == expected
    assert found.outputs[len(expected) :] == (("output1",) if task == "segment" else ())
    assert (found.task, found.names, found.side) == (task, ("red", "green"), (SIDE, SIDE))
    assert (found.family, found.suppressed, found.points) == (
        "yolov8_heads" if bins > 1 else "yolo26_heads", False, 2 if task == "pose" else 0
    )  # fmt: skip


def test_a_head_that_gives_its_best_boxes_needs_no_suppression(tmp_path: Path) -> None:
    found = yolo_model(onnx.load(str(export(tmp_path / "model.onnx", bins=1, one_to_one=True))), "model.onnx")
    assert found.suppressed
    assert len(found.outputs) == 6


def test_labels_become_a_coco_file(tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx", "pose"))), "model.onnx")
    found = read_data(data_set(tmp_path, "pose"), model)
    assert (found.said, found.images) == ("train", tmp_path / "images")
    document = found.validation
    assert isinstance(document, dict)
    assert len(document["images"]) == len(document["annotations"]) == 10
    first = document["annotations"][0]
    text = (tmp_path / "labels" / "val" / "0.txt").read_text().split()
    x, y, w, h = (float(v) for v in text[1:5])
    np.testing.assert_allclose(first["bbox"], [(x - w / 2) * 80, (y - h / 2) * 48, w * 80, h * 48], atol=1e-3)
    assert first["keypoints"][2::3] == [2, 0]
    assert first["category_id"] == int(text[0])


def test_outlines_become_boxes(tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx", "segment"))), "model.onnx")
    document = read_data(data_set(tmp_path, "segment"), model).validation
    assert isinstance(document, dict)
    np.testing.assert_allclose([one["bbox"][2:] for one in document["annotations"]], [[24, 20]] * 10, atol=1e-3)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("val: images/val", "", "has no val"),
        ("val: images/val", "val: elsewhere", "val: there is no"),
        ("  1: green", "  1: green\n  2: blue", "3 classes, the model has 2"),
        ("  1: green", "  7: green", "has no names of classes"),
        ("names:\n  0: red\n  1: green\n", "", "has no names of classes"),
        ("path: .", "path: [", "is no YAML"),
    ],
)
def test_a_data_set_that_does_not_fit_is_refused(before: str, after: str, said: str, tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx"))), "model.onnx")
    path = data_set(tmp_path)
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(InputError, match=said) as refusal:
        read_data(path, model)
    assert refusal.value.where.startswith(str(path))


@pytest.mark.parametrize("row", ["0 0.5 0.5 0.1", "2 0.5 0.5 0.1 0.1", "0 60 40 10 10", "nan 0 0 0 0", "a b c d e"])
def test_a_label_that_makes_no_sense_names_its_line(row: str, tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx"))), "model.onnx")
    path = data_set(tmp_path)
    (tmp_path / "labels" / "val" / "3.txt").write_text(f"0 0.5 0.5 0.1 0.1\n{row}\n")
    with pytest.raises(InputError, match="is no label") as refusal:
        read_data(path, model)
    assert refusal.value.where.endswith("3.txt:2")


def test_other_models_are_refused(tmp_path: Path) -> None:
    model = onnx.load(str(export(tmp_path / "model.onnx")))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    with pytest.raises(InputError, match=r"instead of one image") as refusal:
        yolo_model(model, "model.onnx")
    assert "dynamic=False" in refusal.value.remedy
    model = onnx.load(str(tmp_path / "model.onnx"))
    model.metadata_props[0].value = "obb"
    with pytest.raises(AtoncError, match="a model for the task 'obb'"):
        yolo_model(model, "model.onnx")
    model.metadata_props[0].value = "pose"
    with pytest.raises(AtoncError, match="the ends of a YOLO head were not found"):
        yolo_model(model, "model.onnx")


def test_from_an_export_to_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = export(tmp_path / "best.onnx"), data_set(tmp_path)
    words = ["yolo", str(model), "--data", str(data), "-o", str(tmp_path / "out"), "--processes", "1", "--json"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["document"], found["task"], found["classes"]) == ("yolo", "detect", ["red", "green"])
    figures = found["evaluation"]["figures"]
    assert {side: [one["name"] for one in rows] for side, rows in figures.items()} == {
        "NPU": ["mAP", "mAP50"], "float": ["mAP", "mAP50"]
    }  # fmt: skip
    assert found["evaluation"]["samples"] == 10
    assert (found["post"]["family"], found["post"]["classes"], found["post"]["iou"]) == ("yolov8_heads", 2, 0.7)
    assert found["network"]["verify"]["layers"] > 5
    assert all(Path(file).is_file() for file in found["files"])
    assert {"best_int8.onnx", "best_float.onnx", "network.c", "network_post.c"} <= {
        Path(f).name for f in found["files"]
    }


def test_what_is_no_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "best.pth").write_bytes(b"x")
    assert cli.main(["yolo", str(tmp_path / "best.pth"), "--data", "data.yaml"]) == 2
    said = capsys.readouterr().err
    assert "best.pth: is no ONNX file" in said
    assert "fix: yolo export model=best.pth format=onnx" in said
