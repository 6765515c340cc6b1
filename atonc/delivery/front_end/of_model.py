"""The operators of a model between a camera's bytes and its first quantisation, as a declared front end: a cast, axes
in another order, a cut, one resize, numbers for each colour. Where they lead is followed axis by axis, what they do to
values is asked of them with a few images; then the Python twin must give what they give, or they stay operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import run_graph
from atonc.compiler.passes.cuts import cut_inputs
from atonc.delivery.front_end.declare import CODE_TYPES, Codes
from atonc.delivery.front_end.image import (
    CameraFrame,
    FramePlace,
    ImageColour,
    ImageCrop,
    ImagePipeline,
    ImageResize,
    ImageValues,
    Size,
    load_either,
)
from atonc.delivery.front_end.image import load as load_image
from atonc.delivery.front_end.image_twin import ImageFrontEnd
from atonc.delivery.front_end.of_sound import found_in_sound, sound_model
from atonc.delivery.front_end.own import MOST_STEP, OwnFrontEnd
from atonc.delivery.front_end.pipeline import PAGE, Pipeline
from atonc.delivery.front_end.tables import Array
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

VALUES = ("add", "affine", "batch_norm", "cast", "clip", "dequantize", "div", "mul", "quantize", "sub")
AT = ("half_pixel", "align_corners", "asymmetric")
HALF_BYTE, SAME_BYTE = 0.51, 1e-3  # what the twin may be off before it is quantised, with a blend and without


@dataclass(frozen=True)
class PixelSource:
    """Where the pixels of a tensor come from: the box of the frame, what it was resized to, and where that lies."""

    axes: str  # h, w, c; - for an axis of one
    box: tuple[int, int, int, int]
    resized: Size | None = None
    offset: Size = (0, 0)


def is_model(source: Any) -> bool:
    """Whether the front end is to be found in front of a model's first quantisation."""
    return isinstance(source, str | Path) and Path(source).suffix.lower() in (".onnx", ".tflite")


def load(source: Any) -> Pipeline | ImagePipeline:
    """A front end of any kind: found in a model, a preset, a file, sections."""
    own = declared(Path(source)) if is_model(source) else source
    return own.pipeline if isinstance(own, OwnFrontEnd) else load_either(own)


def declared(path: Path, read: Callable[[Path], Graph] = read) -> OwnFrontEnd:
    """What is found: sound where the model transforms it, which the reader does not know; images otherwise."""
    sound = sound_model(path)
    return found_in_sound(sound, path.stem) if sound is not None else of_graph(read(path))


def found_in(graph: Graph) -> OwnFrontEnd | None:
    """None where nothing of interest stands in front of the first quantisation."""
    try:
        head = _Head.of(graph)
    except UnsupportedError:
        return None
    plain = {op.kind for op in head.ops} <= {"cast", "quantize"} or len(head.image.shape) < 3  # no rows of numbers
    return None if plain else of_graph(graph)


def of_graph(graph: Graph) -> OwnFrontEnd:
    """UnsupportedError where its first operators are no front end."""
    head = _Head.of(graph)
    own, apart = min((head.compared(one) for one in head.pipelines(head.view())), key=lambda found: found[1])
    if apart > (HALF_BYTE if head.blends else SAME_BYTE) or own.worst > MOST_STEP:
        head.check_pixels()
        raise _refused(
            f"a front end of bytes would be {count(own.worst, 'code')} from the model's operators",
            graph.name, f"{apart:.3g} bytes apart before they are quantised; {MOST_STEP} code is let pass",
            "nearest with nearest_mode floor at asymmetric, or round_prefer_ceil; linear without antialias; "
            "numbers for each colour, not for each pixel; an input of 8 bits",
        )  # fmt: skip
    return own


def _refused(what: str, where: str, rule: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(what, where=where, rule=rule, remedy=remedy)


@dataclass(frozen=True)
class _Head:
    """The operators from an image to its first quantisation, the last of which gives reals here."""

    graph: Graph
    image: Tensor
    ops: tuple[Op, ...]
    codes: Tensor

    @classmethod
    def of(cls, graph: Graph) -> _Head:
        images = [graph.tensors[name] for name in graph.frame_inputs if _axes(graph.tensors[name].shape)]
        bytes_ = [tensor for tensor in images if tensor.dtype == "uint8" and tensor.quant is None]
        if len(bytes_) != 1:
            raise _refused(
                f"the model has {count(len(bytes_), 'input')} of bytes of an image", graph.name,
                "a front end takes the bytes of one camera", f"export it with one uint8 image as input; or {PAGE}",
            )  # fmt: skip
        image, from_image = bytes_[0], {bytes_[0].name}
        for op in graph.ops:
            if from_image.isdisjoint(op.inputs):
                continue
            from_image.update(op.outputs)
            codes = graph.tensors[op.outputs[0]]
            if codes.quant is not None and codes.quant.is_per_tensor and codes.dtype in CODE_TYPES:
                return cls._to(graph, image, codes)
        raise _refused(
            "nothing is quantised behind the image", graph.name, "a front end ends at the first quantisation",
            "quantise the model: atonc quantize MODEL --data SAMPLES",
        )  # fmt: skip

    @classmethod
    def _to(cls, graph: Graph, image: Tensor, codes: Tensor) -> _Head:
        if image.name in cut_inputs(graph, [codes.name]).inputs:
            raise _refused(
                f"the image is also read by what does not go through {codes.name!r}", graph.name,
                "a front end is all that reads the image", "let one quantisation stand in front of the branches",
            )  # fmt: skip
        needed, ops = {codes.name}, list[Op]()
        for op in reversed(graph.ops):
            if not needed.isdisjoint(op.outputs):
                ops.insert(0, op)
                needed.update(name for name in op.inputs if name)
        tensors = {name: graph.tensors[name] for op in ops for name in (*op.inputs, *op.outputs) if name}
        tensors[codes.name] = Tensor(codes.name, codes.shape, "float32")
        inside = replace(
            graph, tensors=tensors, ops=tuple(ops), inputs=(image.name,), outputs=(codes.name,), aliases={}, states=(),
            turned={}, tail=None,
        )  # fmt: skip
        return cls(inside, image, tuple(ops), codes)

    @property
    def size(self) -> Size:
        axes = _axes(self.image.shape)
        return self.image.shape[axes.index("w")], self.image.shape[axes.index("h")]

    @property
    def _channels(self) -> int:
        """Colours of the image."""
        return dict(zip(_axes(self.image.shape), self.image.shape, strict=True)).get("c", 1)

    def view(self) -> PixelSource:
        """Where the values that are quantised come from."""
        views = {self.image.name: PixelSource(_axes(self.image.shape), (0, 0, *self.size))}
        for op in self.ops:
            reads = [views[name] for name in op.inputs if name in views]
            if not reads:
                continue  # constants only
            if any(replace(one, axes=reads[0].axes) != reads[0] for one in reads):
                raise self._no_part(op, "it joins different parts of the image")
            views.update((name, self._behind(op, reads[0], self.graph.tensors[name].shape)) for name in op.outputs)
        if not self.codes.elements:
            raise _refused("nothing is left of the image", self.graph.name, "an image has pixels", "cut less of it")
        return views[self.codes.name]

    def _no_part(self, op: Op, why: str) -> UnsupportedError:
        mode = self._mixed_by(op)
        return _refused(
            f"{f'Resize ({mode})' if mode else op.kind} {op.name!r} is no part of a front end: {why}", self.graph.name,
            "cast, transpose, a cut, one resize (nearest, or linear without antialias at half_pixel, align_corners or "
            "asymmetric), numbers for each colour, colours in another order",
            "leave it out of the export and declare what training does ([image])",
        )  # fmt: skip

    def _mixed_by(self, op: Op) -> str:
        """The mode of a Resize of ONNX that is computed as products; empty for another operator."""
        same = [one.inputs[0] for one in self.ops if one.kind == "matmul" and one.name == op.name]
        weights = self.graph.tensors[same[0]].data if same else None
        if weights is None or not same[0].startswith(f"{op.name}:weights"):
            return ""
        if (weights < 0).any():
            return "cubic"
        few = (np.count_nonzero(weights, axis=1) <= 2).all()
        return "linear at half_pixel_symmetric or tf_crop_and_resize" if few else "linear with antialias"

    def check_pixels(self) -> None:
        """Refuses nearest pixels that are one beside those of whole numbers, as onnxruntime rounds where they lie."""
        for op in self.ops:
            pixels = self.graph.tensors[op.inputs[1]].data if op.kind == "gather" else None
            if pixels is None or not op.inputs[1].startswith(f"{op.name}:pixels"):
                continue
            size, places = self.graph.tensors[op.inputs[0]].shape[op.attrs["axis"]], np.arange(len(pixels))
            single = np.floor(places.astype(np.float32) / (np.float32(len(pixels)) / np.float32(size)))
            whole = places * size // len(pixels)
            if np.array_equal(pixels, single) and not np.array_equal(pixels, whole):
                k = int(np.flatnonzero(pixels != whole)[0])
                raise _refused(
                    f"Resize {op.name!r} of {size} to {len(pixels)} takes pixel {pixels[k]} at place {k}, a front end "
                    f"{whole[k]}", self.graph.name,
                    "onnxruntime divides in single precision, which rounds; a front end counts in whole numbers",
                    "resize to a size where both agree (a whole number of times smaller or larger), or with linear; or "
                    "leave it out of the export and declare it ([image], [resize])",
                )  # fmt: skip

    def _behind(self, op: Op, view: PixelSource, shape: tuple[int, ...]) -> PixelSource:
        before = self.graph.tensors[next(name for name in op.inputs if name in self._moving)].shape
        if op.kind == "transpose":
            return replace(view, axes="".join(view.axes[k] for k in op.attrs["perm"]))
        if op.kind == "reshape":
            return replace(view, axes=self._reshaped(op, view, before, shape))
        if len(shape) != len(before):
            raise self._no_part(op, f"{_shape(before)} to {_shape(shape)}")
        along = "".join(view.axes[k] for k in op.attrs.get("axes", (op.attrs.get("axis", 0),)))
        if op.kind in ("gather", "concat", "split", "reverse") and along == "c":
            return view
        if op.kind in ("resize_nearest", "resize_linear") or (op.kind == "gather" and along in "hw"):
            return self._resized(op, view, before, shape)
        if op.kind == "slice":
            return self._sliced(op, view, before)
        if op.kind == "pad" and op.attrs.get("mode", "constant") == "constant":
            added = dict(zip(view.axes, op.attrs["pads"], strict=True))
            if {axis for axis, both in added.items() if any(both)} <= {"h", "w"}:
                resized = view.resized or view.box[2:]
                (x, y), (left, top) = view.offset, (added["w"][0], added["h"][0])
                return replace(view, resized=resized, offset=(x + left, y + top))
        if op.kind in VALUES and shape == before:
            return view
        raise self._no_part(op, f"{_shape(before)} to {_shape(shape)}")

    @property
    def blends(self) -> bool:
        """Whether pixels are mixed, which ends between two bytes."""
        return any(op.kind == "resize_linear" for op in self.ops)

    def _resized(self, op: Op, view: PixelSource, before: Sequence[int], shape: Sequence[int]) -> PixelSource:
        """Nearest pixels along one axis and then along the other are one resize; what else is two is none."""
        sizes = dict(zip(view.axes, shape, strict=True))
        if view.resized is not None and (self.blends or view.offset != (0, 0)):
            raise self._no_part(op, "it is the second resize")
        if dict(zip(view.axes, before, strict=True)).get("c") != sizes.get("c"):
            raise self._no_part(op, f"{_shape(before)} to {_shape(shape)}")
        return replace(view, resized=(sizes["w"], sizes["h"]))

    @property
    def _moving(self) -> set[str]:
        return {self.image.name, *(name for op in self.ops for name in op.outputs)}

    def _reshaped(self, op: Op, view: PixelSource, before: Sequence[int], shape: Sequence[int]) -> str:
        """Axes of one come and go; nothing else is a reshape of an image."""
        left = [(axis, size) for axis, size in zip(view.axes, before, strict=True) if axis != "-"]
        axes = ""
        for size in shape:
            if left and left[0][1] == size:
                axes += left.pop(0)[0]
            elif size == 1:
                axes += "-"
            else:
                raise self._no_part(op, f"{_shape(before)} to {_shape(shape)}")
        if any(size != 1 for _, size in left):
            raise self._no_part(op, f"{_shape(before)} to {_shape(shape)}")
        return axes

    def _sliced(self, op: Op, view: PixelSource, before: Sequence[int]) -> PixelSource:
        (left, top, width, height), (x, y) = view.box, view.offset
        parts = zip(view.axes, before, op.attrs["starts"], op.attrs["stops"], op.attrs["steps"], strict=True)
        for axis, size, start, stop, step in parts:
            kept = range(*slice(start, stop, step).indices(size))
            if axis in "-c":
                continue
            if kept.step != 1:
                raise self._no_part(op, "it mirrors the image or leaves pixels out")
            if view.resized is not None:
                x, y = (x - kept.start, y) if axis == "w" else (x, y - kept.start)
            elif axis == "w":
                left, width = left + kept.start, len(kept)
            else:
                top, height = top + kept.start, len(kept)
        return replace(view, box=(left, top, width, height), offset=(x, y))

    # --- what they do to values -----------------------------------------------------------------------------------

    def reals(self, image: Array) -> Array:
        """Height x width x colours, before they are quantised; `image`: height x width x colours of bytes."""
        axes = _axes(self.image.shape)
        given = _turned(image, "hwc", axes).reshape(self.image.shape)
        found: Array = run_graph(self.graph, {self.image.name: given})[self.codes.name]
        return _turned(found, self.view().axes, "hwc")

    def _colours(self) -> tuple[ImageColour, ImageValues, Callable[[float], int | None]]:
        """The order of colours, their numbers, and which byte a real of the first colour stands for."""
        channels, (width, height) = self._channels, self.size
        probes = np.zeros((channels + 1, height, width, channels), np.uint8)
        for c in range(channels):
            probes[c, ..., c] = 255
        *rows, dark = (self.reals(probe) for probe in probes)
        middle = dark.shape[0] // 2, dark.shape[1] // 2
        zero = dark[middle]
        gains = np.array([row[middle] for row in rows]) - zero  # of the image, of the result
        orders: Mapping[tuple[int, ...], str]
        orders = {(0, 1, 2): "rgb", (2, 1, 0): "bgr"} if channels == 3 else {(0,): "grey", (0, 0, 0): "rgb"}
        of = tuple(int(k) for k in np.abs(gains).argmax(0))
        alone = np.abs(gains).sum(0) == np.abs(gains).max(0)
        factor = gains.max(0) / 255
        if of not in orders or not alone.all() or not (factor > 0).all():
            raise _refused(
                "colours of the image are mixed, left out or turned to their negative", self.graph.name,
                "each colour of the result is one of the image, in this order or the other one",
                "mix colours in the declared front end ([colour] order)",
            )  # fmt: skip

        def byte_of(real: float) -> int | None:
            value = (real - zero[0]) / factor[0]
            return round(value) if abs(value - round(value)) < SAME_BYTE and 0 <= round(value) <= 255 else None

        numbers = ImageValues("integer", tuple((-zero / factor).tolist()), tuple((1 / factor).tolist()))
        return ImageColour(orders[of]), numbers, byte_of

    def pipelines(self, view: PixelSource) -> Iterator[ImagePipeline]:
        """What they may be: the places of a resize have several names, which the comparison tells apart."""
        colour, numbers, byte_of = self._colours()
        axes = dict(zip(view.axes, self.codes.shape, strict=True))
        size = axes["w"], axes["h"]
        resized = view.resized or view.box[2:]
        width, height = self.size
        resize = ImageResize(*size, "bilinear" if self.blends else "nearest")
        if size[0] > resized[0] or size[1] > resized[1]:
            corner = byte_of(float(self.reals(np.zeros((height, width, self._channels), np.uint8))[0, 0, 0]))
            if corner is None:
                raise _refused(
                    "what is put around the image is no byte", self.graph.name, "bytes are put around an image",
                    "pad in front of what normalises it",
                )  # fmt: skip
            resize = replace(resize, fit="letterbox", pad=corner)
        elif size != resized:
            resize = replace(resize, fit="cover", short_side=min(resized))
        whole = view.box == (0, 0, width, height)
        crop = ImageCrop() if whole else ImageCrop("box", view.box)
        camera = CameraFrame("grey8" if self._channels == 1 else "rgb888", width, height)
        codes = Codes(self.codes.dtype, self.codes.scale, self.codes.zero_point)
        for at in AT if view.resized is not None else AT[:1]:
            made = ImagePipeline("model", camera, crop, replace(resize, at=at), colour, numbers, codes)
            place = FramePlace.of(made, made.size)
            if (place.box, place.resized, place.offset) != (view.box, resized, view.offset):
                raise _refused(
                    f"{resized[0]} x {resized[1]} becomes {size[0]} x {size[1]}, and not in its middle",
                    self.graph.name, "of a resized image a front end takes the middle, or puts it in the middle",
                    "crop the image before it is resized, or in the middle",
                )  # fmt: skip
            yield load_image(made)

    def compared(self, pipeline: ImagePipeline) -> tuple[OwnFrontEnd, float]:
        """Against the operators, on made images; and by how many bytes the twin is off before it is quantised."""
        twin, real = ImageFrontEnd(pipeline), ImageFrontEnd(load_image(pipeline.for_input(Codes())))
        factor = np.array(pipeline.normalise.deviation)
        low, high = CODE_TYPES[self.codes.dtype]
        total = differ = worst = 0
        apart = 0.0
        for image in _made(*self.size, self._channels):
            theirs = self.reals(image)
            apart = max(apart, float((np.abs(theirs - real(image)) * factor).max()))
            exact = np.clip(np.rint(theirs / self.codes.scale) + self.codes.zero_point, low, high)
            steps = np.abs(exact - twin(image).astype(np.float64))
            total, differ, worst = total + steps.size, differ + int((steps > 0).sum()), max(worst, int(steps.max()))
        names = tuple(dict.fromkeys(name for op in self.ops for name in (op.origin or (op.name,))))
        return OwnFrontEnd(pipeline, self.codes.name, names, total, differ, worst), apart


def _axes(shape: Sequence[int]) -> str:
    """The axes of an input that is an image; empty if it is none."""
    inner = tuple(shape[1:]) if len(shape) == 4 and shape[0] == 1 else tuple(shape)
    batch = "-" if len(shape) == 4 else ""
    if len(inner) == 3 and min(inner) > 0:
        return f"{batch}hwc" if inner[2] in (1, 3) else f"{batch}chw" if inner[0] in (1, 3) else ""
    return "hw" if len(shape) == 2 and min(inner) > 1 else ""


def _turned(values: Array, axes: str, wanted: str) -> Array:
    """Values with these axes in another order; axes of one come and go."""
    kept = values.reshape([size for size, axis in zip(values.shape, axes, strict=True) if axis != "-"])
    names = axes.replace("-", "")
    if "c" not in names:
        kept, names = kept[..., None], f"{names}c"
    order = [axis for axis in wanted if axis in names]
    return kept.transpose([names.index(axis) for axis in order] + ([] if "c" in order else [names.index("c")]))


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _made(width: int, height: int, channels: int) -> Iterator[Array]:
    """Noise, every byte in its turn, edges."""
    rng = np.random.default_rng(0)
    yield rng.integers(0, 256, (height, width, channels)).astype(np.uint8)
    ramp = np.arange(height * width).reshape(height, width)
    yield np.stack([ramp * (c + 1) + 85 * c for c in range(channels)], -1).astype(np.uint8)
    yield np.stack([255 * ((ramp // (c + 2)) % 2) for c in range(channels)], -1).astype(np.uint8)
