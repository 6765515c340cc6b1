"""Poses: heat maps of one person (MoveNet), boxes with key points of several (YOLO v8), palms."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.delivery.deploy.app_config.types import (
    CONFIDENCE,
    CURRENT,
    MOST_BOXES,
    OVERLAP,
    ZOO,
    Case,
    Define,
    Family,
    Line,
    both,
    bracketed,
)

_USE_CASE = "pose_estimation"
_SKELETONS = (13, 17)
_HEAT = "AI_SPE_MOVENET_POSTPROC_"
_POSE = "AI_POSE_PP_"


# ------------------------------------------------------------------------------------------------------------- MoveNet


def _heat_maps(case: Case) -> tuple[int, int, int]:
    """Height, width, key points."""
    shape = case.model.output().shape
    if len(shape) != 4:
        raise case.wrong("general.model_type", f"the output is {'x'.join(map(str, shape))}, no heat maps")
    return (shape[1], shape[2], shape[3]) if case.model.channels_last else (shape[2], shape[3], shape[1])


def _check_heat_maps(case: Case) -> None:
    height, width, points = _heat_maps(case)
    if (height * 4, width * 4) != case.model.image[:2]:
        raise case.wrong("general.model_type", f"heat maps of {height}x{width} are not a quarter of the picture")
    _check_points(case, points)


def _check_points(case: Case, points: int) -> None:
    wanted = case.config.settings.get("dataset.keypoints")
    if wanted is not None and wanted != points:
        raise case.wrong("dataset.keypoints", f"is {wanted}, the model has {points}")
    if points not in _SKELETONS:
        raise case.wrong("dataset.keypoints", f"the application draws skeletons of 13 or 17 points, not {points}")


def _heat_lines(case: Case) -> Iterator[Line]:
    yield Define(f"{_POSE}CONF_THRESHOLD", bracketed(case.number("postprocessing.confidence_thresh")))
    yield Define(f"{_POSE}POSE_KEYPOINTS_NB", bracketed(_heat_maps(case)[2]))
    yield Define(f"{_HEAT}HEATMAP_WIDTH", "(NN_WIDTH/4)")
    yield Define(f"{_HEAT}HEATMAP_HEIGHT", "(NN_HEIGHT/4)")
    yield Define(f"{_HEAT}NB_KEYPOINTS", f"({_POSE}POSE_KEYPOINTS_NB)")


MOVENET = Family(
    _USE_CASE,
    ("heatmaps_spe",),
    postprocess={
        ZOO: {"float32": "SPE_MOVENET_UF"},
        CURRENT: {"float32": "SPE_MOVENET_UF", "int8": "SPE_MOVENET_UI"},
    },
    more=_heat_lines,
    check=_check_heat_maps,
)

# ------------------------------------------------------------------------------------------------------------- YOLO v8


def _points(case: Case) -> int:
    shape = case.model.output().shape
    if len(shape) != 3 or (shape[1] - 5) % 3:
        sizes = "x".join(map(str, shape))
        raise case.wrong("general.model_type", f"the output is {sizes}, not 1 x (5 + 3 points) x boxes")
    return (shape[1] - 5) // 3


def _yolo_lines(case: Case) -> Iterator[Line]:
    yield Define(f"{_POSE}CONF_THRESHOLD", "(AI_MPE_YOLOV8_PP_CONF_THRESHOLD)")
    yield Define(f"{_POSE}POSE_KEYPOINTS_NB", bracketed(_points(case)))


YOLO = Family(
    _USE_CASE,
    ("yolo_mpe",),
    both("AI_MPE_YOLOV8_PP_"),
    {ZOO: {"float32": "MPE_YOLO_V8_UF"}, CURRENT: {"float32": "MPE_YOLO_V8_UF", "int8": "MPE_YOLO_V8_UI"}},
    both(
        (
            ("NB_CLASSES", lambda _: "(1)"),
            ("TOTAL_BOXES", lambda case: bracketed(case.model.output().shape[2])),
            MOST_BOXES,
            OVERLAP,
            CONFIDENCE,
        )
    ),
    more=_yolo_lines,
    check=lambda case: _check_points(case, _points(case)),
)

# --------------------------------------------------------------------------------------------------------------- palms


def _palms(case: Case) -> tuple[int, int]:
    """Detections, and numbers of each: a box and its points."""
    boxes = [edge.shape for edge in case.model.outputs if len(edge.shape) == 3 and edge.shape[-1] > 4]
    if len(boxes) != 1 or (boxes[0][-1] - 4) % 2:
        raise case.wrong("general.model_type", "the outputs are not those of a palm detector")
    return boxes[0][1], boxes[0][2]


PALMS = Family(
    _USE_CASE,
    ("palm_detector", "hand_spe"),
    both("AI_PD_MODEL_PP_"),
    both({"float32": "MPE_PD_UF"}),
    both(
        (
            ("WIDTH", lambda case: bracketed(case.model.image[1])),
            ("HEIGHT", lambda case: bracketed(case.model.image[0])),
            ("TOTAL_DETECTIONS", lambda case: bracketed(_palms(case)[0])),
            ("NB_KEYPOINTS", lambda case: bracketed((_palms(case)[1] - 4) // 2)),
            CONFIDENCE,
            OVERLAP,
            MOST_BOXES,
        )
    ),
)
FAMILIES = (MOVENET, YOLO, PALMS)
