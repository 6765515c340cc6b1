"""Groups of output channels with a shift of their own: where one more epoch mends enough values."""

from __future__ import annotations

import numpy as np

from atonc.lower.conv.layer import Layer
from atonc.lower.conv.requantise import Requantisation, TwoSteps
from atonc.lower.registry import Refusal
from atonc.select.policy import (
    GOOD_ENOUGH,
    MOST_LOST,
    MOST_PIECES,
    MOST_PIECES_EVER,
    USUAL_RESULTS,
    WORTH,
    WORTH_ALWAYS,
)


def ranges(layer: Layer, subtracted: int, roundings: int, first: int, count: int, step: int) -> list[tuple[int, int]]:
    """Cuts output channels where one shift for all of them is too coarse for some: scales may differ a thousandfold."""
    pieces = [(first, count)]
    cuts = {pieces[0]: layer.best_cut(subtracted, roundings, first, count, step)}
    while len(pieces) < MOST_PIECES_EVER:
        worst = max(pieces, key=lambda piece: cuts[piece][0])
        gain, cut = cuts[worst]
        if not cut or gain < _worth(layer, subtracted, roundings, worst, len(pieces)):
            break
        start, some = worst
        halves = [(start, cut), (start + cut, some - cut)]
        cuts |= {half: layer.best_cut(subtracted, roundings, *half, step) for half in halves}
        where = pieces.index(worst)
        pieces[where : where + 1] = halves
    for piece in pieces:
        _require_fine(layer.requantisation_of(subtracted, roundings, *piece), piece)
    return pieces


def _require_fine(rule: Requantisation | TwoSteps, piece: tuple[int, int]) -> None:
    """Beside a channel whose scale is degenerate the factors of ordinary ones have no bits left: a wrong result."""
    if isinstance(rule, Requantisation) and rule.short > MOST_LOST:
        first, count = piece
        raise Refusal(
            "coefficients",
            f"channels {first} to {first + count - 1} share a shift, and it costs some of them {rule.short:.0f} codes",
            f"{MOST_LOST:.0f} codes",
            "check the scales of the weights: one channel's is far beyond those of its neighbours",
        )


def _worth(layer: Layer, subtracted: int, roundings: int, piece: tuple[int, int], pieces: int) -> float:
    rule = layer.requantisation_of(subtracted, roundings, *piece)
    if isinstance(rule, Requantisation) and rule.error > GOOD_ENOUGH:
        return WORTH_ALWAYS
    phases = layer.dilation[0] * layer.dilation[1]  # each would need the epoch
    small = max(1.0, USUAL_RESULTS / layer.results)  # an epoch counts more there
    return WORTH * layer.outputs * phases * small if pieces < MOST_PIECES else np.inf
