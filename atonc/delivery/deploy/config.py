"""A deployment file: YAML with line numbers and limits, the keys that there are and what they may say, and what the
file asks for, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_file, read_text
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

MOST_BYTES, MOST_VALUES, MOST_DEPTH = 1 << 18, 20_000, 24
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")  # YAML 1.1 takes 1e-3 for a word, Hydra does not


@dataclass(frozen=True)
class YamlSettings:
    """What a file says: leaves by dotted key; `lines` also has the sections."""

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def get(self, key: str, default: Any = None) -> Any:
        found = self.values.get(key)
        return default if found is None else found

    def where(self, key: str) -> str:
        """File, line and key; of the nearest section that exists if the key itself does not."""
        parts = key.split(".")
        known = next((k for n in range(len(parts), 0, -1) if (k := ".".join(parts[:n])) in self.lines), "")
        line = f":{self.lines[known]}" if known else ""
        return f"{self.path}{line}: {key}"

    def error(self, key: str, what: str, remedy: str = "", rule: str = "") -> InputError:
        return InputError(what, where=self.where(key), remedy=remedy, rule=rule)

    def require(self, key: str) -> Any:
        found = self.get(key)
        if found is None or found == "":
            raise self.error(key, "is missing", remedy=f"add {key.split('.')[-1]}: to the file")
        return found


def read_yaml(path: Path, remedy: str = "give a deployment file of the model zoo") -> YamlSettings:
    try:
        import yaml
    except ImportError:
        raise ToolError("PyYAML is not installed", remedy="pip install 'atonc[deploy]'") from None

    data = read_file(path, MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8", where=f"{path}:{number}") from None
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"is no YAML: {said}", where=f"{path}{line}") from None
    except RecursionError:
        raise InputError("is nested too deeply", where=str(path)) from None
    if not isinstance(tree, yaml.MappingNode):
        raise InputError("has no sections", where=str(path), remedy=remedy)
    reader = _YamlReader(path, yaml)
    reader.mapping(tree, "", 0)
    return YamlSettings(path, reader.values, reader.lines)


class _YamlReader:
    """Follows the nodes, so that aliases cost what they stand for."""

    def __init__(self, path: Path, yaml: Any) -> None:
        self.path, self.yaml, self.count = path, yaml, 0
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.scalars = yaml.SafeLoader("")

    def mapping(self, node: Any, prefix: str, depth: int) -> None:
        for key, value in self.pairs(node, depth):
            dotted = f"{prefix}{key}"
            if dotted in self.lines:
                what = f"is there twice, first in line {self.lines[dotted]}"
                raise InputError(what, where=self.at(value, dotted))
            self.lines[dotted] = value.start_mark.line + 1
            if isinstance(value, self.yaml.MappingNode):
                self.mapping(value, f"{dotted}.", depth + 1)
            else:
                self.values[dotted] = self.plain(value, depth + 1)

    def pairs(self, node: Any, depth: int) -> Iterator[tuple[str, Any]]:
        self.limit(node, depth)
        for key, value in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                raise InputError("a key must be a word", where=self.at(key))
            yield str(key.value), value

    def plain(self, node: Any, depth: int) -> Any:
        self.limit(node, depth)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.plain(item, depth + 1) for item in node.value]
        if isinstance(node, self.yaml.MappingNode):
            return {key: self.plain(value, depth + 1) for key, value in self.pairs(node, depth)}
        if node.tag == "tag:yaml.org,2002:str" and node.style is None and _FLOAT.fullmatch(node.value):
            return float(node.value)
        try:
            return self.scalars.construct_object(node)
        except (self.yaml.YAMLError, ValueError, OverflowError):
            raise InputError(f"cannot be read as {node.tag.rpartition(':')[2]}", where=self.at(node)) from None

    def limit(self, node: Any, depth: int) -> None:
        self.count += 1
        if depth > MOST_DEPTH or self.count > MOST_VALUES:
            what = f"more than {MOST_DEPTH} levels" if depth > MOST_DEPTH else f"more than {MOST_VALUES:,} values"
            raise InputError(what, where=self.at(node), rule="aliases count with all that they stand for")

    def at(self, node: Any, key: str = "") -> str:
        return f"{self.path}:{node.start_mark.line + 1}" + (f": {key}" if key else "")


Check = tuple[str, Callable[[Any], bool]]  # what is allowed, and whether this is

_SECTION_NAMES = """
general operation_mode use_case model model_specific dataset preprocessing feature_extraction data_augmentation training
quantization evaluation prediction postprocessing tools benchmarking deployment mlflow hydra
"""
SECTIONS = _SECTION_NAMES.split()
# sections in which a key that nobody knows is worth a word; those of training are none of our business
_KNOWN: Mapping[str, str] = {
    "general": "project_name model_path model_type logs_dir saved_models_dir deterministic_ops display_figures "
    "global_seed gpu_memory_limit num_threads_tflite",
    "model": "model_type model_path model_name onnx_path state_dict_path input_shape pretrained framework",
    "dataset": "name dataset_name class_names classes_file_path keypoints file_extension multi_label use_garbage_class "
    "n_samples_per_garbage_class expand_last_dim seed to_cache shuffle batch_size format num_classes classes_name_file "
    "training_path validation_path validation_split test_path quantization_path quantization_split check_image_files "
    "test_annotations_path training_annotations_path",
    "preprocessing": "rescaling rescaling.scale rescaling.offset resizing resizing.interpolation resizing.aspect_ratio "
    "color_mode mean std normalization min_length max_length target_rate top_db frame_length hop_length "
    "trim_last_second lengthen Max_distance Min_distance Background_distance gravity_rot_sup pipeline_type "
    "peak_normalize sample_rate n_fft win_length window center power",
    "feature_extraction": "patch_length n_mels overlap n_fft hop_length window_length window center pad_mode power "
    "fmin fmax norm htk to_db include_last_patch",
    "postprocessing": "confidence_thresh kpts_conf_thresh NMS_thresh IoU_eval_thresh plot_metrics yolo_anchors "
    "network_stride max_detection_boxes crop_stretch_resize",
    "tools": "stedgeai stedgeai.version stedgeai.optimization stedgeai.on_cloud stedgeai.path_to_stedgeai stm32ai "
    "stm32ai.version stm32ai.optimization stm32ai.on_cloud stm32ai.path_to_stm32ai path_to_cubeIDE",
    "deployment": "c_project_path IDE verbosity hardware_setup hardware_setup.serie hardware_setup.board "
    "hardware_setup.input hardware_setup.output hardware_setup.ip_address hardware_setup.stlink_serial_number "
    "label_file_path board_deploy_path build_conf unknown_class_threshold frames_per_patch lookahead_frames "
    "output_silence_threshold",
}

_OF_TRAINING = ("_path", "_split", "_samples", "_seed", "_folder", "n_speakers")  # where data sets are, and how much


def one_of(*allowed: Any) -> Check:
    return f"one of {', '.join(map(str, allowed))}", lambda value: value in allowed


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(low: int, high: int) -> Check:
    return f"a whole number from {low:,} to {high:,}", lambda value: type(value) is int and low <= value <= high


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_number, value))


def _are_names(value: Any) -> bool:
    plain = isinstance(value, list) and all(isinstance(one, (str, int, float)) for one in value)
    return plain and 0 < len(value) <= 4096


_text: Check = ("text", lambda value: isinstance(value, str) and bool(value) and "\0" not in value)
_share: Check = ("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
_number: Check = ("a number", _is_number)
_flag: Check = ("True or False", lambda value: isinstance(value, bool))
_names: Check = ("a list of 1 to 4096 names", _are_names)
_numbers: Check = ("a list of numbers", _are_numbers)

CHECKS: Mapping[str, Check] = {
    "general.model_path": _text,
    "general.model_type": _text,
    "model.model_path": _text,
    "model.model_type": _text,
    "model.onnx_path": _text,
    "dataset.class_names": _names,
    "dataset.classes_file_path": _text,
    "dataset.keypoints": _whole(1, 1000),
    "dataset.use_garbage_class": _flag,
    "preprocessing.resizing.aspect_ratio": one_of("fit", "crop", "padding", "full_screen"),
    "preprocessing.color_mode": one_of("rgb", "bgr", "grayscale"),
    "preprocessing.gravity_rot_sup": _flag,
    "preprocessing.target_rate": one_of(16000, 48000),
    "preprocessing.sample_rate": one_of(16000, 48000),
    "preprocessing.Max_distance": _number,
    "preprocessing.Min_distance": _number,
    "preprocessing.Background_distance": _number,
    "postprocessing.confidence_thresh": _share,
    "postprocessing.kpts_conf_thresh": _share,
    "postprocessing.NMS_thresh": _share,
    "postprocessing.max_detection_boxes": _whole(1, 100_000),
    "postprocessing.yolo_anchors": _numbers,
    "postprocessing.network_stride": _whole(1, 128),  # or a list of them
    "deployment.c_project_path": _text,
    "deployment.IDE": one_of("GCC", "gcc"),
    "deployment.hardware_setup.serie": _text,
    "deployment.hardware_setup.board": _text,
    "deployment.hardware_setup.stlink_serial_number": _text,
    "deployment.hardware_setup.input": one_of("CAMERA_INTERFACE_DCMI", "CAMERA_INTERFACE_USB", "CAMERA_INTERFACE_SPI"),
    "deployment.hardware_setup.output": one_of("DISPLAY_INTERFACE_USB", "DISPLAY_INTERFACE_SPI"),
    "deployment.build_conf": _text,
    "deployment.unknown_class_threshold": _share,
    "deployment.frames_per_patch": _whole(1, 100_000),
    "deployment.lookahead_frames": _whole(0, 100_000),
    "deployment.output_silence_threshold": _number,
    "feature_extraction.n_fft": _whole(1, 1 << 20),
    "feature_extraction.window_length": _whole(1, 1 << 20),
    "feature_extraction.power": one_of(1, 2),
    "feature_extraction.norm": one_of("None", "slaney"),
    "preprocessing.n_fft": _whole(1, 1 << 20),
    "preprocessing.win_length": _whole(1, 1 << 20),
}


def validate(settings: YamlSettings) -> list[str]:
    """Refuses what cannot be meant; the sentences name keys that nobody reads."""
    mode = settings.get("operation_mode", "deployment")
    if mode != "deployment" and not str(mode).endswith("d"):  # chain_qd: quantise, then deploy
        remedy = "set operation_mode: deployment"
        raise settings.error("operation_mode", f"{mode!r} does not deploy", remedy=remedy)
    for key, check in CHECKS.items():
        value = settings.get(key)
        several = key == "postprocessing.network_stride" and isinstance(value, list)
        allowed, fits = _numbers if several else check
        if value is not None and not fits(value):
            raise settings.error(key, f"{str(value)[:80]!r} is not allowed", remedy=f"write {allowed}")
        if isinstance(value, str) and "${" in value:
            raise settings.error(key, f"{value[:80]!r} refers to another value", remedy="write the value itself")
    return list(_strangers(settings))


def _strangers(settings: YamlSettings) -> Iterator[str]:
    for key in settings.lines:
        section, _, rest = key.partition(".")
        if section not in SECTIONS:
            if not rest:
                _refuse_misspelt(settings, key, section, SECTIONS)
                yield f"{settings.where(key)}: section is not used"
            continue
        known = _KNOWN.get(section, "").split()
        parent = rest.rpartition(".")[0]
        if rest and known and rest not in known and (not parent or parent in known) and not rest.endswith(_OF_TRAINING):
            _refuse_misspelt(settings, key, rest, known)
            yield f"{settings.where(key)}: key is not used"


def _refuse_misspelt(settings: YamlSettings, key: str, word: str, known: list[str]) -> None:
    """A key that is nearly one that we read, which is not in the file, was meant to be it."""
    near = get_close_matches(word, known, 1, 0.85)
    full = ".".join((*key.split(".")[:1], near[0])) if near and "." in key else "".join(near)
    is_read = any(f"{read}.".startswith(f"{full}.") for read in CHECKS)
    if near and is_read and full not in settings.lines:
        raise settings.error(key, f"is unknown; {near[0]} is meant?", remedy=f"write {near[0]}, or remove it")


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
        key = "dataset.classes_file_path"
        text = read_text(_existing(settings, key, str(settings.get(key))), MOST_NAMES_BYTES)
        names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        names = _DATASET_CLASSES.get(str(settings.get("dataset.name")), "").split(",")
    found = [str(name) for name in names if str(name)]
    if not found:
        raise settings.error("dataset.class_names", "is missing", remedy="list the classes of the model")
    if config.use_case == "audio_event_detection" and settings.get("dataset.use_garbage_class"):
        found.append("other")
    return tuple(sorted(found) if config.use_case in _SORTED else found)


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
