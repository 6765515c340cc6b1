"""Which metric fits the data and the outputs; and whether they fit at all."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.ir import Tensor
from atonc.insight.evaluating.datasets import Dataset
from atonc.insight.evaluating.decoders import decoder_for
from atonc.insight.evaluating.metrics.base import Metric
from atonc.insight.evaluating.metrics.detection import Detection
from atonc.insight.evaluating.metrics.distance import DistanceMetric
from atonc.insight.evaluating.metrics.iou import MeanIou
from atonc.insight.evaluating.metrics.keypoints import Keypoints
from atonc.insight.evaluating.metrics.top import Top
from atonc.insight.evaluating.metrics.user import UserMetric
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.machine.base.errors import InputError


def metric_name(options: EvaluateOptions, data: Dataset) -> str:
    if options.metric != "auto":
        return options.metric
    if data.kind == "coco":
        points = any(a.get("keypoints") for a in data.coco["annotations"])
        return "keypoints" if points else "map"
    if data.kind == "masks":
        return "iou"
    if not data.labelled:
        return "distance"
    return "top" if isinstance(data.entries[0].truth, int) else "iou"


def metric_for(
    name: str, decoder: str, anchors: Sequence[float], outputs: Sequence[tuple[int, ...]], side: tuple[int, int]
) -> Metric:
    """`outputs`: shapes; `side`: width and height of the input."""
    if name == "top":
        return Top()
    if name == "map":
        return Detection(decoder_for(decoder, anchors, outputs, side))
    if name == "keypoints":
        return Keypoints(outputs, side)
    if name == "iou":
        return MeanIou()
    return DistanceMetric() if name == "distance" else UserMetric(name)


def require_categories(metric: Metric, data: Dataset, where: str) -> None:
    if isinstance(metric, Detection) and metric.decoder.classes != len(data.classes):
        raise InputError(
            f"{len(data.classes)} categories, the model has {metric.decoder.classes} classes",
            where=where,
            rule="the categories in the order of their ids are the classes of the model",
        )


def require_fit(name: str, data: Dataset, outputs: Sequence[Tensor], options: EvaluateOptions) -> None:
    """Labels have classes, and the metric has what it needs."""
    where = options.data
    if name == "distance" and not options.int8 and not options.float_model:
        raise InputError(
            "there is nothing to compare with",
            where=where,
            rule="without labels the NPU's outputs are compared with those of the int8 kernels or of the float model",
            remedy="leave out --no-int8, give --float MODEL, or samples with labels",
        )
    if name == "top":
        _require_classes(data, outputs[0], where)
    if name in ("map", "keypoints") and data.kind != "coco":
        raise InputError(f"the metric {name} needs boxes", where=where, remedy="give a COCO .json")
    if name == "keypoints" and not any(a.get("keypoints") for a in data.coco["annotations"]):
        raise InputError("no annotation has keypoints", where=where)
    if name == "iou" and (not data.labelled or isinstance(data.entries[0].truth, int)):
        raise InputError("the metric iou needs masks", where=where, remedy="give images/ and masks/, or labels [N,H,W]")
    if name == "iou" and data.kind == "masks" and options.resize != "stretch":
        raise InputError("masks need --resize stretch", where=where)


def _require_classes(data: Dataset, output: Tensor, where: str) -> None:
    count = max(2, output.elements)
    labels = [entry.truth for entry in data.entries]
    if not all(isinstance(label, int) for label in labels):
        remedy = "give an array `labels`, or --metric distance"
        raise InputError("the samples have no labels", where=where, remedy=remedy)
    wrong = next((label for label in labels if not 0 <= label < count), None)
    if wrong is not None:
        raise InputError(
            f"there is a label {wrong}, the model has {count} classes",
            where=where,
            rule="labels are 0 up to the number of classes",
            remedy="number them as the model does; folders count in the order of their names",
        )
    if data.classes and len(data.classes) != count:
        raise InputError(
            f"{len(data.classes)} folders of classes, the model has {count} classes",
            where=where,
            rule="the folders in the order of their names are the classes of the model",
            remedy="make a folder for each class, empty ones too",
        )
