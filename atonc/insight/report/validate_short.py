"""What `atonc validate` shows unless more is asked for: a row for each output, then the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atonc.insight.report.marks import Mark, Marked, note
from atonc.insight.report.summary import NAME, SummaryRow, next_row, summary_lines
from atonc.insight.validating.distances import Distance, OutputResult
from atonc.insight.validating.judging import FAR, MARGIN, complaints, is_close, judge
from atonc.insight.validating.validating import Validation
from atonc.machine.base.words import count, elided

_WIDTH = 26


def lines(found: Validation, min_cosine: float) -> list[str]:
    spread = any(output.spread for output in found.outputs)
    apart = [output for output in found.outputs if not _near(output, min_cosine)]
    out = [f"{count(found.samples, 'sample')} on the emulator against {found.reference}", *map(note, found.notes)]
    if found.outputs:
        out.append(f"{'output':{_WIDTH}}{'cosine':>9}{'rmse':>10}{'exact %':>9}{'within 1':>9}{'max':>6}")
    for output in found.outputs:
        verdict = judge(output, min_cosine)
        mark = Mark.ALARM if verdict == FAR else Mark.GOOD
        out.append(Marked.of((f"{_row(output.name, output)}  ", None), (verdict, mark)))
        out += [_row(f"  {sibling.title}", sibling) for sibling in output.spread]
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
    rows = [_row(f"  from {by.against}", by), *(_row(f"  {sibling.title}", sibling) for sibling in by.spread)]
    return rows


def _row(name: str, side: OutputResult | Distance) -> str:
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
