"""What an inference takes from the supply, estimated from what its steps do: time, products, bytes of every memory.

    energy = time x (chip asleep + NPU's clocks) + time awake x processor + products x pJ + bytes x pJ

Every constant stands in `power.toml` with its source and its range; nothing is fitted to a network.
`benchmarks/energy.py` holds the estimates against what others measured.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.cost.band import PredictionBand
from atonc.machine.hw.cycles import EpochCycles, hardware
from atonc.machine.hw.cycles.work import epoch_work
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.target import Target

SOURCE = (
    "estimated from counted cycles, products and bytes with constants of one published board trace (core rail) and, "
    "for external memories, of ST's pool files; the CPU sleeps while the NPU works"
)
UNKNOWN = "not estimated: the files do not tell what the steps do"
FLASH_DEVICE, HYPERRAM_DEVICE = "flash", "external RAM"
_DEVICES = (FLASH_DEVICE, HYPERRAM_DEVICE)  # on supplies of their own


class Between(NamedTuple):
    """A figure with the least and the most that it may be."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Any) -> Between:
        return Between(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, low: float, likely: float | None = None, high: float | None = None) -> Between:
        likely = low if likely is None else likely
        return Between(self.low * low, self.likely * likely, self.high * (likely if high is None else high))


@dataclass(frozen=True)
class Activity:
    """What draws power in a step; activities of steps add up."""

    milliseconds: float = 0.0
    awake_ms: float = 0.0  # of these, with the processor at work
    products: float = 0.0
    ram_bytes: float = 0.0
    flash_bytes: float = 0.0
    hyperram_bytes: float = 0.0

    def share(self, part: float) -> Activity:
        return Activity(*(getattr(self, member.name) * part for member in fields(self)))


def together(activities: Iterable[Activity]) -> Activity:
    listed = list(activities)
    return Activity(*(sum(getattr(one, member.name) for one in listed) for member in fields(Activity)))


@dataclass(frozen=True)
class EnergyEstimate:
    """Microjoules of an inference by what draws them; without any it is not known what the steps do."""

    parts: Mapping[str, Between]
    milliseconds: float
    __repr__ = brief

    @property
    def known(self) -> bool:
        return bool(self.parts)

    @property
    def uj(self) -> Between:
        """All of it: the chip's core and the memories outside it, behind the regulators."""
        return _sum(self.parts.values())

    @property
    def core_uj(self) -> Between:
        """What a meter in the core rail would see."""
        return _sum(span for name, span in self.parts.items() if name not in _DEVICES)

    @property
    def milliwatts(self) -> float:
        """While the inference runs, likely."""
        return self.uj.likely / self.milliseconds if self.milliseconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        whole, core = self.uj, self.core_uj
        return {
            "low_uj": round(whole.low, 3),
            "likely_uj": round(whole.likely, 3),
            "high_uj": round(whole.high, 3),
            "core_uj": round(core.likely, 3),
            "milliwatts": round(self.milliwatts, 3),
            "parts": {name: [round(value, 3) for value in span] for name, span in self.parts.items()},
            "source": SOURCE if self.known else UNKNOWN,
        }

    def __str__(self) -> str:
        return f"{amount(self.uj.likely)}/inference ({amount(self.uj.low)} to {amount(self.uj.high)})"


def amount(microjoules: float) -> str:
    """`24.9 uJ`, or `8.07 mJ` from a millijoule on."""
    return f"{microjoules / 1000:,.2f} mJ" if microjoules >= 1000 else f"{microjoules:,.1f} uJ"


def _sum(spans: Iterable[Between]) -> Between:
    total = Between(0.0, 0.0, 0.0)
    for span in spans:
        total += span
    return total


@dataclass(frozen=True)
class PowerTable:
    """`power.toml`."""

    reference: Mapping[str, Any]
    milliwatts: Mapping[str, Between]
    picojoules: Mapping[str, Between]
    efficiency: Between  # of the regulators between a battery and the core

    def volts_squared(self, npu_mhz: float, cpu_mhz: float) -> Between:
        """Relative to the reference: both clocks at or below the nominal ones allow the lower voltage."""
        known = self.reference
        if npu_mhz > known["nominal_npu_mhz"] or cpu_mhz > known["nominal_cpu_mhz"]:
            return Between(1.0, 1.0, 1.0)
        return Between(*((volts / known["volts"]) ** 2 for volts in known["nominal_volts"]))


@cache
def power_table() -> PowerTable:
    data = tomllib.loads(resources.files("atonc.machine.cost").joinpath("power.toml").read_text("utf-8"))
    tables = ({name: Between(*values) for name, values in data[of].items()} for of in ("milliwatts", "picojoules"))
    milliwatts, picojoules = tables
    return PowerTable(data["reference"], milliwatts, picojoules, Between(*data["supply"]["efficiency"]))


def energy_of(activity: Activity, npu_mhz: float, cpu_mhz: float, band: PredictionBand | None = None) -> EnergyEstimate:
    """`band`: how far the time may be off, which the energy then is too."""
    table = power_table()
    mw, pj, volts = table.milliwatts, table.picojoules, table.volts_squared(npu_mhz, cpu_mhz)
    early, late = (1 + band.low, 1 + band.high) if band else (1.0, 1.0)
    npu, cpu = npu_mhz / table.reference["npu_mhz"], cpu_mhz / table.reference["cpu_mhz"]

    def drawn(power: Between, clock: float, ms: float) -> Between:  # milliwatts x milliseconds
        return power.times(*volts).times(early * clock * ms, clock * ms, late * clock * ms)

    def moved(each: Between, count: float) -> Between:
        return each.times(*volts).times(count / 1e6)

    parts = {
        "chip asleep": drawn(mw["asleep"], 1.0, activity.milliseconds),
        "clocks of the NPU": drawn(mw["npu_clocked"], npu, activity.milliseconds),
        "CPU awake": drawn(mw["cpu_awake"], cpu, activity.awake_ms),
        "products": moved(pj["product"], activity.products),
        "RAM": moved(pj["ram_byte"], activity.ram_bytes),
        "way to the flash": moved(pj["flash_byte"], activity.flash_bytes),
        "way to external RAM": moved(pj["hyperram_byte"], activity.hyperram_bytes),
        FLASH_DEVICE: pj["flash_device_byte"].times(activity.flash_bytes / 1e6),
        HYPERRAM_DEVICE: pj["hyperram_device_byte"].times(activity.hyperram_bytes / 1e6),
    }
    return EnergyEstimate({name: span for name, span in parts.items() if span.likely}, activity.milliseconds)


def likely_uj(activity: Activity, npu_mhz: float, cpu_mhz: float) -> float:
    """What a step or a layer takes; those of all of them add up to the network's."""
    return energy_of(activity, npu_mhz, cpu_mhz).uj.likely


def epoch_activity(epoch: Epoch, target: Target, cycles: EpochCycles) -> Activity:
    """The processor is awake while it programs an epoch, and asleep while the epoch controller or the NPU works."""
    machine, work = target.machine, epoch_work(epoch, target.machine)
    awake = cycles.detail.get("programming", 0.0) if target.programmed_by == hardware.CPU else 0.0
    times = machine.milliseconds(cycles.cycles), machine.milliseconds(awake)
    return Activity(*times, work.products, work.ram_bytes, work.flash_bytes, work.hyperram_bytes)


def network_energy(
    activities: Iterable[Activity], npu_mhz: float, cpu_mhz: float, band: PredictionBand
) -> EnergyEstimate:
    return energy_of(together(activities), npu_mhz, cpu_mhz, band)
