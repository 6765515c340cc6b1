"""Which bytes of memory a stream engine touches, and whether two engines meet in a word of the bus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.units.stream_engine import StrengConfig

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ByteWalk:
    """Bytes from `start` on, in nested loops (turns, bytes from one to the next), the outermost first."""

    start: int
    loops: tuple[tuple[int, int], ...]

    @property
    def low(self) -> int:
        return self.start + sum((count - 1) * min(step, 0) for count, step in self.loops)

    @property
    def high(self) -> int:
        """One past the last byte."""
        return self.start + sum((count - 1) * max(step, 0) for count, step in self.loops) + 1


def touched(config: StrengConfig, low: int, high: int) -> Flags:
    """One flag for every byte of [low, high), which must hold all that the engine touches."""
    return _flags(walks(config), low, high)


def places(config: StrengConfig) -> NDArray[np.int64]:
    """The address of every byte, in the order in which the engine takes them."""
    loops = (*config.frame_loops(), *zip(config.stored_shape, config.steps, strict=True), (config.stored_bytes, 1))
    found = np.array([config.address], np.int64)
    for count, step in loops:
        found = np.add.outer(found, step * np.arange(count)).reshape(-1)
    return found[: config.frames * config.frame_bytes]


@lru_cache(maxsize=1 << 14)
def share_word(one: StrengConfig, other: StrengConfig) -> bool:
    """Whether some word of the bus holds bytes of both."""
    spans = one.span(), other.span()
    if max(low for low, _ in spans) // BUS_BYTES > (min(high for _, high in spans) - 1) // BUS_BYTES:
        return False
    mine, theirs = _in_one_turn(walks(one), walks(other))
    low = min(walk.low for walk in (*mine, *theirs)) // BUS_BYTES * BUS_BYTES
    high = -(-max(walk.high for walk in (*mine, *theirs)) // BUS_BYTES) * BUS_BYTES
    words = [_flags(found, low, high).view(f"u{BUS_BYTES}") != 0 for found in (mine, theirs)]
    return bool((words[0] & words[1]).any())


def _flags(found: Sequence[ByteWalk], low: int, high: int) -> Flags:
    flags = np.zeros(high - low, np.bool_)
    for walk in found:
        view(flags, walk, low)[...] = True
    return flags


def view(flags: Flags, walk: ByteWalk, low: int = 0) -> Flags:
    """The flags of the bytes of a walk; the first one of `flags` is that of address `low`."""
    counts, steps = zip(*walk.loops, strict=True)
    return np.ndarray(counts, np.bool_, flags, walk.start - low, steps)


def _in_one_turn(mine: list[ByteWalk], theirs: list[ByteWalk]) -> tuple[list[ByteWalk], list[ByteWalk]]:
    """The same question about less memory: one turn of the outer loops that both make in step, as long as different
    turns lie so far apart that they never meet in a word."""
    if len(mine) > 1 or len(theirs) > 1:
        return mine, theirs
    one, other = mine[0], theirs[0]
    while len(one.loops) > 1 and len(other.loops) > 1 and one.loops[0] == other.loops[0]:
        step = one.loops[0][1]
        inner = [replace(walk, loops=walk.loops[1:]) for walk in (one, other)]
        reach = max(walk.high for walk in inner) - min(walk.low for walk in inner) // BUS_BYTES * BUS_BYTES
        if step % BUS_BYTES or reach > step:
            break
        one, other = inner
    return [one], [other]


def walks(config: StrengConfig) -> list[ByteWalk]:
    """All bytes of the engine; a last turn of the frame loop that is cut short is a walk by itself."""
    inside = [*zip(config.stored_shape, config.steps, strict=True), (config.stored_bytes, 1)]
    loops = config.frame_loops()
    if len(loops) == 1:
        return [ByteWalk(config.address, _merged([*loops, *inside]))]
    (_, outer), (count, inner) = loops
    turns, rest = divmod(config.frames, count)
    found = [ByteWalk(config.address, _merged([(turns, outer), (count, inner), *inside]))]
    if rest:
        found.append(ByteWalk(config.address + turns * outer, _merged([(rest, inner), *inside])))
    return found


def _merged(loops: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Small steps inside, whatever the order in time; a loop over neighbours is one with what is inside it."""
    merged = [(1, 1)]
    for count, step in sorted(loops, key=lambda loop: abs(loop[1])):
        if count == 1 or step == 0:
            continue
        turns, inner = merged[0]
        if step == turns * inner:
            merged[0] = (turns * count, inner)
        else:
            merged.insert(0, (count, step))
    return tuple(merged)
