"""What the functions of the interface give back: what was found below, with its tables, in one line, and as a notebook
shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from atonc.doors.python.compilation import data_frame
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


class Result:
    """Something that has tables; the first of them is meant where none is named."""

    # of each kind: its tables, what was found in a line, and a plot, as the report makes them
    _made_tables: ClassVar[Callable[[Any], Tables]]
    _made_line: ClassVar[Callable[[Any], str]]
    _made_plot: ClassVar[Callable[[Any], str] | None] = None

    @property
    def tables(self) -> Tables:
        return type(self)._made_tables(self)

    @property
    def _line(self) -> str:
        return type(self)._made_line(self)

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
        plot = type(self)._made_plot
        return notebook.result_page(self._line, self.rows(), plot(self) if plot else "")


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
    _made_tables, _made_line = notebook.evaluation_tables, notebook.evaluation_line
    _made_plot = notebook.interval_plot


def _front_plot(found: Quantised) -> str:
    from atonc.insight.report.quantize_text import front_plot

    return front_plot(found.front)


class QuantisedResult(Result, Quantised):
    """`atonc.compile` takes it as it is."""

    _made_tables, _made_line = notebook.quantised_tables, notebook.quantised_line
    _made_plot = _front_plot


class SweepTable(Result, Sweep):
    _made_tables, _made_line = notebook.sweep_tables, notebook.sweep_line
    _made_plot = notebook.sweep_plot


class ComparisonResult(Result, Comparison):
    _made_tables, _made_line = notebook.comparison_tables, notebook.comparison_line
    _made_plot = notebook.both_timelines
