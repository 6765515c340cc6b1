"""How fast a convolution could be at best on this chip: all units multiply bytes in every cycle, and weights arrive as
fast as their memory gives them. What it takes beyond that goes to features, results, words of the program and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.plan.types import BufferKind, EpochPlan
from atonc.machine.hw.limits import PRODUCTS, UNITS
from atonc.machine.hw.machine import Machine


def limit_cycles(
    macs: int, steps: Iterable[ProgramStep], share: float, program: Program, machine: Machine
) -> int:
    """0 where no unit multiplies. `share`: what the layer has of the cycles of its steps, if others run in them."""
    plans = [step.plan for step in steps if isinstance(step.plan, EpochPlan) and step.epoch is not None]
    if not any(unit.startswith("CONVACC") for plan in plans for unit in plan.units):
        return 0
    read = {use.buffer for plan in plans for use in plan.engines.values()}
    homes = [home for name, home in program.placed.items() if name in read and home.buffer.kind == BufferKind.CONSTANT]
    outside = 0.0
    for home in homes:
        bank = machine.memory_at(home.address)
        if bank is not None and bank.external:
            outside += machine.external_cycles_per_byte(bank) * home.buffer.size_bytes
    return ceil(max(macs / (UNITS["CONVACC"] * max(PRODUCTS)), share * outside))
