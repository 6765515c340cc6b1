"""What `atonc doctor` shows: step by step, what is there and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.delivery.doctor.types import Diagnosis, DoctorGoal, DoctorItem
from atonc.insight.report.document import Mark, SummaryRow, next_row, summary_lines


def lines(found: Diagnosis, verbose: bool = False) -> list[str]:
    said = [line for step in found.steps for line in _step(step, verbose)]
    return [*said, *_summary(found)]


def _summary(found: Diagnosis) -> list[str]:
    ready = [step.key for step in found.steps if step.ready]
    lacking = [step for step in found.steps if not step.ready]
    remedies = (item.remedy for step in lacking for item in step.lacks if item.remedy)
    step = next(remedies, "") or "atonc generate MODEL -o build"
    return summary_lines(
        (
            SummaryRow("ready", ", ".join(ready) or "nothing", Mark.GOOD if ready else Mark.ALARM),
            SummaryRow("lacking", ", ".join(step.key for step in lacking), Mark.DOUBT) if lacking else None,
            SummaryRow("boards", f"{', '.join(found.boards)}; your own: --board FILE.toml (docs/boards.md)"),
            next_row(f"for {lacking[0].key}: {step}" if lacking else step),
        )
    )


def _step(step: DoctorGoal, verbose: bool) -> Iterator[str]:
    yield f"{'ready  ' if step.ready else 'LACKING'}  {step.title} ({step.key})"
    shown = (*step.needs, *step.one_of) if verbose else step.lacks
    if step.one_of and not step.ready and not any(item.good for item in step.one_of):
        yield f"           one of {', '.join(item.name for item in step.one_of)} is enough"
    yield from (f"           {_item(item)}" for item in dict.fromkeys(shown))


def _item(item: DoctorItem) -> str:
    parts = [f"{item.name}: {item.state.value}"]
    parts += [item.version] if item.version else []
    parts += [f"wanted {item.wanted}"] if item.wanted and not item.good else []
    parts += [item.where] if item.where else []
    said = ", ".join(parts)
    return f"{said}. {item.remedy}" if item.remedy and not item.good else said
