"""How ST's releases 2.x cut the input channels of a convolution into passes.

Sums are rounded to 16 bits after every pass, so the cut decides about numbers. Read off public networks: channels and
kernels are cut into equal groups, as large as the unit takes them; of the group sizes the one that needs the fewest
passes with up to four units is taken, then the number of units with the fewest cycles, few units before many.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import DEEP, PLAIN, UNITS, WINDOWS

MOST_UNITS = UNITS["CONVACC"]
DEEP_CHANNELS = DEEP.channels
PLAIN_CHANNELS, MOST_KERNELS = PLAIN.channels, PLAIN.kernels  # 1x1, one channel a word
WINDOW_CHANNELS = WINDOWS[1].channels
WINDOW_KERNELS = WINDOWS[1].kernels  # half of them with features of two bytes, which take as long
LARGE_PICTURE = 2048  # pixels; 900 are not large, 3600 are
WEIGHTS = PLAIN.weights  # that a unit holds; half of them where it has a window and features of two bytes


@dataclass(frozen=True)
class PassShape:
    """What decides about the cut."""

    channels: int
    outputs: int
    pixels: int  # of the output
    window: int  # weights of one channel of one kernel
    wide: bool  # features of two bytes: their zero point is neither 0 nor -128
    plain: bool = False  # one channel a word where three are possible

    @property
    def deep(self) -> bool:
        return self.window == 1 and not self.wide and not self.plain

    @property
    def most_channels(self) -> int:
        if self.window > 1:
            return WINDOW_CHANNELS
        return DEEP_CHANNELS if self.deep else PLAIN_CHANNELS


def channels_a_pass(form: PassShape) -> int:
    """Divides the number of channels."""
    deep, plain = _cut(form), _cut(replace(form, plain=True))
    few_units = form.deep and form.channels <= DEEP_CHANNELS and form.pixels > LARGE_PICTURE
    return plain.share if few_units and plain.cycles < deep.cycles else deep.share


def needs_unsigned(form: PassShape) -> bool:
    """More channels a pass than fit with features of two bytes."""
    return form.window == 1 and not form.wide and channels_a_pass(form) > MOST_UNITS * PLAIN_CHANNELS


@dataclass(frozen=True)
class _Cut:
    share: int
    cycles: int


def _cut(form: PassShape) -> _Cut:
    kernels = _kernels(form)
    weights = WEIGHTS // 2 if form.wide and form.window > 1 else WEIGHTS
    batches = divisors(form.channels, form.most_channels)
    if not form.deep:
        batches = [b for b in batches if kernels * b * form.window <= weights] or [1]
    passes = {b: form.channels // b // max(divisors(form.channels // b, MOST_UNITS)) for b in batches}
    batch = min(batches, key=lambda b: (passes[b], -b))
    groups = form.channels // batch
    cycles, units = min((_cycles(form, kernels, batch, u, groups // u), u) for u in divisors(groups, MOST_UNITS))
    return _Cut(batch * units, cycles)


def _kernels(form: PassShape) -> int:
    most = MOST_KERNELS if form.window == 1 else WINDOW_KERNELS // (2 if form.wide else 1)
    return max(divisors(form.outputs, most))


def _cycles(form: PassShape, kernels: int, batch: int, units: int, passes: int) -> int:
    """Counts thirds of a cycle: features, outputs and kernels flow at the same time."""
    words = 1 if form.deep else 3
    loaded = kernels if form.window == 1 else WINDOW_KERNELS
    features, weights = form.pixels * batch, loaded * batch * form.window * units
    return passes * max(words * features, 3 * form.pixels * kernels, words * weights)


def divisors(number: int, most: int) -> list[int]:
    return [d for d in range(1, min(number, most) + 1) if number % d == 0]
