"""The stages in code: bytes of a model in, a verified program out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

from atonc import progress, silicon, weights
from atonc.compare.inputs import make_inputs, make_noise
from atonc.cost.prefetch_advice import Advice
from atonc.cost.program import program_cost
from atonc.emit.contexts import safety_contexts
from atonc.emit.program import Program, bind
from atonc.errors import CapacityError, InternalError
from atonc.frontends.coverage import require_quantised
from atonc.frontends.read import read
from atonc.hw import safety
from atonc.hw.board_file import find_board
from atonc.hw.decode import decode_epochs
from atonc.hw.ec import ec_program, instructions
from atonc.hw.machine import Machine
from atonc.hw.mpool import MemoryPool
from atonc.hw.safety.evidence import EpochGrade, Grade
from atonc.ir import Array, Graph
from atonc.lower.map_ops import Mapped, map_ops
from atonc.ops import run_graph
from atonc.options import Options
from atonc.passes import order
from atonc.passes.cut_inputs import cut_inputs
from atonc.place import Board, Layout, board, place, read_board
from atonc.place import check as place_check
from atonc.place.explain import NPU_RAM, PlacementError
from atonc.place.pools import movable_outside, not_secure, npu_ram_bytes
from atonc.place.supplied import require_apart, supplied_edges
from atonc.plan.contents import require_written
from atonc.plan.types import StepPlan
from atonc.reasons import Severity, Violation
from atonc.schedule import FUSE, schedule
from atonc.schedule import check as schedule_check
from atonc.schedule import fuse as fusing
from atonc.schedule.assign import assign
from atonc.schedule.fuse import Fused, fuse
from atonc.schedule.pack_ops import Network
from atonc.schedule.shares import Share, shares
from atonc.schedule.types import Schedule
from atonc.select.affinity import resolve
from atonc.select.cycles import cycles_of, epoch_cycles
from atonc.select.form import Refused
from atonc.select.policy import Room
from atonc.verify import VerifyReport, verify

_MOST_BYTES = 1 << 27  # of a tensor whose typical values are looked at, whatever a file says of memories
CALIBRATION_SEEDS = (1001, 1002)  # not those of the verification
Watch = Callable[[str, object], None]  # is told the name of every stage (options.STAGES) and what it hands on
ROUNDS = 6  # each moves the operators whose epochs were refused to the CPU; what they leave is placed anew


def nobody(stage: str, result: object) -> None:
    """Watches nothing."""


@dataclass(frozen=True, repr=False)
class Compiled:
    source: Graph  # as read
    graph: Graph  # canonical
    mapped: Mapped
    scheduled: Scheduled
    layout: Layout
    program: Program
    findings: tuple[Violation, ...]
    report: VerifyReport | None
    seconds: float
    grades: tuple[EpochGrade, ...] = ()  # how near each epoch is to published programs

    def __repr__(self) -> str:
        """Without its megabytes."""
        return f"<Compiled {self.source.name[:60]!r}: {len(self.program.steps)} steps, {len(self.graph.ops)} operators>"


@dataclass(frozen=True)
class Scheduled:
    """The program before it has addresses."""

    schedule: Schedule
    plans: tuple[StepPlan, ...]  # its steps with unit numbers

    @property
    def owners(self) -> tuple[str, ...]:
        """The operator behind each step, or the first of several."""
        return self.schedule.owners

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        """What each operator has of every step."""
        return tuple(map(shares, self.schedule.steps, self.plans))


def compile_file(path: Path, options: Options | None = None, watch: Watch = nobody) -> Compiled:
    options = options or Options()
    source = read_model(path, options)
    watch("read", source)
    if not options.allow_float:
        require_quantised(source)
    return compile_graph(source, options, watch)


def read_model(path: Path, options: Options) -> Graph:
    """The part of the model that the user wants."""
    progress.stage("reading the model")
    source = read(path, options.cut_outputs, options.fixed_shapes)
    return cut_inputs(source, options.cut_inputs, options.cut_input_layers)


def compile_graph(source: Graph, options: Options | None = None, watch: Watch = nobody) -> Compiled:
    options = options or Options()
    started = time.perf_counter()
    progress.stage("simplifying the graph")
    graph = order.run(source, options)
    watch("passes", graph)
    return compile_canonical(source, graph, options, memories(options), started, watch)


def compile_canonical(
    source: Graph, graph: Graph, options: Options, memory: Board, started: float = 0.0, watch: Watch = nobody
) -> Compiled:
    """From the canonical graph on; other views change it or the memories to see what that would bring."""
    started = started or time.perf_counter()
    affinity = resolve(source, graph, options.on_cpu, options.on_npu)
    samples = cache(partial(typical_runs, graph, memory))
    avoided: dict[str, Refused] = {}
    apart: set[str] = set()  # operators that shall not be chained to others
    for _ in range(ROUNDS):
        lower = partial(map_ops, graph, options.numerics, samples, affinity, supplied(graph, options), avoided)
        mapped, scheduled, layout, program = _with_weights_near(lower, graph, memory, options, watch, apart)
        watch("place", program)
        progress.stage("checking every epoch")
        found = inspect(program, memory.pools)
        refused = silicon.refused(found.grades, program, scheduled.shares, options)
        if not refused:
            break
        chained = scheduled.schedule.chained(refused)
        apart |= chained
        avoided |= {name: refusal for name, refusal in refused.items() if name not in chained}
    else:
        raise silicon.no_end(refused)
    findings = require_safe(found, options)
    seconds = time.perf_counter() - started
    report = verify(program, graph, mapped, options.seed) if options.verify else None
    return Compiled(source, graph, mapped, scheduled, layout, program, findings, report, seconds, found.grades)


Bound = tuple[Mapped, Scheduled, Layout, Program]


def _with_weights_near(
    lower: Callable[..., Mapped],
    graph: Graph,
    memory: Board,
    options: Options,
    watch: Watch,
    apart: Collection[str] = (),
) -> Bound:
    """Where another schedule lets more weights be fetched ahead, that one too; the better one is taken."""
    build = partial(_map_and_place, graph=graph, memory=memory, options=options, watch=watch, apart=apart)
    first, advice = _brought(build(lower), graph, memory, options)
    if advice == Advice():
        return first
    second, _ = _brought(build(partial(lower, cuts=advice.cuts), roomy=advice.roomy), graph, memory, options)
    return min(first, second, key=lambda one: _program_cycles(one[3], graph, memory, options))


def _brought(
    built: tuple[Mapped, Scheduled, Layout], graph: Graph, memory: Board, options: Options
) -> tuple[Bound, Advice]:
    """The program with weights in RAM as the user wants, and what would bring more of them there."""
    mapped, scheduled, layout = built
    program, advice = _bound(scheduled, layout, graph, memory), Advice()
    for bring in weights.wanted(options):
        if bring is weights.fetch_ahead:
            advice = weights.advice(program, scheduled.schedule.ops, memory, machine_of(options))
        plans, layout = bring(program, layout, mapped.context, memory, options, machine_of(options))
        scheduled = replace(scheduled, plans=plans)
        program = _bound(scheduled, layout, graph, memory)
    return (mapped, scheduled, layout, program), advice


def _map_and_place(
    lower: Callable[..., Mapped],
    graph: Graph,
    memory: Board,
    options: Options,
    watch: Watch,
    apart: Collection[str] = (),
    roomy: frozenset[str] = frozenset(),
) -> tuple[Mapped, Scheduled, Layout]:
    """Buffers in which engines start between aligned addresses need the NPU's own RAM. Where that is too small for all
    of them, smaller and smaller layers start their engines at aligned addresses only, which is slower."""
    shortage: PlacementError | None = None
    for room in Room(npu_ram_bytes(memory)).tighter():
        mapped = lower(room=room, without=left_out(options))
        watch("lower", mapped)
        try:
            return mapped, *_schedule_and_place(mapped, graph, memory, options, watch, apart, roomy)
        except PlacementError as error:
            shortage = shortage or error
            if error.shortage.memory != NPU_RAM:
                break
    assert shortage is not None
    raise shortage


def _schedule_and_place(
    mapped: Mapped,
    graph: Graph,
    memory: Board,
    options: Options,
    watch: Watch,
    apart: Collection[str],
    roomy: frozenset[str],
) -> tuple[Scheduled, Layout]:
    """Longer chains write in other places of their buffers. Where no memory has room for that, nothing is chained. What
    chains save is reckoned with all buffers on the chip; where some are outside, the finished programs are compared."""
    fused = chains(mapped, graph, options, apart)
    place = partial(_placed, mapped, graph=graph, memory=memory, options=options, watch=watch, roomy=roomy)
    try:
        found = place(fused)
    except PlacementError:
        if not fused.merges:
            raise
        return place(Fused(mapped.works))
    if not fused.merges or not found[1].spilled_bytes:
        return found
    return min(found, place(Fused(mapped.works)), key=lambda one: _cycles(one[0], one[1], graph, memory, options))


def _cycles(scheduled: Scheduled, layout: Layout, graph: Graph, memory: Board, options: Options) -> int:
    return _program_cycles(_bound(scheduled, layout, graph, memory), graph, memory, options)


def _program_cycles(program: Program, graph: Graph, memory: Board, options: Options) -> int:
    return program_cost(program, graph, memory.pools, machine_of(options)).cycles


def _placed(
    mapped: Mapped,
    fused: Fused,
    graph: Graph,
    memory: Board,
    options: Options,
    watch: Watch,
    roomy: frozenset[str] = frozenset(),
) -> tuple[Scheduled, Layout]:
    scheduled, context = schedule_tasks(mapped, fused, options, roomy), mapped.context
    watch("schedule", scheduled)
    progress.stage("placing buffers")
    require_written(scheduled.plans, context.buffers, context.aliases, graph.inputs, graph.outputs)
    return scheduled, _place(mapped, scheduled, graph, memory, options)


def chains(mapped: Mapped, graph: Graph, options: Options, apart: Collection[str] = ()) -> Fused:
    """Operators behind others in one epoch; `apart`: those that stay alone."""
    if FUSE in left_out(options):
        return Fused(mapped.works)
    context = mapped.context
    worst = Grade.WITHIN if options.silicon == silicon.SEEN else Grade.COMPOSED
    price = partial(cycles_of, buffers=context.buffers)
    network = fusing.Network(context.buffers, context.aliases, graph.outputs, price, worst, apart)
    return fuse(mapped.works, network)


def schedule_tasks(
    mapped: Mapped, fused: Fused, options: Options, roomy: frozenset[str] = frozenset()
) -> Scheduled:
    """Epochs with unit numbers, sound. Chains without evidence are left to the gate of `--silicon`, which sends their
    operators to the CPU. `roomy`: operators whose epochs leave the engines of a copy."""
    context = mapped.context
    cycles = partial(epoch_cycles, buffers=context.buffers, machine=machine_of(options))
    scheduled = schedule(fused.works, Network(context.buffers, context.aliases, cycles, roomy), left_out(options))
    found = replace(scheduled, merges=fused.merges, apart=fused.apart)
    plans = assign(found)
    findings = schedule_check.check(mapped.works, found, plans, context.aliases)
    schedule_check.require_sound(findings, allow_unproven=True)
    return Scheduled(found, plans)


def left_out(options: Options) -> tuple[str, ...]:
    """Passes of the schedule. Most sets of chains side by side are composed of seen ones, not seen themselves."""
    return (*options.schedule_without, *(("lanes", "pack") if options.silicon == silicon.SEEN else ()))


def memories(options: Options) -> Board:
    if options.mpool:
        return read_board(Path(options.mpool))
    found = board(options.board)
    found = found if options.secure else not_secure(found)
    return movable_outside(found) if options.relocatable else found


def machine_of(options: Options) -> Machine:
    """The machine of the board, at the clocks that the user has if they differ."""
    return with_asked_clocks(find_board(options.board).require_npu().machine(), options)


def with_asked_clocks(machine: Machine, options: Options) -> Machine:
    wanted = {"npu_mhz": options.npu_mhz, "cpu_mhz": options.cpu_mhz, "flash_mb_per_s": options.flash_mbps}
    return machine.with_clocks(**{name: value for name, value in wanted.items() if value})


def typical_runs(graph: Graph, memory: Board | None = None) -> list[Mapping[str, Array]]:
    """Exact values of all tensors for two natural-looking inputs and for noise."""
    if memory is not None:
        _require_room(graph, memory)
    inputs = [make_inputs(graph, seed) for seed in CALIBRATION_SEEDS]
    return [run_graph(graph, values) for values in (*inputs, make_noise(inputs[0], CALIBRATION_SEEDS[0]))]


def _require_room(graph: Graph, memory: Board) -> None:
    """A tensor that no memory holds is not worth computing; else placement says more about it."""
    room = min(sum(pool.size_bytes for pool in memory.pools if pool.writable), _MOST_BYTES)
    for name, tensor in graph.tensors.items():
        if not tensor.is_constant and tensor.elements > room:
            raise CapacityError(
                f"{tensor.elements:,} elements, the writable memories have {room:,} bytes",
                where=name,
                remedy="use a smaller input, or a board or .mpool with more RAM",
            )


def _place(mapped: Mapped, scheduled: Scheduled, graph: Graph, memory: Board, options: Options) -> Layout:
    context = mapped.context
    require_apart(supplied(graph, options), graph.inputs, graph.outputs, context.aliases)
    plans, edges = list(scheduled.plans), (graph.inputs, graph.outputs)
    layout = place(plans, context.buffers, context.aliases, *edges, memory, options.prefer, supplied(graph, options))
    place_check.require_sound(place_check.check(layout.placed, plans, memory, context.aliases, *edges))
    return layout


def _bound(scheduled: Scheduled, layout: Layout, graph: Graph, memory: Board) -> Program:
    edges = graph.inputs, graph.outputs
    return bind(list(scheduled.plans), layout.placed, *edges, layout.cached_pools, memory.pools)


def supplied(graph: Graph, options: Options) -> tuple[str, ...]:
    """Inputs and outputs whose memory the application brings."""
    return supplied_edges(graph.inputs, graph.outputs, options.inputs_allocation, options.outputs_allocation)


def check(program: Program, options: Options, pools: Iterable[MemoryPool]) -> tuple[Violation, ...]:
    return require_safe(inspect(program, pools), options)


def inspect(program: Program, pools: Iterable[MemoryPool]) -> safety.Inspection:
    """The program as the chip would read it, against the safety rules and the evidence."""
    words = ec_program.words(program.epochs)
    decoded = [e for e in decode_epochs(instructions.decode(words)) if not e.empty]
    return safety.inspect(decoded, safety_contexts(program, pools))


def require_safe(found: safety.Inspection, options: Options) -> tuple[Violation, ...]:
    """What breaks a rule is never given out; what is worth knowing of the rest."""
    serious = tuple(v for v in found.violations if v.severity != Severity.NOTE)
    bad = [v for v in serious if v.severity == Severity.VIOLATION or not options.allow_unproven]
    if bad:
        first = bad[0]
        raise InternalError(
            f"{len(bad)} findings of the safety rules, first {first.rule.id}: {first.seen}",
            where=first.where,
            rule=first.rule.sentence,
            remedy="report the model: the compiler must not produce this",
        )
    return serious
