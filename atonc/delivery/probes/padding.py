"""Every combination of the four sides that a 3x3 convolution may pad, with both strides."""

from __future__ import annotations

from functools import partial
from itertools import product

from atonc.delivery.probes.convolution import PLAIN, Conv, convolutions
from atonc.delivery.probes.types import Probe, ProbeEpochs

Sides = tuple[int, int, int, int]  # left, right, top, bottom
_SIDE = 9
_CONTROL = "control-conv-3x3"
_NONE = "0000"  # no padding at all is another mode of the unit
_SEEN = ("0101", "1010", "0111", "1111")  # with stride 2; S2 has the others, and none with stride 1
_EVERY_SIDE = "1111"  # with stride 1 it is the control
_KNOWN = {
    1: "a published unit of stride 1 pads every side or none; no argument stands for the others",
    2: "published with 0101, 1010, 0111, 1111, 0000",
}


def _padded(sides: Sides, stride: int) -> ProbeEpochs:
    """A frame on which windows end exactly at its border."""
    left, right, top, bottom = sides
    height, width = (_SIDE - (a + b) % 2 for a, b in ((top, bottom), (left, right)))
    return convolutions(Conv(height, width, 4, 4, 3, (top, left, bottom, right), PLAIN, stride=stride))


def _digits(sides: Sides) -> str:
    return "".join(map(str, sides))


def _probe(sides: Sides, stride: int) -> Probe:
    digits = _digits(sides)
    return Probe(
        f"conv-3x3-stride-{stride}-pads-{digits}",
        f"a 3x3 convolution of stride {stride} that pads {digits} (left, right, top, bottom)",
        _KNOWN[stride],
        partial(_padded, sides, stride),
        _CONTROL,
        argument="" if stride == 1 or digits in (_NONE, *_SEEN) else "S2",
    )


_EVERY: list[Sides] = [(left, right, top, bottom) for left, right, top, bottom in product((0, 1), repeat=4)]
PROBES = (
    *(_probe(sides, 1) for sides in _EVERY if _digits(sides) != _EVERY_SIDE),
    *(_probe(sides, 2) for sides in _EVERY),
)
