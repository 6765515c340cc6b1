"""Moves: between vectors and general registers, immediate values, logic, selections, reversals, counting vectors;
loads and stores: side by side, widening and narrowing, gathered and scattered, interleaved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.board.mve.state import ALL, Array, InstructionEntry, Operation, VectorState, entry, lanes
from atonc.machine.emu.board.v81m import Instruction

_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32, np.uint64), (np.int8, np.int16, np.int32, np.int64)
_MASK = 0xFFFF_FFFF


def _logic(i: Instruction, s: VectorState, function: Callable[[Array, Array], Array]) -> Operation:
    a, b, d = s.bytes[i["n"]], s.bytes[i["m"]], i["d"]
    return lambda: s.put(d, function(a, b))


def _invert(i: Instruction, s: VectorState) -> Operation:
    return lambda: s.put(i["d"], ~s.bytes[i["m"]])


def _duplicate(i: Instruction, s: VectorState, size: int) -> Operation:
    kind, count, d, t = _UNSIGNED[size], 16 >> size, i["d"], i["t"]
    mask = (1 << (8 << size)) - 1
    return lambda: s.put(d, np.full(count, s.register(t) & mask, kind))


def _lane_out(i: Instruction, s: VectorState, size: int) -> Operation:
    """An element to a general register, extended."""
    kind = np.dtype(f"<{'u' if i['u'] else 'i'}{1 << size}")
    element = s.double(i["n"]).view(kind)[i["x"] :]
    return lambda: s.set_register(i["t"], int(element[0]))


def _lane_in(i: Instruction, s: VectorState, size: int) -> Operation:
    elements, mask = s.double(i["n"]).view(_UNSIGNED[size]), (1 << (8 << size)) - 1

    def run() -> None:
        elements[i["x"]] = s.register(i["t"]) & mask

    return run


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


def _reverse(i: Instruction, s: VectorState, width: int) -> Operation:
    """Elements within groups of `width` bytes."""
    source = s.unsigned[i["s"]][i["m"]].reshape(-1, width >> i["s"])
    return lambda: s.put(i["d"], np.ascontiguousarray(source[:, ::-1]).reshape(-1))


def _count(i: Instruction, s: VectorState, up: bool, wrap: bool) -> Operation:
    """VIDUP and its kin: elements count up or down from a register, which goes on behind the last."""
    size, step, register = i["s"], (1 if up else -1) << i["i"], 2 * i["n"]

    def run() -> None:
        value, limit, values = s.register(register), s.register(2 * i["m"] + 1) if wrap else 0, []
        for _ in range(16 >> size):
            values.append(value & (1 << (8 << size)) - 1)
            value = limit if wrap and not up and value == 0 else value
            value = 0 if wrap and up and value + step == limit else value + step
        s.put(i["d"], np.array(values, _UNSIGNED[size]))
        s.set_register(register, value)

    return run


def _select(i: Instruction, s: VectorState) -> Operation:
    """Bytes of one vector where the predicate is true, of the other where not."""
    yes, no, d = s.bytes[i["n"]], s.bytes[i["m"]], i["d"]
    return lambda: s.put(d, np.where(lanes(s.p0), yes, no))


MOVES: tuple[InstructionEntry, ...] = (
    entry("VAND", "1110 1111 0000 nnn0 ddd0 0001 0101 mmm0", _logic, np.bitwise_and),
    entry("VBIC", "1110 1111 0001 nnn0 ddd0 0001 0101 mmm0", _logic, lambda a, b: a & ~b),
    entry("VORR", "1110 1111 0010 nnn0 ddd0 0001 0101 mmm0", _logic, np.bitwise_or),
    entry("VORN", "1110 1111 0011 nnn0 ddd0 0001 0101 mmm0", _logic, lambda a, b: a | ~b),
    entry("VEOR", "1111 1111 0000 nnn0 ddd0 0001 0101 mmm0", _logic, np.bitwise_xor),
    entry("VMVN", "1111 1111 1011 0000 ddd0 0101 1100 mmm0", _invert),
    entry("VDUP.8", "1110 1110 1110 ddd0 tttt 1011 0001 0000", _duplicate, 0),
    entry("VDUP.16", "1110 1110 1010 ddd0 tttt 1011 0011 0000", _duplicate, 1),
    entry("VDUP.32", "1110 1110 1010 ddd0 tttt 1011 0001 0000", _duplicate, 2),
    entry("VMOV.8 to a register", "1110 1110 u1x1 nnnn tttt 1011 0xx1 0000", _lane_out, 0, outside=True),
    entry("VMOV.16 to a register", "1110 1110 u0x1 nnnn tttt 1011 0x11 0000", _lane_out, 1, outside=True),
    entry("VMOV.8 from a register", "1110 1110 01x0 nnnn tttt 1011 0xx1 0000", _lane_in, 0, outside=True),
    entry("VMOV.16 from a register", "1110 1110 00x0 nnnn tttt 1011 0x11 0000", _lane_in, 1, outside=True),
    entry("VMOV to two registers", "1110 1100 0000 rrrr ddd0 1111 000x tttt", _pair_out, outside=True),
    entry("VMOV from two registers", "1110 1100 0001 rrrr ddd0 1111 000x tttt", _pair_in, outside=True),
    entry("VMOV, VMVN, VORR or VBIC of a number", "111i 1111 1000 0iii ddd0 cccc 01o1 iiii", _immediate),
    entry("VREV16", "1111 1111 1011 ss00 ddd0 0001 0100 mmm0", _reverse, 2),
    entry("VREV32", "1111 1111 1011 ss00 ddd0 0000 1100 mmm0", _reverse, 4),
    entry("VREV64", "1111 1111 1011 ss00 ddd0 0000 0100 mmm0", _reverse, 8),
    entry("VIDUP", "1110 1110 00ss nnn1 ddd0 1111 i110 111i", _count, True, False),
    entry("VIWDUP", "1110 1110 00ss nnn1 ddd0 1111 i110 mmmi", _count, True, True),
    entry("VDDUP", "1110 1110 00ss nnn1 ddd1 1111 i110 111i", _count, False, False),
    entry("VDWDUP", "1110 1110 00ss nnn1 ddd1 1111 i110 mmmi", _count, False, True),
    entry("VPSEL", "1111 1110 0011 nnn1 ddd0 1111 0000 mmm1", _select),
)


# ---------------------------------------------------------------------------------------------------- loads and stores


def _address(i: Instruction, s: VectorState, scale: int) -> Callable[[], int]:
    """The address, with the offset or before it; the register moves when w says so."""
    register, offset = i["n"], (i["i"] << scale) * (1 if i["a"] else -1)
    before, write_back = i["p"], i["w"]

    def run() -> int:
        base = s.register(register)
        moved = base + offset & _MASK
        if write_back:
            s.set_register(register, moved)
        return moved if before else base

    return run


def _load(s: VectorState, address: int, count: int, kind: type[np.generic], on: Array) -> Array:
    """Elements side by side; nothing is read for those that are off, they are zero."""
    size = np.dtype(kind).itemsize
    if on.all():
        return s.memory.view(address, count * size).view(kind)
    out = np.zeros(count, kind)
    for k in np.flatnonzero(on).tolist():
        out[k] = s.memory.view(address + k * size & _MASK, size).view(kind)[0]
    return out


def _store(s: VectorState, address: int, values: Array, on: Array) -> None:
    size = values.itemsize
    if on.all():
        s.memory.view(address, values.nbytes)[:] = values.view(np.uint8)
        s.wrote(address, values.nbytes)
        return
    for k in np.flatnonzero(on).tolist():
        s.memory.view(address + k * size & _MASK, size)[:] = values[k : k + 1].view(np.uint8)
        s.wrote(address + k * size & _MASK, size)


def contiguous(i: Instruction, s: VectorState) -> Operation:
    """VLDRB.8, VLDRH.16, VLDRW.32 and the stores."""
    size = i["s"]
    address, vector, kind = _address(i, s, size), s.bytes[i["d"]], _UNSIGNED[size]
    elements = vector.view(kind)

    def load() -> None:
        at = address()
        if s.mask == ALL:
            vector[:] = s.memory.view(at, 16)
        else:
            elements[:] = _load(s, at, 16 >> size, kind, s.active(size))

    def store() -> None:
        at = address()
        if s.mask == ALL:
            s.memory.view(at, 16)[:] = vector
            s.wrote(at, 16)
        else:
            _store(s, at, elements, s.active(size))

    return load if i["l"] else store


def resized(i: Instruction, s: VectorState) -> Operation:
    """VLDRB.16 and the like: smaller in memory than in the register."""
    size, memory_size = i["s"], i["k"]
    if size <= memory_size or (i["u"] and not i["l"]):
        return _undefined(i)
    address, lanes_count = _address(i, s, memory_size), 16 >> size
    in_memory = (_UNSIGNED if i["u"] else _SIGNED)[memory_size]
    in_register = (_UNSIGNED if i["u"] else _SIGNED)[size]
    vector = s.unsigned[size][i["d"]]

    def load() -> None:
        loaded = _load(s, address(), lanes_count, in_memory, s.active(size))
        vector[:] = loaded.astype(in_register).view(vector.dtype)

    def store() -> None:
        _store(s, address(), vector.astype(_UNSIGNED[memory_size]), s.active(size))

    return load if i["l"] else store


def gather(i: Instruction, s: VectorState, loading: bool) -> Operation:
    """From, or to, a base plus a vector of offsets; `o` scales them by the size in memory."""
    size, memory_size = i["s"], i["k"]
    if size < memory_size:
        return _undefined(i)
    offsets = s.unsigned[size][i["m"]]
    shift = memory_size if i["o"] else 0

    def run() -> None:
        addresses = s.register(i["n"]) + (offsets.astype(np.int64) << shift) & _MASK
        _move(s, i["d"], size, memory_size, bool(i.fields.get("u", 1)), addresses, loading)

    return run


def gather_from_vector(i: Instruction, s: VectorState, loading: bool) -> Operation:
    """From, or to, a vector of addresses plus a number; with w the addresses stay in the vector, also of lanes off."""
    bases, offset = s.unsigned[2][i["m"]], (i["i"] << 2) * (1 if i["a"] else -1)

    def run() -> None:
        addresses = bases.astype(np.int64) + offset & _MASK
        _move(s, i["d"], 2, 2, True, addresses, loading)
        if i["w"]:
            bases[:] = addresses

    return run


def _move(s: VectorState, d: int, size: int, memory_size: int, unsigned: bool, addresses: Array, loading: bool) -> None:
    on, width = s.active(size), 1 << memory_size
    vector = s.bytes[d].view(_UNSIGNED[size])
    kind = (_UNSIGNED if unsigned else _SIGNED)[memory_size]
    if loading:
        found = np.zeros(len(addresses), _UNSIGNED[size])
        if on.any():
            found[on] = _cells(s, addresses[on], width).view(kind).reshape(-1).astype(_UNSIGNED[size])
        vector[:] = found
        return
    for k in np.flatnonzero(on).tolist():  # in order: the last one stays where two meet
        s.memory.view(int(addresses[k]), width)[:] = vector[k : k + 1].astype(kind).view(np.uint8)
        s.wrote(int(addresses[k]), width)


def _cells(s: VectorState, addresses: Array, width: int) -> Array:
    """The bytes at each address, as rows."""
    low, high = int(addresses.min()), int(addresses.max())
    window = s.memory.find(low)
    if window is None or high + width > window.end:
        return np.stack([s.memory.view(int(address), width) for address in addresses])
    places = addresses - window.start
    cells: Array = window.data[places if width == 1 else places[:, None] + np.arange(width)]
    return cells


# which words of memory each of the instructions moves: VLD4 goes four times over 64 bytes, VLD2 twice over 32
_FOUR = ((0, 1, 10, 11), (2, 3, 12, 13), (4, 5, 14, 15), (6, 7, 8, 9))
_TWO = ((0, 1, 6, 7), (2, 3, 4, 5))


def interleaved(i: Instruction, s: VectorState, four: bool, loading: bool) -> Operation:
    """VLD2, VLD4, VST2, VST4: element k of memory belongs to register k mod 2 or 4. Not predicated."""
    registers, size = 4 if four else 2, i["s"]
    if (not four and i["q"] > 1) or i["d"] + registers > 8:
        return _undefined(i)
    words, per_word = (_FOUR if four else _TWO)[i["q"]], 4 >> size
    vectors = [s.unsigned[size][i["d"] + k] for k in range(registers)]
    # where in memory, and for each element there its vector and its place in it
    moves = [
        (4 * word, [(k % registers, k // registers) for k in range(word * per_word, (word + 1) * per_word)])
        for word in words
    ]

    def run() -> None:
        base = s.register(i["n"])
        for offset, elements in moves:
            cells = s.memory.view(base + offset & _MASK, 4).view(_UNSIGNED[size])
            for k, (vector, place) in enumerate(elements):
                if loading:
                    vectors[vector][place] = cells[k]
                else:
                    cells[k] = vectors[vector][place]
            if not loading:
                s.wrote(base + offset & _MASK, 4)
        if i["w"]:
            s.set_register(i["n"], base + 16 * registers)

    return run


def _undefined(i: Instruction) -> Operation:
    def run() -> None:
        raise NotModelledError(f"{i.name} ({i.word >> 16:04x} {i.word & 0xFFFF:04x}) is undefined")

    return run


LOADS: tuple[InstructionEntry, ...] = (
    entry("VLDR or VSTR", "1110 110p a0wl nnnn ddd1 111s siii iiii", contiguous),
    entry("VLDR or VSTR, resized", "111u 110p a0wl knnn ddd0 111s siii iiii", resized),
    entry("VLDR, gathered", "111u 1100 1001 nnnn ddd0 111s sk0k mmmo", gather, True),
    entry("VSTR, scattered", "1110 1100 1000 nnnn ddd0 111s sk0k mmmo", gather, False),
    entry("VLDRW by a vector", "1111 1101 a0w1 mmm0 ddd1 1110 0iii iiii", gather_from_vector, True),
    entry("VSTRW by a vector", "1111 1101 a0w0 mmm0 ddd1 1110 0iii iiii", gather_from_vector, False),
    entry("VLD2", "1111 1100 10w1 nnnn ddd1 111s sqq0 0000", interleaved, False, True, outside=True),
    entry("VLD4", "1111 1100 10w1 nnnn ddd1 111s sqq0 0001", interleaved, True, True, outside=True),
    entry("VST2", "1111 1100 10w0 nnnn ddd1 111s sqq0 0000", interleaved, False, False, outside=True),
    entry("VST4", "1111 1100 10w0 nnnn ddd1 111s sqq0 0001", interleaved, True, False, outside=True),
)
