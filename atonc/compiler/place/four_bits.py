"""Weights of 4 bits, two to a byte in flash, where a copy in RAM is what engines read: it is unpacked when it is made.

It needs nothing that is not known of the chip. Engines might unpack such a stream themselves; no published program
shows how, so constants that are read from flash stay bytes, unless `--allow-unproven w4-stream` or a board says
otherwise (`lower/conv/engines.py`): those are packed before they get a place, and a copy of them stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from atonc.compiler.place.constants import constant_room
from atonc.compiler.place.types import Placed
from atonc.compiler.plan import half_bytes
from atonc.compiler.plan.types import Buffer, BufferKind, StepPlan


def packed(buffer: Buffer) -> Buffer | None:
    """The same values in half the bytes, the first in the low bits; None where one needs more than 4 bits."""
    data = None if buffer.half_bytes else half_bytes.packed(buffer.data)
    return None if data is None else replace(buffer, size_bytes=len(data), data=data, four_bits=True)


def unpacked(buffer: Buffer, size_bytes: int) -> bytes:
    """The values as engines take them."""
    pairs = np.frombuffer(buffer.data, np.int8)
    both = np.stack([(pairs << 4).astype(np.int8) >> 4, pairs >> 4], axis=1)
    return both.astype(np.int8).tobytes()[:size_bytes]


def with_packed(placed: Mapping[str, Placed], plans: Sequence[StepPlan]) -> dict[str, Placed]:
    """`placed`: with copies. Constants that nobody but a copy needs are packed; those behind them move up."""
    copied = {home.copy_of for home in placed.values() if home.copy_of}
    read = {placed[name].address for plan in plans for name in plan.reads() if name in placed}
    moved, saved = dict(placed), dict[str, int]()  # by pool
    for homes in _by_address(placed):
        pool, room = homes[0].pool, homes[0].reserved_bytes
        only = homes[0].buffer if len(homes) == 1 and homes[0].address not in read else None
        small = packed(only) if only is not None and only.name in copied else None
        left = room if small is None else constant_room(small)
        for home in homes:
            address = home.address - saved.get(pool, 0)
            moved[home.buffer.name] = replace(home, buffer=small or home.buffer, address=address, reserved_bytes=left)
        saved[pool] = saved.get(pool, 0) + room - left
    return moved


def _by_address(placed: Mapping[str, Placed]) -> Iterator[list[Placed]]:
    """Constants, from the first address to the last; several names may share one."""
    constants = [home for home in placed.values() if home.buffer.kind == BufferKind.CONSTANT]
    for _, homes in groupby(sorted(constants, key=lambda home: home.address), key=lambda home: home.address):
        yield list(homes)
