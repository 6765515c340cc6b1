"""Moving values: copies, copies with requantisation, fills, borders, and the identity CONVACC that pads on the way to
POOL. Several at a time, in words of up to three bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from math import ceil, gcd, lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import Affine, affine_unit, fit_affine
from atonc.compiler.lower.units.views import StridedView, other_walks, walk
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.ops.values import to_codes
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.policy import MOST_MOVES, WORTH_SPLITTING
from atonc.compiler.plan.streams import Area, Frames, engine
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import MOVE_SCATTERED
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, MOST_RASTER_FRAMES
from atonc.machine.hw.machine import Timing
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig, crop_end
from atonc.machine.hw.units.stream_engine import LARGEST_RASTER, StrengConfig

Units = tuple[ArithConfig, ...]
Nest = list[tuple[int, int, int]]  # turns, bytes in the source, bytes in the target; outermost first

_MOST_LOOPS = 6
MOST_DEPTH = LARGEST_RASTER[2]
_STEPS = {3: 16, 2: 8}  # bytes in a word -> what steps between lines, pixels and frames of words are multiples of
_MUCH_FASTER = 0.8  # of the cycles of another order: figures of scattered bytes are good to a tenth
_PARTS = {1: 4, 2: 3, 3: 2}  # parallel chains that the memory can feed, by word size


class WalkJudge(NamedTuple):
    """What walks are judged by."""

    target: Target
    reads: bool = True  # else another engine will feed the writer


def constant_line(code: int) -> Affine:
    """Gives the code whatever comes in."""
    return Affine(np.zeros(1, np.int64), np.array([code << 14]), 14)


SAME: Units = (affine_unit(Affine(np.array([1 << 14]), np.zeros(1, np.int64), 14), 0),)


def requantising_line(source: Tensor, target: Tensor) -> Affine:
    """Makes the line from codes of one quantisation to codes of another, rounded once."""
    ratio = source.scale / target.scale
    steps = (np.arange(-128.0, 128.0) - source.zero_point) * np.float64(ratio)
    codes = to_codes(steps, target).astype(np.int64)
    return fit_affine(codes[:, None], np.array([ratio]), np.array([target.zero_point - source.zero_point * ratio]))


@dataclass(frozen=True)
class Move:
    """Two views of equal shape; `units` are the ARITHs that the codes pass."""

    source: StridedView
    target: StridedView
    units: Units = ()


def copy(context: Context, moves: Iterable[Move], origin: tuple[str, ...], title: str) -> list[TaskGroup]:
    """Epochs for moves that do not depend on each other. Where no engine takes scattered codes from an ARITH, they are
    changed first and scattered by copies; where none takes them from a reader, an ARITH hands them on."""
    moves, done = list(moves), partial(_packed, context, origin, title)
    try:
        return done(moves)
    except Refusal:
        if not any(move.units for move in moves):
            return done([replace(move, units=SAME) for move in moves])
    changed = [_changed_first(context, move) if move.units else (None, move) for move in moves]
    return [*done([move for move, _ in changed if move is not None]), *done([move for _, move in changed])]


def _packed(context: Context, origin: tuple[str, ...], title: str, moves: Iterable[Move]) -> list[TaskGroup]:
    walks = walked(context, moves)
    ends = {(one.source.buffer, one.target.buffer, one.units) for one in walks}
    sizes = [context.buffers[target].size_bytes for _, target, _ in ends]
    all_of_one = sizes == [sum(one.cost for one in walks)]
    whole = all_of_one and all(one.keeps_places for one in walks)
    return pack([one.wiring() for one in walks], origin, title, flow=EACH_ELEMENT if whole else None)


def _changed_first(context: Context, move: Move) -> tuple[Move, Move]:
    """Codes through their units into scratch memory without gaps, and from there to where they belong."""
    shape = move.target.shape
    scratch = StridedView.whole(context.scratch(move.target.elements, "codes to scatter"), shape)
    return Move(move.source, scratch, move.units), Move(scratch, move.target)


def wirings(context: Context, moves: Iterable[Move]) -> list[Wiring]:
    return [one.wiring() for one in walked(context, moves)]


def walked(context: Context, moves: Iterable[Move]) -> list[CopyWalk]:
    """Long moves are cut so that the engines share the work."""
    judge = WalkJudge(context.facts.target)
    walks = [found for move in moves for found in _walks(move.source, move.target, nest_of(move), move.units, judge)]
    if len(walks) > MOST_MOVES:
        raise Refusal(
            MOVE_SCATTERED,
            f"{len(walks)} separate pieces",
            f"{MOST_MOVES}",
            "arrange the data so that it moves in larger blocks",
        )
    return [part for found in _share(walks, context) for part in found]


@dataclass(frozen=True)
class CopyWalk:
    """A move as one pair of engines."""

    source: StridedView
    target: StridedView
    nest: Nest
    units: Units
    word: int
    reader: StrengConfig
    writer: StrengConfig

    @property
    def cost(self) -> int:
        return self.reader.elements

    @property
    def keeps_places(self) -> bool:
        """Whether bytes in a row go to the same places."""
        in_a_row = all(loop[1:] == (1, 1) for loop in self.nest)
        return in_a_row and self.word == 1 and self.source.offset == self.target.offset

    def cycles(self, judge: WalkJudge) -> float:
        return _least_cycles(self.reader, self.writer, _PARTS[self.word], judge.target.machine.timing)

    def trusted(self, judge: WalkJudge) -> bool:
        """Whether its engines may be relied on; chains are judged where they are whole."""
        if _too_long(self):
            return True  # it will be cut
        other, trust = "ARITH" if self.units else "STRENG", judge.target.trust
        if untrusted_unit(self.writer, f"from {other}", trust):
            return False
        return not (judge.reads and untrusted_unit(self.reader, f"to {other}:0", trust))

    def wiring(self) -> Wiring:
        return Wiring(self._build, self.cost)

    def _build(self, builder: TaskBuilder) -> None:
        stream = builder.read(self.source.buffer, self.reader)
        for unit in self.units:
            stream = builder.unit(unit, stream)
        builder.write(stream, self.target.buffer, self.writer)

    def cut(self, parts: int, context: Context) -> list[CopyWalk]:
        """The same move as several, if a loop can be cut; else itself."""
        axis = max(range(len(self.nest)), key=lambda i: (self.nest[i][1:] != (1, 1), self.nest[i][0]))
        count, near, far = self.nest[axis]
        unit = 48 if (near, far) == (1, 1) else lcm(*(ALIGNED // gcd(ALIGNED, step) for step in (near, far)))
        if unit * parts > count:  # no parts that start at places which any memory and any word takes
            unit = 1 if self.cost < context.room.copy_bytes and self.word == 1 else count
        size = ceil(ceil(count / parts) / unit) * unit
        found: list[CopyWalk] = []
        for start in range(0, count, size):
            inner = [*self.nest]
            inner[axis] = (min(size, count - start), near, far)
            source = replace(self.source, offset=self.source.offset + start * near)
            target = replace(self.target, offset=self.target.offset + start * far)
            found += _walks(source, target, inner, self.units, WalkJudge(context.facts.target))
        return found


def _share(walks: Sequence[CopyWalk], context: Context) -> Iterator[list[CopyWalk]]:
    """Cuts the longest moves as long as there are chains left in the epoch."""
    parts = [1] * len(walks)
    free = (4 if any(w.units for w in walks) else 5) - len(walks)
    for _ in range(free):
        longest = max(range(len(walks)), key=lambda i: walks[i].cost / parts[i])
        best = walks[longest]
        if best.cost / parts[longest] < WORTH_SPLITTING or parts[longest] >= _PARTS[best.word]:
            break
        parts[longest] += 1
    for found, count in zip(walks, parts, strict=True):
        pieces = found.cut(count, context) if count > 1 else [found]
        yield found.cut(2 * count, context) if any(map(_too_long, pieces)) else pieces


def _too_long(walk: CopyWalk) -> bool:
    """More frames than the raster of any engine was seen to have; the rest takes another epoch."""
    return any(not engine.raw and engine.frames > MOST_RASTER_FRAMES for engine in (walk.reader, walk.writer))


def nest_of(move: Move) -> Nest:
    return normal(list(zip(move.source.shape, move.source.strides, move.target.strides, strict=True)))


def normal(nest: Nest) -> Nest:
    """Without loops of one turn, the target outermost first, neighbours merged."""
    left = sorted((loop for loop in nest if loop[0] > 1), key=lambda loop: (-abs(loop[2]), -abs(loop[1])))
    merged: Nest = []
    for count, near, far in left:
        if merged and merged[-1][1:] == (count * near, count * far):
            merged[-1] = (merged[-1][0] * count, near, far)
        else:
            merged.append((count, near, far))
    return merged


def _walks(source: StridedView, target: StridedView, nest: Nest, units: Units, judge: WalkJudge) -> list[CopyWalk]:
    """One pair of engines if possible, else one for every turn of a loop."""
    backwards = [i for i, loop in enumerate(nest) if loop[1] < 0 or loop[2] < 0]
    if not backwards and len(nest) <= _MOST_LOOPS:
        found = next(_whole(source, target, nest, units, judge), None)
        if found:
            return [found]
    axis = backwards[0] if backwards else min(range(len(nest)), key=lambda i: nest[i][0])
    count, near, far = nest[axis]
    if count > MOST_MOVES:
        raise Refusal(
            MOVE_SCATTERED,
            f"{count} separate pieces",
            f"{MOST_MOVES}",
            "arrange the data so that it moves in larger blocks",
        )
    rest = [*nest[:axis], *nest[axis + 1 :]]
    turns = [
        (replace(source, offset=source.offset + k * near), replace(target, offset=target.offset + k * far))
        for k in range(count)
    ]
    return [found for a, b in turns for found in _walks(a, b, rest, units, judge)]


def _whole(source: StridedView, target: StridedView, nest: Nest, units: Units, judge: WalkJudge) -> Iterator[CopyWalk]:
    """One pair of engines. Heads of detectors write few channels of every pixel, and always from an ARITH: where
    engines may not do that on their own, one that changes nothing stands between them."""
    ways = [(units, word) for word in _words(source.offset, target.offset, nest, units)]
    for between, word in (*ways, *(() if units else ((SAME, 1),))):
        found = _fit(source, target, nest, between, word, judge)
        if found:
            yield found


def _words(near: int, far: int, nest: Nest, units: Units) -> Iterator[int]:
    """Word sizes that fit, the largest first. Copies in words were seen at aligned places only."""
    if not units and nest and nest[-1][1:] == (1, 1) and near % ALIGNED == 0 == far % ALIGNED:
        steps = [step for loop in nest[:-1] for step in loop[1:]]
        for word, apart in _STEPS.items():
            if nest[-1][0] % word == 0 and all(step % apart == 0 for step in steps):
                yield word
    yield 1


def _fit(
    source: StridedView, target: StridedView, nest: Nest, units: Units, word: int, judge: WalkJudge
) -> CopyWalk | None:
    """An order of the loops that both engines can walk: that of the target, unless another one is much faster. Other
    forms of engines where none may be relied on, or none that is about as fast as one that may not be."""
    usual = list(_walked(source, target, nest, units, word))
    found = _best(usual, judge)
    if found and found.cycles(judge) * _MUCH_FASTER <= min(one.cycles(judge) for one in usual):
        return found
    return _best((*([found] if found else []), *_walked_otherwise(source, target, nest, units, word)), judge)


def _best(walks: Iterable[CopyWalk], judge: WalkJudge) -> CopyWalk | None:
    """Finds the fastest walk of those that may be relied on."""
    best, least = None, 0.0
    for one in walks:
        cycles = one.cycles(judge)
        if (best is None or cycles < _MUCH_FASTER * least) and one.trusted(judge):
            best, least = one, cycles
    return best


def _walked(source: StridedView, target: StridedView, nest: Nest, units: Units, word: int) -> Iterator[CopyWalk]:
    for loops in _orders(nest):
        reader = walk([(n, near) for n, near, _ in loops], source.offset, write=False, word=word)
        writer = walk([(n, far) for n, _, far in loops], target.offset, write=True, word=word)
        if reader and writer:
            yield CopyWalk(source, target, loops, units, word, reader, writer)


def _walked_otherwise(
    source: StridedView, target: StridedView, nest: Nest, units: Units, word: int
) -> Iterator[CopyWalk]:
    """In all forms of engines, and pixels also in two or more parts, one frame for each."""
    for loops in (*_orders(nest), *_orders_in_parts(nest, word)):
        readers = other_walks([(n, near) for n, near, _ in loops], source.offset, write=False, word=word)
        writers = list(other_walks([(n, far) for n, _, far in loops], target.offset, write=True, word=word))
        for reader, writer in product(readers, writers):
            yield CopyWalk(source, target, loops, units, word, reader, writer)


def _orders(nest: Nest) -> Iterator[Nest]:
    fixed = nest[-1:] if nest and nest[-1][1:] == (1, 1) else []
    for order in permutations(nest[: len(nest) - len(fixed)]):
        yield [*order, *fixed]


def _orders_in_parts(nest: Nest, word: int) -> Iterator[Nest]:
    """Runs of bytes as published programs move them: some channels of all pixels, then the next ones."""
    run = nest[-1][0] if nest and nest[-1][1:] == (1, 1) else 1
    parts = next((n for n in range(2, run + 1) if run % (n * word) == 0 and run // n // word <= MOST_DEPTH), 0)
    if parts and len(nest) < _MOST_LOOPS:
        size = run // parts
        for order in _orders([*nest[:-1], (size, 1, 1)]):
            yield [(parts, size, size), *order]


def _least_cycles(reader: StrengConfig, writer: StrengConfig, parts: int, timing: Timing) -> float:
    """With several chains on one bank: short frames that lie apart take a turn each, scattered bytes a beat each."""
    frame = reader.frame_elements
    turn = timing.frame_turn + min(timing.frame_turn_words, frame)
    stream = reader.frames * max(frame, turn) if traffic.jumps(reader) else reader.elements
    single = traffic.run_bytes(reader) <= BUS_BYTES
    reads = traffic.beats(reader) * (timing.single_read_beat if single else timing.read_beat)
    return max(stream / parts, reads, traffic.beats(writer) * timing.write_beat)


def fill(context: Context, target: StridedView, code: int, source: str, source_bytes: int) -> list[Wiring]:
    """Sets all codes of a view: an ARITH that multiplies whatever it reads from `source` by zero."""
    writer_nest = [(n, far, far) for n, _, far in nest_of(Move(target, target))]
    found = _walks(target, target, writer_nest, SAME, WalkJudge(context.facts.target, reads=False))
    return [_fill_chain(part, code, source, source_bytes) for part in found]


def _fill_chain(part: CopyWalk, code: int, source: str, source_bytes: int) -> Wiring:
    reader = _any_bytes(part.writer.elements, source_bytes)
    config = affine_unit(constant_line(code), 0)

    def build(builder: TaskBuilder) -> None:
        stream = builder.unit(config, builder.read(source, reader))
        builder.write(stream, part.target.buffer, part.writer)

    return Wiring(build, part.cost)


def _any_bytes(count: int, available: int) -> StrengConfig:
    """So many bytes from a buffer that may hold fewer: the same frame again and again."""
    size = next(n for n in range(min(count, available), 0, -1) if count % n == 0)
    return engine(Area(1, 1, size, size, size), Frames(count // size, 0))


def constant_move(context: Context, values: NDArray[np.int8], target: StridedView, label: str) -> list[Wiring]:
    """Stores constant codes of the target's shape; flash is read in a row, through an ARITH that changes nothing."""
    found = _walks(target, target, nest_of(Move(target, target)), SAME, WalkJudge(context.facts.target, reads=False))
    offsets = np.zeros(target.shape, np.int64)
    for axis, (size, step) in enumerate(zip(target.shape, target.strides, strict=True)):
        offsets += (np.arange(size) * step).reshape([-1 if i == axis else 1 for i in range(offsets.ndim)])
    by_place = dict(zip((offsets + target.offset).reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True))
    return [_constant_chain(context, part, by_place, label) for part in found]


def _constant_chain(context: Context, part: CopyWalk, by_place: dict[int, int], label: str) -> Wiring:
    places = np.zeros(1, np.int64) + part.target.offset
    for count, _, far in part.nest:
        places = (places[:, None] + np.arange(count) * far).reshape(-1)
    data = np.array([by_place[place] for place in places.tolist()], np.int8).tobytes()
    name = context.constant(data, label)
    reader = engine(Area(1, 1, len(data), len(data), len(data)))

    return Wiring(partial(_build_constant, name, reader, part), part.cost)


def _build_constant(name: str, reader: StrengConfig, part: CopyWalk, builder: TaskBuilder) -> None:
    stream = builder.unit(SAME[0], builder.read(name, reader))
    builder.write(stream, part.target.buffer, part.writer)


Pads = tuple[tuple[int, int], ...]  # before and after, by axis


def pad_view(context: Context, parts: Iterable[StridedView], code: int, source: str, source_bytes: int) -> list[Wiring]:
    """Fills views with one code; `source` is any buffer with something to read."""
    return [wiring for part in parts for wiring in fill(context, part, code, source, source_bytes)]


def borders(target: StridedView, pads: Pads) -> Iterator[StridedView]:
    """What surrounds the inside of a padded view. Rows end where the next begin, so that few pieces remain."""
    rest = target
    for axis, (before, after) in enumerate(pads):
        size = rest.shape[axis]
        if before:
            yield rest.cut(axis, 0, before)
        if after:
            yield rest.cut(axis, size - after, after)
        rest = rest.cut(axis, before, size - before - after)


def inside(target: StridedView, pads: Pads) -> StridedView:
    for axis, (before, after) in enumerate(pads):
        target = target.cut(axis, before, target.shape[axis] - before - after)
    return target


def identity_pad(
    height: int, width: int, batch: int, pads: tuple[int, int, int, int], code: int
) -> tuple[ConvaccConfig, bytes]:
    """A 1x1 CONVACC with weight 1 that puts a frame of `code` around every picture, and its kernels.

    `pads`: top, left, bottom, right.
    """
    top, left, bottom, right = pads
    config = ConvaccConfig(
        no_sum=1,
        no_first_sum=1,
        simd=1,
        kernel_width=1,
        kernel_height=1,
        batch=batch,
        kernels=batch,
        stride_x=1,
        stride_y=1,
        in_shift=0,
        out_shift=0,
        round_mode=1,
        rounded=1,
        saturated=1,
        out_bytes=1,
        feature_bytes=1,
        line_elements=width * batch,
        height=height,
        crop_right=crop_end(width, batch),
        crop_bottom=crop_end(height),
        frame_left=left * batch,
        frame_right=right * batch,
        frame_top=top,
        frame_bottom=bottom,
        frame_value=code,
    )
    return config, bytes(int(i == j) for i in range(batch) for j in range(batch))
