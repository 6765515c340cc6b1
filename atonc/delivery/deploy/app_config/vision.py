"""Headers of vision applications: `app_config.h` for the STM32N6, `ai_model_config.h` for the STM32H7, whose networks
for classification and detection run on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from atonc.delivery.deploy.app_config.families import SSD, ST_YOLO_X, YOLO_V2, Family
from atonc.delivery.deploy.app_config.header import (
    ZOO,
    Case,
    Define,
    Header,
    HeaderComment,
    Line,
    bracketed,
    c_string,
    classes_table,
    numbered,
)

_ASPECT, _COLOUR = "preprocessing.resizing.aspect_ratio", "preprocessing.color_mode"
_MODES = {"crop": "CROP", "fit": "FIT", "full_screen": "FULLSCREEN"}
_COLOURS = {"rgb": "COLOR_RGB", "bgr": "COLOR_BGR"}
_CROP_FIRST = ("pose_estimation", "instance_segmentation")  # numbers of the modes in the zoo's generator
_WELCOME_0 = ("pose_estimation", "instance_segmentation")
_CAPTURE = (
    Define("CAPTURE_FORMAT", "DCMIPP_PIXEL_PACKER_FORMAT_RGB565_1"),
    Define("CAPTURE_BPP", "2"),
    Define("CAMERA_WIDTH", "0"),
    Define("CAMERA_HEIGHT", "0"),
    Define("LCD_FG_WIDTH", "800"),
    Define("LCD_FG_HEIGHT", "480"),
    Define("LCD_FG_FRAMEBUFFER_SIZE", "(LCD_FG_WIDTH * LCD_FG_HEIGHT * 2)"),
)
CAMERA_LINES = (Define("USE_DCACHE"), Define("CAMERA_FLIP", "CMW_MIRRORFLIP_NONE"))
_MEMORY = ("Model Running in STM32 MCU", "internal memory")
_SMALL_SCREEN = "NUCLEO"  # its display takes the second line in two parts


def vision_header(case: Case, family: Family) -> Header:
    """`app_config.h` for the STM32N6."""
    if family.check is not None:
        family.check(case)
    lines = (*CAMERA_LINES, *_picture(case), *_network(case, family))
    if family.rows or family.more:
        lines += (HeaderComment("Numbers of the post-processing"), *family.numbers(case))
    lines += (HeaderComment("Display"),)
    if not case.current and case.config.use_case in _WELCOME_0:
        lines += (Define("WELCOME_MSG_0", c_string("Single/multi pose estimation - Hand landmark")),)
    return Header("app_config.h", "APP_CONFIG", (*lines, *welcome(case)), ("arm_math.h",))


def output_type(case: Case, family: Family) -> str:
    """What the network must hand to the post-processing: float32, int8 or uint8; empty: as the model has it."""
    offered, own = family.offered(case), case.output.dtype
    return own if own in offered or not offered else next(iter(offered))


def _picture(case: Case) -> Iterator[Line]:
    crop, fit = (1, 2) if case.current or case.config.use_case in _CROP_FIRST else (2, 1)
    yield HeaderComment("How the camera's picture becomes the network's: cut, stretched, or stretched and shown whole")
    yield bracketed("ASPECT_RATIO_CROP", crop)
    yield bracketed("ASPECT_RATIO_FIT", fit)
    yield bracketed("ASPECT_RATIO_FULLSCREEN", 3)
    yield Define("ASPECT_RATIO_MODE", f"ASPECT_RATIO_{case.chosen(_ASPECT, _MODES)}")
    if not case.current:
        yield from _CAPTURE


def _network(case: Case, family: Family) -> Iterator[Line]:
    if offered := family.offered(case):
        yield HeaderComment("Post-processing")
        yield Define("POSTPROCESS_TYPE", f"POSTPROCESS_{offered[output_type(case, family)]}")
    height, width, channels = case.model.image
    colour = case.chosen(_COLOUR, _COLOURS)
    if channels != 3:
        raise case.wrong(_COLOUR, f"the model takes {channels} channels, the camera gives 3")
    yield HeaderComment("Picture of the network")
    if family.sizes or not case.current:
        yield bracketed("NN_HEIGHT", height)
        yield bracketed("NN_WIDTH", width)
        yield Define("NN_BPP", "3")
    yield bracketed("COLOR_BGR", 0)
    yield bracketed("COLOR_RGB", 1)
    yield Define("COLOR_MODE", colour)
    if case.classes:
        names = family.names(case)
        yield HeaderComment("Classes")
        yield bracketed("NB_CLASSES", len(names))
        yield classes_table(names)


def welcome(case: Case) -> tuple[Define, Define]:
    """What the display shows: the model, and where it runs."""
    parts = [c_string(part) for part in _MEMORY]
    narrow = case.current and case.config.board.startswith(_SMALL_SCREEN)
    memory = f"((char *[2]) {{{', '.join(parts)}}})" if narrow else c_string(" ".join(_MEMORY))
    return Define("WELCOME_MSG_1", c_string(case.config.model_name)), Define("WELCOME_MSG_2", memory)


# ------------------------------------------------------------------------------------------------------------ STM32H7

_H7_MODES = {"fit": "FIT", "crop": "CROP", "padding": "PADDING"}
_H7_COLOURS = {"rgb": "RGB", "bgr": "BGR", "grayscale": "GRAYSCALE"}
_H7_TYPES = {"uint8": "UINT8", "int8": "INT8", "float32": "FLOAT32"}
_H7_POSTPROCESS = ("CENTER_NET", "YOLO_V2", "ST_SSD", "SSD", "ST_YOLO_X")
_H7_FAMILIES = {  # name of the post-processing -> family, and the prefix of its numbers here
    "ST_SSD": (SSD, "AI_OBJDETECT_SSD_ST_PP_"),
    "YOLO_V2": (YOLO_V2, "AI_OBJDETECT_YOLOV2_PP_"),
    "ST_YOLO_X": (ST_YOLO_X, "AI_OBJDETECT_YOLOVX_PP_"),
}
_SMALL_BOARD = "NUCLEO-H743ZI2"
_USB = ("CAMERA_INTERFACE_USB", "DISPLAY_INTERFACE_USB")


def h7_header(case: Case) -> Header:
    """`ai_model_config.h`: every published application for the STM32H7 has the names of the zoo's generator."""
    case = replace(case, dialect=ZOO)
    name = _h7_postprocess(case)
    family, prefix = _H7_FAMILIES.get(name, (None, ""))
    if family is not None and family.check is not None:
        family.check(case)
    height, width, channels = case.model.image
    names = case.classes if family is None else family.names(case)
    sizes = (("NB_CLASSES", len(names)), ("INPUT_HEIGHT", height), ("INPUT_WIDTH", width), ("INPUT_CHANNELS", channels))
    lines: list[Line] = [*(bracketed(*size) for size in sizes), classes_table(names)]
    lines += numbered("ASPECT_RATIO_", tuple(_H7_MODES.values()))
    lines.append(Define("ASPECT_RATIO_MODE", f"ASPECT_RATIO_{case.chosen(_ASPECT, _H7_MODES)}"))
    if family is not None:
        lines += [HeaderComment("Post-processing"), *numbered("POSTPROCESS_", _H7_POSTPROCESS)]
        lines.append(Define("POSTPROCESS_TYPE", f"POSTPROCESS_{name}"))
        lines += [bracketed(f"{prefix}{suffix}", value(case)) for suffix, value in family.rows]
        lines += family.more(case) if family.more is not None else ()
    lines += [*_h7_formats(case), *(_h7_interfaces(case) if case.config.board.split(",")[0] == _SMALL_BOARD else ())]
    return Header("ai_model_config.h", "__AI_MODEL_CONFIG_H__", tuple(lines))


def _h7_postprocess(case: Case) -> str:
    if case.config.use_case != "object_detection":
        return ""
    for name, (family, _) in _H7_FAMILIES.items():
        if case.config.model_type in family.model_types:
            return name
    allowed = ", ".join(kind for family, _ in _H7_FAMILIES.values() for kind in family.model_types)
    what = f"{case.config.model_type!r} does not run on the STM32H7"
    raise case.wrong("general.model_type", what, f"write {allowed}")


def _h7_formats(case: Case) -> Iterator[Line]:
    colour, channels = case.chosen(_COLOUR, _H7_COLOURS), case.model.image[2]
    if channels != (1 if colour == "GRAYSCALE" else 3):
        raise case.wrong(_COLOUR, f"the model takes {channels} channels")
    yield from numbered("", tuple(_H7_COLOURS.values()), "_FORMAT")
    yield Define("PP_COLOR_MODE", f"{colour}_FORMAT")
    yield from numbered("", tuple(_H7_TYPES.values()), "_FORMAT")
    for edge, kind in (("INPUT", case.model.inputs[0].dtype), ("OUTPUT", case.output.dtype)):
        if kind not in _H7_TYPES:
            raise case.wrong("general.model_path", f"the {edge.lower()} is {kind}", f"use {', '.join(_H7_TYPES)}")
        yield Define(f"QUANT_{edge}_TYPE", f"{_H7_TYPES[kind]}_FORMAT")


def _h7_interfaces(case: Case) -> Iterator[Line]:
    key = "deployment.hardware_setup"
    camera, display = (str(case.config.settings.require(f"{key}.{end}")) for end in ("input", "output"))
    if (camera, display) == _USB:
        raise case.wrong(f"{key}.input", "the board has one USB port, for a camera or a display")
    yield HeaderComment("Camera and display")
    yield from numbered("DISPLAY_INTERFACE_", ("USB", "SPI"))
    yield Define("DISPLAY_INTERFACE", display)
    yield from numbered("CAMERA_INTERFACE_", ("DCMI", "USB", "SPI"))
    yield Define("CAMERA_INTERFACE", camera)
    yield bracketed("CAMERA_SENSOR_OV5640", 1)
    yield Define("CAMERA_SENSOR", "CAMERA_SENSOR_OV5640")
