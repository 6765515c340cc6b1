"""Long tensors in parts that run side by side in one epoch."""

from __future__ import annotations

from math import lcm

from atonc.compiler.plan.policy import WORTH_CUTTING
from atonc.machine.hw.limits import ALIGNED


def parts(elements: int, ways: int, block: int = 1) -> list[tuple[int, int]]:
    """First element and count of at most `ways` parts; cuts lie between blocks and at aligned addresses."""
    step = lcm(block, ALIGNED)
    ways = min(ways, max(1, elements // WORTH_CUTTING))
    size = -(-elements // ways // step) * step if ways > 1 else elements
    size = max(size, 1)
    return [(start, min(size, elements - start)) for start in range(0, elements, size)]
