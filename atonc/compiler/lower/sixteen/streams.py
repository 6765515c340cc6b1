"""Codes of 16 bits as two tensors of bytes, x = 256 * high + low + 128, both signed; as rows through ARITHs; and their
weighted sums.

One ARITH gives the high bytes, a second one what they leave over. The low bytes count from -128 on, so they are codes
with that zero point. High bytes of numbers that are never negative look the same without a sign, which is how
convolvers read features fastest: then they count as codes from -128 on, stored as code + 128.

No published ARITH clips results of 16 bits. Saturation does: numbers are moved until the limit is an end of the format,
and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import ceil, floor, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import coefficient_unit
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, SCALAR, widened
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import Ints, limited, shifted
from atonc.compiler.lower.units.arith import Affine, AffinePair, affine_unit, pair_unit
from atonc.compiler.lower.units.views import row
from atonc.compiler.lower.units.wiring import End, Wiring, is_one_scale, pack, parts
from atonc.compiler.ops.registry import is_move
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.coarse import HIGHEST, LOWEST
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.rules import SCALES, WIDE_CLIP, WIDE_CODES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_WIDE_SHIFT, UNITS, WIDE_PAIR_SHIFT
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.arith import ArithConfig

Codes = NDArray[Any]
Real = NDArray[np.float64]

HIGH, LOW = "high bytes", "low bytes"
ZERO = -128  # code of a low byte of 0
MOST_LANES = 3  # of chains with two readers
# floor(x / 256): half a code less than a multiple of 256 is never in the middle between two
_HIGH = affine_unit(Affine.single(1 << 14, -255 << 13, 22), 0, in_bytes=2)
_LOW = pair_unit(AffinePair(64, -64 * 256, 64 * ZERO, 0, 0, 0, 6), bytes_x=2, bytes_y=1)  # x - 256 * high - 128
_LONG = 4  # bits that an addend is shifted by where 16 bits are too few for it, as seen


def require_centred(*tensors: Tensor) -> None:
    """Codes of 16 bits with one scale, whose zero is 0: what TFLite writes, and nobody asked for anything else yet."""
    for tensor in tensors:
        if not is_centred(tensor):
            zero = tensor.zero_point if is_one_scale(tensor, "int16") else "unlike others"
            seen = f"{tensor.name} of type {tensor.dtype}, zero point {zero}"
            raise Refusal(WIDE_CODES, seen, "int16 with one scale and zero point 0", "quantise it symmetrically")


def is_centred(tensor: Tensor) -> bool:
    return is_one_scale(tensor, "int16") and tensor.zero_point == 0


def high_codes(codes: Codes) -> Codes:
    """Never negative where codes are not: the same with and without a sign."""
    return codes.astype(np.int64) >> 8


def low_codes(codes: Codes) -> Codes:
    return (codes.astype(np.int64) & 255) + ZERO


def never_negative(name: str, graph: Graph) -> bool:
    """Whether the operators before leave no negative code of a tensor whose zero is 0. Means do not keep that: their
    halves are rounded apart, and -1 may come of zeros."""
    producer = graph.producers.get(name)
    if producer is None:
        return False
    if "clip" in producer.attrs and producer.attrs["clip"][0] >= 0:
        return True
    keeps = is_move(producer.kind) or producer.kind in ("max_pool", "identity")
    sources = [n for n in producer.inputs if n and graph.tensors[n].dtype == "int16"]
    return keeps and bool(sources) and all(never_negative(n, graph) for n in sources)


def bytes_of(
    x: Tensor, context: Context, origin: tuple[str, ...], unsigned: bool = False
) -> tuple[str, str, list[TaskGroup]]:
    """Buffers of the high and of the low bytes, and the tasks that write them; the first reader makes them for all of
    them. `unsigned`: high bytes are read without a sign."""
    source, groups = context.buffer(x.name), list[TaskGroup]()
    high, low = (context.shifted_copies.get(f"{half} of {source}", "") for half in (HIGH, LOW))
    if not (high and low):
        high, low = (context.scratch(x.elements, half) for half in (HIGH, LOW))
        context.shifted_copies[f"{HIGH} of {source}"] = high
        context.shifted_copies[f"{LOW} of {source}"] = low

        def split(start: int, count: int, b: TaskBuilder) -> None:
            """[x=IN y=IN>ARITH#1]>ARITH>OUT ; ARITH#1>OUT, as seen."""
            x = b.read(source, row(count, start, 2))
            highs = b.unit(_HIGH, b.read(source, row(count, start, 2)))
            lows = b.unit(_LOW, x, highs)
            b.write(highs, high, row(count, start, write=True))
            b.write(lows, low, row(count, start, write=True))

        lanes = [Wiring(partial(split, *lane), lane[1]) for lane in parts(x.elements, UNITS["ARITH"] // 2)]
        groups = pack(lanes, origin, f"bytes of {x.name}", Purpose.FEATURES)
    context.buffers[high] = replace(context.buffers[high], offset=-ZERO if unsigned else 0)
    return high, low, groups


@dataclass(frozen=True)
class WideSum:
    """clip(a * x + b * y + offset), where both are numbers of 16 bits."""

    a: int = 1
    b: int = 1
    low: int = LOWEST
    high: int = HIGHEST
    offset: int = 0

    @staticmethod
    def clipped(clip: tuple[int, int] | None, a: int = 1, b: int = 1, offset: int = 0) -> WideSum:
        """With the limits of an operator."""
        low, high = clip or (LOWEST, HIGHEST)
        return WideSum(a, b, max(LOWEST, int(low)), min(HIGHEST, int(high)), offset)

    @property
    def steps(self) -> tuple[int, ...]:
        """What is added while an end of 16 bits limits the numbers, one after the other."""
        upper = (HIGHEST - self.high,) if self.high < HIGHEST or self.low <= LOWEST else ()
        return (*upper, LOWEST - self.low) if self.low > LOWEST else upper

    def units(self) -> list[ArithConfig]:
        """The first takes both streams."""
        addend = self.steps[0] + self.offset
        even = addend % 2 == 0 and not LOWEST <= addend <= HIGHEST
        if not LOWEST <= addend >> even <= HIGHEST:
            raise Refusal(WIDE_CLIP, f"an addend of {addend}", "16 bits, or 17 if it is even", "use another clip")
        first = changed(SUM, a=self.a, b=self.b, c=addend >> even, shift_c=int(even))
        return [first, *map(move_unit, self.moves)]

    @property
    def moves(self) -> list[int]:
        """From the first of these steps to the next, and at last to codes as they are."""
        return [after - before for before, after in pairwise((*self.steps, 0)) if after != before]

    def alone(self) -> list[ArithConfig]:
        """The same limits for one stream, which comes as it is; none without limits."""
        return [move_unit(step) for step in (self.steps[0], *self.moves) if step]

    def __call__(self, x: Ints, y: Ints) -> Ints:
        total = limited(self.a * x + self.b * y + self.steps[0] + self.offset, 16)
        return self.limited(total)

    def limited(self, total: Ints) -> Ints:
        """What becomes of numbers that the first step was added to."""
        for step in self.moves:
            total = limited(total + step, 16)
        return total


def move_unit(step: int) -> ArithConfig:
    """x + step, limited to 16 bits."""
    if LOWEST <= step <= HIGHEST:
        return changed(SCALAR, a=2, c=step, shift_c=1, shift_out=1)
    if step % 2 or not LOWEST <= step // 2 <= HIGHEST:
        raise Refusal(WIDE_CLIP, f"a clip that moves codes by {step}", "even, at most 65,534", "use another clip")
    return changed(SCALAR, a=1 << _LONG - 1, c=step // 2, shift_c=_LONG, shift_out=_LONG - 1)


def least_unit(gain: float) -> int:
    """The least power of two with which no product by `gain / unit` leaves 16 bits."""
    return 1 << max(0, ceil(log2(gain)))


@dataclass(frozen=True, eq=False)
class Scaling:
    """sat16(round((a * x) >> shift)): one number for all, or one for each channel, channels last."""

    a: Ints
    shift: int

    @staticmethod
    def of(gain: float | Real) -> Scaling:
        gains = np.atleast_1d(np.asarray(gain, np.float64))
        largest, most = float(gains.max()), MOST_WIDE_SHIFT if gains.size == 1 else MOST_SHIFT
        shift = min(most, floor(log2((HIGHEST + 0.499) / max(largest, 2.0**-30))))
        if shift < 1:
            seen = f"one code of the input is worth {largest:g} codes of the output"
            raise Refusal(SCALES, seen, f"{HIGHEST // 2}", "check the scales: they differ beyond all use")
        return Scaling(np.rint(gains * 2.0**shift).astype(np.int64), shift)

    @property
    def changes(self) -> bool:
        return self.a.size > 1 or int(self.a[0]) != 1 << self.shift

    def unit(self, count: int = 0) -> ArithConfig:
        """For so many numbers."""
        if self.a.size == 1:
            return changed(SCALAR, a=int(self.a[0]), shift_out=self.shift)
        nothing, channels = np.zeros_like(self.a), self.a.size
        return widened(coefficient_unit(self.a, nothing, channels, count // channels, self.shift), nothing)

    def __call__(self, x: Ints) -> Ints:
        return limited(shifted(self.a * x, self.shift), 16)

    def error(self, gain: float | Real) -> float:
        """In codes, with the rounding at its end."""
        off = float(np.abs(self.a * 2.0**-self.shift - gain).max())
        return (0.5 if self.changes else 0.0) + (HIGHEST + 1) * off


@dataclass(frozen=True)
class ScaledSum:
    """sat16(round((a * x + b * y) >> shift)) in one unit: sums of 16 bits were seen with results of a byte behind such
    shifts (argument S6)."""

    a: int
    b: int
    shift: int

    @staticmethod
    def of(gain_x: float, gain_y: float, trust: Trust) -> ScaledSum | None:
        """None where a gain is too large, or the unit may not be relied on."""
        largest = max(abs(gain_x), abs(gain_y))
        shift = min(WIDE_PAIR_SHIFT, floor(log2((HIGHEST + 0.499) / max(largest, 2.0**-30))))
        if shift < 1:
            return None
        found = ScaledSum(round(gain_x * 2.0**shift), round(gain_y * 2.0**shift), shift)
        return None if untrusted_unit(found.unit, "", trust) else found

    @property
    def unit(self) -> ArithConfig:
        return changed(SUM, a=self.a, b=self.b, shift_out=self.shift)

    def __call__(self, x: Ints, y: Ints) -> Ints:
        return limited(shifted(self.a * x + self.b * y, self.shift), 16)

    def error(self, gain_x: float, gain_y: float) -> float:
        """In codes, with the rounding at its end."""
        off = abs(self.a * 2.0**-self.shift - gain_x) + abs(self.b * 2.0**-self.shift - gain_y)
        return 0.5 + (HIGHEST + 1) * off


Unit = ArithConfig | Scaling
Named = tuple[tuple[str, ...], str]  # origin and title of tasks


def through(
    sources: Sequence[str],
    target: str,
    elements: int,
    units: Sequence[Unit],
    named: Named,
    before: Sequence[Unit] = (),
    block: int = 1,
) -> TaskGroup:
    """Rows of numbers in lanes: the first unit takes all streams, of which the last passes `before`, the others what
    comes out of the one before. `block`: lanes are cut between so many."""
    found = []
    for start, count in parts(elements, min(MOST_LANES, UNITS["ARITH"] // (len(units) + len(before))), block):
        first, last = ([u.unit(count) if isinstance(u, Scaling) else u for u in some] for some in (before, units))
        read = row(count, start, (first or last)[0].bytes_x)
        near = [*(End(name, read) for name in sources[:-1]), End(sources[-1], read, first)]
        written = row(count, start, last[-1].out_bytes, write=True)
        found.append(Wiring.chain(near, last, End(target, written), count))
    return pack(found, *named)[0]


def scaled_first(
    context: Context, source: str, elements: int, units: Sequence[Unit], origin: tuple[str, ...], block: int = 1
) -> tuple[str, TaskGroup]:
    """A scaled copy in memory, and the tasks that write it."""
    target = context.scratch(2 * elements, "scaled operand")
    return target, through([source], target, elements, units, (origin, "a scaled operand"), block=block)
