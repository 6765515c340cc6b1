"""How fast a layer could be at best, whatever program does it.

    absolute    all units multiply bytes in every cycle; what the layer reads and writes passes the bus once; its
                weights come from outside the chip once. No program that runs the layer by itself is faster.
    practical   of a convolution: the same with what ten stream engines allow, three lanes of one unit or two of two,
                and with what it takes to program and start one epoch. Other operators of the NPU count nothing: they
                might run behind a convolution.

Of a network the practical bound is the sum over its layers, each waiting for its own weights, and what the CPU takes.
The absolute one lets all layers overlap: units and external memory are each busy for what all layers ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, prod

from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops.conv import pair
from atonc.compiler.ops.shapes import macs
from atonc.compiler.plan.types import FILLED, EpochPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import BUS_BYTES, LEAST_DEEP, PRODUCTS, UNITS, convacc_sizes
from atonc.machine.hw.machine import FLASH, Machine
from atonc.machine.hw.target import Target

BYTES = 1  # SIMD mode of a CONVACC
PEAK = PRODUCTS[BYTES] * UNITS["CONVACC"]  # multiplications a cycle
UNIT_WORK, BUS, OUTSIDE, START = "convolvers", "bus", "external memory", "programming"


@dataclass(frozen=True)
class LayerWork:
    """What a layer asks of the chip; nothing here depends on clocks, so a folder keeps it."""

    macs: int
    lane_cycles: int  # of its units in the best cut; 0: no convolution
    read_bytes: int  # features and weights
    written_bytes: int
    program_words: int  # of the shortest of its epochs
    outside_bytes: Mapping[str, int]  # weights by the kind of external memory that they come from


@dataclass(frozen=True)
class LayerLimit:
    """Cycles that each resource takes at best."""

    work: LayerWork
    units: int
    bus: int
    outside: int
    start: int  # to program and start an epoch

    @property
    def absolute(self) -> int:
        return max(self.units, self.bus, self.outside)

    @property
    def practical(self) -> int:
        return self._practical(self.outside)

    @property
    def practical_in_ram(self) -> int:
        """With its weights in RAM."""
        return self._practical(0)

    def _practical(self, outside: int) -> int:
        lanes = self.work.lane_cycles
        return max(lanes, self.bus, outside) + self.start if lanes else 0

    @property
    def held_by(self) -> str:
        """What decides the practical bound; empty where there is none."""
        shares = {UNIT_WORK: self.work.lane_cycles, OUTSIDE: self.outside, BUS: self.bus, START: self.start}
        return max(shares, key=shares.__getitem__) if self.practical else ""


@dataclass(frozen=True)
class NetworkLimit:
    """Cycles of the whole network at best, and how many times that it takes."""

    cycles: int
    practical: int
    practical_in_ram: int
    absolute: int

    @property
    def times_practical(self) -> float:
        return self.cycles / self.practical if self.practical else 0.0

    @property
    def times_absolute(self) -> float:
        return self.cycles / self.absolute if self.absolute else 0.0

    def as_dict(self) -> dict[str, float]:
        return {
            "practical_cycles": self.practical,
            "practical_in_ram_cycles": self.practical_in_ram,
            "absolute_cycles": self.absolute,
            "times_practical": round(self.times_practical, 3),
            "times_absolute": round(self.times_absolute, 3),
        }

    def __str__(self) -> str:
        return f"{self.times_practical:.2f}x attainable minimum, {self.times_absolute:.2f}x theoretical minimum"


def limit_of(work: LayerWork, machine: Machine, programmed_by: str) -> LayerLimit:
    clocks, timing = machine.clocks, machine.timing
    by_cpu = programmed_by == hardware.CPU
    word = machine.npu_cycles(timing.cpu_before_word) if by_cpu else timing.controller_word
    beat = clocks.npu_mhz / clocks.npu_ram_mhz / (BUS_BYTES * len(machine.engine_ports))
    outside = sum(byte_cycles(kind, machine) * size for kind, size in work.outside_bytes.items())
    bus = beat * max(work.read_bytes, work.written_bytes)
    start = timing.epoch + word * work.program_words
    return LayerLimit(work, ceil(work.macs / PEAK), ceil(bus), ceil(outside), ceil(start))


def byte_cycles(kind: str, machine: Machine) -> float:
    return machine.flash_byte_cycles if kind == FLASH else machine.hyperram_byte_cycles


def network_limit(limits: Sequence[LayerLimit], cycles: int, cpu_cycles: int) -> NetworkLimit | None:
    """None where no convolution runs on the NPU, or where nothing is known about its layers."""
    if not any(one.practical for one in limits):
        return None
    return NetworkLimit(
        cycles=cycles,
        practical=sum(one.practical for one in limits) + cpu_cycles,
        practical_in_ram=sum(one.practical_in_ram for one in limits) + cpu_cycles,
        absolute=max(sum(one.units for one in limits), sum(one.outside for one in limits)),
    )


DEEP_BYTES = 3  # channels of a word in deep mode
WINDOW = 3  # rows and columns of a kernel that a unit takes at once
DSS2_BYTES = 2
CUTS = ((3, 3), (4, 2))  # units and lanes: a lane has an engine each for features, kernels and results, of ten


def layer_work(
    op: Op, tensors: Mapping[str, Tensor], steps: Iterable[ProgramStep], program: Program, target: Target
) -> LayerWork | None:
    """None for what no epoch of its own computes."""
    own = [step for step in steps if step.epoch is not None and isinstance(step.plan, EpochPlan)]
    if not own:
        return None
    read = {buffer for step in own for buffer in _read(step)}
    held, outside = 0, dict[str, int]()
    for name in sorted(read & program.placed.keys()):
        home = program.placed[name]
        if home.buffer.kind not in FILLED:
            continue
        held += home.buffer.size_bytes
        bank = target.machine.memory_at(home.address)
        if bank is not None and bank.external:
            outside[bank.kind] = outside.get(bank.kind, 0) + home.buffer.size_bytes
    return LayerWork(
        macs=macs(op, tensors),
        lane_cycles=_lane_cycles(op, tensors),
        read_bytes=_feature_bytes(op, tensors) + held,
        written_bytes=sum(tensors[name].elements for name in op.outputs),
        program_words=_least_words([step.epoch for step in own if step.epoch is not None], target),
        outside_bytes=outside,
    )


def _least_words(epochs: Iterable[Epoch], target: Target) -> int:
    convolving = (epoch for epoch in epochs if epoch.of_kind("CONVACC"))
    return min((target.with_words(epoch).words for epoch in convolving), default=0)


def _feature_bytes(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Counts what convolutions read; others may leave out some of their inputs. A pointwise one reads what it keeps."""
    if op.kind not in ("conv", "dense"):
        return 0
    source, count, rows, columns, _ = tensors[op.inputs[0]], *_kernel_shape(tensors[op.inputs[1]].shape)
    kept = tensors[op.outputs[0]].elements // count * source.shape[-1]
    return min(source.elements, kept) if rows == columns == 1 else source.elements


def _read(step: ProgramStep) -> Iterable[str]:
    """Buffers that the units of the layer read; others may share the epoch."""
    assert step.epoch is not None and isinstance(step.plan, EpochPlan)
    engines = step.plan.engines.items()
    return (use.buffer for name, use in engines if name in step.epoch.units and not use.config.to_memory)


def _lane_cycles(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """The best cut: units share what one would take alone, lanes share the results."""
    alone, results = _unit_cycles(op, tensors), tensors[op.outputs[0]].elements
    return ceil(min(max(alone / units, results / lanes) for units, lanes in CUTS)) if macs(op, tensors) else 0


def _unit_cycles(op: Op, tensors: Mapping[str, Tensor]) -> float:
    """What one unit would take alone for products, for words of features and for words of kernels."""
    products = macs(op, tensors) / PRODUCTS[BYTES]
    if op.kind not in ("conv", "dense"):
        return products
    source, weights = tensors[op.inputs[0]], tensors[op.inputs[1]]
    count, rows, columns, channels = _kernel_shape(weights.shape)
    groups, stride = int(op.attrs.get("groups", 1)), max(pair(op.attrs.get("stride", (1, 1))))
    if groups > 1 and channels == 1:  # each word of features meets its own kernel alone
        packing = DSS2_BYTES if (rows, columns, stride) == (WINDOW, WINDOW, 2) else 1
        passes, pixels = 1, source.elements // groups
    elif rows == columns == 1:
        packing = DEEP_BYTES if channels >= LEAST_DEEP[DEEP_BYTES] else 1
        passes = ceil(count / groups / convacc_sizes(1, 1, BYTES, deep=packing > 1).kernels)
        pixels = tensors[op.outputs[0]].elements // count
    else:
        packing, passes = 1, ceil(count / groups / convacc_sizes(rows, columns, BYTES).kernels)
        pixels = source.elements // (groups * channels)
    windows = ceil(rows / WINDOW) * ceil(columns / WINDOW)
    features = passes * windows * pixels * groups * channels / packing
    return max(products, features, weights.elements / packing)


def _kernel_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Kernels, rows, columns, channels of each."""
    return (shape[0], 1, 1, prod(shape[1:])) if len(shape) < 4 else (shape[0], shape[1], shape[2], shape[3])
