"""Six ways in which exporters put suppression into the graph of a detector, behind the outputs of `detector_cases`; the
result is one tensor of rows: corners, score, class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.shared.detector_cases import CLASSES, SIDE

SCORE, IOU, MOST = 0.3, 0.5, 20
CELLS = (SIDE // 4) ** 2


@dataclass
class Writer:
    """Nodes behind those of a model."""

    graph: Any
    number: int = field(default=0)

    def node(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        self.number += 1
        made = [f"tail/{kind}_{self.number}{f':{k}' * bool(k)}" for k in range(count)]
        self.graph.node.append(helper.make_node(kind, list(inputs), made, f"tail/{kind}_{self.number}", **attributes))
        return made[0] if count == 1 else made

    def whole(self, *values: int) -> str:
        return self._const(np.array(values, np.int64))

    def one(self, value: int) -> str:
        return self._const(np.array(value, np.int64))

    def real(self, *values: float) -> str:
        return self._const(np.array(values, np.float32))

    def table(self, values: Any) -> str:
        return self._const(np.asarray(values, np.float32))

    def _const(self, value: Any) -> str:
        self.number += 1
        self.graph.initializer.append(numpy_helper.from_array(value, f"tail/c{self.number}"))
        return f"tail/c{self.number}"

    def slice(self, x: str, low: int, high: int, axis: int) -> str:
        return str(self.node("Slice", x, self.whole(low), self.whole(high), self.whole(axis)))

    def rows(self, boxes: str, scores: str, classes: str) -> str:
        columns = [self.node("Unsqueeze", one, self.whole(1)) for one in (scores, classes)]
        return str(self.node("Concat", boxes, *columns, axis=1))

    def suppressed(self, boxes: str, scores: str) -> str:
        """[1, N, 4] and [1, classes, N]: all classes in one NonMaxSuppression."""
        kept = self.node("NonMaxSuppression", boxes, scores, self.whole(MOST), self.real(IOU), self.real(SCORE))
        score, box = self.node("GatherND", scores, kept), self.node("Gather", kept, self.one(2), axis=1)
        kind = self.node("Cast", self.node("Gather", kept, self.one(1), axis=1), to=TensorProto.FLOAT)
        picked = self.node("Gather", self.node("Squeeze", boxes, self.whole(0)), box, axis=0)
        return self.rows(picked, score, kind)


def yolo(w: Writer, y: str) -> str:
    """As exporters of YOLO with NMS: turned, sliced, corners of centre and size."""
    turned = w.node("Transpose", y, perm=[0, 2, 1])
    x, top, wide, high = (w.slice(turned, k, k + 1, 2) for k in range(4))
    halves = [w.node("Mul", one, w.real(0.5)) for one in (wide, high)]
    low = [w.node("Sub", *pair) for pair in zip((x, top), halves, strict=True)]
    end = [w.node("Add", *pair) for pair in zip((x, top), halves, strict=True)]
    boxes = w.node("Concat", *low, *end, axis=2)
    return w.suppressed(boxes, w.node("Transpose", w.slice(turned, 4, 4 + CLASSES, 2), perm=[0, 2, 1]))


def two_outputs(w: Writer, boxes: str, scores: str) -> str:
    return w.suppressed(boxes, scores)


def _maps(w: Writer, y: str) -> tuple[str, str]:
    """Heat that is a peak, and corners, by cell."""
    heat, size, offset = w.node("Split", y, w.whole(CLASSES, 2, 2), axis=1, count=3)
    top = w.node("MaxPool", heat, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    peak = w.node("Mul", heat, w.node("Cast", w.node("Equal", heat, top), to=TensorProto.FLOAT))
    down, right = np.mgrid[: SIDE // 4, : SIDE // 4]
    at = w.node("Mul", w.node("Add", offset, w.table(np.stack([right, down])[None])), w.real(4.0))
    half = w.node("Mul", size, w.real(0.5))
    corners = w.node("Concat", w.node("Sub", at, half), w.node("Add", at, half), axis=1)
    flat = w.node("Reshape", corners, w.whole(1, 4, CELLS))
    return w.node("Reshape", peak, w.whole(1, CLASSES, CELLS)), w.node("Transpose", flat, perm=[0, 2, 1])


def centernet(w: Writer, y: str) -> str:
    peak, boxes = _maps(w, y)
    return w.suppressed(boxes, peak)


def centernet_topk(w: Writer, y: str) -> str:
    """The best peaks of all classes, then a mask by score; no suppression but that of the maximum."""
    peak, boxes = _maps(w, y)
    score, place = w.node("TopK", w.node("Reshape", peak, w.whole(CLASSES * CELLS)), w.whole(MOST), count=2)
    kind = w.node("Cast", w.node("Div", place, w.one(CELLS)), to=TensorProto.FLOAT)
    picked = w.node("Gather", w.node("Squeeze", boxes, w.whole(0)), w.node("Mod", place, w.one(CELLS)), axis=0)
    rows = w.rows(picked, score, kind)
    return str(w.node("Compress", rows, w.node("Greater", score, w.real(SCORE)), axis=0))


def by_class(w: Writer, boxes: str, scores: str) -> str:
    """As torchvision exports it: each class by itself, a mask by score, then suppression of what is left."""
    flat, found = w.node("Squeeze", boxes, w.whole(0)), []
    for number in range(CLASSES):
        own = w.node("Squeeze", w.node("Gather", scores, w.one(number), axis=1), w.whole(0))
        place = w.node("Squeeze", w.node("NonZero", w.node("Greater", own, w.real(SCORE))), w.whole(0))
        some, its = w.node("Gather", flat, place, axis=0), w.node("Gather", own, place, axis=0)
        kept = w.node(
            "NonMaxSuppression", w.node("Unsqueeze", some, w.whole(0)), w.node("Unsqueeze", its, w.whole(0, 1)),
            w.whole(MOST), w.real(IOU),
        )  # fmt: skip
        box = w.node("Gather", kept, w.one(2), axis=1)
        score = w.node("Gather", its, box, axis=0)
        kind = w.node("Add", w.node("Mul", score, w.real(0.0)), w.real(float(number)))
        found.append(w.rows(w.node("Gather", some, box, axis=0), score, kind))
    return str(w.node("Concat", *found, axis=0))


# name -> detector, tail, what it is
SUPPRESSING: dict[str, tuple[str, Callable[..., str], str]] = {
    "yolo_nms": ("yolo", yolo, "slices of one output, corners, NonMaxSuppression, GatherND"),
    "ssd_nms": ("ssd", two_outputs, "two outputs, NonMaxSuppression, GatherND"),
    "centernet_nms": ("centernet", centernet, "peaks of a heat map, NonMaxSuppression"),
    "retina_nms": ("retina", two_outputs, "two outputs, NonMaxSuppression, GatherND"),
    "centernet_topk": ("centernet", centernet_topk, "TopK, then a mask by score (Compress)"),
    "retina_by_class": ("retina", by_class, "torchvision's form: NonZero and NonMaxSuppression by class"),
}


def with_tail(key: str, source: Path, target: Path) -> Path:
    """The detector with its suppression inside, as one file."""
    model = onnx.load(source)
    found = SUPPRESSING[key][1](Writer(model.graph), *(value.name for value in model.graph.output))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(found, TensorProto.FLOAT, None))
    onnx.save(model, target)
    return target


def tail_of(file: Path, names: list[str]) -> bytes:
    """What was cut: from the tensors of these names to the output; it stands for the application's code."""
    model = onnx.shape_inference.infer_shapes(onnx.load(file))
    return onnx.utils.Extractor(model).extract_model(names, [model.graph.output[0].name]).SerializeToString()
