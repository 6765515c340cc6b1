"""The least RAM that any plan of the same programs needs, from the lives of their buffers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class BufferLife:
    """Bytes from one step to another; aliases share one (`owner`)."""

    owner: int  # its address: what lies there at the same time is the same memory
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class NetworkDemand:
    name: str
    buffers: tuple[BufferLife, ...]
    resident_bytes: int = 0
    kept: Mapping[str, int] | None = None  # bytes of this network that must survive: network -> bytes


def least_ram(networks: Sequence[NetworkDemand]) -> int:
    """While one network runs there are its live buffers, what must survive it, and all weights that stay in RAM."""
    residents = sum(one.resident_bytes for one in networks)
    running = []
    for one in networks:
        surviving = sum((other.kept or {}).get(one.name, 0) for other in networks if other is not one)
        running.append(int(live_bytes(one.buffers).max(initial=0)) + surviving)
    return residents + max(running, default=0)


def live_bytes(buffers: Iterable[BufferLife]) -> NDArray[np.int64]:
    """In every step; of buffers at one address that live together the largest counts."""
    rows = list(buffers)
    steps = max((row.last for row in rows), default=-1) + 1
    live = np.zeros(steps, np.int64)
    at: dict[int, list[BufferLife]] = {}
    for row in rows:
        at.setdefault(row.owner, []).append(row)
    for group in at.values():
        most = np.zeros(steps, np.int64)
        for row in group:
            part = most[row.first : row.last + 1]
            np.maximum(part, row.size_bytes, out=part)
        live += most
    return live
