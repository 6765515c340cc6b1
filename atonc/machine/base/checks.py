"""What was asked of a network and whether it holds: gates, verdicts, comparisons. Doors turn them into reports."""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class CheckResult:
    name: str  # the option that asks for it, or what was looked at
    holds: bool
    says: str  # what was seen, and the limit
