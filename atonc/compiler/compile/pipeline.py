"""The stages in code: bytes of a model in, a verified program out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.compare.inputs import make_extremes, make_inputs, make_noise
from atonc.compiler.emit import check_encryption
from atonc.compiler.emit.encryption import encrypt
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import program_memory
from atonc.compiler.frontends.coverage import require_quantised
from atonc.compiler.frontends.read import in_file, read
from atonc.compiler.ir import Array, Graph
from atonc.compiler.lower.product.kernels import packs_kernels, with_columns, with_packed_kernels
from atonc.compiler.ops import RunOnDemand
from atonc.compiler.passes import order
from atonc.compiler.passes.cuts import cut_inputs
from atonc.compiler.passes.states import declare_states
from atonc.compiler.place import BoardMemory, Layout
from atonc.compiler.place.usage import MemoryUse
from atonc.compiler.price.program import program_cost
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import MOST_VERIFIED, given_inputs, memories, spread, target_of
from atonc.compiler.search import silicon
from atonc.compiler.search.candidate import BOTH, MEMORY, Candidate, Scheduled, Setting, Watch, no_watch
from atonc.compiler.search.known import known_graph, known_runs
from atonc.compiler.search.log import Attempt, Verdict
from atonc.compiler.search.saved import made_for, read_decisions
from atonc.compiler.select.affinity import cpu_alone, resolve
from atonc.compiler.select.choices import Choices
from atonc.compiler.select.decisions import FIRST, Decisions
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import COARSE
from atonc.compiler.verify import CoarserThanDeclared
from atonc.machine.base import cache, progress
from atonc.machine.base.errors import AtoncError, CapacityError, ConflictError, InputError, VerificationError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Violation
from atonc.machine.base.words import Room
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.safety.evidence import EpochGrade
from atonc.machine.hw.safety.evidence.summary import Summary, summarise
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.compiler.lower.map_ops import Mapped
    from atonc.compiler.verify.report import VerifyReport


def after_failure(decisions: Decisions, error: VerificationError) -> Decisions:
    """Raises the error where no other form would help. Forms of an operator are told apart by what they declare: each
    is disproved once, then there is none left."""
    if not isinstance(error, CoarserThanDeclared):
        raise error
    layer = error.layer
    known, stripes = decisions.disproved.get(layer.op, ()), decisions.without_stripes_of({layer.op})
    if layer.declared not in known:
        return decisions.but(disproved={**decisions.disproved, layer.op: (*known, layer.declared)}, stripes=stripes)
    seen = f"{layer.kind}: {layer.max_diff:g} LSB off when it was verified"
    why = RefusedForm(COARSE, seen, f"{layer.limit:g} LSB", "report the model: the declared error is too small")
    return decisions.but(on_cpu={**decisions.on_cpu, layer.op: why}, stripes=stripes)


_MOST_BYTES = 1 << 27  # of a tensor whose typical values are looked at, whatever a file says of memories
CALIBRATION_SEEDS = (1001, 1002)  # not those of the verification


@dataclass(frozen=True, repr=False)
class Compiled:
    source: Graph  # as read
    graph: Graph  # canonical
    lowered: Callable[[], Mapped]  # with forms, as they were chosen; of a former run: chosen once more
    choices: Choices  # what is told of them
    scheduled: Scheduled
    layout: Layout
    program: Program
    findings: tuple[Violation, ...]
    report: VerifyReport | None
    seconds: float
    memory: BoardMemory
    target: Target  # what all cycles are counted for
    grades: tuple[EpochGrade, ...] = ()  # how near each epoch is to published programs
    search: tuple[Attempt, ...] = ()  # every program that was built
    decisions: Decisions = FIRST  # of the one that was taken
    priced: tuple[Program, NetworkCost] | None = None  # what the search knows already
    ciphered: Program | None = None  # the same program on encrypted weights, where the user wants it
    reused: int = 0  # results of former runs that came from the cache
    key: str = ""  # of what it was made of; nothing where that cannot be told

    @cached_property
    def mapped(self) -> Mapped:
        return self.lowered()

    @property
    def content_key(self) -> str:
        """The key of what was found; a changed copy has none."""
        return self.key if self.priced is not None and self.priced[0] is self.program else ""

    @cached_property
    def cost(self) -> NetworkCost:
        """Predicted: cycles of every step, as files have it: words that switch the cipher on count too."""
        if self.priced is not None and self.priced[0] is self.written:
            return self.priced[1]
        return program_cost(self.written, self.graph, self.memory.pools, self.target)

    @property
    def written(self) -> Program:
        """As files have it. `program` is what was verified and can be emulated: the same on plain weights."""
        return self.ciphered or self.program

    def memory_use(self, pools: Iterable[MemoryPool] | None = None, epoch_controller: bool = True) -> MemoryUse:
        """The one count of what it takes."""
        return program_memory(self.program, self.graph, self.memory.pools if pools is None else pools, epoch_controller)

    @cached_property
    def silicon(self) -> Summary:
        """How near its epochs are to published ones, with what the board has answered."""
        steps = zip(self.written.steps, self.cost.steps, strict=True)
        return summarise(self.grades, self.target.trust.board, {step.number: cost.cycles for step, cost in steps})

    def __repr__(self) -> str:
        """Without its megabytes."""
        return f"<Compiled {self.source.name[:60]!r}: {len(self.program.steps)} steps, {len(self.graph.ops)} operators>"


def compile_file(path: Path, options: Options | None = None, watch: Watch = no_watch) -> Compiled:
    options = options or Options()
    try:
        source = read_quantised(path, options)
        watch("read", source)
        return compile_graph(source, options, watch)
    except AtoncError as error:
        raise in_file(path, error) from error.__cause__


def read_quantised(path: Path, options: Options) -> Graph:
    source = read_model(path, options)
    if not options.allow_float:
        require_quantised(source)
    return source


def read_model(path: Path, options: Options) -> Graph:
    """The part of the model that the user wants."""
    progress.stage("reading the model")
    source = read(path, options.cut_outputs, options.fixed_shapes, options.cut_inputs, options.custom)
    return declare_states(cut_inputs(source, options.cut_inputs, options.cut_input_layers), options.states)


def compile_graph(source: Graph, options: Options | None = None, watch: Watch = no_watch) -> Compiled:
    options = options or Options()
    started = time.perf_counter()
    progress.stage("simplifying the graph")
    graph = order.run(source, options)
    watch("passes", graph)
    return compile_canonical(source, graph, options, memories(options), started, watch)


def compile_canonical(
    source: Graph, graph: Graph, options: Options, memory: BoardMemory, started: float = 0.0, watch: Watch = no_watch
) -> Compiled:
    """From the canonical graph on; other views change it or the memories to see what that would bring."""
    started = started or time.perf_counter()
    given = given_inputs(source, graph, options.calibration)
    setting = setting_of(source, graph, options, memory, given)
    work = _Work(source, setting, _beginning(setting.graph, options), given)
    with cache.used(options.cache) as results:
        key = work.key if watch is no_watch else ""
        known = source, setting.graph, setting.memory, setting.target, work.mapped
        kept = partial(replace, lowered=work.mapped)
        found = cache.remembered(key, partial(work.compiled, watch), Compiled, known, kept)
        reused = len(results.found) if results else 0
    return replace(found, key=key, seconds=time.perf_counter() - started, reused=reused)


@dataclass(frozen=True, eq=False)
class _Work:
    """All that a compilation depends on, from the canonical graph on."""

    source: Graph
    setting: Setting
    decisions: Decisions  # of the first program
    given: Sequence[Mapping[str, Array]]

    @property
    def key(self) -> str:
        """With all options of the compiler, needed or not; of what is verified. C code of `--custom` is read when it is
        run, so that nobody can tell here what it says."""
        one, target, options = self.setting, self.setting.target, replace(self.setting.options, cache=True)
        if options.custom or not options.verify:
            return ""
        seen = one.graph, one.memory, target.machine, target.programmed_by, target.trust, one.affinity, one.prefer
        return cache.key_of("program", self.source, options, *seen, self.decisions, self.given)

    @cached_property
    def mapped(self) -> Callable[[], Mapped]:
        """The forms of the program that is found, by another search."""
        return lambda: self.compiled(no_watch).mapped

    def compiled(self, watch: Watch) -> Compiled:
        from atonc.compiler.search.generators import GENERATORS  # with all recipes, which take time to import
        from atonc.compiler.search.loop import search

        decisions, options = self.decisions, self.setting.options
        # where the user has decided, nobody looks at a program but for weights without a place
        generators = tuple(one for one in GENERATORS if not options.decisions or one.of == Verdict.UNDECIDED)
        while True:
            best, found = search(self.setting, decisions, generators, watch)
            if options.decisions:
                _require_variants(best.mapped, decisions.forms, options.decisions)
            watch("place", best.made.program)
            try:
                return finish(best, found.log, self.source, self.given)
            except VerificationError as error:
                decisions = after_failure(best.decisions, error)


def compile_front(path: Path, options: Options) -> list[Compiled]:
    """Everything between the fastest program and the smallest: those of which no other is both."""
    from atonc.compiler.search.generators import FRONT
    from atonc.compiler.search.loop import search

    started, source = time.perf_counter(), read_quantised(path, options)
    graph = order.run(source, options)
    given = given_inputs(source, graph, options.calibration)
    setting = replace(setting_of(source, graph, options, memories(options), given), prefer=BOTH)
    compiled = []
    _, found = search(setting, FIRST, FRONT)
    leaders = sorted(found.leaders, key=lambda one: (one.ram_bytes, one.cycles))
    for number, leader in enumerate(leaders, 1):
        with progress.part(f"program {number} of {len(leaders)}"):
            done = finish(leader, found.log, source, given)
            compiled.append(replace(done, seconds=time.perf_counter() - started))
    return compiled


def setting_of(
    source: Graph,
    graph: Graph,
    options: Options,
    memory: BoardMemory,
    given: Sequence[Mapping[str, Array]] = (),
    remember: bool = True,
) -> Setting:
    """`remember`: who compiles the same graph next, finds its forms again."""
    target = target_of(options)
    memory = replace(memory, machine=target.machine)
    if options.no_npu:
        affinity = cpu_alone(graph, options.on_npu)
    else:
        affinity = resolve(source, graph, options.on_cpu, options.on_npu)
    graph = with_columns(graph, affinity.on_cpu)
    if packs_kernels(target.trust, options.schedule_without, options.schedule_with):
        graph = with_packed_kernels(graph, affinity.on_cpu)
    graph = known_graph(graph) if remember and not given else graph  # forms follow from typical inputs as well
    calibrate = lru_cache(partial(_typical, graph, memory, given))
    return Setting(graph, memory, target, options, affinity, calibrate, options.prefer)


def finish(best: Candidate, log: Sequence[Attempt], source: Graph, given: Sequence[Mapping[str, Array]]) -> Compiled:
    """A program that was found becomes one that may be used: safe and verified."""
    made, setting = best.made, best.setting
    findings = silicon.require_safe(best.found, setting.target.trust)
    pools, target = setting.memory.pools, setting.target
    judged, options = (made.program, setting.graph, made.mapped), setting.options
    report = _verified(judged, options, setting.memory, given) if options.verify else None
    ciphered, graded = None, best.found
    if options.encrypt_weights:  # after the verification, of the plain program: only the cipher is different
        ciphered = encrypt(made.program, pools)
        check_encryption.require_sound(ciphered)
        silicon.require_only_cipher(best.found, ciphered, pools, target.trust)
        graded = silicon.inspect(ciphered, pools, target.trust, target.by_controller)
    return Compiled(
        source,
        setting.graph,
        lowered=lambda: made.mapped,
        choices=made.mapped.choices,
        scheduled=made.scheduled,
        layout=made.layout,
        program=made.program,
        findings=findings,
        report=report,
        seconds=0.0,
        memory=setting.memory,
        target=setting.target,
        grades=graded.grades,
        search=tuple(log),
        decisions=replace(best.decisions, made_for=made_for(setting.graph, options)),
        priced=(made.program, best.cost),
        ciphered=ciphered,
    )


def _require_variants(mapped: Mapped, wanted: Mapping[str, str], file: str) -> None:
    """A variant that an operator does not have would be left out silently."""
    for op, text in wanted.items():
        others = mapped.forms[op].alternatives if op in mapped.forms else ()
        if text not in {str(one.chosen) for one in others}:
            possible = sorted({str(one.variant) for one in others} | {str(one.chosen) for one in others})
            raise InputError(
                f"{op[:80]} has no variant {text!r}",
                where=file,
                rule="a decision is kept or refused",
                remedy=f"choose from: {', '.join(possible) or 'nothing, it has one variant'}",
            )


def _beginning(graph: Graph, options: Options) -> Decisions:
    """What is built first."""
    room = int(options.room_for_weights)
    if not options.decisions:
        return Decisions(compact=options.prefer == MEMORY, resident_bytes=room)
    given = read_decisions(Path(options.decisions), graph, made_for(graph, options))
    if room and given.resident is None:
        given = replace(given, resident_bytes=room)
    elif room and room != given.resident_bytes:
        what = f"--resident {Room(room)} does not go with decisions for {Room(given.resident_bytes) or 'none'}"
        rule = "a file that says where weights lie in RAM has decided how much of it they take"
        remedy = "leave out --resident, or take 'resident' and 'fetched' out of the file"
        raise ConflictError(what, where=options.decisions, rule=rule, remedy=remedy)
    return given


def _verified(
    made: tuple[Program, Graph, Mapped], options: Options, memory: BoardMemory, given: Sequence[Mapping[str, Array]]
) -> VerifyReport:
    from atonc.compiler.verify.verify import verify  # with the emulator, which takes time to import

    return verify(*made, options.seed, spread(given, MOST_VERIFIED), memory.pools)


def verified(found: Compiled, options: Options) -> Compiled:
    """A program that was compiled without verification, with it: who tries several verifies the last."""
    given = given_inputs(found.source, found.graph, options.calibration)
    made = found.program, found.graph, found.mapped
    report = _verified(made, options, found.memory, given) if options.verify else None
    return replace(found, report=report)


def _typical(graph: Graph, memory: BoardMemory, given: Sequence[Mapping[str, Array]]) -> list[Mapping[str, Array]]:
    """What forms are calibrated on: all values of a graph for inputs like those of the application."""
    _require_room(graph, memory)
    return typical_runs(graph, given) if given else known_runs(graph, partial(typical_runs, graph))


def typical_runs(graph: Graph, given: Sequence[Mapping[str, Array]] = ()) -> list[Mapping[str, Array]]:
    """Exact values of all tensors for two natural-looking inputs, for noise, for one at the ends of its range, and for
    those that the user gave, each worked out when somebody asks."""
    inputs = [make_inputs(graph, seed) for seed in CALIBRATION_SEEDS]
    others = make_noise(inputs[0], CALIBRATION_SEEDS[0]), make_extremes(graph, CALIBRATION_SEEDS[0])
    return [RunOnDemand(graph, values) for values in (*inputs, *others, *given)]


def _require_room(graph: Graph, memory: BoardMemory) -> None:
    """A tensor that no memory holds is not worth computing; else placement says more about it."""
    room = min(sum(pool.size_bytes for pool in memory.pools if pool.writable), _MOST_BYTES)
    for name, tensor in graph.tensors.items():
        if not tensor.is_constant and tensor.elements > room:
            raise CapacityError(
                f"{tensor.elements:,} elements, the writable memories have {room:,} bytes",
                where=name,
                remedy="use a smaller input, or a board or .mpool with more RAM",
            )
