"""Made detectors of every family, their outputs, and the generated C compiled for this machine."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.emit.c.buffers_info import Info
from atonc.delivery.generate import post
from atonc.delivery.generate.post import PostProcessing
from atonc.insight.evaluating import boxes
from atonc.insight.evaluating.boxes import Boxes, BoxLimits
from atonc.insight.evaluating.decoders import decoder_for

WORDS = {"name": "net", "net": "net", "tool": "atonc"}
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wcast-qual", "-Wconversion", "-O2")
NUMPY = {"INT8": "i1", "UINT8": "u1", "INT16": "i2", "FLOAT": "f4"}
GIVEN = np.random.default_rng(5).uniform(0.1, 0.6, 30 * 4).tolist()
THREE = [0.1, 0.2, 0.3, 0.3, 0.5, 0.4]
# family, shapes of the outputs, size of the picture, anchors
CASES: dict[str, tuple[str, list[tuple[int, ...]], tuple[int, int], list[float]]] = {
    "yolov8": ("yolov8", [(1, 6, 84)], (64, 48), []),
    "yolov8 by box": ("yolov8", [(1, 84, 6)], (64, 48), []),
    "yolov5": ("yolov5", [(1, 84, 7)], (64, 48), []),
    "yolov2": ("yolov2", [(1, 6, 8, 35)], (256, 192), []),
    "yolox": ("yolox", [(1, 84, 7)], (64, 64), []),
    "st_yolox": ("st_yolox", [(1, 6, 8, 21), (1, 3, 4, 21)], (64, 48), THREE),
    "st_yolox of onnx": ("st_yolox", [(1, 6, 24, 24), (1, 6, 12, 12), (1, 6, 6, 6)], (192, 192), []),
    "corners": ("corners", [(1, 84, 4), (1, 3, 84)], (64, 48), []),
    "corners by box": ("corners", [(1, 84, 3), (1, 84, 4)], (64, 48), []),
    "corners_logits": ("corners_logits", [(1, 84, 4), (1, 3, 84)], (64, 48), []),
    "centres": ("centres", [(1, 3, 84), (1, 84, 4)], (64, 48), []),
    "centres_logits": ("centres_logits", [(1, 84, 4), (84, 3)], (64, 48), []),
    "yolov8_heads": ("yolov8_heads", [(1, 6, 8, 64), (1, 3, 4, 64), (1, 6, 8, 3), (1, 3, 4, 3)], (64, 48), []),
    "yolov8_heads of onnx": ("yolov8_heads", [(1, c, n, n) for c in (64, 2, 51) for n in (6, 3)], (48, 48), []),
    "yolov8_heads masks": (
        "yolov8_heads",
        [*((1, n, n, c) for c in (64, 2, 8) for n in (6, 3)), (1, 12, 12, 8)],
        (48, 48),
        [],
    ),
    "yolo26_heads": ("yolo26_heads", [(1, c, n, n) for c in (4, 2) for n in (6, 3)], (48, 48), []),
    "yolo26_heads points": ("yolo26_heads", [(1, n, n, c) for c in (4, 2, 9) for n in (6, 3)], (48, 48), []),
    "yolo26_heads masks": (
        "yolo26_heads",
        [*((1, c, n, n) for c in (4, 2, 8) for n in (6, 3)), (1, 8, 12, 12)],
        (48, 48),
        [],
    ),
    "ssd": ("ssd", [(1, 30, 3), (1, 30, 4)], (64, 48), GIVEN),
    "st_ssd": ("st_ssd", [(1, 30, 3), (1, 30, 4), (1, 30, 4)], (64, 48), []),
    "blazeface": ("blazeface", [(1, 512, 16), (1, 512, 1), (1, 384, 1), (1, 384, 16)], (128, 128), []),
    "blazeface of two": ("blazeface", [(1, 896, 1), (1, 896, 16)], (128, 128), []),
}
USUAL, FEW = BoxLimits(0.5, 0.45, 20, 512), BoxLimits(0.03, 0.2, 5, 16)


def made(case: str, type_: str = "INT8", limits: BoxLimits = USUAL, unit: str = boxes.SHARES) -> PostProcessing:
    family, shapes, side, anchors = CASES[case]
    decoder = replace(decoder_for(family, anchors, shapes, side), limits=limits)
    if decoder.family.placed == boxes.OUTPUT:
        decoder = decoder.with_anchors_at(2, decoder.heads[0])
    if decoder.family.placed in boxes.LISTS:
        decoder = decoder.in_unit(unit)
    return PostProcessing(decoder, tuple(_info(k, shape, type_) for k, shape in enumerate(shapes)))


def _info(number: int, shape: tuple[int, ...], type_: str) -> Info:
    scales = () if type_ == "FLOAT" else (0.041 + 0.003 * number if type_ != "INT16" else 0.0004,)
    offsets = () if type_ == "FLOAT" else ({"INT8": -7, "UINT8": 100, "INT16": 11}[type_],)
    size = prod(shape) * np.dtype(NUMPY[type_]).itemsize
    where = {"base": "", "start": 0, "size_bytes": size, "user": False, "param": False, "epoch": 0}
    return Info(f"o{number}", f"o{number}", shape=shape, mem_shape=shape, type=type_, scales=scales, offsets=offsets,
                **where)  # type: ignore[arg-type]  # fmt: skip


def samples(case: PostProcessing) -> Iterator[list[Any]]:
    """Random codes, and hostile ones: all the same, the least, the largest, what is no number."""
    random = np.random.default_rng(3)
    dtypes = [np.dtype(NUMPY[info.type]) for info in case.outputs]
    if dtypes[0].kind == "f":
        extremes: list[float] = [0.0, 1.0, -1.0, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1e-42, 0.5, 87.0]
        for width in (0.5, 1.5, 6.0, 200.0):
            yield [random.normal(0.2, width, info.mem_shape).astype(np.float32) for info in case.outputs]
        for value in extremes:
            yield [np.full(info.mem_shape, value, np.float32) for info in case.outputs]
        yield [random.choice(extremes, info.mem_shape).astype(np.float32) for info in case.outputs]
        some = [random.normal(0.5, 1, info.mem_shape).astype(np.float32) for info in case.outputs]
        yield [np.where(random.random(one.shape) < 0.02, np.float32(np.nan), one) for one in some]
        return
    ranges = [np.iinfo(dtype) for dtype in dtypes]
    for low, high in ((0.0, 1.0), (0.3, 0.7), (0.45, 0.55)):
        yield [
            (random.uniform(low, high, info.mem_shape) * (r.max - r.min) + r.min).astype(dtype)
            for info, dtype, r in zip(case.outputs, dtypes, ranges, strict=True)
        ]
    for share in (0.0, 0.5, 0.6, 1.0):
        yield [
            np.full(info.mem_shape, r.min + int(share * (r.max - r.min)), dtype)
            for info, dtype, r in zip(case.outputs, dtypes, ranges, strict=True)
        ]
    yield [
        random.choice([r.min, r.max], info.mem_shape).astype(dtype)
        for info, dtype, r in zip(case.outputs, dtypes, ranges, strict=True)
    ]


def written(case: PostProcessing, folder: Path) -> Path:
    for name, data in post.post_files(case, WORDS).items():
        (folder / name).write_bytes(data)
    return folder / "net_post.c"


def library(case: PostProcessing, folder: Path) -> ctypes.CDLL:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    target = folder / "post.so"
    subprocess.run([gcc, *FLAGS, "-shared", "-fPIC", str(written(case, folder)), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def found_in_c(loaded: ctypes.CDLL, case: PostProcessing, outputs: Sequence[Any], most: int) -> Any:
    """Rows of 32-bit words, as memory has them; what is behind the last box is untouched."""
    kept = [np.ascontiguousarray(output) for output in outputs]
    pointers = (ctypes.c_void_p * len(kept))(*(one.ctypes.data for one in kept))
    words = 6 + 2 * case.decoder.points + case.decoder.more
    rows = np.full((most + 1, words), 0xA5A5A5A5, np.uint32)
    count = loaded.net_post(pointers, ctypes.c_void_p(rows.ctypes.data), ctypes.c_uint32(most))
    assert 0 <= count <= most
    assert (rows[most] == 0xA5A5A5A5).all()
    return rows[:count]


def as_words(found: Boxes) -> Any:
    """What the C file writes for these boxes."""
    count = len(found.scores)
    floats = np.concatenate([found.corners, found.scores[:, None]], axis=1).astype(np.float32)
    points = np.ascontiguousarray(found.points, np.float32).reshape(count, 2 * found.points.shape[1])
    classes = found.classes.astype(np.uint32).reshape(count, 1)
    more = np.ascontiguousarray(found.more, np.float32)
    return np.concatenate([floats.view(np.uint32), classes, points.view(np.uint32), more.view(np.uint32)], axis=1)
