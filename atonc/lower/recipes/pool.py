"""Pooling and means over pictures."""

from __future__ import annotations

from math import gcd, prod

from atonc.ir import Op
from atonc.lower.context import Context
from atonc.lower.copies import Move, Units, copy, pipelines
from atonc.lower.maxima import LOWEST, NO_PADS, Pads, Windows, after, cascade, line_pipelines
from atonc.lower.padding import borders, inside, pad_view
from atonc.lower.pipelines import pack
from atonc.lower.recipes.movement import change_between
from atonc.lower.registry import Refusal, recipe
from atonc.lower.views import View
from atonc.ops.windows import Geometry, pair
from atonc.plan.types import StepPlan

_MOST_PAD = 31  # pixels that the identity CONVACC adds on a side


def picture_of(context: Context, name: str) -> View:
    """[height, width, channels]; sequences have height 1."""
    shape = context.tensor(name).shape
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Refusal("pooling shape", f"{shape}", "one picture, channel last", "fix the batch to 1")
    return View.whole(context.buffer(name), (1,) * (4 - len(shape)) + shape[1:])


def geometry_of(op: Op) -> Geometry:
    if op.attrs["layout"] != "NHWC":
        raise Refusal("layout", f"{op.kind} with channels first", "channel last", "let the passes transpose it")
    geometry = Geometry.of(op.attrs, pair(op.attrs["window"]))
    if geometry.dilation != (1, 1):
        raise Refusal("dilated pooling", f"{geometry.dilation}", "dilation 1", "use the CPU")
    return geometry


@recipe("max_pool")
def lower_max_pool(op: Op, context: Context) -> list[StepPlan]:
    geometry = geometry_of(op)
    source, target = picture_of(context, op.inputs[0]), picture_of(context, op.outputs[0])
    units = change_between(op, context.tensor(op.inputs[0]), context.tensor(op.outputs[0]))
    return Cascade(op, context, source, target, geometry, units).plans()


class Cascade:
    """The epochs of one maximum: padding, square stages, stages along one axis, then what remains of the stride."""

    def __init__(self, op: Op, context: Context, source: View, target: View, geometry: Geometry, units: Units) -> None:
        self.op, self.context, self.target, self.units = op, context, target, units
        self.title = f"{op.kind} {op.name}"
        self.steps: list[StepPlan] = []
        self.now, self.pads = _needed(source, target.shape, geometry)
        self.geometry = geometry

    def plans(self) -> list[StepPlan]:
        (tall, wide), (down, right) = self.geometry.kernel, self.geometry.stride
        square = min(tall, wide)
        even = tall == wide
        stages, rest = cascade(square, gcd(down, right) if even else 1)
        done = gcd(down, right) // rest if even else 1
        if any(self.pads) and (square == 1 or max(self.pads) > _MOST_PAD):
            self._pad_in_memory()
        lines = [(axis, size) for axis in (0, 1) for size, _ in cascade((tall, wide)[axis] - square + 1, 1)[0]]
        direct = (done, done) == (down, right) and not self.units  # the last stage gives the result
        self._squares(stages, direct and not lines)
        for number, (axis, size) in enumerate(lines, 1):
            self._along(axis, size, direct and number == len(lines))
        if not direct or not (stages or lines):
            self._finish(down // done, right // done)
        return self.steps

    def _scratch(self, shape: tuple[int, ...]) -> View:
        return View.whole(self.context.scratch(prod(shape), self.op.name), shape)

    def _pad_in_memory(self) -> None:
        top, left, bottom, right = self.pads
        height, width, channels = self.now.shape
        whole = self._scratch((height + top + bottom, width + left + right, channels))
        pads = ((top, bottom), (left, right), (0, 0))
        moves = pipelines([Move(self.now, inside(whole, pads))])
        fills = pad_view(borders(whole, pads), LOWEST, self.now.buffer, height * width * channels)
        self.steps += pack([*moves, *fills], self.op.origin, self.title)
        self.now, self.pads = whole, NO_PADS

    def _squares(self, stages: list[tuple[int, int]], last: bool) -> None:
        for start in range(0, len(stages), 2):
            two = tuple(stages[start : start + 2])
            top, left, bottom, right = self.pads
            height, width, channels = self.now.shape
            shape = (after(height + top + bottom, list(two)), after(width + left + right, list(two)), channels)
            result = self.target if last and start + 2 >= len(stages) else self._scratch(shape)
            windows = Windows(self.now, result, two, self.pads)
            self.steps += pack(windows.pipelines(self.context), self.op.origin, self.title)
            self.now, self.pads = result, NO_PADS

    def _along(self, axis: int, window: int, last: bool) -> None:
        """Columns (axis 0) or rows (axis 1) alone."""
        height, width, channels = self.now.shape
        shape = (height - window + 1, width, channels) if axis == 0 else (height, width - window + 1, channels)
        result = self.target if last else self._scratch(shape)
        if axis == 1:
            found = list(line_pipelines(self.now, result, window))
        else:
            found = list(line_pipelines(_columns(self.now), _columns(result), window))
        self.steps += pack(found, self.op.origin, self.title)
        self.now = result

    def _finish(self, down: int, right: int) -> None:
        height, width, _ = self.target.shape
        kept = self.now.cut(0, 0, height, down).cut(1, 0, width, right)
        self.steps += copy([Move(kept, self.target, self.units)], self.op.origin, self.title)


def _needed(source: View, out: tuple[int, ...], geometry: Geometry) -> tuple[View, Pads]:
    """The part of the picture that the windows see, and the padding around it."""
    pads = []
    for axis in (0, 1):
        before, size = geometry.padding[axis], source.shape[axis]
        reach = (out[axis] - 1) * geometry.stride[axis] + geometry.kernel[axis]
        source = source.cut(axis, 0, min(size, reach - before))
        pads.append((before, max(0, reach - before - size)))
    return source, (pads[0][0], pads[1][0], pads[0][1], pads[1][1])


def _columns(picture: View) -> View:
    """[elements of a line in groups, lines, group]: along the columns all elements of a line are alike."""
    height, width, channels = picture.shape
    size = max(n for n in range(1, 9) if width * channels % n == 0)
    flat = View(picture.buffer, (height, width * channels), (picture.strides[0], 1), picture.offset)
    return flat.split(1, width * channels // size, size).transpose((1, 0, 2))
