"""A model compiled and weighed: everything that one compilation gave, for the files, reports and sweeps that are made
of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.pipeline import Compiled, Watch, compile_file, no_watch
from atonc.compiler.compile.reproduce import again, asking
from atonc.compiler.emit import write
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.resident import free_spans
from atonc.compiler.place.usage import MemoryUse
from atonc.compiler.request.options import Options
from atonc.compiler.search.weights import in_flash
from atonc.machine.base import cache, progress
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import ms_text
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw.memoise import memoise


@dataclass(frozen=True, repr=False)
class CompileView:
    """Everything that one compilation gave."""

    model: str
    name: str
    board: BoardMemory
    compiled: Compiled
    cost: NetworkCost
    macs: int
    options: Options = field(default_factory=Options)
    reproduce: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    path: Path | None = None  # of the model, as it was named
    words: tuple[str, ...] = ()  # of the command line that asked for it, where there is one
    advice: tuple[tuple[str, str], ...] = ()  # options that were tried and help: flags, what each brings
    may_be_resident: bool = True  # False: where the network goes, no weights stay in RAM

    @cached_property
    def memory(self) -> MemoryUse:
        """The one count of what it takes."""
        return self.compiled.memory_use(self.board.pools, self.options.epoch_controller)

    @cached_property
    def resident_outlook(self) -> tuple[float, int, bool] | None:
        """Milliseconds with weights in RAM, how many bytes, and whether all have room: then it is what `--resident`
        takes, else the most, since the search cuts kernels and activations for more."""
        made = self.compiled
        if not self.may_be_resident or self.options.resident or self.options.encrypt_weights or not made.program.steps:
            return None
        saved, taken, every = _outlook(made, self.options.keep_free)
        return (made.target.machine.milliseconds(self.cost.cycles - saved), taken, every) if saved > 0 else None

    @property
    def operators(self) -> int:
        """Operators of the model, as it was read."""
        return len(self.compiled.source.ops)

    @property
    def layers(self) -> int:
        """Layers compiled: operators after folding and fusion, those that cost nothing too. Every view counts them."""
        return len(self.compiled.graph.ops)

    def again(self, verb: str) -> str:
        """Another verb on the same model with the same options, as a command."""
        return again(verb, self.path or Path(self.model), self.options, name=self.name)

    def asking(self, options: Options) -> str:
        """The command that was given, with other options of the compiler."""
        return asking(self.words, self.path or Path(self.model), self.options, self.name, options)

    def __repr__(self) -> str:
        time = f"{ms_text(self.cost.latency_ms, 3)} predicted ({self.cost.band.span(self.cost.latency_ms, 3)})"
        return f"<CompileView {self.model[:60]!r} for {self.board.name[:60]}: {time}>"


@memoise
def _outlook(made: Compiled, keep_free: int) -> tuple[int, int, bool]:
    """Cycles saved, bytes taken and whether that is all, the same for every view of a compilation."""
    key = cache.key_of("weights in RAM", made, keep_free)
    return cache.remembered(key, partial(_choose, made, keep_free), tuple)


def _choose(made: Compiled, keep_free: int) -> tuple[int, int, bool]:
    from atonc.compiler.search.generators.resident import Prices, by_rate, choose  # with all generators

    free = free_spans(made.layout.placed, made.memory)
    room, before = sum(end - start for start, end in free) - keep_free, Prices(made.program, made.target).total()
    cycles, homes = choose(made.program, free, room, made.target, by_rate)
    sizes = {weights.name: weights.size_bytes for weights in in_flash(made.program, made.target)}
    return before - cycles, sum(sizes[name] for name in homes), sum(sizes.values()) <= room


def analyze(model: Path, options: Options, name: str = "network", watch: Watch = no_watch) -> CompileView:
    write.check_name(name)
    return view_of(compile_file(model, options, watch), model, options, name)


def view_of(compiled: Compiled, model: Path, options: Options, name: str = "network") -> CompileView:
    progress.stage("counting cycles")
    cost = compiled.cost
    reproduced = reproduce.block(model, options, name, cost)
    macs = graph_macs(compiled.graph)
    return CompileView(plain(model.name), name, compiled.memory, compiled, cost, macs, options, reproduced, path=model)
