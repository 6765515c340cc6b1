"""What verification found: of every tensor that the program holds, and of its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from math import inf
from typing import Any

from atonc.machine.base.cache import read_record
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.words import difference_text


@dataclass(frozen=True)
class LayerCheck:
    """One tensor that the program holds, in codes."""

    tensor: str
    kind: str
    node: str
    step: int | None  # None: nothing writes it
    on_cpu: bool
    through: int  # operators since the last observed tensors
    max_diff: float
    differ_percent: float
    limit: float
    chained: bool = False  # flows on inside an epoch: what it means was compared
    meant: bool = True  # what the mapping says that it computes, where that was looked at
    room: float = inf  # times its largest sum that units could hand on; without end: no input saturates one
    op: str = ""  # whose result it is
    declared: float = 0.0  # codes that its form says it may be off
    own: bool = False  # beyond its limit, value for value what its form means: the form is coarser than it declares
    as_vendor: bool = False  # beyond its limit, value for value as the vendor's roundings give it
    poor: bool = False  # further off than a layer may be unless the user allows it
    is_wide: bool = False  # LSB of 16 bits
    __repr__ = brief

    @property
    def bad(self) -> bool:
        return not self.meant or not self.max_diff <= self.limit  # what is not a number is bad


@dataclass(frozen=True)
class OutputCheck:
    """An output against exact arithmetic. One LSB of a float output is that of the codes which it comes from."""

    name: str
    cosine: float
    max_lsb: float
    exact_percent: float
    within1_percent: float
    max_error: float  # in real values
    span: float  # of the exact values, largest minus smallest, in real values
    blank: bool  # no exact value is a finite number: nothing was compared
    is_float: bool = False

    @property
    def worst_text(self) -> str:
        """The largest error: in LSB, of floats in real values beside their range."""
        if not self.is_float:
            return f"max error {self.max_lsb:g} LSB"
        return f"max error {difference_text(self.max_error, self.span)}"


@dataclass(frozen=True)
class VerifyReport:
    """Every layer within its limit; free-running outputs against exact arithmetic of the canonical graph."""

    samples: int
    outputs: tuple[OutputCheck, ...]
    layers: int = 0
    worst_layer: float = 0.0  # codes
    checks: tuple[LayerCheck, ...] = ()  # every tensor, its worst of all samples
    tensors: int = 0  # that were compared: those in memory, and those that flow on inside an epoch
    __repr__ = brief

    @property
    def worst_text(self) -> str:
        """How far layers are from exact arithmetic, and how far the compiler declares that they may be."""
        if not self.worst_layer:
            return "all exact"
        limit = max((check.limit for check in self.checks), default=0.0)
        wide = any(check.is_wide for check in self.checks if check.max_diff == self.worst_layer)
        unit = "LSB (int16)" if wide else "LSB"
        return f"max error {self.worst_layer:.3g} {unit} per layer (limit {limit:g})"

    @property
    def tightest(self) -> LayerCheck | None:
        """The layer whose sums came nearest to what units can hand on; None where no input saturates any."""
        return min((check for check in self.checks if check.room < inf), key=lambda check: check.room, default=None)

    @property
    def sums(self) -> str:
        """How much room they have, in words."""
        least = self.tightest
        if least is None:
            return "no input saturates a sum"
        if least.room < 1:
            return f"sums of {least.node} reach {1 / least.room:.2g}x the accumulator range, where results saturate"
        return f"accumulator headroom {least.room:.3g}x ({least.node})"

    @property
    def as_vendor(self) -> int:
        """Layers beyond their limit that round, value for value, as the vendor does."""
        return sum(check.as_vendor for check in self.checks)

    @cached_property
    def by_tensor(self) -> Mapping[str, list[LayerCheck]]:
        found: dict[str, list[LayerCheck]] = {}
        for check in self.checks:
            found.setdefault(check.tensor, []).append(check)
        return found


def as_json(report: VerifyReport) -> dict[str, Any]:
    return asdict(report)


def read_report(row: Mapping[str, Any]) -> VerifyReport:
    """As it was written; TypeError or ValueError for anything else."""
    outputs = tuple(read_record(OutputCheck, one) for one in row["outputs"])
    checks = tuple(read_record(LayerCheck, one) for one in row["checks"])
    return read_record(VerifyReport, row, outputs=outputs, checks=checks)
