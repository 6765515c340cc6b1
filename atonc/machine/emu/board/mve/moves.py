"""Moves: between vectors and general registers, immediate values, logic, selections, reversals, counting vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.emu.board.mve.families import InstructionEntry, Operation, entry
from atonc.machine.emu.board.mve.state import Array, VectorState, lanes
from atonc.machine.emu.board.v81m.patterns import Instruction

_UNSIGNED = (np.uint8, np.uint16, np.uint32)


def _logic(function: Callable[[Array, Array], Array]) -> Callable[[Instruction, VectorState], Operation]:
    def make(i: Instruction, s: VectorState) -> Operation:
        a, b, d = s.bytes[i["n"]], s.bytes[i["m"]], i["d"]
        return lambda: s.put(d, function(a, b))

    return make


def _invert(i: Instruction, s: VectorState) -> Operation:
    return lambda: s.put(i["d"], ~s.bytes[i["m"]])


def _duplicate(size: int) -> Callable[[Instruction, VectorState], Operation]:
    def make(i: Instruction, s: VectorState) -> Operation:
        kind, count, d, t = _UNSIGNED[size], 16 >> size, i["d"], i["t"]
        mask = (1 << (8 << size)) - 1
        return lambda: s.put(d, np.full(count, s.register(t) & mask, kind))

    return make


def _lane_out(size: int) -> Callable[[Instruction, VectorState], Operation]:
    """An element to a general register, extended."""

    def make(i: Instruction, s: VectorState) -> Operation:
        kind = np.dtype(f"<{'u' if i['u'] else 'i'}{1 << size}")
        element = s.double(i["n"]).view(kind)[i["x"] :]
        return lambda: s.set_register(i["t"], int(element[0]))

    return make


def _lane_in(size: int) -> Callable[[Instruction, VectorState], Operation]:
    def make(i: Instruction, s: VectorState) -> Operation:
        elements, mask = s.double(i["n"]).view(_UNSIGNED[size]), (1 << (8 << size)) - 1

        def run() -> None:
            elements[i["x"]] = s.register(i["t"]) & mask

        return run

    return make


def _pair_out(i: Instruction, s: VectorState) -> Operation:
    words = s.unsigned[2][i["d"]]

    def run() -> None:
        s.set_register(i["t"], int(words[i["x"]]))
        s.set_register(i["r"], int(words[2 + i["x"]]))

    return run


def _pair_in(i: Instruction, s: VectorState) -> Operation:
    words = s.unsigned[2][i["d"]]

    def run() -> None:
        words[i["x"]] = s.register(i["t"])
        words[2 + i["x"]] = s.register(i["r"])

    return run


def _immediate(i: Instruction, s: VectorState) -> Operation:
    """VMOV, VMVN, VORR, VBIC with a number of 8 bits in one of many positions."""
    value = np.frombuffer(expanded(i["c"], i["o"], i["i"]).to_bytes(8, "little") * 2, np.uint8)
    vector, d = s.bytes[i["d"]], i["d"]
    if i["c"] & 1 and i["c"] < 12:
        if i["o"]:
            return lambda: s.put(d, vector & ~value)
        return lambda: s.put(d, vector | value)
    return lambda: s.put(d, value)


def expanded(mode: int, inverted: int, number: int) -> int:
    """64 bits of an immediate value; VMVN comes inverted, VBIC not."""
    kind = mode >> 1
    if kind < 4:
        word = number << 8 * kind
        value = word | word << 32
    elif kind < 6:
        value = (number << 8 * (kind - 4)) * 0x0001_0001_0001_0001
    elif kind == 6:
        word = number << 8 | 0xFF if not mode & 1 else number << 16 | 0xFFFF
        value = word | word << 32
    elif not mode & 1:
        if inverted:  # every bit becomes a byte
            return sum(0xFF << 8 * bit for bit in range(8) if number >> bit & 1)
        return number * 0x0101_0101_0101_0101
    else:
        word = (number >> 7) << 31 | (0x1F if number & 0x40 else 0x20) << 25 | (number & 0x3F) << 19
        return word | word << 32
    bitwise = mode & 1 and mode < 12
    return value ^ (1 << 64) - 1 if inverted and not bitwise else value


def _reverse(width: int) -> Callable[[Instruction, VectorState], Operation]:
    """Elements within groups of `width` bytes."""

    def make(i: Instruction, s: VectorState) -> Operation:
        source = s.unsigned[i["s"]][i["m"]].reshape(-1, width >> i["s"])
        return lambda: s.put(i["d"], np.ascontiguousarray(source[:, ::-1]).reshape(-1))

    return make


def _count(up: bool, wrap: bool) -> Callable[[Instruction, VectorState], Operation]:
    """VIDUP and its kin: elements count up or down from a register, which goes on behind the last."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size, step, register = i["s"], 1 << i["i"], 2 * i["n"]

        def run() -> None:
            value, limit, values = s.register(register), s.register(2 * i["m"] + 1) if wrap else 0, []
            for _ in range(16 >> size):
                values.append(value & (1 << (8 << size)) - 1)
                value = _next(value, step if up else -step, limit) if wrap else value + (step if up else -step)
            s.put(i["d"], np.array(values, _UNSIGNED[size]))
            s.set_register(register, value)

        return run

    return make


def _next(value: int, step: int, limit: int) -> int:
    if step > 0:
        return 0 if value + step == limit else value + step
    return (limit if value == 0 else value) + step


def _select(i: Instruction, s: VectorState) -> Operation:
    """Bytes of one vector where the predicate is true, of the other where not."""
    yes, no, d = s.bytes[i["n"]], s.bytes[i["m"]], i["d"]
    return lambda: s.put(d, np.where(lanes(s.p0), yes, no))


ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VAND", "1110 1111 0000 nnn0 ddd0 0001 0101 mmm0", _logic(np.bitwise_and)),
    entry("VBIC", "1110 1111 0001 nnn0 ddd0 0001 0101 mmm0", _logic(lambda a, b: a & ~b)),
    entry("VORR", "1110 1111 0010 nnn0 ddd0 0001 0101 mmm0", _logic(np.bitwise_or)),
    entry("VORN", "1110 1111 0011 nnn0 ddd0 0001 0101 mmm0", _logic(lambda a, b: a | ~b)),
    entry("VEOR", "1111 1111 0000 nnn0 ddd0 0001 0101 mmm0", _logic(np.bitwise_xor)),
    entry("VMVN", "1111 1111 1011 0000 ddd0 0101 1100 mmm0", _invert),
    entry("VDUP.8", "1110 1110 1110 ddd0 tttt 1011 0001 0000", _duplicate(0)),
    entry("VDUP.16", "1110 1110 1010 ddd0 tttt 1011 0011 0000", _duplicate(1)),
    entry("VDUP.32", "1110 1110 1010 ddd0 tttt 1011 0001 0000", _duplicate(2)),
    entry("VMOV.8 to a register", "1110 1110 u1x1 nnnn tttt 1011 0xx1 0000", _lane_out(0), outside=True),
    entry("VMOV.16 to a register", "1110 1110 u0x1 nnnn tttt 1011 0x11 0000", _lane_out(1), outside=True),
    entry("VMOV.8 from a register", "1110 1110 01x0 nnnn tttt 1011 0xx1 0000", _lane_in(0), outside=True),
    entry("VMOV.16 from a register", "1110 1110 00x0 nnnn tttt 1011 0x11 0000", _lane_in(1), outside=True),
    entry("VMOV to two registers", "1110 1100 0000 rrrr ddd0 1111 000x tttt", _pair_out, outside=True),
    entry("VMOV from two registers", "1110 1100 0001 rrrr ddd0 1111 000x tttt", _pair_in, outside=True),
    entry("VMOV, VMVN, VORR or VBIC of a number", "111i 1111 1000 0iii ddd0 cccc 01o1 iiii", _immediate),
    entry("VREV16", "1111 1111 1011 ss00 ddd0 0001 0100 mmm0", _reverse(2)),
    entry("VREV32", "1111 1111 1011 ss00 ddd0 0000 1100 mmm0", _reverse(4)),
    entry("VREV64", "1111 1111 1011 ss00 ddd0 0000 0100 mmm0", _reverse(8)),
    entry("VIDUP", "1110 1110 00ss nnn1 ddd0 1111 i110 111i", _count(True, False)),
    entry("VIWDUP", "1110 1110 00ss nnn1 ddd0 1111 i110 mmmi", _count(True, True)),
    entry("VDDUP", "1110 1110 00ss nnn1 ddd1 1111 i110 111i", _count(False, False)),
    entry("VDWDUP", "1110 1110 00ss nnn1 ddd1 1111 i110 mmmi", _count(False, True)),
    entry("VPSEL", "1111 1110 0011 nnn1 ddd0 1111 0000 mmm1", _select),
)
