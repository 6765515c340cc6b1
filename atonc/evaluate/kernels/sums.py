"""Convolutions and dense layers on batches: products of matrices in floating point that holds every sum exactly.

The pieces of a layer (`atonc.lower.meaning.sums`) that read the same windows become one bank of kernels. Sums are in
units of their output shift, so that rounding to 16 bits is rounding to whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.evaluate.kernels.finish import Finish, finish_for
from atonc.evaluate.kernels.stored import Stored, stored_of
from atonc.evaluate.kernels.windows import Dense, Depthwise, Window
from atonc.lower.meaning.sums import Layered, Sums, Term
from atonc.plan.streams import Area

Array = NDArray[Any]
Float = type[np.floating[Any]]

_BLOCK = 1 << 16  # elements that are worked on at once: what the processor keeps near
_EXACT = {np.float32: 1 << 22, np.float64: 1 << 51}  # sums below this, and ties moved by two steps, are exact
_LIMITED = 1 << 23  # what goes from unit to unit has 24 bits


@dataclass(frozen=True, eq=False)
class Bank:
    """Some output channels of some rows."""

    stored: Stored
    chains: tuple[tuple[tuple[Window, ...], ...], ...]  # chains of passes of windows
    finish: Finish
    target: Area  # of these channels
    units: Array | None  # the 24-bit limits in units of each channel, where sums may get there; in a row
    rounded: bool  # some output shift is not 0
    limited: bool  # sums may leave 16 bits
    dtype: Float

    def add_to(self, features: Array, result: Array) -> None:
        """Both [samples, bytes]."""
        target = pictures(result, self.target)
        for samples, rows in self._blocks(features.shape[0]):
            total = self._chain(features[samples], rows, self.chains[0])
            for chain in self.chains[1:]:
                total += self._chain(features[samples], rows, chain)
                np.clip(total, -32768, 32767, out=total)
            codes = self.finish(total)
            place = target[samples, rows]
            place[...] = codes.reshape(place.shape)

    def _blocks(self, samples: int) -> Iterator[tuple[slice, slice]]:
        area = self.target
        line = area.width * max(area.channels, *(w.line_elements for c in self.chains for p in c for w in p))
        rows = max(1, _BLOCK // line)
        together = max(1, rows // area.height)
        for first in range(0, samples, together):
            for row in range(0, area.height, rows):
                yield slice(first, min(first + together, samples)), slice(row, min(row + rows, area.height))

    def _chain(self, features: Array, rows: slice, passes: Sequence[Sequence[Window]]) -> Array:
        total: Array | None = None
        for windows in passes:
            for number, window in enumerate(windows):
                now = window.sums(features, rows)
                if total is not None:
                    now += total
                total = now
                if self.units is not None and number + 1 < len(windows):
                    np.clip(total, -self.units, self.units - self.units / _LIMITED, out=total)
            assert total is not None
            self._to_16_bits(total)
        assert total is not None
        return total

    def _to_16_bits(self, total: Array) -> None:
        if self.rounded:
            total *= self.dtype(1) + np.finfo(self.dtype).eps  # ties away from zero
            np.rint(total, out=total)
        if self.limited:
            np.clip(total, -32768, 32767, out=total)


def pictures(flat: Array, area: Area) -> Array:
    """The view [samples, height, width, channels] of an area."""
    step = flat.itemsize
    strides = (flat.strides[0], area.line * step, area.pixel * step, step)
    shape = (flat.shape[0], area.height, area.width, area.channels)
    return np.lib.stride_tricks.as_strided(flat[:, area.offset :], shape, strides)


class LayerKernel:
    """A whole layer: codes [samples, ...] to codes."""

    def __init__(self, layered: Layered, elements: int) -> None:
        self.shape = layered.shape
        self.wanted = int(np.prod(self.shape))
        self.written = max(self.wanted, max(p.target.height * p.target.line for p in layered.pieces))
        known: dict[int, Stored] = {}  # by function, which the pieces keep alive
        for piece in layered.pieces:
            if id(piece.features) not in known:
                known[id(piece.features)] = stored_of(piece.features, elements)
        self.banks = [_bank(group, known[id(group[0].features)]) for group in _groups(layered.pieces)]
        self._require_all_written()

    def __call__(self, codes: Array) -> Array:
        samples = codes.shape[0]
        flat = np.ascontiguousarray(codes).reshape(samples, -1)
        result = np.empty((samples, self.written), np.int8)
        features: dict[int, Array] = {}
        for bank in self.banks:
            key = id(bank.stored)
            if key not in features:
                features[key] = bank.stored(flat)
            bank.add_to(features[key], result)
        return result[:, : self.wanted].reshape(samples, *self.shape)

    def _require_all_written(self) -> None:
        seen = np.zeros((1, self.written), bool)
        for bank in self.banks:
            pictures(seen, bank.target)[...] = True
        assert seen[:, : self.wanted].all()


# ------------------------------------------------------------------------------------------------- pieces become banks


def _groups(pieces: Iterable[Sums]) -> list[list[Sums]]:
    """Neighbours in the channels that read the same windows."""
    found: dict[Any, list[Sums]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first):
        for number in range(len(found) + 1):
            key = (_geometry(piece), number)
            known = found.setdefault(key, [])
            if not known or known[-1].first + known[-1].count == piece.first:
                known.append(piece)
                break
    return list(found.values())


def _geometry(piece: Sums) -> Any:
    chains = [(chain.subtracted, [list(map(_place, terms)) for terms in chain.passes]) for chain in piece.chains]
    return repr((piece.target, piece.multiplier, id(piece.features), chains))


def _place(term: Term) -> Any:
    part = term.part
    return part.area, part.window, part.padding, part.stride, term.first, term.count


def _bank(pieces: list[Sums], stored: Stored) -> Bank:
    lead = pieces[0]
    shifts = np.repeat([piece.rule.out_shift for piece in pieces], [piece.count for piece in pieces])
    reach = _reach(pieces, stored)
    several = len(lead.chains) > 1 or any(len(chain.passes) > 1 for chain in lead.chains)
    largest = int((reach + (32768 << shifts) * several).max())
    cut = largest >= _LIMITED and any(len(terms) > 1 for chain in lead.chains for terms in chain.passes)
    dtype: Float = np.float32 if largest < _EXACT[np.float32] and not cut else np.float64
    assert largest < _EXACT[np.float64]
    chains = tuple(_chain(pieces, number, stored, shifts, dtype, merge=not cut) for number in range(len(lead.chains)))
    target = lead.target.channels_from(lead.first, shifts.size)
    steps = (reach >> shifts) + 1
    limited = several or bool((steps > 32767).any())
    return Bank(
        stored,
        chains,
        finish_for([(p.rule, p.count) for p in pieces], np.minimum(steps, 32768), target.width, dtype),
        target,
        np.tile(_LIMITED / 2.0**shifts, target.width) if cut else None,
        bool(shifts.any()),
        limited,
        dtype,
    )


def _reach(pieces: list[Sums], stored: Stored) -> Any:
    """No sum of a channel is larger, whatever the codes."""
    found = []
    for piece in pieces:
        total = np.zeros(piece.count, np.int64)
        for chain in piece.chains:
            most = stored.farthest(chain.subtracted)
            for part in {id(t.part): t.part for terms in chain.passes for t in terms}.values():
                own = np.abs(part.weights[piece.first : piece.first + piece.count].astype(np.int64))
                total += own.sum(axis=(1, 2, 3)) * most
        found.append(total)
    return np.concatenate(found)


def _chain(
    pieces: list[Sums], number: int, stored: Stored, shifts: Any, dtype: Float, merge: bool
) -> tuple[tuple[Window, ...], ...]:
    lead = pieces[0]
    passes = []
    for index, terms in enumerate(lead.chains[number].passes):
        apart = [(k, k, term.first, term.count) for k, term in enumerate(terms)]
        spans = _spans(terms) if merge and not lead.multiplier else apart
        windows = []
        for at, _, first, count in spans:
            weights = np.concatenate(
                [_own(piece, piece.chains[number].passes[index][at].part.weights) for piece in pieces]
            )
            part = lead.chains[number].passes[index][at].part
            zero = lead.chains[number].subtracted - stored.offset
            scaled = weights / 2.0 ** shifts[:, None, None, None]
            if lead.multiplier:
                channels = np.arange(lead.first, lead.first + shifts.size) // lead.multiplier
                windows.append(Depthwise.of(part, zero, scaled[..., 0], channels, dtype))
            else:
                last = min(first + count, part.area.channels)
                windows.append(Dense.of(part, zero, scaled[..., first:last], first, dtype))
        passes.append(tuple(windows))
    return tuple(passes)


def _own(piece: Sums, weights: Array) -> Array:
    return weights[piece.first : piece.first + piece.count].astype(np.int64)


def _spans(terms: Sequence[Term]) -> list[tuple[int, int, int, int]]:
    """Terms of the same part with neighbouring channels are one: first and last term, first channel, channels."""
    found: list[tuple[int, int, int, int]] = []
    for number, term in enumerate(terms):
        if found:
            start, end, first, count = found[-1]
            if terms[end].part is term.part and first + count == term.first:
                found[-1] = (start, number, first, count + term.count)
                continue
        found.append((number, number, term.first, term.count))
    return found
