"""The finished program: epochs with addresses, CPU calls, memory contents, and where everything lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from atonc.hw.epoch import Epoch
from atonc.hw.fields import UnitConfig
from atonc.place.types import PREFETCH_BYTES, Placed
from atonc.plan.types import BufferKind, CpuPlan, EpochPlan, StepPlan


@dataclass(frozen=True)
class ProgramStep:
    number: int
    plan: StepPlan
    epoch: Epoch | None = None


@dataclass(frozen=True)
class Program:
    steps: tuple[ProgramStep, ...]
    placed: Mapping[str, Placed]
    inputs: tuple[str, ...]  # buffers in the order of the graph's inputs
    outputs: tuple[str, ...]
    external: frozenset[str] = field(default_factory=frozenset)  # pools that the NPU cache serves

    @property
    def epochs(self) -> list[Epoch]:
        return [step.epoch for step in self.steps if step.epoch is not None]


def bind_epoch(plan: EpochPlan, number: int, placed: Mapping[str, Placed], cached_pools: frozenset[str]) -> Epoch:
    """The epoch with all addresses known."""
    units: dict[str, UnitConfig] = dict(plan.units)
    for name, use in plan.engines.items():
        home = placed[use.buffer]
        units[name] = replace(
            use.config,
            address=home.address + use.config.address,
            address_limit=home.end + PREFETCH_BYTES - 1,
            # only constants go through the NPU cache: activations in external RAM are also the CPU's
            cacheable=int(home.pool in cached_pools and home.buffer.kind == BufferKind.CONSTANT),
        )
    writers = sorted(name for name, use in plan.engines.items() if use.config.to_memory)
    return Epoch(number, units, plan.links, tuple(writers))


def bind(
    plans: list[StepPlan],
    placed: Mapping[str, Placed],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    cached_pools: frozenset[str],
) -> Program:
    steps = []
    for number, plan in enumerate(plans, 1):
        epoch = None if isinstance(plan, CpuPlan) else bind_epoch(plan, number, placed, cached_pools)
        steps.append(ProgramStep(number, plan, epoch))
    return Program(tuple(steps), placed, inputs, outputs, cached_pools)
