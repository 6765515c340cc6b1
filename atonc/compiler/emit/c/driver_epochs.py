"""Epochs without the epoch controller: the processor configures them by calls of ST's driver.

The cycle model counts words of the epoch-controller program that has the same stores, merged (`driver_words`). The
driver stores more registers than our own programs do, which leave out what is as after a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from atonc.compiler.emit.c import ll_calls
from atonc.compiler.emit.c.ll_calls import Base, driver_stores, function_name
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.plan.types import EpochPlan
from atonc.machine.hw import ll
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.units.stream_engine import StrengConfig


def epoch_functions(network: CNetwork, block: Block, lines: Sequence[str]) -> str:
    """`lines` come first: cache maintenance."""
    return ll_calls.epoch_functions(block.steps[0], network.suffix, _bases(network, block), lines)


def function_names(network: CNetwork, block: Block) -> tuple[str, str]:
    step = block.steps[0]
    start, end = (function_name(which, step.number, network.suffix) for which in ("Start", "End"))
    return start, end


def wait_mask(block: Block) -> str:
    return f"0x{ll_calls.wait_mask(block.steps[0]):08x}"


def _bases(network: CNetwork, block: Block) -> dict[str, Base]:
    """Engine -> where its buffer begins; buffers of the application and pools without a fixed base by their symbol."""
    plan = block.steps[0].plan
    found = {}
    for engine, use in plan.engines.items() if isinstance(plan, EpochPlan) else ():
        address = network.home(use.buffer).address
        part = network.user_of(use.buffer) or network.relative_at(address)
        found[engine] = Base(part.address, network.c_symbol(part)) if part is not None else Base(address)
    return found


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
