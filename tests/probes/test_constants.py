"""A probe that measures a constant of the cycle model gives that constant, when its cycles are those of the model."""

from __future__ import annotations

import pytest

from atonc.delivery.probes import PROBES, Probe
from atonc.delivery.probes.build import build
from atonc.delivery.probes.dma import DMA
from atonc.machine.hw.cycles.hardware import epoch_cycles
from atonc.machine.hw.ec.ec_program import with_words
from atonc.machine.hw.machine import stm32n6

BY_NAME = {probe.name: probe for probe in PROBES}
MEASURING = [probe for probe in PROBES if probe.measures]


def predicted(probe: Probe) -> int:
    return sum(epoch_cycles(with_words(epoch), stm32n6()).cycles for epoch in build(probe).network.program.epochs)


@pytest.mark.parametrize("probe", MEASURING, ids=lambda probe: probe.name)
def test_the_constant_follows_from_two_probes(probe: Probe) -> None:
    machine = stm32n6()
    more = predicted(probe) - predicted(BY_NAME[probe.baseline])
    if probe.measures.endswith("_mb_per_s"):
        found, known = probe.units * machine.clocks.npu_mhz / more, getattr(machine.clocks, probe.measures)
    else:
        found, known = more / probe.units, getattr(machine.timing, probe.measures)
    assert found == pytest.approx(known, rel=0.005)


@pytest.mark.parametrize("probe", [p for p in PROBES if p.rate and p not in DMA], ids=lambda probe: probe.name)
def test_a_rate_follows_from_two_probes(probe: Probe) -> None:
    found = probe.units / (predicted(probe) - predicted(BY_NAME[probe.baseline]))
    assert found == pytest.approx(probe.expects, rel=0.02)


def test_a_difference_has_a_baseline_and_a_count() -> None:
    assert all(probe.baseline and probe.units > 0 for probe in PROBES if probe.measures or probe.rate)


def test_names_are_those_of_probes() -> None:
    assert len(BY_NAME) == len(PROBES)
    assert {name for probe in PROBES for name in (probe.control, probe.baseline)} <= {"", *BY_NAME}
