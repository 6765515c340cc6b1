"""Models that one kind of post-processing understands, as tables of names and where their values come from.

Applications of different age spell some names differently (`header.dialect_of` tells them apart).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import prod

import numpy as np

from atonc.delivery.deploy.app_config.header import Case, Define, Edge, HeaderTable, Line, bracketed
from atonc.insight.evaluating.decoders import ST_YOLOX, YOLOV2
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

Row = tuple[str, Callable[[Case], object]]  # behind the prefix of its family; the value goes into brackets
_CLASSES = "dataset.class_names"
_ANCHORS = "postprocessing.yolo_anchors"


@dataclass(frozen=True)
class Family:
    """`postprocess` names the post-processing, by the type of the network's outputs; `rows` are its numbers behind
    `prefix`. What begins with `zoo` is how the zoo's generator has it, where that is another way."""

    use_case: str
    model_types: tuple[str, ...]
    prefix: str = ""
    postprocess: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    rows_today: tuple[Row, ...] = ()  # that only applications of today know
    more: Callable[[Case], Iterator[Line]] | None = None  # lines that have no prefix, or are no numbers
    check: Callable[[Case], None] | None = None  # raises where file and model disagree
    background: bool = False  # the model has a class for nothing, in front of the others
    sizes: bool = True  # the application wants the size of the picture
    zoo_prefix: str = ""
    zoo_postprocess: Mapping[str, str] = field(default_factory=dict)

    def prefix_for(self, case: Case) -> str:
        return self.prefix if case.current or not self.zoo_prefix else self.zoo_prefix

    def offered(self, case: Case) -> Mapping[str, str]:
        return self.postprocess if case.current or not self.zoo_postprocess else self.zoo_postprocess

    def numbers(self, case: Case) -> Iterator[Line]:
        for suffix, value in (*self.rows, *(self.rows_today if case.current else ())):
            yield bracketed(f"{self.prefix_for(case)}{suffix}", value(case))
        if self.more is not None:
            yield from self.more(case)

    def names(self, case: Case) -> tuple[str, ...]:
        return ("background", *case.classes) if self.background else case.classes


CONFIDENCE: Row = ("CONF_THRESHOLD", lambda case: case.number("postprocessing.confidence_thresh"))
OVERLAP: Row = ("IOU_THRESHOLD", lambda case: case.number("postprocessing.NMS_thresh"))
MOST_BOXES: Row = ("MAX_BOXES_LIMIT", lambda case: case.whole("postprocessing.max_detection_boxes"))
CLASSES: Row = ("NB_CLASSES", lambda case: len(case.classes))


def _classes_text(case: Case) -> str:
    return count(len(case.classes), "class", "classes")


def _check_count(case: Case, found: int, remedy: str = "") -> None:
    if found != len(case.classes):
        raise case.wrong(_CLASSES, f"lists {_classes_text(case)}, the model has {found}", remedy)


def _three_axes(case: Case) -> list[Edge]:
    return [edge for edge in case.model.outputs if len(edge.shape) == 3]


# ----------------------------------------------------------------------------------------------------------------- SSD


def _ssd_boxes(case: Case) -> int:
    scores = _three_axes(case)
    if not scores:
        raise case.wrong_model("the model's outputs are not those of an SSD")
    return scores[0].shape[1]


def _check_ssd(case: Case) -> None:
    boxes, classes = _ssd_boxes(case), len(case.classes) + 1
    wide = {edge.shape[-1] for edge in _three_axes(case) if edge.shape[1] == boxes}
    if classes not in wide and classes + 8 not in wide:
        what = f"lists {_classes_text(case)}, the model's outputs have other sizes: {sorted(wide)}"
        raise case.wrong(_CLASSES, what)


SSD = Family(
    "object_detection",
    ("st_ssd_mobilenet_v1", "ssd_mobilenet_v2_fpnlite"),
    "AI_OD_SSD_PP_",
    {"float32": "OD_SSD_UF", "int8": "OD_SSD_UI"},
    (
        ("NB_CLASSES", lambda case: len(case.classes) + 1),
        *(OVERLAP, CONFIDENCE, MOST_BOXES),
        ("TOTAL_DETECTIONS", _ssd_boxes),
    ),
    rows_today=(("XY_VARIANCE", lambda _: 0.1), ("WH_VARIANCE", lambda _: 0.2)),
    check=_check_ssd,
    background=True,
    zoo_prefix="AI_OD_SSD_ST_PP_",
    zoo_postprocess={"float32": "OD_ST_SSD_UF"},
)

# ------------------------------------------------------------------------------------------------------------- YOLO v2

_V2_STRIDES = {"tiny_yolo_v2": 32, "st_yolo_lc_v1": 16}


def _v2_grid(case: Case) -> tuple[int, int]:
    height, width, _ = case.model.image
    stride = int(case.config.settings.get("postprocessing.network_stride") or _V2_STRIDES[case.config.model_type])
    return height // stride, width // stride


def _pairs(case: Case, default: tuple[tuple[float, float], ...]) -> np.ndarray:
    flat = np.array(case.config.settings.get(_ANCHORS) or default, np.float32).reshape(-1)
    if flat.size % 2:
        raise case.wrong(_ANCHORS, f"has {flat.size} numbers, anchors are pairs")
    return flat


def _in_cells(shares: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Anchors in cells of a grid, from shares of the picture."""
    return shares * np.tile(np.array([grid[1], grid[0]], np.float32), shares.size // 2)


def _v2_anchors(case: Case) -> np.ndarray:
    """Gives anchors in cells of the grid; the zoo's own are shares of the picture."""
    flat = _pairs(case, YOLOV2.anchors)
    return flat if case.config.settings.get(_ANCHORS) is not None else _in_cells(flat, _v2_grid(case))


def _wrong_boxes(case: Case, anchors: int, what: str) -> Exception:
    said = f"{_classes_text(case)} and {count(anchors, 'anchor')} {what}"
    return case.wrong(_CLASSES, said, "correct dataset.class_names or postprocessing.yolo_anchors")


def _check_v2(case: Case) -> None:
    grid, anchors = _v2_grid(case), _v2_anchors(case).size // 2
    wanted, found = prod(grid) * anchors * (5 + len(case.classes)), prod(case.output.shape)
    if found != wanted:
        what = f"on a grid of {grid[0]}x{grid[1]} need {wanted:,} outputs, the model has {found:,}"
        raise _wrong_boxes(case, anchors, what)


def _table(prefix: str, level: str, anchors: np.ndarray) -> Iterator[Line]:
    yield Define(f"{prefix}{level}NB_INPUT_BOXES", f"({prefix}{level}GRID_WIDTH * {prefix}{level}GRID_HEIGHT)")
    yield HeaderTable(f"{prefix}{level}ANCHORS", f"2*{prefix}NB_ANCHORS", tuple(float(value) for value in anchors))


def _v2_more(case: Case) -> Iterator[Line]:
    return _table(YOLO_V2.prefix_for(case), "", _v2_anchors(case))


YOLO_V2 = Family(
    "object_detection",
    ("tiny_yolo_v2", "st_yolo_lc_v1"),
    "AI_OD_YOLOV2_PP_",
    {"float32": "OD_YOLO_V2_UF", "int8": "OD_YOLO_V2_UI"},
    (
        CLASSES,
        ("NB_ANCHORS", lambda case: _v2_anchors(case).size // 2),
        ("GRID_WIDTH", lambda case: _v2_grid(case)[1]),
        ("GRID_HEIGHT", lambda case: _v2_grid(case)[0]),
        *(CONFIDENCE, OVERLAP, MOST_BOXES),
    ),
    more=_v2_more,
    check=_check_v2,
    zoo_prefix="AI_OBJDETECT_YOLOV2_PP_",
    zoo_postprocess={"float32": "OD_YOLO_V2_UF"},
)

# ----------------------------------------------------------------------------------------------------------- ST YOLO X

_X_STRIDES = (8, 16, 32)
_LEVELS = ("L", "M", "S")  # large grid for small things


def _x_grids(case: Case) -> list[tuple[int, int]]:
    height, width, _ = case.model.image
    strides = case.config.settings.get("postprocessing.network_stride") or _X_STRIDES
    if not isinstance(strides, (list, tuple)) or len(strides) != len(_LEVELS):
        raise case.wrong("postprocessing.network_stride", "ST YOLO X has three strides")
    return [(height // int(stride), width // int(stride)) for stride in strides]


def _check_x(case: Case) -> None:
    anchors = _pairs(case, ST_YOLOX.anchors).size // 2
    wanted = {h * w * anchors * (5 + len(case.classes)) for h, w in _x_grids(case)}
    found = {prod(edge.shape) for edge in case.model.outputs}
    if wanted != found:
        raise _wrong_boxes(case, anchors, f"need outputs of {sorted(wanted)} values, the model's have {sorted(found)}")


def _x_more(case: Case) -> Iterator[Line]:
    prefix = ST_YOLO_X.prefix_for(case)
    for level, grid in zip(_LEVELS, _x_grids(case), strict=True):
        yield bracketed(f"{prefix}{level}_GRID_WIDTH", grid[1])
        yield bracketed(f"{prefix}{level}_GRID_HEIGHT", grid[0])
        yield from _table(prefix, f"{level}_", _in_cells(_pairs(case, ST_YOLOX.anchors), grid))


ST_YOLO_X = Family(
    "object_detection",
    ("st_yolo_x",),
    "AI_OD_ST_YOLOX_PP_",
    {"float32": "OD_ST_YOLOX_UF", "int8": "OD_ST_YOLOX_UI"},
    (
        CLASSES,
        ("NB_ANCHORS", lambda case: _pairs(case, ST_YOLOX.anchors).size // 2),
        *(OVERLAP, CONFIDENCE, MOST_BOXES),
    ),
    more=_x_more,
    check=_check_x,
    zoo_prefix="AI_OBJDETECT_YOLOVX_PP_",
    zoo_postprocess={"float32": "OD_ST_YOLOX_UF"},
)

# ------------------------------------------------------------------------------------------------------------- YOLO v8


def _check_v8(case: Case) -> None:
    shape = case.output.shape
    if len(shape) != 3 or shape[1] <= 4:
        raise case.wrong_model(f"the output is {case.output.sizes}, not 1 x (4 + classes) x boxes")
    _check_count(case, shape[1] - 4)


YOLO_V8 = Family(
    "object_detection",
    ("yolo_v8", "yolo_v5u"),
    "AI_OD_YOLOV8_PP_",
    {"float32": "OD_YOLO_V8_UF", "int8": "OD_YOLO_V8_UI"},
    (
        ("NB_CLASSES", lambda case: case.output.shape[1] - 4),
        ("TOTAL_BOXES", lambda case: case.output.shape[2]),
        *(MOST_BOXES, CONFIDENCE, OVERLAP),
        ("SCALE", lambda case: case.output.scale),
        ("ZERO_POINT", lambda case: case.output.zero_point),
    ),
    check=_check_v8,
    zoo_prefix="AI_OBJDETECT_YOLOV8_PP_",
    zoo_postprocess={"float32": "OD_YOLO_V8_UF", "int8": "OD_YOLO_V8_UI", "uint8": "OD_YOLO_V8_UI"},
)

# ------------------------------------------------- poses: heat maps of one person, boxes with points of several, palms

_SKELETONS = (13, 17)
_HEAT = "AI_SPE_MOVENET_POSTPROC_"
_POSE = "AI_POSE_PP_"


def _heat_maps(case: Case) -> tuple[int, int, int]:
    """Height, width, key points."""
    if len(case.output.shape) != 4:
        raise case.wrong_model(f"the output is {case.output.sizes}, no heat maps")
    return case.model.height_width_channels(case.output.shape)


def _check_heat_maps(case: Case) -> None:
    height, width, points = _heat_maps(case)
    if (height * 4, width * 4) != case.model.image[:2]:
        raise case.wrong_model(f"heat maps of {height}x{width} are not a quarter of the image")
    _check_points(case, points)


def _check_points(case: Case, points: int) -> None:
    wanted = case.config.settings.get("dataset.keypoints")
    if wanted is not None and wanted != points:
        raise case.wrong("dataset.keypoints", f"is {wanted}, the model has {points}")
    if points not in _SKELETONS:
        raise case.wrong("dataset.keypoints", f"the application draws skeletons of 13 or 17 points, not {points}")


def _heat_lines(case: Case) -> Iterator[Line]:
    yield bracketed(f"{_POSE}CONF_THRESHOLD", case.number("postprocessing.confidence_thresh"))
    yield bracketed(f"{_POSE}POSE_KEYPOINTS_NB", _heat_maps(case)[2])
    yield bracketed(f"{_HEAT}HEATMAP_WIDTH", "NN_WIDTH/4")
    yield bracketed(f"{_HEAT}HEATMAP_HEIGHT", "NN_HEIGHT/4")
    yield bracketed(f"{_HEAT}NB_KEYPOINTS", f"{_POSE}POSE_KEYPOINTS_NB")


MOVENET = Family(
    "pose_estimation",
    ("heatmaps_spe",),
    postprocess={"float32": "SPE_MOVENET_UF", "int8": "SPE_MOVENET_UI"},
    more=_heat_lines,
    check=_check_heat_maps,
    zoo_postprocess={"float32": "SPE_MOVENET_UF"},
)


def _points(case: Case) -> int:
    shape = case.output.shape
    if len(shape) != 3 or (shape[1] - 5) % 3:
        raise case.wrong_model(f"the output is {case.output.sizes}, not 1 x (5 + 3 points) x boxes")
    return (shape[1] - 5) // 3


def _pose_lines(case: Case) -> Iterator[Line]:
    yield bracketed(f"{_POSE}CONF_THRESHOLD", "AI_MPE_YOLOV8_PP_CONF_THRESHOLD")
    yield bracketed(f"{_POSE}POSE_KEYPOINTS_NB", _points(case))


YOLO_POSE = Family(
    "pose_estimation",
    ("yolo_mpe",),
    "AI_MPE_YOLOV8_PP_",
    {"float32": "MPE_YOLO_V8_UF", "int8": "MPE_YOLO_V8_UI"},
    (
        ("NB_CLASSES", lambda _: 1),
        ("TOTAL_BOXES", lambda case: case.output.shape[2]),
        *(MOST_BOXES, OVERLAP, CONFIDENCE),
    ),
    more=_pose_lines,
    check=lambda case: _check_points(case, _points(case)),
    zoo_postprocess={"float32": "MPE_YOLO_V8_UF"},
)


def _palms(case: Case) -> tuple[int, int]:
    """Detections, and numbers of each: a box and its points."""
    boxes = [edge.shape for edge in _three_axes(case) if edge.shape[-1] > 4]
    if len(boxes) != 1 or (boxes[0][-1] - 4) % 2:
        raise case.wrong_model("the outputs are not those of a palm detector")
    return boxes[0][1], boxes[0][2]


PALMS = Family(
    "pose_estimation",
    ("palm_detector", "hand_spe"),
    "AI_PD_MODEL_PP_",
    {"float32": "MPE_PD_UF"},
    (
        ("WIDTH", lambda case: case.model.image[1]),
        ("HEIGHT", lambda case: case.model.image[0]),
        ("TOTAL_DETECTIONS", lambda case: _palms(case)[0]),
        ("NB_KEYPOINTS", lambda case: (_palms(case)[1] - 4) // 2),
        *(CONFIDENCE, OVERLAP, MOST_BOXES),
    ),
)

# ------------------------------------------ segmentation: classes of pixels (DeepLab v3), things with masks (YOLO v8)


def _check_semantic(case: Case) -> None:
    height, width, _ = case.model.image
    if sorted(case.output.shape[1:]) != sorted((height, width, len(case.classes))):
        what = f"{_classes_text(case)} of {height}x{width} pixels are not the output"
        raise case.wrong(_CLASSES, f"{what}, {case.output.sizes}")


SEMANTIC = Family(
    "semantic_segmentation",
    ("deeplab_v3",),
    "AI_SSEG_DEEPLABV3_PP_",
    {"float32": "SSEG_DEEPLAB_V3_UF", "int8": "SSEG_DEEPLAB_V3_UI"},
    (CLASSES, ("WIDTH", lambda _: "NN_WIDTH"), ("HEIGHT", lambda _: "NN_HEIGHT")),
    check=_check_semantic,
    zoo_postprocess={"float32": "SSEG_DEEPLAB_V3_UF"},
)


def _masks(case: Case) -> int:
    return case.model.outputs[1].shape[3]


def _check_instance(case: Case) -> None:
    shapes = [edge.shape for edge in case.model.outputs]
    if len(shapes) != 2 or len(shapes[0]) != 3 or len(shapes[1]) != 4 or shapes[1][1] != shapes[1][2]:
        raise case.wrong_model("the outputs are not boxes and square masks")
    _check_count(case, shapes[0][1] - 4 - _masks(case))


def _scales(case: Case) -> Iterator[Line]:
    for name, edge in zip(("", "MASK_"), case.model.outputs, strict=False):
        yield bracketed(f"AI_YOLOV8_SEG_{name}ZERO_POINT", edge.zero_point)
        yield bracketed(f"AI_YOLOV8_SEG_{name}SCALE", edge.scale)


INSTANCE = Family(
    "instance_segmentation",
    ("yolo_v8_seg",),
    "AI_YOLOV8_SEG_PP_",
    {"int8": "ISEG_YOLO_V8_UI"},
    (
        ("TOTAL_BOXES", lambda case: case.output.shape[2]),
        ("NB_CLASSES", lambda case: case.output.shape[1] - 4 - _masks(case)),
        ("MASK_NB", _masks),
        ("MASK_SIZE", lambda case: case.model.outputs[1].shape[1]),
        *(CONFIDENCE, OVERLAP, MOST_BOXES),
    ),
    more=_scales,
    check=_check_instance,
)

# ------------------------------------- faces: sizes come from the outputs, which their applications sort by themselves

_FACE_STRIDES = (32, 16, 8)


def _square(case: Case) -> int:
    height, width, _ = case.model.image
    if height != width:
        raise case.wrong_model(f"the application knows square images only, not {height}x{width}")
    return height


def _sorted(case: Case) -> list[tuple[int, ...]]:
    """Boxes of the finer grid first, and their scores behind them."""
    return sorted((edge.shape for edge in case.model.outputs), key=lambda shape: shape[1:3], reverse=True)


def _check_blazeface(case: Case) -> None:
    if len(case.model.outputs) != 4 or len(_three_axes(case)) != 4:
        raise case.wrong_model("the outputs are not two grids of boxes and their scores")


BLAZEFACE = Family(
    "face_detection",
    ("blazeface",),
    "AI_FD_BLAZEFACE_PP_",
    {"int8": "FD_BLAZEFACE_UI"},
    (
        ("NB_KEYPOINTS", lambda case: (_sorted(case)[0][2] - 4) // 2),
        ("NB_CLASSES", lambda case: _sorted(case)[-1][-1]),
        ("IMG_SIZE", _square),
        ("OUT_0_NB_BOXES", lambda case: _sorted(case)[0][1]),
        ("OUT_1_NB_BOXES", lambda case: _sorted(case)[-1][1]),
        *(MOST_BOXES, CONFIDENCE, OVERLAP),
    ),
    check=_check_blazeface,
    sizes=False,
)


def _face_boxes(case: Case, stride: int) -> int:
    height, width, _ = case.model.image
    return (height // stride) * (width // stride)


def _check_yunet(case: Case) -> None:
    found = {edge.shape[1] for edge in _three_axes(case)}
    if not {_face_boxes(case, stride) for stride in _FACE_STRIDES} <= found:
        raise case.wrong_model(f"outputs of {sorted(found)} boxes are not those of strides 8, 16, 32")


YUNET = Family(
    "face_detection",
    ("yunet",),
    "AI_FD_YUNET_PP_",
    {"int8": "FD_YUNET_UI"},
    (
        ("NB_KEYPOINTS", lambda _: 5),
        ("NB_CLASSES", lambda _: 1),
        ("IMG_SIZE", _square),
        ("OUT_32_NB_BOXES", lambda case: _face_boxes(case, 32)),
        ("OUT_16_NB_BOXES", lambda case: _face_boxes(case, 16)),
        ("OUT_8_NB_BOXES", lambda case: _face_boxes(case, 8)),
        *(MOST_BOXES, CONFIDENCE, OVERLAP),
    ),
    check=_check_yunet,
    sizes=False,
)

# ------------------------------------------------------------------------------------------------------------- and more


def _check_classification(case: Case) -> None:
    _check_count(case, prod(case.output.shape), "list the classes that the model was trained on")


def _check_depth(case: Case) -> None:
    height, width, _ = case.model.image
    if sorted(case.output.shape[1:]) not in (sorted((height, width, 1)), sorted((height, width))):
        raise case.wrong_model(f"the output is {case.output.sizes}, no map of the image")


FAMILIES = (
    Family("image_classification", ("",), check=_check_classification),  # the application needs the names only
    *(SSD, YOLO_V2, ST_YOLO_X, YOLO_V8, MOVENET, YOLO_POSE, PALMS, SEMANTIC, INSTANCE, BLAZEFACE, YUNET),
    # no published application shows depth maps, so the application's own post-processing is named
    Family(
        "depth_estimation", ("",), postprocess=dict.fromkeys(("float32", "int8", "uint8"), "CUSTOM"), check=_check_depth
    ),
)
