"""Constants: one after the other in flash, in the order in which the network reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from atonc.compiler.place.lifetimes import Lifetime
from atonc.compiler.place.pools import BoardMemory, usable
from atonc.compiler.plan.types import Buffer
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED


@dataclass(frozen=True)
class ConstantLayout:
    addresses: dict[str, int]
    ends: dict[str, int]  # pool -> first free address
    left: tuple[Lifetime, ...]  # no room outside the chip: they have to live in RAM


def place_constants(constants: Sequence[Lifetime], board: BoardMemory, encrypted: bool = False) -> ConstantLayout:
    """Read-only memory first, then external RAM that the board wants used for constants. `encrypted`: those that only
    engines read come first, so that they are one region; the processor would see the others as ciphertext."""
    homes = [pool for pool in board.read_only if not board.is_filled(pool)]
    homes += [pool for pool in board.external_ram if pool.constants_preferred]
    limits = {pool.name: usable([pool]) for pool in homes}
    cursors = {name: start for name, (start, _) in limits.items()}
    addresses: dict[str, int] = {}
    left = []
    for constant in sorted(constants, key=_streamed_first if encrypted else _reading_order):
        known = board.constants_at and board.constants_at.get(hashlib.sha256(constant.buffer.data).digest())
        if known:
            addresses[constant.buffer.name] = known
            continue
        size = constant_room(constant.buffer)
        home = next((name for name, (_, end) in limits.items() if cursors[name] + size <= end), None)
        if home is None:
            left.append(constant)
            continue
        addresses[constant.buffer.name] = cursors[home]
        cursors[home] += size
    ends = {name: end for name, end in cursors.items() if end > limits[name][0]}
    return ConstantLayout(addresses, ends, tuple(left))


def constant_room(buffer: Buffer) -> int:
    """Counts bytes with padding: the next one begins where engines may start."""
    return -(-buffer.size_bytes // ALIGNED) * ALIGNED


def _streamed_first(constant: Lifetime) -> tuple[bool, tuple[int, str]]:
    return any(access.by_cpu for access in constant.accesses), _reading_order(constant)


def _reading_order(constant: Lifetime) -> tuple[int, str]:
    return min((a.step for a in constant.accesses), default=0), constant.buffer.name
