"""Parts of buffers as nested steps, and the stream engines that walk them.

Movement operators are pairs of views of equal shape. An engine walks five loops: frames in two nested loops, lines,
pixels, elements. Readers keep lines and pixels apart from each other, writers may also store transposed; no engine
steps backwards. Rasters always use the frame loop: that is the form in which networks use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.streams import Area, Frames, Loop, contiguous, engine, in_frames, merged, shape_raster
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class StridedView:
    """Elements of one byte: `shape` of them, `strides` bytes apart, from `offset` of a buffer on."""

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def whole(buffer: str, shape: tuple[int, ...], item_bytes: int = 1) -> StridedView:
        """All of a buffer in the order of its shape; wider elements get a last dimension of bytes."""
        dims = shape if item_bytes == 1 else (*shape, item_bytes)
        strides, step = [], 1
        for size in reversed(dims):
            strides.append(step)
            step *= size
        return StridedView(buffer, dims, tuple(reversed(strides)))

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def loops(self) -> list[Loop]:
        """Outermost first."""
        return list(zip(self.shape, self.strides, strict=True))

    @property
    def area(self) -> Area:
        """A picture [h, w, c] as engines take it."""
        (height, width, channels), (line, pixel, _) = self.shape, self.strides
        return Area(height, width, channels, line, pixel, self.offset)

    def cut(self, axis: int, start: int, count: int, step: int = 1) -> StridedView:
        """`count` indices of one axis from `start` on, `step` apart (which may be negative)."""
        return self._changed(axis, ((count, self.strides[axis] * step),), start * self.strides[axis])

    def split(self, axis: int, *sizes: int) -> StridedView:
        """One axis as several, the last one the fastest."""
        parts, step = [], self.strides[axis]
        for size in reversed(sizes):
            parts.append((size, step))
            step *= size
        return self._changed(axis, tuple(reversed(parts)))

    def pick(self, axis: int, index: int) -> StridedView:
        """One index of an axis, which disappears."""
        return self._changed(axis, (), index * self.strides[axis])

    def repeat(self, axis: int, count: int) -> StridedView:
        """A new axis along which nothing changes."""
        return replace(
            self,
            shape=(*self.shape[:axis], count, *self.shape[axis:]),
            strides=(*self.strides[:axis], 0, *self.strides[axis:]),
        )

    def transpose(self, order: tuple[int, ...]) -> StridedView:
        rest = tuple(range(len(order), len(self.shape)))  # bytes of wide elements stay last
        axes = (*order, *rest)
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def _changed(self, axis: int, parts: tuple[tuple[int, int], ...], offset: int = 0) -> StridedView:
        sizes, steps = tuple(n for n, _ in parts), tuple(s for _, s in parts)
        return StridedView(
            self.buffer,
            (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *steps, *self.strides[axis + 1 :]),
            self.offset + offset,
        )


def walk(loops: Sequence[Loop], offset: int, *, write: bool, word: int = 1, raw: bool = False) -> StrengConfig | None:
    """The engine for loops (outermost first; bytes, the last one contiguous if `word` is above 1), or None.

    `raw`: only frames without gaps will do.
    """
    found = _walks(loops, offset, write, word)
    return next((raster_loop(config) for config in found if config.raw or not raw), None)


def row(count: int, first: int = 0, item_bytes: int = 1, write: bool = False) -> StrengConfig:
    """So many numbers in a row."""
    return contiguous(item_bytes * count, offset=item_bytes * first, word_bytes=item_bytes, write=write)


def other_walks(loops: Sequence[Loop], offset: int, *, write: bool, word: int = 1) -> Iterator[StrengConfig]:
    """The same walk with more or fewer of its loops as frames, and rasters of a single frame."""
    for config in _walks(loops, offset, write, word):
        yield config
        if not config.raw and raster_loop(config) != config:
            yield raster_loop(config)


def raster_loop(config: StrengConfig) -> StrengConfig:
    """Rasters run in the frame loop, which has several turns wherever it was seen."""
    if config.raw or config.frame_repeat:
        return config
    return replace(in_frames(config), frame_repeat=in_frames(config).frames)


def _walks(loops: Sequence[Loop], offset: int, write: bool, word: int) -> Iterator[StrengConfig]:
    """Yields walks, those with as few loops as possible as frames first."""
    left = merged(loops)
    run = left.pop()[0] if left and left[-1][1] == 1 else 1
    if run % word or len(left) > 4 or any(step < 0 for _, step in left):
        return
    for count in range(max(0, len(left) - 2), min(2, len(left)) + 1):
        outer, body = left[:count], left[count:]
        frames = Frames(*(number for loop in reversed(outer) for number in loop))
        if not body and len(outer) < 2:  # a raw engine with two loops was never seen
            yield engine(Area(1, 1, run, run, run, offset), frames, write=write, word_bytes=word)
            return
        raster = shape_raster(body, run // word, word, write)
        if raster is None:
            continue
        (lines, line), (pixels, pixel), depth = raster.lines, raster.pixels, raster.depth
        apart = lines == 1 or line >= pixels * pixel or (write and 0 < line < pixel)  # a writer may store transposed
        if apart and pixel >= depth * word and pixels * pixel < 1 << 32:
            area = Area(lines, pixels, depth * word, line, pixel, offset)
            right = word == 3 and not write  # 24-bit rasters are read right aligned wherever they occur
            yield engine(area, frames, write=write, word_bytes=word, depth=depth, signed=right)


@dataclass(frozen=True)
class EnginePort:
    """What an engine is for: `to POOL:0`, `from ARITH`; bytes of a word; whether gaps need evidence of their own."""

    role: str
    word: int = 1
    raw: bool = False

    @property
    def write(self) -> bool:
        return self.role.startswith("from")


def walk_as(port: EnginePort, loops: Sequence[Loop], offset: int, trust: Trust) -> StrengConfig | None:
    """The engine for loops, in whatever form may be relied on."""
    usual = walk(loops, offset, write=port.write, word=port.word, raw=port.raw)
    if usual is not None and untrusted_unit(usual, port.role, trust) is None:
        return usual
    others = other_walks(loops, offset, write=port.write, word=port.word)
    return next((config for config in others if untrusted_unit(config, port.role, trust) is None), usual)


def walk_together(ports: Sequence[EnginePort], views: Sequence[StridedView], trust: Trust) -> list[StrengConfig] | None:
    """Engines that walk pictures [h, w, c] in one order: that of their memory, or where that may not be relied on some
    channels of all pixels after the others, which is how published programs store parts of a picture."""
    usual: list[StrengConfig] | None = None
    channels = views[0].shape[2]
    for parts in (n for n in range(1, channels + 1) if n == 1 or channels % n == 0):
        if parts > 1:
            ordered = [view.split(2, parts, channels // parts).transpose((2, 0, 1, 3)) for view in views]
        else:
            ordered = list(views)
        walks = [walk_as(port, view.loops, view.offset, trust) for port, view in zip(ports, ordered, strict=True)]
        found = [one for one in walks if one is not None]
        if len(found) < len(ports):
            continue
        if all_trusted(ports, found, trust):
            return found
        usual = usual or found
    return usual


def all_trusted(ports: Sequence[EnginePort], engines: Sequence[StrengConfig], trust: Trust) -> bool:
    return not any(untrusted_unit(one, port.role, trust) for one, port in zip(engines, ports, strict=True))
