"""Does it fit? The step with most live bytes, what lives there, and levers with the effect they have when tried."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.types import BufferView, NetworkView, StepView
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Peak:
    step: StepView
    live_bytes: int
    buffers: tuple[BufferView, ...]  # largest first


@dataclass(frozen=True)
class Demand:
    """What a build needs: `fits` is False when even external memory is too small, and cycles are then unknown."""

    ram_bytes: int
    spilled_bytes: int
    cycles: int
    fits: bool = True


@dataclass(frozen=True)
class FitLever:
    """A change that the user can make, with what it does to memory and time."""

    what: str
    options: Options
    before: Demand
    after: Demand

    @property
    def moves(self) -> bool:
        """Whether the bytes only go elsewhere: the application must find room for them."""
        kept = (self.options.inputs_allocation, self.options.outputs_allocation)
        return kept != (True, True)

    @property
    def saved_bytes(self) -> int:
        return self.before.ram_bytes - self.after.ram_bytes

    @property
    def unspilled_bytes(self) -> int:
        return self.before.spilled_bytes - self.after.spilled_bytes

    @property
    def cycles(self) -> int:
        """That it takes longer; 0 where one of the two builds does not exist."""
        return self.after.cycles - self.before.cycles if self.before.fits and self.after.fits else 0

    def __str__(self) -> str:
        parts = [f"{self.saved_bytes / 1024:+,.0f} KiB".replace("+", "-", 1) if self.saved_bytes > 0 else "no RAM"]
        if self.unspilled_bytes and self.before.fits:
            parts.append(f"{self.unspilled_bytes / 1024:,.0f} KiB less in external RAM")
        if self.before.fits and self.after.fits and self.before.cycles:
            parts.append(f"{100 * self.cycles / self.before.cycles:+.1f} % cycles")
        if not self.before.fits and self.after.fits:
            parts.append("then it fits")
        if not self.after.fits:
            parts.append("not enough alone")
        return f"{self.what}: {', '.join(parts)}"


def peak(network: NetworkView) -> Peak | None:
    """The step at which most bytes of RAM live."""
    live = live_bytes(network)
    if not any(live.values()):
        return None
    worst = max(network.steps, key=lambda step: (live[step.number], -step.number))
    alive = [b for b in distinct(network.buffers) if b.first <= worst.number <= b.last and b.size_bytes]
    found = sorted((b for b in alive if b.kind != BufferKind.CONSTANT), key=lambda b: (-b.size_bytes, b.name))
    return Peak(worst, live[worst.number], tuple(found))


def levers(source: Graph, options: Options, at_peak: Collection[str] = ()) -> tuple[FitLever, ...]:
    """All changes that lower the demand, the best first. Every one is compiled.

    `at_peak`: kinds of the buffers that live at the peak; without an input among them none about inputs is tried.
    """
    before = demand(source, options)
    changes = list(_changes(source, options, at_peak or ("input", "output")))
    found = []
    for number, (what, changed) in enumerate(changes, 1):
        with progress.part(f"lever {number} of {len(changes)}"):
            found.append(FitLever(what, changed, before, demand(source, changed)))
    useful = [one for one in found if one.saved_bytes > 0 or one.unspilled_bytes > 0]
    return tuple(sorted(useful, key=lambda one: (one.moves, -one.unspilled_bytes, -one.saved_bytes, one.what)))


def demand(source: Graph, options: Options, compile: Callable[[Graph, Options], Compiled] = compile_graph) -> Demand:
    options = replace(options, verify=False)
    try:
        compiled = compile(source, options)
    except PlacementError as error:
        return Demand(error.shortage.demand_bytes, max(0, error.shortage.gap_bytes), 0, fits=False)
    except AtoncError:
        return Demand(1 << 40, 1 << 40, 0, fits=False)  # not possible for this model: never useful
    memory = compiled.memory_use(epoch_controller=options.epoch_controller)
    return Demand(memory.ram_bytes, memory.spilled_bytes, compiled.cost.cycles)


def _changes(source: Graph, options: Options, at_peak: Collection[str]) -> Iterator[tuple[str, Options]]:
    inputs, outputs = "input" in at_peak, "output" in at_peak
    if inputs and _has_floats(source, source.inputs) and not options.input_type:
        yield "int8 input (--input-data-type int8)", replace(options, input_type="int8")
    if outputs and _has_floats(source, source.outputs) and not options.output_type:
        yield "int8 output (--output-data-type int8)", replace(options, output_type="int8")
    if options.prefer != "memory":
        yield "--prefer memory", replace(options, prefer="memory")
    if inputs and options.inputs_allocation:
        yield "input in the application's memory (--no-inputs-allocation)", replace(options, inputs_allocation=False)
    if outputs and options.outputs_allocation:
        yield "output in the application's memory (--no-outputs-allocation)", replace(options, outputs_allocation=False)


def _has_floats(source: Graph, names: Iterable[str]) -> bool:
    return any(source.tensors[name].dtype == "float32" for name in names)


def shortage_lines(source: Graph, options: Options, error: PlacementError) -> list[str]:
    """What the user of a model that does not fit wants to know, behind the error itself."""
    found = error.shortage
    lines = [f"live in step {found.peak_step + 1} ({found.peak_title}):"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.live[:12]]
    return [*lines, *lever_lines(levers(source, options, {str(b.kind) for b in found.live}))]


def peak_lines(found: Peak | None, most: int = 6) -> list[str]:
    if found is None:
        return []
    lines = [f"peak of memory: {found.live_bytes:,} bytes live in epoch {found.step.number} ({found.step.title})"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.buffers[:most]]
    more = len(found.buffers) - most
    return [*lines, f"  and {more} more"] if more > 0 else lines


def lever_lines(found: Sequence[FitLever]) -> list[str]:
    if not found:
        return ["no option lowers the demand; a smaller input or fewer channels would"]
    return ["what would help, each tried:", *(f"  {number}. {one}" for number, one in enumerate(found, 1))]
