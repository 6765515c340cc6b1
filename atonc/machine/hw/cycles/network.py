"""Adds up the epochs of a network: NPU, CPU and hybrid ones follow each other, nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import Machine, stm32n6


@dataclass(frozen=True)
class EpochCost:
    """What one epoch costs; CPU cycles at the CPU's clock. A hybrid epoch pays both."""

    number: int
    kind: str  # npu, cpu, hybrid
    npu_cycles: float = 0.0
    cpu_cycles: float = 0.0
    bound_by: str = ""
    known: bool = True  # False: rests on a guess


@dataclass(frozen=True)
class NetworkCycles:
    cycles: int  # NPU cycles from the first epoch to the last
    milliseconds: float
    npu_milliseconds: float
    cpu_milliseconds: float
    bound_by: Mapping[str, float]  # label -> share of the time
    guessed: tuple[int, ...]  # epochs without a measured constant
    guessed_milliseconds: float


def network_cycles(epochs: Iterable[EpochCost], machine: Machine | None = None) -> NetworkCycles:
    machine = machine or stm32n6()
    npu = cpu = unsure = 0.0
    shares: dict[str, float] = {}
    guessed = []
    for epoch in epochs:
        by_cpu = machine.npu_cycles(epoch.cpu_cycles)
        npu, cpu = npu + epoch.npu_cycles, cpu + by_cpu
        label = epoch.bound_by or ("cpu" if epoch.cpu_cycles else "")
        shares[label] = shares.get(label, 0.0) + epoch.npu_cycles + by_cpu
        if not epoch.known:
            guessed.append(epoch.number)
            unsure += epoch.npu_cycles + by_cpu
    total = npu + cpu
    return NetworkCycles(
        round(total),
        machine.milliseconds(total),
        machine.milliseconds(npu),
        machine.milliseconds(cpu),
        {label: part / total for label, part in sorted(shares.items(), key=lambda item: -item[1]) if part},
        tuple(guessed),
        machine.milliseconds(unsure),
    )
