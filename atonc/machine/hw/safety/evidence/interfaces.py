"""Bus interfaces: stream engines hang on two, and published programs spread the engines of an epoch over both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache

from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.view import EpochView, number_of_name

ENGINES, SIDES = "engines on each bus interface", "features and kernels of a CONVACC"
_PORTS = (0, 1)  # of a CONVACC: features, kernels
_FEW = 5  # engines that would fit on one interface; more of them use both anyway


@cache
def interface(engine: str) -> int:
    """That of a stream engine; an engine that the chip does not have is on none."""
    number = number_of_name(engine)
    return next((port for port, engines in stm32n6().engine_ports.items() if number in engines), -1)


def features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    many = len(view.engines)
    if many > 1:
        yield "", _spread(tuple(sorted(map(interface, view.engines))))
    role = f"{many} engines" if many <= _FEW else f"more than {_FEW} engines"
    for unit in view.convaccs:
        links = (view.source(unit, port) for port in _PORTS)
        sources = [link.source for link in links if link is not None and link.source in view.engines]
        if len(sources) == len(_PORTS):
            both = len(set(map(interface, sources))) > 1
            yield unit, Feature(SIDES, role, "over both interfaces" if both else "over one interface")


@lru_cache(maxsize=1 << 8)
def _spread(used: tuple[int, ...]) -> Feature:
    """`3 + 2`: unit numbers do not matter, so neither does which of the interfaces has more."""
    counted = Counter(used)
    counts = sorted((counted[port] for port in stm32n6().engine_ports), reverse=True)
    return Feature(ENGINES, "", " + ".join(map(str, counts)))
