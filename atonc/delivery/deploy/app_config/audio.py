"""Sounds: what the spectrogram in front of the network is made of; and the same for speech."""

from __future__ import annotations

from collections.abc import Callable

from atonc.delivery.deploy.app_config.render import c_string
from atonc.delivery.deploy.app_config.types import Case, Define, Header

_PREFIX = "CTRL_X_CUBE_AI_"
_FEATURES = "feature_extraction."
_N6_BOARD = "STM32N6570-DK"
_SEQUENCE = Define("CTRL_SEQUENCE", "{CTRL_CMD_PARAM_AI,0}")
Value = str | Callable[[Case], str]


def _unsigned(key: str) -> Callable[[Case], str]:
    return lambda case: f"({case.whole(key)}U)"


def _either(key: str, yes: str, no: str) -> Callable[[Case], str]:
    return lambda case: yes if case.config.settings.get(key) else no


def _class_list(case: Case) -> str:
    return "{" + ",".join(map(c_string, case.classes)) + "}"


def _power(case: Case) -> str:
    return "(SPECTRUM_TYPE_MAGNITUDE)" if case.whole(f"{_FEATURES}power") == 1 else "(SPECTRUM_TYPE_POWER)"


def _normalise(case: Case) -> str:
    return "(1U)" if case.config.settings.get(f"{_FEATURES}norm") == "slaney" else "(0U)"


_EVENTS: tuple[tuple[str, Value], ...] = (
    ("MODEL_NAME", c_string("X-CUBE-AI AED")),
    ("MODE_NB_OUTPUT", "(1U)"),
    ("MODE_OUTPUT_1", "(CTRL_AI_CLASS_DISTRIBUTION)"),
    ("MODE_CLASS_NUMBER", lambda case: f"({len(case.classes)}U)"),
    ("MODE_CLASS_LIST", _class_list),
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
_SPEECH: tuple[tuple[str, Value], ...] = (
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


def audio_header(case: Case) -> Header:
    _check(case, f"{_FEATURES}n_fft", f"{_FEATURES}window_length")
    wanted = case.whole(f"{_FEATURES}n_mels") * case.whole(f"{_FEATURES}patch_length")
    _check_size(case, wanted, f"{_FEATURES}patch_length")
    board = (Define("CTRL_AI_HW_SELECT", _N6_BOARD),) if case.current and case.config.serie == "STM32N6" else ()
    return _header((*board, *_defines(case, _EVENTS), _SEQUENCE))


def speech_header(case: Case) -> Header:
    _check(case, "preprocessing.n_fft", "preprocessing.win_length")
    return _header((Define("CTRL_AI_HW_SELECT", _N6_BOARD), *_defines(case, _SPEECH), _SEQUENCE))


def _header(lines: tuple[Define, ...]) -> Header:
    return Header("ai_model_config.h", "AI_MODEL_CONFIG_H", lines, plain_c=True)


def _defines(case: Case, rows: tuple[tuple[str, Value], ...]) -> tuple[Define, ...]:
    return tuple(Define(f"{_PREFIX}{name}", value if isinstance(value, str) else value(case)) for name, value in rows)


def _check(case: Case, transform: str, window: str) -> None:
    size = case.whole(transform)
    if size & (size - 1):
        raise case.wrong(transform, f"{size} is no power of two, which the Fourier transform needs")
    if case.whole(window) > size:
        raise case.wrong(window, f"the window is longer than the transform of {size}")


def _check_size(case: Case, wanted: int, key: str) -> None:
    if not case.model.inputs:
        return  # the file alone
    found = 1
    for length in case.model.inputs[0].shape:
        found *= length
    if found != wanted:
        raise case.wrong(key, f"a patch has {wanted:,} values, the model takes {found:,}")
