"""Epochs without the epoch controller: the processor configures them by calls of ST's driver."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.emit.c import ll_calls
from atonc.compiler.emit.c.ll_text import function_name
from atonc.compiler.emit.c.ll_types import Base
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.plan.types import EpochPlan


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
