"""What all views make of steps in the same way, wherever a network comes from: a step of its cost, a layer of its
steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from atonc.cost.network import StepCost
from atonc.hw.epoch import Epoch
from atonc.insight import wiring
from atonc.insight.types import NOTHING, LayerView, StepView


class Bound(Protocol):
    """What takes cycles, and for which reason so many."""

    @property
    def cycles(self) -> int: ...
    @property
    def bound_by(self) -> str: ...


def shares(own: Iterable[Bound]) -> dict[str, float]:
    """By what bounds them: which share of the cycles."""
    cycles = Counter[str]()
    for one in own:
        cycles[one.bound_by] += one.cycles
    total = max(1, cycles.total())
    return {label: count / total for label, count in cycles.most_common() if label and count}


def step_view(number: int, on: str, cost: StepCost, epoch: Epoch | None) -> StepView:
    """What its cost and its units tell; the title, the layer and the multiplications are added by who knows them."""
    view = StepView(
        number=number,
        on=on,
        title="",
        layer="",
        cycles=cost.cycles,
        milliseconds=cost.milliseconds,
        st_cycles=cost.st_cycles,
        bound_by=cost.bound_by,
        known=cost.known,
    )
    if epoch is None:
        return view
    return replace(
        view,
        chains=wiring.chains(epoch),
        modes=wiring.modes(epoch),
        links=wiring.links(epoch),
        units=wiring.units(epoch),
        bytes_moved=sum(engine.elements * engine.element_bytes for engine in epoch.engines().values()),
        doubts=dict(cost.doubts),
    )


def layer_view(
    name: str,
    kind: str,
    nodes: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    shape: tuple[int, ...],
    own: Sequence[StepView],
) -> LayerView:
    """A layer that takes these steps."""
    return LayerView(
        name=name,
        kind=kind,
        nodes=nodes,
        on=own[0].on if own else NOTHING,
        steps=tuple(step.number for step in own),
        inputs=inputs,
        outputs=outputs,
        shape=shape,
        macs=sum(step.macs for step in own),
        cycles=sum(step.cycles for step in own),
        milliseconds=sum(step.milliseconds for step in own),
        bound_by=shares(own),
        chains=tuple(dict.fromkeys(chain for step in own for chain in step.chains)),
        modes=tuple(dict.fromkeys(mode for step in own for mode in step.modes)),
    )
