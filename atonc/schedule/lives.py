"""How many bytes of activations live at each place of a schedule, and whether a move would raise their peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from atonc.plan.aliases import root
from atonc.plan.types import Buffer, BufferKind


class Lives:
    """Each buffer from the first to the last place that touches it; the application writes inputs before all of them
    and reads outputs behind."""

    def __init__(
        self, touched: Iterable[Iterable[str]], buffers: Mapping[str, Buffer], aliases: Mapping[str, str]
    ) -> None:
        self.buffers, self.aliases = buffers, aliases
        self.first: dict[str, int] = {}  # place where a memory begins to live
        last: dict[str, int] = {}
        places = 0
        for place, names in enumerate(touched):
            places = place + 1
            for name in {root(name, aliases) for name in names}:
                self.first.setdefault(name, place)
                last[name] = place
        for buffer in buffers.values():
            owner = root(buffer.name, aliases)
            if buffer.kind == BufferKind.INPUT and owner in last:
                self.first[owner] = 0
            elif buffer.kind == BufferKind.OUTPUT and owner in last:
                last[owner] = places - 1
        self.bytes = np.zeros(places, np.int64)
        for name, place in self.first.items():
            self.bytes[place : last[name] + 1] += self.size_bytes(name)

    def grows(self, size_bytes: int, first: int, last: int) -> bool:
        """Whether the peak is higher if so much lives from `first` on, instead of from `last`."""
        return bool(self.bytes[first:last].max(initial=0) + size_bytes > self.bytes.max(initial=0))

    def begin(self, size_bytes: int, first: int, last: int) -> None:
        """So much lives from `first` on, instead of from `last`."""
        self.bytes[first:last] += size_bytes

    def size_bytes(self, name: str) -> int:
        """Of the memory of a buffer; constants live outside."""
        buffer = self.buffers[root(name, self.aliases)]
        return 0 if buffer.kind == BufferKind.CONSTANT else buffer.size_bytes
