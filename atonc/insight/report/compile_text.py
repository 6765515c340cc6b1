"""What `atonc generate` and `atonc analyze` show: where every operator runs and why, memory, time, proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.frontends.coverage import coverage, quantiser
from atonc.compiler.ir import Graph
from atonc.compiler.lower.map_ops import CpuReason
from atonc.compiler.place.notes import placement_notes
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.insight.explain import encryption
from atonc.insight.report import encryption_text, energy_text, silicon_text
from atonc.insight.report.epoch_table import EpochRow, epoch_table
from atonc.insight.report.error_text import error_data, error_lines
from atonc.insight.report.marks import Mark, Marked, head, note
from atonc.insight.report.run_text import cost_lines, violation_data
from atonc.insight.validating.judging import is_close
from atonc.machine.base.errors import sentence
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, is_are, times
from atonc.machine.cost.network import spill_lines

if TYPE_CHECKING:
    from atonc.compiler.verify.verify import VerifyReport

LONG_NAME = 60


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
        *silicon_text.lines(view.compiled.silicon, verbose=True),
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
    lines += encryption_text.lines(view)
    return [*lines, *(note(text, indent="  ") for text in memory_notes(view))]


def memory_notes(view: CompileView) -> list[str]:
    notes = [*encryption.notes(view), *placement_notes(view.compiled.layout, view.board)]
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
        **energy_text.as_json(cost.energy),
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
        "encryption": encryption_text.as_json(view),
        "cpu_ops": [_cpu_data(step) for step in cpu_steps(view)],
        "coverage": coverage_data(compiled.source),
        "unproven": [violation_data(v) for v in compiled.findings],
        "silicon": silicon_text.as_json(compiled.silicon),
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
        "float_ops": [
            {"node": n.name, "op": n.kind, "size_bytes": n.size_bytes, "why": n.why} for n in found.float_nodes
        ],
    }


def _cpu_data(step: CpuStep) -> dict[str, Any]:
    r = step.reason
    return {
        "node": r.node,
        "op": r.op,
        "rule": r.rule.id,
        "seen": r.seen,
        "limit": r.limit,
        "remedy": r.remedy,
        "cycles": step.cycles,
    }


def _verify_data(report: VerifyReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "exact": all(o.exact_percent == 100.0 for o in report.outputs),
        "close": all(is_close(o.cosine, o.within1_percent) for o in report.outputs),
        "samples": report.samples,
        "layers": report.layers,
        "tensors": report.tensors,
        "worst_layer": report.worst_layer,
        "as_vendor": report.as_vendor,
        "sums": report.sums,
        "rooms": [{"node": c.node, "times": c.room} for c in report.checks if c.room < inf],
        "outputs": [
            {
                "name": o.name,
                "cos": o.cosine,
                "max_lsb": o.max_lsb,
                "exact_pct": o.exact_percent,
                "within1_pct": o.within1_percent,
            }
            for o in report.outputs
        ],
    }


def step_data(view: CompileView) -> list[dict[str, Any]]:
    """Cycles per step, for the program file."""
    return [
        {"st_cycles": c.st_cycles, "cycles": c.cycles, "bound_by": c.bound_by, "cost_known": c.known}
        for c in view.cost.steps
    ]


def reason_data(reasons: Sequence[CpuReason]) -> list[dict[str, str]]:
    return [
        {"node": r.node, "op": r.op, "rule": r.rule.id, "seen": r.seen, "limit": r.limit, "remedy": r.remedy}
        for r in reasons
    ]
