"""Layers whose sums go beyond what units hand on: slices of the input channels, each summed by itself.

Every slice leaves 16 bits in memory, and ARITHs add them up. No input takes the sum of a slice beyond its 24 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.chains import limits
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.packed_words import FLAT
from atonc.compiler.lower.conv.reach import ends
from atonc.compiler.lower.conv.weight_sums import extreme_sums
from atonc.machine.hw.limits import MAX_CHAIN, SUM_LIMIT

Ints = NDArray[np.int64]


def slicings(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> Iterator[tuple[Part, ...]]:
    """Ways worth trying: as few slices as sums allow, and so many that each is summed without a rounding on the way."""
    channels, window = parts[0].weights.shape[3], parts[0].window
    modes = [mode for mode in layer.modes() if window == (1, 1) or not mode.deep]
    deepest = max(limits(mode, *window).channels for mode in modes) * (MAX_CHAIN if len(parts) == 1 else 1)
    least = -(-_most(layer, parts, first, count) // SUM_LIMIT)
    numbers = range(max(2, least), channels + 1)
    fewest = next((n for n in numbers if _most(layer, sliced(parts, n), first, count) <= SUM_LIMIT), 0)
    for number in dict.fromkeys((fewest, max(fewest, -(-channels // deepest)))) if fewest else ():
        yield sliced(parts, number)


def sliced(parts: tuple[Part, ...], number: int) -> tuple[Part, ...]:
    """Each part over so many slices of its channels, those of one slice in a group of their own."""
    channels = parts[0].weights.shape[3]
    step = -(-channels // number)
    step = -(-step // FLAT) * FLAT if channels >= number * FLAT else step
    return tuple(_slice(part, k, start, step) for k, start in enumerate(range(0, channels, step)) for part in parts)


def _slice(part: Part, number: int, first: int, step: int) -> Part:
    count = min(step, part.weights.shape[3] - first)
    weights = part.weights[..., first : first + count]
    return replace(part, area=part.area.channels_from(first, count), weights=weights, group=(number, 0))


def holding(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> list[int]:
    """Numbers that units can subtract so that no input takes a sum of any group too far."""
    return [n for n in layer.subtracted() if _largest(layer, parts, first, count, n) <= SUM_LIMIT]


def _most(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> int:
    """The largest sum of any slice that any input gives, with the best number that units can subtract."""
    return min(_largest(layer, parts, first, count, number) for number in layer.subtracted())


def _largest(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int, subtracted: int) -> int:
    low, high = (end - subtracted for end in ends(layer))
    sums: dict[tuple[int, int], Ints] = {}
    for part in parts:
        own = extreme_sums(part.weights, low, high)[first : first + count]
        sums[part.group] = sums.get(part.group, 0) + own
    return max(int(own.max(initial=0)) for own in sums.values())
