"""What a front end of images does, declared: frames of a camera, cropped, resized, in the order of colours and the
range that training had. Without a preset (`image_presets/*.toml`) it stretches the frame to 224 x 224, 0 to 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.delivery.front_end import declare, pipeline
from atonc.delivery.front_end.declare import Agreement, Check, Codes, Declaration, flag, one_of, whole
from atonc.machine.base.disk import read_toml
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

FORMATS = {"rgb565": 2, "rgb888": 3, "bgr888": 3, "yuyv": 2, "grey8": 1}  # bytes of a pixel
MOST_SIDE = 8192
Size = tuple[int, int]  # width, height


@dataclass(frozen=True)
class CameraFrame:
    """The camera's buffer. `width` 0: not said, which is enough for Python; `stride` 0: rows have no gap."""

    format: str = "rgb888"
    width: int = 0
    height: int = 0
    stride: int = 0
    range: str = "limited"  # of YUYV: Y from 16 to 235, or "full"


@dataclass(frozen=True)
class ImageCrop:
    """What is taken of a frame: all, the largest box in its middle that has the aspect of the result, or a box."""

    to: str = "none"
    box: tuple[int, ...] = (0, 0, 0, 0)  # left, top, width, height


@dataclass(frozen=True)
class ImageResize:
    """`fit`: both sides stretched; the middle of an image that covers the result, its short side `short_side` (0: as
    small as it may be); or the whole image with `pad` around it."""

    width: int = 224
    height: int = 224
    how: str = "bilinear"
    at: str = "half_pixel"
    antialias: bool = False
    fit: str = "stretch"
    short_side: int = 0
    pad: int = 114


@dataclass(frozen=True)
class ImageColour:
    order: str = "rgb"


@dataclass(frozen=True)
class ImageValues:
    """(x - mean) / deviation, for all colours or each in the order of the result; `pixels`: 255 is 1.0 ("unit"), or
    itself ("integer"), or bytes are codes already."""

    pixels: str = "unit"
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


@dataclass(frozen=True)
class ImagePipeline:
    """All sections of a `front_end.toml` for images."""

    name: str = "front_end"
    image: CameraFrame = CameraFrame()
    crop: ImageCrop = ImageCrop()
    resize: ImageResize = ImageResize()
    colour: ImageColour = ImageColour()
    normalise: ImageValues = ImageValues()
    codes: Codes = Codes()

    @property
    def channels(self) -> int:
        return 1 if self.colour.order == "grey" else 3

    @property
    def rows(self) -> int:
        """Channels that are resized: a grey camera has one, whatever the network takes."""
        return 1 if self.image.format == "grey8" else self.channels

    @property
    def size(self) -> Size:
        """The camera's frame."""
        return self.image.width, self.image.height

    @property
    def row_bytes(self) -> int:
        return self.image.stride or self.image.width * FORMATS[self.image.format]

    @property
    def said(self) -> str:
        """The result."""
        return f"{self.resize.height} x {self.resize.width} x {self.channels}"

    def for_input(self, codes: Codes) -> ImagePipeline:
        """The same for another network."""
        return dataclasses.replace(self, codes=codes)


_box: Check = (
    "four whole numbers from 0: left, top, width, height",
    lambda value: isinstance(value, tuple) and len(value) == 4 and all(whole(0, MOST_SIDE)[1](x) for x in value),
)
CHECKS: Mapping[str, Check] = {
    **declare.CHECKS,
    "image.format": one_of(*FORMATS),
    "image.width": whole(0, MOST_SIDE),
    "image.height": whole(0, MOST_SIDE),
    "image.stride": whole(0, 1 << 16),
    "image.range": one_of("limited", "full"),
    "crop.to": one_of("none", "centre", "box"),
    "crop.box": _box,
    "resize.width": whole(1, 4096),
    "resize.height": whole(1, 4096),
    "resize.how": one_of("nearest", "bilinear"),
    "resize.at": one_of("half_pixel", "align_corners", "asymmetric"),
    "resize.antialias": flag,
    "resize.fit": one_of("stretch", "cover", "letterbox"),
    "resize.short_side": whole(0, MOST_SIDE),
    "resize.pad": whole(0, 255),
    "colour.order": one_of("rgb", "bgr", "grey"),
    "normalise.pixels": one_of("unit", "integer", "codes"),
}


def _agreements(p: ImagePipeline) -> list[Agreement]:
    image, resize, values = p.image, p.resize, p.normalise
    least, sizes = image.width * FORMATS[image.format], (0, 1, p.channels)
    smooth = resize.how == "bilinear" and resize.at == "half_pixel"
    boxed = p.crop.to == "box"
    return [
        ("image.height", bool(image.width) == bool(image.height), "one side of the frame only", "say both"),
        (
            *("image.stride", not image.stride or image.stride >= least),
            *(f"rows of {image.width} pixels have {least} bytes", f"stride = {least}, or more; 0: no gap"),
        ),
        ("image.width", image.format != "yuyv" or not image.width % 2, "two pixels share U and V", "an even one"),
        ("crop.box", boxed == any(p.crop.box), 'box and to = "box" belong together', 'to = "box"; box = [...]'),
        ("crop.box", not boxed or min(p.crop.box[2:]) > 0, "an empty box", "width and height above 0"),
        (
            *("resize.antialias", not resize.antialias or smooth),
            *("goes with bilinear at half_pixel only", 'how = "bilinear"; at = "half_pixel"'),
        ),
        (
            *("resize.short_side", not resize.short_side or resize.fit == "cover"),
            *("is for fit = cover", 'fit = "cover", or leave short_side out'),
        ),
        *(
            (f"normalise.{key}", len(given) in sizes, f"{len(given)} for {p.channels} colours", "one, or one for each")
            for key, given in (("mean", values.mean), ("deviation", values.deviation))
        ),
        ("normalise.deviation", all(x > 1e-20 for x in values.deviation), "not above zero", "deviation = 1"),
        (
            *("normalise.pixels", values.pixels != "codes" or not (values.mean or values.deviation)),
            *("bytes that are codes have no mean", "leave mean and deviation out"),
        ),
        (
            *("normalise.pixels", values.pixels != "codes" or p.codes.type in ("int8", "uint8", "float32")),
            *(f"bytes are no codes of {p.codes.type}", 'pixels = "unit" or "integer"'),
        ),
        declare.codes_agree(p.codes),
    ]


def _require(p: ImagePipeline, source: Declaration) -> None:
    declare.require(_agreements(p), source)
    if p.image.width:
        FramePlace.of(p, p.size, source)


@dataclass(frozen=True)
class FramePlace:
    """Where what was taken of a frame lies in the result, in pixels; an offset below zero: the middle is taken."""

    box: tuple[int, int, int, int]  # left, top, width, height
    resized: Size
    offset: Size

    @classmethod
    def of(cls, p: ImagePipeline, frame: Size, source: Declaration | None = None) -> FramePlace:
        place = source or Declaration(f"front end {p.name}")
        box = _box_of(p, frame, place)
        (w, h), (width, height), fit = box[2:], (p.resize.width, p.resize.height), p.resize.fit
        if fit == "letterbox":  # Ultralytics, in its double precision
            scale = min(height / h, width / w)
            resized = max(1, round(w * scale)), max(1, round(h * scale))
            left, top = ((outer - inner) / 2 for outer, inner in zip((width, height), resized, strict=True))
            return cls(box, resized, (round(left - 0.1), round(top - 0.1)))
        if fit == "stretch":
            return cls(box, (width, height), (0, 0))
        resized = _covering(p, w, h)
        if resized[0] < width or resized[1] < height:
            raise InputError(
                f"a frame of {w} x {h} becomes {resized[0]} x {resized[1]}, less than {width} x {height}",
                where=place.where("resize.short_side"), remedy=f"short_side = {max(width, height)}, or more; 0: enough",
            )  # fmt: skip
        return cls(box, resized, (-round((resized[0] - width) / 2), -round((resized[1] - height) / 2)))


def _covering(p: ImagePipeline, w: int, h: int) -> Size:
    """torchvision's Resize: the short side as named, the long one rounded down."""
    width, height, short = p.resize.width, p.resize.height, p.resize.short_side
    if short:
        return (short, short * h // w) if w <= h else (short * w // h, short)
    return (width, width * h // w) if width * h >= height * w else (height * w // h, height)


def _box_of(p: ImagePipeline, frame: Size, place: Declaration) -> tuple[int, int, int, int]:
    (w, h), (width, height) = frame, (p.resize.width, p.resize.height)
    if p.crop.to == "none":
        return 0, 0, w, h
    if p.crop.to == "centre":
        box = (max(1, h * width // height), h) if w * height >= h * width else (w, max(1, w * height // width))
        return (w - box[0]) // 2, (h - box[1]) // 2, *box
    left, top, bw, bh = p.crop.box
    if left + bw > w or top + bh > h:
        raise InputError(
            f"the box ends at {left + bw}, {top + bh}, the frame at {w}, {h}", where=place.where("crop.box"),
            remedy="a box inside the frame: left, top, width, height",
        )  # fmt: skip
    return left, top, bw, bh


IMAGE = declare.FrontEndKind(
    ImagePipeline(),
    declare.IMAGES,
    ("image", "crop", "resize", "colour", "normalise", "codes"),
    CHECKS,
    _require,
)


def presets() -> dict[str, str]:
    """Name -> text."""
    return declare.presets(IMAGE.folder)


def load(source: str | Path | Mapping[str, Any] | ImagePipeline) -> ImagePipeline:
    found: ImagePipeline = declare.load(source, IMAGE)
    return found


def parse(text: str, place: str) -> ImagePipeline:
    found: ImagePipeline = declare.parse(text, place, IMAGE)
    return found


def is_image(source: Any) -> bool:
    """Whether a preset, a file or sections speak of images: by a section that sounds have not."""
    if isinstance(source, ImagePipeline | pipeline.Pipeline):
        return isinstance(source, ImagePipeline)
    if not isinstance(source, Mapping):
        if str(source) in pipeline.presets() or Path(source).suffix != ".toml":
            return str(source) in presets()
        try:
            source = read_toml(declare.text_of(Path(source)))
        except ValueError:  # it says so itself when it is loaded
            return False
    own = set(IMAGE.sections) - set(pipeline.SOUND.sections)
    return str(source.get("based_on")) in presets() or not own.isdisjoint(source)


def load_either(source: Any) -> pipeline.Pipeline | ImagePipeline:
    return load(source) if is_image(source) else pipeline.load(source)
