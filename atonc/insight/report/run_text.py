"""What `atonc run` shows: a summary for people, a document for tools."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.explain.rules import bound_name
from atonc.insight.report import document as doc
from atonc.insight.report import parts
from atonc.insight.report.parts import SLOWEST, EpochRow, epoch_chapter
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Severity, Violation
from atonc.machine.base.words import count, ms_text
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, arith, pool
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

if TYPE_CHECKING:
    from atonc.compiler.compare.layers import LayerReport
    from atonc.insight.runs.runs import BufferDifference, RunResult
    from atonc.machine.cost.network import NetworkCost
    from atonc.machine.emu.bus import AddressSpace
    from atonc.machine.emu.files.types import BufferInfo
    from atonc.machine.emu.states import StateView

VIOLATION_FIELDS = ("rule", "sentence", "severity", "epoch", "unit", "seen", "limit", "remedy")
COST_FIELDS = ("cycles", "bound_by", "st_cycles", "st_bound_by", "cost_known=known", "origin")
LAYER_FIELDS = ("tensor", "op=kind", "epoch", "buffer", "max_diff", "differ_percent", "mean_diff", "cause")
MOST_VALUES, TOP = 64, 5  # of an output in JSON: all of them up to here, else so many of the largest


@dataclass(frozen=True)
class RunView:
    """Everything that one run gave."""

    result: RunResult
    cost: NetworkCost
    differences: Sequence[BufferDifference] | None = None
    layers: LayerReport | None = None
    violations: Sequence[Violation] | None = None
    tool: str = "a compiler that does not name itself"
    hop_ms: float = 0.0  # from one frame to the next, where the user said so


def document(view: RunView, verbose: bool = False) -> doc.Document:
    result, cost = view.result, view.cost
    net, kinds = result.net.network, Counter(step.kind for step in result.steps if not step.empty)
    flavour = "epoch controller" if any(block.blob for block in net.blocks) else "driven by the CPU"
    steps = zip(result.steps, cost.steps, strict=True)
    rows = [EpochRow(step.number, step.kind, one) for step, one in steps if not step.empty]
    sections = [
        doc.Chapter(
            f"network {net.name} ({plain(net.c_file.name)}), compiled by {view.tool}, {flavour}",
            [
                *(f"input  {i.name} {_shape(i.mem_shape or i.shape)} {i.type.lower()}" for i in result.net.inputs),
                *(f"state  {s.name} {_shape(s.shape)} {s.dtype}, reset before the run" for s in result.net.states),
            ],
        ),
        epoch_chapter(rows, verbose, "kind", "origin"),
        doc.Chapter("", cost_lines(cost) if verbose else []),
        doc.Chapter("", list(_output_lines(view)), close=True),
    ]
    if view.violations is not None:
        sections.append(doc.Chapter("", violation_lines(view.violations, len(result.steps)), close=True))
    if view.layers is not None:
        sections.append(_layers(view.layers, verbose))
    if view.differences is not None:
        sections.append(doc.Chapter("", _difference_lines(view.differences), close=True))
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    summary = (
        doc.SummaryRow("emulated", f"{count(kinds.total(), 'epoch')} ({listed}) in {result.seconds:.2f} s"),
        doc.predicted_row(cost),
        parts.frames_row(cost.latency_ms, cost.band, _states_bytes(view), view.hop_ms, result.frames),
        doc.SummaryRow("CPU", f"{ms_text(cost.cpu_ms)} of the latency" if cost.cpu_ms else doc.ALL_ON_NPU),
        _safety_row(view.violations),
        _compared_row(view.differences),
    )
    return doc.Document(sections=sections, summary=summary, data=lambda: as_json(view))


def _states_bytes(view: RunView) -> int:
    return sum(len(one.first) for one in view.result.net.network.states)


def _safety_row(found: Sequence[Violation] | None) -> doc.SummaryRow | None:
    if found is None:
        return None
    broken, unproven = _count(found, Severity.VIOLATION), _count(found, Severity.UNPROVEN)
    mark = doc.Mark.ALARM if broken else doc.Mark.DOUBT if unproven else doc.Mark.GOOD
    return doc.SummaryRow("safety", f"{count(broken, 'violation')}, {count(unproven, 'unproven configuration')}", mark)


def _compared_row(found: Sequence[BufferDifference] | None) -> doc.SummaryRow | None:
    if found is None:
        return None
    wrong = sum(bool(one.different) for one in found)
    text = f"{wrong} of {count(len(found), 'buffer')} differ" if wrong else f"{count(len(found), 'buffer')}, all equal"
    return doc.SummaryRow("compared", text, doc.Mark.ALARM if wrong else doc.Mark.GOOD)


def cost_lines(cost: NetworkCost) -> list[str]:
    shares = ", ".join(f"{bound_name(label)} {share:.0%}" for label, share in cost.bound_by.items() if share >= 0.005)
    band = cost.band
    lines = [
        doc.head(
            "latency ",
            f"{ms_text(cost.latency_ms)} predicted ({band.span(cost.latency_ms)}) at NPU {cost.npu_mhz:.0f} MHz, "
            f"CPU {cost.cpu_mhz:.0f} MHz (NPU {ms_text(cost.npu_ms)}, CPU {ms_text(cost.cpu_ms)}); not measured",
        ),
        doc.Marked(doc.Mark.DOUBT, f"expected error of the prediction: {band}"),
        f"bottlenecks: {shares}",
        f"ST's estimate: {cost.st_cycles:,} cycles for the NPU epochs",
    ]
    if cost.unknown:
        lines.append(f"no measured constant for: {', '.join(cost.unknown)} (marked ~, rough estimate)")
    return [*lines, *parts.energy_lines(cost.energy)]


def _output_lines(view: RunView) -> Iterator[str]:
    from atonc.insight.runs.runs import digest

    if not view.result.complete:
        yield "stopped before the last epoch: no outputs"
        return
    for info in view.result.net.outputs:
        value = view.result.outputs[info.name]
        span = f"{value.min():g}..{value.max():g}" if value.size else "empty"
        yield f"output {info.name} {_shape(value.shape)} {value.dtype.name} {span}  sha256 {digest(value)[:16]}"


def violation_lines(violations: Sequence[Violation], epochs: int) -> list[str]:
    """Grouped by rule: the sentence once, then where it was broken."""
    serious = [v for v in violations if v.severity != Severity.NOTE]
    notes = len(violations) - len(serious)
    lines = [
        f"safety: {count(epochs, 'epoch')} checked, {count(_count(serious, Severity.VIOLATION), 'violation')}, "
        f"{count(_count(serious, Severity.UNPROVEN), 'unproven configuration')}, {count(notes, 'note')}"
    ]
    for rule in sorted({v.rule.id: v.rule for v in serious}.values(), key=lambda r: r.id):
        lines.append(f"  {rule.id} {rule.sentence} ({rule.evidence}). Fix: {rule.remedy}.")
        places = [f"     {v.where}: {v.seen}" for v in serious if v.rule.id == rule.id]
        lines += doc.at_most(5, places, "     and {} more")
    return lines


def _count(violations: Sequence[Violation], severity: Severity) -> int:
    return sum(1 for v in violations if v.severity == severity)


LAYERS = (  # of a `LayerResult`: what compares layers is loaded by who does
    doc.Column[Any]("epoch", lambda one: one.epoch, "epoch {:4d}"),
    doc.Column[Any]("operator", lambda one: one.kind, left=True),
    doc.Column[Any]("largest difference", lambda one: one.max_diff, "max {:g}", left=True),
    doc.Column[Any]("differ", lambda one: one.differ_percent, "differ {:6.2f} %"),
    doc.Column[Any]("tensor", lambda one: f"{one.tensor}{f'  because {one.cause}' if one.cause else ''}", left=True),
)


def _layers(report: LayerReport, verbose: bool) -> doc.Chapter:
    title = (
        f"layers: {count(len(report.results), 'tensor')} compared with exact arithmetic on their actual inputs: "
        f"max error {report.max_diff:g} LSB, {report.differ_percent:.2f} % of the values differ; "
        f"{count(len(report.unmatched), 'tensor')} not in memory"
    )
    rows = report.results if verbose else report.exceptions()
    none = [] if rows or verbose else ["  no layer is more than 1 LSB off"]
    return doc.Chapter(title, [doc.Table(LAYERS, rows, "Layers"), *none], close=True)


def _difference_lines(differences: Sequence[BufferDifference]) -> list[str]:
    wrong = [d for d in differences if d.different]
    if not wrong:
        return [f"compare: {count(len(differences), 'buffer')}, all equal"]
    first = wrong[0]
    lines = [f"compare: {len(wrong)} of {len(differences)} buffers differ, first {first.name} in epoch {first.epoch}"]
    for d in wrong[:SLOWEST]:
        parts = [f"{k:+d}: {v}" for k, v in sorted(d.histogram.items(), key=lambda item: -item[1])[:9]]
        lines.append(f"  epoch {d.epoch:4d} {d.name}: cosine {d.cosine:.6f}, differences {{{', '.join(parts)}}}")
    return lines


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


# -------------------------------------------------------------------------------------------------------------- data


def as_json(view: RunView) -> dict[str, Any]:
    from atonc.insight.runs.runs import digest

    result, cost = view.result, view.cost
    data: dict[str, Any] = {
        "network": result.net.network.name,
        "compiler": result.net.network.atonn_version,
        "inputs": [_edge_data(info, result.inputs[info.name]) for info in result.net.inputs],
        "outputs": [
            _edge_data(info, value) | {"sha256": digest(value)} | value_data(value, *_scale(info))
            for info in result.net.outputs
            if (value := result.outputs.get(info.name)) is not None
        ],
        "epochs": [
            {"id": step.number, "kind": step.kind, **doc.fields_of(c, *COST_FIELDS)}
            for step, c in zip(result.steps, cost.steps, strict=True)
            if not step.empty
        ],
        **doc.fields_of(cost, "cycles", "st_cycles", "latency_ms"),
        **cost.band.as_data(cost.latency_ms),
        **parts.energy_data(cost.energy),
        "bound_by": dict(cost.bound_by),
        "seconds": result.seconds,
    }
    if result.frames:
        data |= {"frames": result.frames, **parts.frames_data(cost.latency_ms, view.hop_ms)}
        data["states"] = [_state_data(one, result.net.memory) for one in result.net.states]
    if view.violations is not None:
        data["violations"] = [violation_data(v) for v in view.violations]
    if view.layers is not None:
        data["layers"] = layer_data(view.layers)
    if view.differences is not None:
        data["compare"] = [_difference_data(d) for d in view.differences]
    return data


def _edge_data(info: BufferInfo, value: Array) -> dict[str, Any]:
    scale, zero_point = _scale(info)
    return {"name": info.name, "shape": list(value.shape), "dtype": value.dtype.name, "scale": scale,
            "zero_point": zero_point}  # fmt: skip


def _state_data(one: StateView, memory: AddressSpace) -> dict[str, Any]:
    """As the last frame left it."""
    from atonc.insight.runs.runs import digest

    value = one.read(memory)
    known = {"name": one.name, "shape": list(one.shape), "dtype": one.dtype, "address": one.memory.address}
    return known | {"scale": one.scale, "zero_point": one.zero_point if one.scale else None, "sha256": digest(value)}


def _scale(info: BufferInfo) -> tuple[float | None, int | None]:
    one = len(info.scales) == 1 and len(info.offsets) == 1
    return (float(info.scales[0]), int(info.offsets[0])) if one else (None, None)


def value_data(value: Array, scale: float | None = None, zero_point: int | None = None) -> dict[str, Any]:
    """All elements of a small output, the largest of others; as they are and, where codes have a scale, as numbers."""
    flat = value.reshape(-1).astype(np.float64 if value.dtype.kind == "f" else np.int64)
    codes: Array = np.nan_to_num(flat)  # JSON knows no other numbers
    real: Array = codes if scale is None or zero_point is None else (codes - zero_point) * scale
    if flat.size <= MOST_VALUES:
        return {"values": codes.tolist(), "real": real.tolist()}
    best = np.argsort(-real, kind="stable")[:TOP]
    return {"top": [{"index": int(i), "value": codes[i].item(), "real": float(real[i])} for i in best]}


def violation_data(violation: Violation) -> dict[str, Any]:
    found = violation.as_dict()
    return {name: found[name] for name in VIOLATION_FIELDS}


def layer_data(report: LayerReport) -> dict[str, Any]:
    return {
        "max_diff": report.max_diff,
        "differ_percent": report.differ_percent,
        "layers": [doc.fields_of(result, *LAYER_FIELDS) for result in report.results],
        "unmatched": [doc.fields_of(one, "tensor", "op=kind", "reason") for one in report.unmatched],
    }


def _difference_data(difference: BufferDifference) -> dict[str, Any]:
    histogram = {str(k): v for k, v in sorted(difference.histogram.items())}
    return doc.fields_of(difference, "name", "epoch", "different", "cosine") | {"histogram": histogram}


def epoch_lines(epoch: Epoch) -> Iterator[str]:
    if epoch.empty:
        yield f"epoch {epoch.number}: nothing for the NPU"
        return
    yield f"epoch {epoch.number}: {count(epoch.words, 'word')}, waits for {', '.join(epoch.waits) or 'nothing'}"
    for name, config in epoch.units.items():
        yield f"  {name:9} {describe(config)}"
        if config.unmodelled:
            yield f"            not modelled: {', '.join(f'{k}={v:#x}' for k, v in config.unmodelled)}"
    for link in epoch.links:
        yield f"  {link}"


def epoch_data(epoch: Epoch) -> dict[str, Any]:
    """The same as plain data: every field that differs from reset."""
    return {
        "epoch": epoch.number,
        "words": epoch.words,
        "waits": list(epoch.waits),
        "units": {name: _fields(config) for name, config in epoch.units.items()},
        "links": [_link_data(link) for link in epoch.links],
        "buffers": [
            {"engine": name, "writes": bool(c.to_memory), "start": c.span()[0], "end": c.span()[1]}
            for name, c in epoch.engines().items()
        ],
    }


def describe(config: UnitConfig) -> str:
    """One line that says what a unit does."""
    if isinstance(config, StrengConfig):
        return _streng(config)
    if isinstance(config, ConvaccConfig):
        return _convacc(config)
    if isinstance(config, ArithConfig):
        return _arith(config)
    if isinstance(config, ActivConfig):
        return _activ(config)
    if isinstance(config, PoolConfig):
        return _pool(config)
    return "used"


def _streng(c: StrengConfig) -> str:
    low, high = c.span()
    lines, pixels, depth = c.shape
    frame = f"{depth}" if c.raw else f"{lines}x{pixels}x{depth}"
    text = f"{'write' if c.to_memory else 'read '} {low:#010x}..{high - 1:#010x}  {c.frames} frames of {frame}"
    text += f" x {round(8 * c.bytes_per_element)} bit{' signed' if c.sign_extend else ''}"
    if not c.raw:
        text += f", line +{c.line_offset}, pixel +{c.pixel_offset}"
    loops = c.frame_loops()
    if len(loops) == 2:
        text += f", frames {loops[1][0]} x {loops[1][1]:+d}, then {loops[0][1]:+d}"
    elif c.frames > 1:
        text += f", frame {loops[0][1]:+d}"
    text += f", after frames of STRENG{c.sync_source}" if c.sync else ""
    return text + (", cached" if c.cacheable else "") + (" and kept" if c.cache_allocate else "")


def _convacc(c: ConvaccConfig) -> str:
    height, width = c.out_size
    mode = "deep" if c.deep else "depthwise stride 2" if c.dss2 else {0: "16x16", 1: "8x8", 2: "16x8"}.get(c.simd, "?")
    text = f"conv {c.kernel_width}x{c.kernel_height} {mode}  {c.height}x{c.width}x{c.batch} -> {height}x{width}x"
    text += f"{c.kernels}, stride {c.stride_x}x{c.stride_y}"
    if any(c.padding):
        text += f", pad {c.padding}" + (f" of {c.frame_value}" if c.frame_value else "")
    text += f", zero point {c.feature_offset}" if c.feature_offset else ""
    text += f", features kept for {c.stationary_sets} sets" if c.feature_stationary else ""
    if not c.no_sum:
        text += f", adds accumulator << {c.in_shift}"
    if c.accumulator_filter:
        text += f" (of {c.frames_per_sum} frames {c.sum_first}..{c.sum_last})"
    return f"{text}, >> {c.out_shift} to {8 * c.out_bytes} bit"


def _arith(c: ArithConfig) -> str:
    operation = arith.OP_NAMES.get(c.operation, f"operation {c.operation:#x}")
    if c.operation == arith.AFFINE:
        a = "A[]" if c.vector_a else str(c.a)
        addend = "C[]" if c.vector_c else str(c.b << 16 | c.c & 0xFFFF if c.combine_bc else c.c)
        second = f" + ({'B[]' if c.vector_b else c.b}*y >> {c.shift_b})" if c.dual_input else ""
        shifted = f" << {c.shift_c}" if c.shift_c else ""
        operation = f"({a}*x >> {c.shift_a}){second} + {addend}{shifted}"
    elif c.operation == arith.CLIP:
        operation = f"clip {c.a}..{c.c}"
    text = f"{operation} >> {c.shift_out}, {8 * c.bytes_x} -> {8 * c.out_bytes} bit"
    return text + (f", clipped to {c.clip_min}..{c.clip_max}" if c.clip_out else "")


def _activ(c: ActivConfig) -> str:
    name = activ.TYPE_NAMES.get(c.type, f"type {c.type}")
    return f"{name} x > {c.parameter} ? x : {c.parameter2}" if c.type == activ.THRESHOLD_RELU else name


def _pool(c: PoolConfig) -> str:
    name = pool.TYPE_NAMES.get(c.type, f"type {c.type}")
    frame = f"{c.height}x{c.line_elements // max(1, c.batch)}x{c.batch}"
    if c.is_global:
        return f"{name} of {frame}, x {c.multiplier} >> {c.out_shift}"
    return f"{name} {c.window_x}x{c.window_y} stride {c.stride_x}  {frame} -> {c.out_height}x{c.out_width}x{c.batch}"


def _fields(config: UnitConfig) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, bytes):
            out.update({field.name: value.hex()} if value else {})
        elif field.name == "unmodelled":
            out.update({"unmodelled": dict(value)} if value else {})
        elif value != field.default:
            out[field.name] = value
    return out


def _link_data(link: Any) -> dict[str, Any]:
    data = {"source": link.source, "destination": link.destination, "port": link.port}
    return data if link.permanent else data | {"gate": link.gate}
