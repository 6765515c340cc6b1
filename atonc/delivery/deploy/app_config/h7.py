"""`ai_model_config.h` of the STM32H7 applications: classification and detection on the processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.delivery.deploy.app_config import detection
from atonc.delivery.deploy.app_config.render import classes_table
from atonc.delivery.deploy.app_config.types import ZOO, Case, Define, Family, Header, HeaderComment, Line

_MODES: Mapping[str, str] = {"fit": "FIT", "crop": "CROP", "padding": "PADDING"}
_COLOURS: Mapping[str, str] = {"rgb": "RGB", "bgr": "BGR", "grayscale": "GRAYSCALE"}
_TYPES: Mapping[str, str] = {"uint8": "UINT8", "int8": "INT8", "float32": "FLOAT32"}
_POSTPROCESS: Mapping[str, int] = {"CENTER_NET": 1, "YOLO_V2": 2, "ST_SSD": 3, "SSD": 4, "ST_YOLO_X": 5}
_FAMILIES: Mapping[str, tuple[Family, str]] = {  # family -> its name and the prefix of its numbers here
    "ST_SSD": (detection.SSD, "AI_OBJDETECT_SSD_ST_PP_"),
    "YOLO_V2": (detection.YOLO_V2, "AI_OBJDETECT_YOLOV2_PP_"),
    "ST_YOLO_X": (detection.ST_YOLO_X, "AI_OBJDETECT_YOLOVX_PP_"),
}
_SMALL_BOARD = "NUCLEO-H743ZI2"
_USB = ("CAMERA_INTERFACE_USB", "DISPLAY_INTERFACE_USB")


def h7_header(case: Case) -> Header:
    name = _postprocess(case)
    family, prefix = _FAMILIES.get(name, (None, ""))
    if family is not None and family.check is not None:
        family.check(case)
    lines = [*_edges(case, family), *_modes(case)]
    if family is not None:
        lines += _detection(case, family, name, prefix)
    lines += [*_formats(case)]
    if case.config.board.split(",")[0] == _SMALL_BOARD:
        lines += _interfaces(case)
    return Header("ai_model_config.h", "__AI_MODEL_CONFIG_H__", tuple(lines))


def _postprocess(case: Case) -> str:
    if case.config.use_case != "object_detection":
        return ""
    for name, (family, _) in _FAMILIES.items():
        if case.config.model_type in family.model_types:
            return name
    allowed = ", ".join(kind for family, _ in _FAMILIES.values() for kind in family.model_types)
    what = f"{case.config.model_type!r} does not run on the STM32H7"
    raise case.wrong("general.model_type", what, f"write {allowed}")


def _edges(case: Case, family: Family | None) -> Iterator[Line]:
    height, width, channels = case.model.image
    names = ("background", *case.classes) if family is not None and family.background else case.classes
    yield Define("NB_CLASSES", f"({len(names)})")
    yield Define("INPUT_HEIGHT", f"({height})")
    yield Define("INPUT_WIDTH", f"({width})")
    yield Define("INPUT_CHANNELS", f"({channels})")
    yield classes_table(names)


def _modes(case: Case) -> Iterator[Line]:
    yield from (Define(f"ASPECT_RATIO_{mode}", f"({number})") for number, mode in enumerate(_MODES.values(), 1))
    yield Define("ASPECT_RATIO_MODE", f"ASPECT_RATIO_{_chosen(case, 'preprocessing.resizing.aspect_ratio', _MODES)}")


def _detection(case: Case, family: Family, name: str, prefix: str) -> Iterator[Line]:
    yield HeaderComment("Post-processing")
    yield from (Define(f"POSTPROCESS_{kind}", f"({number})") for kind, number in _POSTPROCESS.items())
    yield Define("POSTPROCESS_TYPE", f"POSTPROCESS_{name}")
    for suffix, value in family.rows[ZOO]:
        yield Define(f"{prefix}{suffix}", value(case))
    if family.more is not None:
        yield from family.more(case)


def _formats(case: Case) -> Iterator[Line]:
    colour, channels = _chosen(case, "preprocessing.color_mode", _COLOURS), case.model.image[2]
    if channels != (1 if colour == "GRAYSCALE" else 3):
        raise case.wrong("preprocessing.color_mode", f"the model takes {channels} channels")
    yield from (Define(f"{name}_FORMAT", f"({number})") for number, name in enumerate(_COLOURS.values(), 1))
    yield Define("PP_COLOR_MODE", f"{colour}_FORMAT")
    yield from (Define(f"{name}_FORMAT", f"({number})") for number, name in enumerate(_TYPES.values(), 1))
    for edge, kind in (("INPUT", case.model.inputs[0].dtype), ("OUTPUT", case.model.output().dtype)):
        if kind not in _TYPES:
            raise case.wrong("general.model_path", f"the {edge.lower()} is {kind}", f"use {', '.join(_TYPES)}")
        yield Define(f"QUANT_{edge}_TYPE", f"{_TYPES[kind]}_FORMAT")


def _interfaces(case: Case) -> Iterator[Line]:
    camera = str(case.config.settings.require("deployment.hardware_setup.input"))
    display = str(case.config.settings.require("deployment.hardware_setup.output"))
    if (camera, display) == _USB:
        raise case.wrong("deployment.hardware_setup.input", "the board has one USB port, for a camera or a display")
    yield HeaderComment("Camera and display")
    yield from (Define(f"DISPLAY_INTERFACE_{n}", f"({k})") for k, n in enumerate(("USB", "SPI"), 1))
    yield Define("DISPLAY_INTERFACE", display)
    yield from (Define(f"CAMERA_INTERFACE_{n}", f"({k})") for k, n in enumerate(("DCMI", "USB", "SPI"), 1))
    yield Define("CAMERA_INTERFACE", camera)
    yield Define("CAMERA_SENSOR_OV5640", "(1)")
    yield Define("CAMERA_SENSOR", "CAMERA_SENSOR_OV5640")


def _chosen(case: Case, key: str, known: Mapping[str, str]) -> str:
    given = str(case.config.settings.require(key))
    if given not in known:
        raise case.wrong(key, f"{given!r} does not exist on the STM32H7", f"write {', '.join(known)}")
    return known[given]
