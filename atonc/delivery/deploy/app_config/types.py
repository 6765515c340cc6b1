"""What a header says, before it is text; and how one kind of model describes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TypeVar

from atonc.delivery.deploy.config import DeployConfig
from atonc.delivery.deploy.model_facts import ModelFacts
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

_T = TypeVar("_T")
ZOO, CURRENT = "zoo", "current"  # as the zoo's generator spells it, and as applications of today do
DIALECTS = (ZOO, CURRENT)


@dataclass(frozen=True)
class Define:
    name: str
    value: str = ""


@dataclass(frozen=True)
class HeaderTable:
    """An array of numbers."""

    name: str
    length: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class HeaderComment:
    """A comment in front of what follows."""

    text: str


Line = Define | HeaderTable | HeaderComment


@dataclass(frozen=True)
class Header:
    file: str  # its name
    guard: str
    lines: tuple[Line, ...]
    includes: tuple[str, ...] = ()
    plain_c: bool = False  # also for C++ units: names as in C


@dataclass(frozen=True)
class Case:
    """Everything that a row may ask."""

    config: DeployConfig
    model: ModelFacts
    dialect: str
    classes: tuple[str, ...] = ()

    @property
    def current(self) -> bool:
        return self.dialect == CURRENT

    def number(self, key: str) -> float:
        return float(self.config.settings.require(key))

    def whole(self, key: str) -> int:
        return int(self.config.settings.require(key))

    def wrong(self, key: str, what: str, remedy: str = "") -> InputError:
        return self.config.settings.error(key, f"{what} ({self.model.name})", remedy=remedy)


Row = tuple[str, Callable[[Case], str]]


@dataclass(frozen=True)
class Family:
    """Models that one kind of post-processing understands.

    `postprocess` names it, by the type of the network's outputs; `rows` are its numbers behind `prefix`; `tables` its
    arrays. `check` raises where file and model disagree.
    """

    use_case: str
    model_types: tuple[str, ...]
    prefix: Mapping[str, str] = field(default_factory=dict)  # by dialect
    postprocess: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # dialect -> output type -> name
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)  # by dialect
    more: Callable[[Case], Iterator[Line]] | None = None  # lines that have no prefix, or are no numbers
    check: Callable[[Case], None] | None = None
    background: bool = False  # the model has a class for nothing, in front of the others
    sizes: bool = True  # the application wants the size of the picture


def bracketed(value: object) -> str:
    return f"({value})"


def threshold(key: str) -> Callable[[Case], str]:
    return lambda case: bracketed(case.number(f"postprocessing.{key}"))


def count(key: str) -> Callable[[Case], str]:
    return lambda case: bracketed(case.whole(f"postprocessing.{key}"))


CONFIDENCE: Row = ("CONF_THRESHOLD", threshold("confidence_thresh"))
OVERLAP: Row = ("IOU_THRESHOLD", threshold("NMS_thresh"))
MOST_BOXES: Row = ("MAX_BOXES_LIMIT", count("max_detection_boxes"))


def both(value: _T) -> Mapping[str, _T]:
    """The same in every dialect."""
    return {dialect: value for dialect in DIALECTS}
