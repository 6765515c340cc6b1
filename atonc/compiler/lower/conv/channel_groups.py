"""Groups of output channels with a shift of their own: where one more epoch mends enough values."""

from __future__ import annotations

import numpy as np

from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.plan.policy import (
    GOOD_ENOUGH,
    MOST_PIECES,
    MOST_PIECES_EVER,
    USUAL_RESULTS,
    WORTH,
    WORTH_ALWAYS,
)


def ranges(
    layer: ConvLayer, subtracted: int, roundings: int, first: int, count: int, step: int
) -> list[tuple[int, int]]:
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
    return pieces


def _worth(layer: ConvLayer, subtracted: int, roundings: int, piece: tuple[int, int], pieces: int) -> float:
    rule = layer.requantisation_of(subtracted, roundings, *piece)
    if isinstance(rule, Requantisation) and rule.error > GOOD_ENOUGH:
        return WORTH_ALWAYS
    phases = layer.dilation[0] * layer.dilation[1]  # each would need the epoch
    small = max(1.0, USUAL_RESULTS / layer.results)  # an epoch counts more there
    return WORTH * layer.outputs * phases * small if pieces < MOST_PIECES else np.inf
