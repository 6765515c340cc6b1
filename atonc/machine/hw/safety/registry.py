"""`@rule`: how a check becomes a rule with an id, a sentence, evidence and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Evidence, Rule, Severity
from atonc.machine.hw.safety.view import EpochView


@dataclass(frozen=True)
class SafetyFinding:
    """One place where a rule does not hold; `severity` where it is milder than the rule's own."""

    unit: str
    seen: str
    limit: str = ""
    severity: Severity | None = None


Check = Callable[[EpochView], Iterator[SafetyFinding]]


@dataclass(frozen=True)
class CheckedRule:
    rule: Rule
    check: Check


_RULES: dict[str, CheckedRule] = {}


def proven(count: int, what: str, report: str = "") -> Evidence:
    """Held every time it was tested."""
    return Evidence(count, count, what, report)


def rule(
    id: str,
    family: str,
    sentence: str,
    evidence: Evidence,
    *,
    remedy: str,
    limit: str = "",
    severity: Severity = Severity.VIOLATION,
) -> Callable[[Check], Check]:
    """Registers a check of one epoch."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"rule {id} is defined twice")
        _RULES[id] = CheckedRule(Rule(id, family, sentence, evidence, remedy, limit, severity), check)
        return check

    return register


def registered() -> tuple[CheckedRule, ...]:
    """Lists the rules in the order of their definition."""
    return tuple(_RULES.values())
