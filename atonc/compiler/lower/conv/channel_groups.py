"""Groups of output channels with a shift of their own, and how many of them: few, as far as rounding allows, or one
more epoch wherever it mends enough values; or few that begin at whole words. Each is a form; cycles and the price of
error decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from math import inf

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.sums import agree
from atonc.compiler.plan.policy import (
    GOOD_ENOUGH,
    MOST_PIECES,
    MOST_PIECES_EVER,
    USUAL_RESULTS,
    WORTH,
    WORTH_ALWAYS,
)
from atonc.compiler.select.enumerate import Deciding, Found, Steps, best, cheapest_of
from atonc.compiler.select.variants import Variant
from atonc.machine.hw.limits import ALIGNED

ANYWHERE = Variant("anywhere")


class ShiftGroups(Enum):
    """How often output channels are cut so that both sides get better shifts."""

    FEW = Variant("few shifts")
    MANY = Variant("many shifts")
    WORDS = Variant("shifts of words")

    def step(self, layer: ConvLayer) -> int:
        """Channels at whose multiples groups begin. Two chains that write into one word of the bus cannot run side by
        side, so groups of whole words may take less time, though more of them are needed, or larger shifts."""
        return ALIGNED if self is ShiftGroups.WORDS else layer.alignment


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
    if shifts is not ShiftGroups.MANY or pieces >= MOST_PIECES:
        return inf
    phases = layer.dilation[0] * layer.dilation[1]  # each would need the epoch
    small = max(1.0, USUAL_RESULTS / layer.results)  # an epoch counts more there
    return WORTH * layer.outputs * phases * small


def chosen_shifts(
    layer: ConvLayer, draft: Context, rows: Mapping[ShiftGroups, Steps], least: Mapping[ShiftGroups, float]
) -> Deciding:
    """The cheaper row, of whole words only where they are faster; bands of rows take the one that rounds as all rows
    do. `least`: cycles that no form of a row is below."""
    if layer.rounds_as is not None:
        for steps in rows.values():
            found = yield steps
            if isinstance(found, Found) and agree(found.form.semantics[layer.op.name], layer.rounds_as):
                return found
    words = ShiftGroups.WORDS
    anywhere, enough = [one for one in rows if one is not words], draft.facts.enough
    other = yield from cheapest_of([(one.value, rows[one], least.get(one, 0.0)) for one in anywhere], enough)
    if words not in rows or (isinstance(other, Found) and enough * least.get(words, 0.0) >= other.form.cycles):
        return other
    found = yield rows[words]
    if not isinstance(found, Found) or not isinstance(other, Found):
        return other if isinstance(other, Found) else found
    if found.form.cycles >= other.form.cycles:
        return other
    variant, chosen = best([(words.value, found), (ANYWHERE, other)])
    if chosen.form is other.form:
        return chosen
    cut_otherwise = (
        replace(one, variant=replace(one.variant, within=ANYWHERE.name), chosen=variant, chosen_form=chosen.form)
        for one in other.beaten
        if one.chosen_form is other.form
    )
    return Found(chosen.form, chosen.refused, (*chosen.beaten, *cut_otherwise))
