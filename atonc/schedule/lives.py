"""How many bytes of activations live at each place of the works, in the order of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atonc.plan.types import Buffer, BufferKind
from atonc.schedule.types import Work

Place = tuple[int, int]  # numbers of a work and of its group; -1 is its call


class Lives:
    def __init__(self, works: Sequence[Work], buffers: Mapping[str, Buffer], aliases: Mapping[str, str]) -> None:
        self.buffers, self.aliases = buffers, aliases
        self.number: dict[Place, int] = {}
        spans: dict[str, tuple[int, int]] = {}
        for number, (place, names) in enumerate(_touched(works)):
            self.number[place] = number
            for name in {root(name, aliases) for name in names}:
                spans[name] = spans.get(name, (number, 0))[0], number
        self.bytes = np.zeros(len(self.number), np.int64)
        for name, (first, last) in spans.items():
            self.bytes[first : last + 1] += self._size(name)

    def grows(self, name: str, first: Place, last: Place) -> bool:
        """Whether the peak is higher if a buffer lives from `first` on, instead of from `last`."""
        part = self.bytes[self.number[first] : self.number[last]]
        return bool(part.max(initial=0) + self._size(name) > self.bytes.max(initial=0))

    def begin(self, name: str, first: Place, last: Place) -> None:
        """The buffer lives from `first` on, instead of from `last`."""
        self.bytes[self.number[first] : self.number[last]] += self._size(name)

    def _size(self, name: str) -> int:
        buffer = self.buffers[root(name, self.aliases)]
        return 0 if buffer.kind == BufferKind.CONSTANT else buffer.size_bytes


def root(name: str, aliases: Mapping[str, str]) -> str:
    """The buffer in whose memory another one lies."""
    while name in aliases:
        name = aliases[name]
    return name


def _touched(works: Sequence[Work]) -> Iterator[tuple[Place, list[str]]]:
    for number, work in enumerate(works):
        yield (number, -1), [*work.call.inputs, *work.call.outputs] if work.call else []
        for place, group in enumerate(work.groups):
            yield (number, place), [use.buffer for task in group.tasks for use in task.engines.values()]
