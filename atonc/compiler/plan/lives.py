"""From which step to which a memory holds something, and how many bytes that is at every step."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # first and last step


def spans(
    touched: Iterable[Iterable[str]], starts: Collection[str] = (), ends: Collection[str] = ()
) -> dict[str, Span]:
    """By name: the first and the last step that touches it. The application writes `starts` before the first step and
    reads `ends` behind the last one, as far as any step touches them."""
    found: dict[str, Span] = {}
    last = -1
    for last, names in enumerate(touched):
        for name in names:
            found[name] = (found.get(name, (last, last))[0], last)
    found |= {name: (0, found[name][1]) for name in starts if name in found}
    return found | {name: (found[name][0], last) for name in ends if name in found}


def live_bytes(lives: Iterable[tuple[int, int, int]], steps: int = 0) -> NDArray[np.int64]:
    """At every step, of `steps` or as many as there are: each life is a size with its first and last step."""
    lives = list(lives)
    changes = np.zeros(max(steps, 1 + max((last for _, _, last in lives), default=0)) + 1, np.int64)
    for size, first, last in lives:
        changes[first] += size
        changes[last + 1] -= size
    return np.cumsum(changes[:-1])
