"""Reductions: sums, products and extremes over the elements of vectors, in general registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.emu.board.mve.families import InstructionEntry, Make, Operation, entry
from atonc.machine.emu.board.mve.floats import extreme
from atonc.machine.emu.board.mve.state import Array, VectorState
from atonc.machine.emu.board.v81m.patterns import Instruction

_FLOAT = 0x7FFF_FFFF


def _sum(long: bool) -> Make:
    """VADDV into one register, VADDLV into a pair."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size = 2 if long else i["s"]
        data = s.vector(i["m"], size, i["u"])

        def run() -> None:
            total = int(data[s.active(size)].astype(np.int64).sum())
            _add(s, i, total, long)

        return run

    return make


def _set_pair(s: VectorState, low: int, high: int, value: int) -> None:
    s.set_register(low, value)
    s.set_register(high, value >> 32)


def _add(s: VectorState, i: Instruction, total: int, long: bool) -> None:
    """To the register, or the pair of registers, if the instruction accumulates; instead of it if not."""
    low, high = 2 * i["l"], 2 * i.fields.get("h", 0) + 1
    if long:
        _set_pair(s, low, high, total + (s.register(low) | s.register(high) << 32 if i["a"] else 0))
    else:
        s.set_register(low, total + (s.register(low) if i["a"] else 0))


def _dot(size: int | None, subtract: bool, long: bool, unsigned: int | None = None) -> Make:
    """VMLADAV and its kin: products added up; with x elements of n change places in pairs; `subtract` the odd ones."""

    def make(i: Instruction, s: VectorState) -> Operation:
        width = 1 + i["z"] if size is None else size
        u = i.fields.get("u", 0) if unsigned is None else unsigned
        a, b = s.vector(i["n"], width, u), s.vector(i["m"], width, u)
        order = np.arange(16 >> width) ^ 1 if i["x"] else np.arange(16 >> width)
        signs = np.where(np.arange(16 >> width) & 1, -1, 1) if subtract else np.ones(16 >> width, np.int64)

        def run() -> None:
            left = a[order].astype(object) if width == 2 else a[order].astype(np.int64)
            right = b.astype(object) if width == 2 else b.astype(np.int64)
            total = int((left * right * signs)[s.active(width)].sum()) if s.mask else 0
            _add(s, i, total, long)

        return run

    return make


def _extreme(larger: bool, absolute: bool) -> Make:
    """VMAXV, VMINV, VMAXAV, VMINAV: against what the register holds."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size, u, bits = i["s"], i.fields.get("u", 0), 8 << i["s"]
        data = s.vector(i["m"], size, u)
        choose = max if larger else min

        def run() -> None:
            start = s.register(i["t"]) & (1 << bits) - 1
            if not u and not absolute and start >> bits - 1:
                start -= 1 << bits
            values = [abs(x) if absolute else x for x in data[s.active(size)].tolist()]
            s.set_register(i["t"], choose([start, *values]))

        return run

    return make


def _float_extreme(larger: bool, absolute: bool) -> Make:
    """VMAXNMV and its kin; `absolute` is said of the elements alone, and no NaN is better than another."""
    choose = extreme(larger, signalling=False)

    def make(i: Instruction, s: VectorState) -> Operation:
        words = s.unsigned[2][i["m"]]

        def run() -> None:
            value = np.array([s.register(i["t"])], np.uint32)
            for word in words[s.active(2)]:
                other = np.array([int(word) & _FLOAT if absolute else int(word)], np.uint32)
                value = choose(value.view(np.float32), other.view(np.float32)).view(np.uint32)
            s.set_register(i["t"], int(value[0]))

        return run

    return make


def _differences(i: Instruction, s: VectorState) -> Operation:
    """VABAV: distances of two vectors, added to a register."""
    a, b = s.vector(i["n"], i["s"], i["u"]), s.vector(i["m"], i["s"], i["u"])

    def run() -> None:
        distances: Array = np.abs(a.astype(np.int64) - b.astype(np.int64))[s.active(i["s"])]
        s.set_register(i["t"], s.register(i["t"]) + int(distances.sum()))

    return run


_EXTREMES: tuple[tuple[str, Callable[[bool, bool], Make], str, bool, bool], ...] = (
    ("VMAXNMAV.F32", _float_extreme, "1110 1110 1110 1100 tttt 1111 0000 mmm0", True, True),
    ("VMINNMAV.F32", _float_extreme, "1110 1110 1110 1100 tttt 1111 1000 mmm0", False, True),
    ("VMAXNMV.F32", _float_extreme, "1110 1110 1110 1110 tttt 1111 0000 mmm0", True, False),
    ("VMINNMV.F32", _float_extreme, "1110 1110 1110 1110 tttt 1111 1000 mmm0", False, False),
    ("VMAXV", _extreme, "111u 1110 1110 ss10 tttt 1111 0000 mmm0", True, False),
    ("VMINV", _extreme, "111u 1110 1110 ss10 tttt 1111 1000 mmm0", False, False),
    ("VMAXAV", _extreme, "1110 1110 1110 ss00 tttt 1111 0000 mmm0", True, True),
    ("VMINAV", _extreme, "1110 1110 1110 ss00 tttt 1111 1000 mmm0", False, True),
)
ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VADDV", "111u 1110 1111 ss01 lll0 1111 00a0 mmm0", _sum(False)),
    entry("VADDLV", "111u 1110 1hhh 1001 lll0 1111 00a0 mmm0", _sum(True)),
    *(entry(name, drawing, make(larger, absolute)) for name, make, drawing, larger, absolute in _EXTREMES),
    entry("VABAV", "111u 1110 10ss nnn0 tttt 1111 0000 mmm1", _differences),
    entry("VMLADAV", "111u 1110 1111 nnnz lllx 1110 00a0 mmm0", _dot(None, False, False)),
    entry("VMLALDAV", "111u 1110 1hhh nnnz lllx 1110 00a0 mmm0", _dot(None, False, True)),
    entry("VMLSDAV", "1110 1110 1111 nnnz lllx 1110 00a0 mmm1", _dot(None, True, False)),
    entry("VMLSLDAV", "1110 1110 1hhh nnnz lllx 1110 00a0 mmm1", _dot(None, True, True)),
    entry("VMLSDAV.8", "1111 1110 1111 nnn0 lllx 1110 00a0 mmm1", _dot(0, True, False, 0)),
    entry("VMLADAV.8", "111u 1110 1111 nnn0 lllx 1111 00a0 mmm0", _dot(0, False, False)),
)
