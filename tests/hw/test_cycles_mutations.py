"""Any register contents give a figure: damaged programs must not crash the cycle models."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest

from atonc.machine.hw import regs
from atonc.machine.hw.cycles import hardware, st_estimate
from atonc.machine.hw.fields import UnitConfig, decode
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link
from tests.hw import cycles_epochs as e
from tests.outcomes import Outcomes, figure

KINDS: tuple[type[UnitConfig], ...] = (StrengConfig, StrengConfig, ConvaccConfig, ArithConfig, PoolConfig)


def random_config(rng: random.Random, kind: type[UnitConfig]) -> UnitConfig:
    """Registers of small, large, zero or reset values."""
    words = {}
    for register in regs.registers(kind.KIND).values():
        choice = rng.random()
        if choice < 0.7:
            words[register.index] = rng.choice([0, rng.getrandbits(5), rng.getrandbits(32), 0xFFFF_FFFF])
    config = decode(kind, words)
    if isinstance(config, StrengConfig) and rng.random() < 0.8:
        base = rng.choice([e.RAM, e.FLASH, e.HYPER, e.CPU_RAM])
        config = dataclasses.replace(config, address=base + rng.getrandbits(12))
    return config


@pytest.mark.parametrize("seed", range(300))
def test_any_registers_give_a_figure(seed: int) -> None:
    for result in _figures(seed):
        assert result.cycles >= 0
        assert all(math.isfinite(part) for part in result.detail.values())


def test_the_figures_are_those_of_the_record(outcomes: Outcomes) -> None:
    for seed in range(300):
        for result in _figures(seed):
            parts = [f"{name} {figure(part)}" for name, part in sorted(result.detail.items())]
            outcomes.add(type(result).__name__, figure(result.cycles), *parts)


def _figures(seed: int) -> tuple[Any, ...]:
    rng = random.Random(seed)
    units: dict[str, UnitConfig] = {}
    for k in range(rng.randint(1, 8)):
        kind = rng.choice(KINDS)
        units[f"{kind.KIND}{k}"] = random_config(rng, kind)
    names = [*units, "ACTIV0"]
    links = {(rng.choice(names), rng.randint(0, 2)): rng.choice(names) for _ in range(rng.randint(0, 10))}
    gates = [(True, rng.randint(0, 3), rng.random() < 0.5, rng.randint(0, 3)) for _ in links]
    wired = [Link(source, *place, *gate) for (place, source), gate in zip(links.items(), gates, strict=True)]
    made = e.epoch(units, *wired, words=rng.getrandbits(10))
    return (
        st_estimate.epoch_cycles(made, e.POOLS, count_runs=True),
        hardware.epoch_cycles(made, None, rng.choice([hardware.CONTROLLER, hardware.CPU])),
    )
