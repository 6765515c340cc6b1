"""A compilation in a notebook: a few lines of text, or figures with the timeline and the slowest layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from atonc.insight.explain.types import NPU, StepView
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count, elided

if TYPE_CHECKING:
    from atonc.compiler.ir import Tensor
    from atonc.doors.python.compilation import Compilation
    from atonc.insight.evaluating.run import Evaluation
    from atonc.insight.explain.compare import Comparison
    from atonc.insight.quantizing.types import Quantised
    from atonc.insight.sweeping.run import Sweep
    from atonc.insight.validating.validating import Validation

NAME, LINE = 48, 110  # characters that a name, a line of the summary may take
EDGES = 3  # inputs and outputs that are listed
WIDTH, HEIGHT = 760, 34
SLOWEST = 8
MOST_ROWS = 20
ROW, BAR, BAR_WIDTH = 22, 110, 340  # of intervals: the height of a row, where they begin, how long they may be
_EDGE = 'stroke="#fff" stroke-width=".5"'
_COLOURS = {NPU: "#3b7dd8", "cpu": "#d97b29", "hybrid": "#8a63c9"}


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


# -------------------------------------------------------------------------------------------------------------- HTML


def page(found: Compilation) -> str:
    network, memory = found.network, found.memory
    share = ", ".join(f"{label} {part:.0%}" for label, part in list(network.bound_by.items())[:4])
    report = found.verification
    figures = {
        "latency (predicted)": f"{found.latency_ms:.3f} ms ({found.latency_low_ms:.3f} to {found.latency_high_ms:.3f})",
        "epochs": f"{len(network.steps)}, of these {network.count(NPU)} on the NPU",
        "bound by": escape(share),
        "RAM": f"{memory.ram_bytes:,} bytes",
        "activations": f"{memory.activations_bytes:,} bytes (at least {memory.lower_bound_bytes:,})",
        "outside the chip": f"{memory.spilled_bytes:,} bytes" if memory.spilled_bytes else "",
        "weights": f"{memory.weights_bytes:,} bytes",
        "verification": f"{count(report.layers, 'layer')} emulated, at most {count(report.worst_layer, 'code')} off"
        if report is not None
        else "skipped",
    }
    figures |= {f"input {escape(cut(t.name))}": escape(_edge(t)[len(cut(t.name)) :]) for t in found.inputs[:EDGES]}
    figures |= {f"output {escape(cut(t.name))}": escape(_edge(t)[len(cut(t.name)) :]) for t in found.outputs[:EDGES]}
    left = 'style="text-align:left"'
    rows = "".join(f"<tr><td {left}>{k}</td><td {left}>{v}</td></tr>" for k, v in figures.items() if v)
    slowest = sorted(found.layers.rows(), key=lambda row: -row["milliseconds"])[:SLOWEST]
    title = f"<b>{escape(cut(found.view.model))}</b> for {escape(cut(found.view.board.name))}"
    return (
        f"<div>{title}<table>{rows}</table>{timeline(network.steps)}"
        f"<div>the slowest of {len(found.layers)} layers</div>{row_table(slowest)}</div>"
    )


def timeline(steps: Sequence[StepView]) -> str:
    """Epochs as boxes as wide as their time; what is too thin to see is drawn with its neighbours."""
    total = sum(step.milliseconds for step in steps) or 1.0
    boxes, start = list[str](), 0.0
    for first, last, on, length in _merged(steps, total / WIDTH):
        x, width = WIDTH * start / total, max(0.5, WIDTH * length / total)
        name = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        boxes.append(
            f'<rect x="{x:.1f}" y="4" width="{width:.1f}" height="16" fill="{_COLOURS.get(on, "#888")}" {_EDGE}>'
            f"<title>{name}, {on.upper()}, {length:.4f} ms</title></rect>"
        )
        start += length
    marks = "".join(
        f'<text x="{x}" y="{HEIGHT - 2}" font-size="10" fill="currentColor" text-anchor="{anchor}">{text}</text>'
        for x, anchor, text in ((0, "start", "0"), (WIDTH, "end", f"{total:.3f} ms"))
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" style="max-width:{WIDTH}px"'
    return f'<svg {size} role="img" aria-label="timeline">{"".join(boxes)}{marks}</svg>'


def _merged(steps: Sequence[StepView], least: float) -> Iterable[tuple[int, int, str, float]]:
    """First and last step, where they run, milliseconds."""
    waiting: tuple[int, int, str, float] | None = None
    for step in steps:
        if waiting is not None and waiting[2] == step.on and min(waiting[3], step.milliseconds) < least:
            waiting = (waiting[0], step.number, step.on, waiting[3] + step.milliseconds)
            continue
        if waiting is not None:
            yield waiting
        waiting = (step.number, step.number, step.on, step.milliseconds)
    if waiting is not None:
        yield waiting


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


# ----------------------------------------------------------------------------------------------------------- results

_PLOT = (
    "<style>.atonc-plot text{fill:currentColor;font:11px system-ui,sans-serif}.atonc-plot .axis{stroke:#8886}"
    ".atonc-plot circle{fill:#3b7dd8}.atonc-plot circle.chosen{fill:#d97b29}</style>"
)  # the pages bring a style of their own


def result_page(line: str, rows: Sequence[Mapping[str, Any]], drawing: str = "") -> str:
    """What a validation, a sweep or the like found: a line, a drawing where there is one, the first rows."""
    more = f"<div>the first {MOST_ROWS} of {len(rows)} rows</div>" if len(rows) > MOST_ROWS else ""
    plot = f'{_PLOT}<div class="atonc-plot">{drawing}</div>' if drawing else ""
    return f"<div><b>{escape(line)}</b>{plot}{row_table(rows[:MOST_ROWS])}{more}</div>"


def interval_plot(found: Evaluation) -> str:
    """The first figure of every side: a dot with its interval."""
    firsts = [(side, figures[0]) for side, figures in found.sides.items() if figures]
    values = [end for _, figure in firsts for end in (figure.low, figure.value, figure.high) if isfinite(end)]
    if not values:
        return ""
    low, span = min(values), max(values) - min(values) or 1.0
    parts = list[str]()
    for row, (side, figure) in enumerate(firsts):
        y = ROW * row + ROW // 2
        label = f"{figure.name} {figure.value:.4f} ({figure.low:.4f} to {figure.high:.4f})"
        parts.append(f'<text x="0" y="{y + 4}">{escape(cut(side))}</text>')
        if all(map(isfinite, (figure.low, figure.value, figure.high))):
            start, dot, end = (BAR + BAR_WIDTH * (v - low) / span for v in (figure.low, figure.value, figure.high))
            parts.append(f'<path d="M{start:.1f} {y}H{end:.1f}" stroke="#3b7dd8" stroke-width="2"/>')
            parts.append(f'<circle cx="{dot:.1f}" cy="{y}" r="4"/>')
        parts.append(f'<text x="{BAR + BAR_WIDTH + 14}" y="{y + 4}">{escape(label)}</text>')
    size = f'viewBox="0 0 {WIDTH} {ROW * len(firsts)}" width="100%" style="max-width:{WIDTH}px"'
    return f'<svg {size} role="img" aria-label="figures with 95 % intervals">{"".join(parts)}</svg>'


def sweep_plot(found: Sweep) -> str:
    """RAM against time; what no other row of the same file beats is marked."""
    from atonc.insight.report.html.plots import ScatterDot, scatter
    from atonc.insight.report.sweep_text import name
    from atonc.insight.sweeping.run import BUSY, time_of

    rows = [(number, row, row.figures) for number, row in enumerate(found.results, 1) if row.figures is not None]
    time = time_of(rows[0][2]) if rows else ""
    dots = [
        ScatterDot(str(number), figures[f"{time}_ms"], figures["ram_bytes"] / 1024, name(found, row), row.on_front)
        for number, row, figures in rows
    ]
    across = "predicted time of a second (ms)" if time == BUSY else "predicted latency (ms)"
    return scatter(dots, across, "RAM (KiB)") if dots else ""


def both_timelines(found: Comparison) -> str:
    """One under the other, each as wide as the page: their ends say how long they take."""
    return f"<div>A</div>{timeline(found.a.steps)}<div>B</div>{timeline(found.b.steps)}"


Rows = list[dict[str, Any]]
Tables = dict[str, Rows]  # the first is the one that people mean
_NAME = 48


def _name(text: str) -> str:
    return elided(plain(text), _NAME)


def _columns(rows: Iterable[Mapping[str, Any]], without: tuple[str, ...] = ()) -> Rows:
    return [{key: value for key, value in row.items() if key not in without} for row in rows]


# --------------------------------------------------------------------------------------------------------- validation


def validation_tables(found: Validation, min_cosine: float) -> Tables:
    from dataclasses import asdict

    from atonc.insight.report.validate_text import as_json

    return {
        "outputs": _columns(as_json(found, min_cosine)["outputs"], without=("ratio", "spread", "judged")),
        "layers": [asdict(layer) | {"bad": layer.bad} for layer in found.layers],
        "operators": [asdict(check) | {"bad": check.bad} for check in found.reading],
    }


def validation_line(found: Validation, min_cosine: float) -> str:
    from atonc.insight.validating.judging import complaints

    failed = len(list(complaints(found, min_cosine)))
    verdict = f"failed, {count(failed, 'complaint')}" if failed else "passed"
    worst = min((output.metrics.cos for output in found.outputs), default=None)
    cosine = "" if worst is None else f", cosine {worst:.6f} in the worst output"
    return f"{verdict}: {count(found.samples, 'sample')} emulated, against {_name(found.reference)}{cosine}"


# --------------------------------------------------------------------------------------------------------- evaluation


def evaluation_tables(found: Evaluation) -> Tables:
    document = found.as_dict()
    by = {**document["figures"], **document["distances"], f"NPU-{found.yardstick}": document["differences"]}
    return {
        "figures": [{"by": side, **figure} for side, figures in by.items() for figure in figures],
        "changed": document["changed"],
    }


def evaluation_line(found: Evaluation) -> str:
    firsts = [f"{side} {figures[0].value:.4f}" for side, figures in found.sides.items() if figures]
    changed = f"; {count(len(found.changed), 'sample')} changed" if found.yardstick else ""
    return f"{_name(found.model)}, {count(found.samples, 'sample')}, {found.metric}: {', '.join(firsts)}{changed}"


# ------------------------------------------------------------------------------------------------------- quantisation


def quantised_tables(found: Quantised) -> Tables:
    from atonc.insight.report.quantize_text import as_json

    document = as_json(found)
    outputs = [{"name": name, "snr_db": snr} for name, snr in document["outputs"].items()]
    found_tables = {"front": document["front"], "steps": document["steps"], "outputs": outputs}
    found_tables |= {name: document[name] for name in ("sizes", "tensors")} if found.sizes else {}
    return found_tables | ({"widths": document["widths"]} if found.widths else {})


def quantised_line(found: Quantised) -> str:
    from atonc.insight.report.quantize_text import time_text

    chosen = found.chosen
    worst = min(found.outputs_db.values(), default=chosen.snr_db)
    predicted = "refused by the compiler" if chosen.milliseconds is None else f"{time_text(chosen)} predicted"
    return f"{_name(found.source)} as int8: {worst:.1f} dB in the worst output, {predicted}"


# -------------------------------------------------------------------------------------------------------------- sweep


def sweep_tables(found: Sweep) -> Tables:
    rows = []
    for result in found.results:
        varied = {key: result.options.get(key) for key in found.varied}
        figures = {key: value for key, value in (result.figures or {}).items() if key != "notes"}
        names = {"model": result.model, "board": result.board, "size": result.size}
        rows.append({**names, **varied, **figures, "on_front": result.on_front, "why_not": result.why_not})
    return {"rows": rows}


def sweep_line(found: Sweep) -> str:
    from atonc.insight.sweeping.run import BUSY, time_of

    compiled = [result.figures for result in found.results if result.figures is not None]
    best = ""
    if compiled:
        name = time_of(compiled[0])
        keys = f"{name}_ms", f"{name}_low_ms", f"{name}_high_ms"
        time, low, high = min(tuple(one[key] for key in keys) for one in compiled)
        of = " of a second" if name == BUSY else ""
        best = f"; the fastest {time:.3f} ms{of} predicted ({low:.3f} to {high:.3f})"
    rows = count(len(found.results), "row")
    return f"{_name(found.file)}: {rows}, {len(compiled)} compiled, {len(found.refused)} refused{best}"


# --------------------------------------------------------------------------------------------------------- comparison


def comparison_tables(found: Comparison) -> Tables:
    from atonc.insight.report.compare_text import as_json

    document = as_json(found)
    layers = [{**row, **{key: ", ".join(row[key]) for key in ("nodes", "a", "b")}} for row in document["layers"]]
    options = document["options"] or []
    return {"figures": document["figures"], "layers": layers, "outputs": document["outputs"], "options": options}


def comparison_line(found: Comparison) -> str:
    from atonc.insight.explain.types import span_of

    sides = [f"{side} {view.latency_ms:.3f} ms {view.basis}{span_of(view, 3)}"
             for side, view in (("A", found.a), ("B", found.b))]  # fmt: skip
    names = " and ".join(dict.fromkeys((_name(found.a.model), _name(found.b.model))))
    return f"two builds of {names}: {', '.join(sides)}"
