"""Options that the tool can try by itself, one at a time beside what was asked: which apply, and what each brings in
time, RAM and flash, what it does to accuracy, and what the application has to do otherwise.

Every figure is of a program that was compiled with the option. `generate` tries only what may bring much (`quick`);
`explain` tries all. What no option does, a property of the model, is priced by what-ifs (`WHAT_IFS`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, compile_graph, read_model, verified
from atonc.compiler.ir import Graph, Quantisation
from atonc.compiler.lower import edge_advice
from atonc.compiler.lower.map_ops import CpuReason
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.passes import ENGINE_KERNELS, ON_REQUEST, PREFETCH, TABLES
from atonc.compiler.select import rules as mapping
from atonc.compiler.select.form import RefusedForm
from atonc.insight.explain import rules
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.ours import network_view, own_steps
from atonc.insight.explain.types import BufferView, Decision, LayerView, NetworkView, RemedyPrice, StepView
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, VerificationError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import ALL_FREE, count, ms_text, size_text
from atonc.machine.hw.safety.evidence.grades import Grade

WORTH = 0.05  # of the time: less is not worth a compilation that nobody asked for
_LITTLE = 0.005  # of time or of a memory: less is noise of other places and orders
_LEAST_LSB = 0.05  # of error: less is none that anybody sees
_QUICK_TRIES = 2  # compilations that `generate` may add
_SMALL = 1 << 10  # bytes: less is no reason to take longer
_STEP = 32 << 10  # bytes of RAM that people count in
_FEW_PRODUCTS = 20_000  # of a network that the CPU may be done with before the NPU is set up
_AT_EDGES = ("quantize", "dequantize", "transpose", "uint8_to_int8", "int8_to_uint8")


@dataclass(frozen=True)
class Subject:
    """What options are tried on; `compiled`: None where it does not fit as it is asked for."""

    source: Graph
    options: Options
    path: Path | None = None
    compiled: Compiled | None = None
    may_be_resident: bool = True
    asking: Callable[[Options], str] = lambda options: ""  # the command that asks for other options

    @staticmethod
    def of(view: CompileView) -> Subject:
        made = view.compiled
        return Subject(made.source, view.options, view.path, made, view.may_be_resident, view.asking)

    @property
    def made(self) -> Compiled:
        assert self.compiled is not None, "only what fits is asked"
        return self.compiled

    @cached_property
    def figures(self) -> BuildFigures:
        return _figures(self.compiled or _compile(self, self.options), self.options)

    @cached_property
    def cosine(self) -> float | None:
        return _cosine(self.made, self.options)

    @cached_property
    def refusals(self) -> tuple[CpuReason | RefusedForm, ...]:
        """Everything that was refused, for the CPU or for another form."""
        return (*self.made.mapped.reasons, *(r for form in self.made.mapped.forms.values() for r in form.refused))

    def lacks(self, *wanted: Rule) -> bool:
        return any(one.rule in wanted for one in self.refusals)

    def spills(self) -> bool:
        return self.compiled is None or self.figures.spilled_bytes > 0

    def is_tiny(self) -> bool:
        return graph_macs(self.made.graph) <= _FEW_PRODUCTS

    def has_channels_first(self) -> bool:
        return any(op.attrs.get("layout") == "NCHW" for op in self.source.ops)

    @cached_property
    def cycles(self) -> Mapping[str, int]:
        """What every operator takes, on the NPU or on the CPU."""
        rows = own_steps(self.made, self.made.cost.steps)
        return {op: sum(row.cost.cycles for row in own) for op, own in rows.items()}

    def called_cycles(self, rules: Collection[str]) -> int:
        """What the CPU takes for operators that these rules sent there."""
        return sum(self.cycles.get(op, 0) for op, why in self.made.mapped.reason_of.items() if why.rule.id in rules)

    def edge_cycles(self, inputs: bool, kind: str) -> int:
        """What epochs take that only turn or convert what enters the network, or what leaves it."""
        graph = self.made.graph
        edge, found = set(graph.inputs if inputs else graph.outputs), 0
        for op in graph.ops if inputs else reversed(graph.ops):
            near, far = (op.inputs, op.outputs) if inputs else (op.outputs, op.inputs)
            if op.kind in _AT_EDGES and edge & set(near):
                edge |= set(far)
                found += self.cycles.get(op.name, 0) if op.kind == kind else 0
        return found


Changes = Mapping[str, Any]  # of the options
Offers = Callable[[Subject], Iterable[Changes]]


@dataclass(frozen=True)
class Action:
    """An option to try, with all its values that may help: none where it does not apply."""

    offers: Offers
    rules: frozenset[str] = frozenset()  # whose fix it is
    otherwise: str = ""  # what the application or the user has to do otherwise
    rounds: bool = False  # layers may round elsewhere: what that does to the outputs is measured
    for_room: bool = False  # it may help what does not fit
    moves: bool = False  # bytes only go elsewhere: the application must find room for them
    bound: Callable[[Subject], int] = lambda subject: 0  # cycles that it may bring, beside those of its rules

    def most_cycles(self, subject: Subject) -> int:
        return subject.called_cycles(self.rules) + self.bound(subject)


# ----------------------------------------------------------------------------------------------------- what is offered


def _resident(subject: Subject) -> Iterator[Changes]:
    """All weights that have room, and about half of them."""
    if subject.options.resident or not subject.may_be_resident:
        return
    yield {"resident": ALL_FREE}
    used = subject.made.memory_use()
    half = min(used.weights_bytes, _on_chip_bytes(subject.made) - used.ram_bytes) // 2 // _STEP * _STEP
    if half > _STEP:
        yield {"resident": str(half)}


def _coarse(subject: Subject) -> list[Changes]:
    """What is enough for every layer, then for all but the coarsest ones."""
    needed = sorted({one.needs for one in subject.refusals}, reverse=True)[:3]
    return [{"allow_coarse": float(one)} for one in needed if one > subject.options.allow_coarse]


_RAISES = 3
_LIMIT = r"--allow-coarse [\d.]+"


def _enough(subject: Subject, options: Options) -> tuple[Options, Compiled | PlacementError | None]:
    """A limit meant for every layer is raised where a layer takes another form with it that is further off."""
    meant, built = max(one.needs for one in subject.refusals), _compile(subject, options)
    for _ in range(_RAISES):
        if options.allow_coarse < meant or not isinstance(built, Compiled):
            break
        needed = max((one.needs for one in built.mapped.reasons), default=0.0)
        if needed <= options.allow_coarse:
            break
        options = replace(options, allow_coarse=float(needed))
        built = _compile(subject, options)
    return options, built


def _setting(field: str, value: Any, applies: Callable[[Subject], bool]) -> Offers:
    """One value for an option that was not given."""

    def offers(subject: Subject) -> list[Changes]:
        given = getattr(subject.options, field) != getattr(Options(), field)
        return [{field: value}] if not given and applies(subject) else []

    return offers


def _input_types(subject: Subject) -> Iterator[Changes]:
    source, graph = subject.source, subject.compiled.graph if subject.compiled is not None else subject.source
    given = {source.tensors[name].dtype for name in source.inputs}
    if subject.options.input_type or not given & {"float32", "uint8"}:
        return
    integers = _types(graph, [[op.outputs[0] for op in graph.consumers.get(name, ())] for name in graph.inputs])
    yield {"input_type": integers}
    if "float32" in given and "int16" not in integers:
        yield {"input_type": integers.replace("int8", "uint8")}


def _output_types(subject: Subject) -> Iterator[Changes]:
    source, graph = subject.source, subject.compiled.graph if subject.compiled is not None else subject.source
    given = {source.tensors[name].dtype for name in source.outputs}
    if not subject.options.output_type and given & {"float32", "uint8"}:
        made = [[*graph.producers[name].inputs[:1]] if name in graph.producers else [] for name in graph.outputs]
        yield {"output_type": _types(graph, made)}


def _types(graph: Graph, beside: Sequence[Sequence[str]]) -> str:
    """For each edge the width of the codes beside it: int16 where those have 16 bits, else int8."""
    wide = [any(graph.tensors[name].dtype == "int16" for name in names) for names in beside]
    kinds = ["int16" if one else "int8" for one in wide]
    return kinds[0] if len(set(kinds)) == 1 else ",".join(kinds)


def _cut_softmax(subject: Subject) -> Iterator[Changes]:
    """The model ends before every softmax at its end: the order of the scores stays the same."""
    source, ends = subject.source, dict[str, str]()
    for op in source.ops:  # in the order of execution, so that ends pass through what follows
        last = op.kind in ("softmax", "log_softmax") and edge_advice.holds(op, source)
        before = op.inputs[0] if last else next((ends[n] for n in op.inputs if n in ends), "")
        if before:
            ends |= dict.fromkeys(op.outputs, before)
    if any(name in ends for name in source.outputs) and not subject.options.cut_outputs and subject.path is not None:
        yield {"cut_outputs": tuple(dict.fromkeys(ends.get(name, name) for name in source.outputs))}


def _passes(subject: Subject) -> Iterator[Changes]:
    """Passes that are off by default, as far as the network has something for them."""
    made, asked = subject.made, subject.options.schedule_with
    useless = {
        PREFETCH: subject.options.prefetch or not made.memory_use().weights_bytes,
        TABLES: not any("ACTIV" in unit for step in made.program.steps if step.epoch for unit in step.epoch.units),
        ENGINE_KERNELS: not subject.lacks(mapping.BY_NATURE["pack_kernels"]),
    }
    yield from ({"schedule_with": (*asked, name)} for name in ON_REQUEST if name not in asked and not useless.get(name))


def _on_chip_bytes(compiled: Compiled) -> int:
    return sum(pool.size_bytes for pool in compiled.memory.on_chip)


def _faster_on_cpu(subject: Subject) -> Iterator[Changes]:
    """All layers that the CPU is done with before the NPU is set up for them."""
    # they do not go with --no-npu
    for_npu: dict[str, Any] = {"on_cpu": (), "on_npu": (), "prefetch": "", "encrypt_weights": False}
    alone = _compile(subject, replace(subject.options, no_npu=True, **for_npu))
    if isinstance(alone, Compiled) and not subject.options.no_npu:
        on_cpu = Subject(subject.source, subject.options, compiled=alone).cycles
        known = {op: cycles for op, cycles in subject.cycles.items() if op not in subject.made.mapped.on_cpu}
        faster = [op for op, cycles in known.items() if on_cpu.get(op, cycles) < cycles]
        if sum(known[op] - on_cpu[op] for op in faster) > _LITTLE * subject.figures.cycles:
            yield {"on_cpu": (*subject.options.on_cpu, *faster)}


def _left_out(subject: Subject) -> Iterator[Changes]:
    """What the user asked for, and could do without."""
    for name in ("on_cpu", "numerics", "silicon", "epoch_controller", "schedule_without", "no_npu", "prefer"):
        if getattr(subject.options, name) != getattr(Options(), name):
            yield {name: getattr(Options(), name)}


def _edge(name: str, inputs: bool) -> Action:
    """Channels last at an edge of the network, as the NPU has them."""
    offers = _setting(name, "chlast", Subject.has_channels_first)
    turned = "the application keeps channels last"
    return Action(offers, otherwise=turned, bound=lambda subject: subject.edge_cycles(inputs, "transpose"))


def _ahead(subject: Subject) -> Iterator[Changes]:
    """Copies by the DMA, where they may go with the other options."""
    options = subject.options
    others = options.encrypt_weights or options.relocatable or PREFETCH in options.schedule_with
    if not options.prefetch and not others:
        yield {"prefetch": "dma"}


def _flash_waits(subject: Subject) -> int:
    """Cycles in which epochs do nothing but wait for the flash. Where weights may stay in RAM that brings more, and its
    price needs no compilation."""
    if not subject.options.resident and subject.may_be_resident:
        return 0
    steps = subject.made.cost.steps
    waits = (step.parts.get("external", 0.0) - step.parts.get("core", 0.0) for step in steps)
    return round(sum(wait for wait in waits if wait > 0))


def _own_memory(edge: str) -> Action:
    offers = _setting(f"{edge}_allocation", False, Subject.spills)
    return Action(offers, otherwise=f"the application has the memory of the {edge}", for_room=True, moves=True)


def _unproven(subject: Subject) -> bool:
    return subject.lacks(mapping.NO_EVIDENCE, mapping.CONV_MODE, mapping.RASTER)


_APPLICATION = "the application {}".format
ACTIONS = (
    Action(_resident, frozenset({rules.BOUNDS["flash"].id})),
    Action(_coarse, frozenset({mapping.COARSE.id}), rounds=True),
    Action(_setting("allow_unproven", True, _unproven), frozenset({mapping.NO_EVIDENCE.id}), rounds=True),
    Action(
        *(_input_types, frozenset({"CPU-QUANTIZE"}), _APPLICATION("gives inputs of that type")),
        for_room=True,
        bound=lambda subject: subject.edge_cycles(True, "uint8_to_int8"),
    ),
    Action(
        *(_output_types, frozenset({"CPU-DEQUANTIZE"}), _APPLICATION("takes outputs of that type")),
        for_room=True,
        bound=lambda subject: subject.edge_cycles(False, "int8_to_uint8"),
    ),
    Action(_cut_softmax, frozenset({"CPU-SOFTMAX", "CPU-LOG-SOFTMAX"}), _APPLICATION("gets scores without softmax")),
    Action(_left_out, frozenset({mapping.ASKED.id}), "leaves out an option that you gave", rounds=True),
    # the search for less memory takes many times as long as another compilation
    Action(_setting("prefer", "memory", Subject.spills), rounds=True, for_room=True),
    Action(_setting("no_npu", True, Subject.is_tiny), bound=lambda s: s.figures.cycles if s.is_tiny() else 0),
    Action(_faster_on_cpu),
    Action(_passes, frozenset({mapping.PRODUCT_UNPROVEN.id}), "a pass whose epochs no ST program has", rounds=True),
    Action(_ahead, otherwise="gives the network a channel of the DMA, which no board has run yet", bound=_flash_waits),
    _edge("inputs_channel_position", inputs=True),
    _edge("outputs_channel_position", inputs=False),
    _own_memory("inputs"),
    _own_memory("outputs"),
)


# ------------------------------------------------------------------------------------------------------ what it brings


@dataclass(frozen=True)
class BuildFigures:
    """What a build takes. `fits` is False when even external memory is too small: then there is no time."""

    ram_bytes: int
    spilled_bytes: int
    cycles: int = 0
    latency_ms: float = 0.0
    cpu_ms: float = 0.0
    flash_bytes: int = 0
    error: float = 0.0  # LSB from exact arithmetic, expected of the worst layer
    unseen: int = 0  # epochs that are not seen in ST programs
    cosine: float | None = None  # of the worst output, where it was verified
    at_most: bool = False  # the time is an upper bound
    fits: bool = True


@dataclass(frozen=True)
class TriedOption:
    """An option that was compiled, beside the same without it."""

    action: Action
    options: Options
    before: BuildFigures
    after: BuildFigures
    flags: str  # as the command line has it
    command: str = ""  # the whole of it, to be pasted

    @property
    def gained_ms(self) -> float:
        """0 where one of the two builds does not exist."""
        return self.before.latency_ms - self.after.latency_ms if self.before.fits and self.after.fits else 0.0

    @property
    def gain(self) -> float:
        """Part of the time."""
        return self.gained_ms / self.before.latency_ms if self.before.latency_ms else 0.0

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

    @property
    def helps(self) -> bool:
        """It brings something, and does not cost a larger part of something else."""
        if not self.before.fits or not self.after.fits:
            return self.saved_bytes > 0
        ram = self.saved_bytes / max(1, self.before.ram_bytes)
        flash = (self.before.flash_bytes - self.after.flash_bytes) / max(1, self.before.flash_bytes)
        saved = max(self.saved_bytes, self.before.flash_bytes - self.after.flash_bytes)
        return self.gain > _LITTLE or (saved >= _SMALL and max(ram, flash) > max(_LITTLE, -self.gain))

    @property
    def marks(self) -> tuple[str, ...]:
        """What has to be accepted for it."""
        found = [self.action.otherwise] if self.action.otherwise else []
        if (new := self.after.unseen - self.before.unseen) > 0:
            found.append(f"{count(new, 'epoch')} not seen in ST programs")
        if self.before.fits and self.after.error > self.before.error + _LEAST_LSB:
            found.append(f"max error {self.after.error:.3g} LSB instead of {self.before.error:.3g}")
        return tuple(found)

    @property
    def brings(self) -> str:
        """In words: the time first."""
        before, after, parts = self.before, self.after, list[str]()
        if not before.fits or not after.fits:
            parts.append("then it fits" if after.fits else "not enough alone")
        elif before.latency_ms:
            most = "at most " if after.at_most else ""
            digits = 0 if abs(self.gain) >= 0.1 else 1  # a share of a prediction
            parts.append(f"{most}{ms_text(after.latency_ms)} ({-100 * self.gain:+.{digits}f} %)")
        for label, change in (("RAM", -self.saved_bytes), ("flash", after.flash_bytes - before.flash_bytes)):
            if change and (label == "RAM" or before.fits):
                parts.append(f"{label} {'+' if change > 0 else '-'}{size_text(abs(change))}")
        if self.unspilled_bytes > 0 and before.fits:
            parts.append(f"{size_text(self.unspilled_bytes)} less in external RAM")
        if after.cosine is not None and before.cosine is not None:
            parts.append(f"cosine {after.cosine:.4f} (now {before.cosine:.4f})")
        return "; ".join((", ".join(parts), *self.marks))


def ranked(found: Iterable[TriedOption]) -> tuple[TriedOption, ...]:
    """Those that help: what then fits first, then the largest gain in time, then in RAM that does not go elsewhere."""
    useful = (one for one in found if one.helps)
    return tuple(sorted(useful, key=lambda o: (not o.after.fits, -round(o.gain, 3), o.action.moves, -o.saved_bytes)))


def offered(subject: Subject, actions: Iterable[Action] = ACTIONS) -> list[tuple[Action, Options]]:
    """Every action with the options that it offers here."""
    found = []
    for action in actions:
        for changes in action.offers(subject) if subject.compiled is not None or action.for_room else ():
            with suppress(AtoncError):  # it does not go with what was asked
                found.append((action, replace(subject.options, **changes)))
    return found


def tried(
    subject: Subject, action: Action, options: Options, verify: bool = True
) -> tuple[TriedOption, Compiled | None]:
    """The option compiled; where it makes layers round elsewhere, also verified."""
    options, built = _enough(subject, options) if action.offers is _coarse else (options, _compile(subject, options))
    found = _beside(subject, action, options, _figures(built, options))
    if not isinstance(built, Compiled):
        return found, None
    if verify and action.rounds and found.helps and subject.compiled is not None:
        before = replace(found.before, cosine=subject.cosine)
        found = replace(found, before=before, after=replace(found.after, cosine=_cosine(built, options)))
    return found, built


def try_all(
    subject: Subject, wanted: Collection[str] | None = None, note: Callable[[Action, str, Compiled], None] | None = None
) -> tuple[TriedOption, ...]:
    """Each option that applies compiled, the best first. `note` sees what came of each, with its flags."""
    asked = [action for action in ACTIONS if wanted is None or action.rules & set(wanted)]
    tries, found = offered(subject, asked), list[TriedOption]()
    for number, (action, options) in enumerate(tries, 1):
        with progress.part(f"option {number} of {len(tries)}"):
            one, compiled = tried(subject, action, options)
            found.append(one)
            if note is not None and compiled is not None:
                note(action, one.flags, compiled)
    return ranked(found)


def quick(view: CompileView, allowed: Callable[[TriedOption], bool] = lambda one: True) -> tuple[TriedOption, ...]:
    """Options that bring much time, the best first: the price of weights in RAM is known, few others are compiled, and
    only while what they may bring is more than what is known to be possible."""
    subject = Subject.of(view)
    known, bounds = _resident_outlook(view, subject), [(action.most_cycles(subject), action) for action in ACTIONS[1:]]
    good = [known] if known is not None and allowed(known) else []
    for most, action in sorted(bounds, key=lambda row: -row[0])[:_QUICK_TRIES]:
        if most > max([WORTH, *(one.gain for one in good)]) * view.cost.cycles:
            for _, options in offered(subject, (action,))[:1]:
                with progress.part(f"trying {reproduce.changes(view.options, options)}"):
                    found, _ = tried(subject, action, options, verify=False)
                good += [found] if allowed(found) else []
    return tuple(sorted((one for one in good if one.gain > WORTH), key=lambda one: -one.gain))


def _resident_outlook(view: CompileView, subject: Subject) -> TriedOption | None:
    """What `--resident` brings: without a compilation, except where weights are copied ahead, since then others are."""
    if view.compiled.decisions.fetched:
        return next((tried(subject, *one, verify=False)[0] for one in offered(subject, ACTIONS[:1])), None)
    if view.resident_outlook is None:
        return None
    latency_ms, taken, every = view.resident_outlook
    before = subject.figures
    cycles = round(before.cycles * latency_ms / before.latency_ms)
    ram_bytes = before.ram_bytes + taken
    after = replace(before, latency_ms=latency_ms, cycles=cycles, ram_bytes=ram_bytes, at_most=not every)
    return _beside(subject, ACTIONS[0], replace(view.options, resident=ALL_FREE), after)


def _beside(subject: Subject, action: Action, options: Options, after: BuildFigures) -> TriedOption:
    flags = reproduce.changes(subject.options, options)
    return TriedOption(action, options, subject.figures, after, flags, subject.asking(options))


def _compile(subject: Subject, options: Options) -> Compiled | PlacementError | None:
    """None where it is not possible: the model does not allow it."""
    options = replace(options, verify=False)
    try:
        source = subject.source
        if options.cut_outputs != subject.options.cut_outputs and subject.path is not None:
            source = read_model(subject.path, options)
        return compile_graph(source, options)
    except PlacementError as error:
        return error
    except AtoncError:
        return None


def _figures(built: Compiled | PlacementError | None, options: Options) -> BuildFigures:
    if built is None:
        return BuildFigures(1 << 40, 1 << 40, fits=False)  # never useful
    if isinstance(built, PlacementError):
        return BuildFigures(built.shortage.demand_bytes, max(0, built.shortage.gap_bytes), fits=False)
    memory, cost = built.memory_use(epoch_controller=options.epoch_controller), built.cost
    return BuildFigures(
        memory.ram_bytes,
        memory.spilled_bytes,
        cycles=cost.cycles,
        latency_ms=cost.latency_ms,
        cpu_ms=cost.cpu_ms,
        flash_bytes=memory.flash_bytes,
        error=max((form.error for form in built.mapped.forms.values()), default=0.0),
        unseen=built.silicon.epochs[Grade.UNSEEN],
    )


def _cosine(compiled: Compiled, options: Options) -> float | None:
    """None where a layer is further off than it may be: then its program would be another one."""
    try:
        report = compiled.report or verified(compiled, replace(options, verify=True)).report
    except VerificationError:
        return None
    return min((output.cosine for output in report.outputs), default=1.0) if report is not None else None


# ----------------------------------------------------------------------------------- what fixes bring to single layers


@dataclass(frozen=True)
class WhatIf:
    """A change of the model, for all the layers whose rule it answers."""

    rules: frozenset[str]
    how: str
    compile: Callable[[CompileView], Compiled]


Result = tuple[frozenset[str], str, NetworkView]  # rules that it answers, how it was compiled, what came of it


def priced(
    view: CompileView, network: NetworkView, wanted: Collection[str] | None = None
) -> tuple[NetworkView, tuple[TriedOption, ...]]:
    """The network with a price on every decision that an option or a change of the model answers, and the options, the
    best first. `wanted`: only what answers these rules is tried."""
    present = {d.rule.id for layer in network.layers for d in layer.decisions if _as_usual(d)}
    results = list[Result]()

    def note(action: Action, flags: str, compiled: Compiled) -> None:
        if action.rules & present:
            results.append((action.rules, f"compiled with {flags}", _view_of(view, compiled)))

    found = try_all(Subject.of(view), wanted, note)
    for one in WHAT_IFS:
        if one.rules & present and (wanted is None or one.rules & set(wanted)):
            with progress.part(one.how):
                results.append((one.rules, one.how, _view_of(view, one.compile(view))))
    layers = (
        replace(layer, decisions=tuple(_price(one, layer, network, results) for one in layer.decisions))
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers), advice=tuple((one.flags, one.brings) for one in found)), found


def _as_usual(decision: Decision) -> bool:
    """Whether its fix is one that can be tried: that of its rule, or one that names the option."""
    return bool(decision.remedy) and (decision.remedy == decision.rule.remedy or "--" in decision.remedy)


def _view_of(view: CompileView, compiled: Compiled) -> NetworkView:
    cost, macs = compiled.cost, graph_macs(compiled.graph)
    return network_view(CompileView(view.model, view.name, compiled.memory, compiled, cost, macs, view.options))


def _price(decision: Decision, layer: LayerView, before: NetworkView, results: Sequence[Result]) -> Decision:
    """What the fix that brings the layer most brings."""
    if not _as_usual(decision):
        return decision
    prices = []
    for answered, how, after in results:
        if decision.rule.id in answered:
            same = next((other for other in after.layers if other.name == layer.name), None)
            gained = layer.cycles - (same.cycles if same is not None else 0)
            saved = before.memory.ram_bytes - after.memory.ram_bytes
            prices.append((saved > 0 or (gained > 0 and after.cycles < before.cycles), gained, saved, how))
    if prices:
        helps, gained, saved, how = max(prices, key=lambda row: row[:3])
        price = RemedyPrice(gained, saved, True, how)
        worked = re.search(_LIMIT, how)
        remedy = re.sub(_LIMIT, worked[0], decision.remedy) if worked else decision.remedy
        return replace(decision, price=price, remedy=remedy if helps else "")
    return replace(
        decision, price=RemedyPrice(layer.cycles, 0, False, f"at most the {layer.cycles:,} cycles that the layer takes")
    )


def _symmetric(view: CompileView) -> Compiled:
    """The same network as if its activations had been quantised symmetrically; only its cost is of interest."""
    compiled, options = view.compiled, replace(view.options, verify=False)
    return compile_canonical(compiled.source, _zeroed(compiled.graph), options, view.board)


def _zeroed(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for name, tensor in graph.tensors.items():
        if tensor.quant is not None and not tensor.is_constant and tensor.zero_point:
            quant = Quantisation(tensor.quant.scales, np.zeros_like(tensor.quant.zero_points), tensor.quant.axis)
            tensors[name] = replace(tensor, quant=quant)
    return replace(graph, tensors=tensors)


WHAT_IFS = (WhatIf(frozenset({rules.ZERO_POINT.id}), "compiled as if quantised with zero points of 0", _symmetric),)


# ------------------------------------------------------------------------------------------------- what does not fit


@dataclass(frozen=True)
class Peak:
    step: StepView
    live_bytes: int
    buffers: tuple[BufferView, ...]  # largest first


def peak(network: NetworkView) -> Peak | None:
    """The step at which most bytes of RAM live."""
    live = live_bytes(network)
    if not any(live.values()):
        return None
    worst = max(network.steps, key=lambda step: (live[step.number], -step.number))
    alive = [b for b in distinct(network.buffers) if b.first <= worst.number <= b.last and b.size_bytes]
    found = sorted((b for b in alive if b.kind != BufferKind.CONSTANT), key=lambda b: (-b.size_bytes, b.name))
    return Peak(worst, live[worst.number], tuple(found))
