"""Epochs without the epoch controller: the processor configures them by calls of ST's driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.compiler.emit.c import ll_calls, names
from atonc.compiler.emit.c.ll_text import function_name
from atonc.compiler.emit.c.ll_types import Base
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.plan.types import EpochPlan


def epoch_functions(network: CNetwork, block: Block, lines: Sequence[str]) -> str:
    """`lines` come first: cache maintenance."""
    return ll_calls.epoch_functions(block.steps[0], network.suffix, _bases(network, block), lines)


def members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    step = block.steps[0]
    for which in ("Start", "End"):
        yield f"{which.lower()}_epoch_block", function_name(which, step.number, network.suffix)
    yield "wait_mask", f"0x{ll_calls.wait_mask(step):08x}"
    yield "flags", names.block_flags("pure_hw")


def _bases(network: CNetwork, block: Block) -> dict[str, Base]:
    """Engine -> where its buffer begins; buffers of the application and pools without a fixed base by their symbol."""
    plan = block.steps[0].plan
    found = {}
    for engine, use in plan.engines.items() if isinstance(plan, EpochPlan) else ():
        address = network.home(use.buffer).address
        part = network.user_of(use.buffer) or network.relative_at(address)
        found[engine] = Base(part.address, network.c_symbol(part)) if part is not None else Base(address)
    return found
