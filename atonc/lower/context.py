"""What a recipe may ask for: tensors, buffers, constants, scratch memory, options."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from atonc.ir import Graph, Tensor
from atonc.plan.types import Buffer, BufferKind


@dataclass
class Context:
    graph: Graph
    numerics: str = "best"  # or "2.x": the lowering of ST's releases 2.x, number for number
    allow_unproven: bool = False
    buffers: dict[str, Buffer] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # tensor -> tensor in whose memory it lies
    _scratch: int = 0

    def tensor(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def buffer(self, name: str) -> str:
        """The buffer of an activation: its codes, channel last, without gaps."""
        if name not in self.buffers:
            tensor = self.tensor(name)
            kind = BufferKind.ACTIVATION
            if name in self.graph.inputs:
                kind = BufferKind.INPUT
            elif name in self.graph.outputs:
                kind = BufferKind.OUTPUT
            size = tensor.elements * item_bytes(tensor)
            self.buffers[name] = Buffer(name, size, kind, name)
        return name

    def alias(self, output: str, source: str) -> None:
        """The output is the same bytes as the source: no movement, one memory."""
        self.buffer(source)
        self.buffer(output)
        self.aliases[output] = source

    def constant(self, data: bytes, label: str) -> str:
        """A constant buffer; equal contents share one."""
        name = f"{label}:{hashlib.sha256(data).hexdigest()[:16]}"
        self.buffers.setdefault(name, Buffer(name, len(data), BufferKind.CONSTANT, data=data))
        return name

    def scratch(self, size_bytes: int, label: str) -> str:
        """Memory between the epochs of one operator; it lives from its first to its last use."""
        self._scratch += 1
        name = f"{label}#{self._scratch}"
        self.buffers[name] = Buffer(name, size_bytes, BufferKind.SCRATCH)
        return name


def item_bytes(tensor: Tensor) -> int:
    return {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int64": 8, "float64": 8}.get(
        tensor.dtype, 4
    )
