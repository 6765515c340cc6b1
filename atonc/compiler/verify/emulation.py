"""A compiled program on the emulator.

NPU epochs run on the emulated units, CPU steps as the C code that is written for them (cpu_code.py). A CPU step sees
only its own buffers, and what it leaves unwritten is no luck of earlier bytes; exact arithmetic judges both kinds of
steps alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.emit.program import Program
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.compiler.lower.context import item_bytes
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.progress import stage
from atonc.machine.emu.bus import AddressSpace, MemoryRegion, canonical
from atonc.machine.emu.dma import Dma
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.machine import secure
from atonc.machine.hw.mpool import MemoryPool

if TYPE_CHECKING:
    from atonc.compiler.verify.cpu_code import CpuCode

_ON_CHIP = range(0x3400_0000, 0x343C_0000)
_WINDOW = 28  # bits: every controller of external memory has 256 MB of addresses
_SLACK = 1 << 20  # engines may read behind a buffer
_UNWRITTEN = 0xA5  # what a CPU step finds where its results shall be


class Emulation:
    """A program with its memories, ready to run again and again."""

    def __init__(self, program: Program, graph: Graph, pools: Iterable[MemoryPool] = ()) -> None:
        self.program, self.graph, self._pools = program, graph, tuple(pools)
        self.memory = AddressSpace(program.four_bits)
        for base, end in _regions(program):
            self.memory.add(f"memory at {base:#010x}", base, end - base)
        for user in program.user_io:
            self.memory.add(user.symbol, user.address, user.limit - user.address)
        for home in program.placed.values():
            if home.buffer.data:
                self.memory.write(home.address, np.frombuffer(home.buffer.data, np.uint8))
        self._dma = Dma(self.memory)
        self.reset()

    def reset(self) -> None:
        """States get their first values, as where a sequence begins."""
        for state in self.program.states:
            self.memory.write(state.address, np.frombuffer(state.first, np.uint8))

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        """Outputs by name (with `observe` every tensor, as the step that wrote it left it). States that are not given
        are those of the run before."""
        for name, value in inputs.items():
            self.store(name, value)
        seen: dict[str, Array] = {}
        self._dma.reset()
        for number, step in enumerate(self.program.steps):
            stage("running on the emulator", number, len(self.program.steps))
            if step.dma is not None:
                self._dma.before(step.dma, f"epoch {step.number}")
            if isinstance(step.plan, CpuPlan):
                self._code.run(step, step.plan, self._buffers(step.plan))
            elif step.epoch is not None:
                self._dma.check(step.epoch)
                run_epoch(step.epoch, self.memory)
            if observe:
                seen |= {n: self.load(n) for n in step.plan.writes() if n in self.graph.tensors}
        self._dma.end()
        return seen | {name: self.load(name) for name in self.graph.outputs}

    @cached_property
    def _code(self) -> CpuCode:
        from atonc.compiler.verify.cpu_code import CpuCode  # with a reader of C, which takes time to import

        return CpuCode(self.program, self.graph, self._pools)

    def _buffers(self, plan: CpuPlan) -> AddressSpace:
        """The memory that a CPU step may touch: what it reads, and what it shall write."""
        placed = self.program.placed
        read, written = ([placed[name] for name in names if name] for names in (plan.inputs, plan.outputs))
        for home in written:
            if not any(home.address < other.end and other.address < home.end for other in read):
                self.memory.view(home.address, home.buffer.size_bytes)[:] = _UNWRITTEN
        return self._windows((*read, *written))

    def _windows(self, homes: Iterable[Placed]) -> AddressSpace:
        """Nothing but these buffers; those that lie in each other are one."""
        found = AddressSpace()
        start = end = 0
        for home in sorted(homes, key=lambda home: (canonical(home.address), -home.end)):
            if found.regions and canonical(home.address) < end:
                found.regions.pop()
            else:
                start = canonical(home.address)
            end = max(end, canonical(home.end))
            found.regions.append(MemoryRegion(home.buffer.name, start, self.memory.view(start, end - start)))
        return found

    def load(self, name: str) -> Array:
        tensor, home = self.graph.tensors[name], self.program.placed[name]
        data = self.memory.read(home.address, tensor.elements * item_bytes(tensor))
        if home.buffer.offset:
            data -= np.uint8(home.buffer.offset)
        value = data.view(stored_type(tensor)).reshape(tensor.shape)
        return value if home.buffer.coarse is None else home.buffer.coarse.codes(value).astype(value.dtype)

    def store(self, name: str, value: Array) -> None:
        tensor, home = self.graph.tensors[name], self.program.placed[name]
        if home.buffer.coarse is not None:
            value = home.buffer.coarse.stored(value)
        data = np.ascontiguousarray(value.astype(stored_type(tensor))).view(np.uint8).reshape(-1)
        if home.buffer.offset:
            data = data + np.uint8(home.buffer.offset)
        self.memory.write(home.address, data)


def _regions(program: Program) -> Iterator[tuple[int, int]]:
    """The chip's RAM, and of each external memory as much as the program uses."""
    yield _ON_CHIP.start, _ON_CHIP.stop
    ends: dict[int, int] = {}
    for home in program.placed.values():
        if not home.user_allocated and secure(home.address) not in _ON_CHIP:
            window = home.address >> _WINDOW
            ends[window] = max(ends.get(window, 0), home.end)
    yield from ((window << _WINDOW, end + _SLACK) for window, end in sorted(ends.items()))


def stored_type(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(np.uint8) if tensor.dtype == "bool" else np.dtype(tensor.dtype)
