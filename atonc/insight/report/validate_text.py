"""What `atonc validate` found: ST's metrics per output, percentages in codes, the spread of the reference's own
kernels, the first bad layer; by default a row for each output, then the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from atonc.insight.report import document as doc
from atonc.insight.report import parts
from atonc.insight.validating.judging import (
    FAR,
    MARGIN,
    MIN_COSINE,
    SPREAD,
    UNJUDGED,
    Distance,
    OutputResult,
    checks,
    complaints,
    decisive,
    install,
    is_close,
    judge,
    nothing_compared,
    ratio,
    unjudged,
)
from atonc.insight.validating.sequences import Drift, SequenceResult
from atonc.insight.validating.validating import Validation
from atonc.machine.base.words import count, elided

_WIDTH = 27
Row = tuple[str, OutputResult | Distance, str]  # an output or a sibling, its figures, the verdict
MARKS = {FAR: doc.Mark.ALARM, UNJUDGED: doc.Mark.DOUBT}


def _largest(lsb: float) -> str:
    """Floats that are computed may be parts of an LSB apart: that is not nothing."""
    return f"{lsb:.2f}" if 0.005 <= lsb < 0.995 else f"{lsb:.0f}"


SHORT = (
    doc.Column[Row]("output", lambda row: elided(row[0], _WIDTH - 1), width=_WIDTH, left=True),
    doc.Column[Row]("cosine", lambda row: row[1].metrics.cos, "{:.5f}", width=7),
    doc.Column[Row]("rmse", lambda row: row[1].metrics.rmse, "{:.5f}", width=8),
    doc.Column[Row]("exact %", lambda row: row[1].metrics.exact_percent, "{:.2f}", width=7),
    doc.Column[Row]("+-1 LSB %", lambda row: row[1].metrics.within_1_percent, "{:.2f}"),
    doc.Column[Row]("max LSB", lambda row: _largest(row[1].max_lsb), width=4),
    doc.Column[Row]("", lambda row: row[2], left=True, mark=lambda row: MARKS.get(row[2], doc.Mark.GOOD)),
)


MOST_POINTS = 100
DRIFT = (
    doc.Column[Drift]("output", lambda one: elided(one.output, _WIDTH - 1), width=_WIDTH, left=True),
    doc.Column[Drift]("first quarter", lambda one: one.ends[0], "{:.4f}", width=8),
    doc.Column[Drift]("last quarter", lambda one: one.ends[1], "{:.4f}", width=8),
    doc.Column[Drift]("largest", lambda one: max(one.codes, default=0.0), "{:.4f}", width=8),
    doc.Column[Drift]("in frame", lambda one: one.worst),
    doc.Column[Drift]("from", lambda one: one.against, left=True),
)


def _metric(name: str) -> doc.Column[Row]:
    return doc.Column(name, lambda row: getattr(row[1].metrics, name), "{:.5f}", width=8)


METRICS = (
    doc.Column[Row]("output", lambda row: row[0], width=6, left=True),
    doc.Column[Row]("acc", lambda row: row[1].metrics.acc, "{:.2%}", width=8),
    *map(_metric, ("rmse", "mae", "l2r", "mean", "std", "nse", "cos")),
    doc.Column[Row]("exact %", lambda row: row[1].metrics.exact_percent, "{:.3f}", width=8),
    doc.Column[Row]("+-1 LSB %", lambda row: row[1].metrics.within_1_percent, "{:.3f}", width=10),
    doc.Column[Row]("max LSB", lambda row: row[1].max_lsb, "{:.2f}", width=9),
    doc.Column[Row]("", lambda row: row[2], left=True),
)


def document(
    found: Validation,
    min_cosine: float = MIN_COSINE,
    again: Callable[..., str] | None = None,
    verbose: bool = False,
    per_layer: bool = False,
) -> doc.Document:
    """`again`: another verb on the same model, as a command; `verbose`: all figures, not a row for each output."""
    verdict, failed = verdict_of(found, min_cosine), list(complaints(found, min_cosine))
    verdict += f", {count(len(failed), 'complaint')}" if failed else ""
    worst = min((output.metrics.cos for output in found.outputs), default=None)
    cosine = "" if worst is None else f", cosine {worst:.6f} in the worst output"
    reference = doc.short_name(found.reference)
    outputs = as_json(found, min_cosine)["outputs"]
    every = per_layer and verbose
    sections = _sections(found, min_cosine, every) if per_layer or verbose else [_short(found, min_cosine)]
    sequence = found.sequence if found.sequence and found.sequence.drift else None
    drift = [doc.Chapter("drift over the sequence", list(_drift(sequence)))] if sequence else []
    without = ("ratio", "spread", "judged")
    return doc.Document(
        f"{verdict}: {count(found.samples, 'sample')} emulated, against {reference}{cosine}",
        [*(doc.Chapter("", list(blocks)) for blocks in sections), *drift],
        list(_summary(found, min_cosine, again)) if again is not None else (),
        "Validation over a sequence" if sequence else "Validation",
        f"{verdict}: {count(found.samples, 'frame' if sequence else 'sample')} emulated, against {reference}",
        data=lambda: as_json(found, min_cosine, per_layer),
        tables={
            "outputs": [{key: value for key, value in one.items() if key not in without} for one in outputs],
            "layers": [asdict(layer) | {"bad": layer.bad} for layer in found.layers],
            "operators": [asdict(check) | {"bad": check.bad} for check in found.reading],
        },
        checks=list(checks(found, min_cosine)),
        plot=next((one for chapter in drift for one in chapter.blocks if isinstance(one, doc.Trend)), None),
    )


def verdict_of(found: Validation, min_cosine: float = MIN_COSINE) -> str:
    if any(complaints(found, min_cosine)):
        return "failed"
    return UNJUDGED if any(unjudged(found, min_cosine)) else "passed"


def _short(found: Validation, min_cosine: float) -> Iterator[doc.Block]:
    what = "frame" if found.sequence is not None else "sample"
    yield f"{count(found.samples, what)} on the emulator against {found.reference}"
    yield from map(doc.Note, found.notes)
    rows: list[Row] = []
    apart = False
    for output in found.outputs:
        metrics, by = output.metrics, output.judged
        rows.append((output.name, output, judge(output, min_cosine)))
        rows += [(f"  {_kernels(sibling.title)}", sibling, "") for sibling in output.spread]
        if not is_close(metrics.cos, metrics.within_1_percent, min_cosine):
            apart = True
            if by is not None:  # what the verdict rests on, where that is not what the row says
                rows += [(f"  from {by.against}", by, "")]
                rows += [(f"  {_kernels(sibling.title)}", sibling, "") for sibling in by.spread]
    yield doc.Table(SHORT, rows, "Outputs", True, indent=0)
    if any(output.spread for output in found.outputs):
        yield "(indented: the reference's other kernels, for comparison)"
    for steps in sorted({output.steps for output in found.outputs if output.steps}):
        names = [output.name for output in found.outputs if output.steps == steps]
        which = names[0] if len(names) == 1 else count(len(names), "output")
        yield f"({which} computed in float: an LSB is the largest value / {steps:,}, and exact is within half of one)"
    if apart:
        yield f"(cosine below {min_cosine}: {MARGIN} times the distance of the network rounded otherwise passes)"


def sequence_row(found: SequenceResult) -> doc.SummaryRow:
    of = f" of {found.sequences} sequences, reset before each" if found.sequences > 1 else " from initial states"
    equal = f"{count(found.frames, 'frame')}{of}: {found.compared:,} bytes of layers, outputs and states equal"
    if found.real and not found.different:
        held = "layers within their limits (real numbers on the CPU), states as the frame before left them"
        return doc.SummaryRow("sequence", f"{count(found.frames, 'frame')}{of}: {held}", doc.Mark.GOOD)
    if not found.different:
        return doc.SummaryRow("sequence", f"{equal} to the integer reference", doc.Mark.GOOD)
    said = (
        f"{found.different:,} of {found.compared:,} bytes differ from the integer reference, first {found.first}"
    )
    return doc.SummaryRow("sequence", said, doc.Mark.ALARM)


def _drift(found: SequenceResult) -> Iterator[doc.Block]:
    """How far outputs are from the reference with time: a chain may part from it, and should not run away."""
    yield f"{count(found.frames, 'frame')}, RMS error in LSB"
    yield doc.Table(DRIFT, found.drift, "Drift over the sequence", True)
    for one in found.drift:
        title = f"output {doc.short_name(one.output)}: RMS error against {doc.short_name(one.against)}, LSB"
        yield doc.Trend(title, drift_points(one), of="frames")


def drift_points(one: Drift) -> list[tuple[str, float, str]]:
    """Not more than a plot can show: of each group of frames the furthest."""
    together = -(-len(one.codes) // MOST_POINTS)
    groups = ((at, one.codes[at : at + together]) for at in range(0, len(one.codes), together))
    return [(f"frame {at + (k := values.index(max(values)))}", values[k], f"{values[k]:.3g}") for at, values in groups]


def _kernels(title: str) -> str:
    """The first word is the tool, which stands above the table; what tells kernels apart comes behind it."""
    return title if len(title) <= _WIDTH - 3 else title.split(" ", 1)[-1]


def _summary(found: Validation, min_cosine: float, again: Callable[..., str]) -> Iterator[doc.SummaryRow | None]:
    failed = list(complaints(found, min_cosine))
    if failed:
        yield doc.SummaryRow("failed", f"{count(len(failed), 'complaint')}, see below", doc.Mark.ALARM)
    elif blank := [output.name for output in found.outputs if decisive(output, min_cosine).blank]:
        yield doc.SummaryRow("verdict", nothing_compared(blank[0]), doc.Mark.DOUBT)
    elif any(unjudged(found, min_cosine)):
        how = next(install(output) for output in found.outputs if output.lacks)
        yield doc.SummaryRow("verdict", f"{UNJUDGED} without the model's own kernels: {how}", doc.Mark.DOUBT)
    else:
        outputs = count(len(found.outputs), "output")
        what = f"{outputs} and every layer within their limits" if found.layers else f"{outputs}; layers not checked"
        yield doc.SummaryRow("passed", what, doc.Mark.GOOD)
    if compared := [output for output in found.outputs if not output.blank]:
        worst = min(compared, key=lambda output: output.metrics.cos)
        text = f"output {elided(worst.name, doc.NAME)}, cosine {worst.metrics.cos:.6f}"
        yield doc.SummaryRow("worst", text)
    # layers of the program, operators of the model; one that has several outputs counts for each
    layers = "layers", [check.max_diff for check in found.layers], "exact arithmetic"
    for label, apart, against in (layers, ("operators", [check.max_diff for check in found.reading], found.reference)):
        if apart:
            others = f", max error {max(apart):g} LSB" if max(apart) else ""
            exact = f"{sum(one == 0 for one in apart)} of {count(len(apart), 'tensor')}"
            yield doc.SummaryRow(label, f"{exact} equal to {against}{others}")
    if (one := found.sequence) is not None:
        yield sequence_row(one)
        yield parts.frames_row(one.latency_ms, one.band, one.states_bytes, one.hop_ms)
    if (a := found.accuracy) is not None:
        by_program, by_reference = f"{a.program / a.samples:.2%}", f"{a.reference / a.samples:.2%}"
        yield doc.SummaryRow("accuracy", f"{by_program} by label on the emulator, {by_reference} by the reference")
    lost = f"{again('explain', '--accuracy')}: where it is lost"
    yield doc.next_row(lost if failed else f"{again('generate')}: the C files")


def metrics(rows: Sequence[Row]) -> doc.Table[Row]:
    """ST's figures of every output."""
    return doc.Table(METRICS, rows, "Outputs", titles=True, indent=0)


def _sections(found: Validation, min_cosine: float, every: bool) -> Iterator[Iterable[doc.Block]]:
    """All figures; `every`: of layers that are as they should be, too."""
    rows: list[Row] = []
    for output in found.outputs:
        verdict, times = judge(output, min_cosine), ratio(output)
        decided = verdict in (SPREAD, FAR) and times is not None
        rows.append((output.name, output, f"{verdict}, {times} times it" if decided else verdict))
        rows += [(f"  {sibling.title}", sibling, "") for sibling in output.spread]
    title = f"validation on the emulator: {count(found.samples, 'sample')} against {found.reference}"
    blocks: list[doc.Block] = [title, *(f"note: {note}" for note in found.notes), metrics(rows)]
    if any(output.spread for output in found.outputs[:1]):
        blocks.append(f"(indented: how far other kernels are from {found.reference}; {MARGIN} times that passes)")
    yield blocks
    if (a := found.accuracy) is not None:
        text = f"{a.program / a.samples:.2%} on the emulator, {a.reference / a.samples:.2%} with {found.reference}"
        yield [f"accuracy by label, {count(a.samples, 'sample')}: {text}"]
    yield _layers(found, every)


def _layers(found: Validation, every: bool) -> Iterator[str]:
    exact, worst = sum(layer.max_diff == 0 for layer in found.layers), worst_of(found.layers)
    yield (
        f"layers: {count(len(found.layers), 'tensor')} compared with exact arithmetic on their actual inputs: "
        f"{exact} exact, largest difference {worst:g}"
    )
    if found.reading:
        exact, worst = sum(check.max_diff == 0 for check in found.reading), worst_of(found.reading)
        yield (
            f"operators: {len(found.reading)} as read from the model compared with {found.reference} on the same "
            f"inputs: {exact} exact, largest difference {worst:g}"
        )
    if (bad := found.first_misread) is not None:
        yield f"first operator that the reference computes otherwise: {bad.tensor} ({bad.kind}, {bad.node})"
    if (layer := found.first_bad) is not None:
        yield f"first bad layer: {layer.node} ({layer.kind}, {layer.tensor})"
    else:
        yield "no layer is further from exact arithmetic than the compiler declares"
    for one in found.layers:
        if every or one.bad:
            where = f"{'none' if one.step is None else one.step:>4} {'cpu' if one.on_cpu else 'npu'} {one.kind:14}"
            apart = f"max {one.max_diff:<6g} differ {one.differ_percent:6.2f} %"
            yield f"  epoch {where} {apart}  {one.node}: {one.tensor}"


def worst_of(found: Sequence[Any]) -> float:
    return max((check.max_diff for check in found), default=0.0)


# --------------------------------------------------------------------------------------------------------------- data


def as_json(found: Validation, min_cosine: float = MIN_COSINE, per_layer: bool = False) -> dict[str, Any]:
    bad, misread = found.first_bad, found.first_misread
    reasons = list(complaints(found, min_cosine))
    data: dict[str, Any] = {
        "samples": found.samples,
        "mode": "emulator",
        "reference": found.reference,
        "notes": list(found.notes),
        "passed": verdict_of(found, min_cosine) == "passed",
        "verdict": verdict_of(found, min_cosine),
        "complaints": reasons,
        "margin": MARGIN,
        "outputs": [_output_data(output, min_cosine) for output in found.outputs],
        "layers_checked": len({layer.node for layer in found.layers}),
        "tensors_checked": len(found.layers),
        "worst_layer": worst_of(found.layers),
        "first_bad_layer": bad.node if bad is not None else None,
        "first_bad_tensor": bad.tensor if bad is not None else None,
        "operators_checked": len(found.reading),
        "worst_operator": worst_of(found.reading),
        "first_misread": misread.tensor if misread is not None else None,
    }
    if (one := found.sequence) is not None:
        drift = [asdict(row) | {"worst_frame": row.worst} for row in one.drift]
        figures = {key: value for key, value in asdict(one).items() if key not in ("drift", "latency_ms", "hop_ms")}
        data["sequence"] = {**figures, **parts.frames_data(one.latency_ms, one.hop_ms), "drift": drift}
    if found.accuracy is not None:
        data["accuracy"] = asdict(found.accuracy)
    if per_layer:
        data["layers"] = [asdict(layer) for layer in found.layers]
    return data


def _output_data(output: OutputResult, min_cosine: float) -> dict[str, Any]:
    """`ratio`: its distance over that of the furthest sibling, with its interval."""
    times, by = ratio(output), output.judged
    ends = None if times is None else {key: _finite(value) for key, value in asdict(times).items()}
    data = {"name": output.name, "verdict": judge(output, min_cosine), "ratio": ends, **_figures(output)}
    data["spread"] = [{"kernels": one.title, **_figures(one)} for one in output.spread]
    if by is not None:
        spread = [{"kernels": one.title, **_figures(one)} for one in by.spread]
        data["judged"] = {"against": by.against, **_figures(by), "spread": spread}
    return data


def output_data(output: OutputResult) -> dict[str, Any]:
    return {"name": output.name} | _figures(output)


def _figures(side: OutputResult | Distance) -> dict[str, Any]:
    renamed = {"exact_percent": "exact_pct", "within_1_percent": "within1_pct"}
    figures = {renamed.get(key, key): _finite(value) for key, value in asdict(side.metrics).items()}
    return {"max_lsb": _finite(side.max_lsb), **figures}


def _finite(value: float) -> float | None:
    """JSON knows no infinities."""
    return value if abs(value) < float("inf") else None
