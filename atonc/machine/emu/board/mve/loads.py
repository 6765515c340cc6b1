"""Loads and stores of vectors: side by side, widening and narrowing, gathered and scattered, interleaved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.board.mve.families import InstructionEntry, Make, Operation, entry
from atonc.machine.emu.board.mve.state import ALL, Array, VectorState
from atonc.machine.emu.board.v81m.patterns import Instruction

_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32, np.uint64), (np.int8, np.int16, np.int32, np.int64)
_MASK = 0xFFFF_FFFF


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


def gather(loading: bool) -> Make:
    """From, or to, a base plus a vector of offsets; `o` scales them by the size in memory."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size, memory_size = i["s"], i["k"]
        if size < memory_size:
            return _undefined(i)
        offsets = s.unsigned[size][i["m"]]
        shift = memory_size if i["o"] else 0

        def run() -> None:
            addresses = s.register(i["n"]) + (offsets.astype(np.int64) << shift) & _MASK
            _move(s, i["d"], size, memory_size, bool(i.fields.get("u", 1)), addresses, loading)

        return run

    return make


def gather_from_vector(loading: bool) -> Make:
    """From, or to, a vector of addresses plus a number; with w the addresses stay in the vector, also of lanes off."""

    def make(i: Instruction, s: VectorState) -> Operation:
        bases, offset = s.unsigned[2][i["m"]], (i["i"] << 2) * (1 if i["a"] else -1)

        def run() -> None:
            addresses = bases.astype(np.int64) + offset & _MASK
            _move(s, i["d"], 2, 2, True, addresses, loading)
            if i["w"]:
                bases[:] = addresses

        return run

    return make


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


# ---------------------------------------------------------------------------------------------------------- interleaved

# which words of memory each of the instructions moves: VLD4 goes four times over 64 bytes, VLD2 twice over 32
_FOUR = ((0, 1, 10, 11), (2, 3, 12, 13), (4, 5, 14, 15), (6, 7, 8, 9))
_TWO = ((0, 1, 6, 7), (2, 3, 4, 5))


def interleaved(four: bool, loading: bool) -> Make:
    """VLD2, VLD4, VST2, VST4: element k of memory belongs to register k mod 2 or 4. Not predicated."""

    def make(i: Instruction, s: VectorState) -> Operation:
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

    return make


def _undefined(i: Instruction) -> Operation:
    def run() -> None:
        raise NotModelledError(f"{i.name} ({i.word >> 16:04x} {i.word & 0xFFFF:04x}) has an undefined form")

    return run


ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VLDR or VSTR", "1110 110p a0wl nnnn ddd1 111s siii iiii", contiguous),
    entry("VLDR or VSTR, resized", "111u 110p a0wl knnn ddd0 111s siii iiii", resized),
    entry("VLDR, gathered", "111u 1100 1001 nnnn ddd0 111s sk0k mmmo", gather(True)),
    entry("VSTR, scattered", "1110 1100 1000 nnnn ddd0 111s sk0k mmmo", gather(False)),
    entry("VLDRW by a vector", "1111 1101 a0w1 mmm0 ddd1 1110 0iii iiii", gather_from_vector(True)),
    entry("VSTRW by a vector", "1111 1101 a0w0 mmm0 ddd1 1110 0iii iiii", gather_from_vector(False)),
    entry("VLD2", "1111 1100 10w1 nnnn ddd1 111s sqq0 0000", interleaved(False, True), outside=True),
    entry("VLD4", "1111 1100 10w1 nnnn ddd1 111s sqq0 0001", interleaved(True, True), outside=True),
    entry("VST2", "1111 1100 10w0 nnnn ddd1 111s sqq0 0000", interleaved(False, False), outside=True),
    entry("VST4", "1111 1100 10w0 nnnn ddd1 111s sqq0 0001", interleaved(True, False), outside=True),
)
