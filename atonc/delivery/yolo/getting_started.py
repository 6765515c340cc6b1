"""A folder for ST's GettingStarted-ObjectDetection: the network with its decoding, the header that describes it to the
application, and a deployment file with which `atonc deploy` puts both into a copy of the application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.request.options import Options
from atonc.delivery.deploy.app_config import CURRENT, header_of, text_of
from atonc.delivery.deploy.app_config.header import read_facts
from atonc.delivery.deploy.config import read_config
from atonc.delivery.generate import generating
from atonc.delivery.yolo.decoded import decoded
from atonc.delivery.yolo.heads import DETECT, YoloModel
from atonc.insight.quantizing import loading
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

APPLICATION = "STM32N6-GettingStarted-ObjectDetection"
FOLDER, DEPLOYMENT = "getting_started", "deployment.yaml"


@dataclass(frozen=True)
class GettingStarted:
    view: CompileView
    files: tuple[Path, ...]

    @property
    def command(self) -> str:
        return f"atonc deploy {next(file for file in self.files if file.name == DEPLOYMENT)} --project {APPLICATION}"


def require_detector(model: YoloModel, where: str) -> None:
    if model.task != DETECT:
        raise UnsupportedError(
            f"--getting-started, and a model for the task {model.task!r}", where=where,
            rule=f"{APPLICATION} shows boxes of classes", remedy="leave out --getting-started",
        )  # fmt: skip


def written(
    int8: Path, model: YoloModel, classes: Sequence[str], thresholds: tuple[float, float, int], board: str, folder: Path
) -> GettingStarted:
    """`thresholds`: score, overlap, most boxes of a class."""
    whole = folder / f"{int8.stem.removesuffix('_int8')}_boxes.onnx"
    made = decoded(loading.parse(model_bytes(int8), int8.name), model, int8.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(whole, made.SerializeToString(deterministic=True))
    write_file(folder / DEPLOYMENT, _deployment(whole.name, classes, thresholds, board).encode())
    config = read_config(folder / DEPLOYMENT)
    header = header_of(config, read_facts(whole), CURRENT)
    write_file(folder / header.file, text_of(header).encode())
    options = Options(
        board=board, input_type="uint8", inputs_channel_position="chlast"
    )  # as `atonc deploy` compiles it
    view = generating.analyze(whole, options, "network")
    view = generating.write_build(view, folder / "c", generating.files_of(view, with_hex=True))
    return GettingStarted(view, (whole, folder / DEPLOYMENT, folder / header.file))


def _deployment(model: str, classes: Sequence[str], thresholds: tuple[float, float, int], board: str) -> str:
    """A string of JSON is one of YAML."""
    score, overlap, most = thresholds
    return f"""general:
  model_path: {json.dumps(model)}
  model_type: yolo_v8
operation_mode: deployment
dataset:
  class_names: {json.dumps(list(classes))}
preprocessing:
  resizing: {{aspect_ratio: crop}}
  color_mode: rgb
postprocessing: {{confidence_thresh: {score!r}, NMS_thresh: {overlap!r}, max_detection_boxes: {most}}}
deployment:
  c_project_path: {APPLICATION}
  hardware_setup: {{serie: STM32N6, board: {json.dumps(board.upper())}}}
"""
