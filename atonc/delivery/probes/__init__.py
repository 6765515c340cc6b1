"""Small programs that ask the silicon one question each.

Nobody has run our programs on a board. Forms that no published program shows are refused, or allowed by an argument
(`docs/silicon.md`); whoever has a board can replace the argument by a fact: each probe is a few epochs in such a form,
beside a control in a published form, with the bytes that the emulator expects.
"""

from __future__ import annotations

from atonc.delivery.probes import (
    arith,
    cipher,
    conv,
    engines,
    interfaces,
    kernels,
    narrow,
    padding,
    pool,
    products,
    side_by_side,
    timing,
)
from atonc.delivery.probes.types import Probe

PROBES: tuple[Probe, ...] = (
    *engines.PROBES,
    *arith.PROBES,
    *conv.PROBES,
    *pool.PROBES,
    *padding.PROBES,
    *side_by_side.PROBES,
    *kernels.PROBES,
    *interfaces.PROBES,
    *timing.PROBES,
    *products.PROBES,
    *narrow.PROBES,  # nobody has seen such a program
    *cipher.PROBES,  # nor such a one
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
