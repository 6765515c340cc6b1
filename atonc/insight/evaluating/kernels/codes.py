"""Operators that look at one or two codes at a time: all their answers in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.elementwise.binary import TwoOperands
from atonc.compiler.lower.elementwise.two_streams import Operand
from atonc.compiler.lower.semantics.arithmetic import CODES, looked_up
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class OneCode:
    """`table`: answers by the byte that a code is in memory; [256], or [256, channels] by the last axis."""

    table: Array

    def __call__(self, codes: Array) -> Array:
        index = codes.view(np.uint8)
        if self.table.ndim == 1:
            return self.table.take(index)
        channels = self.table.shape[1]
        return self.table.reshape(-1).take(index.astype(np.intp) * channels + np.arange(channels))


def by_byte(answers: Array, signed: bool = True) -> Array:
    """Answers in the order of the codes, in the order of their bytes."""
    return np.ascontiguousarray(np.roll(answers, -128, axis=0) if signed else answers)


class TwoCodes:
    """Both operands change, or one is a constant: a table of all pairs where both have 8 bits."""

    def __init__(self, meaning: TwoOperands, out_type: np.dtype[Any]) -> None:
        self.meaning, self.out_type = meaning, out_type
        op, context = meaning.op, meaning.context
        self.shape = context.tensor(op.outputs[0]).shape
        self.operands = [_OperandReader(operand, meaning) for operand in meaning.operands]
        self.table: Array | None = None
        if all(reader.small for reader in self.operands):
            x, y = (reader.answers for reader in self.operands)
            table = meaning.clipped(x[:, None], y[None, :]).astype(out_type)
            self.table = by_byte(by_byte(table).T).T.reshape(-1)

    def __call__(self, values: Sequence[Array | None]) -> Array:
        given = dict(zip(self.meaning.op.inputs, values, strict=True))
        samples = next(len(given[r.name]) for r in self.operands if r.name)  # type: ignore[arg-type]
        x, y = (reader.numbers(given, self.table is not None) for reader in self.operands)
        shape = (samples, *self.shape)
        if self.table is None:
            found = self.meaning.clipped(np.broadcast_to(x, shape), np.broadcast_to(y, shape))
            return found.astype(self.out_type)
        index = x.view(np.uint8).astype(np.uint16)
        index <<= 8
        index = index | y.view(np.uint8)
        return np.broadcast_to(self.table.take(index), shape)


class _OperandReader:
    """One operand: a constant of the output's shape, or an input, perhaps through a table."""

    def __init__(self, operand: Operand, meaning: TwoOperands) -> None:
        context, rank = meaning.context, len(meaning.context.tensor(meaning.op.outputs[0]).shape)
        buffer = context.buffers[operand.buffer]
        self.operand, self.rank = operand, rank
        self.constant: Array | None = None
        self.name = ""
        if buffer.kind == BufferKind.CONSTANT:
            wide = operand.element_bytes == 2
            shape = context.tensor(meaning.op.outputs[0]).shape
            self.constant = np.frombuffer(buffer.data, "<i2" if wide else np.int8).reshape(shape)
            self.small = not wide
        else:
            self.name = operand.source or operand.buffer
            self.small = context.tensor(self.name).dtype == "int8"

    @property
    def answers(self) -> Array:
        """What each of the codes -128..127 stands for."""
        if self.constant is not None or self.operand.table is None:
            return CODES
        return looked_up(self.operand.table, CODES)

    def numbers(self, given: dict[str, Array | None], as_codes: bool) -> Array:
        if self.constant is not None:
            return self.constant[None]
        value = given[self.name]
        assert value is not None
        value = value.reshape(value.shape[0], *(1,) * (self.rank + 1 - value.ndim), *value.shape[1:])
        if as_codes or self.operand.table is None:
            return value
        return looked_up(self.operand.table, value)
