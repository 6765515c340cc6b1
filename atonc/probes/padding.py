"""Every combination of the four sides that a 3x3 convolution may pad, with both strides."""

from __future__ import annotations

from functools import partial
from itertools import product

from atonc.probes.convolution import PLAIN, Conv, convolutions
from atonc.probes.types import Probe, ProbeEpochs

_SIDE = 9
_CONTROL = "control-conv-3x3"
_NONE = "0000"  # no padding at all is another mode of the unit
_SEEN = {1: ("1111",), 2: ("0101", "1010", "0111", "1111")}  # left, right, top, bottom; S2 has the others
_KNOWN = {1: "all 1,241 published units of stride 1 pad every side", 2: "published with 0101, 1010, 0111, 1111, 0000"}


def _padded(sides: tuple[int, int, int, int], stride: int) -> ProbeEpochs:
    """A frame on which windows end exactly at its border."""
    left, right, top, bottom = sides
    height, width = (_SIDE - (a + b) % 2 for a, b in ((top, bottom), (left, right)))
    return convolutions(Conv(height, width, 4, 4, 3, (top, left, bottom, right), PLAIN, stride=stride))


def _probe(sides: tuple[int, int, int, int], stride: int) -> Probe:
    digits = "".join(map(str, sides))
    return Probe(
        f"conv-3x3-stride-{stride}-pads-{digits}",
        f"a 3x3 convolution of stride {stride} that pads {digits} (left, right, top, bottom)",
        _KNOWN[stride],
        partial(_padded, sides, stride),
        _CONTROL,
        argument="" if digits in (*_SEEN[stride], _NONE) else "S2",
    )


_SIDES = [(left, right, top, bottom) for left, right, top, bottom in product((0, 1), repeat=4)]
PROBES = tuple(_probe(sides, stride) for stride in (1, 2) for sides in _SIDES)
