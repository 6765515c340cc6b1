"""Output channels whose codes belong to sums far from zero.

A unit hands on 16 bits of a sum. A large bias, or a scale that a layer got because it never answered, puts the few sums
that have codes of their own beyond those bits; shifted into them, a step of the sum is worth several codes. Constant
channels beside the features move such sums back: their weights add, before anything is rounded, what lies between zero
and the sum in the middle of the codes. Only the blocks of channels that need it are computed so, on a copy.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.cuts import some_channels
from atonc.compiler.lower.conv.depthwise import is_depthwise
from atonc.compiler.lower.conv.layer import ConvLayer, With
from atonc.compiler.lower.conv.prepare import NO_BORDER, CopiedRows, PaddedCopy
from atonc.compiler.lower.conv.requantise import BEYOND, Requantisation
from atonc.compiler.lower.conv.weight_sums import Codes, Weights, ends, reached_sums
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Found, Pieces, Steps, first
from atonc.compiler.select.rules import COARSE
from atonc.machine.base.frozen import dataclass

BLOCKS = (8, 4)  # channels; units of a chain that shares a large window hold 8, the constant one included
MOST_CONSTANTS = 8  # channels; as many as one block has
_MOST_WEIGHT = 127


def near_sums(layer: ConvLayer, draft: Context) -> Deciding | None:
    """Where rounding would take the layer too far from exact arithmetic."""
    plain = layer.op.kind != "transpose_conv" and layer.out_bytes == 1 and layer.coarse is None
    return _near_sums(layer) if plain and layer.numerics != "2.x" and layer.rounds_as is None else None


def _near_sums(layer: ConvLayer) -> Deciding:
    plain = yield AS_IT_IS
    if isinstance(plain, Found) or not plain.inexact:
        return plain
    anywhere: Steps = (With("anywhere", True),) if layer.large and not layer.huge else ()
    rows = [*([anywhere] if anywhere else []), *((*anywhere, NearSums(block)) for block in BLOCKS)]
    found = yield from first(rows)
    return found.after([plain]) if isinstance(found, Found) else plain


@dataclass(frozen=True)
class NearSums:
    """Blocks of so many channels: those that one shift does not do for, and those with far sums, by themselves."""

    block: int

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        depthwise, limit, layer = is_depthwise(layer), draft.facts.coarse, _without_dead(layer)
        multiplier = layer.outputs // layer.area.channels if depthwise else 1
        step = lcm(self.block * multiplier, layer.alignment)
        far = [_error(layer, k, 1) > limit for k in range(layer.outputs)]
        found: list[tuple[int, int, Steps]] = []
        for start in range(0, layer.outputs, step):
            count = min(step, layer.outputs - start)
            steps: Steps = (ConstantChannels(),) if any(far[start : start + count]) else AS_IT_IS
            if layer.large and (steps or _error(layer, start, count) > limit):
                steps = (*(steps or (CopiedRows(),)), OwnResults())
            if found and not steps and not found[-1][2]:  # neighbours that need nothing
                start, count = found[-1][0], found[-1][1] + count
                found.pop()
            found.append((start, count, steps))
        if not any(steps for _, _, steps in found):
            raise Refusal(COARSE, "sums that are rounded on the way", "sums that are rounded once", "cut the layer")
        every = (0, layer.area.channels)
        pieces = [((a // multiplier, n // multiplier) if depthwise else every, (a, n), steps) for a, n, steps in found]
        return Pieces(tuple((some_channels(layer, inputs, outputs), steps) for inputs, outputs, steps in pieces))


def _without_dead(layer: ConvLayer) -> ConvLayer:
    """Channels whose result is the same for every input need no bits of their sums."""
    lowest, highest = layer.clip or (-128, 127)
    low, high = ends(layer)
    sums = reached_sums(layer.weights, low - layer.zero, high - layer.zero)
    below, above = np.sort([layer.scale * end + layer.offset for end in sums], axis=0)
    dead = (above <= lowest) | (below >= highest)
    offset = np.where(dead, np.clip(above, -BEYOND, BEYOND), layer.offset)
    return replace(layer, scale=np.where(dead, 0.0, layer.scale), offset=offset)


def _error(layer: ConvLayer, first: int, count: int) -> float:
    """Tells it for some output channels with one shift, if their sums are rounded once."""
    rule = layer.requantisation_of(layer.zero, 1, first, count)
    return rule.error if isinstance(rule, Requantisation) else 0.0


@dataclass(frozen=True)
class OwnResults:
    """Results in a copy that is small enough to begin groups of channels anywhere."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        out = Area.whole(layer.out.height, layer.out.width, layer.outputs)
        copied = draft.scratch(out.height * out.line, "results of some channels")
        shape = (out.height, out.width, out.channels)
        source = StridedView.whole(copied, shape)
        target = StridedView(layer.target, shape, (layer.out.line, layer.out.pixel, 1), layer.out.offset)
        draft.behind += reversed(copy(draft, [Move(source, target)], layer.origin, f"results of {layer.op.name}"))
        return replace(layer, target=copied, out=out, belongs=layer.out)


@dataclass(frozen=True)
class ConstantChannels:
    """Features with as many constant channels as it takes; every kernel sees all channels then."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        low, high = ends(layer)
        value = high if high - layer.zero >= layer.zero - low else low
        worth = value - layer.zero  # what a weight of 1 adds
        middle = sum(layer.clip or (-128, 127)) / 2
        wanted = (middle - layer.offset) / np.where(layer.scale == 0, np.inf, layer.scale)
        units = np.rint(-wanted / worth).astype(np.int64)
        taps = layer.weights.shape[1] * layer.weights.shape[2]
        count = max(1, -(-int(np.abs(units).max()) // (_MOST_WEIGHT * taps)))
        if count > MOST_CONSTANTS:
            seen = f"sums {int(np.abs(units).max()) * abs(worth):,} from zero"
            raise Refusal(COARSE, seen, f"{MOST_CONSTANTS} constant channels", "check the bias of the layer")
        padded = PaddedCopy(purpose=Purpose.CONSTANTS, constants=count, value=value).prepare(layer, draft)
        pictures, sides = layer.typical, ((0, 0), (0, 0), (0, count))

        def typical() -> tuple[Codes, ...]:
            return tuple(np.pad(codes, sides, constant_values=value) for codes in pictures())

        return replace(
            padded,
            op=replace(layer.op, attrs={**layer.op.attrs, "groups": 1}),
            weights=_with_constants(layer, units, count),
            offset=layer.offset - layer.scale * units * worth,
            border=NO_BORDER,  # all of it is picture: units need not take off its zero point
            typical=typical,
        )


def _with_constants(layer: ConvLayer, units: Codes, constants: int) -> Weights:
    """[out, rows, columns, in]: weights of constant channels add up to so many units."""
    outputs, rows, columns, _ = layer.weights.shape
    channels = layer.area.channels
    found = np.zeros((outputs, rows, columns, channels + constants), layer.weights.dtype)
    if is_depthwise(layer):
        each = np.arange(outputs)
        found[each, :, :, each // (outputs // channels)] = layer.weights[..., 0]
    else:
        found[..., :channels] = layer.weights
    places = np.arange(rows * columns * constants).reshape(rows, columns, constants)
    left = np.abs(units)[:, None, None, None] - _MOST_WEIGHT * places
    found[..., channels:] = np.sign(units)[:, None, None, None] * np.clip(left, 0, _MOST_WEIGHT)
    return found
