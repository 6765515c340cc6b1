"""What `atonc deploy` did, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atonc.delivery.deploy.plan import FinishedStep

_SHOWN = 12


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
    files = "1 file" if len(result.changed) == 1 else f"{len(result.changed)} files"
    return f"would change {files}:" if dry_run else f"{done.what}: {files}"


def as_json(done: FinishedStep) -> dict[str, Any]:
    result = done.result
    shown = {"changed": list(result.changed), "skipped": result.skipped, "note": result.note, "diff": result.diff}
    return {"step": done.step, "seconds": round(done.seconds, 3), **{k: v for k, v in shown.items() if v}}
