"""Words of three bytes, in which engines bring features and kernels to units of the deep mode: where they may lie."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.compiler.lower.conv.chains import FeatureMode
from atonc.compiler.lower.conv.engines import PACKED
from atonc.compiler.plan.streams import Area

EVEN = 2  # such words were read from even addresses
FLAT = 16  # and a whole frame of them, without steps, from such an address


def can_read(mode: FeatureMode, areas: Iterable[Area], batch: int) -> bool:
    """Whether an engine reads so many channels of these pictures in the words that units of the mode take."""
    if not mode.deep:
        return True
    if mode.packed_frame:
        return all(batch == area.channels and _in_a_row(area) for area in areas)
    return all(packable(area) and _words_fit(area, batch) for area in areas)


def _in_a_row(area: Area) -> bool:
    """Whether packed words may be read across all pixels."""
    return area.contiguous and area.offset % FLAT == 0


def packable(area: Area) -> bool:
    """Whether packed words may be read from all pixels."""
    steps = [area.pixel] * (area.width > 1) + [area.line] * (area.height > 1)
    return area.offset % EVEN == 0 and not any(step % PACKED for step in steps)


def _words_fit(area: Area, batch: int) -> bool:
    """Whether the last word of a pixel ends inside it: words that reach into the next pixel were never seen."""
    steps = [area.pixel] * (area.width > 1) + [area.line] * (area.height > 1)
    return all(-(-batch // 3) * 3 <= step for step in steps)
