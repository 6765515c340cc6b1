"""Moving values: copies, copies with requantisation, fills, borders, and the identity CONVACC that pads on the way to
POOL. Several at a time, in words of up to three bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import permutations, product
from math import ceil, gcd, lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import Affine, affine_unit, fit_affine
from atonc.compiler.lower.units.views import StridedView, other_walks, walk
from atonc.compiler.lower.units.wiring import End, Wiring, in_pieces, pack
from atonc.compiler.ops.values import to_codes
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.flow import EACH_ELEMENT, EACH_PIECE
from atonc.compiler.plan.policy import MOST_MOVES, WORTH_SPLITTING
from atonc.compiler.plan.streams import Area, Frames, Loop, contiguous, engine, merged
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import MOVE_SCATTERED
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, MOST_RASTER_FRAMES
from atonc.machine.hw.machine import Timing
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig, crop_end
from atonc.machine.hw.units.stream_engine import LARGEST_RASTER, StrengConfig

Units = tuple[ArithConfig, ...]
Pads = tuple[tuple[int, int], ...]  # before and after, by axis
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


SAME: Units = (affine_unit(Affine.single(1 << 14, 0, 14), 0),)


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


def copy(
    context: Context, moves: Iterable[Move], origin: tuple[str, ...], title: str, joins: bool = False
) -> list[TaskGroup]:
    """Epochs for moves that do not depend on each other. Where no engine takes scattered codes from an ARITH, they are
    changed first and scattered by copies; where none takes them from a reader, an ARITH hands them on."""
    moves, done = list(moves), partial(_packed, context, origin, title, joins)
    try:
        return done(moves)
    except Refusal:
        if not any(move.units for move in moves):
            return done([replace(move, units=SAME) for move in moves])
    first, last = list[Move](), list[Move]()
    for move in moves:
        if move.units:  # codes through their units into scratch memory without gaps, from there to where they belong
            scratch = context.scratch(move.target.elements, "codes to scatter")
            between = StridedView.whole(scratch, move.target.shape)
            first.append(replace(move, target=between))
            move = Move(between, move.target)
        last.append(move)
    return [*done(first), *done(last)]


def _packed(
    context: Context, origin: tuple[str, ...], title: str, joins: bool, moves: Iterable[Move]
) -> list[TaskGroup]:
    walks = walked(context, moves)
    ends = {(one.move.source, one.move.target, one.move.units) for one in walks}
    sizes = [context.buffers[target].size_bytes for _, target, _ in ends]
    all_of_one = sizes == [sum(one.cost for one in walks)]
    whole = all_of_one and all(one.keeps_places for one in walks)
    pieces = not whole and any(one.from_a_row if joins else one.in_a_row for one in walks)
    flow = EACH_ELEMENT if whole else EACH_PIECE if pieces else None
    return pack([one.wiring() for one in walks], origin, title, flow=flow)


def wirings(context: Context, moves: Iterable[Move]) -> list[Wiring]:
    return [one.wiring() for one in walked(context, moves)]


def walked(context: Context, moves: Iterable[Move]) -> list[CopyWalk]:
    """Long moves are cut so that the engines share the work."""
    judge = WalkJudge(context.facts.target)
    walks = [found for move in moves for found in NestedMove.of(move).walks(judge)]
    _require_few(len(walks))
    return [part for found in _share(walks, context) for part in found]


def _require_few(pieces: int) -> None:
    if pieces > MOST_MOVES:
        remedy = "arrange the data so that it moves in larger blocks"
        raise Refusal(MOVE_SCATTERED, f"{pieces} separate pieces", f"{MOST_MOVES}", remedy)


@dataclass(frozen=True)
class NestedMove:
    """Bytes from one buffer to another in nested loops."""

    source: str
    target: str
    near: int  # first bytes in both
    far: int
    nest: Nest
    units: Units

    @staticmethod
    def of(move: Move) -> NestedMove:
        """Without loops of one turn, the target outermost first, neighbours merged."""
        source, target = move.source, move.target
        nest = zip(source.shape, source.strides, target.strides, strict=True)
        left = sorted((loop for loop in nest if loop[0] > 1), key=lambda loop: (-abs(loop[2]), -abs(loop[1])))
        merged: Nest = []
        for count, near, far in left:
            if merged and merged[-1][1:] == (count * near, count * far):
                merged[-1] = (merged[-1][0] * count, near, far)
            else:
                merged.append((count, near, far))
        return NestedMove(source.buffer, target.buffer, source.offset, target.offset, merged, move.units)

    def turns(self, axis: int, first: int, count: int = 0) -> NestedMove:
        """So many turns of one loop; 0: the first alone, without the loop."""
        _, near, far = self.nest[axis]
        loop = [(count, near, far)] if count else []
        nest = [*self.nest[:axis], *loop, *self.nest[axis + 1 :]]
        return replace(self, near=self.near + first * near, far=self.far + first * far, nest=nest)

    @property
    def run(self) -> int:
        """Bytes in a row at both ends."""
        return self.nest[-1][0] if self.nest and self.nest[-1][1:] == (1, 1) else 1

    def walks(self, judge: WalkJudge) -> list[CopyWalk]:
        """One pair of engines if possible, else one for every turn of a loop. Heads of detectors write few channels of
        every pixel, and always from an ARITH: where engines may not do that on their own, one that changes nothing
        stands between them."""
        backwards = [i for i, loop in enumerate(self.nest) if loop[1] < 0 or loop[2] < 0]
        if not backwards and len(self.nest) <= _MOST_LOOPS:
            ways = [(self, word) for word in self._words()]
            for move, word in (*ways, *(() if self.units else ((replace(self, units=SAME), 1),))):
                found = move._fit(word, judge)
                if found:
                    return self._in_runs(found, judge) or [found]
        axis = backwards[0] if backwards else min(range(len(self.nest)), key=lambda i: self.nest[i][0])
        _require_few(self.nest[axis][0])
        return [found for k in range(self.nest[axis][0]) for found in self.turns(axis, k).walks(judge)]

    def _in_runs(self, found: CopyWalk, judge: WalkJudge) -> list[CopyWalk]:
        """A few long runs, such as the heads of a cache, with engines for each, where those take larger words."""
        few = not self.units and len(self.nest) == 2 and self.nest[0][0] <= _PARTS[1]
        if not few or self.run < WORTH_SPLITTING or found.word == max(_STEPS):
            return []
        walks = [one for k in range(self.nest[0][0]) for one in self.turns(0, k).walks(judge)]
        return walks if sum(one.cycles(judge) for one in walks) < _MUCH_FASTER * found.cycles(judge) else []

    def _words(self) -> Iterator[int]:
        """Word sizes that fit, the largest first. Copies in words were seen at aligned places only."""
        in_a_row = self.nest and self.nest[-1][1:] == (1, 1)
        if not self.units and in_a_row and self.near % ALIGNED == 0 == self.far % ALIGNED:
            steps = [step for loop in self.nest[:-1] for step in loop[1:]]
            for word, apart in _STEPS.items():
                if self.run % word == 0 and all(step % apart == 0 for step in steps):
                    yield word
        yield 1

    def _fit(self, word: int, judge: WalkJudge) -> CopyWalk | None:
        """An order of the loops that both engines can walk: that of the target, unless another one is much faster.
        Other forms of engines where none may be relied on, or none that is about as fast as one that may not be."""
        usual = list(self._walked(word))
        found = _best(usual, judge)
        if found and found.cycles(judge) * _MUCH_FASTER <= min(one.cycles(judge) for one in usual):
            return found
        return _best((*([found] if found else []), *self._walked_otherwise(word)), judge)

    def _walked(self, word: int) -> Iterator[CopyWalk]:
        for loops in _orders(self.nest):
            reader = walk([(n, near) for n, near, _ in loops], self.near, write=False, word=word)
            writer = walk([(n, far) for n, _, far in loops], self.far, write=True, word=word)
            if reader and writer:
                yield CopyWalk(replace(self, nest=loops), word, reader, writer)

    def _walked_otherwise(self, word: int) -> Iterator[CopyWalk]:
        """In all forms of engines, and pixels also in two or more parts, one frame for each: runs of bytes as published
        programs move them, some channels of all pixels, then the next ones."""
        parts = (n for n in range(2, self.run + 1) if self.run % (n * word) == 0)
        size = next((self.run // n for n in parts if self.run // n // word <= MOST_DEPTH), 0)
        orders = list(_orders(self.nest))
        if size and len(self.nest) < _MOST_LOOPS:
            orders += [[(self.run // size, size, size), *o] for o in _orders([*self.nest[:-1], (size, 1, 1)])]
        for loops in orders:
            readers = other_walks([(n, near) for n, near, _ in loops], self.near, write=False, word=word)
            writers = list(other_walks([(n, far) for n, _, far in loops], self.far, write=True, word=word))
            for reader, writer in product(readers, writers):
                yield CopyWalk(replace(self, nest=loops), word, reader, writer)


def _orders(nest: Nest) -> Iterator[Nest]:
    fixed = nest[-1:] if nest and nest[-1][1:] == (1, 1) else []
    for order in permutations(nest[: len(nest) - len(fixed)]):
        yield [*order, *fixed]


@dataclass(frozen=True)
class CopyWalk:
    """A move as one pair of engines."""

    move: NestedMove
    word: int
    reader: StrengConfig
    writer: StrengConfig

    @property
    def cost(self) -> int:
        return self.reader.elements

    @property
    def in_a_row(self) -> bool:
        """Whether bytes in a row stay in a row, and nothing changes them."""
        return all(loop[1:] == (1, 1) for loop in self.move.nest) and not self.move.units

    @property
    def from_a_row(self) -> bool:
        """Whether it takes bytes in a row, and nothing changes them."""
        return not self.move.units and len(merged((count, near) for count, near, _ in self.move.nest)) == 1

    @property
    def keeps_places(self) -> bool:
        """Whether bytes in a row go to the same places."""
        in_a_row = all(loop[1:] == (1, 1) for loop in self.move.nest)
        return in_a_row and self.word == 1 and self.move.near == self.move.far

    @property
    def too_long(self) -> bool:
        """More frames than the raster of any engine was seen to have; the rest takes another epoch."""
        return any(not engine.raw and engine.frames > MOST_RASTER_FRAMES for engine in (self.reader, self.writer))

    def cycles(self, judge: WalkJudge) -> float:
        _, count, unit = self._cut
        parts = min(_PARTS[self.word], count if self.word == 1 else count // unit)
        return _least_cycles(self.reader, self.writer, max(1, parts), judge.target.machine.timing)

    @property
    def _cut(self) -> tuple[int, int, int]:
        """The loop that is cut, its turns, and of how many parts are made up that any memory and any word takes."""
        nest = self.move.nest or [(1, 1, 1)]
        axis = max(range(len(nest)), key=lambda i: (nest[i][1:] != (1, 1), nest[i][0]))
        count, near, far = nest[axis]
        steps = (ALIGNED // gcd(ALIGNED, step) for step in (near, far))
        return axis, count, 48 if (near, far) == (1, 1) else lcm(*steps)

    def trusted(self, judge: WalkJudge) -> bool:
        """Whether its engines may be relied on; chains are judged where they are whole."""
        if self.too_long:
            return True  # it will be cut
        other, trust = "ARITH" if self.move.units else "STRENG", judge.target.trust
        if untrusted_unit(self.writer, f"from {other}", trust):
            return False
        return not (judge.reads and untrusted_unit(self.reader, f"to {other}:0", trust))

    def wiring(self, near: End | None = None, units: Units | None = None) -> Wiring:
        """From another reader, and through other units, if they are given."""
        near = near or End(self.move.source, self.reader)
        return Wiring.chain([near], self.move.units if units is None else units, self.far, self.cost)

    @property
    def far(self) -> End:
        return End(self.move.target, self.writer)

    def cut(self, parts: int, context: Context) -> list[CopyWalk]:
        """The same move as several, if a loop can be cut; else itself."""
        axis, count, unit = self._cut
        if unit * parts > count:
            unit = 1 if self.cost < context.room.copy_bytes and self.word == 1 else count
        cuts, judge = in_pieces(count, ceil(count / parts), unit), WalkJudge(context.facts.target)
        return [found for start, some in cuts for found in self.move.turns(axis, start, some).walks(judge)]


def _share(walks: Sequence[CopyWalk], context: Context) -> Iterator[list[CopyWalk]]:
    """Cuts the longest moves as long as there are chains left in the epoch."""
    parts = [1] * len(walks)
    free = (4 if any(w.move.units for w in walks) else 5) - len(walks)
    for _ in range(free):
        longest = max(range(len(walks)), key=lambda i: walks[i].cost / parts[i])
        best = walks[longest]
        if best.cost / parts[longest] < WORTH_SPLITTING or parts[longest] >= _PARTS[best.word]:
            break
        parts[longest] += 1
    for found, count in zip(walks, parts, strict=True):
        pieces = found.cut(count, context) if count > 1 else [found]
        yield found.cut(2 * count, context) if any(piece.too_long for piece in pieces) else pieces


def _best(walks: Iterable[CopyWalk], judge: WalkJudge) -> CopyWalk | None:
    """Finds the fastest walk of those that may be relied on."""
    best, least = None, 0.0
    for one in walks:
        cycles = one.cycles(judge)
        if (best is None or cycles < _MUCH_FASTER * least) and one.trusted(judge):
            best, least = one, cycles
    return best


def _least_cycles(reader: StrengConfig, writer: StrengConfig, parts: int, timing: Timing) -> float:
    """With several chains on one bank: short frames that lie apart take a turn each, scattered bytes a beat each."""
    frame = reader.frame_elements
    turn = timing.frame_turn + min(timing.frame_turn_words, frame)
    stream = reader.frames * max(frame, turn) if traffic.jumps(reader) else reader.elements
    single = traffic.run_bytes(reader) <= BUS_BYTES
    reads = traffic.beats(reader) * (timing.single_read_beat if single else timing.read_beat)
    return max(stream / parts, reads, traffic.beats(writer) * timing.write_beat)


def _written(context: Context, target: StridedView) -> list[CopyWalk]:
    """How engines write a view, whatever feeds them through an ARITH."""
    return NestedMove.of(Move(target, target, SAME)).walks(WalkJudge(context.facts.target, reads=False))


def fill(context: Context, target: StridedView, code: int, source: str, source_bytes: int) -> list[Wiring]:
    """Sets all codes of a view: an ARITH that multiplies whatever it reads from `source` by zero."""
    units, found = (affine_unit(Affine.single(0, code << 14, 14), 0),), []
    for part in _written(context, target):
        count = part.writer.elements  # the source may hold fewer: then the same frame again and again
        size = next(n for n in range(min(count, source_bytes), 0, -1) if count % n == 0)
        reader = engine(Area(1, 1, size, size, size), Frames(count // size, 0))
        found.append(part.wiring(End(source, reader), units))
    return found


def constant_move(context: Context, values: NDArray[np.int8], target: StridedView, label: str) -> list[Wiring]:
    """Stores constant codes of the target's shape; flash is read in a row, through an ARITH that changes nothing."""
    offsets = _places(target.offset, target.loops)
    by_place = dict(zip(offsets.tolist(), values.reshape(-1).tolist(), strict=True))
    found = []
    for part in _written(context, target):
        places = _places(part.move.far, [(count, far) for count, _, far in part.move.nest])
        data = np.array([by_place[place] for place in places.tolist()], np.int8).tobytes()
        found.append(part.wiring(End(context.constant(data, label), contiguous(len(data)))))
    return found


def _places(first: int, loops: Iterable[Loop]) -> NDArray[np.int64]:
    """Where the elements of nested loops lie, in their order."""
    places: NDArray[np.int64] = np.array([first])
    for count, step in loops:
        places = (places[:, None] + np.arange(count) * step).reshape(-1)
    return places


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
    sums = {"no_sum": 1, "no_first_sum": 1, "simd": 1, "round_mode": 1, "rounded": 1, "saturated": 1}
    kernel = {"kernel_width": 1, "kernel_height": 1, "stride_x": 1, "stride_y": 1, "batch": batch, "kernels": batch}
    sizes = {"feature_bytes": 1, "out_bytes": 1, "line_elements": width * batch, "height": height}
    crops = {"crop_right": crop_end(width, batch), "crop_bottom": crop_end(height)}
    frame = {"frame_top": top, "frame_left": left * batch, "frame_bottom": bottom, "frame_right": right * batch}
    settings: dict[str, Any] = {**sums, **kernel, **sizes, **crops, **frame, "frame_value": code}
    config = ConvaccConfig(**settings, in_shift=0, out_shift=0)
    return config, bytes(int(i == j) for i in range(batch) for j in range(batch))
