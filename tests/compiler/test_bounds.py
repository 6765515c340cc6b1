"""Programs of small networks: both interfaces to the bus are used, kernels apart from features, and no epoch is
predicted to be faster than the chip can be."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.plan.interfaces import interface_of
from atonc.compiler.request.options import Options
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.bounds import tightest
from atonc.machine.hw.cycles.flow import FEATURES, KERNELS
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import INTERFACES
from atonc.machine.hw.machine import Machine, stm32n6
from tests.compiler.golden_graphs import GRAPHS

ROOT = Path(__file__).parents[2]
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "resident": {"resident": "all"},
    "prefetch": {"schedule_with": ("prefetch",)},
    "400 MHz": {"npu_mhz": 400.0},
}


def below(epoch: Epoch, machine: Machine) -> str:
    """What is wrong with the prediction, if anything."""
    cycles, bound = hardware.epoch_cycles(epoch, machine, hardware.NOBODY).cycles, tightest(epoch, machine)
    said = f"epoch {epoch.number}: {cycles:,} cycles, {bound.label} {bound.cycles:,.0f}"
    return said if cycles < bound.cycles else ""


def together(epoch: Epoch) -> Iterator[str]:
    """Kernels on the interface of all of their features, although the other one has a free engine."""
    taken = Counter(interface_of(name) for name in epoch.engines())
    for name in epoch.readers():
        units = [link.destination for link in epoch.destinations(name) if link.port == KERNELS]
        links = [epoch.sources(unit)[FEATURES].source for unit in units if unit.startswith("CONVACC")]
        met = {interface_of(source) for source in links if source in epoch.engines()}
        if met == {interface_of(name)} and taken[1 - interface_of(name)] < len(INTERFACES[0]):
            yield f"epoch {epoch.number}: {name}"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", GRAPHS)
def test_programs_of_ours(name: str, variant: str) -> None:
    compiled = compile_graph(GRAPHS[name](), Options(verify=False, **VARIANTS[variant]))
    for epoch in compiled.program.epochs:
        assert {interface_of(engine) for engine in epoch.engines()} == {0, 1}, f"epoch {epoch.number}"
        assert list(together(epoch)) == []
        assert below(epoch, compiled.target.machine) == ""


FETCHED = os.environ.get("ATONC_FETCHED")


@pytest.mark.skipif(not FETCHED, reason="no published programs: set ATONC_FETCHED to their folder")
def test_published_programs() -> None:
    from benchmarks.shared.published import Reading, read_programs

    epochs = [epoch for program in read_programs([Path(FETCHED or "")], Reading()) for epoch in program.epochs]
    assert epochs
    assert [said for epoch in epochs if not epoch.empty and (said := below(epoch, stm32n6()))] == []
