"""Rules and reasons: every decision and every complaint points at one rule, with the evidence behind it.

A `Rule` is stated once, beside the unit or family it belongs to; a `Reason` says where it applied and what was seen.
Text, JSON and the generated reference are views of these objects.
"""

from __future__ import annotations

from enum import StrEnum

from atonc.machine.base.frozen import dataclass


class Severity(StrEnum):
    """What a broken rule means for the user."""

    VIOLATION = "violation"  # no public network does this, or it was reported to hang: do not run it
    UNPROVEN = "unproven"  # nobody has been seen doing it; may work
    NOTE = "note"  # worth knowing: rare, or a documented exception


@dataclass(frozen=True)
class Evidence:
    """How often a statement held of how often it was tested, or the report that it rests on."""

    holds: int = 0
    of: int = 0
    what: str = ""  # what was counted
    report: str = ""  # in words, where no count exists or exceptions are known

    def __str__(self) -> str:
        counted = f"{self.holds} of {self.of} {self.what}".rstrip() if self.of else ""
        return "; ".join(part for part in (counted, self.report) if part)


@dataclass(frozen=True)
class Rule:
    """A limit of the hardware or a habit that every known program keeps, in the words that users read."""

    id: str
    family: str
    sentence: str
    evidence: Evidence
    remedy: str
    limit: str = ""
    severity: Severity = Severity.VIOLATION

    def as_dict(self) -> dict[str, str]:
        return {
            "id": self.id,
            "family": self.family,
            "sentence": self.sentence,
            "evidence": str(self.evidence),
            "limit": self.limit,
            "remedy": self.remedy,
            "severity": str(self.severity),
        }


@dataclass(frozen=True)
class Reason:
    """A rule applied at one place: what was seen there, and the limit in numbers."""

    rule: Rule
    seen: str
    limit: str = ""


@dataclass(frozen=True)
class Violation(Reason):
    """A reason to distrust an epoch. `severity` may be milder than the rule's where exceptions are documented."""

    epoch: int | None = None
    unit: str = ""
    severity: Severity = Severity.VIOLATION

    @property
    def where(self) -> str:
        epoch = "" if self.epoch is None else f"epoch {self.epoch}"
        return ", ".join(part for part in (epoch, self.unit) if part)

    def __str__(self) -> str:
        limit = f" (limit: {self.limit})" if self.limit else ""
        head = f"{self.where}: " if self.where else ""
        return f"{head}{self.severity} {self.rule.id}: {self.seen}{limit}. Rule: {self.rule.sentence}."

    def as_dict(self) -> dict[str, str | int | None]:
        return {
            "severity": str(self.severity),
            "rule": self.rule.id,
            "epoch": self.epoch,
            "unit": self.unit,
            "seen": self.seen,
            "limit": self.limit,
            "sentence": self.rule.sentence,
            "evidence": str(self.rule.evidence),
            "remedy": self.rule.remedy,
        }


@dataclass(frozen=True)
class CheckResult:
    name: str  # the option that asks for it, or what was looked at
    holds: bool
    says: str  # what was seen, and the limit
    unjudged: bool = False  # something that decides it is missing here: it neither holds nor is broken

    @property
    def broken(self) -> bool:
        return not self.holds and not self.unjudged
