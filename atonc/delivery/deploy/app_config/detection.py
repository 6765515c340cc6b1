"""Object detection: SSD, YOLO v2, ST YOLO X, YOLO v5u and v8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from atonc.delivery.deploy.app_config.common import by_dialect
from atonc.delivery.deploy.app_config.types import (
    CONFIDENCE,
    CURRENT,
    MOST_BOXES,
    OVERLAP,
    ZOO,
    Case,
    Define,
    Family,
    HeaderTable,
    Line,
    Row,
    both,
    bracketed,
)
from atonc.machine.base.words import count

_USE_CASE = "object_detection"
_CLASSES = "dataset.class_names"
_ANCHORS = "postprocessing.yolo_anchors"
_V2_ANCHORS = (0.076023, 0.258508, 0.163031, 0.413531, 0.234769, 0.702585, 0.427054, 0.715892, 0.748154, 0.857092)
_X_ANCHORS = (0.5, 0.5)
_STRIDES = {"tiny_yolo_v2": 32, "st_yolo_lc_v1": 16}
_X_STRIDES = (8, 16, 32)
_LEVELS = ("L", "M", "S")  # large grid for small things


def _number_of_classes(extra: int = 0) -> Callable[[Case], str]:
    return lambda case: bracketed(len(case.classes) + extra)


# ----------------------------------------------------------------------------------------------------------------- SSD


def _ssd_outputs(case: Case) -> tuple[int, int]:
    """Boxes, and classes with the one for nothing."""
    scores = [edge.shape for edge in case.model.outputs if len(edge.shape) == 3]
    if not scores:
        raise case.wrong("general.model_type", "the model's outputs are not those of an SSD")
    return scores[0][1], len(case.classes) + 1


def _check_ssd(case: Case) -> None:
    boxes, classes = _ssd_outputs(case)
    wide = {edge.shape[-1] for edge in case.model.outputs if len(edge.shape) == 3 and edge.shape[1] == boxes}
    if classes not in wide and classes + 8 not in wide:
        told = count(classes - 1, "class", "classes")
        raise case.wrong(_CLASSES, f"lists {told}, the model's outputs have other sizes: {sorted(wide)}")


def _ssd_rows(variance: bool) -> tuple[Row, ...]:
    rows: tuple[Row, ...] = (
        ("NB_CLASSES", _number_of_classes(1)),
        OVERLAP,
        CONFIDENCE,
        MOST_BOXES,
        ("TOTAL_DETECTIONS", lambda case: bracketed(_ssd_outputs(case)[0])),
    )
    return (*rows, ("XY_VARIANCE", lambda _: "(0.1)"), ("WH_VARIANCE", lambda _: "(0.2)")) if variance else rows


SSD = Family(
    _USE_CASE,
    ("st_ssd_mobilenet_v1", "ssd_mobilenet_v2_fpnlite"),
    by_dialect("AI_OD_SSD_ST_PP_", "AI_OD_SSD_PP_"),
    {ZOO: {"float32": "OD_ST_SSD_UF"}, CURRENT: {"float32": "OD_SSD_UF", "int8": "OD_SSD_UI"}},
    {ZOO: _ssd_rows(False), CURRENT: _ssd_rows(True)},
    check=_check_ssd,
    background=True,
)

# ------------------------------------------------------------------------------------------------------------- YOLO v2


def _v2_stride(case: Case) -> int:
    return int(case.config.settings.get("postprocessing.network_stride") or _STRIDES[case.config.model_type])


def _v2_grid(case: Case) -> tuple[int, int]:
    height, width, _ = case.model.image
    return height // _v2_stride(case), width // _v2_stride(case)


def _pairs(case: Case, default: tuple[float, ...]) -> np.ndarray:
    given = case.config.settings.get(_ANCHORS)
    flat = np.array(given or default, np.float32)
    if flat.size % 2:
        raise case.wrong(_ANCHORS, f"has {flat.size} numbers, anchors are pairs")
    return flat


def _v2_anchors(case: Case) -> np.ndarray:
    """Gives anchors in cells of the grid; the zoo's own are shares of the picture."""
    flat = _pairs(case, _V2_ANCHORS)
    if case.config.settings.get(_ANCHORS) is not None:
        return flat
    height, width = _v2_grid(case)
    return flat * np.tile(np.array([width, height], np.float32), flat.size // 2)


def _boxes(case: Case, anchors: int) -> str:
    return f"{count(len(case.classes), 'class', 'classes')} and {count(anchors, 'anchor')}"


def _check_v2(case: Case) -> None:
    grid, anchors = _v2_grid(case), _v2_anchors(case).size // 2
    wanted = (*grid, anchors * (5 + len(case.classes)))
    found = prod(case.model.output().shape)
    if found != prod(wanted):
        raise case.wrong(
            _CLASSES,
            f"{_boxes(case, anchors)} on a grid of {grid[0]}x{grid[1]} need {prod(wanted):,} "
            f"outputs, the model has {found:,}",
            "correct dataset.class_names or postprocessing.yolo_anchors",
        )


def _v2_more(case: Case) -> Iterator[Line]:
    prefix = YOLO_V2.prefix[case.dialect]
    anchors = tuple(float(v) for v in _v2_anchors(case))
    yield Define(f"{prefix}NB_INPUT_BOXES", f"({prefix}GRID_WIDTH * {prefix}GRID_HEIGHT)")
    yield HeaderTable(f"{prefix}ANCHORS", f"2*{prefix}NB_ANCHORS", anchors)


YOLO_V2 = Family(
    _USE_CASE,
    ("tiny_yolo_v2", "st_yolo_lc_v1"),
    by_dialect("AI_OBJDETECT_YOLOV2_PP_", "AI_OD_YOLOV2_PP_"),
    {ZOO: {"float32": "OD_YOLO_V2_UF"}, CURRENT: {"float32": "OD_YOLO_V2_UF", "int8": "OD_YOLO_V2_UI"}},
    both(
        (
            ("NB_CLASSES", _number_of_classes()),
            ("NB_ANCHORS", lambda case: bracketed(_v2_anchors(case).size // 2)),
            ("GRID_WIDTH", lambda case: bracketed(_v2_grid(case)[1])),
            ("GRID_HEIGHT", lambda case: bracketed(_v2_grid(case)[0])),
            CONFIDENCE,
            OVERLAP,
            MOST_BOXES,
        )
    ),
    more=_v2_more,
    check=_check_v2,
)

# ----------------------------------------------------------------------------------------------------------- ST YOLO X


def _x_grids(case: Case) -> list[tuple[int, int]]:
    height, width, _ = case.model.image
    strides = case.config.settings.get("postprocessing.network_stride") or _X_STRIDES
    if not isinstance(strides, (list, tuple)) or len(strides) != len(_LEVELS):
        raise case.wrong("postprocessing.network_stride", "ST YOLO X has three strides")
    return [(height // int(stride), width // int(stride)) for stride in strides]


def _check_x(case: Case) -> None:
    anchors = _pairs(case, _X_ANCHORS).size // 2
    wanted = {h * w * anchors * (5 + len(case.classes)) for h, w in _x_grids(case)}
    found = {prod(edge.shape) for edge in case.model.outputs}
    if wanted != found:
        raise case.wrong(
            _CLASSES,
            f"{_boxes(case, anchors)} need outputs of {sorted(wanted)} values, "
            f"the model's have {sorted(found)}",
            "correct dataset.class_names or postprocessing.yolo_anchors",
        )


def _x_more(case: Case) -> Iterator[Line]:
    prefix, flat = ST_YOLO_X.prefix[case.dialect], _pairs(case, _X_ANCHORS)
    for level, (height, width) in zip(_LEVELS, _x_grids(case), strict=True):
        yield Define(f"{prefix}{level}_GRID_WIDTH", f"({width})")
        yield Define(f"{prefix}{level}_GRID_HEIGHT", f"({height})")
        yield Define(f"{prefix}{level}_NB_INPUT_BOXES", f"({prefix}{level}_GRID_WIDTH * {prefix}{level}_GRID_HEIGHT)")
        scaled = tuple(float(v) for v in flat * np.tile(np.array([width, height], np.float32), flat.size // 2))
        yield HeaderTable(f"{prefix}{level}_ANCHORS", f"2*{prefix}NB_ANCHORS", scaled)


ST_YOLO_X = Family(
    _USE_CASE,
    ("st_yolo_x",),
    by_dialect("AI_OBJDETECT_YOLOVX_PP_", "AI_OD_ST_YOLOX_PP_"),
    {ZOO: {"float32": "OD_ST_YOLOX_UF"}, CURRENT: {"float32": "OD_ST_YOLOX_UF", "int8": "OD_ST_YOLOX_UI"}},
    both(
        (
            ("NB_CLASSES", _number_of_classes()),
            ("NB_ANCHORS", lambda case: bracketed(_pairs(case, _X_ANCHORS).size // 2)),
            OVERLAP,
            CONFIDENCE,
            MOST_BOXES,
        )
    ),
    more=_x_more,
    check=_check_x,
)

# ------------------------------------------------------------------------------------------------------------- YOLO v8


def _check_v8(case: Case) -> None:
    shape = case.model.output().shape
    if len(shape) != 3 or shape[1] <= 4:
        sizes = "x".join(map(str, shape))
        raise case.wrong("general.model_type", f"the output is {sizes}, not 1 x (4 + classes) x boxes")
    if shape[1] - 4 != len(case.classes):
        told = count(len(case.classes), "class", "classes")
        raise case.wrong(_CLASSES, f"lists {told}, the model has {shape[1] - 4}")


_V8_ROWS: tuple[Row, ...] = (
    ("NB_CLASSES", lambda case: bracketed(case.model.output().shape[1] - 4)),
    ("TOTAL_BOXES", lambda case: bracketed(case.model.output().shape[2])),
    MOST_BOXES,
    CONFIDENCE,
    OVERLAP,
)
YOLO_V8 = Family(
    _USE_CASE,
    ("yolo_v8", "yolo_v5u"),
    by_dialect("AI_OBJDETECT_YOLOV8_PP_", "AI_OD_YOLOV8_PP_"),
    {
        ZOO: {"float32": "OD_YOLO_V8_UF", "int8": "OD_YOLO_V8_UI", "uint8": "OD_YOLO_V8_UI"},
        CURRENT: {"float32": "OD_YOLO_V8_UF", "int8": "OD_YOLO_V8_UI"},
    },
    both(
        (
            *_V8_ROWS,
            ("SCALE", lambda case: bracketed(case.model.output().scale)),
            ("ZERO_POINT", lambda case: bracketed(case.model.output().zero_point)),
        )
    ),
    check=_check_v8,
)
FAMILIES = (SSD, YOLO_V2, ST_YOLO_X, YOLO_V8)
