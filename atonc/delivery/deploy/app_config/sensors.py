"""Hand postures from a time-of-flight sensor, activities from an accelerometer."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.delivery.deploy.app_config.render import c_string, strings
from atonc.delivery.deploy.app_config.types import Case, Define, Header

# numbers by which ST's evaluation kit knows postures
_POSTURES: Mapping[str, int] = {
    "None": 0, "FlatHand": 20, "Like": 21, "Ok": 22, "Fxxk": 23, "Love": 24, "Dislike": 25, "DoubleLike": 26,
    "BreakTime": 27, "CrossHands": 28, "Yeah": 29, "DoubleDisLike": 30, "Praying": 31, "Fist": 32, "Call": 33,
    "FlatThumb": 34, "One": 41, "Two": 42, "Three": 43, "Four": 44, "Five": 45, "Two_bis": 52, "Three_bis": 53,
    "Pointing": 60, "toLeft": 61, "toRight": 62, "toUp": 63, "toDown": 64,
}  # fmt: skip


def hand_header(case: Case) -> Header:
    unknown = [name for name in case.classes if name not in _POSTURES]
    if unknown:
        known = ", ".join(_POSTURES)
        raise case.wrong("dataset.class_names", f"unknown postures: {', '.join(unknown)}", f"choose from {known}")
    names = tuple(sorted(case.classes, key=lambda name: _POSTURES[name]))
    height, width, channels = _image(case)
    numbers = ", ".join(str(_POSTURES[name]) for name in names)
    distances = (("BACKGROUND_REMOVAL", "Background"), ("MAX_DISTANCE", "Max"), ("MIN_DISTANCE", "Min"))
    lines = (
        Define("NB_CLASSES", f"({len(names)})"),
        Define("INPUT_HEIGHT", f"({height})"),
        Define("INPUT_WIDTH", f"({width})"),
        Define("INPUT_CHANNELS", f"({channels})"),
        Define("CLASSES_TABLE", f"const char* classes_table[NB_CLASSES] = {strings(names)};"),
        Define("EVK_LABEL_TABLE", f"const int evk_label_table[NB_CLASSES] = {{{numbers}}};"),
        *(Define(n, f"({case.config.settings.require(f'preprocessing.{k}_distance')})") for n, k in distances),
    )
    return Header("ai_model_config.h", "__AI_MODEL_CONFIG_H__", lines)


def _image(case: Case) -> tuple[int, int, int]:
    shape = case.model.inputs[0].shape
    if len(shape) != 4:
        raise case.wrong("general.model_path", f"the input is {'x'.join(map(str, shape))}, no picture of the sensor")
    return shape[1], shape[2], shape[3]


def activity_header(case: Case) -> Header:
    prefix = "CTRL_X_CUBE_AI_"
    names = "{" + ",".join(map(c_string, case.classes)) + "}"
    lines = [
        Define(f"{prefix}MODE_NB_OUTPUT", "(1U)"),
        Define(f"{prefix}MODE_OUTPUT_1", "(CTRL_AI_CLASS_DISTRIBUTION)"),
        Define(f"{prefix}MODE_CLASS_NUMBER", f"({len(case.classes)}U)"),
        Define(f"{prefix}MODE_CLASS_LIST", names),
        Define(f"{prefix}SENSOR_TYPE", "(COM_TYPE_ACC)"),
        Define(f"{prefix}SENSOR_ODR", "(26.0F)"),
        Define(f"{prefix}SENSOR_FS", "(4.0F)"),
        Define(f"{prefix}NB_SAMPLES", "(0U)"),
    ]
    if case.config.settings.get("preprocessing.gravity_rot_sup"):
        lines.append(Define(f"{prefix}PREPROC", "(CTRL_AI_GRAV_ROT_SUPPR)"))
    return Header("ai_model_config.h", "AI_MODEL_CONFIG_H", tuple(lines), plain_c=True)
