"""`atonc yolo`: where exports are cut, what data sets become, and the whole way to C."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'atonc[yolo]'")
pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'atonc[yolo]'")

from atonc.delivery.yolo import export as export_of_theirs
from atonc.delivery.yolo.data import read_data
from atonc.delivery.yolo.heads import sides, yolo_model
from atonc.doors.cli import cli
from atonc.insight.evaluating.datasets import Dataset, DatasetEntry, Fit
from atonc.insight.evaluating.decoders import decoder_for, family
from atonc.insight.evaluating.metrics import metric_for
from atonc.insight.quantizing import loading
from atonc.machine.base.errors import AtoncError, InputError
from tests.errors_said import unwrapped
from tests.yolo.exports import GRIDS, SIDE, class_folders, classifier, data_set, export


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
        ("  0: red\n  1: green", "  0: green\n  1: red", "2 classes have another name in the model"),
        ("  1: green", "  1: Green", "1 class has another name in the model: 1 is 'Green', in the model 'green'"),
        ("path: .", "path: .\nnc: 5", "nc is 5, names are 2"),
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


def test_the_number_of_classes_is_enough(tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx"))), "model.onnx")
    path = data_set(tmp_path)
    path.write_text("path: .\ntrain: images/train\nval: images/val\nnc: 2\n")
    document = read_data(path, model).validation
    assert isinstance(document, dict) and [one["name"] for one in document["categories"]] == ["red", "green"]


@pytest.mark.parametrize("text", ["", "- a\n"])
def test_a_yaml_without_keys_is_no_data_set(text: str, tmp_path: Path) -> None:
    model = yolo_model(onnx.load(str(export(tmp_path / "model.onnx"))), "model.onnx")
    path = tmp_path / "data.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="has no sections") as refusal:
        read_data(path, model)
    assert "data.yaml of the training" in refusal.value.remedy


def test_too_few_images_are_said_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = export(tmp_path / "best.onnx"), data_set(tmp_path, images=3)
    assert cli.main(["yolo", str(model), "--data", str(data), "-o", str(tmp_path / "out")]) == 2
    assert "data.yaml: train: 3 images, too few" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("foreign", [b"mine", b""])
def test_an_int8_model_of_somebody_else_stays(
    foreign: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data, there = export(tmp_path / "best.onnx"), data_set(tmp_path), tmp_path / "out" / "best_int8.onnx"
    foreign = foreign or model.read_bytes()
    there.parent.mkdir()
    there.write_bytes(foreign)
    assert cli.main(["yolo", str(model), "--data", str(data), "-o", str(there.parent)]) == 2
    assert "is there already, and not made by atonc" in " ".join(capsys.readouterr().err.split())
    assert there.read_bytes() == foreign and [one.name for one in there.parent.iterdir()] == [there.name]


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
    assert cli.main([*words, "--no-evaluate"]) == 0  # its own files are made again
    capsys.readouterr()
    assert {"best_int8.onnx", "best_float.onnx", "network.c", "network_post.c"} <= {
        Path(f).name for f in found["files"]
    }


@pytest.mark.parametrize("task", ["pose", "segment"])
def test_key_points_and_masks_reach_c(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = export(tmp_path / "best.onnx", task, bins=1, one_to_one=True), data_set(tmp_path, task)
    words = ["yolo", str(model), "--data", str(data), "-o", str(tmp_path / "out"), "--no-evaluate", "--json"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["evaluation"], found["post"]["iou"]) == (task, None, 1.0)
    header = (tmp_path / "out" / "c" / "network_post.h").read_text()
    said = {"pose": "float point_scores[2];", "segment": "void network_post_mask("}
    assert said[task] in header


def test_classes_go_the_same_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = classifier(tmp_path / "best.onnx"), class_folders(tmp_path / "set")
    words = ["yolo", str(model), "--data", str(data), "-o", str(tmp_path / "out"), "--processes", "1", "--json"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["post"], found["evaluation"]["metric"]) == ("classify", None, "top")
    assert found["evaluation"]["samples"] == 16
    (data / "val" / "red").rename(data / "val" / "zebra")
    assert cli.main(words[:-1]) == 2
    assert "1 class has another name in the model: 1 is 'zebra', in the model 'red'" in " ".join(
        capsys.readouterr().err.split()
    )
    (data / "val" / "zebra").rename(data / "val" / "red")
    (data / "val" / "blue").mkdir()
    assert cli.main(words[:-1]) == 2
    assert "3 folders of classes, the model has 2 classes" in " ".join(capsys.readouterr().err.split())


def test_a_model_that_is_int8_already_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(str(export(tmp_path / "best.onnx")))
    model.graph.node.add(op_type="QuantizeLinear", input=["images", "four", "four"], output=["codes"])
    onnx.save(model, str(tmp_path / "best.onnx"))
    words = ["yolo", str(tmp_path / "best.onnx"), "--data", str(data_set(tmp_path)), "-o", str(tmp_path / "out")]
    assert cli.main(words) == 2
    assert "the model is already quantised" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_points_are_judged_where_boxes_have_them(tmp_path: Path) -> None:
    """A network that answers one person exactly: all points near, and none where it answers nothing."""
    shapes = [(1, 4, n, n) for n in GRIDS] + [(1, 2, n, n) for n in GRIDS] + [(1, 6, n, n) for n in GRIDS]
    metric = metric_for("keypoints", {"decoder": "yolo26_heads", "anchors": (), "iou": 1.0}, shapes, (SIDE, SIDE))
    nothing = [np.full(shape, -9.0, np.float32) for shape in shapes]
    outputs = [one.copy() for one in nothing]
    outputs[0][0, :, 3, 2], outputs[3][0, 1, 3, 2] = 1.5, 4.0  # a cell of 8 pixels, the second class
    outputs[6][0, :, 3, 2] = [0.5, 0.25, 5, -1, 0, 5]
    points = [[(2.5 + 0.5) * 8, (3.5 + 0.25) * 8], [(2.5 - 1) * 8, 3.5 * 8]]
    person = {"image_id": 1, "keypoints": [v for x, y in points for v in (x, y, 2)], "bbox": [8, 16, 24, 24]}
    data = Dataset("coco", (DatasetEntry("a", Path("a"), truth={"image": 1}),), coco={"annotations": [person]})
    for given, expected in ((outputs, 1.0), (nothing, 0.0)):
        values = metric.values([metric.record(given, None, Fit())], data)  # type: ignore[arg-type]
        assert [float(one[0]) for one in values.values()] == pytest.approx([expected] * 3, abs=1e-3)


def test_an_overlap_that_is_asked_for_counts() -> None:
    """Two boxes of one class over each other: the family of YOLO26 keeps both."""
    shapes = [(1, 4, 8, 8), (1, 4, 4, 4), (1, 2, 8, 8), (1, 2, 4, 4)]
    outputs = [np.full(shape, -9.0, np.float32) for shape in shapes]
    outputs[0][0, :, 3, 2:4], outputs[2][0, 1, 3, 2:4] = 3.0, 4.0
    for iou, wanted in ((0.0, 2), (0.5, 1), (1.0, 2)):
        metric = metric_for("map", {"decoder": "yolo26_heads", "anchors": (), "iou": iou}, shapes, (SIDE, SIDE))
        assert len(metric.record(outputs, None, Fit(size=(SIDE, SIDE)))) == wanted


@pytest.mark.parametrize("bins", [1, 16])
def test_scores_of_one_class_may_have_their_channel_in_front(bins: int) -> None:
    """So a program gives them that was asked for channels last; and a float model has all channels in front."""
    grids, random = (8, 4), np.random.default_rng(3)
    last = [random.normal(0, 2, (1, n, n, width)).astype(np.float32) for width in (4 * bins, 1) for n in grids]
    mixed = [one if one.shape[3] > 1 else one.reshape(1, 1, *one.shape[1:3]) for one in last]
    first = [np.ascontiguousarray(one.transpose(0, 3, 1, 2)) for one in last]
    name = "yolov8_heads" if bins > 1 else "yolo26_heads"
    found = []
    for outputs in (last, mixed, first):
        shapes = [one.shape for one in outputs]
        assert family(shapes) == name
        found.append(decoder_for(name, (), shapes, (64, 64)).within(score=0.3, overlap=0.7, most=50)(outputs))
    assert len(found[0].scores) > 5
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].corners, other.corners)
        np.testing.assert_array_equal(found[0].scores, other.scores)


def test_a_pt_needs_their_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_of_theirs, "find_spec", lambda name: None)
    (tmp_path / "best.pt").write_bytes(b"x")
    assert cli.main(["yolo", str(tmp_path / "best.pt"), "--data", "data.yaml", "-o", str(tmp_path / "out")]) == 4
    said = capsys.readouterr().err
    assert "a .pt is read by Ultralytics' package, which is not installed" in " ".join(said.split())
    assert "yolo export model=best.pt format=onnx" in " ".join(said.split())
    assert not (tmp_path / "out").exists()


def test_their_package_exports_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes beside the file that it reads; a stand-in of it that says what it was asked for."""
    asked = []

    class Network:
        def __init__(self, path: str) -> None:
            self.path, head = Path(path), SimpleNamespace(one2one_cv2=[])
            self.model = SimpleNamespace(model=[head])

        def export(self, **words: object) -> str:
            asked.append(words)
            self.path.with_suffix(".onnx").write_bytes(b"made")
            return str(self.path.with_suffix(".onnx"))

    monkeypatch.setitem(sys.modules, "ultralytics", SimpleNamespace(YOLO=Network, __spec__=object()))
    monkeypatch.setattr(export_of_theirs, "find_spec", lambda name: object())
    (tmp_path / "out").mkdir()
    (tmp_path / "best.pt").write_bytes(b"x")
    (tmp_path / "best.onnx").write_bytes(b"of the user")
    made = export_of_theirs.exported(tmp_path / "best.pt", 64, tmp_path / "out" / "best.onnx")
    assert made.read_bytes() == b"made"
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["best.onnx"]
    assert (tmp_path / "best.onnx").read_bytes() == b"of the user"
    assert asked == [{"format": "onnx", "simplify": False, "dynamic": False, "batch": 1, "nms": False, "imgsz": 64}]


def test_what_is_no_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "best.pth").write_bytes(b"x")
    assert cli.main(["yolo", str(tmp_path / "best.pth"), "--data", "data.yaml"]) == 2
    said = unwrapped(capsys.readouterr().err)
    assert "best.pth: is no ONNX file" in said
    assert "fix: yolo export model=best.pth format=onnx" in said
    (tmp_path / "best.tflite").write_bytes(b"x")
    assert cli.main(["yolo", str(tmp_path / "best.tflite"), "--data", "data.yaml"]) == 2
    assert "fix: yolo export model=best.pt format=onnx" in capsys.readouterr().err


def test_an_export_that_leaves_its_size_open_is_as_it_was_trained(tmp_path: Path) -> None:
    model = onnx.load(str(export(tmp_path / "model.onnx")))
    with pytest.raises(InputError, match="an export has its size"):
        sides(model, SIDE)
    for axis, name in ((2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    assert sides(model, 96) == {"height": 96, "width": 96} and sides(model, 0) == {}
    for text, found in (("[64, 32]", {"height": 64, "width": 32}), ("'64'", {}), ("[64]", {}), ("[0.5, 1]", {})):
        del model.metadata_props[1:]
        model.metadata_props.add(key="imgsz", value=text)
        assert sides(model, 0) == found
    model.metadata_props[1].value = "[64, 64]"
    assert yolo_model(loading.fixed(model, sides(model, 0), "model.onnx"), "model.onnx").side == (64, 64)
