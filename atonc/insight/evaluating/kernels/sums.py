"""Convolutions and dense layers on batches: products of matrices in floating point that holds every sum exactly.

The pieces of a layer (`atonc.compiler.lower.semantics.sums`) that read the same windows become one bank of kernels.
Sums are in units of their output shift, so that rounding to 16 bits is rounding to whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.semantics.sums import Layered, LoweredSums, SumTerm
from atonc.compiler.plan.streams import Area
from atonc.insight.evaluating.kernels.finish import Finish, finish_for
from atonc.insight.evaluating.kernels.stored import StoredCodes, stored_of
from atonc.insight.evaluating.kernels.windows import Dense, Depthwise, Grid, WindowSums, pictures
from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]
Float = type[np.floating[Any]]

_BLOCK = 1 << 18  # elements that are worked on at once: what the processor keeps near
_EXACT = {np.float32: 1 << 22, np.float64: 1 << 51}  # sums below this, and ties moved by two steps, are exact
_BEHIND_TIES = {t: t(1) + np.finfo(t).eps for t in (np.float32, np.float64)}  # ties are rounded away from zero
_LIMITED = 1 << 23  # what goes from unit to unit has 24 bits


@dataclass(frozen=True, eq=False)
class ChannelBlock:
    """Some output channels of some rows."""

    stored: StoredCodes
    chains: tuple[tuple[tuple[WindowSums, ...], ...], ...]  # chains of passes of windows
    finish: Finish
    target: Area  # of these channels
    units: Array | None  # the 24-bit limits in units of each channel, where sums may get there
    rounded: bool  # some output shift is not 0
    dtype: Float

    def add_to(self, features: Array, result: Array) -> None:
        """Both [samples, bytes]."""
        target = pictures(result, self.target)
        for samples, rows in self._blocks(features.shape[0]):
            total = self._chain(features[samples], rows, self.chains[0])
            for chain in self.chains[1:]:
                both = total.flat + self._chain(features[samples], rows, chain).flat
                total = Grid(np.clip(both, -32768, 32767, out=both), total.shape)
            codes = Grid(self.finish(total.flat), total.shape)
            target[samples, rows] = codes.picture(rows.stop - rows.start, self.target.width)

    def _blocks(self, samples: int) -> Iterator[tuple[slice, slice]]:
        area = self.target
        line = area.width * max(area.channels, *(w.line_elements for c in self.chains for p in c for w in p))
        rows = max(1, _BLOCK // line)
        rows = -(-area.height // -(-area.height // rows))  # blocks of equal height
        together = max(1, _BLOCK // (line * area.height))
        for first in range(0, samples, together):
            for start in range(0, area.height, rows):
                yield slice(first, min(first + together, samples)), slice(start, min(start + rows, area.height))

    def _chain(self, features: Array, rows: slice, passes: Sequence[Sequence[WindowSums]]) -> Grid:
        if len(passes) == 1 and len(passes[0]) == 1 and len(self.chains) == 1:
            total = passes[0][0].sums(features, rows)
            self._rounded(total.flat, by_finish=self.finish.rounds)
            return total
        sums: Array | None = None
        for windows in passes:
            for number, window in enumerate(windows):
                now = window.sums(features, rows).picture(rows.stop - rows.start, self.target.width)
                sums = now + sums if sums is not None else np.ascontiguousarray(now)
                if self.units is not None and number + 1 < len(windows):
                    np.clip(sums, -self.units, self.units - self.units / _LIMITED, out=sums)
            assert sums is not None
            self._rounded(sums)
            np.clip(sums, -32768, 32767, out=sums)
        assert sums is not None
        return Grid(np.ascontiguousarray(sums).reshape(-1), sums.shape)

    def _rounded(self, total: Array, by_finish: bool = False) -> None:
        if self.rounded:
            total *= _BEHIND_TIES[self.dtype]
            if not by_finish:
                np.rint(total, out=total)


class LayerKernel:
    """A whole layer: codes [samples, ...] to codes."""

    def __init__(self, layered: Layered, elements: int) -> None:
        self.shape = layered.shape
        self.wanted = int(np.prod(self.shape))
        self.written = max(self.wanted, max(p.target.height * p.target.line for p in layered.pieces))
        known: dict[int, StoredCodes] = {}  # by function, which the pieces keep alive
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


def _groups(pieces: Iterable[LoweredSums]) -> list[list[LoweredSums]]:
    """Neighbours in the channels that read the same windows."""
    found: dict[Any, list[LoweredSums]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first):
        for number in range(len(found) + 1):
            key = (_geometry(piece), number)
            known = found.setdefault(key, [])
            if not known or known[-1].first + known[-1].count == piece.first:
                known.append(piece)
                break
    return list(found.values())


def _geometry(piece: LoweredSums) -> Any:
    chains = [(chain.subtracted, [list(map(_place, terms)) for terms in chain.passes]) for chain in piece.chains]
    return repr((piece.target, piece.multiplier, id(piece.features), chains))


def _place(term: SumTerm) -> Any:
    part = term.part
    return part.area, part.window, part.padding, part.stride, term.first, term.count


def _bank(pieces: list[LoweredSums], stored: StoredCodes) -> ChannelBlock:
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
    return ChannelBlock(
        stored,
        chains,
        finish_for([(p.rule, p.count) for p in pieces], np.minimum(steps, 32768) if several else steps, dtype),
        target,
        _LIMITED / 2.0**shifts if cut else None,
        bool(shifts.any()),
        dtype,
    )


def _reach(pieces: list[LoweredSums], stored: StoredCodes) -> Any:
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
    pieces: list[LoweredSums], number: int, stored: StoredCodes, shifts: Any, dtype: Float, merge: bool
) -> tuple[tuple[WindowSums, ...], ...]:
    lead = pieces[0]
    passes = []
    for index, terms in enumerate(lead.chains[number].passes):
        apart = [(k, k, term.first, term.count) for k, term in enumerate(terms)]
        spans = _spans(terms) if merge and not lead.multiplier else apart
        windows: list[WindowSums] = []
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


def _own(piece: LoweredSums, weights: Array) -> Array:
    return weights[piece.first : piece.first + piece.count].astype(np.int64)


def _spans(terms: Sequence[SumTerm]) -> list[tuple[int, int, int, int]]:
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
