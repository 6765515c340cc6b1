"""How an epoch is wired, in words: which chain of units the data takes and what every unit does to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atonc.insight.explain.types import EpochShare, StepView
from atonc.machine.cost.network import NetworkCost, StepCost
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units.activ import TYPE_NAMES as ACTIV_NAMES
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import OP_NAMES, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import TYPE_NAMES as POOL_NAMES
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

SUMS = 2  # port of CONVACC at which partial sums arrive
MOST = 24  # units of a chain: more are not readable


def figures(epoch: Epoch | None) -> dict[str, Any]:
    """The fields of a `StepView` that follow from its epoch alone; none for steps of the CPU."""
    if epoch is None:
        return {}
    moved = sum(engine.frames * engine.frame_bytes for engine in epoch.engines().values())
    wires = {"chains": chains(epoch), "modes": modes(epoch), "links": links(epoch), "units": units(epoch)}
    return {**wires, "bytes_moved": moved}


def counted(cost: StepCost, network: NetworkCost, epoch: Epoch | None) -> dict[str, Any]:
    """The fields of a `StepView` that follow from what a step costs and from its epoch."""
    return {
        "cycles": cost.cycles,
        "milliseconds": cost.milliseconds,
        "st_cycles": cost.st_cycles,
        "bound_by": cost.bound_by,
        "known": cost.known,
        "activity": cost.activity,
        "energy_uj": network.energy_uj(cost),
        "doubts": {} if epoch is None else dict(cost.doubts),
        **figures(epoch),
    }


@memoise
def chains(epoch: Epoch) -> tuple[str, ...]:
    """One line per writing engine: the way of the features from memory through the units and back, without numbers."""
    lines = [" > ".join(_way(epoch, name)) for name in sorted(epoch.writers())]
    return tuple(dict.fromkeys(lines))


def _way(epoch: Epoch, writer: str) -> list[str]:
    kinds: list[str] = []
    unit: str | None = writer
    while unit is not None and len(kinds) < MOST:
        config = epoch.units.get(unit)
        kinds.append(config.KIND if config is not None else unit)
        sources = epoch.sources(unit)
        # convolvers in a row hand their sums on by port 2, and only the first has none from outside
        port = SUMS if isinstance(config, ConvaccConfig) and SUMS in sources else 0
        if isinstance(config, ArithConfig) and port in sources and sources[port].source in epoch.engines():
            port = max(sources)  # of two operands the one that is computed here
        follow = sources.get(port)
        ring = follow is not None and follow.source == unit
        unit = None if follow is None or ring or follow.source not in epoch.units else follow.source
        if unit is None and isinstance(config, ConvaccConfig):
            kinds.append("STRENG")
    return _counted(kinds[::-1])


def _counted(kinds: list[str]) -> list[str]:
    """Equal neighbours become one with a count."""
    out: list[tuple[str, int]] = []
    for kind in kinds:
        if out and out[-1][0] == kind != "STRENG":
            out[-1] = (kind, out[-1][1] + 1)
        else:
            out.append((kind, 1))
    return [kind if count == 1 else f"{count} x {kind}" for kind, count in out]


def links(epoch: Epoch) -> tuple[tuple[str, str, int, str], ...]:
    return tuple((link.source, link.destination, link.port, link.gate) for link in epoch.links)


def units(epoch: Epoch) -> dict[str, str]:
    return {name: describe(config) for name, config in epoch.units.items()}


def describe(config: UnitConfig) -> str:
    if isinstance(config, StrengConfig):
        verb = "writes" if config.to_memory else "reads"
        return f"{verb} {config.elements:,} elements at {config.address:#010x}"
    if isinstance(config, ConvaccConfig):
        height, width = config.out_size
        return (
            f"{config.kernel_height}x{config.kernel_width} stride {config.stride_y}x{config.stride_x}, "
            f"{config.kernels} kernels of {config.batch} channels, {mode(config)}, {height}x{width} out"
        )
    if isinstance(config, ArithConfig):
        vectors = "per channel" if config.vector_a or config.vector_c else "one scale"
        operation = OP_NAMES.get(config.operation, f"operation {config.operation}")
        return f"{operation} of {'two streams' if config.dual_input else 'a stream'}, {vectors}"
    if isinstance(config, PoolConfig):
        name = POOL_NAMES.get(config.type, f"type {config.type}")
        return f"{name} {config.window_y}x{config.window_x} stride {config.stride_y}x{config.stride_x}"
    if isinstance(config, ActivConfig):
        return ACTIV_NAMES.get(config.type, f"type {config.type}")
    return config.KIND.lower()


def mode(config: ConvaccConfig) -> str:
    if config.deep:
        return "deep 1x1"
    if config.dss2:
        return "depthwise stride 2"
    return {0: "16x16 bits", 1: "8x8 SIMD", 2: "16x8 SIMD"}.get(config.simd, f"SIMD {config.simd}")


def modes(epoch: Epoch) -> tuple[str, ...]:
    """What is special about the convolvers of an epoch."""
    found = []
    for config in epoch.units.values():
        if isinstance(config, ConvaccConfig):
            found.append(mode(config))
            if config.feature_stationary:
                found.append("feature stationary")
    convolvers = len(epoch.of_kind("CONVACC"))
    if convolvers > 1:
        found.append(f"{convolvers} convolvers")
    return tuple(dict.fromkeys(found))


def restricted(epoch: Epoch, part: EpochShare) -> Epoch:
    """The epoch as if it had the units of one layer only."""
    return Epoch(
        epoch.number,
        {name: config for name, config in epoch.units.items() if name in part.units},
        tuple(link for link in epoch.links if link.destination in part.units),
        tuple(name for name in epoch.waits if name in part.units),
    )


def own_view(whole: StepView, epoch: Epoch, part: EpochShare) -> StepView:
    """What one layer has of the step: time, energy and units. `epoch`: the whole one."""
    cycles = part.cycles(whole.cycles)
    share = cycles / max(1, whole.cycles)
    return replace(
        whole,
        cycles=cycles,
        milliseconds=whole.milliseconds * share,
        activity=whole.activity.share(share),
        energy_uj=whole.energy_uj * share,
        part=part,
        **figures(restricted(epoch, part)),
    )
