"""Convolutions and dense layers: which products are summed together, where sums are cut to 16 bits, how they become
codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
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
    kept: tuple[int, int] = (0, 0)  # one row and column in so many, from the second on; 0: all of them

    def add_to(self, codes: Ints, result: Ints) -> None:
        features = self.features(codes)
        total = self._chain(features, self.chains[0])
        for chain in self.chains[1:]:
            total = limited(total + self._chain(features, chain), 16)
        target = picture(result, self.target.channels_from(self.first, self.count))
        target[...] = requantised(self.rule, self._kept(total))

    def _kept(self, total: Ints) -> Ints:
        """Without what is computed beside the outputs."""
        if not any(self.kept):
            return total
        rows, columns = (
            slice(1, 2 + step * (size - 1), step)
            for size, step in zip((self.target.height, self.target.width), self.kept, strict=True)
        )
        return total[rows, columns]

    def _chain(self, features: Ints, chain: SumChain) -> Ints:
        total: Ints | None = None
        for terms in chain.passes:
            now = np.zeros(1, np.int64) if total is None else total << self.rule.out_shift
            for number, term in enumerate(terms, 1):
                now = now + self.term(features, term, chain.subtracted)
                now = now if number == len(terms) else limited(now, 24)
            total = limited(shifted(now, self.rule.out_shift), 16)
        assert total is not None
        return total

    def term(self, features: Ints, term: SumTerm, subtracted: int, most: int = 0) -> Ints:
        """`most`: so many positions, spread over the picture and in one row; all of them unless said."""
        part, own = term.part, self._own(term)
        view = picture(features, part.area)[:, :, own] - subtracted
        if any(part.padding):
            top, left, bottom, right = part.padding
            view = np.pad(view, ((top, bottom), (left, right), (0, 0)))
        windows = sliding_window_view(view, part.window, axis=(0, 1))[:: part.stride, :: part.stride]
        windows = _spread(windows, most) if most else windows
        weights = part.weights[self.first : self.first + self.count]
        if self.multiplier:
            return np.einsum("yxcij,cij->yxc", windows, ints(weights[..., 0]))
        return exact_product(windows, ints(weights[..., own]))

    def _own(self, term: SumTerm) -> Any:
        """The channels of the view that it reads; of a depthwise layer one for every output."""
        if self.multiplier:
            return np.arange(self.first, self.first + self.count) // self.multiplier
        return slice(term.first, min(term.first + term.count, term.part.area.channels))


def _spread(windows: NDArray[Any], most: int) -> NDArray[Any]:
    rows, columns = windows.shape[:2]
    where = np.linspace(0, rows * columns - 1, min(most, rows * columns)).astype(int)
    found: NDArray[Any] = windows[where // columns, where % columns][None]
    return found


def exact_product(windows: NDArray[Any], weights: Ints) -> Ints:
    """[rows, columns, channels, i, j] x [outputs, i, j, channels]; far below 2^53, so float64 loses nothing."""
    rows, columns = windows.shape[:2]
    left = windows.transpose(0, 1, 3, 4, 2).reshape(rows * columns, -1).astype(np.float64)
    right = weights.reshape(weights.shape[0], -1).astype(np.float64)
    return ints(left @ right.T).reshape(rows, columns, -1)


def picture(flat: Ints, area: Area) -> Ints:
    """The view [height, width, channels] of an area of bytes."""
    step = flat.itemsize
    strides = (area.line * step, area.pixel * step, step)
    return as_strided(flat[area.offset :], (area.height, area.width, area.channels), strides)


def requantised(rule: Requantisation | TwoSteps, sums: Ints) -> Ints:
    if isinstance(rule, Requantisation):
        return clipped(limited(shifted(sums * rule.factors + rule.addends, rule.shift), 8), rule.clip)
    middle = limited(shifted(sums * rule.factors, rule.shift), 16)
    return clipped(limited(shifted(middle * rule.bias_factor + rule.addends, rule.bias_shift), 8), rule.clip)


@dataclass(eq=False)
class Layered:
    """All sums of a layer; they fill its output piece by piece."""

    shape: tuple[int, ...]
    pieces: list[LoweredSums] = field(default_factory=list)

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        wanted = int(np.prod(self.shape))
        targets = [piece.target for piece in self.pieces]
        written = max(target.offset + target.height * target.line for target in targets)  # perhaps one more row
        result = np.full(max(wanted, written), 1 << 40, np.int64)  # no code: what nobody computes shows
        codes = np.ascontiguousarray(ints(values[0])).reshape(-1)
        for piece in self.pieces:
            piece.add_to(codes, result)
        return [result[:wanted].reshape(self.shape)]
