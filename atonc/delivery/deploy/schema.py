"""The keys of a deployment file: which there are, and what they may say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from atonc.delivery.deploy.yaml_file import YamlSettings

Check = Callable[[Any], str]  # what is allowed, if this is not

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
    return lambda value: "" if value in allowed else f"one of {', '.join(map(str, allowed))}"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value and "\0" not in value else "text"


def _share(value: Any) -> str:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    return "" if ok else "a number from 0 to 1"


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> str:
        ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if ok else f"a whole number from {low:,} to {high:,}"

    return check


def _number(value: Any) -> str:
    return "" if isinstance(value, (int, float)) and not isinstance(value, bool) else "a number"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "True or False"


def _names(value: Any) -> str:
    plain = isinstance(value, list) and all(isinstance(v, (str, int, float)) for v in value)
    return "" if plain and 0 < len(value) <= 4096 else "a list of 1 to 4096 names"


def _numbers(value: Any) -> str:
    return "" if isinstance(value, list) and value and not any(map(_number, value)) else "a list of numbers"


def _strides(value: Any) -> str:
    return _numbers(value) if isinstance(value, list) else _whole(1, 128)(value)


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
    "postprocessing.network_stride": _strides,
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
        if value is not None and (allowed := check(value)):
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
                yield f"{settings.where(key)}: nobody reads this section"
            continue
        known = _KNOWN.get(section, "").split()
        parent = rest.rpartition(".")[0]
        if rest and known and rest not in known and (not parent or parent in known) and not rest.endswith(_OF_TRAINING):
            _refuse_misspelt(settings, key, rest, known)
            yield f"{settings.where(key)}: nobody reads this key"


def _refuse_misspelt(settings: YamlSettings, key: str, word: str, known: list[str]) -> None:
    """A key that is nearly one that we read, which is not in the file, was meant to be it."""
    near = get_close_matches(word, known, 1, 0.85)
    full = ".".join((*key.split(".")[:1], near[0])) if near and "." in key else "".join(near)
    is_read = any(f"{read}.".startswith(f"{full}.") for read in CHECKS)
    if near and is_read and full not in settings.lines:
        raise settings.error(key, f"is unknown; {near[0]} is meant?", remedy=f"write {near[0]}, or remove it")
