"""Rows of the tables of buffers, and the macros beside them: each member says what its name says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atonc.compiler.emit.c import buffers_info, memories
from atonc.compiler.emit.c.memories import PoolRange
from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.place import board
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.machine.hw.limits import PREFETCH_BYTES


def info(dtype: str, offset: int = 0, zero_point: int = -128) -> buffers_info.Info:
    tensor = Tensor("x", (1, 2, 3, 4), dtype, Quantisation.per_tensor(0.5, zero_point) if "int" in dtype else None)
    bits = {"int8": 8, "uint8": 8, "int16": 16, "float32": 32}[dtype]
    buffer = Buffer("x", 24 * bits // 8, BufferKind.ACTIVATION, tensor="x", offset=offset)
    home = Placed(buffer, 0x3420_0040, "npuRAM3", 0, 0)
    network: Any = SimpleNamespace(
        home=lambda name: home, graph=SimpleNamespace(tensors={"x": tensor}), origin=lambda name: ("0x34200000UL", 64),
        labels={"x": "x"}, user_of=lambda name: None, channels_first=(),
    )  # fmt: skip
    return buffers_info.tensor_info(network, "x", 5)


@pytest.mark.parametrize(
    ("dtype", "integer_bits", "unsigned", "type_"),
    [("int8", 7, 0, "INT8"), ("uint8", 8, 1, "UINT8"), ("int16", 15, 0, "INT16"), ("float32", 0, 0, "FLOAT")],
)
def test_numbers_have_their_bits_and_their_sign(dtype: str, integer_bits: int, unsigned: int, type_: str) -> None:
    members = buffers_info.row("p", info(dtype))
    assert (members["integer_bits"], members["unsigned"], members["type"]) == (integer_bits, unsigned, type_)


def test_a_buffer_begins_ends_and_may_be_read_a_little_further() -> None:
    members = buffers_info.row("p", info("int8"))
    assert [members[f"offset_{name}"] for name in ("start", "end", "limit")] == [64, 88, 88 + PREFETCH_BYTES]
    assert (members["epoch"], members["channels"], members["position"]) == (5, 4, "Last")


def test_memory_that_holds_more_than_the_code_is_unsigned() -> None:
    found = info("int8", offset=128)
    assert (found.type, found.unsigned, found.offsets) == ("UINT8", 1, (0,))
    assert info("int8").offsets == (-128,)


def test_memory_that_ends_where_the_network_begins_is_clear_of_it() -> None:
    pool = board("stm32n6570-dk").on_chip[-1]
    parts = [PoolRange(pool, 0x3420_0000, size_bytes=0x100), PoolRange(pool, 0x3420_0200, b"x", 1)]
    (text,) = memories._clear(parts)
    assert "(end) <= 0x34200000" in text and "(start) >= 0x34200100" in text and "34200200" not in text
