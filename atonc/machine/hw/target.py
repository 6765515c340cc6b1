"""What a network is compiled for. Whoever prices an epoch, to choose or to report, does it with this."""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.hardware import EpochCycles
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence.trust import PUBLISHED, Trust


@dataclass(frozen=True, eq=False)
class Target:
    """The machine of the board at the clocks of the user, and who programs its epochs; `words`: how long the program
    of an epoch then is; `trust`: which of its forms are known to work; `weights_near`: choices that come before
    placement count on weights in RAM; `ram_scarce`: which has no room for all of them."""

    machine: Machine
    programmed_by: str = hardware.CONTROLLER
    words: Callable[[Epoch], int] = ec_program.epoch_words
    trust: Trust = PUBLISHED
    weights_near: bool = False
    ram_scarce: bool = False

    @property
    def by_controller(self) -> bool:
        return self.programmed_by == hardware.CONTROLLER

    @property
    def weight_byte_cycles(self) -> float:
        """What a byte of weights takes where it is assumed to lie; units and banks count what they take of RAM."""
        return 0.0 if self.weights_near else self.machine.flash_byte_cycles

    def cycles(self, epoch: Epoch) -> EpochCycles:
        """Prices an epoch that has its words: decoded, or from `with_words`."""
        return _cycles(epoch, self)

    def with_words(self, epoch: Epoch) -> Epoch:
        return _with_words(epoch, self.words)


@memoise
def _with_words(epoch: Epoch, words: Callable[[Epoch], int]) -> Epoch:
    return ec_program.of_length(epoch, words(epoch))


@memoise
def _cycles(epoch: Epoch, target: Target) -> EpochCycles:
    """Those who compare programs and those who report the best of them ask alike."""
    return hardware.epoch_cycles(epoch, target.machine, target.programmed_by)
