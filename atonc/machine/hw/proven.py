"""What public networks were seen to do, as data with its evidence. Files written by tools/gen_proven.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from atonc.machine.base.frozen import dataclass


class Level(StrEnum):
    """How well a form is proven."""

    SHIPPED = "shipped"  # in a program that ST ships as a working demo
    SEEN = "seen"  # in a program compiled by ST's tool, published by others
    NEVER = "never seen"


@dataclass(frozen=True)
class Sighting:
    """How often something was seen, where, and one example."""

    count: int = 0
    networks: int = 0
    shipped: int = 0  # of these networks, shipped by ST
    releases: Mapping[str, int] | None = None
    example: str = ""

    @property
    def level(self) -> Level:
        if self.shipped:
            return Level.SHIPPED
        return Level.SEEN if self.count else Level.NEVER

    def __str__(self) -> str:
        if not self.count:
            return str(Level.NEVER)
        return f"{self.level}: {self.count} times in {self.networks} networks, {self.shipped} of them shipped by ST"


NEVER_SEEN = Sighting()


@dataclass(frozen=True)
class PublishedNetwork:
    name: str  # repository:path
    release: str
    mode: str  # EC or CPU
    hardware_epochs: int
    shipped: bool


@cache
def load(name: str) -> dict[str, list[Any]]:
    text = resources.files("atonc.machine.hw").joinpath("safety", "data", f"{name}.json").read_text(encoding="ascii")
    sections: dict[str, list[Any]] = json.loads(text)
    return sections


@cache
def networks() -> tuple[PublishedNetwork, ...]:
    """The programs behind the evidence."""
    return tuple(PublishedNetwork(*row) for row in load("networks")["networks"])


def sighting(row: list[Any]) -> Sighting:
    count, in_networks, shipped, per_release, (network, epoch) = row
    releases = {name: n for name, n in zip(load("networks")["releases"], per_release, strict=True) if n}
    return Sighting(count, in_networks, shipped, releases, f"{networks()[network].name}, epoch {epoch}")
