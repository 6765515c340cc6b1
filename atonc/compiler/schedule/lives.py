"""How many bytes of activations live at each place of a schedule, and whether a move would raise their peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.lives import live_bytes, spans
from atonc.compiler.plan.types import Buffer, BufferKind


class Lives:
    """Each buffer from the first to the last place that touches it; the application writes inputs before all of them
    and reads outputs behind."""

    def __init__(
        self, touched: Iterable[Iterable[str]], buffers: Mapping[str, Buffer], aliases: Mapping[str, str]
    ) -> None:
        self.buffers, self.aliases = buffers, aliases
        places = [dict.fromkeys(root(name, aliases) for name in names) for names in touched]
        starts, ends = (
            {root(buffer.name, aliases) for buffer in buffers.values() if buffer.kind in (kind, BufferKind.STATE)}
            for kind in (BufferKind.INPUT, BufferKind.OUTPUT)
        )
        lives = spans(places, starts, ends)
        self.first = {name: first for name, (first, _) in lives.items()}  # place where a memory begins to live
        self.bytes = live_bytes(((self.size_bytes(name), *span) for name, span in lives.items()), len(places))

    def grows(self, size_bytes: int, first: int, last: int) -> bool:
        """Whether the peak is higher if so much lives from `first` on, instead of from `last`."""
        return bool(self.bytes[first:last].max(initial=0) + size_bytes > self.bytes.max(initial=0))

    def begin(self, size_bytes: int, first: int, last: int) -> None:
        """So much lives from `first` on, instead of from `last`."""
        self.bytes[first:last] += size_bytes

    def size_bytes(self, name: str) -> int:
        """The bytes of the memory of a buffer; constants live outside."""
        buffer = self.buffers[root(name, self.aliases)]
        return 0 if buffer.kind == BufferKind.CONSTANT else buffer.size_bytes
