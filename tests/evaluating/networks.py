"""A small classifier for the tests: 12 x 12 pixels, three classes by colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE, COLOURS = 12, ("blue", "green", "red")  # folders in the order of their names


def colour_model(path: Path, quantised: bool = True) -> Path:
    """The mean of each colour, as a convolution of the whole picture; channels in the order of the folders."""
    weights = np.zeros((3, 3, SIDE, SIDE), np.float32)
    for number, channel in enumerate((2, 1, 0)):
        weights[number, channel] = 1 / SIDE**2
    nodes, tensors = [], []

    def constant(name: str, value: object, dtype: type) -> str:
        tensors.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def through(name: str, scale: float, zero: int, dtype: type = np.int8) -> str:
        if not quantised:
            return name
        s, z = constant(f"{name}_s", scale, np.float32), constant(f"{name}_z", zero, dtype)
        nodes.append(helper.make_node("QuantizeLinear", [name, s, z], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_d"]))
        return f"{name}_d"

    x = through("x", 1 / 255, -128)
    if quantised:
        scale = float(weights.max()) / 100
        codes = constant("w_q", np.rint(weights / scale), np.int8)
        s, z = constant("w_s", scale, np.float32), constant("w_z", 0, np.int8)
        nodes.append(helper.make_node("DequantizeLinear", [codes, s, z], ["w"]))
    else:
        constant("w", weights, np.float32)
    nodes.append(helper.make_node("Conv", [x, "w"], ["y"], kernel_shape=[SIDE, SIDE]))
    y = through("y", 1 / 255, -128)
    constant("shape", [1, 3], np.int64)
    nodes.append(helper.make_node("Reshape", [y, "shape"], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])],
        tensors,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def colour_folder(folder: Path, each: int = 4, size: int = SIDE) -> Path:
    """Pictures of noise in which one colour is stronger."""
    from PIL import Image

    random = np.random.default_rng(1)
    for number, name in enumerate(COLOURS):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for k in range(each):
            pixels = random.integers(0, 160, (size, size, 3))
            pixels[..., 2 - number] += 60
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{k}.png")
    return folder
