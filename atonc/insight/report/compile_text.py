"""What `atonc generate` and `atonc analyze` show: where every operator runs and why, memory, time, proof."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, Scheduled
from atonc.compiler.emit.encryption import count as count_encrypted
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.emit.write import states
from atonc.compiler.frontends.coverage import coverage, quantiser
from atonc.compiler.ir import Graph, text
from atonc.compiler.lower.map_ops import CpuReason, Mapped
from atonc.compiler.lower.semantics.error_model import ExpectedError, expected_errors
from atonc.compiler.place.pools import placement_notes
from atonc.compiler.plan.policy import MOST_CODES
from atonc.compiler.plan.task import tasks_of
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.compiler.request.options import STAGES
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.insight.evaluating.decoders import post_notes
from atonc.insight.explain.ours import encryption_evidence, option_notes
from atonc.insight.explain.rules import bound_name
from atonc.insight.report import document as doc
from atonc.insight.report import parts
from atonc.insight.report.parts import EpochRow, epoch_chapter
from atonc.insight.report.run_text import cost_lines, violation_data
from atonc.insight.validating.judging import MIN_COSINE, is_close, nothing_compared
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import sentence
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import CheckResult, Rule
from atonc.machine.base.words import count, elided, is_are, ms_text, shell, size_text, times
from atonc.machine.cost.network import StepCost, spill_lines
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.safety.evidence.grades import Grade

if TYPE_CHECKING:
    from atonc.compiler.verify.report import VerifyReport
    from atonc.insight.explain.actions import TriedOption
    from atonc.insight.explain.types import NetworkView

MANY_CODES = 20  # codes: a worst case beyond says little
SMALL_CODES = 0.5  # codes: below, a layer differs from exact arithmetic by one code now and then
LONG_NAME = 60
POOL_FIELDS = ("name", "base", "size_bytes")
_SHARES = "exact_pct=exact_percent", "within1_pct=within1_percent"
VERIFIED_FIELDS = ("name", "cos=cosine", "max_lsb", "max_error", *_SHARES)
_SLOWEST, _MOST_EDGES, _MOST_NOTES, _GROUPS = 5, 3, 2, 3  # lines of each
_EDGE_NAME, _LINE = 32, 110  # characters
_SLOWEST_LAYERS = 8  # of a notebook

ERRORS = (
    doc.Column[ExpectedError]("codes", lambda one: one.local, "{:.3f}", width=8),
    doc.Column[ExpectedError]("operator", lambda one: one.kind, left=True),
    doc.Column[ExpectedError]("layer", lambda one: one.node, left=True),
)


def document(
    view: CompileView,
    gates: Sequence[CheckResult] = (),
    verbose: bool = False,
    advice: Sequence[TriedOption] = (),
) -> doc.Document:
    """Details, then the figures that people look for; `gates`: what the user asked for; `advice`: options that were
    tried and bring much, the best first."""
    cost, broken = view.cost, [gate.says for gate in gates if not gate.holds]
    on_cpu = [(reason.op, reason.node, one.milliseconds) for reason, one in cpu_steps(view)]
    written = [f"compiled in {view.compiled.seconds:.2f} s", *(f"wrote {file}" for file in view.files)]
    if verbose:
        sections = [*report(view).sections, doc.Chapter("", written)]
    else:
        sections = [_short_head(view), *_short_time(view), _short_cpu(view), _short_memory(view), _evidence(view)]
    held = sum(one.size_bytes for one in view.compiled.program.states)
    frames = parts.frames_row(cost.latency_ms, cost.band, held, view.options.hop)
    gate = doc.SummaryRow("gates", f"{count(len(broken), 'gate')} broken", doc.Mark.ALARM)
    summary = (
        doc.predicted_row(cost),
        doc.ram_row(view.memory),
        doc.flash_row(view.memory),
        doc.cpu_row(on_cpu, cost.latency_ms),
        _verified(view),
        gate if broken else frames or parts.energy_row(cost.energy),
        doc.files_row(view.files),
        doc.next_row(advice[0].brings, advice[0].command) if advice else doc.next_row(_next(view)),
    )
    proof = view.compiled.report  # a program that is wrong stopped before
    seen = [CheckResult("verification", True, f"{proof.layers} layers within their limits")] if proof else []
    return doc.Document(
        sections=sections,
        summary=summary,
        data=lambda: as_json(view) | {"gates": broken, "next": list(map(_next_data, advice))},
        checks=[*seen, *gates],
    )


def picture(view: CompileView, network: NetworkView, layers: Sequence[Mapping[str, Any]]) -> doc.Document:
    """For a notebook: the figures, the timeline, the slowest of the layers."""
    memory, cost, graph, number = view.memory, view.cost, view.compiled.graph, counts(view.compiled.program.steps)
    proof, share = view.compiled.report, list(cost.bound_by.items())[:4]
    figures = {
        "latency (predicted)": f"{ms_text(cost.latency_ms, 3)} ({cost.band.span(cost.latency_ms, 3)})",
        "epochs": f"{number['total']}, of these {number['npu']} on the NPU",
        "bottlenecks": ", ".join(f"{bound_name(label)} {part:.0%}" for label, part in share),
        "RAM": f"{memory.ram_bytes:,} bytes",
        "activations": f"{memory.activations_bytes:,} bytes (at least {view.compiled.layout.lower_bound_bytes:,})",
        "outside the chip": f"{memory.spilled_bytes:,} bytes" if memory.spilled_bytes else "",
        "weights": f"{memory.weights_bytes:,} bytes",
        "verification": "skipped",
    }
    if proof is not None:
        figures["verification"] = f"{count(proof.layers, 'layer')} emulated, {proof.worst_text}"
    figures |= {f"{edge.strip()} {doc.short_name(name)}": _kind_text(graph, name) for edge, name in _edges(graph)}
    shown = doc.Terms({name: said for name, said in figures.items() if said})
    slowest = sorted(layers, key=lambda row: -row["milliseconds"])[:_SLOWEST_LAYERS]
    return doc.Document(
        f"{doc.short_name(view.model)} for {doc.short_name(view.board.name)}",
        [doc.Chapter("", [shown])],
        tables={"layers": [dict(row) for row in slowest]},
        plot=doc.Timelines({f"its epochs, and the slowest of {len(layers)} layers": network.steps}),
    )


def short_lines(view: CompileView) -> list[str]:
    """What it is, then what is in it; never longer than a kilobyte, whatever a model is called."""
    number, memory, graph = counts(view.compiled.program.steps), view.memory, view.compiled.graph
    proof = view.compiled.report
    verified = "not verified" if proof is None else f"verified: {count(proof.layers, 'layer')} within their limits"
    low, high = view.cost.band.around(view.cost.latency_ms)
    lines = [
        f"<compiled {doc.short_name(view.model)} for {doc.short_name(view.board.name)}: {view.cost.latency_ms:.3f} ms "
        f"predicted ({low:.3f} to {high:.3f})>",
        *(f"  {edge} {doc.short_name(name)} {_kind_text(graph, name)}" for edge, name in _edges(graph)),
        f"  {count(number['total'], 'epoch')}, {number['npu']} on the NPU; RAM {memory.ram_bytes:,} bytes, weights "
        f"{memory.weights_bytes:,}",
        f"  {verified}",
    ]
    return [line[:_LINE] for line in lines]


def report(view: CompileView) -> doc.Document:
    """All that is known, as `NAME_report.txt` and -v have it."""
    return doc.Document(
        sections=[
            doc.Chapter("", list(_head(view))),
            memory_chapter(view),
            doc.Chapter("", cost_lines(view.cost)),
            epoch_chapter(_epochs(view), True, "on", "what"),
            cpu_chapter(cpu_steps(view)),
            _coverage(view.compiled),
            error_chapter(view.compiled),
            verify_chapter(view.compiled.report),
        ]
    )


def _epochs(view: CompileView) -> list[EpochRow]:
    steps = zip(view.compiled.program.steps, view.cost.steps, strict=True)
    return [EpochRow(step.number, "cpu" if step.epoch is None else "npu", cost) for step, cost in steps]


def cpu_steps(view: CompileView) -> list[tuple[CpuReason, StepCost]]:
    """Every call of the processor, with the reason for it."""
    pairs = zip(view.compiled.program.steps, view.cost.steps, strict=True)
    reasons = view.compiled.mapped.reason_of
    return [(reasons[step.plan.op], cost) for step, cost in pairs if isinstance(step.plan, CpuPlan)]


def counts(steps: Iterable[ProgramStep]) -> dict[str, int]:
    on_cpu = [step.epoch is None for step in steps]
    return {"total": len(on_cpu), "npu": on_cpu.count(False), "cpu": on_cpu.count(True), "hybrid": 0}


# ---------------------------------------------------------------------------------------------------- all that is known


def _head(view: CompileView) -> Iterator[doc.Block]:
    source, graph = view.compiled.source, view.compiled.graph
    number = counts(view.compiled.program.steps)
    steps = ((step.bound_by, step.milliseconds) for step in view.cost.steps)
    yield from (doc.Marked(doc.Mark.ALARM, line) for line in spill_lines(view.memory.spilled_bytes, steps))
    yield doc.head("model ", f"{view.model} ({source.source}), {model_size(view)}")
    yield from (f"{edge} {edge_text(graph, name)}" for edge, name in _edges(graph, len(graph.tensors)))
    yield from (
        f"state {elided(row['name'], LONG_NAME)} at {row['address']:#x} ({row['pool']}), {row['size_bytes']:,} "
        f"bytes, first {row['first']}"
        for row in states(view.compiled.program, graph)
    )
    yield from map(doc.Note, (*source.notes, *post_notes(source), *(n for n in graph.notes if n not in source.notes)))
    kinds = Counter(op.kind for op in graph.ops).most_common()
    yield f"layers: {', '.join(f'{times} {kind}' for kind, times in kinds)}"
    yield f"epochs: {number['total']}, of these {number['npu']} on the NPU and {number['cpu']} on the CPU"
    found = Counter(str(one.severity) for one in view.compiled.findings)
    yield f"safety: {count(found['violation'], 'violation')}, {count(found['unproven'], 'unproven configuration')}"
    yield from parts.silicon_lines(view.compiled.silicon, verbose=True)


def _edges(graph: Graph, most: int = _MOST_EDGES) -> list[tuple[str, str]]:
    """What the application supplies, what the network keeps, what the application gets; of each so many."""
    kept = [state.input for state in graph.states if state.kept]
    kinds = (("input ", graph.frame_inputs), ("state ", kept), ("output", graph.frame_outputs))
    return [(edge, name) for edge, names in kinds for name in names[:most]]


def model_size(view: CompileView) -> str:
    """Both counts with the names that all views use."""
    layers = f"{count(view.operators, 'operator')} in the model, {count(view.layers, 'layer')} compiled"
    return f"{layers}, {view.macs / 1e6:,.1f} M MACs"


def edge_text(graph: Graph, name: str, most: int = LONG_NAME) -> str:
    """An input or output in words, its name in at most so many characters."""
    return f"{elided(name, most)} {_kind_text(graph, name)}"


def _kind_text(graph: Graph, name: str) -> str:
    """A state has the model's shape here; its memory may have another order."""

    def written(shape: Sequence[int]) -> str:
        return "x".join(map(str, shape))

    tensor = graph.tensors[name]
    quant = f", scale {tensor.scale:g}, zero point {tensor.zero_point}" if tensor.quant is not None else ""
    shape, kept = tensor.shape, ""
    if name in graph.turned and any(one.input == name and one.kept for one in graph.states):
        shape, kept = graph.declared_shape(name), f", kept as {written(shape)}"
    return f"{written(shape)} {tensor.dtype}{quant}{kept}"


def _pools(view: CompileView, addresses: bool) -> doc.Table[MemoryPool]:
    used = view.memory.by_pool
    columns = (
        doc.Column[MemoryPool]("pool", lambda pool: pool.name, width=11, left=True),
        *([doc.Column[MemoryPool]("from", lambda pool: pool.base, "{:#010x}")] if addresses else []),
        doc.Column[MemoryPool]("bytes used", lambda pool: used[pool.name], "{:,}", width=11),
        doc.Column[MemoryPool]("of", lambda pool: pool.size_bytes, "of {:11,} bytes"),
        doc.Column[MemoryPool]("share", lambda pool: 100 * used[pool.name] / pool.size_bytes, "{:.1f} %"),
    )
    return doc.Table(columns, [pool for pool in view.board.pools if used.get(pool.name)], "Memory")


def memory_chapter(view: CompileView) -> doc.Chapter:
    layout, memory, placed = view.compiled.layout, view.memory, view.compiled.layout.placed
    blocks: list[doc.Block] = [
        f"  activations: {layout.ratio:.3f} of the lower bound {layout.lower_bound_bytes:,}",
        _pools(view, addresses=True),
    ]
    if memory.code_constants_bytes:
        in_code = memory.code_constants_bytes
        blocks.append(f"  constants of CPU layers: {in_code:,} bytes, arrays of the C file, in flash")
    if memory.resident_bytes:
        copied = [placed[home.copy_of] for home in placed.values() if home.copy_of]
        blocks.append(
            f"  weights in RAM: {memory.resident_bytes:,} bytes of {count(len(copied), 'constant')}, copied once at "
            f"initialisation, in about {copying_ms(view):.1f} ms (counted, not measured); {KERNELS_IN_RAM}"
        )
        if small := [home.size_bytes for home in copied if home.buffer.four_bits]:
            size = f"{len(small)}, {sum(small):,} bytes of flash"
            blocks.append(f"  of them stored in 4 bits: {size}, unpacked when copied")
    if narrow := [h.buffer.size_bytes for h in placed.values() if h.buffer.half_bytes and not h.copy_of]:
        said = f"{count(len(narrow), 'constant')}, {sum(narrow):,} bytes"
        blocks.append(f"  weights that engines read in 4 bits: {said}")
    if fetched := sum(home.buffer.kind == BufferKind.PREFETCHED for home in placed.values()):
        why = "by the chip's DMA: emulated, not yet run on a board"
        why = why if view.compiled.decisions.by_dma else "no ST program copies from flash beside a convolution"
        size = f"{memory.prefetched_bytes:,} bytes beside other RAM"
        blocks.append(f"  weights fetched ahead: {count(fetched, 'constant')}, {size}; {why}")
    if memory.relocatable_bytes:
        size = f"{memory.relocatable_bytes:,} bytes of variables"
        blocks.append(f"  programs and lists of copies whose addresses are set at run time: {size}")
    for use, outside in memory.outside.items():
        blocks.append(f"  {outside:,} bytes of {use} lie outside the chip, where they cost most")
    title = doc.head("memory on ", f"{view.board.name}: {memory.ram_text}, weights {memory.weights_bytes:,} bytes")
    return doc.Chapter(title, [*blocks, *encryption_lines(view), *map(doc.Note, memory_notes(view))])


def _notes(view: CompileView) -> list[str]:
    """Each once: of the reader, of what the application has to do, of the passes, of memory."""
    source, graph = view.compiled.source, view.compiled.graph
    return list(dict.fromkeys((*source.notes, *post_notes(source), *graph.notes, *memory_notes(view))))


def memory_notes(view: CompileView) -> list[str]:
    notes = [*option_notes(view), *placement_notes(view.compiled.layout, view.board)]
    for user in view.compiled.program.user_io:
        where = " in NPU RAM (0x34200000 to 0x343c0000)" if user.npu_ram_only else ""
        notes.append(
            f"the application supplies {user.direction} {user.index} ({elided(user.name, LONG_NAME)}): "
            f"{user.size_bytes:,} bytes{where}, at a multiple of {user.alignment}; cycles do not count how fast that "
            "memory is"
        )
    return notes


def copying_ms(view: CompileView) -> float:
    """What the processor takes to copy and to unpack weights, which waits for the flash and for the RAM."""
    from atonc.machine.emu.cpu.atonc_costs import initial_copy_price

    machine, placed = view.compiled.target.machine, view.compiled.layout.placed
    copies = [(home, placed[home.copy_of]) for home in placed.values() if home.copy_of]
    prices = (initial_copy_price(home.buffer.size_bytes, source.buffer.size_bytes) for home, source in copies)
    return sum(price.waited(machine)[0] for price in prices) / machine.clocks.cpu_mhz / 1e3


def cpu_chapter(steps: Sequence[tuple[CpuReason, StepCost]]) -> doc.Chapter:
    if not steps:
        return doc.Chapter(doc.head("CPU:", " nothing, all operators run on the NPU"), [])
    groups: dict[tuple[str, ...], list[tuple[CpuReason, StepCost]]] = {}
    for reason, cost in steps:
        key = (reason.op, reason.rule.id, reason.seen, reason.limit, reason.remedy)
        groups.setdefault(key, []).append((reason, cost))
    lines: list[str] = []
    for (op, rule, seen, limit, remedy), members in groups.items():
        total = sum(cost.milliseconds for _, cost in members)
        said = [f"  {times(len(members), op)}, {ms_text(total, 3)}: {rule}: {seen}"]
        said += [f"Limit: {limit}"] * bool(limit)
        said += [f"Possible action (`atonc explain` tries it): {remedy}"] * bool(remedy)
        lines.append(" ".join(map(sentence, said)))
        lines += [f"     {elided(reason.node, LONG_NAME)}" for reason, _ in members]
    took = sum(cost.milliseconds for _, cost in steps)
    return doc.Chapter(doc.head("CPU:", f" {count(len(steps), 'operator')}, {ms_text(took)}"), lines)


def _coverage(compiled: Compiled) -> doc.Chapter:
    """What the quantiser left in float; nothing for models that are quantised throughout."""
    found = coverage(compiled.source, compiled.graph)
    if not found.float_nodes:
        return doc.Chapter("", [])
    nodes = sorted(found.float_nodes, key=lambda node: -node.size_bytes)
    title = doc.head(
        "coverage:",
        f" {found.percent:.1f} % of the operators that compute are quantised, {len(nodes)} {is_are(len(nodes))} not "
        f"({found.float_bytes:,} bytes of activations and weights)",
    )
    lines = [f"  {elided(n.name, LONG_NAME)} ({n.kind}, {n.size_bytes:,} bytes): {n.why}" for n in nodes]
    return doc.Chapter(title, [*lines, f"  fix: {quantiser(compiled.source)}"])


def error_chapter(compiled: Compiled) -> doc.Chapter:
    layers = expected_errors(compiled.graph, compiled.mapped)
    exact, small = sum(e.local == 0 for e in layers), sum(0 < e.local <= SMALL_CODES for e in layers)
    blocks: list[doc.Block] = [doc.Table(ERRORS, sorted(layers, key=lambda e: -e.local), "Expected errors")]
    if saturating := [e for e in layers if e.saturates]:
        blocks.append(
            f"  accumulator headroom {min(e.room for e in saturating):.3g}x or more for typical inputs, "
            f"below 1x for extreme ones: {', '.join(e.node for e in saturating)}"
        )
    for name, peak in output_peaks(compiled, layers).items():
        if peak <= MANY_CODES:  # beyond, the worst case of deep networks says nothing; the verification measures it
            blocks.append(f"  output {name}, all layers together: within {peak:g} LSB")
    return doc.Chapter(
        "expected error before the last rounding, in LSB, each layer on its real inputs: "
        f"{exact} exact, {small} up to {SMALL_CODES:g}, {len(layers) - exact - small} above",
        blocks,
    )


def output_peaks(compiled: Compiled, layers: tuple[ExpectedError, ...]) -> dict[str, float]:
    by_op = {e.op: e for e in layers}
    producers = compiled.graph.producers
    return {n: float(by_op[producers[n].name].deviation.peak) for n in compiled.graph.outputs if n in producers}


def verify_chapter(report: VerifyReport | None) -> doc.Chapter:
    if report is None:
        return doc.Chapter(doc.head("verification:", " skipped"), [])
    lines = []
    if report.as_vendor:
        several = f"{count(report.as_vendor, 'layer')} {is_are(report.as_vendor)}"
        lines.append(f"  {several} further off: value for value as --numerics 2.x rounds them")
    for o in report.outputs:
        lines.append(
            f"  {elided(o.name, LONG_NAME)}: cosine {o.cosine:.6f}, exact {o.exact_percent:.2f} %, within 1 LSB "
            f"{o.within1_percent:.2f} %, {o.worst_text}"
        )
    title = (
        f" the program on the emulator against exact arithmetic, {count(report.samples, 'input')}; "
        f"{count(report.layers, 'layer')}, each of their {count(report.tensors, 'tensor')} within its limit, "
        f"{report.worst_text}; {report.sums}"
    )
    return doc.Chapter(doc.head("verification:", title), lines)


# -------------------------------------------------------------------------------------------------------------- data


def as_json(view: CompileView) -> dict[str, Any]:
    compiled, cost, used = view.compiled, view.cost, view.memory.by_pool
    graph, pools = compiled.graph, view.board.pools
    return {
        **doc.fields_of(view, "model", "name"),
        "board": view.board.name,
        **doc.fields_of(view, "macs", "operators", "layers"),
        "inputs": [edge_data(graph, name) for name in graph.frame_inputs],
        "outputs": [edge_data(graph, name) for name in graph.frame_outputs],
        **states_data(view),
        "epochs": counts(compiled.program.steps),
        **doc.fields_of(cost, "cycles", "st_cycles", "latency_ms"),
        **cost.band.as_data(cost.latency_ms),
        **parts.energy_data(cost.energy),
        "clocks": doc.fields_of(cost, "npu_mhz", "cpu_mhz"),
        "bound_by": dict(cost.bound_by),
        "memory": {
            "pools": [doc.fields_of(p, *POOL_FIELDS) | {"used_bytes": used.get(p.name, 0)} for p in pools],
            **view.memory.as_dict(),
            "lower_bound_bytes": compiled.layout.lower_bound_bytes,
            **({"initialisation_ms": copying_ms(view)} if view.memory.resident_bytes else {}),
        },
        "encryption": encryption_data(view),
        "cpu_ops": [reason_data(reason) | {"cycles": cost.cycles} for reason, cost in cpu_steps(view)],
        "coverage": coverage_data(compiled),
        "unproven": [violation_data(v) for v in compiled.findings],
        "silicon": parts.silicon_data(compiled.silicon),
        "errors": error_data(compiled),
        "verify": _verify_data(compiled.report),
        "notes": _notes(view),
        "tail": compiled.source.tail.as_dict() if compiled.source.tail else None,
        "files": list(view.files),
        "seconds": compiled.seconds,
    }


def states_data(view: CompileView) -> dict[str, Any]:
    """Nothing of a network without states."""
    found = states(view.compiled.program, view.compiled.graph)
    return {"states": found, **parts.frames_data(view.cost.latency_ms, view.options.hop)} if found else {}


def edge_data(graph: Graph, name: str) -> dict[str, Any]:
    """An input or output as the application meets it."""
    tensor = graph.tensors[name]
    scale, zero_point = (tensor.scale, tensor.zero_point) if tensor.quant is not None else (None, None)
    return {"name": name, **doc.fields_of(tensor, "shape", "dtype"), "scale": scale, "zero_point": zero_point}


def coverage_data(compiled: Compiled) -> dict[str, Any]:
    found = coverage(compiled.source, compiled.graph)
    nodes = [doc.fields_of(node, "node=name", "op=kind", "size_bytes", "why") for node in found.float_nodes]
    return doc.fields_of(found, "percent", "quantised_ops=quantised", "quantised_bytes", "float_bytes") | {
        "float_ops": nodes
    }


def error_data(compiled: Compiled) -> dict[str, Any]:
    layers = expected_errors(compiled.graph, compiled.mapped)
    rows = [
        doc.fields_of(e, "node", "op=kind", "error=local", "may_saturate=saturates")
        | {"room": e.room if e.saturates else None, "peak": float(e.deviation.peak)}
        for e in layers
    ]
    return {"layers": rows, "outputs": output_peaks(compiled, layers)}


def _verify_data(report: VerifyReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "exact": all(o.exact_percent == 100.0 for o in report.outputs),
        "close": all(is_close(o.cosine, o.within1_percent) and not o.blank for o in report.outputs),
        **doc.fields_of(report, "samples", "layers", "tensors", "worst_layer", "as_vendor", "sums"),
        "rooms": [{"node": c.node, "times": c.room} for c in report.checks if c.room < inf],
        "outputs": [doc.fields_of(one, *VERIFIED_FIELDS) for one in report.outputs],
    }


def step_data(view: CompileView) -> list[dict[str, Any]]:
    """Cycles per step, for the program file."""
    return [doc.fields_of(cost, "st_cycles", "cycles", "bound_by", "cost_known=known") for cost in view.cost.steps]


def reason_data(reason: CpuReason) -> dict[str, Any]:
    return {**doc.fields_of(reason, "node", "op", "rule", "seen", "limit", "remedy"), "rule": reason.rule.id}


def encryption_data(view: CompileView) -> dict[str, Any] | None:
    region = view.compiled.written.encrypted
    if region is None:
        return None
    found = count_encrypted(view.compiled.written, view.compiled.graph)
    return {
        **doc.fields_of(region, "pool", "address=start", "offset", "size_bytes"),
        **doc.fields_of(found, "encrypted_bytes", "plain_bytes", "engines", "epochs"),
        "evidence": encryption_evidence(view),
    }


# ------------------------------------------------------------------------------------------------------------ in short


def _short_head(view: CompileView) -> doc.Chapter:
    graph = view.compiled.graph
    edges = _edges(graph)
    more = len(_edges(graph, len(graph.tensors))) - len(edges)
    notes = _notes(view)
    blocks: list[doc.Block] = [f"  {edge} {edge_text(graph, name, _EDGE_NAME)}" for edge, name in edges]
    blocks += [f"  and {count(more, 'more input or output', 'more inputs and outputs')} (-v)"] if more else []
    blocks += map(doc.Note, notes[:_MOST_NOTES])
    blocks += [f"  and {count(len(notes) - _MOST_NOTES, 'more note')} (-v)"] if len(notes) > _MOST_NOTES else []
    return doc.Chapter(doc.head(elided(view.model, doc.NAME), f": {model_size(view)}"), blocks)


def _short_time(view: CompileView) -> Iterator[doc.Chapter]:
    cost, number = view.cost, counts(view.compiled.program.steps)
    title = doc.head("bottlenecks", f" of {parts.epochs_text(number['total'], number['npu'])}, share of time")
    yield doc.Chapter(title, [parts.bounds_table(cost.bound_by, "{:3.0f} %")], close=True)
    slow = sorted(_epochs(view), key=lambda row: -row.cost.milliseconds)[:_SLOWEST]
    guessed = "; ~: rough estimate" if any(not row.cost.known for row in slow) else ""
    columns = (
        doc.Column[EpochRow]("share", lambda row: 100 * row.cost.cycles / max(1, cost.cycles), "{:3.0f} %"),
        parts.cycles_column("cycles"),
        parts.where_column("where"),
        doc.Column[EpochRow]("bottleneck", lambda row: bound_name(row.cost.bound_by), left=True),
        doc.Column[EpochRow]("layer", lambda row: elided(row.cost.origin, doc.NAME), left=True),
    )
    title = doc.head("slowest epochs", f" (cycles, where, bottleneck, layer{guessed})")
    yield doc.Chapter(title, [doc.Table(columns, slow, "Slowest epochs")], close=True)


def _short_cpu(view: CompileView) -> doc.Chapter:
    """Operators by the rule that sent them there; and what the quantiser left in float."""
    spent: dict[tuple[str, Rule], list[float]] = {}
    for reason, cost in cpu_steps(view):
        spent.setdefault((reason.op, reason.rule), []).append(cost.milliseconds)
    found = [
        f"  {times(len(spent[key]), key[0])}, {ms_text(sum(spent[key]))}: {key[1].sentence}"
        for key in sorted(spent, key=lambda key: -sum(spent[key]))
    ]
    more = f"  and {count(len(found) - _GROUPS, 'more kind')} (-v)"
    blocks: list[doc.Block] = list(doc.at_most(_GROUPS, found, more))
    left = Counter(node.kind for node in coverage(view.compiled.source, view.compiled.graph).float_nodes)
    if left:
        kinds = [f"{number} {kind}" for kind, number in left.most_common(_GROUPS)] + ["..."] * (len(left) > _GROUPS)
        blocks.append(doc.Note(f"left in float by the quantiser: {', '.join(kinds)} (-v says why)"))
    title = doc.head("on the CPU", " (`atonc explain` tries actions)") if found else ""
    return doc.Chapter(title, blocks, close=True)


def _short_memory(view: CompileView) -> doc.Chapter:
    blocks: list[doc.Block] = [_pools(view, addresses=False)]
    if in_code := view.memory.code_constants_bytes:
        blocks.append(f"  in the code  {in_code:11,} bytes of constants of CPU layers ({view.name}.c, flash)")
    blocks += encryption_lines(view)
    blocks += [doc.Note(KERNELS_IN_RAM)] if view.memory.resident_bytes else []
    return doc.Chapter(doc.head("memory of ", view.board.name), blocks, close=True)


def _evidence(view: CompileView) -> doc.Chapter:
    """How near the epochs are to those of published programs."""
    found = view.compiled.silicon
    if not sum(found.epochs.values()):
        return doc.Chapter("", [])
    mark = doc.Mark.ALARM if found.epochs[Grade.UNSEEN] else None
    title = doc.Marked.of(("hardware confidence:", doc.Mark.HEAD), (f" {parts.grade_text(found)}", mark))
    return doc.Chapter(title, list(map(doc.Note, parts.assumed(found))), close=True)


def _verified(view: CompileView) -> doc.SummaryRow:
    report = view.compiled.report
    if report is None:
        return doc.SummaryRow("verified", "no (--no-verify)", doc.Mark.DOUBT)
    cosine = min((output.cosine for output in report.outputs), default=1.0)
    poor = [check for check in report.checks if check.poor and not check.as_vendor]
    inputs = f"{count(report.layers, 'layer')} emulated on {count(report.samples, 'input')}"
    said = f"{inputs}, {report.worst_text}"
    said += f", {count(len(poor), 'tensor')} above the default limit {MOST_CODES:g}" if poor else ""
    if blank := [output.name for output in report.outputs if output.blank]:
        return doc.SummaryRow("verified", f"{said}; {nothing_compared(blank[0])}", doc.Mark.DOUBT)
    said += f"; output cosine {cosine:.6f}"
    if all(is_close(output.cosine, output.within1_percent) for output in report.outputs):
        return doc.SummaryRow("verified", said, doc.Mark.DOUBT if poor else doc.Mark.GOOD)
    return doc.SummaryRow("verified", f"{said}, below {MIN_COSINE}: see {view.again('validate')}", doc.Mark.DOUBT)


def _next_data(one: TriedOption) -> dict[str, Any]:
    return doc.fields_of(one, "option=flags", "brings", "command") | {"latency_ms": one.after.latency_ms}


def _next(view: CompileView) -> str:
    """Where to look, if no option is known to bring much."""
    if outside := sum(view.memory.outside.values()):
        return f"{view.again('explain')}: tries what leaves less than these {size_text(outside)} outside the chip"
    if view.cost.cpu_ms > (1 - doc.WORTH) * view.cost.latency_ms:
        return f"{view.again('explain')}: why {ms_text(view.cost.cpu_ms)} are spent on the CPU"
    if view.files:
        return f"{shell('view', Path(view.files[0]).parent)}: the report in the browser, layer by layer"
    return f"{view.again('generate')}: writes the C files and memory images"


def encryption_lines(view: CompileView) -> list[str]:
    """For the section on memory; nothing without `--encrypt-weights`."""
    region = view.compiled.written.encrypted
    if region is None:
        return []
    found = count_encrypted(view.compiled.written, view.compiled.graph)
    return [
        f"  to be encrypted: {found.encrypted_bytes:,} bytes of weights, {region.size_bytes:,} bytes of the image of "
        f"{region.pool} from offset {region.offset:,} on ({region.start:#010x}); "
        f"{count(found.engines, 'reader')} in {count(found.epochs, 'epoch')} decipher them",
        f"  in plain: {found.plain_bytes:,} bytes of weights, of layers on the CPU, in {view.name}.c",
    ]


class Stopped(Exception):
    """The user wanted to go no further; no error."""


@dataclass
class Dump:
    """Watches a compilation. A stage that is repeated, because something did not fit, is shown as it was last."""

    folder: Path | None
    last: str | None = None
    texts: dict[str, str] = field(default_factory=dict)

    def __call__(self, stage: str, result: object) -> None:
        self.texts[stage] = "".join(f"{line}\n" for line in _stage_lines(result))
        if stage == self.last:
            raise Stopped

    def write(self) -> None:
        """What was seen so far, also of a compilation that failed."""
        if self.folder is not None and self.texts:
            numbered = ((STAGES.index(stage) + 1, stage, content) for stage, content in self.texts.items())
            write_files(self.folder, {f"{number}_{stage}.txt": content.encode() for number, stage, content in numbered})


def _stage_lines(result: object) -> Iterator[str]:
    if isinstance(result, Graph):
        yield from text.dump(result).splitlines()
    elif isinstance(result, Mapped):
        yield from _tasks(result)
    elif isinstance(result, Scheduled):
        yield from _steps(result)
    elif isinstance(result, Program):
        yield from _homes(result)
    else:
        raise TypeError(type(result).__name__)


def _tasks(mapped: Mapped) -> Iterator[str]:
    """Lists the tasks of every operator: chains of units over buffers, without unit numbers."""
    for work in mapped.works:
        if work.call is not None:
            yield f"cpu {work.call.title}"
        for task in tasks_of(work.groups):
            yield f"npu {task.title}"
            yield from (f"    {name}: {use.buffer}" for name, use in task.engines.items())
            yield from (f"    {wire.source} -> {wire.target}:{wire.port}" for wire in task.wires)
    for name, source in mapped.context.aliases.items():
        yield f"alias {name} = {source}"


def _steps(scheduled: Scheduled) -> Iterator[str]:
    for number, plan in enumerate(scheduled.plans, 1):
        where = "cpu" if isinstance(plan, CpuPlan) else "npu"
        yield f"{number} {where} {plan.title}"
        yield f"    {', '.join(sorted(plan.reads()))} -> {', '.join(sorted(plan.writes()))}"
        if not isinstance(plan, CpuPlan):
            yield from (f"    {link}" for link in plan.links)


def _homes(program: Program) -> Iterator[str]:
    for home in sorted(program.placed.values(), key=lambda home: (home.address, home.buffer.name)):
        steps = f"steps {home.first + 1}..{home.last + 1}"
        yield f"{home.address:#010x} {home.end:#010x} {home.pool:10} {steps} {home.buffer.kind} {home.buffer.name}"


CSV_COLUMNS = ("epoch", "on", "st_estimate_cycles", "predicted_cycles", "bound_by")


def epochs_csv(view: CompileView) -> str:
    """A first line that says whose figures they are, the names of the columns, a line for every epoch."""
    file = io.StringIO()
    file.write(f"# atonc {__version__}: cycles of the NPU's clock, predicted\n")
    table = csv.writer(file, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True):
        on = "cpu" if step.epoch is None else "npu"
        table.writerow([step.number, on, cost.st_cycles, cost.cycles, cost.bound_by])
    return file.getvalue()
