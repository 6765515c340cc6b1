"""Weights that stay in RAM, for all networks of an application together.

What the shared plan leaves free on the chip goes to the networks in steps, each to the one that saves most time of a
second with it: cycles by the outlook of `--resident`, times how often the network runs. Gains shrink as a network gets
more, but a large kernel may need several steps at once, so the best average over any number of steps counts. Then each
network is compiled for the shared RAM and its own part, and keeps that if it is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atonc.compiler.search.generators.resident import outlook
from atonc.delivery.application import memory as parts
from atonc.delivery.application.plan_types import ApplicationPlan, AppSource, PlannedNetwork
from atonc.delivery.application.planning import compiled_with_copies, working
from atonc.machine.base.spans import Span

STEPS = 24  # parts of the free RAM that are given away one after the other: some 100 KiB of what the chip has
_LEAST_BYTES = 4096


def with_residents(found: ApplicationPlan, sources: Sequence[AppSource]) -> ApplicationPlan:
    """The plan with weights in RAM; the same where the application asks for none."""
    free = _free(found)
    budget = min(found.application.resident, sum(end - start for start, end in free))
    if budget < _LEAST_BYTES:
        return found
    shares = _shares(found.networks, free, budget)
    private = _places(shares, free)
    planned = replace(found, private=private)
    shared = [span for one in found.networks for span in working(found, one)]
    networks = []
    by_name = {source.name: source for source in sources}
    for one in found.networks:
        own = private.get(one.name, ())
        better = one
        if own:
            made = compiled_with_copies(planned, by_name[one.name], one.slot, shared, own)
            if made is not None and made.cost.cycles < one.compiled.cost.cycles:
                better = replace(one, compiled=made)
        networks.append(better)
    used = {one.name: private[one.name] for one in networks if one.name in private and _stays(one)}
    return replace(planned, networks=tuple(networks), private=used)


def _stays(one: PlannedNetwork) -> bool:
    return any(home.copy_of for home in one.compiled.program.placed.values())


def _free(found: ApplicationPlan) -> list[Span]:
    """RAM of the chip that no network uses at any time; the fastest first."""
    pools = sorted(found.memory.on_chip, key=lambda pool: (not found.memory.is_npu_ram(pool), pool.base))
    free = [span for pool in pools for span in parts.left_of((pool.base, pool.base + pool.size_bytes), found.ram)]
    return [(start, end) for start, end in free if end - start >= _LEAST_BYTES]


def _shares(networks: Sequence[PlannedNetwork], free: Sequence[Span], budget: int) -> dict[str, int]:
    """Bytes for each network."""
    step = max(_LEAST_BYTES, budget // STEPS // parts.LINE * parts.LINE)
    count = budget // step
    curves = {one.name: _curve(one, free, step, count) for one in networks}
    given = dict.fromkeys(curves, 0)
    left = count
    while left:
        best = max(
            (
                (_rate(curve, given[name], more), name, more)
                for name, curve in curves.items()
                for more in range(1, left + 1)
            ),
            key=lambda row: (row[0], -row[2], row[1]),
        )
        if best[0] <= 0:
            break
        given[best[1]] += best[2]
        left -= best[2]
    return {name: steps * step for name, steps in given.items() if steps}


def _curve(one: PlannedNetwork, free: Sequence[Span], step: int, count: int) -> list[float]:
    """Cycles of a second that are saved with so many steps of RAM."""
    made, rate = one.compiled, one.network.per_second
    if not rate:
        return [0.0] * (count + 1)
    found = [0.0]
    for steps in range(1, count + 1):
        saved, _ = outlook(made.program, free, steps * step, made.target)
        found.append(max(found[-1], saved * rate))
    return found


def _rate(curve: Sequence[float], given: int, more: int) -> float:
    return (curve[given + more] - curve[given]) / more if given + more < len(curve) else 0.0


def _places(shares: Mapping[str, int], free: Sequence[Span]) -> dict[str, tuple[Span, ...]]:
    """The free RAM cut into pieces, one behind the other."""
    left = list(free)
    found: dict[str, tuple[Span, ...]] = {}
    for name, size in sorted(shares.items(), key=lambda row: (-row[1], row[0])):
        own: list[Span] = []
        while size >= _LEAST_BYTES and left:
            start, end = left.pop(0)
            cut = min(end, start + size // parts.LINE * parts.LINE)
            own.append((start, cut))
            size -= cut - start
            if end - cut >= _LEAST_BYTES:
                left.insert(0, (cut, end))
        found[name] = tuple(own)
    return found
