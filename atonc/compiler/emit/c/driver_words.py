"""How long the program of an epoch is that the processor sets up by calls of the driver.

The cycle model counts words of the epoch-controller program that has the same stores, merged. The driver stores more
registers than our own programs do, which leave out what is as after a reset.
"""

from __future__ import annotations

from functools import lru_cache

from atonc.compiler.emit.c.ll_calls import driver_stores
from atonc.machine.hw import ll
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.units.stream_engine import StrengConfig


def driver_words(epoch: Epoch) -> int:
    return ec_program.epoch_words(epoch, _unit_words)


def _unit_words(config: UnitConfig, kept: bool) -> int:
    """The driver loads every table: none is kept."""
    if isinstance(config, StrengConfig):  # where it works makes no difference, and layers then look alike
        config = changed(config, address=0, address_limit=config.address_limit - config.address)
    return _counted(config)


@lru_cache(maxsize=1 << 12)
def _counted(config: UnitConfig) -> int:
    return sum(instruction.size for instruction in ll.merged(driver_stores(config)))
