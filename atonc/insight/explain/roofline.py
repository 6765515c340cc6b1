"""Layers against what the machine can do at best: multiplications a cycle, bytes that its bus moves a cycle, bytes of
weights that come from flash a cycle."""

from __future__ import annotations

from atonc.insight.explain.limits import PEAK
from atonc.insight.explain.types import NPU, LayerView, NetworkView
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.machine import FLASH, Machine, stm32n6


@dataclass(frozen=True)
class Dot:
    """A layer of the NPU. It takes part in whole epochs: cycles and bytes are theirs, also where others share them, so
    that none goes faster than the epoch does."""

    layer: LayerView
    macs_per_byte: float
    macs_per_flash_byte: float  # 0: it reads none
    macs_per_cycle: float


@dataclass(frozen=True)
class Roofline:
    """`on_cpu`: layers that multiply on the processor. Its caches bring what they read, not the NPU's bus: they have no
    place below this roof."""

    peak: float  # multiplications a cycle
    bytes_per_cycle: float
    flash_bytes_per_cycle: float
    dots: tuple[Dot, ...]
    on_cpu: tuple[LayerView, ...]

    def roof(self, macs_per_byte: float) -> float:
        return min(self.peak, self.bytes_per_cycle * macs_per_byte)


def roofline(network: NetworkView) -> Roofline:
    machine = stm32n6().with_clocks(npu_mhz=network.npu_mhz, cpu_mhz=network.cpu_mhz)
    steps = {step.number: step for step in network.steps}
    dots, on_cpu = [], []
    for layer in network.layers:
        if not layer.macs or not layer.steps:
            continue
        if layer.on != NPU:
            on_cpu.append(layer)
            continue
        own = [steps[number] for number in layer.steps]
        cycles, moved = sum(step.cycles for step in own), sum(step.bytes_moved for step in own)
        flash = layer.limit.work.outside_bytes.get(FLASH, 0) if layer.limit else 0
        by_flash = layer.macs / flash if flash else 0.0
        dots.append(Dot(layer, layer.macs / max(1, moved), by_flash, layer.macs / max(1, cycles)))
    rates = _bytes_per_cycle(machine), 1 / machine.flash_byte_cycles
    return Roofline(PEAK, *rates, tuple(dots), tuple(on_cpu))


def _bytes_per_cycle(machine: Machine) -> float:
    """Every bus interface moves a beat in each direction at a time."""
    timing = machine.timing
    return len(machine.engine_ports) * BUS_BYTES * (1 / timing.read_beat + 1 / timing.write_beat)
