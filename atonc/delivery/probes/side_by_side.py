"""Convolutions side by side in one epoch: does each compute what it does alone, and how long do they take together."""

from __future__ import annotations

from functools import partial

from atonc.delivery.probes.convolution import NO_PADS, ONE, PACKED, PLAIN, Conv, convolutions
from atonc.delivery.probes.types import Probe

_WINDOWS = Conv(28, 28, 4, 4, 3, ONE, PLAIN)
_POINTS = Conv(14, 14, 96, 8, 1, NO_PADS, PACKED)
_COUNTS = {1: "one", 2: "two", 3: "three"}
_KINDS = (("conv-3x3", "3x3 convolution", _WINDOWS), ("deep-1x1", "deep 1x1 convolution", _POINTS))
_KNOWN = {
    1: "published",
    2: "published as part of larger sets of chains; alike ones beside each other are composed (S1)",
    3: "18 published sets have three chains of convolutions, others than these",
}


def _probe(kind: str, words: str, conv: Conv, lanes: int) -> Probe:
    alone = f"{kind}-alone-28" if conv is _WINDOWS else f"{kind}-alone-14"
    plural = "" if lanes == 1 else "s"
    return Probe(
        alone if lanes == 1 else f"{kind}-{_COUNTS[lanes]}-side-by-side",
        f"{_COUNTS[lanes]} {words}{plural} of {conv.height}x{conv.width}x{conv.channels} in one epoch",
        _KNOWN[lanes],
        partial(convolutions, conv, lanes),
        "" if lanes == 1 else alone,
        argument="" if lanes == 1 else "S1",
    )


PROBES = tuple(_probe(kind, words, conv, lanes) for kind, words, conv in _KINDS for lanes in _COUNTS)
