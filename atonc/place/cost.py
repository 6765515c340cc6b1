"""What a layout costs: in every epoch the busiest memory bank, or what the epoch takes anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atonc.place.lifetimes import Lifetime, accesses, root
from atonc.place.pools import Board
from atonc.plan.types import Buffer, BufferKind, CpuPlan, StepPlan


@dataclass(frozen=True)
class Traffic:
    """Bytes that each step moves of each item; `floor` is what a step takes at least, wherever its buffers lie."""

    moves: tuple[Mapping[int, int], ...]  # per step: item -> bytes
    floor: tuple[float, ...]
    steps: Mapping[int, tuple[int, ...]]  # item -> steps


def traffic_of(
    plans: Sequence[StepPlan],
    buffers: Mapping[str, Buffer],
    aliases: Mapping[str, str],
    ram: Sequence[Lifetime],
    board: Board,
) -> Traffic:
    """Epochs only: where a buffer lies matters little to the processor, which works through its own cache."""
    numbers = {life.buffer.name: n for n, life in enumerate(ram)}
    moves: list[dict[int, int]] = [{} for _ in plans]
    flash = [0] * len(plans)
    for access in accesses(plans, buffers):
        if access.by_cpu:
            continue
        number = numbers.get(root(access.buffer, aliases))
        if number is not None:
            moves[access.step][number] = moves[access.step].get(number, 0) + access.size_bytes
        elif buffers[access.buffer].kind == BufferKind.CONSTANT:
            flash[access.step] += access.size_bytes
    per_byte = min((pool.timing.cycles_per_byte for pool in board.read_only), default=0.0)
    floor = [max(_engine_words(plan), flash[n] * per_byte) for n, plan in enumerate(plans)]
    steps: dict[int, list[int]] = {}
    for step, moved in enumerate(moves):
        for number in moved:
            steps.setdefault(number, []).append(step)
    return Traffic(tuple(moves), tuple(floor), {n: tuple(found) for n, found in steps.items()})


def _engine_words(plan: StepPlan) -> float:
    """An engine moves one word per cycle."""
    if isinstance(plan, CpuPlan):
        return 0.0
    return float(max((use.config.elements for use in plan.engines.values()), default=0))


@dataclass
class Meter:
    """The cost of a layout, kept up to date while items move."""

    traffic: Traffic
    board: Board
    sizes: Sequence[int]
    addresses: list[int]
    _banks: list[tuple[int, int, float]] = field(default_factory=list)  # base, end, cycles per byte
    _loads: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._banks = [
            (p.base, p.base + p.size_bytes, p.timing.cycles_per_byte) for p in self.board.pools if p.writable
        ]
        self._loads = [self._load(step, {}) for step in range(len(self.traffic.moves))]

    @property
    def cycles(self) -> float:
        return sum(self._cycles(step, load) for step, load in enumerate(self._loads))

    @property
    def at_floor(self) -> bool:
        """No step waits for memory."""
        return all(max(load) <= self.traffic.floor[step] for step, load in enumerate(self._loads))

    def bound_items(self) -> list[int]:
        """Items of the steps that memory slows down, worst step first."""
        excess = [self._cycles(s, load) - self.traffic.floor[s] for s, load in enumerate(self._loads)]
        worst = sorted((s for s, e in enumerate(excess) if e > 0), key=lambda s: (-excess[s], s))
        return list(dict.fromkeys(n for step in worst for n in self.traffic.moves[step]))

    def change(self, number: int, address: int) -> float:
        """Cycles that it would cost (negative: save) to move an item to another address."""
        moved = {number: address}
        steps = self.traffic.steps.get(number, ())
        return sum(self._cycles(s, self._load(s, moved)) - self._cycles(s, self._loads[s]) for s in steps)

    def move(self, number: int, address: int) -> None:
        self.addresses[number] = address
        for step in self.traffic.steps.get(number, ()):
            self._loads[step] = self._load(step, {})

    def _load(self, step: int, moved: Mapping[int, int]) -> list[float]:
        """Cycles of every bank in a step."""
        load = [0.0] * len(self._banks)
        for number, amount in self.traffic.moves[step].items():
            start = moved.get(number, self.addresses[number])
            size = self.sizes[number]
            for bank, (low, high, per_byte) in enumerate(self._banks):
                if start < high and low < start + size:
                    share = min(high, start + size) - max(low, start)
                    load[bank] += amount * per_byte * share / size
        return load

    def _cycles(self, step: int, load: Sequence[float]) -> float:
        return max(self.traffic.floor[step], *load)
