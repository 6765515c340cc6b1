"""What `atonc generate` and `atonc analyze` show unless more is asked for: some 20 lines, then the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.frontends.coverage import coverage
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.insight.explain.rules import bound_in_short
from atonc.insight.report import encryption_text, energy_text, silicon_text
from atonc.insight.report.compile_text import CpuStep, cpu_steps, edge_text, memory_notes, model_size, report_lines
from atonc.insight.report.marks import Mark, Marked, head, note
from atonc.insight.report.summary import (
    NAME,
    WORTH,
    OnCpu,
    SummaryRow,
    cpu_row,
    files_row,
    flash_row,
    latency_row,
    next_row,
    ram_row,
    resident_step,
    summary_lines,
)
from atonc.insight.validating.judging import MIN_COSINE, is_close
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count, elided, ms_text, shell, size_text, times
from atonc.machine.hw.safety.evidence.grades import Grade

_SLOWEST, _BOUNDS, _EDGES, _NOTES, _GROUPS = 5, 3, 3, 2, 3  # lines of each
_EDGE_NAME = 19  # characters


def compiled_lines(view: CompileView, broken: Sequence[str], verbose: bool) -> list[str]:
    """Details, then the figures that people look for; `broken`: gates that do not hold."""
    time = ["", f"compiled in {view.compiled.seconds:.2f} s", *(f"wrote {file}" for file in view.files)]
    details = [*report_lines(view), *time] if verbose else lines(view)
    return [*details, *summary(view, broken)]


def lines(view: CompileView) -> list[str]:
    return [*_head(view), *_time(view), *_on_cpu(view), *_memory(view), *_evidence(view)]


def _head(view: CompileView) -> list[str]:
    source, graph = view.compiled.source, view.compiled.graph
    size = f"{model_size(view)}, {view.macs / 1e6:,.1f} M MACs"
    edges = [("input ", name) for name in graph.inputs[:_EDGES]] + [("output", name) for name in graph.outputs[:_EDGES]]
    more = len(graph.inputs) + len(graph.outputs) - len(edges)
    notes = list(dict.fromkeys((*source.notes, *graph.notes, *memory_notes(view))))
    return [
        head(elided(view.model, NAME), f": {size}"),
        *(f"  {edge} {edge_text(graph, name, _EDGE_NAME)}" for edge, name in edges),
        *([f"  and {count(more, 'more input or output', 'more inputs and outputs')} (-v)"] if more else []),
        *(note(text, "  ") for text in notes[:_NOTES]),
        *([f"  and {count(len(notes) - _NOTES, 'more note')} (-v)"] if len(notes) > _NOTES else []),
    ]


def _time(view: CompileView) -> list[str]:
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


def _on_cpu(view: CompileView) -> list[str]:
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


def _memory(view: CompileView) -> list[str]:
    out: list[str] = [head("memory of ", view.board.name)]
    for pool in view.board.pools:
        if used := view.memory.by_pool.get(pool.name, 0):
            share = 100 * used / pool.size_bytes
            out.append(f"  {pool.name:12} {used:12,} of {pool.size_bytes:12,} bytes {share:5.1f} %")
    if in_code := view.memory.code_constants_bytes:
        out.append(f"  {'in the code':12} {in_code:12,} bytes of constants of CPU layers ({view.name}.c, flash)")
    out += encryption_text.lines(view)
    return [*out, *([note(KERNELS_IN_RAM)] if view.memory.resident_bytes else [])]


def _evidence(view: CompileView) -> list[str]:
    """How near the epochs are to those of published programs."""
    found = view.compiled.silicon
    if not sum(found.epochs.values()):
        return []
    mark = Mark.ALARM if found.epochs[Grade.UNSEEN] else None
    line = Marked.of(("evidence:", Mark.HEAD), (f" {silicon_text.head(found)}", mark))
    return [line, *map(note, silicon_text.assumed(found))]


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
            _gates(broken) if broken else energy_text.row(cost.energy),
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
