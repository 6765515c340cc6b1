"""DECUN and RECBUF: decompression and reconfigurable buffers. No public network uses them: shown, never executed."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields


@dataclass(frozen=True)
class DecunConfig(fields.UnitConfig):
    KIND = "DECUN"


@dataclass(frozen=True)
class RecbufConfig(fields.UnitConfig):
    KIND = "RECBUF"


def decode(kind: str, words: Mapping[int, int]) -> fields.UnitConfig:
    return fields.decode(DecunConfig if kind == "DECUN" else RecbufConfig, words)


def check(config: fields.UnitConfig, unit: str) -> None:
    raise fields.not_modelled(unit, f"use of {config.KIND}", 1)
