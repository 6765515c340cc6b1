"""Small damages to an epoch, each of which a checker should notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.convacc import ConvaccConfig


def mutations(epoch: Epoch, chance: Random) -> Iterator[tuple[str, Epoch]]:
    """One damage of each kind that the epoch has a place for."""
    yield from _links_and_waits(epoch, chance)
    yield from _engines(epoch, chance)
    yield from _convolutions(epoch, chance)


def _links_and_waits(epoch: Epoch, chance: Random) -> Iterator[tuple[str, Epoch]]:
    index = chance.randrange(len(epoch.links))
    yield "a link removed", replace(epoch, links=epoch.links[:index] + epoch.links[index + 1 :])
    reader = chance.choice(sorted(epoch.readers()))
    yield "waits for a reader instead of a writer", replace(epoch, waits=(*epoch.waits[:-1], reader))


def _engines(epoch: Epoch, chance: Random) -> Iterator[tuple[str, Epoch]]:
    writer, reader = chance.choice(sorted(epoch.writers())), chance.choice(sorted(epoch.readers()))
    yield "a writer takes one frame more", _changed(epoch, writer, frames=epoch.writers()[writer].frames + 1)
    config = epoch.readers()[reader]
    yield "a reader gives one frame more", _changed(epoch, reader, frames=config.frames + 1)
    if config.frames > 1:
        yield "a reader gives one frame less", _changed(epoch, reader, frames=config.frames - 1)
    yield "frames of a reader are longer", _changed(epoch, reader, fsize_low=config.fsize_low + 1)
    engine = chance.choice(sorted(epoch.engines()))
    inside = epoch.engines()[engine].span()[1] - 2
    yield "the limit lies before the last byte", _changed(epoch, engine, address_limit=inside)


def _convolutions(epoch: Epoch, chance: Random) -> Iterator[tuple[str, Epoch]]:
    units = {name: config for name, config in epoch.units.items() if isinstance(config, ConvaccConfig)}
    if not units:
        return
    unit = chance.choice(sorted(units))
    config = units[unit]
    yield "one kernel more", _changed(epoch, unit, kernels=config.kernels + 1)
    yield "one line more", _changed(epoch, unit, height=config.height + 1)
    yield "another vertical stride", _changed(epoch, unit, stride_y=config.stride_y + 1)
    yield "accumulates or not", _changed(epoch, unit, no_sum=1 - config.no_sum)


def _changed(epoch: Epoch, unit: str, **settings: Any) -> Epoch:
    return replace(epoch, units={**epoch.units, unit: replace(epoch.units[unit], **settings)})
