"""What `atonc validate` shows: ST's metrics per output, percentages in codes, the spread of the reference's own
kernels, the first bad layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from atonc.compiler.verify.verify import LayerCheck
from atonc.insight.report.document import NAME, Mark, Marked, SummaryRow, next_row, note, summary_lines
from atonc.insight.validating.judging import (
    FAR,
    MARGIN,
    MIN_COSINE,
    SPREAD,
    Distance,
    OutputResult,
    complaints,
    is_close,
    judge,
    ratio,
)
from atonc.insight.validating.validating import Validation
from atonc.machine.base.words import count, elided

_COLUMNS = ("acc", "rmse", "mae", "l2r", "mean", "std", "nse", "cos")


def lines(
    found: Validation, min_cosine: float = MIN_COSINE, per_layer: bool = False, verbose: bool = False
) -> list[str]:
    text = [f"validation on the emulator: {count(found.samples, 'sample')} against {found.reference}"]
    text += [f"note: {note}" for note in found.notes]
    titles = [f"  {sibling.title}" for output in found.outputs[:1] for sibling in output.spread]
    width = max([6, *(len(name) for name in (*(o.name for o in found.outputs), *titles))])
    text.append(f"{'output':{width}} " + " ".join(f"{c:>9}" for c in _COLUMNS) + "   exact %  within 1 %  max codes")
    for output in found.outputs:
        text.append(_row(output.name, output, width) + f"  {_verdict(output, min_cosine)}")
        text += [_row(f"  {sibling.title}", sibling, width) for sibling in output.spread]
    if titles:
        text.append(f"(indented: how far other kernels are from {found.reference}; {MARGIN} times that passes)")
    if found.accuracy is not None:
        a = found.accuracy
        text += ["", f"accuracy by label, {count(a.samples, 'sample')}: {a.program / a.samples:.2%} on the emulator, "
                 f"{a.reference / a.samples:.2%} with {found.reference}"]  # fmt: skip
    return text + _layers(found, per_layer, verbose)


def _verdict(output: OutputResult, min_cosine: float) -> str:
    """Words the verdict, with the ratio where it decided."""
    verdict, times = judge(output, min_cosine), ratio(output)
    return f"{verdict}, {times} times it" if verdict in (SPREAD, FAR) and times is not None else verdict


def figure_rows(outputs: Sequence[OutputResult]) -> list[str]:
    """ST's figures of every output, with their heads."""
    width = max([6, *(len(output.name) for output in outputs)])
    head = f"{'output':{width}} " + " ".join(f"{c:>9}" for c in _COLUMNS) + "   exact %  within 1 %  max codes"
    return [head, *(_row(output.name, output, width) for output in outputs)]


def output_data(output: OutputResult) -> dict[str, Any]:
    return {"name": output.name} | _figures(output)


def _row(name: str, side: OutputResult | Distance, width: int) -> str:
    m = asdict(side.metrics)
    values = [f"{m['acc']:9.2%}", *(f"{m[c]:9.5f}" for c in _COLUMNS[1:])]
    codes = f"{m['exact_percent']:9.3f} {m['within_1_percent']:11.3f} {side.max_lsb:10.2f}"
    return f"{name:{width}} {' '.join(values)} {codes}"


def _layers(found: Validation, per_layer: bool, verbose: bool) -> list[str]:
    layers = found.layers
    worst = max((layer.max_diff for layer in layers), default=0.0)
    exact = sum(layer.max_diff == 0 for layer in layers)
    text = [
        "",
        f"layers: {count(len(layers), 'tensor')} compared with exact arithmetic on the inputs they really had: "
        f"{exact} exact, largest difference {worst:g}",
    ]
    if found.reading:
        most = max(check.max_diff for check in found.reading)
        text.append(
            f"operators: {len(found.reading)} as read from the model compared with {found.reference} on the same "
            f"inputs: {sum(check.max_diff == 0 for check in found.reading)} exact, largest difference {most:g}"
        )
    if found.first_misread is not None:
        bad = found.first_misread
        text.append(f"first operator that the reference computes otherwise: {bad.tensor} ({bad.kind}, {bad.node})")
    if found.first_bad is not None:
        text.append(f"first bad layer: {found.first_bad.node} ({found.first_bad.kind}, {found.first_bad.tensor})")
    else:
        text.append("no layer is further from exact arithmetic than the compiler declares")
    return text + _rows(layers if per_layer and verbose else [layer for layer in layers if layer.bad])


def _rows(layers: Sequence[LayerCheck]) -> list[str]:
    return [
        f"  epoch {'none' if layer.step is None else layer.step:>4} {'cpu' if layer.on_cpu else 'npu'} {layer.kind:14} "
        f"max {layer.max_diff:<6g} differ {layer.differ_percent:6.2f} %  {layer.node}: {layer.tensor}"
        for layer in layers
    ]


def as_json(found: Validation, min_cosine: float = MIN_COSINE, per_layer: bool = False) -> dict[str, Any]:
    bad, misread = found.first_bad, found.first_misread
    reasons = list(complaints(found, min_cosine))
    document: dict[str, Any] = {
        "samples": found.samples,
        "mode": "emulator",
        "reference": found.reference,
        "notes": list(found.notes),
        "passed": not reasons,
        "complaints": reasons,
        "margin": MARGIN,
        "outputs": [
            {"name": o.name, "verdict": judge(o, min_cosine), "ratio": _ratio(o)} | _figures(o)
            | {"spread": _spread(o)}
            | ({"judged": {"against": o.judged.against} | _figures(o.judged) | {"spread": _spread(o.judged)}}
               if o.judged else {})
            for o in found.outputs
        ],
        "layers_checked": len({layer.node for layer in found.layers}),
        "tensors_checked": len(found.layers),
        "worst_layer": max((layer.max_diff for layer in found.layers), default=0.0),
        "first_bad_layer": bad.node if bad is not None else None,
        "first_bad_tensor": bad.tensor if bad is not None else None,
        "operators_checked": len(found.reading),
        "worst_operator": max((check.max_diff for check in found.reading), default=0.0),
        "first_misread": misread.tensor if misread is not None else None,
    }  # fmt: skip
    if found.accuracy is not None:
        document["accuracy"] = asdict(found.accuracy)
    if per_layer:
        document["layers"] = [asdict(layer) for layer in found.layers]
    return document


def _spread(output: OutputResult) -> list[dict[str, Any]]:
    return [{"kernels": sibling.title} | _figures(sibling) for sibling in output.spread]


def _figures(side: OutputResult | Distance) -> dict[str, Any]:
    renamed = {"exact_percent": "exact_pct", "within_1_percent": "within1_pct"}
    figures = {renamed.get(key, key): _finite(value) for key, value in asdict(side.metrics).items()}
    return {"max_lsb": _finite(side.max_lsb), **figures}


def _ratio(output: OutputResult) -> dict[str, float | None] | None:
    """Compares its distance with that of the furthest sibling: the ratio with its interval."""
    times = ratio(output)
    return None if times is None else {key: _finite(value) for key, value in asdict(times).items()}


def _finite(value: float) -> float | None:
    """JSON knows no infinities."""
    return value if abs(value) < float("inf") else None


_WIDTH = 26


def short_lines(found: Validation, min_cosine: float) -> list[str]:
    spread = any(output.spread for output in found.outputs)
    apart = [output for output in found.outputs if not _near(output, min_cosine)]
    out = [f"{count(found.samples, 'sample')} on the emulator against {found.reference}", *map(note, found.notes)]
    if found.outputs:
        out.append(f"{'output':{_WIDTH}}{'cosine':>9}{'rmse':>10}{'exact %':>9}{'within 1':>9}{'max':>6}")
    for output in found.outputs:
        verdict = judge(output, min_cosine)
        mark = Mark.ALARM if verdict == FAR else Mark.GOOD
        out.append(Marked.of((f"{_short_row(output.name, output)}  ", None), (verdict, mark)))
        out += [_short_row(f"  {sibling.title}", sibling) for sibling in output.spread]
        out += _judged(output) if output in apart and output.judged else []
    if spread:
        out.append("(indented: how far the reference's other kernels are; max in codes)")
    if apart:
        out.append(f"(cosine below {min_cosine}: {MARGIN} times the distance of the network rounded otherwise passes)")
    return out


def _near(output: OutputResult, min_cosine: float) -> bool:
    return is_close(output.metrics.cos, output.metrics.within_1_percent, min_cosine)


def _judged(output: OutputResult) -> list[str]:
    """What the verdict rests on, where that is not what the row says."""
    by = output.judged
    assert by is not None
    rows = [
        _short_row(f"  from {by.against}", by),
        *(_short_row(f"  {sibling.title}", sibling) for sibling in by.spread),
    ]
    return rows


def _short_row(name: str, side: OutputResult | Distance) -> str:
    m = side.metrics
    figures = f"{m.cos:9.5f}{m.rmse:10.5f}{m.exact_percent:9.2f}{m.within_1_percent:9.2f}{side.max_lsb:6.0f}"
    return f"{elided(name, _WIDTH - 1):{_WIDTH}}{figures}"


def summary(found: Validation, min_cosine: float, again: Callable[..., str]) -> list[str]:
    """`again`: another verb on the same model, as a command."""
    failed = list(complaints(found, min_cosine))
    what = f"{count(len(found.outputs), 'output')} and every layer within their limits"
    verdict = SummaryRow("passed", what, Mark.GOOD)
    if failed:
        verdict = SummaryRow("failed", f"{count(len(failed), 'complaint')}, see below", Mark.ALARM)
    return summary_lines(
        (
            verdict,
            _worst(found),
            _checked("layers", [check.max_diff for check in found.layers], "exact arithmetic"),
            _checked("operators", [check.max_diff for check in found.reading], found.reference),
            _labelled(found),
            next_row(_next(again, bool(failed))),
        )
    )


def _worst(found: Validation) -> SummaryRow | None:
    worst = min(found.outputs, key=lambda output: output.metrics.cos, default=None)
    if worst is None:
        return None
    return SummaryRow("worst", f"output {elided(worst.name, NAME)}, cosine {worst.metrics.cos:.6f}")


def _checked(label: str, differences: Sequence[float], against: str) -> SummaryRow | None:
    """Layers of the program, or operators of the model; one that has several outputs counts for each."""
    if not differences:
        return None
    exact, most = sum(one == 0 for one in differences), max(differences)
    others = f", others at most {most:g} off" if most else ""
    return SummaryRow(label, f"{exact} of {count(len(differences), 'tensor')} equal to {against}{others}")


def _labelled(found: Validation) -> SummaryRow | None:
    a = found.accuracy
    if a is None:
        return None
    text = f"{a.program / a.samples:.2%} by label on the emulator, {a.reference / a.samples:.2%} by the reference"
    return SummaryRow("accuracy", text)


def _next(again: Callable[..., str], failed: bool) -> str:
    return f"{again('explain', '--accuracy')}: where it is lost" if failed else f"{again('generate')}: the C files"
