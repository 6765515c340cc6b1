"""What the functions of the interface give back: what was found below, with its tables, in one line, and as a notebook
shows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from atonc.doors.python.frames import data_frame
from atonc.insight.evaluating.run import Evaluation
from atonc.insight.explain.compare import Comparison
from atonc.insight.quantizing.types import Quantised
from atonc.insight.report import notebook
from atonc.insight.sweeping.run import Sweep
from atonc.insight.validating.judging import MIN_COSINE, complaints
from atonc.insight.validating.validating import Validation
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import instead

if TYPE_CHECKING:
    from atonc.insight.report.notebook import Rows, Tables


class Result(ABC):
    """Something that has tables; the first of them is meant where none is named."""

    @property
    @abstractmethod
    def tables(self) -> Tables: ...

    @property
    @abstractmethod
    def _line(self) -> str:
        """What was found, in a line."""

    @property
    def _plot(self) -> str:
        return ""

    @classmethod
    def of(cls, found: Any, **more: Any) -> Self:
        """What was found below, with these abilities."""
        return cls(**{member.name: getattr(found, member.name) for member in fields(found)}, **more)

    def rows(self, table: str = "") -> Rows:
        """A table as dictionaries."""
        tables = self.tables
        if table and table not in tables:
            raise InputError(f"there is no table {table[:60]!r}", remedy=instead(table, tables))
        return tables[table or next(iter(tables))]

    def to_pandas(self, table: str = "") -> Any:
        """A table as a data frame."""
        return data_frame(self.rows(table))

    def __repr__(self) -> str:
        return f"<{self._line}; to_pandas() has {', '.join(self.tables)}>"

    def _repr_html_(self) -> str:
        return notebook.result_page(self._line, self.rows(), self._plot)


@dataclass(frozen=True, repr=False)
class ValidationResult(Result, Validation):
    min_cosine: float = MIN_COSINE  # outputs this close pass

    @property
    def passed(self) -> bool:
        return not self.complaints

    @property
    def complaints(self) -> tuple[str, ...]:
        """A sentence for each reason to fail."""
        return tuple(complaints(self, self.min_cosine))

    @property
    def tables(self) -> Tables:
        return notebook.validation_tables(self, self.min_cosine)

    @property
    def _line(self) -> str:
        return notebook.validation_line(self, self.min_cosine)


class EvaluationResult(Result, Evaluation):
    @property
    def tables(self) -> Tables:
        return notebook.evaluation_tables(self)

    @property
    def _line(self) -> str:
        return notebook.evaluation_line(self)

    @property
    def _plot(self) -> str:
        return notebook.interval_plot(self)


class QuantisedResult(Result, Quantised):
    """`atonc.compile` takes it as it is."""

    @property
    def tables(self) -> Tables:
        return notebook.quantised_tables(self)

    @property
    def _line(self) -> str:
        return notebook.quantised_line(self)

    @property
    def _plot(self) -> str:
        from atonc.insight.report.quantize_text import front_plot

        return front_plot(self.front)


class SweepTable(Result, Sweep):
    @property
    def tables(self) -> Tables:
        return notebook.sweep_tables(self)

    @property
    def _line(self) -> str:
        return notebook.sweep_line(self)

    @property
    def _plot(self) -> str:
        return notebook.sweep_plot(self)


class ComparisonResult(Result, Comparison):
    @property
    def tables(self) -> Tables:
        return notebook.comparison_tables(self)

    @property
    def _line(self) -> str:
        return notebook.comparison_line(self)

    @property
    def _plot(self) -> str:
        return notebook.both_timelines(self)
