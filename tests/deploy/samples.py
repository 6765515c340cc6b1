"""Deployment files of our own, one per use case, with models that fit them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.deploy.stand_ins import Shape, stand_in

_PICTURE = "preprocessing: {resizing: {aspect_ratio: crop, interpolation: nearest}, color_mode: rgb}\n"
_BOXES = "postprocessing: {confidence_thresh: 0.6, NMS_thresh: 0.5, max_detection_boxes: 10}\n"
_N6 = "STM32N6", "STM32N6570-DK"


@dataclass(frozen=True)
class Sample:
    name: str
    text: str
    taken: Shape
    given: tuple[Shape, ...]
    board: tuple[str, str] = _N6
    model_type: str = ""
    quantised: bool = False
    deployment: str = ""

    def write(self, folder: Path, project: Path | None = None) -> Path:
        model = folder / f"{self.name}.tflite"
        model.write_bytes(stand_in(self.taken, *self.given, quantised=self.quantised))
        kind = f", model_type: {self.model_type}" if self.model_type else ""
        serie, board = self.board
        path = folder / f"{self.name}.yaml"
        path.write_text(
            f"general: {{model_path: {model}{kind}}}\noperation_mode: deployment\n{self.text}"
            f"deployment:\n  c_project_path: {project or folder}\n  IDE: GCC\n  unknown_class_threshold: 0.5\n"
            f"{self.deployment}"
            f"  hardware_setup: {{serie: {serie}, board: {board}}}\n"
        )
        return path


def _classes(*names: str) -> str:
    return f"dataset: {{class_names: [{', '.join(names)}]}}\n"


_H7 = "STM32H7", "STM32H747I-DISCO"
_GRIDS = ((1, 8, 8, 6), (1, 4, 4, 6), (1, 2, 2, 6))
_SPECTROGRAM = """feature_extraction: {patch_length: 96, n_mels: 64, n_fft: 512, hop_length: 160, window_length: 400,
  power: 1.0, fmin: 125, fmax: 7500, norm: None, htk: True, to_db: False}
preprocessing: {target_rate: 16000}
"""
_SPEECH = """use_case: speech_enhancement
preprocessing: {sample_rate: 16000, n_fft: 512, hop_length: 160, win_length: 400}
"""
_PATCH = "  frames_per_patch: 30\n  lookahead_frames: 5\n  output_silence_threshold: -50\n"
SAMPLES = (
    Sample(
        "classification",
        "use_case: image_classification\n" + _classes("roses", "daisy") + _PICTURE,
        (1, 32, 32, 3),
        ((1, 2),),
    ),
    Sample(
        "ssd",
        _classes("person") + _PICTURE + _BOXES,
        (1, 64, 64, 3),
        ((1, 96, 2), (1, 96, 4), (1, 96, 4)),
        model_type="st_ssd_mobilenet_v1",
    ),
    Sample(
        "yolo_v2", _classes("person") + _PICTURE + _BOXES, (1, 64, 128, 3), ((1, 2, 4, 30),), model_type="tiny_yolo_v2"
    ),
    Sample("yolo_x", _classes("person") + _PICTURE + _BOXES, (1, 64, 64, 3), _GRIDS, model_type="st_yolo_x"),
    Sample(
        "yolo_v8",
        _classes("cat", "dog") + _PICTURE + _BOXES,
        (1, 64, 64, 3),
        ((1, 6, 84),),
        model_type="yolo_v8",
        quantised=True,
    ),
    Sample(
        "movenet",
        "dataset: {keypoints: 13}\n" + _PICTURE + "postprocessing: {confidence_thresh: 0.4}\n",
        (1, 192, 192, 3),
        ((1, 48, 48, 13),),
        model_type="heatmaps_spe",
    ),
    Sample("yolo_pose", _PICTURE + _BOXES, (1, 64, 64, 3), ((1, 56, 84),), model_type="yolo_mpe"),
    Sample("palms", _PICTURE + _BOXES, (1, 64, 64, 3), ((1, 96, 18), (1, 96, 1)), model_type="palm_detector"),
    Sample(
        "semantic",
        _classes("background", "person") + _PICTURE,
        (1, 16, 16, 3),
        ((1, 16, 16, 2),),
        model_type="deeplab_v3",
    ),
    Sample(
        "instance",
        _classes("cat", "dog") + _PICTURE + _BOXES,
        (1, 64, 64, 3),
        ((1, 38, 84), (1, 16, 16, 32)),
        model_type="yolo_v8_seg",
        quantised=True,
    ),
    Sample(
        "blazeface",
        _PICTURE + _BOXES,
        (1, 128, 128, 3),
        ((1, 512, 16), (1, 512, 1), (1, 384, 16), (1, 384, 1)),
        model_type="blazeface",
    ),
    Sample("yunet", _PICTURE + _BOXES, (1, 64, 64, 3), ((1, 64, 1), (1, 16, 1), (1, 4, 1)), model_type="yunet"),
    Sample("reid", "use_case: re_identification\n" + _PICTURE, (1, 64, 32, 3), ((1, 128),)),
    Sample("depth", "use_case: depth_estimation\n" + _PICTURE, (1, 32, 32, 3), ((1, 32, 32, 1),)),
    Sample("audio", _classes("dog", "chainsaw") + _SPECTROGRAM, (1, 64, 96, 1), ((1, 2),)),
    Sample("speech", _SPEECH, (1, 40, 257, 1), ((1, 40, 257, 1),), deployment=_PATCH),
    Sample(
        "hand",
        _classes("Like", "None") + "preprocessing: {Max_distance: 400, Min_distance: 100, Background_distance: 120}\n",
        (1, 8, 8, 2),
        ((1, 2),),
        ("STM32F4", "NUCLEO-F401RE"),
    ),
    Sample(
        "activity",
        _classes("Walking", "Biking") + "preprocessing: {gravity_rot_sup: true}\n",
        (1, 24, 3, 1),
        ((1, 2),),
        ("STM32U5", "B-U585I-IOT02A"),
    ),
    Sample(
        "h7_classification",
        "use_case: image_classification\n" + _classes("roses", "daisy") + _PICTURE,
        (1, 32, 32, 3),
        ((1, 2),),
        _H7,
    ),
    Sample(
        "h7_ssd",
        _classes("person") + _PICTURE + _BOXES,
        (1, 64, 64, 3),
        ((1, 96, 2), (1, 96, 4), (1, 96, 4)),
        _H7,
        "st_ssd_mobilenet_v1",
    ),
)
