"""`atonc yolo`: an export cut where the NPU ends, quantised and judged on its own data set, as C with its boxes. Each
step is that of a verb of its own; nothing is done here that they do not do."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating, post
from atonc.delivery.generate.post import PostProcessing
from atonc.delivery.yolo import export, getting_started
from atonc.delivery.yolo.data import YoloData, as_bytes, read_data
from atonc.delivery.yolo.getting_started import GettingStarted
from atonc.delivery.yolo.heads import CLASSIFY, POSE, YoloModel, sides, yolo_model
from atonc.delivery.yolo.options import YoloOptions
from atonc.insight.evaluating.options import EvaluateOptions, PostOptions
from atonc.insight.evaluating.run import Evaluation, evaluate
from atonc.insight.quantizing import loading
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import PRODUCER, Quantised, QuantizeOptions
from atonc.machine.base.declare import arguments
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass

PIXELS = "255"  # a network of Ultralytics sees shares of it
EDGES = Options(
    input_type="uint8", output_type="int8", inputs_channel_position="chlast", outputs_channel_position="chlast",
    allow_float=True,
)  # fmt: skip


@dataclass(frozen=True)
class YoloNetwork:
    """What came of a model; `files`: the float model up to its heads, and the int8 one."""

    model: YoloModel
    quantised: Quantised
    view: CompileView
    post: PostProcessing | None  # none for classes
    evaluation: Evaluation | None
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    getting_started: GettingStarted | None = None


def build(given: Path, data: Path, wanted: YoloOptions, folder: Path) -> YoloNetwork:
    """`given`: a .pt, or an ONNX file. What is wrong with model and data is said before the long work."""
    exported, imgsz = given, wanted.imgsz
    whole, small = folder / f"{given.stem}_float.onnx", folder / f"{given.stem}_int8.onnx"
    _require_own(small)
    with tempfile.TemporaryDirectory(prefix="atonc_") as place:
        if given.suffix.lower() == ".pt":
            exported, imgsz = export.exported(given, imgsz, Path(place) / f"{given.stem}.onnx"), 0
        parsed = loading.parse(model_bytes(exported), exported.name)
    loading.require_float(parsed, given)
    parsed = loading.fixed(parsed, sides(parsed, imgsz), exported.name)
    model = yolo_model(parsed, exported.name)
    if wanted.getting_started:
        getting_started.require_detector(model, str(given))
    found = read_data(data, model)
    loading.cut(parsed, model.outputs)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(whole, parsed.SerializeToString(deterministic=True))
    quantised = quantize(whole, _written(found.calibration, folder / "calibration.json"), _quantize(wanted, found))
    quantised.save(small)
    options = replace(EDGES, board=wanted.board)
    asked = _evaluate(wanted, found, model, whole, _written(found.validation, folder / "validation.json"))
    judged = evaluate(small, asked, options, folder / "evaluation") if wanted.evaluate else None
    view = generating.analyze(small, options, "network")
    boxes = None
    files = generating.files_of(view)
    if model.family:
        limits = {"post_score": wanted.conf, "post_iou": _overlap(wanted, model), "post_boxes": wanted.max_det}
        boxes = post.post_processing(view, arguments(PostOptions, {"post": model.family, **limits}))
        files = post.with_post(view, files, boxes)
    view = generating.write_build(view, folder / "c", files)
    notes = (f"ranges are from {found.said}", *quantised.notes)
    started = _started(wanted, model, found, small, folder) if wanted.getting_started else None
    return YoloNetwork(model, quantised, view, boxes, judged, (whole, small), notes, started)


def _started(wanted: YoloOptions, model: YoloModel, data: YoloData, small: Path, folder: Path) -> GettingStarted:
    assert not isinstance(data.validation, Path)
    classes = [one["name"] for one in data.validation["categories"]]
    limits = (wanted.conf, _overlap(wanted, model), wanted.max_det)
    return getting_started.written(small, model, classes, limits, wanted.board, folder / getting_started.FOLDER)


def _require_own(file: Path) -> None:
    """An int8 model of somebody else is not written over."""
    if not file.exists():
        return
    try:
        made_by = loading.parse(model_bytes(file), file.name).producer_name
    except AtoncError:
        made_by = ""
    if made_by != PRODUCER:
        raise InputError(
            "is there already, and not made by atonc", where=str(file), rule="the int8 model would replace it",
            remedy="name another folder with -o, or move the file",
        )  # fmt: skip


def _written(part: Any, file: Path) -> Path:
    if isinstance(part, Path):
        return part
    write_file(file, as_bytes(part))
    return file


def _overlap(wanted: YoloOptions, model: YoloModel) -> float:
    return 1.0 if model.suppressed else wanted.iou


def _quantize(wanted: YoloOptions, data: YoloData) -> QuantizeOptions:
    return QuantizeOptions(
        samples=wanted.samples, mean=("0",), std=(PIXELS,), images=str(data.images), metric="distance",
        objective=wanted.objective, board=wanted.board,
    )  # fmt: skip


def _evaluate(wanted: YoloOptions, data: YoloData, model: YoloModel, whole: Path, validation: Path) -> EvaluateOptions:
    metric = {CLASSIFY: "top", POSE: "keypoints"}.get(model.task, "map")
    return EvaluateOptions(
        data=str(validation), images=str(data.images), float_model=str(whole), int8=False, metric=metric,
        decoder=model.family or "auto", iou=_overlap(wanted, model) if model.family else 0.0, limit=wanted.limit,
        resize="crop" if model.task == CLASSIFY else "letterbox", normalise=f"0/{PIXELS}", processes=wanted.processes,
    )  # fmt: skip
