"""What an independent check of a plan says: which rule does not hold, where, and what was seen there."""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Finding:
    rule: str
    where: str
    seen: str
