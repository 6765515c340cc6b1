"""Labels of samples: figures of the task in float and quantised, on the halves that taught nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from atonc.doors.cli.cli import main
from atonc.insight.evaluating.datasets import Dataset, DatasetEntry
from atonc.insight.quantizing.judge import LabelledTask
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.samples import read_samples
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import InputError
from tests.quantizing.float_models import Build, save

COUNT, WRONG = 40, (0, 1, 2, 10, 33)
FEW: dict[str, Any] = {"objective": "accuracy", "correct_rounding": False, "equalise": False}


def labelled_classes(folder: Path, more: int = 0) -> tuple[Path, Path]:
    """A layer that anybody can multiply out; five of forty samples have another label than its largest output."""
    b = Build()
    weights = b.random.normal(0, 1, (8, 4))
    w, bias = b.constant("w", weights), b.constant("b", np.zeros(4))
    model = save(folder, b.model({"x": (1, 8)}, [b.node("Gemm", ["x", w, bias], "y")]))
    x = np.random.default_rng(2).normal(size=(COUNT, 8)).astype(np.float32)
    labels = (x @ weights).argmax(1)
    labels[list(WRONG)] = (labels[list(WRONG)] + 1) % 4
    np.savez(folder / "data.npz", x=x, labels=labels + more)
    return model, folder / "data.npz"


def test_classes_in_float_and_quantised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = labelled_classes(tmp_path)
    words = ["quantize", str(model), "--data", str(data), "--objective", "accuracy", "-o", str(tmp_path / "q.onnx")]
    assert main([*words, "--page", str(tmp_path / "q.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["task"]
    (ours,), (theirs,), (lost,) = found["quantised"], found["float"], found["difference"]
    assert theirs["value"] == 1 - len(WRONG) / COUNT and theirs["samples"] == COUNT
    assert 0.75 <= ours["value"] <= 0.95 and lost["value"] == pytest.approx(ours["value"] - theirs["value"])
    assert lost["low"] < lost["value"] < lost["high"] and lost["low"] < 0 < lost["high"]
    page = (tmp_path / "q.html").read_text()
    assert "by the labels" in page and "on the same samples" in page
    for few in (10, COUNT):  # of fewer samples the same labels: the first is wrong in both
        taken = read_samples(data, {"x": (1, 8)}, QuantizeOptions(samples=few))
        with np.load(data) as file:
            rows = [int(np.flatnonzero((file["x"] == feed["x"]).all(1))[0]) for feed in taken.feeds]
            assert taken.data and [one.truth for one in taken.data.entries] == file["labels"][rows].tolist()


def test_files_of_a_folder_bring_their_labels(tmp_path: Path) -> None:
    """In the order of the files; where some have none, or of another kind, none count and a note says so."""
    model, whole = labelled_classes(tmp_path)
    folder = tmp_path / "parts"
    (folder / "later").mkdir(parents=True)
    with np.load(whole) as file:
        x, labels = file["x"], file["labels"]
    np.savez(folder / "a.npz", x=x[:25], labels=labels[:25])
    np.savez(folder / "later" / "b.npz", x=x[25:], labels=labels[25:])
    one, parts = (read_samples(path, {"x": (1, 8)}, QuantizeOptions()) for path in (whole, folder))
    assert one.data and parts.data and parts.data.kind == one.data.kind == "arrays"
    assert [entry.truth for entry in parts.data.entries] == [entry.truth for entry in one.data.entries]
    np.testing.assert_array_equal([feed["x"] for feed in parts.feeds], [feed["x"] for feed in one.feeds])
    made = quantize(model, folder, QuantizeOptions(**FEW)).task
    assert made and made["float"][0].value == 1 - len(WRONG) / COUNT
    for rest, why in ({}, "1 of 2 files"), ({"labels": np.stack([labels[25:]] * 2, 1)}, "labels of some files"):
        np.savez(folder / "later" / "b.npz", x=x[25:], **rest)
        taken = read_samples(folder, {"x": (1, 8)}, QuantizeOptions())
        assert taken.data is None
        assert any("labels are not used: " in note and why in note for note in taken.notes)
    (folder / "a.npz").unlink()
    np.savez(folder / "later" / "b.npz", x=x)
    taken = read_samples(folder, {"x": (1, 8)}, QuantizeOptions())
    assert taken.data and not taken.data.labelled and not any("labels" in note for note in taken.notes)


def test_labels_that_do_not_fit_are_noted_and_refused_where_they_were_asked_for(tmp_path: Path) -> None:
    model, data = labelled_classes(tmp_path, more=1)
    found = quantize(model, data, QuantizeOptions(**FEW))
    assert not found.task and any("labels are not used: " in note and "a label 4" in note for note in found.notes)
    with pytest.raises(InputError, match="a label 4"):
        quantize(model, data, QuantizeOptions(metric="top", **FEW))


def test_masks_beside_images_are_no_samples(tmp_path: Path) -> None:
    """Red against green, pixel by pixel; the last mask of ten says the opposite in its upper half."""
    from PIL import Image

    b = Build()
    w = b.constant("w", np.eye(3)[:2, :, None, None])
    model = save(tmp_path, b.model({"x": (1, 3, 8, 8)}, [b.node("Conv", ["x", w], "y")]))
    random, folder = np.random.default_rng(1), tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    for k in range(10):
        mask = random.integers(0, 2, (8, 8)).astype(np.uint8)
        Image.fromarray((np.eye(3)[mask] * 200).astype(np.uint8)).save(folder / "images" / f"{k}.png")
        mask[:4] ^= k == 9
        Image.fromarray(mask).save(folder / "masks" / f"{k}.png")
    found = quantize(model, folder, QuantizeOptions(**FEW))
    assert found.samples == 10
    for side in ("float", "quantised"):
        assert {one.name: one.value for one in found.task[side]}["right pixels"] == pytest.approx(1 - 32 / 640)
    assert [one.value for one in found.task["difference"]] == [0.0, 0.0]


def test_boxes_are_those_of_the_picture(tmp_path: Path) -> None:
    """Pictures of 128 x 64 for an input of 64 x 64; of four boxes the quantised model moves one away."""
    pytest.importorskip("pycocotools")
    entries = tuple(DatasetEntry(str(k), Path("x"), truth={"image": k}, size=(128, 64)) for k in range(4))
    told = [{"id": k, "image_id": k, "category_id": 1, "bbox": [40, 10, 32, 16]} for k in range(4)]
    coco = {"images": [{"id": k} for k in range(4)], "annotations": told, "categories": [{"id": 1, "name": "a"}]}
    answer = np.zeros((1, 5, 6))
    answer[0, :, 2] = [28, 18, 16, 16, 0.9]  # centre, size in pixels of the input, score
    moved = answer + np.array([20.0, 0, 0, 0, 0])[None, :, None] * (answer[:, 4:] > 0)
    task = LabelledTask.of(
        Dataset("coco", entries, ("a",), coco=coco), (64, 64), [[answer]] * 4, QuantizeOptions(decoder="yolov8")
    )
    found = task.figures([[answer]] * 3 + [[moved]])
    values = {by: {one.name: one.value for one in figures} for by, figures in found.items()}
    assert values["float"]["mAP50"] == 1.0 and values["quantised"]["mAP50"] < 0.8
    assert values["difference"]["mAP50"] == pytest.approx(values["quantised"]["mAP50"] - 1.0)
    assert found["difference"][1].low < values["difference"]["mAP50"] < found["difference"][1].high <= 0.0
