"""Sets of chains side by side in one epoch: was a set seen as part of a larger one?

What a set asks of the chip, a larger set that holds all of its chains asks too: as many units and engines beside each
other, and more. So such a part is stronger than chains that were only seen one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from atonc.machine.hw.safety.evidence.grades import Strength

NAME = "chains side by side"
_AND = " || "


def written(texts: Iterable[str]) -> str:
    """A set as one word."""
    return _AND.join(sorted(texts))


def chains(word: str) -> list[str]:
    return word.split(_AND)


def larger(word: str, seen: Mapping[str, Strength]) -> str | None:
    """The strongest seen set of which these chains, each as often as it is there, are a part."""
    mine = _counted(word)
    around = [other for other in seen if mine <= _counted(other)]
    return max(around, key=lambda other: (seen[other].programs, seen[other].times, other), default=None)


@lru_cache(maxsize=1 << 12)
def _counted(word: str) -> Counter[str]:
    return Counter(chains(word))
