"""Nested loops over tensors as rows of counts and steps, merged where memory is in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.emit.c.calls import ConstantTable
from atonc.compiler.emit.c.cpu.site import MAX_RANK, Site, rows


def packed(shape: Sequence[int]) -> list[int]:
    """Steps of a tensor without gaps, in elements."""
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


def broadcast_steps(shape: Sequence[int], target: Sequence[int], unit: int = 1) -> list[int]:
    """Steps of a tensor that is read as if it had the target's shape: 0 along repeated axes."""
    missing = len(target) - len(shape)
    steps = [unit * step if n > 1 else 0 for n, step in zip(shape, packed(shape), strict=True)]
    return [0] * missing + steps


def merged(shape: Sequence[int], *steps: Sequence[int]) -> list[tuple[int, ...]]:
    """Rows (count, step, ...), outermost first: loops of one pass are gone, neighbours that continue each other are
    one."""
    found: list[tuple[int, ...]] = []
    for count, *each in zip(shape, *steps, strict=True):
        if count == 1:
            continue
        if found and all(outer == step * count for outer, step in zip(found[-1][1:], each, strict=True)):
            found[-1] = (found[-1][0] * count, *each)
        else:
            found.append((count, *each))
    return found


def nested(site: Site, shape: Sequence[int], *steps: Sequence[int]) -> tuple[int, ConstantTable]:
    """Loops for a kernel; a single value is a loop of one pass."""
    return limited(site, merged(shape, *steps), len(steps))


def limited(site: Site, found: list[tuple[int, ...]], width: int) -> tuple[int, ConstantTable]:
    found = found or [(1, *([0] * width))]
    if len(found) > MAX_RANK:
        raise site.refuse(f"{len(found)} nested loops, the kernels have {MAX_RANK}")
    return rows(found)
