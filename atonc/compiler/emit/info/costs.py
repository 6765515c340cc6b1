"""Traffic, cycles and power of every epoch, by the estimate that ST's compiler prints into this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.info.memory import InfoMemory
from atonc.compiler.emit.info.nodes import NodeIds
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.shapes import macs
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw.cycles import element_counts, st_estimate
from atonc.machine.hw.cycles.flow import StreamFlow
from atonc.machine.hw.cycles.work import epoch_macs, unit_macs
from atonc.machine.hw.ec.ec_program import with_words
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.units.convacc import ConvaccConfig

# milliwatts at 1 GHz and 0.8 V, as ST's machine description of this chip says
UNIT_POWER_MW = {"STRENG": 5.331, "CONVACC": 30.132, "DECUN": 5.57, "ACTIV": 5.30, "ARITH": 5.877, "POOL": 9.09}


@dataclass(frozen=True)
class StepTraffic:
    """Bytes and cycles of one step in one pool."""

    reads: int = 0
    writes: int = 0
    read_cycles: int = 0
    write_cycles: int = 0


@dataclass(frozen=True)
class StepFigures:
    compute_cycles: int
    max_cycles: int
    operations: int
    unit_mw: float
    memory_mw: float
    accesses: Mapping[str, StepTraffic]  # by pool


_IDLE = StepFigures(0, 0, 0, 0.0, 0.0, {})


def figures(network: CNetwork, cost: NetworkCost) -> dict[int, StepFigures]:
    """Works out the figures by step number; 0 is where the constants stand."""
    found = {0: _IDLE}
    for step, price in zip(network.program.steps, cost.steps, strict=True):
        if step.epoch is not None:
            found[step.number] = epoch_figures(step.epoch, network.pools)
        else:
            found[step.number] = _cpu(network, step, price.cycles)
    return found


@memoise
def epoch_figures(epoch: Epoch, pools: tuple[MemoryPool, ...]) -> StepFigures:
    epoch = with_words(epoch)  # which other figures were worked out for as well
    timings, flow = [pool.timing for pool in pools], element_counts(epoch)
    estimate = st_estimate.epoch_cycles(epoch, timings, count_runs=True)
    amounts = st_estimate.pool_bytes(epoch, timings)
    accesses = {pool.name: _access(pool, *amounts[pool.name]) for pool in pools if pool.name in amounts}
    cycles = max(1, estimate.cycles)
    busy = _busy_cycles(epoch, flow)
    unit_mw = sum(UNIT_POWER_MW[epoch.units[name].KIND] * min(1.0, busy[name] / cycles) for name in epoch.units)
    operations = sum(_operations(epoch, name, flow) for name in epoch.units)
    memory_mw = _memory_power(pools, accesses, cycles)
    return StepFigures(estimate.compute, estimate.cycles, operations, unit_mw, memory_mw, accesses)


def _busy_cycles(epoch: Epoch, flow: StreamFlow) -> dict[str, float]:
    """How long each unit has something to do: engines move a bus word a cycle, the others an element."""
    busy = {}
    for name, config in epoch.units.items():
        unit = flow[name]
        moved = max([unit.output.total, *unit.taken.values()])
        busy[name] = moved * unit.output.word_bytes / BUS_BYTES if config.KIND == "STRENG" else float(moved)
    return busy


def _operations(epoch: Epoch, name: str, flow: StreamFlow) -> int:
    """Multiplications and additions of a convolution; of the other units one for each element."""
    config = epoch.units[name]
    if isinstance(config, ConvaccConfig):
        return 2 * unit_macs(config, flow[name].output.total)
    return 0 if config.KIND == "STRENG" else flow[name].output.total


def _access(pool: MemoryPool, reads: float, writes: float) -> StepTraffic:
    price = pool.freq_ratio / pool.byte_width
    return StepTraffic(round(reads), round(writes), round(reads * price), round(writes * price))


def _memory_power(pools: Sequence[MemoryPool], accesses: Mapping[str, StepTraffic], cycles: int) -> float:
    return sum(
        (accesses[p.name].read_cycles * p.read_power + accesses[p.name].write_cycles * p.write_power) / cycles
        for p in pools
        if p.name in accesses
    )


def _cpu(network: CNetwork, step: ProgramStep, cycles: int) -> StepFigures:
    """The CPU reads its inputs and writes its outputs once; its own power is not known."""
    amounts: dict[str, list[int]] = {}
    for wanted, slot in ((step.plan.reads(), 0), (step.plan.writes(), 1)):
        for name in wanted & network.program.placed.keys():
            home = network.home(name)
            pool = network.pool_at(home.address)
            if pool is not None:
                amounts.setdefault(pool.name, [0, 0])[slot] += home.buffer.size_bytes
    accesses = {pool.name: _access(pool, *amounts[pool.name]) for pool in network.pools if pool.name in amounts}
    return StepFigures(cycles, cycles, 0, 0.0, _memory_power(network.pools, accesses, max(1, cycles)), accesses)


def access_rows(memory: InfoMemory, ids: NodeIds, found: Mapping[int, StepFigures]) -> list[dict[str, Any]]:
    """Every epoch with every pool, also where nothing happens."""
    rows = []
    for number, step in found.items():
        for pool in memory.network.pools:
            access = step.accesses.get(pool.name, StepTraffic())
            rows.append(
                {
                    "mpool_id": memory.pool_number(pool.name),
                    "node_id": ids.epochs[number],
                    "read_cycles": access.read_cycles,
                    "reads": access.reads,
                    "write_cycles": access.write_cycles,
                    "writes": access.writes,
                }
            )
    return rows


def power_rows(ids: NodeIds, found: Mapping[int, StepFigures]) -> list[dict[str, Any]]:
    return [
        {
            "average_acc_power_mw": round(step.unit_mw),
            "average_memory_power_mw": round(step.memory_mw),
            "compute_cycles": step.compute_cycles,
            "max_cycles": step.max_cycles,
            "node_id": ids.epochs[number],
            "ops": step.operations,
        }
        for number, step in found.items()
    ]


def step_macs(network: CNetwork, graph: Graph) -> dict[int, int]:
    """Multiplications of the model by step: those of an operator are shared by its epochs as the units share them."""
    shares: dict[int, int] = {}
    served = _served(network.program.steps)
    for op in graph.ops:
        total = macs(op, graph.tensors)
        steps = _steps_of(op, served) if total else []
        if not steps:
            continue
        weights = [epoch_macs(with_words(step.epoch)) if step.epoch is not None else 0 for step in steps]
        weights = weights if any(weights) else [1] * len(steps)
        done = given = 0
        for step, weight in zip(steps, weights, strict=True):
            done += weight
            part = total * done // sum(weights) - given
            given += part
            shares[step.number] = shares.get(step.number, 0) + part
    return shares


def _served(steps: Iterable[ProgramStep]) -> dict[tuple[bool, str], list[ProgramStep]]:
    """Steps of the CPU by operator, the others by what they come from in the model."""
    found: dict[tuple[bool, str], list[ProgramStep]] = {}
    for step in steps:
        on_cpu = isinstance(step.plan, CpuPlan)
        for name in (step.plan.op,) if isinstance(step.plan, CpuPlan) else dict.fromkeys(step.plan.origin):
            found.setdefault((on_cpu, name), []).append(step)
    return found


def _steps_of(op: Op, served: Mapping[tuple[bool, str], list[ProgramStep]]) -> list[ProgramStep]:
    keys = [(True, op.name), *((False, name) for name in op.origin or (op.name,))]
    found = {step.number: step for key in keys for step in served.get(key, ())}
    return [found[number] for number in sorted(found)]
