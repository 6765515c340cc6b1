"""What one board answered to the probes: forms that ran as emulated, forms that did not, constants as measured."""

from __future__ import annotations

from dataclasses import dataclass

from atonc.hw.safety.evidence.grades import Feature


@dataclass(frozen=True)
class BoardEvidence:
    confirmed: frozenset[Feature] = frozenset()
    refuted: frozenset[Feature] = frozenset()
    distrusted: frozenset[str] = frozenset()  # arguments that a refuted form disproves
    constants: tuple[tuple[str, float], ...] = ()  # of `[timing]` and `[clocks]`, as measured


NO_ANSWERS = BoardEvidence()
