"""The Python twin of a front end of images, and its tables: whole numbers only, so that C gives the same codes.

Every resize is two sums along an axis: where they begin, and weights in fixed point. What follows a resized byte
(normalise, quantise) is a table of 256 codes for each colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.front_end.declare import CODE_TYPES, Codes
from atonc.delivery.front_end.image import FORMATS, FramePlace, ImagePipeline, Size, load
from atonc.delivery.front_end.pipeline import PAGE
from atonc.delivery.front_end.tables import Array
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

SAY_FRAME = f"say what the camera writes: [image] format, width, height ({PAGE})"
_BITS, _SMOOTH_BITS = 14, 22  # of weights; Pillow has 22 and an image of bytes between its two sums
_BETWEEN = 7  # bits behind the point between two sums of weights with 14
_GREY = (19595, 38470, 7471)  # BT.601 in 1/65536, as in Pillow
# Y, U and V to colours in 2^-20: Y, U to blue and green, V to green and red. Limited: those of OpenCV.
YUV = {
    "limited": (16, 1220542, 2116026, -409993, -852492, 1673527),
    "full": (0, 1 << 20, 1858077, -360853, -748826, 1470104),
}


@dataclass(frozen=True, eq=False)
class TapTable:
    """Sums along one axis: value i is the sum of `weights[i] * pixels[starts[i]:]`, which has `bits` behind the point;
    the first stands at `first` of the result."""

    first: int
    starts: Array
    weights: Array
    bits: int

    @property
    def taps(self) -> int:
        return self.weights.shape[1]

    @property
    def count(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, eq=False)
class ImageTables:
    x: TapTable
    y: TapTable
    between: int  # bits behind the point of what lies between the two sums

    @property
    def shifts(self) -> Size:
        return self.x.bits - self.between, self.y.bits + self.between

    @property
    def row_type(self) -> str:
        return "uint16" if self.between else "uint8"


def _positions(p: ImagePipeline, size: int, count: int) -> tuple[Array, int]:
    """Where the values lie between the pixels: numerators and the denominator."""
    i = np.arange(count, dtype=np.int64)
    if p.resize.at == "half_pixel":
        return (2 * i + 1) * size - count, 2 * count
    if p.resize.at == "asymmetric":
        return i * size, count
    return i * (size - 1), max(count - 1, 1)


def _nearest(p: ImagePipeline, size: int, count: int) -> tuple[Array, Array, int]:
    if p.resize.at == "half_pixel":  # Pillow adds up steps in double precision, which decides where two are as near
        step = size / count
        starts = np.cumsum(np.array([0.5 * step, *[step] * (count - 1)])).astype(np.int64)
    else:
        numerators, denominator = _positions(p, size, count)
        up = denominator if p.resize.at == "align_corners" else 0
        starts = (2 * numerators + up) // (2 * denominator)
    return np.minimum(starts, size - 1), np.ones((count, 1), np.int64), 0


def _bilinear(p: ImagePipeline, size: int, count: int) -> tuple[Array, Array, int]:
    numerators, denominator = _positions(p, size, count)
    numerators = np.clip(numerators, 0, (size - 1) * denominator)
    starts = np.minimum(numerators // denominator, max(size - 2, 0))
    part = ((numerators - starts * denominator << _BITS + 1) + denominator) // (2 * denominator)
    return starts, np.stack([(1 << _BITS) - part, part], 1)[:, : min(2, size)], _BITS


def _smooth(p: ImagePipeline, size: int, count: int) -> tuple[Array, Array, int]:
    """Pillow's triangles, which widen where an image gets smaller: in double precision, rounded once."""
    scale = size / count
    support = max(scale, 1.0)
    taps = min(size, 2 * ceil(support) + 1)
    starts, weights = np.zeros(count, np.int64), np.zeros((count, taps), np.int64)
    for i in range(count):
        middle = (i + 0.5) * scale
        first, end = max(0, int(middle - support + 0.5)), min(size, int(middle + support + 0.5))
        sides = [max(0.0, 1.0 - abs((k - middle + 0.5) * (1.0 / support))) for k in range(first, end)]
        total = sum(sides)
        starts[i] = min(first, size - taps)
        skipped = first - starts[i]
        weights[i, skipped : skipped + len(sides)] = [int(0.5 + one / total * (1 << _SMOOTH_BITS)) for one in sides]
    return starts, weights, _SMOOTH_BITS


def _axis(p: ImagePipeline, k: int, geometry: FramePlace) -> TapTable:
    """`k`: 0 for columns, 1 for rows. Cut to the result; one weight where no value lies between two pixels."""
    size, resized, offset = geometry.box[2 + k], geometry.resized[k], geometry.offset[k]
    made = _nearest if p.resize.how == "nearest" else _smooth if p.resize.antialias else _bilinear
    starts, weights, bits = made(p, size, resized)
    if (np.count_nonzero(weights, axis=1) == 1).all():
        starts, weights, bits = starts + weights.argmax(1), np.ones((resized, 1), np.int64), 0
    begin, end = max(0, -offset), min(resized, (p.resize.width, p.resize.height)[k] - offset)
    return TapTable(max(0, offset), starts[begin:end] + geometry.box[k], weights[begin:end], bits)


@lru_cache(64)
def image_tables(p: ImagePipeline, frame: Size) -> ImageTables:
    geometry = FramePlace.of(p, frame)
    x, y = (_axis(p, k, geometry) for k in (0, 1))
    return ImageTables(x, y, _BETWEEN if x.bits == y.bits == _BITS else 0)


def reals(p: ImagePipeline) -> Array:
    """What the bytes of each colour stand for: colours x 256."""
    values = np.tile(np.arange(256.0), (p.channels, 1))
    if p.normalise.pixels == "codes":
        return (values + _shift(p.codes) - p.codes.zero_point) * p.codes.scale
    mean = np.array(p.normalise.mean or (0.0,)).reshape(-1, 1)
    deviation = np.array(p.normalise.deviation or (1.0,)).reshape(-1, 1)
    return (values / (255.0 if p.normalise.pixels == "unit" else 1.0) - mean) / deviation


def _shift(codes: Codes) -> int:
    return -128 if codes.type == "int8" else 0


def code_table(p: ImagePipeline) -> Array:
    """Colours x 256, rounded to the nearest (ties to even)."""
    if p.codes.type == "float32":
        return reals(p).astype(np.float32)
    least, most = CODE_TYPES[p.codes.type]
    codes = np.rint(reals(p) / p.codes.scale) + p.codes.zero_point
    if p.normalise.pixels == "codes":
        codes = np.tile(np.arange(256) + _shift(p.codes), (p.channels, 1))
    return np.clip(codes, least, most).astype(p.codes.type)


def decoded(p: ImagePipeline, frame: Array) -> Array:
    """Rows of bytes as height x width x 3 (red, green, blue), or x 1 of a camera without colours."""
    name, height = p.image.format, len(frame)
    used = frame[:, : p.image.width * FORMATS[name]].reshape(height, p.image.width, -1).astype(np.int32)
    if name == "rgb565":
        pixels = used[..., 0] | used[..., 1] << 8
        r, g, b = pixels >> 11, pixels >> 5 & 63, pixels & 31
        return np.stack([r << 3 | r >> 2, g << 2 | g >> 4, b << 3 | b >> 2], -1)
    if name == "yuyv":
        return _of_yuv(p, frame, used[..., 0])
    return used[..., ::-1] if name == "bgr888" else used


def _of_yuv(p: ImagePipeline, frame: Array, y: Array) -> Array:
    black, factor, u_blue, u_green, v_green, v_red = YUV[p.image.range]
    light = np.maximum(y - black, 0) * factor + (1 << 19)
    if p.rows == 1:
        return np.minimum(light >> 20, 255)[..., None]
    fours = frame[:, : 2 * p.image.width].reshape(len(frame), -1, 4).astype(np.int32) - 128
    u, v = (fours[..., k].repeat(2, axis=1) for k in (1, 3))
    colours = (light + v_red * v, light + u_green * u + v_green * v, light + u_blue * u)
    return np.clip(np.stack(colours, -1) >> 20, 0, 255)


def _sums(axis: TapTable, pixels: Array, shift: int) -> Array:
    """Along the first axis of `pixels`."""
    total = np.full((axis.count, *pixels.shape[1:]), 1 << shift >> 1, np.int32)
    for k in range(axis.taps):
        total += axis.weights[:, k].astype(np.int32).reshape(-1, *[1] * (pixels.ndim - 1)) * pixels[axis.starts + k]
    return total >> shift


@dataclass(frozen=True)
class ImageFrontEnd:
    """A declared front end of images; call it with an image: codes, height x width x colours."""

    pipeline: ImagePipeline

    @cached_property
    def codes(self) -> Array:
        return code_table(self.pipeline)

    def for_input(self, type: str = "int8", scale: float = 1.0, zero_point: int = 0) -> ImageFrontEnd:
        """The same for the input of a network."""
        return ImageFrontEnd(load(self.pipeline.for_input(Codes(type, float(scale), int(zero_point)))))

    def __call__(self, image: Any) -> Array:
        return self._looked_up(self.resized(image), self.codes)

    def features(self, image: Any) -> Array:
        """What the codes stand for before they are quantised, float32: for training."""
        return self._looked_up(self.resized(image), reals(self.pipeline).astype(np.float32))

    def of_frame(self, frame: Any) -> Array:
        """The codes of the camera's buffer: bytes as [image] says they lie there."""
        p = self.pipeline
        given = np.frombuffer(frame, np.uint8) if isinstance(frame, bytes | bytearray) else np.asarray(frame)
        least = p.row_bytes * max(p.image.height - 1, 0)
        least += p.image.width * FORMATS[p.image.format]
        if not p.image.width:
            raise InputError("[image] has no width and height", where=f"front end {p.name}", remedy=SAY_FRAME)
        if given.dtype != np.uint8 or given.size < least:
            raise InputError(
                f"a buffer of {given.size:,} elements of type {given.dtype}", where=f"front end {p.name}",
                rule=f"{p.image.width} x {p.image.height} of {p.image.format} take {least:,} bytes",
                remedy="give them as uint8",
            )  # fmt: skip
        flat = np.pad(given.reshape(-1)[: p.row_bytes * p.image.height], (0, p.row_bytes))
        rows = flat[: p.row_bytes * p.image.height].reshape(p.image.height, p.row_bytes)
        return self._looked_up(self._resized(decoded(p, rows)), self.codes)

    def resized(self, image: Any) -> Array:
        """Bytes, height x width x colours, in the order of the result."""
        return self._resized(as_image(image))

    def _resized(self, pixels: Array) -> Array:
        p = self.pipeline
        pixels = pixels.astype(np.int32)
        if p.channels == 1 and pixels.shape[2] == 3:
            pixels = (pixels @ np.array(_GREY, np.int32) + 0x8000 >> 16)[..., None]
        t = image_tables(p, (pixels.shape[1], pixels.shape[0]))
        across = _sums(t.x, pixels.transpose(1, 0, 2), t.shifts[0]).transpose(1, 0, 2)
        small = _sums(t.y, across, t.shifts[1]).astype(np.uint8)
        small = np.broadcast_to(small, (*small.shape[:2], p.channels))
        small = small[..., ::-1] if p.colour.order == "bgr" else small
        found = np.full((p.resize.height, p.resize.width, p.channels), p.resize.pad, np.uint8)
        found[t.y.first : t.y.first + t.y.count, t.x.first : t.x.first + t.x.count] = small
        return found

    def _looked_up(self, pixels: Array, table: Array) -> Array:
        return np.stack([table[c][pixels[..., c]] for c in range(self.pipeline.channels)], -1)

    def measured(self, images: Iterable[Any]) -> dict[str, list[float]]:
        """`mean` and `deviation` of every colour over some images: constants for [normalise]."""
        factor = 1 / 255 if self.pipeline.normalise.pixels == "unit" else 1.0
        found = [self.resized(image).reshape(-1, self.pipeline.channels) * factor for image in images]
        if not found:
            raise InputError("no image", where="measured", remedy="give one or more")
        values = np.concatenate(found)
        return {"mean": values.mean(0).tolist(), "deviation": np.maximum(values.std(0), 1e-5).tolist()}


def as_image(given: Any) -> Array:
    """An image as training has it: bytes, height x width x 3 (red, green, blue), or height x width."""
    found = np.asarray(given)
    found = found[..., None] if found.ndim == 2 else found
    if found.ndim != 3 or found.shape[2] not in (1, 3) or found.dtype != np.uint8 or 0 in found.shape:
        raise InputError(
            f"an image of shape {np.shape(given)} and type {found.dtype}", where="front end",
            rule="one image is height x width x 3 (red, green, blue), or height x width, of uint8",
            remedy="give the pixels as a file has them, before any normalisation; several images one by one",
        )  # fmt: skip
    return found


def image_front_end(source: str | Path | Mapping[str, Any] | ImagePipeline) -> ImageFrontEnd:
    return ImageFrontEnd(load(source))
