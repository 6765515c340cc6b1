"""An epoch that several layers share, as each of them sees it."""

from __future__ import annotations

from dataclasses import replace

from atonc.insight.explain import wiring
from atonc.insight.explain.types import EpochShare, StepView
from atonc.machine.hw.epoch import Epoch


def restricted(epoch: Epoch, part: EpochShare) -> Epoch:
    """The epoch as if it had the units of one layer only."""
    return Epoch(
        epoch.number,
        {name: config for name, config in epoch.units.items() if name in part.units},
        tuple(link for link in epoch.links if link.destination in part.units),
        tuple(name for name in epoch.waits if name in part.units),
    )


def own_view(whole: StepView, epoch: Epoch, part: EpochShare) -> StepView:
    """What one layer has of the step: time, energy and units. `epoch`: the whole one."""
    cycles = part.cycles(whole.cycles)
    share = cycles / max(1, whole.cycles)
    return replace(
        whole,
        cycles=cycles,
        milliseconds=whole.milliseconds * share,
        activity=whole.activity.share(share),
        energy_uj=whole.energy_uj * share,
        part=part,
        **wiring.figures(restricted(epoch, part)),
    )
