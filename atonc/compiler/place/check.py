"""Checks a finished layout, knowing nothing of how it was made."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

from atonc.compiler.place.four_bits import unpacked
from atonc.compiler.place.pools import BoardMemory, is_external
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.types import FILLED, Buffer, BufferKind, CpuPlan, StepPlan
from atonc.machine.base.errors import ModelError
from atonc.machine.hw.limits import PREFETCH_BYTES, XSPI_TAIL
from atonc.machine.hw.units.stream_engine import StrengConfig


def check(
    placed: Mapping[str, Placed],
    plans: Sequence[StepPlan],
    board: BoardMemory,
    aliases: Mapping[str, str],
    inputs: Collection[str] = (),
    outputs: Collection[str] = (),
) -> list[Finding]:
    """All findings; an empty list means that the layout is sound."""
    homes = {name: home for name, home in placed.items() if not home.user_allocated}
    return [
        *_overlaps(homes, aliases),
        *_outside_pools(homes, board),
        *_misaligned(homes, plans, {*inputs, *outputs}, aliases),
        *_uses(placed, plans, board),
        *_unwritten(placed, plans, aliases, inputs),
        *_edges(placed, plans, inputs, outputs),
    ]


def require_sound(findings: Sequence[Finding]) -> None:
    if findings:
        first = findings[0]
        raise ModelError(f"{first.seen} ({len(findings)} findings)", where=first.where, rule=first.rule)


def _overlaps(homes: Mapping[str, Placed], aliases: Mapping[str, str]) -> Iterator[Finding]:
    """Sweep over time: at each start of a life, compare with everything alive (sorted by address, neighbours only)."""
    events = sorted((h.first, h.last, h.address, h.end, name) for name, h in homes.items() if h.buffer.size_bytes)
    active: list[tuple[int, int, int, str]] = []  # last, address, end, name
    for first, last, address, end, name in events:
        while active and active[0][0] < first:
            heapq.heappop(active)
        for _, other_address, other_end, other in active:
            if address < other_end and other_address < end and _follow(name, aliases) != _follow(other, aliases):
                yield Finding(
                    "buffers that live together do not overlap",
                    f"{other}, {name}",
                    f"{other_address:#x}..{other_end:#x} and {address:#x}..{end:#x} in step {first}",
                )
        heapq.heappush(active, (last, address, end, name))


def _follow(name: str, aliases: Mapping[str, str]) -> str:
    for _ in aliases:
        if name not in aliases:
            break
        name = aliases[name]
    return name


def _outside_pools(homes: Mapping[str, Placed], board: BoardMemory) -> Iterator[Finding]:
    flash = bool(board.read_only)
    for name, home in homes.items():
        shares = board.pools_at(home.address, home.end)
        if sum(size for _, size in shares) != home.buffer.size_bytes:
            yield Finding("buffers lie inside pools", name, f"{home.address:#x}..{home.end:#x}")
            continue
        pools = [pool for pool, _ in shares]
        constant = home.buffer.kind == BufferKind.CONSTANT
        if home.copy_of and not _holds(home.buffer, homes[home.copy_of].buffer):
            yield Finding("a resident buffer holds the bytes of its constant", name, home.copy_of)
        if not constant and not all(pool.writable for pool in pools):
            yield Finding("what is written lies in RAM", name, home.pool)
        if constant and flash and any(pool.writable and not is_external(pool) for pool in pools):
            yield Finding("constants lie outside the RAM of the chip", name, home.pool)
        tail = PREFETCH_BYTES + (XSPI_TAIL if any(is_external(pool) for pool in pools) else 0)
        if pools and sum(n for _, n in board.pools_at(home.end, home.end + tail)) != tail:
            yield Finding(f"{tail} bytes of memory follow the end", name, f"ends at {home.end:#x}")


def _holds(copy: Buffer, constant: Buffer) -> bool:
    data = unpacked(constant, copy.size_bytes) if constant.four_bits else constant.data
    return data == copy.data


def _misaligned(
    homes: Mapping[str, Placed], plans: Sequence[StepPlan], edges: Collection[str], aliases: Mapping[str, str]
) -> Iterator[Finding]:
    """What the CPU touches has lines of its cache for itself. Of a memory with several parts that goes for the whole,
    and for the input in it: the application writes that while the rest may be older in the cache than in memory."""
    by_cpu = set(edges)
    for plan in plans:
        if isinstance(plan, CpuPlan):
            by_cpu |= plan.reads() | plan.writes()
    by_cpu |= {_follow(name, aliases) for name in by_cpu}
    for name, home in homes.items():
        begins = home.address == homes.get(_follow(name, aliases), home).address
        whole = begins or home.buffer.kind == BufferKind.INPUT
        step = 32 if name in by_cpu and whole and home.buffer.kind != BufferKind.CONSTANT else 16
        if home.address % step:
            yield Finding(f"addresses are multiples of {step}", name, f"{home.address:#x}")


def _uses(placed: Mapping[str, Placed], plans: Sequence[StepPlan], board: BoardMemory) -> Iterator[Finding]:
    for step, plan in enumerate(plans):
        moved = {name for ride in (plan.dma.starts if plan.dma else ()) for name in (ride.constant, ride.copy)}
        for name in sorted(plan.reads() | plan.writes() | moved):
            if name and name not in placed:
                yield Finding("every buffer has an address", f"step {step} {plan.title}", name)
            elif name and not placed[name].user_allocated and not placed[name].first <= step <= placed[name].last:
                yield Finding("a buffer is used only while it lives", f"step {step} {plan.title}", name)
        if isinstance(plan, CpuPlan):
            continue
        for unit, use in plan.engines.items():
            if use.buffer in placed:
                where = f"step {step} {plan.title} {unit}"
                yield from _engine(where, use.config, placed[use.buffer], board)


def _engine(where: str, config: StrengConfig, home: Placed, board: BoardMemory) -> Iterator[Finding]:
    low, high = config.span()
    slack = 0 if config.to_memory else PREFETCH_BYTES  # packed words may run over the end of what is read
    if low < 0 or high > home.buffer.size_bytes + slack:
        seen = f"bytes {low}..{high} of {home.buffer.name} ({home.buffer.size_bytes} bytes)"
        yield Finding("engines stay inside their buffer", where, seen)
    if config.to_memory and home.buffer.kind in FILLED:
        yield Finding("constants are not written", where, home.buffer.name)
    start = home.address + config.address
    pools = [pool for pool, _ in board.pools_at(start, start + 1) if not home.user_allocated]
    slow = any(pool.writable and not board.is_npu_ram(pool) for pool in pools)
    step = 16 if config.to_memory else 8
    if slow and start % step:
        yield Finding(f"engines start at multiples of {step} outside the NPU's own RAM", where, f"{start:#x}")


def _unwritten(
    placed: Mapping[str, Placed], plans: Sequence[StepPlan], aliases: Mapping[str, str], inputs: Collection[str]
) -> Iterator[Finding]:
    """A step that reads what no step wrote before it."""
    filled = {_follow(name, aliases) for name in inputs}
    filled |= {_follow(n, aliases) for n, h in placed.items() if h.buffer.kind in FILLED}
    for step, plan in enumerate(plans):
        brought = {ride.copy for ride in (plan.dma.starts if plan.dma else ())}
        writes = {_follow(name, aliases) for name in plan.writes() | brought}
        for name in sorted(plan.reads()):
            owner = _follow(name, aliases)
            if name and owner not in filled and owner not in writes:
                yield Finding("a buffer is written before it is read", f"step {step} {plan.title}", name)
        filled |= writes


def _edges(
    placed: Mapping[str, Placed], plans: Sequence[StepPlan], inputs: Collection[str], outputs: Collection[str]
) -> Iterator[Finding]:
    for name in (*inputs, *outputs):
        if name not in placed:
            yield Finding("every buffer has an address", "edge of the network", name)
        elif name in inputs and placed[name].first != 0:
            yield Finding("inputs live from the first step", name, f"from step {placed[name].first}")
        elif name in outputs and placed[name].last != max(0, len(plans) - 1):
            yield Finding("outputs live to the last step", name, f"to step {placed[name].last}")
