"""The header by which an application knows its model: `app_config.h` (STM32N6), `ai_model_config.h` (all others)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from atonc.delivery.deploy.app_config.families import FAMILIES, Family
from atonc.delivery.deploy.app_config.header import CURRENT, DIALECTS, ZOO, Case, Header, ModelFacts, text_of
from atonc.delivery.deploy.app_config.sensors import (
    activity_header,
    audio_header,
    hand_header,
    reid_header,
    speech_header,
)
from atonc.delivery.deploy.app_config.vision import h7_header, output_type, vision_header
from atonc.delivery.deploy.config import DeployConfig, class_names

__all__ = ["CURRENT", "DIALECTS", "FAMILIES", "ZOO", "header_of", "output_type_of", "text_of"]

_OTHERS: Mapping[str, Callable[[Case], Header]] = {
    "re_identification": reid_header,
    "audio_event_detection": audio_header,
    "speech_enhancement": speech_header,
    "hand_posture": hand_header,
    "human_activity_recognition": activity_header,
}
_NAMELESS = ("pose_estimation", "depth_estimation", "re_identification", "speech_enhancement", "face_detection")


def header_of(config: DeployConfig, model: ModelFacts, dialect: str) -> Header:
    case = _case(config, model, dialect)
    if config.use_case in _OTHERS:
        return _OTHERS[config.use_case](case)
    if config.serie == "STM32H7":
        return h7_header(case)
    return vision_header(case, _family(case))


def output_type_of(config: DeployConfig, model: ModelFacts, dialect: str) -> str:
    """The type of outputs that the header promises to the application; empty: as the model has them."""
    if config.use_case in _OTHERS or config.serie == "STM32H7":
        return ""
    case = _case(config, model, dialect)
    wanted = output_type(case, _family(case))
    return "" if wanted == case.output.dtype else wanted


def _case(config: DeployConfig, model: ModelFacts, dialect: str) -> Case:
    return Case(config, model, dialect, () if config.use_case in _NAMELESS else class_names(config))


def _family(case: Case) -> Family:
    config = case.config
    offered = [family for family in FAMILIES if family.use_case == config.use_case]
    by_type = [family for family in offered if config.model_type in family.model_types]
    if by_type:
        return by_type[0]
    if len(offered) == 1 and "" in offered[0].model_types:  # one post-processing whatever the model is called
        return offered[0]
    allowed = ", ".join(kind for family in offered for kind in family.model_types)
    what = f"{config.model_type or 'nothing'!r} is no model of {config.use_case}"
    raise case.wrong("general.model_type", what, f"write {allowed}")
