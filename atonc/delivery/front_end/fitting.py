"""`generate --front-end`: a front end for the input of a network, written beside it, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import buffers_info
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.ir import Graph
from atonc.delivery.front_end import c_text, image_text
from atonc.delivery.front_end.declare import Codes
from atonc.delivery.front_end.image import ImagePipeline, load_either
from atonc.delivery.front_end.image_twin import SAY_FRAME, image_tables
from atonc.delivery.front_end.micro import micro_tables
from atonc.delivery.front_end.of_model import declared, found_in, is_model, load
from atonc.delivery.front_end.own import OwnFrontEnd, as_toml
from atonc.delivery.front_end.pipeline import Pipeline
from atonc.delivery.front_end.tables import tables
from atonc.delivery.generate.generating import c_network
from atonc.insight.report.document import Chapter, Document, Terms
from atonc.machine.base.disk import together
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

_TYPES = {"INT8": "int8", "UINT8": "uint8", "INT16": "int16", "FLOAT": "float32"}
_SAME_SCALE = 1e-5  # files say scales with few digits


@dataclass(frozen=True)
class FittedFrontEnd:
    """A front end and the input that it feeds."""

    pipeline: Pipeline
    window: c_text.Window
    label: str  # of the input
    cpu_mhz: float
    own: OwnFrontEnd | None = None  # where the model begins with it

    @property
    def cycles(self) -> int:
        return cycles(self.pipeline)

    def files(self, name: str) -> dict[str, bytes]:
        return {**c_text.files(self.pipeline, name, self.window), **_declaration(self, name)}

    @property
    def hop_ms(self) -> float:
        """From one inference to the next, of a network with states: no frame comes twice."""
        return 1000 * self.window.frames * self.pipeline.frame.hop / self.pipeline.rate

    @property
    def data(self) -> dict[str, Any]:
        p = self.pipeline
        return {
            **{"name": p.name, "input": self.label, "frames": self.window.frames, "features": p.features},
            **{"hop": p.frame.hop, "rate": p.rate, "cycles_per_frame": self.cycles},
            **{"ram_bytes": c_text.state_bytes(p, self.window), "tables_bytes": c_text.constant_bytes(p)},
            **({} if self.own is None else self.own.data),
        }

    @property
    def said(self) -> str:
        p = self.pipeline
        share = self.cycles / (self.cpu_mhz * 1e6 * p.frame.hop / p.rate)
        return (
            f"{p.name}: {count(p.features, 'feature')} every {1000 * p.frame.hop / p.rate:.3g} ms for {self.label}; "
            f"{self.cycles:,} cycles a frame, predicted, {share:.2%} of the CPU; "
            f"RAM {c_text.state_bytes(p, self.window):,} bytes, flash {c_text.constant_bytes(p):,} of tables, "
            "both apart from the figures of the network" + (f"; instead of {self.own.said}" if self.own else "")
        )


@dataclass(frozen=True)
class FittedImages:
    """A front end of images and the input that it feeds."""

    pipeline: ImagePipeline
    planes: bool
    label: str  # of the input
    cpu_mhz: float
    own: OwnFrontEnd | None = None  # where the model begins with it

    @property
    def cycles(self) -> int:
        return image_cycles(self.pipeline, self.planes)

    def files(self, name: str) -> dict[str, bytes]:
        return {**image_text.files(self.pipeline, name, self.planes), **_declaration(self, name)}

    @property
    def data(self) -> dict[str, Any]:
        p = self.pipeline
        return {
            **{"name": p.name, "input": self.label, "format": p.image.format, "frame": list(p.size)},
            **{"shape": [p.resize.height, p.resize.width, p.channels], "cycles_per_image": self.cycles},
            **{"ram_bytes": image_text.state_bytes(p), "tables_bytes": image_text.constant_bytes(p)},
            **({} if self.own is None else self.own.data),
        }

    @property
    def said(self) -> str:
        p = self.pipeline
        return (
            f"{p.name}: {p.image.width} x {p.image.height} {p.image.format} to {p.said} for {self.label}; "
            f"{self.cycles:,} cycles an image, predicted, {self.cycles / self.cpu_mhz / 1000:.3g} ms of the CPU; "
            f"RAM {image_text.state_bytes(p):,} bytes, flash {image_text.constant_bytes(p):,} of tables, "
            "both apart from the figures of the network" + (f"; instead of {self.own.said}" if self.own else "")
        )


Fitted = FittedFrontEnd | FittedImages


def _declaration(found: Fitted, name: str) -> dict[str, bytes]:
    """What was found in the model, as a file."""
    return {f"{name}_front_end.toml": as_toml(found.pipeline).encode()} if found.own else {}


Source = str | Path | Mapping[str, Any] | OwnFrontEnd


def require_fit(graph: Graph, source: Source, own_types: bool) -> None:
    """What the model says before it is compiled, whatever the order of its axes will be. `own_types`: its inputs keep
    the types that it has."""
    pipeline = load(source)
    _require_frame(pipeline)
    inputs = [graph.tensors[name] for name in graph.frame_inputs]
    fits = [tensor for tensor in inputs if _takes(tensor.shape, pipeline)]
    if not fits:
        raise _no_input(graph.name, pipeline, [(one.name, one.dtype, one.shape) for one in inputs], 0)
    quant = fits[0].quant if len(fits) == 1 and own_types else None
    if quant is not None and quant.is_per_tensor and fits[0].dtype in _TYPES.values():
        _require_codes(pipeline, Codes(fits[0].dtype, fits[0].scale, fits[0].zero_point), fits[0].name)


def fitted(view: CompileView, source: Source) -> Fitted:
    """Whether frames, or images, and codes are what the network takes."""
    source = declared(Path(str(source))) if is_model(source) else source
    own = source if isinstance(source, OwnFrontEnd) else None
    pipeline = load(source)
    _require_frame(pipeline)
    inputs = buffers_info.inputs(c_network(view))
    found = [info for info in inputs if info.type in _TYPES and _order(info, pipeline) is not None]
    if len(found) != 1:
        takes = [(one.label, one.type.lower(), one.mem_shape) for one in inputs]
        error = _no_input(view.name, pipeline, takes, len(found))
        error.remedy = f"let the network begin there: cut_inputs={own.tensor!r}" if own else error.remedy
        raise error
    info, mhz = found[0], view.compiled.target.machine.clocks.cpu_mhz
    codes, order = _codes(view, info), _order(info, pipeline)
    _require_codes(pipeline, codes, info.label)
    whole = load_either(pipeline.for_input(codes))
    if isinstance(whole, ImagePipeline):
        return FittedImages(whole, order == PLANES, info.label, mhz, own)
    assert isinstance(order, c_text.Window)
    return FittedFrontEnd(whole, order, info.label, mhz, own)


def with_hop(view: CompileView, source: Source) -> CompileView:
    """Where nobody said --hop, it is that of a front end of sounds; images come when the camera has them."""
    found = None if view.options.hop else fitted(view, source)
    if not isinstance(found, FittedFrontEnd):
        return view
    return replace(view, options=replace(view.options, hop=found.hop_ms))


def _require_frame(p: Pipeline | ImagePipeline) -> None:
    if isinstance(p, ImagePipeline) and not p.image.width:
        raise InputError(
            "[image] has no width and height", where=f"front end {p.name}",
            rule="the C file is made for the frames of one camera", remedy=SAY_FRAME,
        )  # fmt: skip


def _require_codes(p: Pipeline | ImagePipeline, codes: Codes, label: str) -> None:
    if p.codes != Codes() and _differ(p.codes, codes):
        raise InputError(
            f"[codes] says {_said(p.codes)}, the network's input takes {_said(codes)}",
            where=f"front end {p.name}, input {label}",
            rule="codes of another scale are wrong without any error",
            remedy="leave [codes] out: generate takes it from the network; or compile the network that it was made for",
        )


def _takes(shape: Sequence[int], p: Pipeline | ImagePipeline) -> bool:
    return bool(_frames(shape, p)) if isinstance(p, Pipeline) else _planes(shape, p) is not None


PIXELS, PLANES = "pixels", "planes"  # row, column, colour; or one colour after the other


def _planes(shape: Sequence[int], p: ImagePipeline) -> str | None:
    """How images lie in an input of this shape; None where it has other sizes."""
    inner = (p.resize.height, p.resize.width)
    found = tuple(shape[1:]) if len(shape) == 4 and shape[0] == 1 else tuple(shape)
    colours = () if p.channels == 1 and len(found) == 2 else (p.channels,)
    return PIXELS if found == (*inner, *colours) else PLANES if found == (*colours, *inner) else None


def _order(info: Info, p: Pipeline | ImagePipeline) -> c_text.Window | str | None:
    """How frames, or images, lie in this input; None where they do not fit."""
    return _window(info, p) if isinstance(p, Pipeline) else _planes(info.mem_shape, p)


def _frames(shape: Sequence[int], p: Pipeline) -> int:
    """How many frames an input of this shape has, 0 if it has another number of features."""
    sizes, elements = [size for size in shape if size != 1], math.prod(shape)
    held = len(sizes) <= 1 or elements == p.features or p.features in sizes
    return 0 if elements % p.features or not held else elements // p.features


def _window(info: Info, p: Pipeline) -> c_text.Window | None:
    """How many frames the input has and which of its axes is theirs; None where it has another number of features."""
    sizes, frames = [size for size in info.mem_shape if size != 1] or [1], _frames(info.mem_shape, p)
    if not frames:
        return None
    if sizes[-1] == p.features or len(sizes) == 1 or frames == 1:
        return c_text.Window(frames)
    if sizes == [p.features, frames]:
        return c_text.Window(frames, frames_inside=True)
    return None


def _no_input(
    name: str, p: Pipeline | ImagePipeline, inputs: Sequence[tuple[str, str, tuple[int, ...]]], fits: int
) -> InputError:
    """`inputs`: label, type and shape of each."""
    takes = "; ".join(f"{label} {kind} {'x'.join(map(str, shape))}" for label, kind, shape in inputs)
    shape = inputs[0][2] if inputs else ()
    if isinstance(p, Pipeline):
        last, wanted = next((size for size in reversed(shape) if size != 1), 1), "dct" if p.dct.count else "mel"
        made, rule = f"frames of {p.features} features", "frames are an axis, or the whole, of 8 or 16 bits or float32"
        remedy = f"{wanted}.count = {last} in the front end, if training had so many"
    else:
        made, rule = f"images of {p.said}", "images are the whole, of 8 or 16 bits or float32"
        remedy = _sizes(shape)
    return InputError(
        f"{made} fit {'no input' if not fits else f'{fits} inputs'} of the network",
        where=f"front end {p.name}, network {name}",
        rule=f"it takes {takes}; {rule}",
        remedy=remedy if not fits else "name one input only",
    )


def _sizes(shape: Sequence[int]) -> str:
    """What to write for an input that takes images."""
    if len(shape) != 4 or not {shape[1], shape[3]} & {1, 3}:
        return "a network whose input is 1 x height x width x colours"
    height, width, colours = (shape[1:]) if shape[3] in (1, 3) else (*shape[2:], shape[1])
    order = ', and [colour] order = "grey"' if colours == 1 else ', and [colour] order = "rgb" or "bgr"'
    return f"[resize] width = {width}, height = {height}{order}"


def _codes(view: CompileView, info: Info) -> Codes:
    kind = _TYPES[info.type]
    if kind == "float32":
        return Codes()
    if len(info.scales) != 1:
        raise InputError(
            f"input {info.label} has {count(len(info.scales), 'scale')}",
            where=f"network {view.name}",
            rule="a front end makes codes of one scale",
            remedy="quantise the input per tensor",
        )
    return Codes(kind, info.scales[0], info.offsets[0])


def _differ(one: Codes, other: Codes) -> bool:
    same = (one.type, one.zero_point) == (other.type, other.zero_point)
    return not same or abs(one.scale - other.scale) > _SAME_SCALE * other.scale


def _said(codes: Codes) -> str:
    return f"{codes.type} scale {codes.scale:.7g} zero point {codes.zero_point}"


def with_front_end(view: CompileView, files: Mapping[str, bytes], source: Source) -> dict[str, bytes]:
    """The files of a network and those of its front end."""
    return together([("the network", files), ("the front end", fitted(view, source).files(view.name))])


def document_with(found: Fitted, document: Document) -> Document:
    """What is said of a compilation, with the front end."""
    return _with_terms(document, found.said, found.data)


def advised(graph: Graph, document: Document) -> Document:
    """With what could be done about operators between the bytes of an image and the first quantisation."""
    try:
        own = found_in(graph)
    except AtoncError as error:
        found = {"refused": error.what, "cause": error.rule, "fix": error.remedy}
        said = f"operators in front of the first quantisation stay: {error.what}; {error.remedy.partition(';')[0]}"
        return _with_terms(document, said, found)
    if own is None:
        return document
    return _with_terms(document, f"--front-end MODEL makes C of {own.said}", own.data)


def _with_terms(document: Document, said: str, found: Mapping[str, Any]) -> Document:
    before = document.data or dict
    sections = (*document.sections, Chapter("", [Terms({"front end": said})]))
    return replace(document, sections=sections, data=lambda: {**before(), "front_end": dict(found)})


# --------------------------------------------------------------------------------------------------------------- cost

# Cycles of loops of four numbers and of calls, from instructions counted on the virtual board with GCC 12 -O2 and the
# weights of benchmarks/cpu_kernels.py; benchmarks/results/front_ends.md compares the sums with whole frames.
_COPIED, _FRAMED, _EMPHASIS, _MEAN, _ZEROS = 1.3, 12, 10, 7, 5  # a sample; four of a frame
_FIRST, _MIDDLE, _LAST_FOUR, _LAST_TWO, _POWER = 195, 139, 86, 43, 76
_ROOT, _DOT, _ROW, _LOG, _NORMALISE, _CODES, _SCALE = 19, 10, 17, 82, 17, 27, 9


def cycles(p: Pipeline) -> int:
    """The cycles of a frame on a Cortex-M55 with vectors, waits for memory not counted."""
    if p.tflm.enabled:
        return _cycles_of_integers(p)
    t, half, fours = tables(p), p.spectrum.n_fft // 2, -(-p.frame.length // 4)
    frame = _FRAMED + (_EMPHASIS if p.frame.pre_emphasis else 0) + (_MEAN if p.frame.remove_mean else 0)
    total = _COPIED * p.frame.length + frame * fours + _ZEROS * (p.spectrum.n_fft // 4 - fours)
    stride, butterflies = c_text.last_stride(half), half // 16
    middle = _MIDDLE * (stride.bit_length() // 2 - 1)
    last = _LAST_FOUR if half // stride == 4 else 2 * _LAST_TWO
    total += (_FIRST + middle + last) * butterflies + _POWER * (half // 8)
    total += _ROOT * p.bins if p.spectrum.of == "magnitude" else 0
    total += _DOT * int(t.mel_fours.sum()) + _ROW * p.mel.count if p.mel.count else _SCALE * (p.bins // 4)
    total += _LOG * (p.values // 4) if p.log.of != "none" else 0
    total += p.dct.count * (_ROW + _DOT * -(-p.values // 4))
    total += _NORMALISE * (p.features // 4) if t.mean.size else 0
    return round(total + _CODES * -(-p.features // 4))


_SAMPLE, _PUT, _STAGE, _BIN, _WEIGHT, _CHANNEL = 13, 13, 135, 53, 14, 480


def _cycles_of_integers(p: Pipeline) -> int:
    t = micro_tables(p)
    half = t.n_fft // 2
    total = _COPIED * p.frame.length + _SAMPLE * p.frame.length + _PUT * half
    total += _STAGE * half // 4 * len(t.stages) + _BIN * half // 2 + _WEIGHT * t.weights.size
    return round(total + _CHANNEL * p.mel.count)


# Cycles along a line for each pixel of the result, counted as above: taken as it is; or a sum, and each of its taps.
_ALONG = {
    ("rgb888", 3): (10.6, 11.8, 8.5), ("rgb888", 1): (14.8, 7.1, 11.0), ("rgb565", 3): (20.7, 15.1, 16.8),
    ("rgb565", 1): (23.0, 4.9, 21.1), ("yuyv", 3): (26.5, 0.0, 35.0), ("yuyv", 1): (11.7, 9.0, 8.5),
    ("grey8", 1): (5.7, 6.6, 3.7),
}  # fmt: skip
_LOOKED_UP, _SUM, _TAP = 2.75, 2.75, 1.25  # a value of the result with vectors
_CODE, _PLAIN_SUM, _PLAIN_TAP, _PADDED = 2.2, 2, 3, 2.5  # one without them; one outside of the frame


def image_cycles(p: ImagePipeline, planes: bool = False) -> int:
    """The cycles of an image on a Cortex-M55 with vectors, waits for memory not counted."""
    t = image_tables(p, p.size)
    lines = len({line + k for line in t.y.starts.tolist() for k in range(t.y.taps)})
    one, several, tap = _ALONG[p.image.format.replace("bgr", "rgb"), p.rows]
    total = lines * t.x.count * (one if t.x.taps == 1 else several + tap * t.x.taps)
    pixels, inner = p.resize.width * p.resize.height, t.x.count * t.y.count
    if image_text.is_flat(p, planes):
        total += inner * p.rows * (_LOOKED_UP if t.y.taps == 1 else _SUM + _TAP * t.y.taps)
    else:
        sums = 1 if t.y.taps == 1 else _PLAIN_SUM + _PLAIN_TAP * t.y.taps
        total += inner * (p.rows * sums + p.channels * _CODE)
    return round(total + (pixels * p.channels * _PADDED if inner < pixels else 0))
