"""What every vision application for the STM32N6 reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.delivery.deploy.app_config.render import c_string, classes_table
from atonc.delivery.deploy.app_config.types import CURRENT, ZOO, Case, Define, Family, Header, HeaderComment, Line

_MODES: Mapping[str, str] = {"crop": "CROP", "fit": "FIT", "full_screen": "FULLSCREEN"}
_COLOURS: Mapping[str, str] = {"rgb": "COLOR_RGB", "bgr": "COLOR_BGR"}
_CROP_FIRST = ("pose_estimation", "instance_segmentation")  # numbers of the modes in the zoo's generator
_CAPTURE = (
    Define("CAPTURE_FORMAT", "DCMIPP_PIXEL_PACKER_FORMAT_RGB565_1"),
    Define("CAPTURE_BPP", "2"),
    Define("CAMERA_WIDTH", "0"),
    Define("CAMERA_HEIGHT", "0"),
    Define("LCD_FG_WIDTH", "800"),
    Define("LCD_FG_HEIGHT", "480"),
    Define("LCD_FG_FRAMEBUFFER_SIZE", "(LCD_FG_WIDTH * LCD_FG_HEIGHT * 2)"),
)
_MEMORY = ("Model Running in STM32 MCU", "internal memory")
_SMALL_SCREEN = "NUCLEO"  # its display takes the second line in two parts
_WELCOME_0 = {"pose_estimation", "instance_segmentation"}


def vision_header(case: Case, family: Family) -> Header:
    """`app_config.h` for the STM32N6."""
    if family.check is not None:
        family.check(case)
    lines = (*_start(case), *_postprocess(case, family), *_network(case, family), *_classes(case, family))
    lines += (*_family(case, family), *_welcome(case))
    return Header("app_config.h", "APP_CONFIG", lines, ("arm_math.h",))


def output_type(case: Case, family: Family) -> str:
    """What the network must hand to the post-processing: float32, int8 or uint8; empty: as the model has it."""
    offered = family.postprocess.get(case.dialect, {})
    own = case.model.output().dtype
    return own if own in offered or not offered else next(iter(offered))


def _start(case: Case) -> Iterator[Line]:
    crop_first = case.current or case.config.use_case in _CROP_FIRST
    crop, fit = (1, 2) if crop_first else (2, 1)
    yield Define("USE_DCACHE")
    yield Define("CAMERA_FLIP", "CMW_MIRRORFLIP_NONE")
    yield HeaderComment("How the camera's picture becomes the network's: cut, stretched, or stretched and shown whole")
    yield Define("ASPECT_RATIO_CROP", f"({crop})")
    yield Define("ASPECT_RATIO_FIT", f"({fit})")
    yield Define("ASPECT_RATIO_FULLSCREEN", "(3)")
    yield Define("ASPECT_RATIO_MODE", f"ASPECT_RATIO_{_chosen(case, 'preprocessing.resizing.aspect_ratio', _MODES)}")
    if not case.current:
        yield from _CAPTURE


def _chosen(case: Case, key: str, known: Mapping[str, str]) -> str:
    given = str(case.config.settings.require(key))
    if given not in known:
        raise case.wrong(key, f"{given!r} does not exist on the {case.config.serie}", f"write {', '.join(known)}")
    return known[given]


def _postprocess(case: Case, family: Family) -> Iterator[Line]:
    offered = family.postprocess.get(case.dialect, {})
    if offered:
        yield HeaderComment("Post-processing")
        yield Define("POSTPROCESS_TYPE", f"POSTPROCESS_{offered[output_type(case, family)]}")


def _network(case: Case, family: Family) -> Iterator[Line]:
    height, width, channels = case.model.image
    colour = _chosen(case, "preprocessing.color_mode", _COLOURS)
    if channels != 3:
        raise case.wrong("preprocessing.color_mode", f"the model takes {channels} channels, the camera gives 3")
    yield HeaderComment("Picture of the network")
    if family.sizes or not case.current:
        yield Define("NN_HEIGHT", f"({height})")
        yield Define("NN_WIDTH", f"({width})")
        yield Define("NN_BPP", "3")
    yield Define("COLOR_BGR", "(0)")
    yield Define("COLOR_RGB", "(1)")
    yield Define("COLOR_MODE", colour)


def _classes(case: Case, family: Family) -> Iterator[Line]:
    if case.classes:
        names = ("background", *case.classes) if family.background else case.classes
        yield HeaderComment("Classes")
        yield Define("NB_CLASSES", f"({len(names)})")
        yield classes_table(names)


def _family(case: Case, family: Family) -> Iterator[Line]:
    rows, prefix = family.rows.get(case.dialect, ()), family.prefix.get(case.dialect, "")
    if rows or family.more:
        yield HeaderComment("Numbers of the post-processing")
    for suffix, value in rows:
        yield Define(f"{prefix}{suffix}", value(case))
    if family.more is not None:
        yield from family.more(case)


def _welcome(case: Case) -> Iterator[Line]:
    yield HeaderComment("Display")
    if not case.current and case.config.use_case in _WELCOME_0:
        yield Define("WELCOME_MSG_0", c_string("Single/multi pose estimation - Hand landmark"))
    yield Define("WELCOME_MSG_1", c_string(case.config.model_name))
    yield Define("WELCOME_MSG_2", memory_message(case))


def memory_message(case: Case) -> str:
    if case.current and case.config.board.startswith(_SMALL_SCREEN):
        return f"((char *[2]) {{{', '.join(map(c_string, _MEMORY))}}})"
    return c_string(" ".join(_MEMORY))


def by_dialect(zoo: str, current: str) -> Mapping[str, str]:
    return {ZOO: zoo, CURRENT: current}
