"""What a notebook shows: a compilation with its timeline and slowest layers, or any document with its plot and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from atonc.insight.explain.types import NPU
from atonc.insight.report.html.plots import svg, timeline
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.compiler.ir import Tensor
    from atonc.doors.python.compilation import Compilation
    from atonc.insight.report.document import Document

NAME, LINE = 48, 110  # characters that a name, a line of the summary may take
EDGES = 3  # inputs and outputs that are listed
SLOWEST = 8
MOST_ROWS = 20
_PLOT = (
    "<style>.atonc-plot text{fill:currentColor;font:11px system-ui,sans-serif}.atonc-plot .axis{stroke:#8886}"
    ".atonc-plot circle{fill:#3b7dd8}.atonc-plot circle.chosen{fill:#d97b29}</style>"
)  # the pages bring a style of their own


def fragment(found: Document) -> str:
    """A line, a drawing where there is one, the first rows of the table that people mean."""
    rows = next(iter(found.tables.values()))
    more = f"<div>the first {MOST_ROWS} of {len(rows)} rows</div>" if len(rows) > MOST_ROWS else ""
    drawing = svg(found.plot) if found.plot is not None else ""
    plot = f'{_PLOT}<div class="atonc-plot">{drawing}</div>' if drawing else ""
    return f"<div><b>{escape(found.line)}</b>{plot}{row_table(rows[:MOST_ROWS])}{more}</div>"


def summary(found: Compilation) -> str:
    """Never longer than a kilobyte, whatever a model is called."""
    compiled, memory = found.compiled, found.memory
    on_npu = sum(step.epoch is not None for step in compiled.program.steps)
    report = found.verification
    verified = "not verified" if report is None else f"verified: {count(report.layers, 'layer')} within their limits"
    lines = [
        f"<compiled {cut(found.view.model)} for {cut(found.view.board.name)}: {found.latency_ms:.3f} ms predicted "
        f"({found.latency_low_ms:.3f} to {found.latency_high_ms:.3f})",
        *(f"  input  {_edge(tensor)}" for tensor in found.inputs[:EDGES]),
        *(f"  output {_edge(tensor)}" for tensor in found.outputs[:EDGES]),
        f"  {count(len(compiled.program.steps), 'epoch')}, {on_npu} on the NPU; RAM {memory.ram_bytes:,} bytes, "
        f"weights {memory.weights_bytes:,}",
        f"  {verified}>",
    ]
    return "\n".join(line[:LINE] for line in lines)


def _edge(tensor: Tensor) -> str:
    quant = "" if tensor.quant is None else f", scale {tensor.scale:.6g}, zero point {tensor.zero_point}"
    return f"{cut(tensor.name)} {'x'.join(map(str, tensor.shape))} {tensor.dtype}{quant}"


def cut(name: str) -> str:
    name = plain(name)
    return name if len(name) <= NAME else f"{name[: NAME - 3]}..."


def page(found: Compilation) -> str:
    network, memory = found.network, found.memory
    share = ", ".join(f"{label} {part:.0%}" for label, part in list(network.bound_by.items())[:4])
    report, verified = found.verification, "skipped"
    if report is not None:
        verified = f"{count(report.layers, 'layer')} emulated, at most {count(report.worst_layer, 'code')} off"
    figures = {
        "latency (predicted)": f"{found.latency_ms:.3f} ms ({found.latency_low_ms:.3f} to {found.latency_high_ms:.3f})",
        "epochs": f"{len(network.steps)}, of these {network.count(NPU)} on the NPU",
        "bound by": escape(share),
        "RAM": f"{memory.ram_bytes:,} bytes",
        "activations": f"{memory.activations_bytes:,} bytes (at least {memory.lower_bound_bytes:,})",
        "outside the chip": f"{memory.spilled_bytes:,} bytes" if memory.spilled_bytes else "",
        "weights": f"{memory.weights_bytes:,} bytes",
        "verification": verified,
    }
    for what, tensors in (("input", found.inputs), ("output", found.outputs)):
        figures |= {f"{what} {escape(cut(t.name))}": escape(_edge(t)[len(cut(t.name)) :]) for t in tensors[:EDGES]}
    left = 'style="text-align:left"'
    rows = "".join(f"<tr><td {left}>{k}</td><td {left}>{v}</td></tr>" for k, v in figures.items() if v)
    slowest = sorted(found.layers.rows(), key=lambda row: -row["milliseconds"])[:SLOWEST]
    title = f"<b>{escape(cut(found.view.model))}</b> for {escape(cut(found.view.board.name))}"
    return (
        f"<div>{title}<table>{rows}</table>{timeline(network.steps)}"
        f"<div>the slowest of {len(found.layers)} layers</div>{row_table(slowest)}</div>"
    )


def row_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows may lack columns that others have: refused ones have no figures."""
    names = dict.fromkeys(name for row in rows for name in row)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else escape(cut(str(value)))
