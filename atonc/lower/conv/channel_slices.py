"""Layers whose sums go beyond what units hand on: slices of the input channels, each summed by itself.

Every slice leaves 16 bits in memory, and ARITHs add them up. No input takes the sum of a slice beyond its 24 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from atonc.hw.limits import MAX_CHAIN, SUM_LIMIT
from atonc.lower.conv.chains import limits
from atonc.lower.conv.kernel_parts import Part
from atonc.lower.conv.layer import Layer
from atonc.lower.conv.reach import ends
from atonc.lower.conv.weight_sums import extreme_sums

ALIGNED = 16  # channels: packed words begin there


def slicings(layer: Layer, parts: tuple[Part, ...], first: int, count: int) -> Iterator[tuple[Part, ...]]:
    """Ways worth trying: as few slices as sums allow, and so many that each is summed without a rounding on the way."""
    channels = parts[0].weights.shape[3]
    deepest = max((limits(mode, *parts[0].window).channels for mode in layer.modes()), default=1) * MAX_CHAIN
    least = -(-_most(layer, parts, first, count) // SUM_LIMIT)
    numbers = range(max(2, least), channels + 1)
    fewest = next((n for n in numbers if _most(layer, sliced(parts, n), first, count) <= SUM_LIMIT), 0)
    for number in dict.fromkeys((fewest, max(fewest, -(-channels // deepest)))) if fewest else ():
        yield sliced(parts, number)


def sliced(parts: tuple[Part, ...], number: int) -> tuple[Part, ...]:
    """Each part over so many slices of its channels, those of one slice in a group of their own."""
    channels = parts[0].weights.shape[3]
    step = -(-channels // number)
    step = -(-step // ALIGNED) * ALIGNED if channels >= number * ALIGNED else step
    return tuple(_slice(part, k, start, step) for k, start in enumerate(range(0, channels, step)) for part in parts)


def _slice(part: Part, number: int, first: int, step: int) -> Part:
    count = min(step, part.weights.shape[3] - first)
    weights = part.weights[..., first : first + count]
    return replace(part, area=part.area.channels_from(first, count), weights=weights, group=(number, 0))


def _most(layer: Layer, parts: tuple[Part, ...], first: int, count: int) -> int:
    """The largest sum of any slice that any input gives, with the best number that units can subtract."""
    low, high = ends(layer.features_shifted)
    some, groups = slice(first, first + count), dict.fromkeys(part.group for part in parts)

    def of(group: tuple[int, int], less: int) -> int:
        sums = [extreme_sums(part.weights, low - less, high - less)[some] for part in parts if part.group == group]
        return int(np.add.reduce(sums).max(initial=0))

    return min(max(of(group, less) for group in groups) for less in layer.subtracted())
