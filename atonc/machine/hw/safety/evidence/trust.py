"""What a compilation relies on: published programs, the arguments that the user believes, what a board has answered."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from functools import cache
from typing import TypeVar

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.four_bits import ASSUMED, FourBits
from atonc.machine.hw.safety.evidence import arith, streng
from atonc.machine.hw.safety.evidence.arguments import argument_for
from atonc.machine.hw.safety.evidence.board import NO_ANSWERS, BoardEvidence
from atonc.machine.hw.safety.evidence.epochs import named
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded, UnitGrade
from atonc.machine.hw.safety.evidence.table import grade as by_data
from atonc.machine.hw.safety.evidence.writers import MANY
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

K = TypeVar("K")
V = TypeVar("V")

ON_CHIP = "on-chip"
_MOST = 1 << 16  # features, and units, that are remembered


@dataclass(frozen=True, eq=False)
class Trust:
    """Grades depend on it, so it remembers them."""

    worst: Grade = Grade.COMPOSED  # of forms that may be used
    distrusted: frozenset[str] = frozenset()  # arguments that nothing may rest on
    unproven: bool = False  # what is worse may be used where nothing else is left
    asked: frozenset[Feature] = frozenset()  # forms that the user wants by name, whatever their grade
    board: BoardEvidence = NO_ANSWERS
    _features: dict[Feature, Graded] = field(default_factory=dict, init=False, repr=False)
    _units: dict[Hashable, UnitGrade] = field(default_factory=dict, init=False, repr=False)

    @property
    def four_bits(self) -> FourBits | None:
        """How engines read kernels of 4 bits, where they may: as the board answered, else as is assumed."""
        if streng.NARROW in self.board.refuted:
            return None
        return self.board.four_bits or (ASSUMED if streng.NARROW in self.asked else None)

    def allows(self, graded: Graded) -> bool:
        if graded.feature in self.asked:
            return True
        return graded.grade.rank <= self.worst.rank and not (self._on_request(graded) and self.worst != Grade.UNSEEN)

    def _on_request(self, graded: Graded) -> bool:
        """Three and more interleaved writers: nobody has run them, and they bring little, so that being composed does
        not do; a board that confirmed them does."""
        return graded.feature in MANY and graded.grade == Grade.COMPOSED

    def allows_all(self, unit: UnitGrade) -> bool:
        return unit.grade.rank <= self.worst.rank or all(map(self.allows, unit.features))

    def grade(self, feature: Feature) -> Graded:
        found = self._features.get(feature)
        if found is None:
            found = self._features[feature] = self._graded(feature)
            _forget(self._features)
        return found

    def _graded(self, feature: Feature) -> Graded:
        """Grades by the board; by the data; where that says unseen, by the arguments."""
        if feature in self.board.refuted:
            return Graded(feature, Grade.UNSEEN, "refuted by a board")
        if feature in self.board.confirmed:
            return Graded(feature, Grade.SEEN, "on this board")
        found = by_data(feature)
        if found.grade != Grade.UNSEEN:
            return found
        argument = argument_for(feature, self.distrusted | self.board.distrusted)
        return found if argument is None else Graded(feature, Grade.COMPOSED, found.seen, argument.id)

    def grade_unit(self, config: UnitConfig, port: str = "", memory: str = ON_CHIP) -> UnitGrade:
        """Every feature of a unit; `port` is what a stream engine is for: `to CONVACC:0`, `from ARITH`."""
        key = _likeness(config, port, memory)
        found = self._units.get(key)
        if found is None:
            kind, listed = config.KIND, named(config, port, memory)
            graded = tuple(self.grade(Feature(_of_kind(kind, name), role, value)) for name, role, value in listed)
            found = self._units[key] = UnitGrade.of(graded)
            _forget(self._units)
        return found


PUBLISHED = Trust()  # published programs, and all arguments
ANYTHING = Trust(Grade.UNSEEN)


@cache
def _of_kind(kind: str, name: str) -> str:
    """Always the same object: its hash is known."""
    return f"{kind} {name}"


def _forget(known: dict[K, V]) -> None:
    if len(known) > _MOST:
        known.pop(next(iter(known)))


def _likeness(config: UnitConfig, port: str, memory: str) -> Hashable:
    if isinstance(config, StrengConfig):
        return "STRENG", streng.likeness(config), port, memory
    return ("ARITH", arith.likeness(config)) if isinstance(config, ArithConfig) else config
