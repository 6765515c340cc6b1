"""Is every byte that a step reads written before? Bytes are followed buffer by buffer, through all steps.

Two kinds of reads do not count: what fills up the last word of packed features, which the CONVACC drops, and sums that
come back in the epoch that writes them, since the CONVACC takes zeros for the first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.plan.aliases import begins, root
from atonc.compiler.plan.types import FILLED, Buffer, CpuPlan, EpochPlan, Ride, StepPlan
from atonc.machine.base.errors import ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.footprint import Flags, view, walks
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

FEATURES, SUMS = 0, 2  # ports of a CONVACC


@dataclass(frozen=True)
class Stray:
    """A read of bytes that nobody wrote, or an access outside the buffer."""

    step: int
    title: str
    unit: str
    buffer: str
    seen: str


class BufferContents:
    """Which bytes of each buffer hold something."""

    def __init__(self, buffers: Mapping[str, Buffer], aliases: Mapping[str, str]) -> None:
        self.aliases, self.flags = aliases, dict[str, Flags | None]()  # None: all of it is written
        self.begins = {name: begins(name, buffers, aliases) for name in aliases}
        sizes: dict[str, int] = {}
        for name, buffer in buffers.items():
            end = self.begins.get(name, 0) + buffer.size_bytes
            sizes[self._root(name)] = max(sizes.get(self._root(name), 0), end)
        self.sizes = sizes

    def fill(self, name: str, size_bytes: int) -> None:
        self.fill_part(name, 0, size_bytes)

    def fill_part(self, name: str, offset: int, size_bytes: int) -> None:
        flags = self._flags(name)
        if flags is not None:
            start = self.begins.get(name, 0) + offset
            flags[start : start + size_bytes] = True
            self._settle(name, flags)

    def write(self, name: str, config: StrengConfig) -> None:
        flags = self._flags(name)
        if flags is not None:
            for walk in walks(config):
                view(flags, walk, -self.begins.get(name, 0))[...] = True
            self._settle(name, flags)

    def outside(self, name: str, config: StrengConfig) -> str:
        """What an engine touches beyond the buffer; nothing if all is well."""
        (low, high), size = config.span(), self.sizes[self._root(name)] - self.begins.get(name, 0)
        return f"bytes {low}..{high - 1} of {size}" if low < 0 or high > size else ""

    def missing(self, name: str, config: StrengConfig) -> str:
        """What a reader would find that nobody wrote; nothing if all is well."""
        if beyond := self.outside(name, config):
            return beyond
        flags = self._flags(name)
        if flags is None or all(view(flags, walk, -self.begins.get(name, 0)).all() for walk in walks(config)):
            return ""
        return f"unwritten bytes among {config.span()[0]}..{config.span()[1] - 1}"

    def holes(self, name: str, size_bytes: int) -> int:
        flags, start = self._flags(name), self.begins.get(name, 0)
        return 0 if flags is None else int(size_bytes - np.count_nonzero(flags[start : start + size_bytes]))

    def _root(self, name: str) -> str:
        return root(name, self.aliases)

    def _flags(self, name: str) -> Flags | None:
        memory = self._root(name)
        if memory not in self.flags:
            self.flags[memory] = np.zeros(self.sizes[memory], np.bool_)
        return self.flags[memory]

    def _settle(self, name: str, flags: Flags) -> None:
        if flags.all():
            self.flags[self._root(name)] = None


def strays(
    plans: Sequence[StepPlan],
    buffers: Mapping[str, Buffer],
    aliases: Mapping[str, str],
    inputs: Collection[str],
    outputs: Collection[str] = (),
) -> Iterator[Stray]:
    """All of them; in the end the application reads the outputs."""
    contents = BufferContents(buffers, aliases)
    for name, buffer in buffers.items():
        if name in inputs or buffer.kind in FILLED:
            contents.fill(name, buffer.size_bytes)
    running: Sequence[Ride] = ()
    for step, plan in enumerate(plans, 1):
        if plan.dma is not None:
            for ride in running if plan.dma.waits else ():
                contents.fill_part(ride.copy, ride.offset, ride.size_bytes)
            running = plan.dma.starts
        if isinstance(plan, CpuPlan):
            yield from _whole(step, plan.title, plan.inputs, contents, buffers)
            for name in plan.outputs:
                contents.fill(name, buffers[name].size_bytes)
        else:
            yield from _epoch(step, plan, contents)
    yield from _whole(len(plans), "the application", outputs, contents, buffers)


def require_written(
    plans: Sequence[StepPlan],
    buffers: Mapping[str, Buffer],
    aliases: Mapping[str, str],
    inputs: Collection[str],
    outputs: Collection[str],
) -> None:
    found = next(strays(plans, buffers, aliases, inputs, outputs), None)
    if found is not None:
        raise ToolError(
            f"{found.unit} {found.seen} ({found.buffer})",
            where=f"step {found.step}, {found.title}",
            rule="every byte that is read was written before, and engines stay inside their buffers",
            remedy="report the model: the compiler must not produce this",
        )


def _whole(
    step: int, title: str, names: Collection[str], contents: BufferContents, buffers: Mapping[str, Buffer]
) -> Iterator[Stray]:
    for name in names:
        if holes := contents.holes(name, buffers[name].size_bytes):
            yield Stray(step, title, "CPU", name, f"reads {holes} unwritten bytes")


def _epoch(step: int, plan: EpochPlan, contents: BufferContents) -> Iterator[Stray]:
    for unit, use in plan.engines.items():
        if use.config.to_memory or _returns(plan, unit):
            continue
        if seen := contents.missing(use.buffer, _taken(plan, unit, use.config)):
            yield Stray(step, plan.title, unit, use.buffer, f"reads {seen}")
    for unit, use in plan.engines.items():
        if not use.config.to_memory:
            continue
        if seen := contents.outside(use.buffer, use.config):
            yield Stray(step, plan.title, unit, use.buffer, f"writes {seen}")
        else:
            contents.write(use.buffer, use.config)


def _returns(plan: EpochPlan, unit: str) -> bool:
    """Whether the reader brings back the sums that a writer of its epoch leaves at the same place."""
    mine = plan.engines[unit]
    written = any(
        use.buffer == mine.buffer and use.config.to_memory and use.config.address == mine.config.address
        for use in plan.engines.values()
    )
    return written and all(
        link.port == SUMS and isinstance(plan.units.get(link.destination), ConvaccConfig)
        for link in plan.links
        if link.source == unit
    )


def _taken(plan: EpochPlan, unit: str, config: StrengConfig) -> StrengConfig:
    """The bytes that units take of what the engine reads."""
    if config.element_bytes < 3:
        return config
    link = next(link for link in plan.links if link.source == unit)
    taker = plan.units.get(link.destination)
    if not isinstance(taker, ConvaccConfig) or link.port != FEATURES:
        return config
    plain = changed(config, size1=0, size2=0)
    if not config.raw:
        return changed(plain, depth=taker.batch)
    elements = taker.line_elements * taker.height
    return changed(plain, fsize_low=elements & 0xFFFF, fsize_high=elements >> 16)
