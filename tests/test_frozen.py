"""`atonc.machine.base.frozen.dataclass` against the one of the standard library."""

from __future__ import annotations

import dataclasses
import pickle
import re
from copy import copy
from dataclasses import FrozenInstanceError, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest

from atonc.machine.base import frozen
from atonc.machine.base.frozen import dataclass, replace


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    label: str = field(default="", compare=False)
    seen: list[int] = field(default_factory=list, hash=False)
    KIND: ClassVar[str] = "point"

    @cached_property
    def far(self) -> int:
        return self.x + self.y


@dataclass(frozen=True)
class Placed(Point):
    z: int = field(default=5, kw_only=True)
    kept: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class Thing:
    x: int


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x <= 0:
            raise ValueError("not positive")

    def __repr__(self) -> str:
        return "own"


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int


@dataclasses.dataclass(frozen=True)
class Library:
    x: int


def test_values_are_as_in_the_library() -> None:
    point = Point(1, label="a")
    assert (point.x, point.y, point.label, point.seen, point.KIND) == (1, 2, "a", [], "point")
    assert repr(point) == "Point(x=1, y=2, label='a', seen=[])"
    assert Point(1, seen=[3]).seen == [3] and Point(1).seen is not Point(1).seen
    assert [f.name for f in fields(Placed)] == ["x", "y", "label", "seen", "z", "kept"]
    placed = Placed(1, z=7)
    assert (placed.z, placed.kept) == (7, {}) and "kept" not in repr(placed)
    assert dataclasses.asdict(Nothing()) == {} and Nothing() == Nothing()


def test_equality_and_hash_take_the_fields_that_count() -> None:
    assert Point(1, label="a") == Point(1, label="b") and Point(1) != Point(2)
    assert hash(Point(1, seen=[1])) == hash(Point(1, seen=[2])) and Point(1, seen=[1]) != Point(1, seen=[2])
    assert Point(1) != Placed(1) and Point(1) != object()
    assert Thing(1) != Thing(1) and len({Thing(1), Thing(1)}) == 2
    assert hash(Positive(3)) == hash(Library(3))


def test_nothing_can_be_assigned_or_deleted() -> None:
    for value in (Point(1), Placed(1), Nothing()):
        with pytest.raises(FrozenInstanceError):
            value.x = 2  # type: ignore[misc, union-attr]
        with pytest.raises(FrozenInstanceError):
            del value.x  # type: ignore[misc, union-attr]


def test_replace_copies_and_pickles_work() -> None:
    assert replace(Placed(1, 3), x=2) == Placed(2, 3)
    assert Point(2).far == 4 and replace(Point(2), y=5).far == 7
    assert pickle.loads(pickle.dumps(Placed(1, z=2))) == Placed(1, z=2) == copy(Placed(1, z=2))


@pytest.mark.parametrize("replaced", [dataclasses.replace, replace])
def test_replace_is_the_library_s(replaced: Any) -> None:
    point = Point(2, label="a", seen=[1])
    assert point.far == 4  # remembered, which the copy must not be
    copied = replaced(point, y=5)
    assert (copied, copied.far, copied.label) == (Point(2, 5, seen=[1]), 7, "a") and copied.seen is point.seen
    assert replaced(Slotted(1), x=2) == Slotted(2) and replaced(Library(1), x=2) == Library(2)
    placed = Placed(1)
    placed.kept["known"] = 1
    assert replaced(placed, x=2).kept == {}  # made anew
    for value, wrong in ((point, "z"), (placed, "kept"), (Nothing(), "x"), (3, "x")):
        with pytest.raises((TypeError, ValueError)):
            replaced(value, **{wrong: 1})


def test_what_a_class_has_itself_stays() -> None:
    assert repr(Positive(1)) == "own"
    with pytest.raises(ValueError, match="not positive"):
        replace(Positive(1), x=0)


@pytest.mark.parametrize("arguments", [(), (1, 2, "", [], 5)])
def test_wrong_arguments_are_named_with_the_class(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        Point(*arguments)


def test_rare_options_are_the_library_s() -> None:
    assert not hasattr(Slotted(1), "__dict__") and Slotted(1) == Slotted(1)
    with pytest.raises(FrozenInstanceError):
        Slotted(1).x = 2  # type: ignore[misc]


def test_every_class_of_the_package_is_made_this_way() -> None:
    package = Path(frozen.__file__).parents[2]
    taken = re.compile(r"^from dataclasses import [^\n]*\bdataclass\b|@dataclasses\.dataclass", re.MULTILINE)
    others = [path for path in sorted(package.rglob("*.py")) if taken.search(path.read_text())]
    assert not others, "take `dataclass` from atonc/machine/base/frozen.py"


def test_fields_are_those_that_the_library_writes_down() -> None:
    """Everything that `fields`, `replace`, `asdict` and patterns read."""

    class Base:
        x: int
        y: int = 2
        label: str = field(default="", compare=False, metadata={"why": "shown"})
        seen: list[int] = field(default_factory=list, hash=False)

    class More(Base):
        y: str = "other"  # it keeps its place
        z: int = field(default=5, kw_only=True)

    def told(kind: Any) -> list[Any]:
        names = ("name", "type", "default", "default_factory", "init", "repr", "hash", "compare", "kw_only", "metadata")
        return [[getattr(one, name) for name in names] for one in fields(kind)]

    def made(maker: Any) -> tuple[Any, Any]:
        kept = ("x", "y", "z", "label", "seen", "__annotations__")
        first, second = ({k: copy(v) for k, v in vars(kind).items() if k in kept} for kind in (Base, More))
        base = maker(frozen=True)(type("Base", (), first))
        return base, maker(frozen=True)(type("More", (base,), second))

    for ours, theirs in zip(made(dataclass), made(dataclasses.dataclass), strict=True):
        assert told(ours) == told(theirs) and ours.__match_args__ == theirs.__match_args__
        assert all(hasattr(ours, one.name) == hasattr(theirs, one.name) for one in fields(theirs))
        assert dataclasses.is_dataclass(ours) and dataclasses.asdict(ours(1)) == dataclasses.asdict(theirs(1))


def test_a_default_that_can_be_changed_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass(frozen=True)
        class Wrong:
            seen: list[int] = []  # noqa: RUF012
