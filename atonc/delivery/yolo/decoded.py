"""The int8 network with its decoding behind it, for applications that read one tensor of boxes and scores, as ST's
GettingStarted-ObjectDetection does: [1, 4 + classes, boxes], centre and size as shares of the image, then scores.

All of it is int8, with one scale: 0 to 1 in 255 steps. Its sums and tables fit the NPU, softmax stays on the CPU.
Weights are places of a distance, 0 to 15: their codes are exact, as are those of cells' middles in most grids."""

from __future__ import annotations

from math import lcm, prod
from typing import Any

import numpy as np

from atonc.delivery.yolo.heads import BINS, YoloModel
from atonc.insight.evaluating.decoders import YOLOV8_HEADS
from atonc.machine.base.errors import UnsupportedError

STEPS = 255
SHARES = (1 / STEPS, -128)  # scale and zero point of 0 to 1
MIXED = {"middle": [[-1, 0, 1, 0], [0, -1, 0, 1]], "size": [[1, 0, 1, 0], [0, 1, 0, 1]]}  # of left, top, right, bottom


def decoded(network: Any, model: YoloModel, where: str) -> Any:
    """`network`: what `quantize` made of the model up to its heads, as ONNX. It ends with the one tensor."""
    return _Tail(network, model, where).finished()


class _Tail:
    """Nodes behind the heads. Cells are in the order of rows, the finest grid first."""

    def __init__(self, network: Any, model: YoloModel, where: str) -> None:
        import onnx

        self.onnx, self.network, self.where = onnx, onnx.ModelProto(), where
        self.network.CopyFrom(network)
        graph = self.network.graph
        self.makers = {name: node for node in graph.node for name in node.output}
        self.stored = {one.name: one for one in graph.initializer}
        self.prefix = "decoded"
        while any(name.startswith(self.prefix) for name in (*self.makers, *self.stored)):
            self.prefix += "_"
        self.bins = BINS if model.family == YOLOV8_HEADS.name else 1
        shapes = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in graph.output}
        grids = len(model.outputs) // 2
        self.boxes, self.scores = model.outputs[:grids], model.outputs[grids:]
        self.sizes = [(shapes[name][2], shapes[name][3]) for name in self.boxes]
        self.classes = shapes[self.scores[0]][1]

    def finished(self) -> Any:
        grids = [self.grid(k) for k in range(len(self.sizes))]
        every = self.node("Concat", grids, "all", axis=2)
        end = self.node("QuantizeLinear", [every, *self.edge("all", *SHARES)], "boxes")
        graph, shape = self.network.graph, [1, 4 + self.classes, sum(map(prod, self.sizes))]
        del graph.output[:]
        graph.output.append(self.onnx.helper.make_tensor_value_info(end, self.onnx.TensorProto.INT8, shape))
        self.onnx.checker.check_model(self.network)
        return self.network

    def grid(self, k: int) -> str:
        """[1, 4 + classes, cells]"""
        scores = self.rounded(self.node("Sigmoid", [self.scores[k]], f"scores_{k}"), *SHARES)
        values = self.node("Concat", [*self.places(k), scores], f"values_{k}", axis=1)
        return self.shaped(values, [1, 4 + self.classes, -1], f"rows_{k}")

    def places(self, k: int) -> tuple[str, str]:
        """The middle is half of right less left away from that of the cell, the size is their sum."""
        height, width = self.sizes[k]
        distances, furthest = self.distances(k)
        strides = np.array([1 / width, 1 / height])
        away = self.rounded(self.mixed(k, "middle", distances, strides / 2), furthest / 2 / min(height, width) / 127, 0)
        y, x = np.mgrid[:height, :width]
        cells = np.stack([(x + 0.5) / width, (y + 0.5) / height])[None]
        own = self.constant(f"cells_{k}", cells, 1 / min(2 * lcm(height, width), STEPS), -128)
        middle = self.node("Add", [away, own], f"middle_{k}_moved")
        return self.rounded(middle, *SHARES), self.rounded(self.mixed(k, "size", distances, strides), *SHARES)

    def distances(self, k: int) -> tuple[str, float]:
        """Left, top, right, bottom in strides, or how much of each is at which place; and the furthest."""
        given, (height, width) = self.boxes[k], self.sizes[k]
        if self.bins == 1:
            return given, self.furthest(given)
        last = self.node("Transpose", [given], f"last_{k}", perm=[0, 2, 3, 1])
        apart = self.shaped(last, [height * width, 4, self.bins], f"apart_{k}")
        soft = self.rounded(self.node("Softmax", [apart], f"soft_{k}", axis=2), *SHARES)
        back = self.shaped(soft, [1, height, width, 4 * self.bins], f"soft_{k}_grid")
        return self.node("Transpose", [back], f"soft_{k}_first", perm=[0, 3, 1, 2]), self.bins - 1.0

    def furthest(self, given: str) -> float:
        """What the codes of a tensor reach."""
        maker = self.makers.get(given)
        if maker is None or maker.op_type != "DequantizeLinear" or len(maker.input) != 3:
            raise UnsupportedError("distances without codes", where=self.where, rule="boxes are decoded in int8")
        scale, zero = (float(self.onnx.numpy_helper.to_array(self.stored[name])) for name in maker.input[1:])
        return scale * max(127 - zero, 128 + zero)

    def mixed(self, k: int, part: str, x: str, scales: Any) -> str:
        """Sums of distances, each the mean of its places; a weight is a code."""
        places = np.arange(self.bins) if self.bins > 1 else np.ones(1)
        weights = np.kron(np.array(MIXED[part]), places)[:, :, None, None] * scales[:, None, None, None]
        return self.node("Conv", [x, self.constant(f"{part}_{k}_weights", weights, scales, 0)], f"{part}_{k}")

    # ------------------------------------------------------------------------------------------------------- the file

    def node(self, kind: str, inputs: list[str], name: str, **values: Any) -> str:
        name = f"{self.prefix}/{name}"
        self.network.graph.node.append(self.onnx.helper.make_node(kind, inputs, [name], name, **values))
        return name

    def store(self, name: str, values: Any, kind: Any) -> str:
        name = f"{self.prefix}/{name}"
        self.network.graph.initializer.append(self.onnx.numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def shaped(self, x: str, shape: list[int], name: str) -> str:
        return self.node("Reshape", [x, self.store(f"{name}_shape", shape, np.int64)], name)

    def edge(self, name: str, scale: Any, zero: int) -> list[str]:
        zeros = np.full(np.shape(scale), zero)
        return [self.store(f"{name}_scale", scale, np.float32), self.store(f"{name}_zero", zeros, np.int8)]

    def rounded(self, x: str, scale: float, zero: int) -> str:
        name = x.removeprefix(f"{self.prefix}/")
        edge = self.edge(name, scale, zero)
        codes = self.node("QuantizeLinear", [x, *edge], f"{name}_codes")
        return self.node("DequantizeLinear", [codes, *edge], f"{name}_rounded")

    def constant(self, name: str, values: Any, scale: Any, zero: int) -> str:
        """A scale for each of the first axis, or one."""
        codes = np.clip(np.rint(values / np.reshape(scale, (-1, 1, 1, 1))) + zero, -128, 127)
        inputs = [self.store(f"{name}_codes", codes, np.int8), *self.edge(name, scale, zero)]
        return self.node("DequantizeLinear", inputs, name, **({"axis": 0} if np.ndim(scale) else {}))
