"""What a layout costs: in every epoch the busiest memory bank, or what the epoch takes anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.place.lifetimes import Lifetime, accesses
from atonc.compiler.place.pools import BoardMemory
from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, StepPlan
from atonc.machine.base.frozen import dataclass

Ints = NDArray[np.int64]
Cycles = NDArray[np.float64]


@dataclass(frozen=True)
class Traffic:
    """Bytes in whole beats that each step moves of each item; `floor` is what it takes at least, wherever they lie."""

    moves: tuple[Mapping[tuple[int, bool], int], ...]  # per step: item and whether it is written -> bytes
    floor: tuple[float, ...]
    steps: Mapping[int, tuple[int, ...]]  # item -> steps

    @cached_property
    def table(self) -> Ints:
        """All moves: rows of step, item, whether it is written, bytes."""
        rows = [(step, *use, amount) for step, moved in enumerate(self.moves) for use, amount in moved.items()]
        return np.array(rows, np.int64).reshape(-1, 4)


def traffic_of(
    plans: Sequence[StepPlan],
    buffers: Mapping[str, Buffer],
    aliases: Mapping[str, str],
    ram: Sequence[Lifetime],
    board: BoardMemory,
) -> Traffic:
    """Epochs only: where a buffer lies matters little to the processor, which works through its own cache."""
    numbers = {life.buffer.name: n for n, life in enumerate(ram)}
    moves: list[dict[tuple[int, bool], int]] = [{} for _ in plans]
    flash = [0] * len(plans)
    for access in accesses(plans, buffers):
        if access.by_cpu:
            continue
        number = numbers.get(root(access.buffer, aliases))
        if number is not None:
            use = number, access.write
            moves[access.step][use] = moves[access.step].get(use, 0) + access.bus_bytes
        elif buffers[access.buffer].kind == BufferKind.CONSTANT:
            flash[access.step] += access.size_bytes
    per_byte = min(map(board.byte_cycles, board.read_only), default=0.0)
    floor = [max(_engine_words(plan), flash[n] * per_byte) for n, plan in enumerate(plans)]
    steps: dict[int, list[int]] = {}
    for step, moved in enumerate(moves):
        for number in dict.fromkeys(number for number, _ in moved):
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
    board: BoardMemory
    sizes: Sequence[int]
    addresses: list[int]

    def __post_init__(self) -> None:
        banks = [pool for pool in self.board.pools if pool.writable]
        self._low = np.array([bank.base for bank in banks])
        self._high = self._low + [bank.size_bytes for bank in banks]
        self._per_byte = np.array([self.board.byte_cycles(bank) for bank in banks])
        steps, items, writes, amounts = self.traffic.table.T
        shares = self._shares(np.array(self.sizes)[items], amounts, np.array(self.addresses)[items])
        loads = np.zeros((len(self.traffic.moves), 2, self._low.size))
        np.add.at(loads, (steps, writes), shares.T)
        self._loads = loads.reshape(len(loads), 2 * self._low.size)  # by step: reads of every bank, then writes
        self._busiest: list[float] = self._loads.max(axis=1).tolist()  # bank of every step

    @property
    def cycles(self) -> float:
        return sum(map(self._cycles, range(len(self._loads))))

    @property
    def at_floor(self) -> bool:
        """No step waits for memory."""
        return bool((self._loads.max(axis=1) <= self.traffic.floor).all())

    def bound_items(self) -> list[int]:
        """Items of the steps that memory slows down, worst step first."""
        excess = [self._cycles(step) - floor for step, floor in enumerate(self.traffic.floor)]
        worst = sorted((s for s, e in enumerate(excess) if e > 0), key=lambda s: (-excess[s], s))
        return list(dict.fromkeys(n for step in worst for n, _ in self.traffic.moves[step]))

    def changes(self, number: int, addresses: Sequence[int]) -> Cycles:
        """Cycles that it would cost (negative: save) to move an item to each of these addresses."""
        places = np.array(addresses, np.int64)
        total = np.zeros(places.size)
        for step in self.traffic.steps.get(number, ()):
            loads = np.zeros((2, self._low.size, places.size))
            for (other, write), amount in self.traffic.moves[step].items():
                starts = places if other == number else np.array([self.addresses[other]])
                loads[int(write)] += self._shares(self.sizes[other], amount, starts)
            total += np.maximum(self.traffic.floor[step], loads.max(axis=(0, 1))) - self._cycles(step)
        return total

    def move(self, number: int, address: int) -> None:
        self.addresses[number] = address
        for step in self.traffic.steps.get(number, ()):
            load = np.zeros((2, self._low.size))
            for (other, write), amount in self.traffic.moves[step].items():
                load[int(write)] += self._shares(self.sizes[other], amount, np.array([self.addresses[other]]))[:, 0]
            self._loads[step] = load.reshape(-1)
            self._busiest[step] = float(load.max())

    def _shares(self, sizes: int | Ints, amounts: int | Ints, starts: Ints) -> Cycles:
        """Cycles of every bank (rows) for so many bytes of items that begin at each of `starts` (columns)."""
        inside = np.minimum(self._high[:, None], starts + sizes) - np.maximum(self._low[:, None], starts)
        return amounts * self._per_byte[:, None] * np.maximum(inside, 0) / sizes

    def _cycles(self, step: int) -> float:
        return max(self.traffic.floor[step], self._busiest[step])
