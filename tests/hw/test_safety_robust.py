"""The checker judges broken epochs, it never falls over them."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.hw import fields, regs
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.safety import check_epoch, check_program
from atonc.machine.hw.units.switch import Link
from tests.hw import safety_epochs as legal

epochs = st.sampled_from([build() for build in legal.LEGAL.values()])
names = st.sampled_from([u.name for u in regs.UNITS if u.kind in ("STRENG", "CONVACC", "ARITH", "ACTIV", "POOL")])
random_links = st.builds(
    Link,
    source=names,
    destination=names,
    port=st.integers(0, 2),
    enabled0=st.booleans(),
    frames0=st.integers(0, 255),
    enabled1=st.booleans(),
    frames1=st.integers(0, 255),
    other_source=st.integers(0, 31),
    tick_type=st.integers(0, 1),
)


@st.composite
def damaged_units(draw: st.DrawFn, units: dict[str, UnitConfig]) -> dict[str, UnitConfig]:
    """Some units with random registers, some gone."""
    result = {}
    for name, config in units.items():
        fate = draw(st.sampled_from(["keep", "keep", "change", "drop"]))
        if fate == "change":
            chosen = draw(st.sampled_from([field for field, _ in fields.places(type(config))]))
            result[name] = dataclasses.replace(config, **{chosen: draw(st.sampled_from([0, 1, 2, 255, 65535]))})
        elif fate == "keep":
            result[name] = config
    return result


@settings(max_examples=300, deadline=None)
@given(st.data(), epochs, st.lists(random_links, max_size=6))
def test_damaged_epochs_are_judged(data: st.DataObject, epoch: Epoch, more: list[Link]) -> None:
    kept = data.draw(st.lists(st.sampled_from(epoch.links), max_size=8)) if epoch.links else []
    units = data.draw(damaged_units(dict(epoch.units)))
    broken = replace(epoch, units=units, links=(*kept, *more))
    for violation in check_epoch(broken):
        assert str(violation) and violation.epoch == epoch.number


@settings(max_examples=60, deadline=None)
@given(st.data(), epochs)
def test_shuffled_events_are_judged(data: st.DataObject, epoch: Epoch) -> None:
    events = data.draw(st.lists(st.sampled_from(epoch.events), max_size=40))
    waits = data.draw(st.lists(names, max_size=4))
    broken = replace(epoch, events=tuple(events), waits=tuple(waits))
    assert isinstance(check_program([epoch, broken]), list)


@settings(max_examples=40, deadline=None)
@given(epochs)
def test_the_same_epoch_gets_the_same_answer(epoch: Epoch) -> None:
    broken = replace(epoch, links=epoch.links[1:])
    assert check_epoch(broken) == check_epoch(broken) != []
