"""What a recipe may ask for: tensors, buffers, constants, scratch memory, options."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from atonc.ir import Array, Graph, Op, Tensor
from atonc.lower.passes_2x import Form, needs_unsigned
from atonc.plan.types import Buffer, BufferKind
from atonc.select.policy import MANY_CHANNELS, USUAL_ROOM, Room

CONVOLUTIONS = ("conv", "dense", "transpose_conv")


@dataclass(frozen=True)
class Meaning:
    """What an operator's epochs compute, how far that may be from exact arithmetic, and what could make it worse."""

    codes: Callable[[Sequence[Any]], Sequence[Any]]  # from those of the inputs to those of the outputs, in integers
    error: float = 0.0  # in codes, before the last rounding
    saturates: bool = False  # inputs unlike those that were expected may take sums beyond their 16 bits


Snapshot = tuple[dict[str, Buffer], dict[str, str], dict[str, str], dict[str, Meaning]]


@dataclass
class Context:
    graph: Graph
    numerics: str = "best"  # or "2.x": the lowering of ST's releases 2.x, number for number
    buffers: dict[str, Buffer] = field(default_factory=dict)
    calibrate: Callable[[], list[Mapping[str, Array]]] | None = None  # runs of the graph on typical inputs
    shifted_copies: dict[str, str] = field(default_factory=dict)  # buffer -> its copy as code + 128
    aliases: dict[str, str] = field(default_factory=dict)  # tensor -> tensor in whose memory it lies
    meanings: dict[str, Meaning] = field(default_factory=dict)  # by operator
    on_cpu: frozenset[str] = frozenset()  # operators that the user wants there
    supplied: frozenset[str] = frozenset()  # inputs and outputs whose memory the application brings
    room: Room = USUAL_ROOM  # the NPU's own RAM
    _scratch: int = 0

    def tensor(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def buffer(self, name: str) -> str:
        """Of an activation: its codes, channel last, without gaps; of a constant where what uses it was not folded."""
        tensor = self.tensor(name)
        if tensor.data is not None and name not in self.graph.outputs:
            return self.constant(tensor.data.tobytes(), name)
        if name not in self.buffers:
            kind = BufferKind.ACTIVATION
            if name in self.graph.inputs:
                kind = BufferKind.INPUT
            elif name in self.graph.outputs:
                kind = BufferKind.OUTPUT
            size = tensor.elements * item_bytes(tensor)
            offset = 128 if kind == BufferKind.ACTIVATION and name in self.shifted else 0
            self.buffers[name] = Buffer(name, size, kind, name, offset)
        return name

    def snapshot(self) -> Snapshot:
        """What a recipe that refuses must leave as it was."""
        return dict(self.buffers), dict(self.aliases), dict(self.shifted_copies), dict(self.meanings)

    def restore(self, before: Snapshot) -> None:
        buffers, aliases, copies, meanings = before
        self.buffers, self.aliases, self.shifted_copies = dict(buffers), dict(aliases), dict(copies)
        self.meanings = dict(meanings)

    @cached_property
    def shifted(self) -> frozenset[str]:
        """Tensors that are stored as code + 128: their zero is -128, so that they become features without an offset.

        Worth it where a convolution reads them that has a window or many channels, and possible where convolutions
        write and read them and nobody else does.
        """
        worth = self._summed_in_large_parts if self.numerics == "2.x" else self._worth_shifting
        return frozenset(name for name in self.graph.tensors if worth(name))

    def _worth_shifting(self, name: str) -> bool:
        readers = self.graph.consumers.get(name, [])
        if not self._between_convolutions(name) or any(self._wants_signs(op) for op in readers):
            return False
        return any(self._gains(op) for op in readers)

    def _between_convolutions(self, name: str) -> bool:
        """Written and read by convolutions only, as codes whose zero is -128."""
        tensor, producer = self.tensor(name), self.graph.producers.get(name)
        readers = self.graph.consumers.get(name, [])
        if producer is None or producer.kind not in CONVOLUTIONS or name in self.graph.outputs:
            return False
        if tensor.dtype != "int8" or tensor.zero_point != -128 or not readers:
            return False
        if any(op.kind not in CONVOLUTIONS or op.inputs[0] != name for op in readers):
            return False
        return not any(op.name in self.on_cpu for op in (producer, *readers))

    def _summed_in_large_parts(self, name: str) -> bool:
        """All readers sum more channels at once than signed features allow, as ST's releases 2.x do."""
        return self._between_convolutions(name) and all(map(self._in_large_parts, self.graph.consumers[name]))

    def _in_large_parts(self, op: Op) -> bool:
        weights, y = self.tensor(op.inputs[1]), self.tensor(op.outputs[0])
        outputs, *window, channels = weights.shape
        plain = op.kind in ("conv", "dense") and int(op.attrs.get("groups", 1)) == 1 and set(window) <= {1}
        form = Form(channels, outputs, y.elements // max(outputs, 1), 1, wide=False)
        return plain and needs_unsigned(form)

    def _wants_signs(self, op: Op) -> bool:
        """Chains of windows with stride 2 or without padding were seen with signed features only."""
        weights = self.tensor(op.inputs[1])
        dense = int(op.attrs.get("groups", 1)) == 1 and len(weights.shape) == 4 and max(weights.shape[1:3]) > 1
        seen = tuple(op.attrs.get("stride", (1, 1))) == (1, 1) and any(op.attrs.get("padding", ()))
        return dense and weights.shape[-1] > 8 and not seen

    def _gains(self, op: Op) -> bool:
        weights = self.tensor(op.inputs[1])
        channels = weights.shape[-1]
        window = weights.shape[1:3] if len(weights.shape) == 4 else (1, 1)
        return channels > (1 if max(window) > 1 else MANY_CHANNELS)

    @cached_property
    def typical(self) -> list[Mapping[str, Array]]:
        """Values of all tensors for a few typical inputs; empty when nobody provides them."""
        return [] if self.calibrate is None else self.calibrate()

    def may_share(self, output: str, source: str) -> bool:
        """Whether two tensors may lie in one memory: not if the application brings two for them."""
        edges = {*self.graph.inputs, *self.graph.outputs}
        if not self.supplied or output not in edges:
            return True
        sharing = {name for name in edges if name != output and self._owner(name) == self._owner(source)}
        return not sharing or not self.supplied & {output, *sharing}

    def _owner(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def alias(self, output: str, source: str) -> None:
        """The output is the same bytes as the source: no movement, one memory."""
        self.buffer(source)
        self.buffer(output)
        self.aliases[output] = source

    def explain(
        self, op: Op, codes: Callable[[Sequence[Any]], Sequence[Any]], error: float = 0.0, saturates: bool = False
    ) -> None:
        """Says what the epochs of an operator compute (see atonc.lower.meaning)."""
        self.meanings[op.name] = Meaning(codes, error, saturates)

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


_ITEM_BYTES = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


def item_bytes(tensor: Tensor) -> int:
    return _ITEM_BYTES.get(tensor.dtype, 4)
