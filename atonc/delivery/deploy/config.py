"""What a deployment file asks for, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from atonc.delivery.deploy.schema import validate
from atonc.delivery.deploy.yaml_file import YamlSettings, read_yaml
from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

MOST_NAMES_BYTES = 1 << 20
USE_CASES = (
    "image_classification", "object_detection", "pose_estimation", "semantic_segmentation", "instance_segmentation",
    "face_detection", "re_identification", "depth_estimation", "hand_posture", "human_activity_recognition",
    "audio_event_detection", "speech_enhancement",
)  # fmt: skip
# names of one model in older and newer files
_MODEL_TYPES: Mapping[str, str] = {
    "yolov2t": "tiny_yolo_v2", "st_yololcv1": "st_yolo_lc_v1", "st_yoloxn": "st_yolo_x", "yolov8n": "yolo_v8",
    "yolov11n": "yolo_v8", "yolov5u": "yolo_v5u", "yolov8n_seg": "yolo_v8_seg", "yolov8n_pose": "yolo_mpe",
    "facedetect_front": "blazeface", "face_detect_front": "blazeface",
}  # fmt: skip
_BY_MODEL_TYPE: Mapping[str, str] = {
    **dict.fromkeys(
        ("st_ssd_mobilenet_v1", "ssd_mobilenet_v2_fpnlite", "tiny_yolo_v2", "st_yolo_lc_v1", "st_yolo_x", "yolo_v8"),
        "object_detection",
    ),
    "yolo_v5u": "object_detection",
    **dict.fromkeys(("heatmaps_spe", "yolo_mpe", "palm_detector", "hand_spe"), "pose_estimation"),
    "deeplab_v3": "semantic_segmentation",
    "yolo_v8_seg": "instance_segmentation",
    **dict.fromkeys(("blazeface", "yunet"), "face_detection"),
}
_BY_KEY: Mapping[str, str] = {
    "feature_extraction.n_mels": "audio_event_detection",
    "deployment.frames_per_patch": "speech_enhancement",
    "preprocessing.gravity_rot_sup": "human_activity_recognition",
    "preprocessing.Background_distance": "hand_posture",
}
# what the zoo takes where the file names a data set only
_DATASET_CLASSES: Mapping[str, str] = {
    "pascal_voc": "background,aeroplane,bicycle,bird,boat,bottle,bus,car,cat,chair,cow,dining table,dog,horse,"
    "motorbike,person,potted plant,sheep,sofa,train,tv/monitor",
    "pascal_voc_person": "background,person",
    "person_coco_2017_pascal_voc_2012": "background,person",
}
_SORTED = ("image_classification", "audio_event_detection")  # models of these were trained on sorted names


@dataclass(frozen=True)
class DeployConfig:
    settings: YamlSettings
    use_case: str
    model_type: str
    model: str  # a path as the file gives it, or an address
    serie: str
    board: str
    notes: tuple[str, ...] = ()

    @property
    def model_name(self) -> str:
        return self.model.replace("\\", "/").rpartition("/")[2]

    @property
    def is_mpu(self) -> bool:
        return self.serie.startswith("STM32MP")

    def model_file(self) -> Path:
        if "://" in self.model:
            remedy = "download it and give its path with --model, or in the file"
            raise self.settings.error(self.model_key, f"{self.model} is not on this machine", remedy=remedy)
        return _existing(self.settings, self.model_key, self.model)

    def project(self) -> Path:
        key = "deployment.c_project_path"
        return _existing(self.settings, key, str(self.settings.require(key)))

    @property
    def model_key(self) -> str:
        return next(k for k in _MODEL_KEYS if self.settings.get(k) is not None)


_MODEL_KEYS = ("general.model_path", "model.model_path", "model.onnx_path")


def read_config(path: Path, use_case: str = "") -> DeployConfig:
    settings = read_yaml(path)
    notes = validate(settings)
    model_key = next((k for k in _MODEL_KEYS if settings.get(k) is not None), _MODEL_KEYS[0])
    given = str(settings.get("general.model_type") or settings.get("model.model_type") or "")
    kind = _MODEL_TYPES.get(given, given)
    return DeployConfig(
        settings,
        use_case or _use_case(settings, kind),
        kind,
        str(settings.require(model_key)),
        str(settings.require("deployment.hardware_setup.serie")).upper(),
        str(settings.require("deployment.hardware_setup.board")),
        tuple(notes),
    )


def _use_case(settings: YamlSettings, model_type: str) -> str:
    named = str(settings.get("use_case") or "")
    if named in USE_CASES:
        return named
    if model_type in _BY_MODEL_TYPE:
        return _BY_MODEL_TYPE[model_type]
    by_key = next((case for key, case in _BY_KEY.items() if key in settings.lines), "")
    paths = " ".join(str(settings.get(key) or "") for key in (*_MODEL_KEYS, "deployment.c_project_path"))
    found = by_key or next((case for case in USE_CASES if case in paths), "")
    if not found:
        remedy = f"write use_case: with one of {', '.join(USE_CASES)}"
        raise settings.error("use_case", "cannot be told from this file", remedy=remedy)
    return found


def class_names(config: DeployConfig) -> tuple[str, ...]:
    """Lists the classes in the order of the model's outputs."""
    settings = config.settings
    names = settings.get("dataset.class_names")
    if not names and settings.get("dataset.classes_file_path"):
        names = _from_file(settings)
    if not names:
        names = _DATASET_CLASSES.get(str(settings.get("dataset.name")), "").split(",")
    found = [str(name) for name in names if str(name)]
    if not found:
        raise settings.error("dataset.class_names", "is missing", remedy="list the classes of the model")
    if config.use_case == "audio_event_detection" and settings.get("dataset.use_garbage_class"):
        found.append("other")
    return tuple(sorted(found) if config.use_case in _SORTED else found)


def _from_file(settings: YamlSettings) -> list[str]:
    key = "dataset.classes_file_path"
    text = read_text(_existing(settings, key, str(settings.get(key))), MOST_NAMES_BYTES)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _existing(settings: YamlSettings, key: str, given: str) -> Path:
    """Relative paths count from where the zoo's scripts run, which is the folder above the examples."""
    path = Path(given.replace("\\", "/")).expanduser()
    bases = (Path(), settings.path.parent, settings.path.parent.parent)
    tried = [path] if path.is_absolute() else list(dict.fromkeys(base / path for base in bases))
    found = next((candidate for candidate in tried if candidate.exists()), None)
    if found is None:
        places = ", ".join(str(candidate) for candidate in tried)
        raise InputError("there is nothing at this path", where=settings.where(key), remedy=f"tried {places}")
    return found
