"""Cycles of a run: ST's estimate and the hardware model side by side, per epoch and in all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import ms_text
from atonc.machine.cost.band import BY_RELEASE, PredictionBand, band_of
from atonc.machine.cost.energy import Activity, EnergyEstimate, epoch_activity, likely_uj, network_energy
from atonc.machine.hw import dma
from atonc.machine.hw.cycles import hardware, st_estimate
from atonc.machine.hw.cycles.doubts import COPIES, doubts
from atonc.machine.hw.dma import DmaCost, DmaWork, Occupied
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import (
    FLASH,
    HYPERRAM,
    MEASURABLE,
    Clocks,
    Machine,
    MemoryBank,
    PoolTiming,
    implausible,
    kind_of_label,
    milliseconds,
    stm32n6,
)
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.machine.emu.cpu.cycles import CallCost
    from atonc.machine.emu.files.c_info import CInfo
    from atonc.machine.emu.files.types import CompiledNetwork
    from atonc.machine.emu.network import EmulatedNetwork, NetworkStep

# ----------------------------------------------------------------------------------------------------------------------
# The clocks, external memories and measured constants that a build was made for, kept in NAME_program.json.
#
# A build for the chip's usual ones says nothing: then, and in folders of others, the usual ones hold.

MAX_BYTES = 1 << 26
_MOST_BANKS = 16
_FASTEST = 1e6  # MHz or MB/s


def machine_row(machine: Machine) -> dict[str, Any]:
    """What the file has to say: nothing for the usual clocks and memories, or for less memory than usual."""
    banks = [asdict(bank) for bank in machine.memories if bank.external]
    if machine.clocks == stm32n6().clocks and all(map(_usual, machine.memories)) and not machine.measured:
        return {}
    row = {"clocks": asdict(machine.clocks), "external_memories": banks}
    measured = {name: machine.constant(name) for name in machine.measured}
    return {"machine": row | ({"measured": measured} if measured else {})}


def _usual(bank: MemoryBank) -> bool:
    known = stm32n6().memory_at(bank.base)
    return known is not None and bank.end <= known.end and replace(bank, size_bytes=known.size_bytes) == known


def build_machine(network: CompiledNetwork) -> Machine:
    """Reads the machine that the build was made for; a file that is damaged or not ours counts as absent."""
    try:
        root = json.loads(read_file(network.directory / f"{network.stem}_program.json", MAX_BYTES))
        return _machine(root["machine"]) if isinstance(root, dict) and "machine" in root else stm32n6()
    except (InputError, ValueError, TypeError, KeyError, RecursionError):
        return stm32n6()


def _machine(row: Any) -> Machine:
    clocks = {member.name: _number(row["clocks"][member.name], 1e-3, _FASTEST) for member in fields(Clocks)}
    rows = row["external_memories"]
    if not isinstance(rows, list) or len(rows) > _MOST_BANKS:
        raise ValueError("external_memories")
    chip = stm32n6()
    inside = tuple(bank for bank in chip.memories if not bank.external)
    machine = replace(chip.with_clocks(**clocks), memories=(*inside, *(_bank(one) for one in rows)))
    return machine.with_measured(_measured(row.get("measured", {}), machine))


def _measured(row: Any, machine: Machine) -> dict[str, float]:
    if not isinstance(row, dict):
        raise ValueError("measured")
    for name, value in row.items():
        if name not in MEASURABLE or implausible(name, _number(value, -1e6, 1e6) / machine.clock_factor(name)):
            raise ValueError("measured")
    return {name: float(value) for name, value in row.items()}


def _bank(row: Any) -> MemoryBank:
    if row["kind"] not in (FLASH, HYPERRAM):
        raise ValueError("kind")
    return MemoryBank(
        plain(str(row["name"]))[:96],
        row["kind"],
        int(_number(row["base"], 0, 1 << 32)),
        int(_number(row["size_bytes"], 1, 1 << 32)),
        int(_number(row["byte_width"], 1, 4096)),
        _number(row["freq_ratio"], 1e-6, 1e6),
        plain(str(row["latency"]))[:20],
    )


def _number(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError("number")
    return value


NOT_ASKED = hardware.EpochCycles(0, 0, "")  # what ST's tools would say


@dataclass(frozen=True)
class StepCost:
    """One epoch. Cycles count at the NPU's clock, those of CPU epochs too."""

    st_cycles: int
    st_bound_by: str
    cycles: int
    bound_by: str
    milliseconds: float
    cpu_ms: float
    origin: str
    known: bool = True
    parts: Mapping[str, float] = field(default_factory=dict)  # of an epoch, by the hardware model
    doubts: Mapping[str, float] = field(default_factory=dict)  # cycles by what calibration has hardly covered
    activity: Activity = Activity()  # what draws power in it


@dataclass(frozen=True)
class NetworkCost:
    steps: tuple[StepCost, ...]
    npu_mhz: float
    cpu_mhz: float
    unknown: tuple[str, ...]  # library functions without a measured constant

    @property
    def latency_ms(self) -> float:
        return milliseconds(self.cycles, self.npu_mhz)

    @cached_property
    def band(self) -> PredictionBand:
        """How far the latency may be off."""
        return band_of((step.cpu_ms > 0, step) for step in self.steps)

    @cached_property
    def energy(self) -> EnergyEstimate:
        return network_energy((step.activity for step in self.steps), self.npu_mhz, self.cpu_mhz, self.band)

    def energy_uj(self, step: StepCost) -> float:
        """What one of its steps is likely to take."""
        return likely_uj(step.activity, self.npu_mhz, self.cpu_mhz)

    @property
    def cpu_ms(self) -> float:
        return sum(step.cpu_ms for step in self.steps)

    @property
    def npu_ms(self) -> float:
        return self.latency_ms - self.cpu_ms

    @property
    def cycles(self) -> int:
        return sum(step.cycles for step in self.steps)

    @property
    def st_cycles(self) -> int:
        return sum(step.st_cycles for step in self.steps)

    @property
    def bound_by(self) -> Mapping[str, float]:
        """Share of the cycles by what bounds them, largest first."""
        total = Counter[str]()
        for step in self.steps:
            total[step.bound_by] += step.cycles
        return {label: count / max(1, self.cycles) for label, count in total.most_common() if count}


def spill_lines(spilled_bytes: int, steps: Iterable[tuple[str, float]]) -> list[str]:
    """Activations outside the chip, and what waiting for them costs; `steps`: what bounds each and its time."""
    if not spilled_bytes:
        return []
    listed = list(steps)
    waiting = sum(ms for bound_by, ms in listed if kind_of_label(bound_by) == HYPERRAM)
    share = 100 * waiting / (sum(ms for _, ms in listed) or 1.0)
    return [
        f"SPILL: {spilled_bytes:,} bytes of activations lie in external RAM; epochs that wait for it take "
        f"{ms_text(waiting)} ({share:.0f} %). --no-spill makes this an error."
    ]


def network_cost(
    net: EmulatedNetwork, steps: Sequence[NetworkStep], machine: Machine | None = None, info: CInfo | None = None
) -> NetworkCost:
    """`info` has ST's own estimate, else counted as its compiler does, and in our builds what each epoch is for."""
    from atonc.machine.emu import cpu

    machine = machine or build_machine(net.network)
    pools = pool_timings(net.network)
    names = _origins(net.network)
    version = net.network.atonn_version
    release = st_estimate.counts_runs(version), st_estimate.fast_library(version)
    alone = [_listed(step, _step_cost(step, pools, machine, names, release), info) for step in steps]
    costs = with_dma(alone, [step.dma for step in steps], machine)
    unknown = {c.name for s in steps for c in s.calls if not cpu.call_cost(c.name, list(c.args)).known}
    return NetworkCost(costs, machine.clocks.npu_mhz, machine.clocks.cpu_mhz, tuple(sorted(unknown)))


def _listed(step: NetworkStep, cost: StepCost, info: CInfo | None) -> StepCost:
    node = info.by_epoch.get(step.number) if info is not None else None
    if node is None:
        return cost
    return replace(cost, origin=node.title or cost.origin, st_cycles=cost.st_cycles if step.calls else node.max_cycles)


def pool_timings(network: CompiledNetwork) -> tuple[PoolTiming, ...]:
    return tuple(PoolTiming(p.name, p.base, p.size_bytes, p.byte_width, p.freq_ratio) for p in network.pools)


def _step_cost(
    step: NetworkStep,
    pools: tuple[PoolTiming, ...],
    machine: Machine,
    names: Mapping[int, str],
    release: tuple[bool, bool],
) -> StepCost:
    """`release`: of the tool, whether its estimate counts runs and whether its library is that of 4.0."""
    origin, (counts_runs, fast) = names.get(step.number, ""), release
    if step.calls:
        from atonc.machine.emu import cpu

        parts = [cpu.call_cost(call.name, list(call.args), machine) for call in step.calls]
        origin = "; ".join(cpu.describe_call(call.name, list(call.args)) for call in step.calls)
        return cpu_cost([part.with_4() if fast else part for part in parts], machine, origin)
    if step.epoch is None:
        return nothing(origin)
    target = Target(machine, hardware.CONTROLLER if step.blob else hardware.CPU)
    return epoch_cost(step.epoch, target, pools, counts_runs, origin)


def epoch_cost(
    epoch: Epoch, target: Target, pools: tuple[PoolTiming, ...], counts_runs: bool | None, origin: str
) -> StepCost:
    """Prices an epoch with the length of its program, wherever it comes from: all that is said of its time comes from
    here. `counts_runs`: None where nobody asks what ST's tools would say."""
    estimate = NOT_ASKED if counts_runs is None else st_estimate.epoch_cycles(epoch, pools, counts_runs)
    real = target.cycles(epoch)
    return StepCost(
        estimate.cycles,
        estimate.bound_by,
        real.cycles,
        real.bound_by,
        target.machine.milliseconds(real.cycles),
        0.0,
        origin,
        parts=real.detail,
        doubts=doubts(epoch, target.machine, target.programmed_by, real),
        activity=epoch_activity(epoch, target, real),
    )


def cpu_cost(calls: Sequence[CallCost], machine: Machine, origin: str) -> StepCost:
    """Prices what the processor does in a step; in a hybrid step it also waits for the NPU."""
    on_cpu = round(machine.npu_cycles(sum(call.cpu_cycles for call in calls)))
    cycles = on_cpu + round(sum(call.npu_cycles for call in calls))
    known = all(call.known for call in calls)
    times = machine.milliseconds(cycles), machine.milliseconds(on_cpu)
    varied = machine.npu_cycles(sum(call.cpu_cycles for call in calls if call.by_release))
    return StepCost(
        *(0, "", cycles, "cpu", *times, origin, known),
        doubts={BY_RELEASE: varied} if varied else {},
        activity=Activity(*times),
    )


def with_dma(
    steps: Sequence[StepCost], works: Sequence[DmaWork | None], machine: Machine
) -> tuple[StepCost, ...]:
    """Adds what copies by the DMA take and cost beside the steps; all of their time is in doubt."""
    if not any(works):
        return tuple(steps)
    alone = (Occupied(one.cycles, one.parts.get("external", 0.0)) for one in steps)
    found = dma.costs(zip(works, alone, strict=True), machine)
    return tuple(map(partial(_beside_dma, machine), steps, works, found))


def _beside_dma(machine: Machine, step: StepCost, work: DmaWork | None, copies: DmaCost) -> StepCost:
    added = round(copies.added)
    moved = sum(one.size_bytes for one in work.starts) if work is not None else 0
    if not added and not copies.hidden and not moved:
        return step
    extra = machine.milliseconds(added)
    cycles = step.cycles + added
    return replace(
        step,
        cycles=cycles,
        bound_by=step.bound_by or "dma",
        milliseconds=step.milliseconds + extra,
        parts={**step.parts, "dma": copies.added},
        doubts={**step.doubts, COPIES: copies.added + copies.hidden},
        activity=replace(
            step.activity,
            milliseconds=step.activity.milliseconds + extra,
            flash_bytes=step.activity.flash_bytes + moved,
            ram_bytes=step.activity.ram_bytes + moved,
        ),
    )


def nothing(origin: str) -> StepCost:
    """A step that does nothing."""
    return StepCost(0, "", 0, "", 0.0, 0.0, origin)


def _origins(network: CompiledNetwork) -> dict[int, str]:
    """The tensors that each epoch writes, as the compiler names them: the nearest thing to layer names."""
    names: dict[int, list[str]] = {}
    for buffer in (*network.internals, *network.outputs):
        if not buffer.is_param:
            names.setdefault(buffer.epoch, []).append(buffer.name)
    return {epoch: ", ".join(dict.fromkeys(listed)) for epoch, listed in names.items()}
