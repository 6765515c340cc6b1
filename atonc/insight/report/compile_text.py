"""What `atonc generate` and `atonc analyze` show: where every operator runs and why, memory, time, proof."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, Scheduled
from atonc.compiler.emit.encryption import count as count_encrypted
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.frontends.coverage import coverage, quantiser
from atonc.compiler.ir import Graph, text
from atonc.compiler.lower.map_ops import CpuReason, Mapped
from atonc.compiler.lower.semantics.error_model import ExpectedError, expected_errors
from atonc.compiler.place.notes import placement_notes
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.task import tasks_of
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.compiler.request.options import STAGES
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.insight.explain.ours import encryption_evidence, encryption_notes
from atonc.insight.explain.rules import bound_in_short
from atonc.insight.report import parts
from atonc.insight.report.document import (
    NAME,
    WORTH,
    Mark,
    Marked,
    OnCpu,
    SummaryRow,
    cpu_row,
    fields_of,
    files_row,
    flash_row,
    head,
    latency_row,
    next_row,
    note,
    ram_row,
    resident_step,
    summary_lines,
)
from atonc.insight.report.parts import EpochRow, epoch_table
from atonc.insight.report.run_text import cost_lines, violation_data
from atonc.insight.report.terminal import show
from atonc.insight.validating.judging import MIN_COSINE, is_close
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import sentence
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count, elided, is_are, ms_text, shell, size_text, times
from atonc.machine.cost.network import spill_lines
from atonc.machine.hw.safety.evidence.grades import Grade

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.compiler.verify.verify import VerifyReport

MANY_CODES = 20  # codes: a worst case beyond says little
SMALL_CODES = 0.5  # codes: below, a layer differs from exact arithmetic by one code now and then


def error_lines(compiled: Compiled) -> list[str]:
    layers = expected_errors(compiled.graph, compiled.mapped)
    exact, small = sum(e.local == 0 for e in layers), sum(0 < e.local <= SMALL_CODES for e in layers)
    lines = [
        "expected error before the last rounding, in codes, each layer on the inputs that it really has: "
        f"{exact} exact, {small} up to {SMALL_CODES:g}, {len(layers) - exact - small} above",
        *(f"  {e.local:8.3f} {e.kind:14} {e.node}" for e in sorted(layers, key=lambda e: -e.local)),
    ]
    saturating = [e for e in layers if e.saturates]
    if saturating:
        lines.append(
            f"  sums of {count(len(saturating), 'layer')} have room for {min(e.room for e in saturating):.3g} times "
            f"those of typical inputs or more, not for all: {', '.join(e.node for e in saturating)}"
        )
    for name, peak in output_peaks(compiled, layers).items():
        if peak <= MANY_CODES:  # beyond, the worst case of deep networks says nothing; the verification measures it
            lines.append(f"  output {name}, all layers together: within {count(peak, 'code')}")
    return lines


def output_peaks(compiled: Compiled, layers: tuple[ExpectedError, ...]) -> dict[str, float]:
    by_op = {e.op: e for e in layers}
    producers = compiled.graph.producers
    return {n: float(by_op[producers[n].name].deviation.peak) for n in compiled.graph.outputs if n in producers}


def error_data(compiled: Compiled) -> dict[str, Any]:
    layers = expected_errors(compiled.graph, compiled.mapped)
    return {
        "layers": [
            {
                "node": e.node,
                "op": e.kind,
                "error": e.local,
                "may_saturate": e.saturates,
                "room": e.room if e.saturates else None,
                "peak": float(e.deviation.peak),
            }
            for e in layers
        ],
        "outputs": output_peaks(compiled, layers),
    }


LONG_NAME = 60
VERIFIED_FIELDS = ("name", "cos=cosine", "max_lsb", "exact_pct=exact_percent", "within1_pct=within1_percent")


@dataclass(frozen=True)
class CpuStep:
    """A CPU step with the reason for it."""

    reason: CpuReason
    cycles: int
    milliseconds: float


def cpu_steps(view: CompileView) -> list[CpuStep]:
    pairs = zip(view.compiled.program.steps, view.cost.steps, strict=True)
    calls = [(step.plan, cost) for step, cost in pairs if isinstance(step.plan, CpuPlan)]
    reasons = view.compiled.mapped.reason_of
    return [CpuStep(reasons[plan.op], cost.cycles, cost.milliseconds) for plan, cost in calls]


def counts(steps: Iterable[ProgramStep]) -> dict[str, int]:
    cpu = npu = 0
    for step in steps:
        cpu, npu = cpu + (step.epoch is None), npu + (step.epoch is not None)
    return {"total": cpu + npu, "npu": npu, "cpu": cpu, "hybrid": 0}


# -------------------------------------------------------------------------------------------------------------- text


def report_lines(view: CompileView) -> list[str]:
    """All that is known, as `NAME_report.txt` and -v have it."""
    sections = (
        _head(view),
        _memory(view),
        cost_lines(view.cost),
        _epochs(view),
        _cpu_ops(view),
        *coverage_sections(view.compiled.source),
        error_lines(view.compiled),
        verify_lines(view.compiled.report),
    )
    lines: list[str] = []
    for section in sections:
        lines += [*section, ""]
    return lines[:-1]


def _head(view: CompileView) -> list[str]:
    source, graph = view.compiled.source, view.compiled.graph
    number = counts(view.compiled.program.steps)
    size = f"{model_size(view)}, {view.macs / 1e6:,.1f} M MACs"
    found = Counter(op.kind for op in graph.ops)
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.most_common())
    notes = [note(text) for text in (*source.notes, *(n for n in graph.notes if n not in source.notes))]
    steps = ((step.bound_by, step.milliseconds) for step in view.cost.steps)
    return [
        *(Marked(Mark.ALARM, line) for line in spill_lines(view.memory.spilled_bytes, steps)),
        head("model ", f"{view.model} ({source.source}), {size}"),
        *(f"input  {edge_text(graph, n)}" for n in graph.inputs),
        *(f"output {edge_text(graph, n)}" for n in graph.outputs),
        *notes,
        f"layers: {kinds}",
        f"epochs: {number['total']}, of these {number['npu']} on the NPU and {number['cpu']} on the CPU",
        f"safety: {_count(view, 'violation')}, {_count(view, 'unproven form')}",
        *parts.silicon_lines(view.compiled.silicon, verbose=True),
    ]


def model_size(view: CompileView) -> str:
    """Both counts with the names that all views use."""
    return f"{count(view.operators, 'operator')} in the model, {count(view.layers, 'layer')} compiled"


def _count(view: CompileView, noun: str) -> str:
    """Findings of a severity, whose name begins the noun."""
    return count(sum(str(v.severity) == noun.split()[0] for v in view.compiled.findings), noun)


def edge_text(graph: Graph, name: str, most: int = LONG_NAME) -> str:
    """An input or output in words, its name in at most so many characters."""
    tensor = graph.tensors[name]
    quant = f", scale {tensor.scale:g}, zero point {tensor.zero_point}" if tensor.quant is not None else ""
    return f"{elided(name, most)} {'x'.join(map(str, tensor.shape))} {tensor.dtype}{quant}"


def edge_data(graph: Graph, name: str) -> dict[str, Any]:
    """An input or output as the application meets it."""
    tensor = graph.tensors[name]
    known = tensor.quant is not None
    return {
        "name": name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scale": tensor.scale if known else None,
        "zero_point": tensor.zero_point if known else None,
    }


def _memory(view: CompileView) -> list[str]:
    layout, memory = view.compiled.layout, view.memory
    lines: list[str] = [
        head("memory on ", f"{view.board.name}: {memory.ram_text}, weights {memory.weights_bytes:,} bytes"),
        f"  activations: {layout.ratio:.3f} of the lower bound {layout.lower_bound_bytes:,}",
    ]
    for pool in view.board.pools:
        used = memory.by_pool.get(pool.name, 0)
        if used:
            share = 100 * used / pool.size_bytes
            lines.append(f"  {pool.name:10} {pool.base:#010x} {used:12,} of {pool.size_bytes:12,} bytes {share:5.1f} %")
    if memory.code_constants_bytes:
        in_code = memory.code_constants_bytes
        lines.append(f"  constants of CPU layers: {in_code:,} bytes, arrays of the C file, in flash")
    if memory.resident_bytes:
        copies = sum(bool(home.copy_of) for home in layout.placed.values())
        lines.append(
            f"  weights in RAM: {memory.resident_bytes:,} bytes of {count(copies, 'constant')}, copied once at "
            f"initialisation, in about {copying_ms(view):.1f} ms (counted, not measured); {KERNELS_IN_RAM}"
        )
        small = [home for home in _copied(view) if home.buffer.four_bits]
        if small:
            size = sum(home.size_bytes for home in small)
            lines.append(f"  of them stored in 4 bits: {len(small)}, {size:,} bytes of flash, unpacked when copied")
    narrow = [home.buffer for home in layout.placed.values() if home.buffer.half_bytes and not home.copy_of]
    if narrow:
        size = sum(buffer.size_bytes for buffer in narrow)
        lines.append(f"  weights that engines read in 4 bits: {count(len(narrow), 'constant')}, {size:,} bytes")
    fetched = sum(home.buffer.kind == BufferKind.PREFETCHED for home in layout.placed.values())
    if fetched:
        lines.append(
            f"  weights fetched ahead: {count(fetched, 'constant')}, {memory.prefetched_bytes:,} bytes beside other "
            "RAM; no published program copies from flash beside a convolution"
        )
    if memory.relocatable_bytes:
        lines.append(f"  programs whose addresses are set at run time: {memory.relocatable_bytes:,} bytes of variables")
    if memory.spilled_bytes:
        lines.append(f"  {memory.spilled_bytes:,} bytes of activations lie outside the chip, where they cost most")
    lines += encryption_lines(view)
    return [*lines, *(note(text, indent="  ") for text in memory_notes(view))]


def memory_notes(view: CompileView) -> list[str]:
    notes = [*encryption_notes(view), *placement_notes(view.compiled.layout, view.board)]
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


def _copied(view: CompileView) -> list[Placed]:
    """Constants in flash of which there is a copy in RAM."""
    placed = view.compiled.layout.placed
    return [placed[home.copy_of] for home in placed.values() if home.copy_of]


def _epochs(view: CompileView) -> list[str]:
    steps = zip(view.compiled.program.steps, view.cost.steps, strict=True)
    rows = [EpochRow(step.number, "cpu" if step.epoch is None else "npu", cost) for step, cost in steps]
    return epoch_table(rows, True, "on", "what", width=4)


def _cpu_ops(view: CompileView) -> list[str]:
    steps = cpu_steps(view)
    if not steps:
        return [head("CPU:", " nothing, all operators run on the NPU")]
    lines: list[str] = [head("CPU:", f" {count(len(steps), 'operator')}, {view.cost.cpu_ms:.2f} ms")]
    groups: dict[tuple[str, ...], list[CpuStep]] = {}
    for step in steps:
        reason = step.reason
        groups.setdefault((reason.op, reason.rule.id, reason.seen, reason.limit, reason.remedy), []).append(step)
    for (op, rule, seen, limit, remedy), members in groups.items():
        total = sum(step.milliseconds for step in members)
        parts = [f"  {times(len(members), op)}, {total:.3f} ms: {rule}: {seen}"]
        parts += [f"Limit: {limit}"] * bool(limit)
        parts += [f"What may help (`atonc explain` tries it): {remedy}"] * bool(remedy)
        lines.append(" ".join(map(sentence, parts)))
        lines += [f"     {elided(step.reason.node, LONG_NAME)}" for step in members]
    return lines


def coverage_sections(source: Graph) -> list[list[str]]:
    """What the quantiser left in float; nothing for models that are quantised throughout."""
    found = coverage(source)
    if not found.float_nodes:
        return []
    nodes = sorted(found.float_nodes, key=lambda node: -node.size_bytes)
    lines: list[str] = [
        head(
            "coverage:",
            f" {found.percent:.1f} % of the operators that compute are quantised, {len(nodes)} {is_are(len(nodes))} "
            f"not ({found.float_bytes:,} bytes of activations and weights)",
        ),
        *(f"  {elided(n.name, LONG_NAME)} ({n.kind}, {n.size_bytes:,} bytes): {n.why}" for n in nodes),
    ]
    return [[*lines, f"  What to do: {quantiser(source)}."]]


def verify_lines(report: VerifyReport | None) -> list[str]:
    if report is None:
        return [head("verification:", " skipped")]
    lines: list[str] = [
        head(
            "verification:",
            f" the program on the emulator against exact arithmetic, "
            f"{count(report.samples, 'input')}; {count(report.layers, 'layer')}, each of their "
            f"{count(report.tensors, 'tensor')} within its limit, at most {count(report.worst_layer, 'code')} off; "
            f"{report.sums}",
        )
    ]
    if report.as_vendor:
        several = f"{count(report.as_vendor, 'layer')} {is_are(report.as_vendor)}"
        lines.append(f"  {several} further off: value for value as --numerics 2.x rounds them")
    for o in report.outputs:
        lines.append(
            f"  {elided(o.name, LONG_NAME)}: cosine {o.cosine:.6f}, exact {o.exact_percent:.2f} %, within 1 "
            f"{o.within1_percent:.2f} %, largest difference {o.max_lsb:g}"
        )
    return lines


# -------------------------------------------------------------------------------------------------------------- data


def as_json(view: CompileView) -> dict[str, Any]:
    compiled, cost, used = view.compiled, view.cost, view.memory.by_pool
    return {
        "model": view.model,
        "name": view.name,
        "board": view.board.name,
        "macs": view.macs,
        "operators": view.operators,
        "layers": view.layers,
        "inputs": [edge_data(compiled.graph, name) for name in compiled.graph.inputs],
        "outputs": [edge_data(compiled.graph, name) for name in compiled.graph.outputs],
        "epochs": counts(compiled.program.steps),
        "cycles": cost.cycles,
        "st_cycles": cost.st_cycles,
        "latency_ms": cost.latency_ms,
        **cost.band.as_data(cost.latency_ms),
        **parts.energy_data(cost.energy),
        "clocks": {"npu_mhz": cost.npu_mhz, "cpu_mhz": cost.cpu_mhz},
        "bound_by": dict(cost.bound_by),
        "memory": {
            "pools": [
                {
                    "name": pool.name,
                    "base": pool.base,
                    "size_bytes": pool.size_bytes,
                    "used_bytes": used.get(pool.name, 0),
                }
                for pool in view.board.pools
            ],
            **view.memory.as_dict(),
            "lower_bound_bytes": compiled.layout.lower_bound_bytes,
            **({"initialisation_ms": copying_ms(view)} if view.memory.resident_bytes else {}),
        },
        "encryption": encryption_data(view),
        "cpu_ops": [_cpu_data(step) for step in cpu_steps(view)],
        "coverage": coverage_data(compiled.source),
        "unproven": [violation_data(v) for v in compiled.findings],
        "silicon": parts.silicon_data(compiled.silicon),
        "errors": error_data(compiled),
        "verify": _verify_data(compiled.report),
        "notes": list(dict.fromkeys((*compiled.source.notes, *compiled.graph.notes, *memory_notes(view)))),
        "files": list(view.files),
        "seconds": compiled.seconds,
    }


def coverage_data(source: Graph) -> dict[str, Any]:
    found = coverage(source)
    return {
        "percent": found.percent,
        "quantised_ops": found.quantised,
        "quantised_bytes": found.quantised_bytes,
        "float_bytes": found.float_bytes,
        "float_ops": [fields_of(node, "node=name", "op=kind", "size_bytes", "why") for node in found.float_nodes],
    }


def _cpu_data(step: CpuStep) -> dict[str, Any]:
    return {**reason_data([step.reason])[0], "cycles": step.cycles}


def _verify_data(report: VerifyReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "exact": all(o.exact_percent == 100.0 for o in report.outputs),
        "close": all(is_close(o.cosine, o.within1_percent) for o in report.outputs),
        **fields_of(report, "samples", "layers", "tensors", "worst_layer", "as_vendor", "sums"),
        "rooms": [{"node": c.node, "times": c.room} for c in report.checks if c.room < inf],
        "outputs": [fields_of(one, *VERIFIED_FIELDS) for one in report.outputs],
    }


def step_data(view: CompileView) -> list[dict[str, Any]]:
    """Cycles per step, for the program file."""
    return [fields_of(cost, "st_cycles", "cycles", "bound_by", "cost_known=known") for cost in view.cost.steps]


def reason_data(reasons: Sequence[CpuReason]) -> list[dict[str, str]]:
    return [
        {"node": r.node, "op": r.op, "rule": r.rule.id, "seen": r.seen, "limit": r.limit, "remedy": r.remedy}
        for r in reasons
    ]


_SLOWEST, _BOUNDS, _MOST_EDGES, _MOST_NOTES, _GROUPS = 5, 3, 3, 2, 3  # lines of each
_EDGE_NAME = 19  # characters


def print_compiled(view: CompileView, broken: Sequence[str], verbose: bool) -> None:
    """Details, then the figures that people look for; `broken`: gates that do not hold."""
    time = ["", f"compiled in {view.compiled.seconds:.2f} s", *(f"wrote {file}" for file in view.files)]
    details = [*report_lines(view), *time] if verbose else short_lines(view)
    show([*details, *summary(view, broken)])


def short_lines(view: CompileView) -> list[str]:
    return [*_short_head(view), *_short_time(view), *_short_cpu(view), *_short_memory(view), *_evidence(view)]


def _short_head(view: CompileView) -> list[str]:
    source, graph = view.compiled.source, view.compiled.graph
    size = f"{model_size(view)}, {view.macs / 1e6:,.1f} M MACs"
    edges = [("input ", name) for name in graph.inputs[:_MOST_EDGES]] + [
        ("output", name) for name in graph.outputs[:_MOST_EDGES]
    ]
    more = len(graph.inputs) + len(graph.outputs) - len(edges)
    notes = list(dict.fromkeys((*source.notes, *graph.notes, *memory_notes(view))))
    return [
        head(elided(view.model, NAME), f": {size}"),
        *(f"  {edge} {edge_text(graph, name, _EDGE_NAME)}" for edge, name in edges),
        *([f"  and {count(more, 'more input or output', 'more inputs and outputs')} (-v)"] if more else []),
        *(note(text, "  ") for text in notes[:_MOST_NOTES]),
        *([f"  and {count(len(notes) - _MOST_NOTES, 'more note')} (-v)"] if len(notes) > _MOST_NOTES else []),
    ]


def _short_time(view: CompileView) -> list[str]:
    cost = view.cost
    pairs = zip(view.compiled.program.steps, cost.steps, strict=True)
    slow = sorted(((step.epoch is None, one) for step, one in pairs), key=lambda row: -row[1].milliseconds)[:_SLOWEST]
    guessed = "; ~: guessed" if any(not one.known for _, one in slow) else ""
    shares = list(cost.bound_by.items())[:_BOUNDS]
    out: list[str] = [head("time", f": what {count(len(cost.steps), 'epoch')} (units that run at once) wait for")]
    out += [f"  {100 * share:3.0f} %  {label:12} {bound_in_short(label)}" for label, share in shares]
    out.append(head("slowest epochs", f" (cycles, where, waits for, layer{guessed})"))
    for on_cpu, one in slow:
        cycles = f"{'' if one.known else '~'}{one.cycles:,}"
        after = f"  {one.bound_by:12} {elided(one.origin, NAME)}"
        share = 100 * one.cycles / max(1, cost.cycles)
        out.append(Marked.of((f"  {share:3.0f} % {cycles:>12}  ", None), _place(on_cpu), (after, None)))
    return out


def _place(on_cpu: bool) -> tuple[str, Mark | None]:
    return ("cpu", Mark.ON_CPU) if on_cpu else ("npu", None)


def _short_cpu(view: CompileView) -> list[str]:
    """Operators by the rule that sent them there; and what the quantiser left in float."""
    groups: dict[tuple[str, Rule], list[CpuStep]] = {}
    for step in cpu_steps(view):
        groups.setdefault((step.reason.op, step.reason.rule), []).append(step)
    spent = {key: sum(step.milliseconds for step in members) for key, members in groups.items()}
    shown = sorted(groups, key=lambda key: -spent[key])[:_GROUPS]
    out: list[str] = [head("on the CPU", " (`atonc explain` tries what to do)")] if shown else []
    out += [f"  {times(len(groups[key]), key[0])}, {ms_text(spent[key])}: {key[1].sentence}" for key in shown]
    out += [f"  and {count(len(groups) - _GROUPS, 'more kind')} (-v)"] if len(groups) > _GROUPS else []
    left = Counter(node.kind for node in coverage(view.compiled.source).float_nodes)
    if left:
        kinds = [f"{number} {kind}" for kind, number in left.most_common(_GROUPS)] + ["..."] * (len(left) > _GROUPS)
        out.append(note(f"left in float by the quantiser: {', '.join(kinds)} (-v says why)"))
    return out


def _short_memory(view: CompileView) -> list[str]:
    out: list[str] = [head("memory of ", view.board.name)]
    for pool in view.board.pools:
        if used := view.memory.by_pool.get(pool.name, 0):
            share = 100 * used / pool.size_bytes
            out.append(f"  {pool.name:12} {used:12,} of {pool.size_bytes:12,} bytes {share:5.1f} %")
    if in_code := view.memory.code_constants_bytes:
        out.append(f"  {'in the code':12} {in_code:12,} bytes of constants of CPU layers ({view.name}.c, flash)")
    out += encryption_lines(view)
    return [*out, *([note(KERNELS_IN_RAM)] if view.memory.resident_bytes else [])]


def _evidence(view: CompileView) -> list[str]:
    """How near the epochs are to those of published programs."""
    found = view.compiled.silicon
    if not sum(found.epochs.values()):
        return []
    mark = Mark.ALARM if found.epochs[Grade.UNSEEN] else None
    line = Marked.of(("evidence:", Mark.HEAD), (f" {parts.grade_text(found)}", mark))
    return [line, *map(note, parts.assumed(found))]


# ----------------------------------------------------------------------------------------------------------- summary


def summary(view: CompileView, broken: Sequence[str] = ()) -> list[str]:
    cost = view.cost
    on_cpu = [(step.reason, step.milliseconds) for step in cpu_steps(view)]
    clocks = f"NPU {cost.npu_mhz:.0f} MHz, CPU {cost.cpu_mhz:.0f} MHz"
    return summary_lines(
        (
            latency_row(cost.latency_ms, f"predicted ({cost.band.span(cost.latency_ms)})", clocks),
            ram_row(view.memory),
            flash_row(view.memory),
            cpu_row([OnCpu(r.node, r.op, ms) for r, ms in on_cpu], cost.latency_ms),
            _verified(view),
            _gates(broken) if broken else parts.energy_row(cost.energy),
            files_row(view.files),
            next_row(_next(view)),
        )
    )


def _gates(broken: Sequence[str]) -> SummaryRow:
    return SummaryRow("gates", f"{count(len(broken), 'gate')} broken", Mark.ALARM)


def _verified(view: CompileView) -> SummaryRow:
    report = view.compiled.report
    if report is None:
        return SummaryRow("verified", "no: the emulator was not asked (--no-verify)", Mark.DOUBT)
    cosine = min((output.cosine for output in report.outputs), default=1.0)
    off = f"at most {count(round(report.worst_layer), 'code')} off" if report.worst_layer else "all exact"
    inputs = f"{count(report.layers, 'layer')} emulated on {count(report.samples, 'input')}"
    said = f"{inputs}, {off}; cosine of outputs {cosine:.6f}"
    if all(is_close(output.cosine, output.within1_percent) for output in report.outputs):
        return SummaryRow("verified", said, Mark.GOOD)
    return SummaryRow("verified", f"{said}, below {MIN_COSINE}: `atonc validate` judges it", Mark.DOUBT)


def _next(view: CompileView) -> str:
    """The step that brings most, of those whose effect is known or that find it out."""
    ms, spilled = view.cost.latency_ms, view.memory.spilled_bytes
    if spilled:
        return f"{view.again('explain')}: tries what brings {size_text(spilled)} back onto the chip"
    if found := resident_step(view.resident_outlook, ms):
        return found
    if view.cost.cpu_ms > (1 - WORTH) * ms:
        return f"{view.again('explain')}: tries what to do about {ms_text(view.cost.cpu_ms)} on the CPU"
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


def encryption_data(view: CompileView) -> dict[str, Any] | None:
    region = view.compiled.written.encrypted
    if region is None:
        return None
    found = count_encrypted(view.compiled.written, view.compiled.graph)
    return {
        "pool": region.pool,
        "address": region.start,
        "offset": region.offset,
        "size_bytes": region.size_bytes,
        "encrypted_bytes": found.encrypted_bytes,
        "plain_bytes": found.plain_bytes,
        "engines": found.engines,
        "epochs": found.epochs,
        "evidence": encryption_evidence(view),
    }


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
