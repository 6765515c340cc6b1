"""Segmentation: classes of pixels (DeepLab v3), and single things with their masks (YOLO v8)."""

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
from atonc.machine.base.words import count

_CLASSES = "dataset.class_names"


def _check_semantic(case: Case) -> None:
    shape, (height, width, _) = case.model.output().shape, case.model.image
    sizes = sorted(shape[1:])
    if sizes != sorted((height, width, len(case.classes))):
        what = f"{count(len(case.classes), 'class', 'classes')} of {height}x{width} pixels are not the output"
        raise case.wrong(_CLASSES, f"{what}, {'x'.join(map(str, shape))}")


SEMANTIC = Family(
    "semantic_segmentation",
    ("deeplab_v3",),
    both("AI_SSEG_DEEPLABV3_PP_"),
    {ZOO: {"float32": "SSEG_DEEPLAB_V3_UF"}, CURRENT: {"float32": "SSEG_DEEPLAB_V3_UF", "int8": "SSEG_DEEPLAB_V3_UI"}},
    both(
        (
            ("NB_CLASSES", lambda case: bracketed(len(case.classes))),
            ("WIDTH", lambda _: "(NN_WIDTH)"),
            ("HEIGHT", lambda _: "(NN_HEIGHT)"),
        )
    ),
    check=_check_semantic,
)


def _masks(case: Case) -> int:
    return case.model.output(1).shape[3]


def _check_instance(case: Case) -> None:
    shapes = [edge.shape for edge in case.model.outputs]
    if len(shapes) != 2 or len(shapes[0]) != 3 or len(shapes[1]) != 4 or shapes[1][1] != shapes[1][2]:
        raise case.wrong("general.model_type", "the outputs are not boxes and square masks")
    found = shapes[0][1] - 4 - _masks(case)
    if found != len(case.classes):
        raise case.wrong(_CLASSES, f"lists {count(len(case.classes), 'class', 'classes')}, the model has {found}")


def _scales(case: Case) -> Iterator[Line]:
    boxes, masks = case.model.output(0), case.model.output(1)
    yield Define("AI_YOLOV8_SEG_ZERO_POINT", bracketed(boxes.zero_point))
    yield Define("AI_YOLOV8_SEG_SCALE", bracketed(boxes.scale))
    yield Define("AI_YOLOV8_SEG_MASK_ZERO_POINT", bracketed(masks.zero_point))
    yield Define("AI_YOLOV8_SEG_MASK_SCALE", bracketed(masks.scale))


INSTANCE = Family(
    "instance_segmentation",
    ("yolo_v8_seg",),
    both("AI_YOLOV8_SEG_PP_"),
    both({"int8": "ISEG_YOLO_V8_UI"}),
    both(
        (
            ("TOTAL_BOXES", lambda case: bracketed(case.model.output().shape[2])),
            ("NB_CLASSES", lambda case: bracketed(case.model.output().shape[1] - 4 - _masks(case))),
            ("MASK_NB", lambda case: bracketed(_masks(case))),
            ("MASK_SIZE", lambda case: bracketed(case.model.output(1).shape[1])),
            CONFIDENCE,
            OVERLAP,
            MOST_BOXES,
        )
    ),
    more=_scales,
    check=_check_instance,
)
FAMILIES = (SEMANTIC, INSTANCE)
