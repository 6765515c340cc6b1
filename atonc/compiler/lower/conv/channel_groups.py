"""Groups of output channels with a shift of their own, and how many of them: few, as far as rounding allows, or one
more epoch wherever it mends enough values; or few that begin at whole words. Each is a form; cycles and the price of
error decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Draw, Offer, Way, attempt, choose, take_best
from atonc.compiler.select.form import Form
from atonc.machine.hw.limits import ALIGNED

ANYWHERE = "groups of channels that begin anywhere"


class ShiftGroups(Enum):
    """How often output channels are cut so that both sides get better shifts."""

    FEW = "as few shifts as rounding allows"
    MANY = "a shift for every group of channels that it mends"
    WORDS = "as few shifts as rounding allows, for whole words of channels"

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


def choose_shifts(layer: ConvLayer, context: Context, draws: Mapping[ShiftGroups, Draw[Context]]) -> list[TaskGroup]:
    """The cheaper form, of whole words only where they are faster; bands of rows take the one that rounds as all rows
    do."""
    if layer.rounds_as is not None:
        for draw in draws.values():
            form = attempt(context, draw)
            if isinstance(form, Form) and agree(form.semantics[layer.op.name], layer.rounds_as):
                return context.take(form)
    ways = {shifts: Way(draw, shifts.value) for shifts, draw in draws.items()}
    words = ways.pop(ShiftGroups.WORDS, None)
    if words is None:
        return choose(context, list(ways.values()))
    whole, other = attempt(context, words.draw), attempt(context, lambda draft: choose(draft, list(ways.values())))
    if isinstance(whole, Form) and isinstance(other, Form) and _is_faster(whole, other, context.facts.resident):
        return take_best(context, [Offer(whole, words.label), *_offers(other)])
    return context.take(other if isinstance(other, Form) else whole)


def _is_faster(one: Form, other: Form, resident: bool) -> bool:
    """With kernels in RAM, where they are meant to be: the two round differently, so neither can take the place of the
    other when they are there; other cuts of each can."""
    if one.cycles >= other.cycles or not resident:
        return one.cycles < other.cycles
    near, far = (min(offer.form.near_cycles for offer in _offers(form)) for form in (one, other))
    return near <= far


def _offers(form: Form) -> Iterator[Offer]:
    """The form, and whatever was cut otherwise in it: with kernels in RAM, or an operator behind it, that may pay."""
    yield Offer(form, ANYWHERE)
    groups = list(map(id, form.groups))
    for one in form.alternatives:
        if list(map(id, one.chosen_form.groups)) == groups:
            yield Offer(one.form, f"{one.label}, {ANYWHERE}")
