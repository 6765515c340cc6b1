"""What an epoch does, whatever time it takes: products of its convolvers and bytes that its engines move."""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.cycles.flow import StreamFlow, element_counts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.machine import FLASH, Machine, MemoryBank
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class EpochWork:
    """Bytes on the chip are those of whole beats on its bus, outside it those that are asked for."""

    products: int = 0
    ram_bytes: float = 0.0
    flash_bytes: float = 0.0
    hyperram_bytes: float = 0.0


def unit_macs(config: ConvaccConfig, outputs: int) -> int:
    """Counts the multiplications of a unit that gives so many elements."""
    return outputs * config.kernel_height * config.kernel_width * config.batch


def epoch_macs(epoch: Epoch) -> int:
    """Counts the multiplications of all units of an epoch, those with weights of zero included."""
    flow = element_counts(epoch)
    units = epoch.units.items()
    return sum(unit_macs(c, flow[name].output.total) for name, c in units if isinstance(c, ConvaccConfig))


def beats(epoch: Epoch, flow: StreamFlow) -> dict[str, float]:
    """Counts the beats on the bus of every engine, for what it really moves."""
    return {
        name: traffic.beats(engine)
        * (1.0 if engine.to_memory else flow.delivered(epoch, name) / max(1, engine.elements))
        for name, engine in epoch.engines().items()
    }


def is_cached(engine: StrengConfig, bank: MemoryBank) -> bool:
    """Whether the NPU's cache keeps what the engine reads."""
    return bank.kind == FLASH and bool(engine.cacheable and engine.cache_allocate) and not engine.to_memory


def fetched_bytes(engine: StrengConfig, words: int) -> float:
    """What comes through the cache from the memory behind it: every byte once."""
    return min(words * engine.bytes_per_element, traffic.distinct_bytes(engine))


def epoch_work(epoch: Epoch, machine: Machine) -> EpochWork:
    if epoch.empty:
        return EpochWork()
    flow = element_counts(epoch)
    counted, on_chip, outside = beats(epoch, flow), 0.0, {True: 0.0, False: 0.0}  # by whether it is flash
    for name, engine in epoch.engines().items():
        bank, words = machine.memory_at(engine.address), flow.delivered(epoch, name)
        if bank is None or not bank.external:
            on_chip += counted[name] * BUS_BYTES
        elif is_cached(engine, bank):
            outside[True] += fetched_bytes(engine, words)
            on_chip += counted[name] * BUS_BYTES  # the cache is RAM too
        else:
            moved = engine.elements if engine.to_memory else words
            outside[bank.kind == FLASH] += moved * engine.bytes_per_element
    return EpochWork(epoch_macs(epoch), on_chip, outside[True], outside[False])
