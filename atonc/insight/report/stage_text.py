"""`--dump DIR --stop-after STAGE`: what each stage of the pipeline hands to the next, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from atonc.compiler.compile.pipeline import Scheduled
from atonc.compiler.emit.program import Program
from atonc.compiler.ir import Graph, text
from atonc.compiler.lower.map_ops import Mapped
from atonc.compiler.plan.task import tasks_of
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.request.options import STAGES
from atonc.machine.base.disk import write_files
from atonc.machine.base.frozen import dataclass


class Stopped(Exception):
    """The user wanted to go no further; no error."""


@dataclass
class Dump:
    """Watches a compilation. A stage that is repeated, because something did not fit, is shown as it was last."""

    folder: Path | None
    last: str | None = None
    texts: dict[str, str] = field(default_factory=dict)

    def __call__(self, stage: str, result: object) -> None:
        self.texts[stage] = "".join(f"{line}\n" for line in _lines(result))
        if stage == self.last:
            raise Stopped

    def write(self) -> None:
        """What was seen so far, also of a compilation that failed."""
        if self.folder is not None and self.texts:
            numbered = ((STAGES.index(stage) + 1, stage, content) for stage, content in self.texts.items())
            write_files(self.folder, {f"{number}_{stage}.txt": content.encode() for number, stage, content in numbered})


def _lines(result: object) -> Iterator[str]:
    if isinstance(result, Graph):
        yield from text.dump(result).splitlines()
    elif isinstance(result, Mapped):
        yield from _tasks(result)
    elif isinstance(result, Scheduled):
        yield from _steps(result)
    elif isinstance(result, Program):
        yield from _homes(result)
    else:
        raise TypeError(type(result).__name__)


def _tasks(mapped: Mapped) -> Iterator[str]:
    """Lists the tasks of every operator: chains of units over buffers, without unit numbers."""
    for work in mapped.works:
        if work.call is not None:
            yield f"cpu {work.call.title}"
        for task in tasks_of(work.groups):
            yield f"npu {task.title}"
            yield from (f"    {name}: {use.buffer}" for name, use in task.engines.items())
            yield from (f"    {wire.source} -> {wire.target}:{wire.port}" for wire in task.wires)
    for name, source in mapped.context.aliases.items():
        yield f"alias {name} = {source}"


def _steps(scheduled: Scheduled) -> Iterator[str]:
    for number, plan in enumerate(scheduled.plans, 1):
        where = "cpu" if isinstance(plan, CpuPlan) else "npu"
        yield f"{number} {where} {plan.title}"
        yield f"    {', '.join(sorted(plan.reads()))} -> {', '.join(sorted(plan.writes()))}"
        if not isinstance(plan, CpuPlan):
            yield from (f"    {link}" for link in plan.links)


def _homes(program: Program) -> Iterator[str]:
    for home in sorted(program.placed.values(), key=lambda home: (home.address, home.buffer.name)):
        steps = f"steps {home.first + 1}..{home.last + 1}"
        yield f"{home.address:#010x} {home.end:#010x} {home.pool:10} {steps} {home.buffer.kind} {home.buffer.name}"
