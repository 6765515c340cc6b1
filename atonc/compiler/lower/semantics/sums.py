"""Convolutions and dense layers: which products are summed together, where sums are cut to 16 bits, how they become
codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from atonc.compiler.lower.conv.kernel_parts import KeptResults, Part
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.wide_results import INNER, LONG, WideEnd, WideLine, WideRequantisation
from atonc.compiler.lower.semantics.arithmetic import Ints, clipped, ints, limited, shifted
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    pass

Stored = Callable[[Ints], Ints]  # from the codes of a tensor to the numbers that the units read, both flat


@dataclass(frozen=True, eq=False)
class SumTerm:
    """What one unit adds: a window over some channels of a view."""

    part: Part
    first: int
    count: int


@dataclass(frozen=True, eq=False)
class SumChain:
    """Passes of terms; the sum goes on with 24 bits from term to term, with 16 from pass to pass."""

    passes: tuple[tuple[SumTerm, ...], ...]
    subtracted: int


@dataclass(frozen=True, eq=False)
class LoweredSums:
    """Some output channels of some pixels."""

    features: Stored
    chains: tuple[SumChain, ...]
    rule: Requantisation | TwoSteps
    target: Area  # all channels
    first: int
    count: int
    multiplier: int = 0  # outputs per input channel of a depthwise layer; 0: every output sees all channels
    kept: KeptResults | None = None  # of rows and columns; none: all of them

    def add_to(self, codes: Ints, result: Ints) -> None:
        features = self.features(codes)
        total = self.chain_sums(features, self.chains[0])
        for chain in self.chains[1:]:
            total = limited(total + self.chain_sums(features, chain), 16)
        target = picture(result, self.target.channels_from(self.first, self.count))
        target[...] = requantised(self.rule, self._kept(total))

    def _kept(self, total: Ints) -> Ints:
        """Without what is computed beside the outputs."""
        if self.kept is None:
            return total
        first, steps = self.kept.first, (self.kept.rows, self.kept.columns)
        rows, columns = (
            slice(first, first + 1 + step * (size - 1), step)
            for size, step in zip((self.target.height, self.target.width), steps, strict=True)
        )
        return total[rows, columns]

    def chain_sums(self, features: Ints, chain: SumChain) -> Ints:
        """The sums of a chain as they leave its last unit."""
        total: Ints | None = None
        for terms in chain.passes:
            now = np.zeros(1, np.int64) if total is None else total << self.rule.out_shift
            for number, term in enumerate(terms, 1):
                now = now + self.term(features, term, chain.subtracted)
                now = now if number == len(terms) else limited(now, 24)
            total = limited(shifted(now, self.rule.out_shift), 16)
        assert total is not None
        return total

    def term(self, features: Ints, term: SumTerm, subtracted: int) -> Ints:
        """What it adds at every position."""
        part, own, weights = term.part, self._own(term), self._weights(term)
        view = picture(features, part.area)[:, :, own] - subtracted
        if any(part.padding):
            top, left, bottom, right = part.padding
            view = np.pad(view, ((top, bottom), (left, right), (0, 0)))
        windows = sliding_window_view(view, part.window, axis=(0, 1))[:: part.stride, :: part.stride]
        if self.multiplier:
            return np.einsum("yxcij,cij->yxc", windows, ints(weights[..., 0]))
        return exact_product(windows, ints(weights[..., own]))

    def sampled_term(self, windows: NDArray[Any], term: SumTerm) -> NDArray[np.float64]:
        """[positions, outputs]: the same from `sampled_windows`; far below 2^53, so float64 loses nothing."""
        own, weights = self._own(term), self._weights(term)
        some = windows[..., own].astype(np.float64)
        if self.multiplier:
            return np.einsum("pijc,cij->pc", some, weights[..., 0].astype(np.float64))
        kernels = weights[..., own].astype(np.float64)
        return some.reshape(len(some), -1) @ kernels.reshape(len(kernels), -1).T

    def _weights(self, term: SumTerm) -> NDArray[Any]:
        return term.part.weights[self.first : self.first + self.count]

    def _own(self, term: SumTerm) -> Any:
        """The channels of the view that it reads; of a depthwise layer one for every output."""
        if self.multiplier:
            return np.arange(self.first, self.first + self.count) // self.multiplier
        return slice(term.first, min(term.first + term.count, term.part.area.channels))


def sampled_windows(features: NDArray[Any], part: Part, subtracted: int, most: int) -> NDArray[Any]:
    """[positions, i, j, channels]: what is under the kernel at so many positions, spread over the picture; nothing else
    is touched."""
    view, (top, left, bottom, right) = picture(features, part.area), part.padding
    sizes = part.area.height + top + bottom, part.area.width + left + right
    rows, columns = ((size - k) // part.stride + 1 for size, k in zip(sizes, part.window, strict=True))
    where = np.linspace(0, rows * columns - 1, min(most, rows * columns)).astype(int)
    y = (where // columns * part.stride - top)[:, None] + np.arange(part.window[0])
    x = (where % columns * part.stride - left)[:, None] + np.arange(part.window[1])
    if not any(part.padding):
        return view[y[:, :, None], x[:, None, :]] - subtracted
    inside = [(place >= 0) & (place < size) for place, size in zip((y, x), view.shape[:2], strict=True)]
    y, x = (place.clip(0, size - 1) for place, size in zip((y, x), view.shape[:2], strict=True))
    found: NDArray[Any] = view[y[:, :, None], x[:, None, :]] - subtracted
    found[~(inside[0][:, :, None] & inside[1][:, None, :])] = 0
    return found


def exact_product(windows: NDArray[Any], weights: Ints) -> Ints:
    """[rows, columns, channels, i, j] x [outputs, i, j, channels]; far below 2^53, so float64 loses nothing."""
    rows, columns = windows.shape[:2]
    left = windows.transpose(0, 1, 3, 4, 2).reshape(rows * columns, -1).astype(np.float64)
    right = weights.reshape(weights.shape[0], -1).astype(np.float64)
    return ints(left @ right.T).reshape(rows, columns, -1)


def picture(flat: Ints, area: Area) -> Ints:
    """The view [height, width, channels] of an area of elements, which may be every second of others themselves."""
    step, size = flat.strides[0], area.element_bytes
    strides = (area.line // size * step, area.pixel // size * step, step)
    return as_strided(flat[area.offset // size :], (area.height, area.width, area.channels), strides)


def requantised(rule: Requantisation | TwoSteps, sums: Ints) -> Ints:
    if isinstance(rule, WideLine):
        total = shifted(sums * rule.factors, INNER) + (rule.terms << LONG)
        return _ended(rule.end, limited(shifted(total, rule.last), 16))
    if isinstance(rule, WideRequantisation):
        halved = rule.weight.bit_length() - 1
        scaled = limited(shifted(sums * rule.factors + rule.rest, rule.shift + halved), 16)
        return _ended(rule.end, limited(rule.weight * scaled + rule.whole, 16))
    if isinstance(rule, Requantisation):
        return clipped(limited(shifted(sums * rule.factors + rule.addends, rule.shift), 8), rule.clip)
    middle = limited(shifted(sums * rule.factors, rule.shift), 16)
    return clipped(limited(shifted(middle * rule.bias_factor + rule.addends, rule.bias_shift), 8), rule.clip)


def _ended(end: WideEnd, results: Ints) -> Ints:
    if end.has_unit:
        results = limited(shifted(results + end.added, end.shift), 16)
    return end.coarse.codes(results) if end.coarse else results


@dataclass(eq=False)
class Layered:
    """All sums of a layer; they fill its output piece by piece."""

    shape: tuple[int, ...]
    pieces: list[LoweredSums] = field(default_factory=list)

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        wanted = int(np.prod(self.shape))
        targets = [piece.target for piece in self.pieces]
        written = max((t.offset + t.height * t.line) // t.element_bytes for t in targets)  # perhaps one more row
        result = np.full(max(wanted, written), 1 << 40, np.int64)  # no code: what nobody computes shows
        codes = np.ascontiguousarray(ints(values[0])).reshape(-1)
        for piece in self.pieces:
            piece.add_to(codes, result)
        return [result[:wanted].reshape(self.shape)]
