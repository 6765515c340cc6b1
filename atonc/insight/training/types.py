"""How a network is prepared for training."""

from __future__ import annotations

from atonc.machine.base.declare import Takes, check, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

TRAINING = "training as the chip rounds"
LEARNED, BY_RANGE, FIXED = SCALES = ("learned", "range", "fixed")
FREE, PLAIN = ZERO_POINTS = ("free", "plain")
CHIP, TO_EVEN = ROUNDINGS = ("chip", "even")
MOMENTUM = 0.99  # of a moving range, for every batch


@dataclass(frozen=True)
class PrepareOptions:
    """Arguments of `atonc.torch.prepare`."""

    scales: str = option(
        LEARNED, "--scales", TRAINING, "learned by gradient, by moving range, or fixed", takes=Takes(choices=SCALES)
    )
    zero_points: str = option(
        FREE, "--zero-points", TRAINING, "plain: 0 or -128, which run faster", takes=Takes(choices=ZERO_POINTS)
    )
    power_of_two: bool = option(False, "--power-of-two", TRAINING, "scales of activations are powers of two")
    rounding: str = option(
        CHIP, "--rounding", TRAINING, "chip: halves away from 0; even: as onnxruntime", takes=Takes(choices=ROUNDINGS)
    )
    momentum: float = option(MOMENTUM, "--momentum", TRAINING, "of moving ranges", metavar="M")

    def __post_init__(self) -> None:
        check(self)
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum {self.momentum:g} keeps no range", rule="it is at least 0 and below 1")
