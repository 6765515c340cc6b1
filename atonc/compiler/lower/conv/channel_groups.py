"""Groups of output channels with a shift of their own, and how many of them: few, as far as rounding allows, or one
more epoch wherever it mends enough values. Both are forms; cycles and the price of error decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.roundings import agree
from atonc.compiler.plan.policy import (
    GOOD_ENOUGH,
    MOST_PIECES,
    MOST_PIECES_EVER,
    USUAL_RESULTS,
    WORTH,
    WORTH_ALWAYS,
)
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Draw, Way, attempt, choose
from atonc.compiler.select.form import Form


class ShiftGroups(Enum):
    """How often output channels are cut so that both sides get better shifts."""

    FEW = "as few shifts as rounding allows"
    MANY = "a shift for every group of channels that it mends"


def ranges(
    layer: ConvLayer, subtracted: int, roundings: int, first: int, count: int, step: int, shifts: ShiftGroups
) -> list[tuple[int, int]]:
    """Cuts output channels where one shift for all of them is too coarse for some: scales may differ a thousandfold."""
    pieces = [(first, count)]
    gains = {pieces[0]: layer.best_cut(subtracted, roundings, first, count, step)}
    while len(pieces) < MOST_PIECES_EVER:
        least = {piece: _worth(layer, subtracted, roundings, piece, len(pieces), shifts) for piece in pieces}
        worst = max(pieces, key=lambda piece: (gains[piece][0] >= least[piece], gains[piece][0]))
        gain, cut = gains[worst]
        if not cut or gain < least[worst]:
            break
        start, some = worst
        halves = [(start, cut), (start + cut, some - cut)]
        gains |= {half: layer.best_cut(subtracted, roundings, *half, step) for half in halves}
        where = pieces.index(worst)
        pieces[where : where + 1] = halves
    return pieces


def _worth(
    layer: ConvLayer, subtracted: int, roundings: int, piece: tuple[int, int], pieces: int, shifts: ShiftGroups
) -> float:
    rule = layer.requantisation_of(subtracted, roundings, *piece)
    if isinstance(rule, Requantisation) and rule.error > GOOD_ENOUGH:
        return WORTH_ALWAYS
    if shifts is ShiftGroups.FEW or pieces >= MOST_PIECES:
        return inf
    phases = layer.dilation[0] * layer.dilation[1]  # each would need the epoch
    small = max(1.0, USUAL_RESULTS / layer.results)  # an epoch counts more there
    return WORTH * layer.outputs * phases * small


def choose_shifts(layer: ConvLayer, context: Context, draws: Mapping[ShiftGroups, Draw[Context]]) -> list[TaskGroup]:
    """The cheaper form; bands of rows take the one that rounds as all rows do."""
    if layer.rounds_as is not None:
        for draw in draws.values():
            form = attempt(context, draw)
            if isinstance(form, Form) and agree(form.semantics[layer.op.name], layer.rounds_as):
                return context.take(form)
    return choose(context, [Way(draw, shifts.value) for shifts, draw in draws.items()])
