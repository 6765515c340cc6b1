"""What `atonc deploy` did, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atonc.delivery.deploy.steps import FinishedStep
from atonc.insight.report.document import Document, Mark, SummaryRow, at_most, next_row
from atonc.machine.base.words import count

_SHOWN = 12
_MOST_SKIPPED = 4


def lines(done: FinishedStep, dry_run: bool, verbose: bool = False) -> Iterator[str]:
    """While it goes on: one line a step, then the files; of a dry run the patch."""
    yield from f"{done.step:<13} {done.seconds:7.1f} s  {_summary(done, dry_run)}".splitlines()
    changed, more = done.result.changed, [f"note: {done.result.note}"] if done.result.note else []
    shown = [*at_most(len(changed) if verbose else _SHOWN, changed, "and {} more"), *(more if changed else [])]
    yield from (f"{'':25}{line}" for line in shown)
    if done.result.diff:
        yield from done.result.diff.rstrip("\n").split("\n")


def _summary(done: FinishedStep, dry_run: bool) -> str:
    result = done.result
    if result.skipped:
        return f"skipped: {result.skipped}"
    if not result.changed:
        return result.note or ("nothing changes" if dry_run else "unchanged")
    files = count(len(result.changed), "file")
    return f"would change {files}:" if dry_run else f"{done.what}: {files}"


def document(done: Sequence[FinishedStep], dry_run: bool) -> Document:
    """What became of the steps, and what comes next."""
    skipped = [step for step in done if step.result.skipped]
    changed = [step for step in done if step.result.changed and not step.result.skipped]
    kept = [step.step for step in done if step not in skipped and step not in changed]
    files = count(sum(len(step.result.changed) for step in changed), "file")
    names = ", ".join(step.step for step in changed)
    last = done[-1].result.note if done and not done[-1].result.skipped else ""
    step = f"atonc doctor: what {skipped[0].step} needs of this machine" if skipped else last or "start the board"
    return Document(
        summary=(
            SummaryRow("would change" if dry_run else "done", f"{names}: {files}", Mark.GOOD) if changed else None,
            SummaryRow("as it was", ", ".join(kept)) if kept else None,
            *(SummaryRow("skipped", f"{s.step}: {s.result.skipped}", Mark.DOUBT) for s in skipped[:_MOST_SKIPPED]),
            SummaryRow("took", f"{sum(step.seconds for step in done):.1f} s"),
            next_row("the same without --dry-run" if dry_run else step),
        ),
        data=lambda: {"steps": [_step_data(step) for step in done]},
    )


def _step_data(done: FinishedStep) -> dict[str, Any]:
    result = done.result
    shown = {"changed": list(result.changed), "skipped": result.skipped, "note": result.note, "diff": result.diff}
    return {"step": done.step, "seconds": round(done.seconds, 3), **{k: v for k, v in shown.items() if v}}
