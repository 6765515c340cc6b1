"""What flows through tasks: in which order bytes come, and of which bytes each result is made.

A recipe says what its group of tasks does (`TaskGroup.flow`); who wants to put that behind other tasks asks, and looks
at no register. A flow speaks for all tasks of the group: each does the same to a share, together they make all of one
buffer. It has no names of buffers, units or engines, since tasks have those. A pass that changes what the tasks of a
group do takes their flow away.
"""

from __future__ import annotations

from atonc.compiler.plan.streams import Area, Loop
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class LineFrames:
    """Frames of some lines of a picture, each with `depth` channels."""

    first: int  # line
    lines: int
    channel: int  # of the first frame
    depth: int
    frames: int
    step: int  # channels from frame to frame


@dataclass(frozen=True)
class Scan:
    """Bytes of a buffer in the order in which an engine takes them."""

    first: int
    loops: tuple[Loop, ...]  # outermost first, as few as possible
    elements: int
    element_bytes: int

    @property
    def end(self) -> int:
        """Behind the last byte."""
        return self.first + sum((count - 1) * step for count, step in self.loops) + self.element_bytes

    @property
    def in_a_row(self) -> bool:
        """Whether it is all bytes from the first to the last, in their order."""
        return self.elements == 1 or self.loops == ((self.elements, self.element_bytes),)

    def line_frames(self, picture: Area) -> LineFrames | None:
        """The lines that come of a picture whose pixels have no gaps: whole ones of some channels, frame by frame;
        None if the bytes come in another order."""
        loops = list(self.loops)
        run = loops.pop()[0] if loops and loops[-1][1] == 1 else 1
        depth = min(run, picture.pixel)
        pixels = run // depth
        if depth < picture.pixel and loops and loops[-1][1] == picture.pixel:
            pixels, _ = loops.pop()
        frames, step = loops.pop() if loops else (1, depth)
        lines, left = divmod(pixels * picture.pixel, picture.line)
        first, channel = divmod(self.first, picture.line)
        whole = self.element_bytes == 1 and self.elements == frames * pixels * depth and not left  # nothing else comes
        inside = step > 0 and channel + (frames - 1) * step + depth <= picture.pixel
        return LineFrames(first, lines, channel, depth, frames, step) if whole and inside else None


@dataclass(frozen=True)
class EachElement:
    """Each byte is made of those at the same place of the operands: cut and ordered as anybody likes."""


@dataclass(frozen=True)
class EachPiece:
    """Parts of a join: tasks without units copy bytes in a row of one buffer to their places in a larger one."""


@dataclass(frozen=True)
class EachChannel:
    """Each byte is made of all pixels of its channel, by the first unit of a task: they have to come in one frame."""

    picture: Area
    frame: tuple[int, int]  # height and width that the unit would rather be told

    def takes(self, found: LineFrames) -> bool:
        """Whether all of the picture comes, and channels without gaps."""
        return found.lines == self.picture.height and found.step == found.depth


@dataclass(frozen=True)
class EachWindow:
    """Each byte is made of a square window of its channel, by the first unit of a task: lines come whole, and may be
    cut where no window is."""

    picture: Area  # as far as windows see it
    result: Area
    window: int
    stride: int

    def takes(self, found: LineFrames) -> bool:
        """Whether its windows lie in these lines, and no line or pixel is left over."""
        if self.picture.line != self.picture.width * self.picture.pixel:
            return False
        apart = self.window == self.stride and not (found.first % self.stride or found.lines % self.stride)
        all_of_it = (found.first, found.lines) == (0, self.picture.height)
        return all_of_it or (apart and found.first + found.lines <= self.picture.height)

    def result_of(self, found: LineFrames) -> Area:
        """What becomes of the first frame."""
        area = self.result.rows(found.first // self.stride, (found.lines - self.window) // self.stride + 1)
        return area.channels_from(found.channel, found.depth)


@dataclass(frozen=True)
class Unfollowing:
    """Results that are never made on the way behind other tasks."""

    why: str


TaskFlow = EachElement | EachPiece | EachChannel | EachWindow | Unfollowing
EACH_ELEMENT, EACH_PIECE = EachElement(), EachPiece()
