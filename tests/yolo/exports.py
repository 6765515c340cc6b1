"""Small networks as Ultralytics' exporter writes them, and their data sets: made here, so that no test needs the
package. Weights are random; an object is a bright square, which the networks do not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE, CLASSES = 64, ("red", "green")
GRIDS = (8, 4, 2)
MORE = {"detect": 0, "pose": 6, "segment": 8}


def export(path: Path, task: str = "detect", bins: int = 16, named: bool = True, one_to_one: bool = False) -> Path:
    """`named`: layers have the names that the exporter gives; `one_to_one`: ends with the best boxes."""
    random, nodes, tensors = np.random.default_rng(4), list[onnx.NodeProto](), list[onnx.TensorProto]()

    def constant(name: str, value: object) -> str:
        tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(x: str, name: str, inside: int, outside: int, kernel: int = 1, stride: int = 1) -> str:
        weights = random.normal(0, 1 / np.sqrt(inside * kernel * kernel), (outside, inside, kernel, kernel))
        edges = [x, constant(f"{name}.weight", weights.astype(np.float32)),
                 constant(f"{name}.bias", random.normal(0, 0.3, outside).astype(np.float32))]  # fmt: skip
        made = helper.make_node(
            "Conv", edges, [f"{name}_out"], f"/{name}", kernel_shape=[kernel] * 2, strides=[stride] * 2
        )
        nodes.append(made)
        return f"{name}_out"

    def node(kind: str, inputs: list[str], name: str, **values: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], f"/{name}", **values))
        return name

    x, features, width = "images", list[tuple[str, int]](), 3
    for level, stride in enumerate((8, 2, 2)):
        x = node("Relu", [conv(x, f"model.{level}.conv", width, 16, stride, stride)], f"relu{level}")
        features.append((x, 16))
        width = 16
    groups = [("cv2", 4 * bins), ("cv3", len(CLASSES)), *([("cv4", MORE[task])] if MORE[task] else [])]
    parts = dict[str, str]()
    for role, channels in groups:
        flat = []
        for level, (feature, inside) in enumerate(features):
            name = f"model.9.{role}.{level}.2" if named else f"layer.{channels}.{level}"
            shape = constant(f"{role}{level}_shape", np.array([1, channels, -1], np.int64))
            flat.append(node("Reshape", [conv(feature, name, inside, channels), shape], f"{role}{level}_flat"))
        parts[role] = node("Concat", flat, f"{role}_all", axis=2)
    if bins > 1:
        shape = constant("bins_shape", np.array([1, 4, bins, -1], np.int64))
        spread = node("Transpose", [node("Reshape", [parts["cv2"], shape], "spread")], "turned", perm=[0, 2, 1, 3])
        ramp = constant("ramp", np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
        mean = node("Conv", [node("Softmax", [spread], "soft", axis=1), ramp], "mean", kernel_shape=[1, 1])
        parts["cv2"] = node("Reshape", [mean, constant("four", np.array([1, 4, -1], np.int64))], "distances")
    parts["cv3"] = node("Sigmoid", [parts["cv3"]], "scores")
    found = node("Concat", list(parts.values()), "joined" if one_to_one else "output0", axis=1)
    if one_to_one:
        best = [constant("most", np.array([5], np.int64))]
        nodes.append(helper.make_node("TopK", [found, *best], ["output0", "which"], "/top", axis=2))
    outputs = ["output0"]
    if task == "segment":
        outputs.append(node("Relu", [conv(features[0][0], "model.9.proto.cv3", 16, MORE[task])], "output1"))
    values = [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
    rows = sum(channels for _, channels in groups) - 4 * bins + 4
    boxes = [1, rows, 5 if one_to_one else sum(n * n for n in GRIDS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(outputs, (boxes, [1, MORE[task], 8, 8]), strict=False)]  # fmt: skip
    model = helper.make_model(
        helper.make_graph(nodes, "yolo", values, ends, tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    said = {"task": task, "names": str(dict(enumerate(CLASSES)))} | ({"kpt_shape": "[2, 3]"} if task == "pose" else {})
    for key, value in said.items():
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def classifier(path: Path) -> Path:
    """A network for classes, with softmax at its end."""
    random, weights = np.random.default_rng(4), dict[str, np.ndarray]()
    weights["conv"], weights["dense"] = random.normal(0, 0.1, (8, 3, 8, 8)), random.normal(0, 1, (2, 8))
    nodes = [
        helper.make_node("Conv", ["images", "conv"], ["a"], "/conv", kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Relu", ["a"], ["b"], "/relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], "/pool"),
        helper.make_node("Flatten", ["c"], ["d"], "/flat"),
        helper.make_node("Gemm", ["d", "dense"], ["e"], "/dense", transB=1),
        helper.make_node("Softmax", ["e"], ["output0"], "/softmax"),
    ]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("images", [1, 3, SIDE, SIDE]), ("output0", [1, 2]))]  # fmt: skip
    tensors = [numpy_helper.from_array(one.astype(np.float32), name) for name, one in weights.items()]
    graph = helper.make_graph(nodes, "yolo", edges[:1], edges[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in {"task": "classify", "names": str(dict(enumerate(sorted(CLASSES))))}.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))
    return path


def class_folders(folder: Path, images: int = 8) -> Path:
    random = np.random.default_rng(7)
    for part in ("train", "val"):
        for label, name in enumerate(CLASSES):
            (folder / part / name).mkdir(parents=True)
            for number in range(images):
                pixels = random.integers(0, 120, (60, 80, 3)).astype(np.uint8)
                pixels[..., label] += 100
                Image.fromarray(pixels).save(folder / part / name / f"{number}.png")
    return folder


def data_set(folder: Path, task: str = "detect", images: int = 10) -> Path:
    """data.yaml with `images` to calibrate and as many to judge by."""
    random = np.random.default_rng(6)
    for part in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for number in range(images):
            pixels, label = random.integers(0, 60, (48, 80, 3)).astype(np.uint8), int(random.integers(0, 2))
            x, y = int(random.integers(0, 50)), int(random.integers(0, 20))
            pixels[y : y + 20, x : x + 24, label] = 255
            Image.fromarray(pixels).save(folder / "images" / part / f"{number}.png")
            box = [(x + 12) / 80, (y + 10) / 48, 24 / 80, 20 / 48]
            corners = [x / 80, y / 48, (x + 24) / 80, y / 48, (x + 24) / 80, (y + 20) / 48]
            rows = {"detect": box, "segment": corners, "pose": [*box, *corners[:2], 2, *corners[4:], 0]}
            text = " ".join(f"{value:.6f}" for value in rows[task])
            (folder / "labels" / part / f"{number}.txt").write_text(f"{label} {text}\n")
    points = "kpt_shape: [2, 3]\n" if task == "pose" else ""
    path = folder / "data.yaml"
    path.write_text(f"path: .\ntrain: images/train\nval: images/val\n{points}names:\n  0: red\n  1: green\n")
    return path
