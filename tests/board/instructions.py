"""A program that executes recorded cases: instructions on a state of the processor and a piece of memory each.

One record: 8 vectors, r0 to r12 and lr, VPR, flags, address of the code, whether it faulted, memory. The program loads
the state, runs the code, stores the state, and goes on to the next record. `benchmarks/instructions.py` makes such
programs, and has QEMU execute them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.machine.emu.board.blocks import AREA_BYTES, area_of
from atonc.machine.emu.board.core import Core
from atonc.machine.emu.board.system import Clock, Nvic, SystemControl

CODE, DATA, STACK, RECORDS = 0x0000_0000, 0x2000_0000, 0x2000_8000, 0x2100_0000
VECTORS, REGISTERS, VPR, FLAGS, START, FAULT, MEMORY, RECORD = 0, 128, 184, 188, 192, 196, 208, 464
MEMORY_BYTES = RECORD - MEMORY
_SIZES = {CODE: 0x8_0000, DATA: 0x1_0000, RECORDS: 0x40_0000}


@dataclass(frozen=True)
class Program:
    segments: tuple[tuple[int, bytes], ...]  # address, contents; the vector table is at 0
    records: bytes

    @property
    def count(self) -> int:
        return len(self.records) // RECORD


def make_core() -> Core:
    """The processor of the virtual board with memory for a program, its data and its records."""
    clock, nvic = Clock(), Nvic()
    system = SystemControl(nvic, clock)
    core = Core(clock, nvic, system)
    memories = {base: np.zeros(size, np.uint8) for base, size in _SIZES.items()}
    for base in list(memories):
        memories[area_of(base)] = np.zeros(AREA_BYTES, np.uint8)
        core.blocks.own_areas.add(area_of(base))
    for base, data in memories.items():
        core.uc.mem_map_ptr(base, data.size, 7, data.ctypes.data)
        core.memory.add(base, data)
    core.uc.mmio_map(
        0xE000_0000, 0x10_0000,
        lambda _, o, s, __: system.read(o, s), None,
        lambda _, o, s, v, __: system.write(o, s, v), None,
    )  # fmt: skip
    return core


def on_board(program: Program) -> bytes:
    """The records as the virtual board's processor leaves them."""
    core = make_core()
    for address, data in (*program.segments, (RECORDS, program.records)):
        core.memory.view(address, len(data))[:] = np.frombuffer(data, np.uint8)
    stack, reset = core.memory.view(CODE, 8).view("<u4").tolist()
    core.start(reset, stack)
    halt = core.run(1 << 40, 1 << 60)
    assert halt.reason == "bkpt", halt
    return core.memory.view(RECORDS, len(program.records)).tobytes()


def comparable(record: bytes) -> bytes:
    """Without the bits of VPR that mean nothing."""
    changed = bytearray(record)
    changed[VPR + 3] = 0
    return bytes(changed)


def difference(ours: bytes, theirs: bytes) -> str:
    """What differs between two records that were executed; empty when nothing does."""
    ours, theirs = comparable(ours), comparable(theirs)
    parts = []
    for k in range(8):
        a, b = (side[16 * k : 16 * k + 16][::-1].hex() for side in (ours, theirs))
        parts += [f"q{k} {a} not {b}"] if a != b else []
    places = {f"r{k if k < 13 else 14}": REGISTERS + 4 * k for k in range(14)} | {"vpr": VPR, "flags": FLAGS}
    for name, offset in places.items():
        a, b = (struct.unpack_from("<I", side, offset)[0] for side in (ours, theirs))
        parts += [f"{name} {a:08x} not {b:08x}"] if a != b else []
    return "; ".join(parts + (["memory"] if ours[MEMORY:] != theirs[MEMORY:] else []))


# ------------------------------------------------------------------------------------------------------ recorded cases


def save(path: Path, program: Program, answers: bytes, names: list[str]) -> None:
    """The answers as what changes: most of a state stays, and zeros take no room."""
    before, after = (np.frombuffer(side, np.uint8).reshape(-1, RECORD) for side in (program.records, answers))
    parts = {f"segment{k}": np.frombuffer(data, np.uint8) for k, (_, data) in enumerate(program.segments)}
    addresses = np.array([address for address, _ in program.segments], np.uint32)
    np.savez_compressed(path, addresses=addresses, before=before, changed=before ^ after, names=names, **parts)  # type: ignore[arg-type]


def load(path: Path) -> tuple[Program, bytes, list[str]]:
    stored = np.load(path)
    segments = tuple(
        (int(address), stored[f"segment{k}"].tobytes()) for k, address in enumerate(stored["addresses"].tolist())
    )
    before = stored["before"]
    return Program(segments, before.tobytes()), (before ^ stored["changed"]).tobytes(), stored["names"].tolist()
