"""Small programs that ask the silicon one question each.

Nobody has run our programs on a board. Forms that no published program shows are refused, or allowed by an argument
(`docs/silicon.md`); whoever has a board can replace the argument by a fact: each probe is a few epochs in such a form,
beside a control in a published form, with the bytes that the emulator expects.
"""

from __future__ import annotations

from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.convolutions import (
    CONVOLUTIONS,
    FOUR_BITS,
    KERNELS,
    PADDING,
    PRODUCTS_A_CYCLE,
    SIDE_BY_SIDE,
)
from atonc.delivery.probes.dma import DMA
from atonc.delivery.probes.engines import ARBITRATION, CIPHERS, ENGINES, INTERFACES
from atonc.delivery.probes.kernels import GIVEN_KERNELS, KERNEL_RATES, NARROW_RATES, WRITTEN_KERNELS
from atonc.delivery.probes.sums import SUMS
from atonc.delivery.probes.timing import TIMING
from atonc.delivery.probes.units import ARITH, POOL

PROBES: tuple[Probe, ...] = (
    *(*ENGINES, *ARITH, *CONVOLUTIONS, *POOL, *PADDING, *SIDE_BY_SIDE, *KERNELS, *INTERFACES, *ARBITRATION, *TIMING),
    *(*PRODUCTS_A_CYCLE, *GIVEN_KERNELS, *WRITTEN_KERNELS, *KERNEL_RATES, *SUMS, *DMA),
    *(*FOUR_BITS, *NARROW_RATES),  # nobody has seen such a program
    *CIPHERS,  # nor such a one
)


def with_controls(names: tuple[str, ...]) -> tuple[Probe, ...]:
    """These probes, and before each the ones that must pass first."""
    by_name = {probe.name: probe for probe in PROBES}
    wanted = dict.fromkeys(names)
    queue = list(names)
    while queue:
        control = by_name[queue.pop()].control
        if control and control not in wanted:
            wanted[control] = None
            queue.append(control)
    return tuple(probe for probe in PROBES if probe.name in wanted)
