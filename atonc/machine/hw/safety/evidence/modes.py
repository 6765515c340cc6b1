"""The discrete settings of a unit as one word: a mode was seen as a whole or it was not."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.safety.mode_keys import field_names, mode_key

NAME = "mode"


def mode(config: UnitConfig, port: str = "") -> tuple[str, str, str]:
    return NAME, "", ",".join(map(str, mode_key(config, port)))


def difference(feature: str, word: str, seen: Iterable[str]) -> str:
    """What sets a mode apart from the most similar one that was seen: the settings of that one."""
    mine = word.split(",")
    near = max((other.split(",") for other in seen), key=lambda other: sum(map(str.__eq__, mine, other)))
    triples = zip(field_names(feature.removesuffix(f" {NAME}")), mine, near, strict=True)
    return "only with " + ", ".join(f"{name} = {other}" for name, own, other in triples if own != other)
