"""What a compilation relies on: published programs, the arguments that the user believes, what a board has answered."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import field
from functools import cache, lru_cache
from sys import maxsize
from typing import TypeVar

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.four_bits import ASSUMED, FourBits
from atonc.machine.hw.limits import LEAST_FRAME
from atonc.machine.hw.safety.evidence.arguments import argument_for
from atonc.machine.hw.safety.evidence.board_file import NO_ANSWERS, BoardEvidence
from atonc.machine.hw.safety.evidence.epochs import MANY, RUN, named
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded, Named, UnitGrade, Value
from atonc.machine.hw.safety.evidence.table import SeenNumbers, evidence, words
from atonc.machine.hw.safety.evidence.table import grade as by_data
from atonc.machine.hw.safety.evidence.unit_features import MODE, NARROW, arith_likeness, kernel_of, streng_likeness
from atonc.machine.hw.safety.mode_keys import Key
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
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
    _features: dict[tuple[str, str, Value], Graded] = field(default_factory=dict, init=False, repr=False)
    _units: dict[Hashable, UnitGrade] = field(default_factory=dict, init=False, repr=False)

    @property
    def four_bits(self) -> FourBits | None:
        """How engines read kernels of 4 bits, where they may: as the board answered, else as is assumed."""
        if NARROW in self.board.refuted:
            return None
        return self.board.four_bits or (ASSUMED if NARROW in self.asked else None)

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
            shifted = isinstance(config, ConvaccConfig) and (config.in_shift or config.out_shift)
            graded = self._shifted(config) if shifted else self.grades(config.KIND, named(config, port, memory))
            found = self._units[key] = UnitGrade(tuple(graded))
            _forget(self._units)
        return found

    def grades(self, kind: str, listed: Iterable[Named]) -> list[Graded]:
        features = [(_of_kind(kind, name), role, value) for name, role, value in listed]  # equal to a Feature
        return [self._features.get(one) or self.grade(Feature(*one)) for one in features]

    def _shifted(self, config: UnitConfig) -> Iterator[Graded]:
        """Those of a convolution: all but those of its shifts are the same without them, and mostly known."""
        for one in self.grade_unit(changed(config, in_shift=0, out_shift=0)).features:
            name, role, _ = one.feature
            shift = _SHIFTS.get(name)
            yield one if shift is None else self.grade(Feature(name, role, vars(config)[shift]))


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
        return "STRENG", streng_likeness(config), port, memory
    return ("ARITH", arith_likeness(config)) if isinstance(config, ArithConfig) else config


_SIDES = ("top", "left", "bottom", "right")


def chain_seen(text: str) -> bool:
    """Whether a published program has a chain of this canonical text."""
    return PUBLISHED.grade(Feature("chain", "", text)).grade != Grade.UNSEEN


def mode_seen(kind: str, key: Key) -> bool:
    """Whether a published program has a unit of this kind with these settings."""
    return ",".join(map(str, key)) in words(f"{kind} {MODE}")


def multicast_seen(kind: str, ports: Iterable[str]) -> bool:
    """Whether a unit of this kind feeds these ports, each `KIND:number`, in a published program."""
    return PUBLISHED.grade(Feature("multicast", kind, " ".join(sorted(ports)))).grade != Grade.UNSEEN


def padding_seen(c: ConvaccConfig) -> bool:
    """Whether each side was seen, with whatever else on the other sides."""
    pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
    return all(low <= pad <= high for pad, (low, high) in zip(pads, _padding(kernel_of(c)), strict=True))


def frame_seen(c: ConvaccConfig) -> bool:
    """Whether frames as small as this one were seen with these windows, in whatever mode."""
    return min(c.width, c.height) >= _least_frame(kernel_of(c))


_OF_PICTURES = ("W", "H", "output width", "output height", "pads left right top bottom", "FSUB")
_SHIFTS = {"CONVACC INSHIFT": "in_shift", "CONVACC OUTSHIFT": "out_shift"}


def picture_trusted(c: ConvaccConfig, trust: Trust) -> bool:
    """Whether units of these settings may be relied on with pictures and results of these sizes and this padding, and
    with this zero point, however they are cut: a single line of 3x3 windows, say, was seen with features of two bytes
    only."""
    listed = (one for one in named(c) if one[0] in _OF_PICTURES)
    return all(map(trust.allows, trust.grades(c.KIND, listed)))


def units_trusted(units: Iterable[ConvaccConfig], trust: Trust) -> bool:
    return all(trust.allows_all(trust.grade_unit(unit)) for unit in units)


@lru_cache(maxsize=1 << 12)
def padding_grade(window: tuple[int, int], stride: int, sides: tuple[int, int, int, int], trust: Trust) -> Graded:
    """Grades a window of rows x columns with zeros at top, left, bottom and right."""
    (rows, columns), (top, left, bottom, right) = window, sides
    pads = f"{left} {right} {top} {bottom}"
    return trust.grade(Feature("CONVACC pads left right top bottom", f"{columns}x{rows}/{stride}", pads))


@lru_cache(maxsize=64)
def longest_run(trust: Trust) -> int:
    """Bytes in a row that each of two interleaved writers may have."""
    known = evidence()[RUN][""]
    most = known.values[-1] if isinstance(known, SeenNumbers) else 0
    return maxsize if trust.allows(trust.grade(Feature(RUN, "", most + 1))) else most


@lru_cache(maxsize=64)
def gaps_trusted(trust: Trust) -> bool:
    """Whether engines may leave out columns of the lines that they read: published ones read whole lines."""
    return trust.allows(trust.grade(Feature("STRENG lines", "read", "gaps")))


def operands(name: str, role: str, formatted: tuple[int, int], trust: Trust) -> tuple[int, int]:
    """Least and most value: all of its number format, or what was seen where nothing else is relied on."""
    if all(trust.allows(trust.grade(Feature(name, role, end))) for end in formatted):
        return formatted
    table = evidence()[name][role]
    assert isinstance(table, SeenNumbers)
    return table.values[0], table.values[-1]


@cache
def _padding(role: str) -> tuple[tuple[int, int], ...]:
    """Least and most of each side; anything for windows that were never seen, which another rule complains about."""
    tables = [evidence()[f"CONVACC pad {side}"].get(role) for side in _SIDES]
    return tuple((t.values[0], t.values[-1]) if isinstance(t, SeenNumbers) else (0, 1 << 16) for t in tables)


@cache
def _least_frame(role: str) -> int:
    """Lines and columns."""
    rows = (row for size in "WH" for row in evidence()[f"CONVACC {size}"].items())
    least = [table.values[0] for name, table in rows if name.split()[0] == role and isinstance(table, SeenNumbers)]
    return min(least, default=LEAST_FRAME)
