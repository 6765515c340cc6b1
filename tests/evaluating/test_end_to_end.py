"""From the command line to figures that can be worked out by hand: boxes, key points, masks; a lost worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import atonc
from atonc.doors.cli.cli import main
from tests.evaluating.networks import colour_folder, colour_model
from tests.patience import until

SIDE, CELL = 16, 4
RED, GREEN = (255, 0, 0), (0, 255, 0)


class Net:
    """Colours of a picture as a quantised network; every value between 0 and 1, in codes of 1/255."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.step = self.constant("step", np.float32(1 / 255)), self.constant("zero", np.int8(-128))

    def constant(self, name: str, value: Any) -> str:
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **more: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **more))
        return output

    def rounded(self, name: str, output: str = "") -> str:
        codes = self.node("QuantizeLinear", [name, *self.step], f"{name}_codes")
        return self.node("DequantizeLinear", [codes, *self.step], output or f"{name}_real")

    def colours(self, size: int, channels: int) -> str:
        """Red, green, ... of every square of so many pixels."""
        codes = np.zeros((channels, 3, size, size), np.int8)
        codes[range(channels), range(channels)] = 127
        scale = self.constant("w_scale", np.float32(1 / 127 / size**2))
        weights = self.node(
            "DequantizeLinear", [self.constant("w", codes), scale, self.constant("w_zero", np.int8(0))], "w_real"
        )
        conv = {"kernel_shape": [size, size], "strides": [size, size]}
        return self.rounded(self.node("Conv", [self.rounded("x"), weights], "y", **conv))

    def save(self, path: Path, output: str, shape: list[int]) -> Path:
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", [1, 3, SIDE, SIDE]), (output, shape))
        ]
        graph = helper.make_graph(self.nodes, "colours", ends[:1], ends[1:], self.tensors)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
        return path


def evaluated(model: Path, data: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, float]]:
    """The figures of each side, by their names."""
    words = ["evaluate", str(model), "--data", str(data), "--processes", "1", "--json", *more]
    assert main([*words, "-o", str(data.parent / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (data.parent / "out" / "evaluation.html").stat().st_size > 1000
    sides = {**found["figures"], f"NPU-{found['yardstick']}": found["differences"]}
    return {side: {f["name"]: f["value"] for f in figures} for side, figures in sides.items()}


def pictures(folder: Path, squares: list[list[tuple[int, int, int, tuple[int, int, int]]]]) -> None:
    """Draws the squares of every picture: column, row, size, colour."""
    from PIL import Image

    folder.mkdir()
    for number, some in enumerate(squares):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        for column, row, size, colour in some:
            pixels[row : row + size, column : column + size] = colour
        Image.fromarray(pixels).save(folder / f"{number}.png")


def coco(path: Path, count: int, annotations: list[dict[str, Any]], classes: int) -> Path:
    images = [{"id": k, "file_name": f"{k}.png", "width": SIDE, "height": SIDE} for k in range(count)]
    listed = [{"id": k + 1, "area": 16.0, "iscrowd": 0, **one} for k, one in enumerate(annotations)]
    categories = [{"id": k + 1, "name": f"class {k}"} for k in range(classes)]
    path.write_text(json.dumps({"images": images, "annotations": listed, "categories": categories}))
    return path


def test_boxes_of_a_detector_through_decoder_and_pycocotools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A square of a colour is an object. Of five red ones in the annotations one is not in its picture."""
    pytest.importorskip("pycocotools")
    net, cells = Net(), SIDE // CELL
    scores = net.node("Reshape", [net.colours(CELL, 2), net.constant("rows", np.array([1, 2, cells**2]))], "scores")
    places = np.stack([np.arange(cells**2) % cells, np.arange(cells**2) // cells])
    boxes = np.concatenate([(places + 0.5) * CELL / SIDE, np.full((2, cells**2), CELL / SIDE)])
    codes = net.constant("boxes", (np.rint(boxes * 255) - 128).astype(np.int8)[None])
    both = net.node("Concat", [net.node("DequantizeLinear", [codes, *net.step], "places"), scores], "both", axis=1)
    model = net.save(tmp_path / "int8.onnx", net.rounded(both, "found"), [1, 6, cells**2])
    drawn = [(0, 0, RED), (4, 8, RED), (8, 4, GREEN), (12, 12, RED), (0, 8, GREEN), (8, 8, RED)]
    pictures(tmp_path / "images", [[(x, y, CELL, colour)] for x, y, colour in drawn])
    truth = [{"image_id": k, "category_id": 1 + (colour == GREEN), "bbox": [x, y, CELL, CELL]}
             for k, (x, y, colour) in enumerate(drawn)]  # fmt: skip
    truth.append({"image_id": 0, "category_id": 1, "bbox": [8, 0, CELL, CELL]})  # nothing is there
    found = evaluated(model, coco(tmp_path / "boxes.json", len(drawn), truth, 2), capsys, "--decoder", "yolov8")
    expected = (81 / 101 + 1) / 2  # red: recall 4 of 5, so 81 of COCO's 101 places have precision 1
    for side in ("NPU", "int8"):
        assert found[side]["mAP"] == pytest.approx(expected, abs=1e-4), side
        assert found[side]["mAP50"] == pytest.approx(expected, abs=1e-4)
    curves = json.loads((tmp_path / "out" / "evaluation.json").read_text())["curves"]["NPU"]
    told = [(curve["name"], curve["positives"]) for curve in curves]
    assert told == [("all classes", 7), ("class 0", 5), ("class 1", 2)]
    assert curves[1]["precision"] == [1.0] * 81 + [0.0] * 20 and curves[2]["precision"] == [1.0] * 101
    assert curves[0]["average_precision"] == pytest.approx(expected, abs=1e-4)
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert page.count("class='curves'") == 3 and "overlaps one of its class by half" in page


def test_key_points_of_heat_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The red pixel is one point, the green one the other; in one of four pictures both are not where annotated."""
    net = Net()
    maps = net.node("Transpose", [net.colours(1, 2)], "maps", perm=[0, 2, 3, 1])
    model = net.save(tmp_path / "int8.onnx", maps, [1, SIDE, SIDE, 2])
    places = [((3, 4), (10, 12)), ((0, 15), (7, 7)), ((8, 1), (2, 9)), ((1, 1), (2, 2))]
    pictures(tmp_path / "images", [[(*one, 1, RED), (*two, 1, GREEN)] for one, two in places])
    told = [*places[:3], ((14, 14), (13, 13))]
    truth = [{"image_id": k, "category_id": 1, "bbox": [0, 0, SIDE, SIDE], "area": 100.0,
              "keypoints": [v for x, y in both for v in (x + 0.5, y + 0.5, 2)]}
             for k, both in enumerate(told)]  # fmt: skip
    found = evaluated(model, coco(tmp_path / "points.json", len(places), truth, 1), capsys)
    assert found["NPU"]["OKS"] == pytest.approx(0.75, abs=1e-6) and found["int8"] == found["NPU"]


def test_sequences_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Squares of colours, row by row, are steps; blue is the blank. Two of ten labels are not what is drawn."""
    net, cells = Net(), SIDE // CELL
    rows = net.node("Reshape", [net.colours(CELL, 3), net.constant("rows", np.array([1, 3, cells**2]))], "flat")
    model = net.save(tmp_path / "int8.onnx", net.node("Transpose", [rows], "steps", perm=[0, 2, 1]), [1, cells**2, 3])
    drawn = ["rrbrggbbgbbbbbbr", "bbbbgbbbbbbbbrrr", "gggggggggggggggg", "rbrbrbbbbbbbbbbb"]
    told = [[0, 0, 1, 1, 0], [1, 0, -1, -1, -1], [0, -1, -1, -1, -1], [0, 0, -1, -1, -1]]  # wrong: a g, an r too few
    steps = np.array([["rgb".index(step) for step in one] for one in drawn]).reshape(-1, cells, cells)
    pixels = np.eye(3, dtype=np.float32)[steps].transpose(0, 3, 1, 2).repeat(CELL, 2).repeat(CELL, 3)
    np.savez(tmp_path / "data.npz", x=pixels, labels=np.array(told))
    found = evaluated(model, tmp_path / "data.npz", capsys, "--blank", "-1")
    assert found["NPU"] == found["int8"] == {"error rate": pytest.approx(2 / 10), "all right": 0.5}
    assert found["NPU-int8"] == {"error rate": 0.0, "all right": 0.0}
    assert main(["evaluate", str(model), "--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "no")]) != 0
    assert "--blank N" in capsys.readouterr().err  # 0 is a label


def test_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Left half red, right half green; one mask of two says that the lower half of the red part is green."""
    from PIL import Image

    net, folder = Net(), tmp_path / "data"
    model = net.save(tmp_path / "int8.onnx", net.colours(1, 2), [1, 2, SIDE, SIDE])
    folder.mkdir()
    pictures(folder / "images", [[(0, 0, SIDE, GREEN), (0, 0, 8, RED), (0, 8, 8, RED)]] * 2)
    (folder / "masks").mkdir()
    mask = np.repeat(np.arange(SIDE)[None] >= 8, SIDE, 0).astype(np.uint8)
    for number in range(2):
        mask[8:, :8] = number
        Image.fromarray(mask).save(folder / "masks" / f"{number}.png")
    found = evaluated(model, folder, capsys)
    red, green, moved = 256, 256, 64  # pixels of both pictures as the network says, and what the masks say otherwise
    expected = ((red - moved) / red + green / (green + moved)) / 2
    values = list(found["NPU"].values())
    assert values[0] == pytest.approx(expected) and values[1] == pytest.approx(1 - moved / 512)
    assert found["int8"] == found["NPU"]


def test_a_killed_worker_of_a_cluster_changes_no_byte_of_an_evaluation(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    model, folder = colour_model(tmp_path / "int8.onnx"), colour_folder(tmp_path / "data", each=10)

    def started(name: str, *more: str) -> subprocess.Popen[bytes]:
        words = ["evaluate", str(model), "--data", str(folder), "-o", str(tmp_path / name), "-q", *more]
        command = [sys.executable, "-m", "atonc", *words, "--samples-together", "1", "--no-int8"]
        more_words = {"PYTHONPATH": str(Path(atonc.__file__).parents[1]), "SOURCE_DATE_EPOCH": "0"}
        return subprocess.Popen(command, env=os.environ | more_words)

    assert started("here", "--processes", "1").wait() == 0
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
        victim = cluster.workers[0].pid
        process = started("there", "--scheduler", cluster.scheduler_address)
        until(lambda: len(list((tmp_path / "there" / "units").glob("??/*"))) >= 3)
        os.kill(victim, signal.SIGKILL)
        done = len(list((tmp_path / "there" / "units").glob("??/*")))
        assert process.wait(300) == 0
    assert 3 <= done < 30  # in the middle
    one, two = ({str(p.relative_to(tmp_path / n)): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()}
                for n in ("here", "there"))  # fmt: skip
    assert one == two and len(one) == 33
