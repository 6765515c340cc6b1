"""Orders of dimensions: which logical axis each stored dimension is; stored = transpose(logical, order)."""

from __future__ import annotations

from itertools import pairwise

Order = tuple[int, ...]
Shape = tuple[int, ...]


def plain(rank: int) -> Order:
    return tuple(range(rank))


def channel_last(rank: int) -> Order:
    """(N, C, ...) stored as (N, ..., C)."""
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def permuted(shape: Shape, order: Order) -> Shape:
    return tuple(shape[axis] for axis in order)


def between(stored: Order, wanted: Order) -> Order:
    """The permutation that turns what is stored in one order into another order."""
    return tuple(stored.index(axis) for axis in wanted)


def without_units(shape: Shape, order: Order) -> Order:
    return tuple(axis for axis in order if shape[axis] != 1)


def moves_nothing(shape: Shape, perm: Order) -> bool:
    """True if a permutation of this shape leaves the bytes where they are."""
    kept = without_units(shape, perm)
    return list(kept) == sorted(kept)


def reshape_order(shape: Shape, order: Order, target: Shape, favoured: Order) -> Order | None:
    """The order in which the bytes of a stored tensor already hold its reshaped form; None if they do not."""
    atoms = _atoms(shape, target)
    if atoms is None:
        stored = without_units(shape, order)
        return plain(len(target)) if list(stored) == sorted(stored) else None
    of_source, of_target = atoms
    sequence = [atom for axis in order for atom in of_source[axis]]
    owner = {atom: axis for axis, owned in enumerate(of_target) for atom in owned}
    found: list[int] = []
    for atom in sequence:
        axis = owner[atom]
        if not found or found[-1] != axis:
            found.append(axis)
    if len(set(found)) != len(found) or [a for axis in found for a in of_target[axis]] != sequence:
        return None
    return _with_units(target, tuple(found), favoured)


def _with_units(target: Shape, found: Order, favoured: Order) -> Order:
    """Dimensions of size 1 may stand anywhere: keep a usual order if one fits."""
    for candidate in (favoured, plain(len(target)), channel_last(len(target))):
        if without_units(target, candidate) == found:
            return candidate
    units = tuple(axis for axis, size in enumerate(target) if size == 1)
    return units + found


def _atoms(source: Shape, target: Shape) -> tuple[list[list[int]], list[list[int]]] | None:
    """Both shapes cut at each other's borders: which pieces each dimension has. None if the borders cross."""
    if 0 in source or 0 in target:
        return None
    borders = sorted({*_borders(source), *_borders(target)})
    if any(high % low for low, high in pairwise(borders)):
        return None
    return _pieces(source, borders), _pieces(target, borders)


def _borders(shape: Shape) -> list[int]:
    """Products of the sizes from each axis to the end."""
    products = [1]
    for size in reversed(shape):
        products.append(products[-1] * size)
    return products


def _pieces(shape: Shape, borders: list[int]) -> list[list[int]]:
    """For each dimension the pieces (named by their lower border) from slow to fast."""
    products = list(reversed(_borders(shape)))
    return [[border for border in reversed(borders) if inner <= border < outer] for outer, inner in pairwise(products)]
