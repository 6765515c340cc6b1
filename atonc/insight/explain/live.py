"""What lies in RAM at a time: buffers that are one memory under several names, and live bytes step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.place.usage import CountedPool
from atonc.compiler.plan.types import BufferKind
from atonc.insight.explain.types import BufferView, NetworkView, PoolView

_EDGES = (BufferKind.INPUT, BufferKind.OUTPUT)
_KEPT = (BufferKind.CONSTANT, BufferKind.RESIDENT, BufferKind.PREFETCHED)


def live_bytes(network: NetworkView) -> dict[int, int]:
    """RAM that holds something in each step, by the step's number. A byte counts once, whatever it is called."""
    ram = [b for b in network.buffers if _in_ram(b, network.pools)]
    return _live(ram, network.pools, [step.number for step in network.steps])


def least_bytes(buffers: Iterable[BufferView], pools: Sequence[PoolView]) -> int:
    """Finds the most bytes of activations that live at a time. No layout takes less."""
    ram = [b for b in buffers if _in_ram(b, pools) and b.kind not in _KEPT]
    steps = sorted({b.first for b in ram})
    return max(_live(ram, pools, steps).values(), default=0)


def _live(buffers: Sequence[BufferView], pools: Sequence[PoolView], steps: Iterable[int]) -> dict[int, int]:
    """Memory is cut wherever a buffer begins or ends; a piece is live as long as some buffer has it. One pass over the
    steps, as folders may list buffers by the ten thousand."""
    spans = {(*part, b.first, b.last) for b in buffers if b.first <= b.last for part in _parts(b, pools)}
    cuts = np.array(sorted({address for start, end, _, _ in spans for address in (start, end)}), np.int64)
    lengths, owners = np.diff(cuts), np.zeros(max(0, len(cuts) - 1), np.int64)
    changes = sorted((at, more, start, end) for start, end, a, b in spans for at, more in ((a, 1), (b + 1, -1)))
    found, live, next_change = {}, 0, 0
    for step in sorted(set(steps)):
        while next_change < len(changes) and changes[next_change][0] <= step:
            _, more, start, end = changes[next_change]
            piece = slice(*np.searchsorted(cuts, (start, end)))
            before = owners[piece] > 0
            owners[piece] += more
            live += int(lengths[piece] @ ((owners[piece] > 0).astype(np.int64) - before))
            next_change += 1
        found[step] = live
    return found


def _parts(buffer: BufferView, pools: Iterable[PoolView]) -> Iterator[tuple[int, int]]:
    """What it has of each pool."""
    end = buffer.address + max(buffer.size_bytes, buffer.reserved_bytes)
    for pool in pools:
        low, high = max(buffer.address, pool.base), min(end, pool.base + pool.size_bytes)
        if low < high:
            yield low, high


def _in_ram(buffer: BufferView, pools: Iterable[PoolView]) -> bool:
    return any(p.writable and p.base <= buffer.address < p.base + p.size_bytes for p in pools)


def distinct(buffers: Iterable[BufferView]) -> dict[BufferView, tuple[str, ...]]:
    """One buffer of those that share memory and lifetime, with the other names: an input or output if one is among
    them, else the largest."""
    groups: dict[tuple[int, int, int], list[BufferView]] = {}
    for one in buffers:
        groups.setdefault((one.address, one.first, one.last), []).append(one)
    found = {}
    for members in groups.values():
        chosen = max(members, key=lambda b: (b.kind in _EDGES, b.size_bytes))
        found[chosen] = tuple(b.name for b in members if b is not chosen)
    return found


def pool_views(banks: Iterable[CountedPool], used: Mapping[str, int]) -> tuple[PoolView, ...]:
    return tuple(
        PoolView(bank.name, bank.base, bank.size_bytes, used.get(bank.name, 0), bank.external, bank.writable)
        for bank in banks
    )
