"""What the functions of the interface give back: what was found below, with its tables, in one line, and as a notebook
shows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from atonc.doors.python.compilation import data_frame
from atonc.insight.estimating.estimate import Estimate
from atonc.insight.evaluating.run import Evaluation
from atonc.insight.explain.compare import Comparison
from atonc.insight.quantizing.types import Quantised
from atonc.insight.sweeping.run import Sweep
from atonc.insight.validating.judging import MIN_COSINE, complaints
from atonc.insight.validating.validating import Validation
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import instead

if TYPE_CHECKING:
    from atonc.insight.report.document import Document

_LINE = 200  # characters
Rows = list[dict[str, Any]]


class Result(ABC):
    """Something that has tables; the first of them is meant where none is named."""

    @property
    @abstractmethod
    def document(self) -> Document:
        """What the verb of the same name prints, as sections and figures; `.data()` is its JSON."""

    @classmethod
    def of(cls, found: Any, **more: Any) -> Self:
        """What was found below, with these abilities."""
        return cls(**{member.name: getattr(found, member.name) for member in fields(found)}, **more)

    @property
    def tables(self) -> Mapping[str, Rows]:
        return self.document.tables

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
        line = plain(f"<{self.document.line}; to_pandas() has {', '.join(self.tables)}>")
        return line if len(line) <= _LINE else f"{line[: _LINE - 4]}...>"

    def _repr_html_(self) -> str:
        from atonc.insight.report.notebook import fragment

        return fragment(self.document)


@dataclass(frozen=True, repr=False)
class ValidationResult(Result, Validation):
    """What `atonc.validate` found.

    >>> found = atonc.validate("examples/digits/digits.tflite", batches=2, io_only=True)
    >>> found.passed, found.complaints, found.rows()[0]["name"]
    (True, (), 'probabilities')
    """

    min_cosine: float = MIN_COSINE  # outputs this close pass

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"

    @property
    def verdict(self) -> str:
        """passed, failed, or cannot judge: a package that decides is not installed."""
        from atonc.insight.report.validate_text import verdict_of

        return verdict_of(self, self.min_cosine)

    @property
    def complaints(self) -> tuple[str, ...]:
        """A sentence for each reason to fail."""
        return tuple(complaints(self, self.min_cosine))

    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.validate_text import document

        return document(self, self.min_cosine)


class EvaluationResult(Result, Evaluation):
    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.evaluate_text import document

        return document(self)


class QuantisedResult(Result, Quantised):
    """`atonc.compile` takes it as it is."""

    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.quantize_text import document

        return document(self, "")


class EstimateResult(Result, Estimate):
    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.estimate_text import document

        return document(self, every=True)


class SweepTable(Result, Sweep):
    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.sweep_text import document

        return document(self)


class ComparisonResult(Result, Comparison):
    @cached_property
    def document(self) -> Document:
        from atonc.insight.report.compare_text import document

        return document(self)
