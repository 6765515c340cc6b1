"""The network that ends with decoded boxes, beside the formulas in double precision, and the folder for ST's
application."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'atonc[yolo]'")
pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'atonc[yolo]'")

from atonc.delivery.deploy.config import class_names, read_config
from atonc.delivery.yolo.decoded import SHARES, decoded
from atonc.delivery.yolo.heads import BINS, DETECT, YoloModel
from atonc.doors.cli import cli
from tests.yolo.exports import CLASSES, data_set, export

SIZES = ((16, 24), (8, 12), (4, 6))


def heads(bins: int, scale: float) -> tuple[onnx.ModelProto, YoloModel]:
    """Codes of heads in, what they stand for out: the end of a quantised network."""
    rows = [(f"{part}{k}", [1, width, *size]) for part, width in (("box", 4 * bins), ("score", 2))
            for k, size in enumerate(SIZES)]  # fmt: skip
    zero = -128 if bins == 1 else 3
    tensors = [
        numpy_helper.from_array(np.float32(scale), "decoded_scale"),
        numpy_helper.from_array(np.int8(zero), "zero"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", [f"{name}_codes", "decoded_scale", "zero"], [name]) for name, _ in rows
    ]
    inputs = [helper.make_tensor_value_info(f"{name}_codes", TensorProto.INT8, shape) for name, shape in rows]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in rows]
    graph = helper.make_graph(nodes, "heads", inputs, outputs, tensors)
    family = "yolov8_heads" if bins > 1 else "yolo26_heads"
    model = YoloModel(DETECT, CLASSES, (192, 128), family, tuple(name for name, _ in rows))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model


def exact(boxes: list[np.ndarray], scores: list[np.ndarray], bins: int) -> np.ndarray:
    """[4 + classes, boxes]: a box reaches l, t, r, b strides from the middle of its cell."""
    found = []
    for box, score in zip(boxes, scores, strict=True):
        height, width = box.shape[2:]
        places = box.reshape(4, bins, -1)
        weights = np.exp(places - places.max(1, keepdims=True))
        left, top, right, bottom = (
            (weights * np.arange(bins)[:, None]).sum(1) / weights.sum(1) if bins > 1 else places[:, 0]
        )
        y, x = np.divmod(np.arange(height * width), width)
        x1, y1, x2, y2 = x + 0.5 - left, y + 0.5 - top, x + 0.5 + right, y + 0.5 + bottom
        corners = [(x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height]
        found.append(np.concatenate([np.stack(corners), 1 / (1 + np.exp(-score.reshape(2, -1)))]))
    return np.concatenate(found, 1)


@pytest.mark.parametrize(("bins", "scale", "steps"), [(BINS, 0.5, 4.0), (1, 0.008, 1.6)])
def test_decoded_boxes_are_near_the_formulas(bins: int, scale: float, steps: float) -> None:
    """In steps of 1/255. Random places are the worst for a rounded softmax: trained ones are beside each other."""
    from onnxruntime import InferenceSession

    network, model = heads(bins, scale)
    made = decoded(network, model, "here")
    session = InferenceSession(made.SerializeToString())
    random, seen = np.random.default_rng(1), []
    for _ in range(20):
        codes = {one.name: random.integers(-128, 128, one.shape).astype(np.int8) for one in session.get_inputs()}
        (found,) = session.run(None, codes)
        assert found.dtype == np.int8 and found.shape == (1, 6, 504)
        zero = -128 if bins == 1 else 3
        real = [(codes[f"{name}_codes"].astype(np.float64) - zero) * scale for name in model.outputs]
        wanted = np.clip(exact(real[:3], real[3:], bins), 0, 1)
        seen.append(np.abs((found[0].astype(np.float64) - SHARES[1]) * SHARES[0] - wanted) / SHARES[0])
    away = np.array(seen)
    assert away[:, 4:].max() < 0.51
    assert np.quantile(away[:, :4], 0.99) < steps and np.median(away[:, :4]) < 1


def test_distances_in_float_are_refused() -> None:
    network, model = heads(1, 0.01)
    network.graph.node[0].op_type = "Cast"
    with pytest.raises(Exception, match="distances without codes"):
        decoded(network, model, "here")


@pytest.mark.parametrize("one_to_one", [False, True])
def test_a_folder_for_the_application(one_to_one: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = export(tmp_path / "best.onnx", bins=1 if one_to_one else BINS, one_to_one=one_to_one)
    words = ["yolo", str(model), "--data", str(data_set(tmp_path)), "-o", str(tmp_path / "out"), "--no-evaluate"]
    assert cli.main([*words, "--getting-started", "--conf", "0.4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["getting_started"]
    assert found["network"]["verify"]["layers"] > 5
    assert all(Path(file).is_file() for file in found["files"])
    folder = tmp_path / "out" / "getting_started"
    config = read_config(folder / "deployment.yaml")
    assert config.model_file() == folder / "best_boxes.onnx"
    assert (config.use_case, config.board, class_names(config)) == ("object_detection", "STM32N6570-DK", CLASSES)
    said = dict(
        line.split(None, 2)[1:] for line in (folder / "app_config.h").read_text().splitlines() if "_PP_" in line
    )
    assert said == {
        "AI_OD_YOLOV8_PP_NB_CLASSES": "(2)", "AI_OD_YOLOV8_PP_TOTAL_BOXES": "(84)",
        "AI_OD_YOLOV8_PP_MAX_BOXES_LIMIT": "(20)", "AI_OD_YOLOV8_PP_CONF_THRESHOLD": "(0.4)",
        "AI_OD_YOLOV8_PP_IOU_THRESHOLD": f"({1.0 if one_to_one else 0.7})",
        "AI_OD_YOLOV8_PP_SCALE": "(0.003921568859368563)", "AI_OD_YOLOV8_PP_ZERO_POINT": "(-128)",
    }  # fmt: skip


def test_the_application_shows_boxes_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = export(tmp_path / "best.onnx", "pose"), data_set(tmp_path, "pose")
    words = ["yolo", str(model), "--data", str(data), "-o", str(tmp_path / "out"), "--getting-started"]
    assert cli.main(words) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert "--getting-started, and a model for the task 'pose'" in said and "leave out --getting-started" in said
    assert not (tmp_path / "out").exists()
