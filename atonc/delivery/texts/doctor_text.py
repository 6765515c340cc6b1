"""What `atonc doctor` shows: step by step, what is there and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.delivery.doctor.diagnosis import Diagnosis, DoctorGoal, DoctorItem
from atonc.insight.report.document import Chapter, Document, Mark, SummaryRow, next_row


def document(found: Diagnosis, verbose: bool = False) -> Document:
    ready = [step.key for step in found.steps if step.ready]
    lacking = [step for step in found.steps if not step.ready]
    remedies = (item.remedy for step in lacking for item in step.lacks if item.remedy)
    step = next(remedies, "") or "atonc generate MODEL -o build"
    rows = (
        SummaryRow("ready", ", ".join(ready) or "nothing", Mark.GOOD if ready else Mark.ALARM),
        SummaryRow("lacking", ", ".join(step.key for step in lacking), Mark.DOUBT) if lacking else None,
        SummaryRow("boards", f"{', '.join(found.boards)}; your own: --board FILE.toml (docs/boards.md)"),
        next_row(f"for {lacking[0].key}: {step}" if lacking else step),
    )
    said = [line for step in found.steps for line in _step(step, verbose)]
    return Document(sections=[Chapter("", said)], summary=rows, data=found.as_dict)


def _step(step: DoctorGoal, verbose: bool) -> Iterator[str]:
    yield f"{'ready  ' if step.ready else 'LACKING'}  {step.title} ({step.key})"
    shown = (*step.needs, *step.one_of) if verbose else step.lacks
    if step.one_of and not step.ready and not any(item.good for item in step.one_of):
        yield f"           one of {', '.join(item.name for item in step.one_of)} is enough"
    yield from (f"           {_item(item)}" for item in dict.fromkeys(shown))


def _item(item: DoctorItem) -> str:
    wanted = f"wanted {item.wanted}" if item.wanted and not item.good else ""
    said = ", ".join(filter(None, (f"{item.name}: {item.state.value}", item.version, wanted, item.where)))
    return f"{said}. {item.remedy}" if item.remedy and not item.good else said
