"""Headers of all that is no picture for one network: sounds and speech, whose spectrogram is described; hand postures
from a time-of-flight sensor; activities from an accelerometer; and people who are told apart behind a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from atonc.delivery.deploy.app_config.header import (
    Case,
    Define,
    Header,
    HeaderComment,
    bracketed,
    c_string,
    classes_table,
)
from atonc.delivery.deploy.app_config.vision import CAMERA_LINES, welcome

# numbers by which ST's evaluation kit knows postures
_POSTURES: Mapping[str, int] = {
    "None": 0, "FlatHand": 20, "Like": 21, "Ok": 22, "Fxxk": 23, "Love": 24, "Dislike": 25, "DoubleLike": 26,
    "BreakTime": 27, "CrossHands": 28, "Yeah": 29, "DoubleDisLike": 30, "Praying": 31, "Fist": 32, "Call": 33,
    "FlatThumb": 34, "One": 41, "Two": 42, "Three": 43, "Four": 44, "Five": 45, "Two_bis": 52, "Three_bis": 53,
    "Pointing": 60, "toLeft": 61, "toRight": 62, "toUp": 63, "toDown": 64,
}  # fmt: skip
_PREFIX = "CTRL_X_CUBE_AI_"
_FEATURES = "feature_extraction."
_N6_BOARD = Define("CTRL_AI_HW_SELECT", "STM32N6570-DK")
_LOST_MS, _START_CONFIDENCE, _TRACKED = 60000, 0.9, 10  # as the published application has them
Value = str | Callable[[Case], str]
Rows = tuple[tuple[str, Value], ...]


def _unsigned(key: str) -> Callable[[Case], str]:
    return lambda case: f"({case.whole(key)}U)"


def _either(key: str, yes: str, no: str) -> Callable[[Case], str]:
    return lambda case: yes if case.config.settings.get(key) else no


def _power(case: Case) -> str:
    return "(SPECTRUM_TYPE_MAGNITUDE)" if case.whole(f"{_FEATURES}power") == 1 else "(SPECTRUM_TYPE_POWER)"


def _normalise(case: Case) -> str:
    return "(1U)" if case.config.settings.get(f"{_FEATURES}norm") == "slaney" else "(0U)"


_CLASSES: Rows = (
    ("MODE_NB_OUTPUT", "(1U)"),
    ("MODE_OUTPUT_1", "(CTRL_AI_CLASS_DISTRIBUTION)"),
    ("MODE_CLASS_NUMBER", lambda case: f"({len(case.classes)}U)"),
    ("MODE_CLASS_LIST", lambda case: "{" + ",".join(map(c_string, case.classes)) + "}"),
)
_EVENTS: Rows = (
    ("MODEL_NAME", c_string("X-CUBE-AI AED")),
    *_CLASSES,
    ("SENSOR_TYPE", "COM_TYPE_MIC"),
    ("SENSOR_NAME", c_string("imp34dt05")),
    ("SENSOR_ODR", lambda case: f"({case.whole('preprocessing.target_rate')}.0F)"),
    ("SENSOR_FS", "(112.5F)"),
    ("NB_SAMPLES", "(0U)"),
    ("PREPROC", "(CTRL_AI_SPECTROGRAM_LOG_MEL)"),
    ("SPECTROGRAM_NMEL", _unsigned(f"{_FEATURES}n_mels")),
    ("SPECTROGRAM_COL", _unsigned(f"{_FEATURES}patch_length")),
    ("SPECTROGRAM_HOP_LENGTH", _unsigned(f"{_FEATURES}hop_length")),
    ("SPECTROGRAM_NFFT", _unsigned(f"{_FEATURES}n_fft")),
    ("SPECTROGRAM_WINDOW_LENGTH", _unsigned(f"{_FEATURES}window_length")),
    ("SPECTROGRAM_NORMALIZE", _normalise),
    ("SPECTROGRAM_FORMULA", _either(f"{_FEATURES}htk", "(MEL_HTK)", "(MEL_SLANEY)")),
    ("SPECTROGRAM_FMIN", _unsigned(f"{_FEATURES}fmin")),
    ("SPECTROGRAM_FMAX", _unsigned(f"{_FEATURES}fmax")),
    ("SPECTROGRAM_TYPE", _power),
    (
        "SPECTROGRAM_LOG_FORMULA",
        _either(f"{_FEATURES}to_db", "(LOGMELSPECTROGRAM_SCALE_DB)", "(LOGMELSPECTROGRAM_SCALE_LOG)"),
    ),
    ("SPECTROGRAM_SILENCE_THR", _either(f"{_FEATURES}to_db", "(0)", "(100.0F)")),
    ("SPECTROGRAM_WIN", "(user_win)"),
    ("SPECTROGRAM_MEL_LUT", "(user_melFiltersLut)"),
    ("SPECTROGRAM_MEL_START_IDX", "(user_melFiltersStartIndices)"),
    ("SPECTROGRAM_MEL_STOP_IDX", "(user_melFiltersStopIndices)"),
    ("OOD_THR", lambda case: f"({case.number('deployment.unknown_class_threshold')}F)"),
)
_SPEECH: Rows = (
    ("MODEL_NAME", c_string("X-CUBE-AI STFT TCN")),
    ("MODE_NB_OUTPUT", "(1U)"),
    ("MODE_OUTPUT_1", "(CTRL_AI_SPECTROGRAM)"),
    ("SENSOR_TYPE", "(COM_TYPE_MIC)"),
    ("AUDIO_OUT", "(COM_TYPE_HEADSET)"),
    ("SENSOR_NAME", c_string("imp34dt05")),
    ("SENSOR_ODR", lambda case: f"({case.whole('preprocessing.sample_rate')}.0F)"),
    ("PREPROC", "(CTRL_AI_STFT)"),
    ("POSTPROC", "(CTRL_AI_ISTFT)"),
    ("SPECTROGRAM_HOP_LENGTH", _unsigned("preprocessing.hop_length")),
    ("SPECTROGRAM_NFFT", _unsigned("preprocessing.n_fft")),
    ("SPECTROGRAM_WINDOW_LENGTH", _unsigned("preprocessing.win_length")),
    ("SPECTROGRAM_COL_NO_OVL", _unsigned("deployment.frames_per_patch")),
    ("SPECTROGRAM_COL_OVL", _unsigned("deployment.lookahead_frames")),
    ("SPECTROGRAM_WIN", "(user_win)"),
    ("AUDIO_OUT_DB_THRESHOLD", lambda case: f"({case.number('deployment.output_silence_threshold'):.1f}F)"),
)
_ACTIVITIES: Rows = (
    *_CLASSES,
    ("SENSOR_TYPE", "(COM_TYPE_ACC)"),
    ("SENSOR_ODR", "(26.0F)"),
    ("SENSOR_FS", "(4.0F)"),
    ("NB_SAMPLES", "(0U)"),
)


def _header(case: Case, rows: Rows, before: tuple[Define, ...] = (), after: tuple[Define, ...] = ()) -> Header:
    lines = [Define(f"{_PREFIX}{name}", value if isinstance(value, str) else value(case)) for name, value in rows]
    return Header("ai_model_config.h", "AI_MODEL_CONFIG_H", (*before, *lines, *after), plain_c=True)


_SEQUENCE = (Define("CTRL_SEQUENCE", "{CTRL_CMD_PARAM_AI,0}"),)


def audio_header(case: Case) -> Header:
    _check_transform(case, f"{_FEATURES}n_fft", f"{_FEATURES}window_length")
    wanted = case.whole(f"{_FEATURES}n_mels") * case.whole(f"{_FEATURES}patch_length")
    if case.model.inputs and (found := prod(case.model.inputs[0].shape)) != wanted:  # none: the file alone
        raise case.wrong(f"{_FEATURES}patch_length", f"a patch has {wanted:,} values, the model takes {found:,}")
    board = (_N6_BOARD,) if case.current and case.config.serie == "STM32N6" else ()
    return _header(case, _EVENTS, board, _SEQUENCE)


def speech_header(case: Case) -> Header:
    _check_transform(case, "preprocessing.n_fft", "preprocessing.win_length")
    return _header(case, _SPEECH, (_N6_BOARD,), _SEQUENCE)


def _check_transform(case: Case, transform: str, window: str) -> None:
    size = case.whole(transform)
    if size & (size - 1):
        raise case.wrong(transform, f"{size} is no power of two, which the Fourier transform needs")
    if case.whole(window) > size:
        raise case.wrong(window, f"the window is longer than the transform of {size}")


def activity_header(case: Case) -> Header:
    still = case.config.settings.get("preprocessing.gravity_rot_sup")
    return _header(case, (*_ACTIVITIES, *((("PREPROC", "(CTRL_AI_GRAV_ROT_SUPPR)"),) if still else ())))


def hand_header(case: Case) -> Header:
    unknown = [name for name in case.classes if name not in _POSTURES]
    if unknown:
        known = ", ".join(_POSTURES)
        raise case.wrong("dataset.class_names", f"unknown postures: {', '.join(unknown)}", f"choose from {known}")
    names = tuple(sorted(case.classes, key=lambda name: _POSTURES[name]))
    edge = case.model.inputs[0]
    if len(edge.shape) != 4:
        raise case.wrong("general.model_path", f"the input is {edge.sizes}, no image of the sensor")
    numbers = ", ".join(str(_POSTURES[name]) for name in names)
    distances = (("BACKGROUND_REMOVAL", "Background"), ("MAX_DISTANCE", "Max"), ("MIN_DISTANCE", "Min"))
    lines = (
        bracketed("NB_CLASSES", len(names)),
        *(
            bracketed(f"INPUT_{side}", n)
            for side, n in zip(("HEIGHT", "WIDTH", "CHANNELS"), edge.shape[1:], strict=True)
        ),
        classes_table(names, ";"),
        Define("EVK_LABEL_TABLE", f"const int evk_label_table[NB_CLASSES] = {{{numbers}}};"),
        *(bracketed(name, case.config.settings.require(f"preprocessing.{key}_distance")) for name, key in distances),
    )
    return Header("ai_model_config.h", "__AI_MODEL_CONFIG_H__", lines)


def reid_header(case: Case) -> Header:
    """The detector has a header of its own."""
    detected = case.config.settings.get("postprocessing.max_detection_boxes", 20)
    score = case.config.settings.get("postprocessing.confidence_thresh", 0.5)
    lines = (
        *CAMERA_LINES,
        HeaderComment("Who is followed, and for how long"),
        bracketed("APP_MAX_OBJECT_DETECT", detected),
        bracketed("APP_MAX_OBJECT_TRACKING", min(_TRACKED, detected)),
        bracketed("APP_SCORE_THRESHOLD", float(score)),
        bracketed("APP_LOST_TIME_IN_MS", _LOST_MS),
        bracketed("APP_START_TRACKING_CONF_THRESHOLD", _START_CONFIDENCE),
        HeaderComment("Display"),
        *welcome(case),
    )
    return Header("app_config.h", "APP_CONFIG", lines, ("arm_math.h", "app_od.h"))
