"""Re-identification: a detector finds people, the network tells them apart. The detector has a header of its own."""

from __future__ import annotations

from atonc.delivery.deploy.app_config.common import memory_message
from atonc.delivery.deploy.app_config.render import c_string
from atonc.delivery.deploy.app_config.types import Case, Define, Header, HeaderComment

_LOST_MS, _START_CONFIDENCE, _TRACKED = 60000, 0.9, 10  # as the published application has them


def reid_header(case: Case) -> Header:
    detected = case.config.settings.get("postprocessing.max_detection_boxes", 20)
    score = case.config.settings.get("postprocessing.confidence_thresh", 0.5)
    lines = (
        Define("USE_DCACHE"),
        Define("CAMERA_FLIP", "CMW_MIRRORFLIP_NONE"),
        HeaderComment("Who is followed, and for how long"),
        Define("APP_MAX_OBJECT_DETECT", f"({detected})"),
        Define("APP_MAX_OBJECT_TRACKING", f"({min(_TRACKED, detected)})"),
        Define("APP_SCORE_THRESHOLD", f"({float(score)})"),
        Define("APP_LOST_TIME_IN_MS", f"({_LOST_MS})"),
        Define("APP_START_TRACKING_CONF_THRESHOLD", f"({_START_CONFIDENCE})"),
        HeaderComment("Display"),
        Define("WELCOME_MSG_1", c_string(case.config.model_name)),
        Define("WELCOME_MSG_2", memory_message(case)),
    )
    return Header("app_config.h", "APP_CONFIG", lines, ("arm_math.h", "app_od.h"))
