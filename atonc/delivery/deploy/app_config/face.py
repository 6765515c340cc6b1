"""Faces: BlazeFace and YuNet. Sizes come from the outputs, which their applications sort by themselves."""

from __future__ import annotations

from collections.abc import Callable

from atonc.delivery.deploy.app_config.types import CONFIDENCE, MOST_BOXES, OVERLAP, Case, Family, both, bracketed

_USE_CASE = "face_detection"
_STRIDES = (32, 16, 8)


def _size(case: Case) -> str:
    height, width, _ = case.model.image
    if height != width:
        raise case.wrong("general.model_type", f"the application knows square pictures only, not {height}x{width}")
    return bracketed(height)


def _sorted(case: Case) -> list[tuple[int, ...]]:
    """Boxes of the finer grid first, and their scores behind them."""
    return sorted((edge.shape for edge in case.model.outputs), key=lambda shape: shape[1:3], reverse=True)


def _check_blazeface(case: Case) -> None:
    if len(case.model.outputs) != 4 or any(len(edge.shape) != 3 for edge in case.model.outputs):
        raise case.wrong("general.model_type", "the outputs are not two grids of boxes and their scores")


BLAZEFACE = Family(
    _USE_CASE,
    ("blazeface",),
    both("AI_FD_BLAZEFACE_PP_"),
    both({"int8": "FD_BLAZEFACE_UI"}),
    both(
        (
            ("NB_KEYPOINTS", lambda case: bracketed((_sorted(case)[0][2] - 4) // 2)),
            ("NB_CLASSES", lambda case: bracketed(_sorted(case)[-1][-1])),
            ("IMG_SIZE", _size),
            ("OUT_0_NB_BOXES", lambda case: bracketed(_sorted(case)[0][1])),
            ("OUT_1_NB_BOXES", lambda case: bracketed(_sorted(case)[-1][1])),
            MOST_BOXES,
            CONFIDENCE,
            OVERLAP,
        )
    ),
    check=_check_blazeface,
    sizes=False,
)


def _boxes(stride: int) -> Callable[[Case], str]:
    def value(case: Case) -> str:
        height, width, _ = case.model.image
        return bracketed((height // stride) * (width // stride))

    return value


def _check_yunet(case: Case) -> None:
    found = {edge.shape[1] for edge in case.model.outputs if len(edge.shape) == 3}
    height, width, _ = case.model.image
    if not {(height // s) * (width // s) for s in _STRIDES} <= found:
        raise case.wrong("general.model_type", f"outputs of {sorted(found)} boxes are not those of strides 8, 16, 32")


YUNET = Family(
    _USE_CASE,
    ("yunet",),
    both("AI_FD_YUNET_PP_"),
    both({"int8": "FD_YUNET_UI"}),
    both(
        (
            ("NB_KEYPOINTS", lambda _: "(5)"),
            ("NB_CLASSES", lambda _: "(1)"),
            ("IMG_SIZE", _size),
            *((f"OUT_{stride}_NB_BOXES", _boxes(stride)) for stride in _STRIDES),
            MOST_BOXES,
            CONFIDENCE,
            OVERLAP,
        )
    ),
    check=_check_yunet,
    sizes=False,
)
FAMILIES = (BLAZEFACE, YUNET)
