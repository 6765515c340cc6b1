"""Proves steps that copy weights ahead against the same steps without copies, knowing nothing of how they were made.

Whatever a step did it still does; what is new are copies, byte for byte, of constants; and an engine that reads a copy
instead of a constant finds all of it written in earlier steps, once. That nothing else uses the RAM of a copy in the
meantime is a matter of addresses: `place.check` proves it from the lives of buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.task import ENGINE, EngineUse
from atonc.compiler.plan.types import Buffer, CpuPlan, DmaPlan, EpochPlan, Ride, StepPlan
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.machine.hw.units.switch import Link

SAME = "a step does what it did before copies came along"
COPY = "a copy moves bytes of one constant to the same place of its copy"
WHOLE = "a copy is whole before the step that reads it"
ONCE = "every byte of a copy is written once"
COUNTS = "an epoch has no more engines than the chip"
ONE_LIST = "the DMA works through one list at a time, and somebody awaits it"


def check(
    before: Sequence[StepPlan], after: Sequence[StepPlan], copies: Mapping[str, Buffer]
) -> Iterator[Finding]:
    """`copies`: buffer -> the constant that it stands for."""
    if len(before) != len(after):
        yield Finding(SAME, "the program", f"{len(after)} steps for {len(before)}")
    written: dict[str, list[tuple[int, int]]] = {name: [] for name in copies}
    running: Sequence[Ride] = ()
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        where = f"step {number}, {new.title}"
        if new.dma is not None:
            yield from (Finding(rule, where, seen) for rule, seen in _lists(new.dma, running, copies, written))
            running = new.dma.starts if new.dma.starts else () if new.dma.waits else running
        if isinstance(old, CpuPlan) or isinstance(new, CpuPlan):
            if old != replace(new, dma=old.dma):
                yield Finding(SAME, where, "another step")
            continue
        yield from (Finding(rule, where, seen) for rule, seen in _epoch(old, new, copies, written))
    if running:
        yield Finding(ONE_LIST, "the program", f"it ends while {running[0].copy} is being copied")


def _lists(
    dma: DmaPlan, running: Sequence[Ride], copies: Mapping[str, Buffer], written: dict[str, list[tuple[int, int]]]
) -> Iterator[tuple[str, str]]:
    """What is awaited has arrived; only then another list begins."""
    if bool(running) != dma.waits:
        yield ONE_LIST, f"{len(running)} copies are under way, and they are {'' if dma.waits else 'not '}awaited here"
    for ride in running if dma.waits else ():
        constant, span = copies.get(ride.copy), (ride.offset, ride.offset + ride.size_bytes)
        if constant is None or constant.name != ride.constant or not 0 <= span[0] < span[1] <= constant.size_bytes:
            yield COPY, f"the DMA copies bytes {span} of {ride.constant} to {ride.copy}"
        elif any(low < span[1] and high > span[0] for low, high in written[ride.copy]):
            yield ONCE, f"the DMA writes bytes {span} of {ride.copy} again"
        else:
            written[ride.copy].append(span)


def _epoch(
    old: EpochPlan, new: EpochPlan, copies: Mapping[str, Buffer], written: dict[str, list[tuple[int, int]]]
) -> Iterator[tuple[str, str]]:
    if new.units != old.units or new.links[: len(old.links)] != old.links:
        yield SAME, "other units or links"
    for unit, use in old.engines.items():
        now = new.engines.get(unit)
        if now is None or now.config != use.config or now.follows != use.follows:
            yield SAME, f"{unit} is set up in another way"
        elif now.buffer != use.buffer:
            constant = copies.get(now.buffer)
            if constant is None or constant.name != use.buffer or use.config.to_memory:
                yield SAME, f"{unit} uses {now.buffer} instead of {use.buffer}"
            elif _covered(written[now.buffer]) < constant.size_bytes:
                yield WHOLE, f"{unit} reads {now.buffer}, of which {_covered(written[now.buffer])} bytes are there"
    extra = {unit: use for unit, use in new.engines.items() if unit not in old.engines}
    writers = sum(bool(use.config.to_memory) for use in new.engines.values())
    if len(new.engines) > UNITS[ENGINE] or writers > MOST_WRITERS or len(new.engines) - writers > MOST_READERS:
        yield COUNTS, f"{len(new.engines) - writers} readers and {writers} writers"
    yield from _rides(extra, new, new.links[len(old.links) :], copies, written)


def _rides(
    extra: Mapping[str, EngineUse],
    new: EpochPlan,
    links: Sequence[Link],
    copies: Mapping[str, Buffer],
    written: dict[str, list[tuple[int, int]]],
) -> Iterator[tuple[str, str]]:
    wired = {(link.source, link.destination) for link in new.links[len(new.links) - len(links) :]}
    if len(wired) != len(links) or 2 * len(wired) != len(extra) or {u for pair in wired for u in pair} != set(extra):
        yield COPY, f"{len(extra)} engines on {len(links)} links"
        return
    for source, target in sorted(wired):
        reader, writer = extra[source], extra[target]
        constant = copies.get(writer.buffer)
        spans = reader.config.span(), writer.config.span()
        plain = all(use.config.raw and use.config.frames == 1 for use in (reader, writer))
        directions = (reader.config.to_memory, writer.config.to_memory)
        same = constant is not None and constant.name == reader.buffer and spans[0] == spans[1]
        if not same or not plain or directions != (0, 1):
            yield COPY, f"{source} reads {reader.buffer} {spans[0]}, {target} writes {writer.buffer} {spans[1]}"
        elif any(low < spans[1][1] and high > spans[1][0] for low, high in written[writer.buffer]):
            yield ONCE, f"{target} writes bytes {spans[1]} of {writer.buffer} again"
        else:
            written[writer.buffer].append(spans[1])


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """Bytes of spans that do not meet each other."""
    return sum(high - low for low, high in spans)
