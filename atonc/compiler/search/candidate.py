"""A program that was built of decisions, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from atonc.compiler.emit import runs
from atonc.compiler.emit.program import Program, bind, kept_states
from atonc.compiler.ir import Array, Graph
from atonc.compiler.place import BoardMemory, Layout
from atonc.compiler.place.user_allocated import user_allocated_edges
from atonc.compiler.plan.types import StepPlan
from atonc.compiler.price.program import program_cost, program_cycles
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import PREFETCH, TABLES, unused
from atonc.compiler.schedule.shares import Share, shares
from atonc.compiler.schedule.types import LoweredOperator, Schedule
from atonc.compiler.search import silicon
from atonc.compiler.select.affinity import NO_AFFINITY, Affinity
from atonc.compiler.select.decisions import Decisions
from atonc.compiler.select.form import RefusedForm
from atonc.machine.base import progress
from atonc.machine.base.frozen import dataclass
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw import safety
from atonc.machine.hw.target import Target

if TYPE_CHECKING:  # a program that a former run found is told without them
    from atonc.compiler.lower.alike import AlikeForms
    from atonc.compiler.lower.map_ops import Mapped
    from atonc.compiler.place.explain import PlacementError

Watch = Callable[[str, object], None]  # is told the name of every stage (options.STAGES) and what it hands on
SPEED, MEMORY, BOTH = "speed", "memory", "both"


def no_watch(stage: str, result: object) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Scheduled:
    """The program before it has addresses."""

    schedule: Schedule
    plans: tuple[StepPlan, ...]  # its steps with unit numbers
    reference: tuple[
        LoweredOperator, ...
    ] = ()  # what the schedule was made of: the works of the graph, some of them cut anew

    @property
    def owners(self) -> tuple[str, ...]:
        """The operator behind each step, or the first of several."""
        return self.schedule.owners

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        """What each operator has of every step."""
        return tuple(map(shares, self.schedule.steps, self.plans))


@dataclass(frozen=True)
class Setting:
    """What is to be compiled, and for what: the same for all candidates."""

    graph: Graph
    memory: BoardMemory
    target: Target
    options: Options
    affinity: Affinity = NO_AFFINITY
    calibrate: Callable[[], list[Mapping[str, Array]]] | None = None  # exact values of all tensors for typical inputs
    prefer: str = SPEED  # what the search is for
    alike: AlikeForms | None = None  # where weights are assumed
    proved: bool = True  # by checks of every stage; not of a program that nobody writes or runs

    @property
    def without(self) -> frozenset[str]:
        """Passes of the schedule that are left out."""
        return frozenset(unused(self.options.schedule_without, self.options.schedule_with))

    @property
    def by_engines(self) -> bool:
        """Idle engines copy weights ahead."""
        return PREFETCH in self.options.schedule_with

    @property
    def by_dma(self) -> bool:
        """The chip's DMA does."""
        return self.options.dma_channel is not None

    @property
    def fetches_weights(self) -> bool:
        return self.by_engines or self.by_dma

    @property
    def keeps_tables(self) -> bool:
        """Drivers load every table; in programs of the epoch controller one may stay."""
        return TABLES in self.options.schedule_with and self.options.epoch_controller

    @property
    def user_allocated(self) -> tuple[str, ...]:
        """Inputs and outputs whose memory the application brings."""
        options, edges = self.options, (self.graph.frame_inputs, self.graph.frame_outputs)
        return user_allocated_edges(*edges, options.inputs_allocation, options.outputs_allocation)

    def bound(self, plans: Sequence[StepPlan], layout: Layout) -> Program:
        edges = self.graph.frame_inputs, self.graph.frame_outputs
        program = bind(list(plans), layout.placed, *edges, layout.cached_pools, self.memory.pools)
        program = replace(program, states=kept_states(self.graph, layout.placed))
        if any(home.buffer.half_bytes for home in layout.placed.values()):
            program = replace(program, four_bits=self.target.trust.four_bits)
        return runs.keep_tables(program) if self.keeps_tables else program


@dataclass(frozen=True)
class Built:
    """Everything that `build` made on the way."""

    mapped: Mapped
    scheduled: Scheduled
    layout: Layout
    program: Program


@dataclass(frozen=True, eq=False)
class Candidate:
    """`built` is None where no memory has room for it."""

    decisions: Decisions
    setting: Setting
    mapped: Mapped
    built: Built | None = None
    shortage: PlacementError | None = None
    chained: bool = False  # operators share chains

    @property
    def made(self) -> Built:
        assert self.built is not None, "asked of a candidate that found no memory"
        return self.built

    @property
    def undecided(self) -> bool:
        """Whether it is still open where weights lie that the user wants in RAM."""
        return self.decisions.undecided or (self.setting.fetches_weights and self.decisions.fetched is None)

    @cached_property
    def cost(self) -> NetworkCost:
        setting = self.setting
        return program_cost(self.made.program, setting.graph, setting.memory.pools, setting.target)

    @cached_property
    def cycles(self) -> int:
        return program_cycles(self.made.program, self.setting.graph, self.setting.target)

    @property
    def peak_bytes(self) -> int:
        return self.made.layout.peak_bytes

    @property
    def ram_bytes(self) -> int:
        """With weights that are kept or fetched there."""
        return self.made.layout.memory.ram_bytes

    @cached_property
    def found(self) -> safety.Inspection:
        """The program as the chip would read it, against the safety rules and the evidence."""
        progress.stage("checking every epoch")
        target = self.setting.target
        return silicon.inspect(self.made.program, self.setting.memory.pools, target.trust, target.by_controller)

    @cached_property
    def refused(self) -> Mapping[str, RefusedForm]:
        """Operators whose epochs have a form that the user does not trust."""
        made = self.made
        return silicon.refused(self.found.grades, made.program, made.scheduled.shares, self.setting.target.trust)
