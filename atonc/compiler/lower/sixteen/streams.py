"""Rows of numbers of 16 bits through ARITHs: scaled, moved, and the lanes that they are cut into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, log2

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import Ints, limited, shifted
from atonc.compiler.lower.sixteen.halves import wide_row
from atonc.compiler.lower.sixteen.joining import HIGHEST, SCALAR
from atonc.compiler.lower.units.parts import parts
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.rules import SCALES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_WIDE_SHIFT, UNITS
from atonc.machine.hw.units.arith import ArithConfig

MOST_LANES = 3  # of chains with two readers

Unit = ArithConfig | Callable[[int], ArithConfig]  # or what it is for so many numbers


@dataclass(frozen=True)
class Scaling:
    """sat16(round((a * x) >> shift))"""

    a: int
    shift: int

    @staticmethod
    def of(gain: float) -> Scaling:
        shift = min(MOST_WIDE_SHIFT, floor(log2((HIGHEST + 0.499) / max(gain, 2.0**-30))))
        if shift < 1:
            seen = f"one code of the input is worth {gain:g} codes of the output"
            raise Refusal(SCALES, seen, f"{HIGHEST // 2}", "check the scales: they differ beyond all use")
        return Scaling(round(gain * 2.0**shift), shift)

    @property
    def changes(self) -> bool:
        return self.a != 1 << self.shift

    def unit(self, _: int = 0) -> ArithConfig:
        """The same for any number of them."""
        return changed(SCALAR, a=self.a, shift_out=self.shift)

    def __call__(self, x: Ints) -> Ints:
        return limited(shifted(self.a * x, self.shift), 16)

    def error(self, gain: float) -> float:
        """In codes, with the rounding at its end."""
        return (0.5 if self.changes else 0.0) + (HIGHEST + 1) * abs(self.a * 2.0**-self.shift - gain)


def scaled_first(
    context: Context, source: str, elements: int, units: Sequence[Unit], origin: tuple[str, ...], block: int = 1
) -> tuple[str, TaskGroup]:
    """A scaled copy in memory, and the tasks that write it."""
    target = context.scratch(2 * elements, "scaled operand")
    return target, through(source, target, elements, units, origin, "a scaled operand", block)


def through(
    source: str, target: str, elements: int, units: Sequence[Unit], origin: tuple[str, ...], title: str, block: int = 1
) -> TaskGroup:
    """Each number through the units, one behind the other. `block`: lanes are cut between so many."""
    tasks = []
    for start, count in parts(elements, min(MOST_LANES, UNITS["ARITH"] // len(units)), block):
        b = TaskBuilder(origin, title, Purpose.COMPUTE)
        stream = b.read(source, wide_row(count, start))
        for unit in units:
            stream = b.unit(_for(unit, count), stream)
        b.write(stream, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return TaskGroup(tuple(tasks))


def two_through(
    sources: tuple[str, str],
    target: str,
    elements: int,
    before: Sequence[Unit],
    units: Sequence[ArithConfig],
    named: tuple[tuple[str, ...], str],
    block: int = 1,
) -> TaskGroup:
    """Two streams: the first of the units takes both, the second stream through `before`. `named`: origin, title."""
    tasks, origin, title = [], *named
    for start, count in parts(elements, min(MOST_LANES, UNITS["ARITH"] // (len(units) + len(before))), block):
        b = TaskBuilder(origin, title)
        first, second = (b.read(name, wide_row(count, start)) for name in sources)
        for unit in before:
            second = b.unit(_for(unit, count), second)
        stream = b.unit(units[0], first, second)
        for unit in units[1:]:
            stream = b.unit(unit, stream)
        b.write(stream, target, wide_row(count, start, write=True))
        tasks.append(b.done(count))
    return TaskGroup(tuple(tasks))


def _for(unit: Unit, count: int) -> ArithConfig:
    return unit if isinstance(unit, ArithConfig) else unit(count)


def whole_codes(values: np.ndarray) -> bytes:
    """Numbers of 16 bits as they lie in memory."""
    return np.clip(np.rint(values), -HIGHEST - 1, HIGHEST).astype("<i2").tobytes()
