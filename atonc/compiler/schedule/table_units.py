"""Which ARITH a task gets where tables of coefficients may stay (`--schedule-with tables`): the one that holds its own.

A new table goes where the old one is needed last, or never again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from atonc.compiler.plan.task import Task
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.schedule.types import Schedule
from atonc.machine.hw.epoch import rows_of
from atonc.machine.hw.limits import UNITS

KIND = "ARITH"
NEVER = 1 << 62
Names = dict[str, str]  # of a unit inside its task -> on the chip


class TableUnits:
    """The ARITHs of all epochs in their order, and what each of them holds."""

    def __init__(self, schedule: Schedule) -> None:
        self.held: dict[str, bytes] = {}
        self.uses: dict[bytes, list[int]] = defaultdict(list)  # of a table: numbers of steps
        for number, step in enumerate(schedule.steps):
            for task in () if isinstance(step, CpuPlan) else step.tasks:
                for _, rows in _ariths(task):
                    self.uses[rows].append(number)

    def forget(self) -> None:
        """Another program begins."""
        self.held.clear()

    def choose(self, tasks: Sequence[Task], number: int) -> list[Names]:
        """Chooses units for every task of a step."""
        wanted = [(place, name, rows) for place, task in enumerate(tasks) for name, rows in _ariths(task)]
        free = [f"{KIND}{k}" for k in range(UNITS[KIND])]
        found: list[Names] = [{} for _ in tasks]
        for place, name, rows in wanted:
            holder = next((unit for unit in free if rows and self.held.get(unit, b"").startswith(rows)), "")
            if holder:
                found[place][name] = holder
                free.remove(holder)
        for place, name, rows in sorted(wanted, key=lambda one: not one[2]):  # those without a table take what is left
            if name not in found[place]:
                unit = max(free, key=lambda unit: self._next_use(unit, number))
                found[place][name] = unit
                free.remove(unit)
                self.held |= {unit: rows} if rows else {}
        return found

    def _next_use(self, unit: str, number: int) -> int:
        uses = self.uses[self.held[unit]] if unit in self.held else []
        place = bisect_right(uses, number)
        return uses[place] if place < len(uses) else NEVER


def _ariths(task: Task) -> Iterator[tuple[str, bytes]]:
    """Yields the ARITH units with the rows of their tables; none for those without."""
    return ((name, rows_of(config)) for name, config in task.units.items() if config.KIND == KIND)
