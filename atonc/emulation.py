"""A compiled program on the emulator.

NPU epochs run on the emulated units; CPU steps run the exact kernels of the operators, on the values that the program
really has in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from atonc.emit.program import Program
from atonc.emu.bus import Memory
from atonc.emu.npu import run_epoch
from atonc.hw.machine import secure
from atonc.ir import Array, Graph, Tensor
from atonc.lower.context import item_bytes
from atonc.ops import run_op
from atonc.plan.types import CpuPlan

_ON_CHIP = range(0x3400_0000, 0x343C_0000)
_WINDOW = 28  # bits: every controller of external memory has 256 MB of addresses
_SLACK = 1 << 20  # engines may read behind a buffer


class Emulation:
    """A program with its memories, ready to run again and again."""

    def __init__(self, program: Program, graph: Graph) -> None:
        self.program, self.graph = program, graph
        self.ops = {op.name: op for op in graph.ops}
        self.memory = Memory()
        for base, end in _regions(program):
            self.memory.add(f"memory at {base:#010x}", base, end - base)
        for user in program.user_io:
            self.memory.add(user.symbol, user.address, user.limit - user.address)
        for home in program.placed.values():
            if home.buffer.data:
                self.memory.write(home.address, np.frombuffer(home.buffer.data, np.uint8))

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        """Outputs by name (with `observe` every tensor, as the step that wrote it left it)."""
        for name, value in inputs.items():
            self.store(name, value)
        seen: dict[str, Array] = {}
        for step in self.program.steps:
            if isinstance(step.plan, CpuPlan):
                self._cpu(step.plan)
            elif step.epoch is not None:
                run_epoch(step.epoch, self.memory)
            if observe:
                seen |= {n: self.load(n) for n in step.plan.writes() if n in self.graph.tensors}
        return seen | {name: self.load(name) for name in self.graph.outputs}

    def _cpu(self, plan: CpuPlan) -> None:
        op = self.ops[plan.op]
        values = {n: self._value(n) for n in op.inputs if n}
        for name, result in zip(op.outputs, run_op(self.graph, op, values), strict=True):
            self.store(name, result.codes)

    def _value(self, name: str) -> Array:
        tensor = self.graph.tensors[name]
        return tensor.data if tensor.data is not None else self.load(name)

    def load(self, name: str) -> Array:
        tensor, home = self.graph.tensors[name], self.program.placed[name]
        data = self.memory.read(home.address, tensor.elements * item_bytes(tensor))
        if home.buffer.offset:
            data -= np.uint8(home.buffer.offset)
        return data.view(stored_type(tensor)).reshape(tensor.shape)

    def store(self, name: str, value: Array) -> None:
        tensor, home = self.graph.tensors[name], self.program.placed[name]
        data = np.ascontiguousarray(value.astype(stored_type(tensor))).view(np.uint8).reshape(-1)
        if home.buffer.offset:
            data = data + np.uint8(home.buffer.offset)
        self.memory.write(home.address, data)


def _regions(program: Program) -> Iterator[tuple[int, int]]:
    """The chip's RAM, and of each external memory as much as the program uses."""
    yield _ON_CHIP.start, _ON_CHIP.stop
    ends: dict[int, int] = {}
    for home in program.placed.values():
        if not home.supplied and secure(home.address) not in _ON_CHIP:
            window = home.address >> _WINDOW
            ends[window] = max(ends.get(window, 0), home.end)
    yield from ((window << _WINDOW, end + _SLACK) for window, end in sorted(ends.items()))


def stored_type(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(np.uint8) if tensor.dtype == "bool" else np.dtype(tensor.dtype)
