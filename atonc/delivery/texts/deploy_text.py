"""What `atonc deploy` did, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atonc.delivery.deploy.plan import FinishedStep
from atonc.insight.report.document import Mark, SummaryRow, next_row, summary_lines
from atonc.machine.base.words import count

_SHOWN = 12
_MOST_SKIPPED = 4


def lines(done: FinishedStep, dry_run: bool, verbose: bool = False) -> Iterator[str]:
    """One line a step, then the files; of a dry run the patch."""
    yield f"{done.step:<13} {done.seconds:7.1f} s  {_summary(done, dry_run)}"
    changed = done.result.changed
    for file in changed if verbose else changed[:_SHOWN]:
        yield f"{'':25}{file}"
    if len(changed) > _SHOWN and not verbose:
        yield f"{'':25}and {len(changed) - _SHOWN} more"
    if done.result.note and changed:
        yield f"{'':25}note: {done.result.note}"
    if done.result.diff:
        yield done.result.diff.rstrip("\n")


def _summary(done: FinishedStep, dry_run: bool) -> str:
    result = done.result
    if result.skipped:
        return f"skipped: {result.skipped}"
    if not result.changed:
        return result.note or ("nothing changes" if dry_run else "unchanged")
    files = count(len(result.changed), "file")
    return f"would change {files}:" if dry_run else f"{done.what}: {files}"


def summary(done: Sequence[FinishedStep], dry_run: bool) -> list[str]:
    """What became of the steps, and what comes next."""
    skipped = [step for step in done if step.result.skipped]
    changed = [step for step in done if step.result.changed and not step.result.skipped]
    kept = [step.step for step in done if step not in skipped and step not in changed]
    files = count(sum(len(step.result.changed) for step in changed), "file")
    names = ", ".join(step.step for step in changed)
    last = done[-1].result.note if done and not done[-1].result.skipped else ""
    return summary_lines(
        (
            SummaryRow("would change" if dry_run else "done", f"{names}: {files}", Mark.GOOD) if changed else None,
            SummaryRow("as it was", ", ".join(kept)) if kept else None,
            *(SummaryRow("skipped", f"{s.step}: {s.result.skipped}", Mark.DOUBT) for s in skipped[:_MOST_SKIPPED]),
            SummaryRow("took", f"{sum(step.seconds for step in done):.1f} s"),
            next_row(_next(skipped, dry_run) or last or "start the board"),
        )
    )


def _next(skipped: Sequence[FinishedStep], dry_run: bool) -> str:
    if dry_run:
        return "the same without --dry-run"
    return f"atonc doctor: what {skipped[0].step} needs of this machine" if skipped else ""


def as_json(done: FinishedStep) -> dict[str, Any]:
    result = done.result
    shown = {"changed": list(result.changed), "skipped": result.skipped, "note": result.note, "diff": result.diff}
    return {"step": done.step, "seconds": round(done.seconds, 3), **{k: v for k, v in shown.items() if v}}
