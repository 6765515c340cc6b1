"""The stages in code: bytes of a model in, a verified program out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc import progress, silicon
from atonc.arranging import Job, Wishes, arrange, supplied, taken_apart
from atonc.arranging import Scheduled as Scheduled
from atonc.arranging import Watch as Watch
from atonc.arranging import nobody as nobody
from atonc.calibration import MOST_VERIFIED, given_inputs, spread
from atonc.compare.extremes import make_extremes
from atonc.compare.inputs import make_inputs, make_noise
from atonc.cost.network import NetworkCost
from atonc.cost.program import program_cost
from atonc.emit.contexts import safety_contexts
from atonc.emit.program import Program
from atonc.errors import CapacityError, InternalError
from atonc.frontends.coverage import require_quantised
from atonc.frontends.read import read
from atonc.hw import safety
from atonc.hw.cycles.target import Target
from atonc.hw.decode import decode_epochs
from atonc.hw.ec import ec_program
from atonc.hw.mpool import MemoryPool
from atonc.hw.safety.evidence import PUBLISHED, EpochGrade, Trust
from atonc.hw.safety.evidence.summary import Summary, summarise
from atonc.ir import Array, Graph
from atonc.lower.map_ops import Mapped, map_ops
from atonc.ops import RunOnDemand
from atonc.options import Options
from atonc.passes import order
from atonc.passes.cut_inputs import cut_inputs
from atonc.place import Board, Layout
from atonc.reasons import Severity, Violation
from atonc.select.affinity import resolve
from atonc.select.form import Refused
from atonc.select.policy import MOST_CODES
from atonc.target import machine_of as machine_of
from atonc.target import memories as memories
from atonc.target import target_of as target_of
from atonc.target import with_asked_clocks as with_asked_clocks

if TYPE_CHECKING:
    from atonc.verify import VerifyReport

_MOST_BYTES = 1 << 27  # of a tensor whose typical values are looked at, whatever a file says of memories
CALIBRATION_SEEDS = (1001, 1002)  # not those of the verification
ROUNDS = 8  # each takes operators whose epochs were refused apart, or moves them to the CPU; the rest is placed anew


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
    memory: Board
    target: Target  # what all cycles are counted for
    grades: tuple[EpochGrade, ...] = ()  # how near each epoch is to published programs

    @cached_property
    def cost(self) -> NetworkCost:
        """Predicted: cycles of every step."""
        return program_cost(self.program, self.graph, self.memory.pools, self.target)

    @property
    def silicon(self) -> Summary:
        """How near its epochs are to published ones, with what the board has answered."""
        return summarise(self.grades, self.target.trust.board)

    def __repr__(self) -> str:
        """Without its megabytes."""
        return f"<Compiled {self.source.name[:60]!r}: {len(self.program.steps)} steps, {len(self.graph.ops)} operators>"


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
    given = given_inputs(source, graph, options.calibration)
    samples = cache(partial(typical_runs, graph, memory, given))
    avoided: dict[str, Refused] = {}
    wishes = Wishes()
    target = target_of(options)
    memory = replace(memory, machine=target.machine)
    job = Job(graph, memory, target, options, watch)
    for _ in range(ROUNDS):
        coarse = max(MOST_CODES, options.allow_coarse)
        edges = supplied(graph, options)
        lower = partial(map_ops, graph, job.target, options.numerics, samples, affinity, edges, avoided, coarse=coarse)
        mapped, scheduled, layout, program = arrange(lower, job, wishes)
        watch("place", program)
        progress.stage("checking every epoch")
        found = inspect(program, memory.pools, target.trust)
        refused = silicon.refused(found.grades, program, scheduled.shares, target.trust)
        if not refused:
            break
        wishes, helped = taken_apart(wishes, refused, mapped, scheduled)
        avoided |= {name: refusal for name, refusal in refused.items() if name not in helped}
    else:
        raise silicon.no_end(refused)
    findings = require_safe(found, target.trust)
    seconds = time.perf_counter() - started
    report = _verified(program, graph, mapped, options, memory, given)
    made = mapped, scheduled, layout, program
    return Compiled(source, graph, *made, findings, report, seconds, memory, job.target, found.grades)


def _verified(
    program: Program,
    graph: Graph,
    mapped: Mapped,
    options: Options,
    memory: Board,
    given: Sequence[Mapping[str, Array]],
) -> VerifyReport | None:
    if not options.verify:
        return None
    from atonc.verify import verify  # with the emulator, which takes time to import

    return verify(program, graph, mapped, options.seed, spread(given, MOST_VERIFIED), memory.pools)


def typical_runs(
    graph: Graph, memory: Board | None = None, given: Sequence[Mapping[str, Array]] = ()
) -> list[Mapping[str, Array]]:
    """Exact values of all tensors for two natural-looking inputs, for noise, for one at the ends of its range, and for
    those that the user gave, each worked out when somebody asks."""
    if memory is not None:
        _require_room(graph, memory)
    inputs = [make_inputs(graph, seed) for seed in CALIBRATION_SEEDS]
    others = make_noise(inputs[0], CALIBRATION_SEEDS[0]), make_extremes(graph, CALIBRATION_SEEDS[0])
    return [RunOnDemand(graph, values) for values in (*inputs, *others, *given)]


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


def inspect(program: Program, pools: Iterable[MemoryPool], trust: Trust = PUBLISHED) -> safety.Inspection:
    """The program as the chip would read it, against the safety rules and the evidence."""
    decoded = [e for e in decode_epochs(ec_program.program(program.epochs)) if not e.empty]
    return safety.inspect(decoded, safety_contexts(program, pools, trust))


def require_safe(found: safety.Inspection, trust: Trust) -> tuple[Violation, ...]:
    """What breaks a rule is never given out; what is worth knowing of the rest."""
    serious = tuple(v for v in found.violations if v.severity != Severity.NOTE)
    unproven = () if trust.unproven else [v for v in serious if v.severity != Severity.VIOLATION]
    bad = [v for v in serious if v.severity == Severity.VIOLATION]
    bad += [v for v in unproven if v.seen not in map(str, trust.asked)]
    if bad:
        first = bad[0]
        raise InternalError(
            f"{len(bad)} findings of the safety rules, first {first.rule.id}: {first.seen}",
            where=first.where,
            rule=first.rule.sentence,
            remedy="report the model: the compiler must not produce this",
        )
    return serious
