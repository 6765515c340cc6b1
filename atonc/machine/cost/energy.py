"""What an inference takes from the supply, estimated from what its steps do: time, products, bytes of every memory.

    energy = time x (chip asleep + NPU's clocks) + time awake x processor + products x pJ + bytes x pJ
    board  = (energy of the core + of the memories) / regulators + time x what else the board draws

Every constant stands in `power.toml` with its source and its range; nothing is fitted to a network. What is uncertain
for one reason (a constant, the time, the voltage) counts once, and reasons that do not depend on each other as the root
of the sum of squares. `benchmarks/energy.py` holds the estimates against what others measured.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from math import hypot
from typing import Any, NamedTuple

from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.cost.band import PredictionBand
from atonc.machine.hw.cycles import EpochCycles, hardware
from atonc.machine.hw.cycles.work import epoch_work
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.target import Target

SOURCE = (
    "estimated from counted cycles, products and bytes; constants of a published trace of the core rail and of whole "
    "boards (STM32N6570-DK) measured at three clock pairs; the CPU sleeps while the NPU works"
)
BOARD = "STM32N6570-DK"  # whose rest is known
COVERS = "core and memories"  # what `uj` is of
UNKNOWN = "not estimated: the files do not tell what the steps do"
FLASH_DEVICE, HYPERRAM_DEVICE = "flash", "external RAM"
_DEVICES = (FLASH_DEVICE, HYPERRAM_DEVICE)  # on supplies of their own
_SUPPLY = ("efficiency", "rest_of_board", "unexplained")
_TIMED = ("chip asleep", "clocks of the NPU", "CPU awake")  # drawn as long as it takes


class Between(NamedTuple):
    """A figure with the least and the most that it may be."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Any) -> Between:
        return Between(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Between:
        return Between(*(value * factor for value in self))


NOTHING, EXACT = Between(0.0, 0.0, 0.0), Between(1.0, 1.0, 1.0)  # a sum without terms; a factor that is known


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

    parts: Mapping[str, Between]  # each with the range of its own constant
    milliseconds: float
    rest_mw: Between  # of the board, without core and external memories
    idle_mw: float  # of the whole board: CPU awake, NPU without work
    time: Between = EXACT  # how many times as long it may take
    volts: Between = EXACT  # their square, over the likely one
    __repr__ = brief

    @property
    def known(self) -> bool:
        return bool(self.parts)

    @property
    def uj(self) -> Between:
        """All of it: the chip's core and the memories outside it, behind the regulators."""
        return self._whole()

    @property
    def core_uj(self) -> Between:
        """What a meter in the core rail would see."""
        return self._whole(frozenset(self.parts).difference(_DEVICES))

    @property
    def board_uj(self) -> Between:
        """What a meter at the input of an STM32N6570-DK would see."""
        return self._whole(rest=self.rest_mw.times(self.milliseconds), lost=power_table().efficiency.likely)

    def _whole(self, names: Iterable[str] | None = None, rest: Between = NOTHING, lost: float = 1.0) -> Between:
        """The likely sum, and how far it may be off: reasons that do not depend on each other."""
        parts = {name: self.parts[name].times(1 / lost) for name in (self.parts if names is None else names)}
        timed = sum(span.likely for name, span in parts.items() if name in _TIMED) + rest.likely
        core = sum(span.likely for name, span in parts.items() if name not in _DEVICES)
        chip = sum(span.likely for span in parts.values())
        common = (self.time.times(timed), self.volts.times(core), power_table().unexplained.times(chip))
        spans = (*parts.values(), rest, *common)
        below, above = (hypot(*(span.likely - span[end] for span in spans)) for end in (0, 2))
        likely = chip + rest.likely
        return Between(max(0.0, likely - below), likely, likely + above)

    @property
    def milliwatts(self) -> float:
        """While the inference runs, likely."""
        return self._power(self.uj)

    @property
    def board_mw(self) -> float:
        return self._power(self.board_uj)

    def _power(self, span: Between) -> float:
        return span.likely / self.milliseconds if self.milliseconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        whole = {f"{name}_uj": value for name, value in self.uj._asdict().items()}
        for of, (low, likely, high) in {"core": self.core_uj, "board": self.board_uj}.items():
            whole |= {f"{of}_uj": likely, f"{of}_low_uj": low, f"{of}_high_uj": high}
        whole |= {"milliwatts": self.milliwatts, "board_milliwatts": self.board_mw}
        return {
            **{name: round(value, 3) for name, value in whole.items()},
            "board_idle_milliwatts": round(self.idle_mw, 3),
            "covers": COVERS,
            "board": BOARD,
            "parts": {name: [round(value, 3) for value in span] for name, span in self.parts.items()},
            "source": SOURCE if self.known else UNKNOWN,
        }

    @property
    def short(self) -> str:
        """Fits a terminal."""
        return f"{of_inference(self.uj, f' {COVERS}')}, {amount(self.board_uj.likely, self.uj.likely)} DK board"

    def __str__(self) -> str:
        return f"{of_inference(self.uj)} of {COVERS}; whole {BOARD} {amount(self.board_uj.likely)}"


def amount(microjoules: float, beside: float = 0.0) -> str:
    """`24.9 uJ`, or `8.07 mJ` from a millijoule on; `beside`: the figure that the unit of the line is for."""
    return " ".join(_in_units(microjoules, max(microjoules, beside)))


def _in_units(microjoules: float, largest: float) -> tuple[str, str]:
    """The number and its unit: that which the largest of a line has."""
    return (f"{microjoules / 1000:,.2f}", "mJ") if largest >= 1000 else (f"{microjoules:,.1f}", "uJ")


def of_inference(span: Between, of: str = "/inference") -> str:
    """`24.9 uJ/inference (21.6 to 30.3)`."""
    (low, _), (likely, unit), (high, _) = (_in_units(value, span.likely) for value in span)
    return f"{likely} {unit}{of} ({low} to {high})"


@dataclass(frozen=True)
class PowerTable:
    """`power.toml`."""

    reference: Mapping[str, Any]
    milliwatts: Mapping[str, Between]
    picojoules: Mapping[str, Between]
    efficiency: Between  # of the regulators between a battery and the core
    rest_mw: Between  # of the board, at its input
    unexplained: Between  # how many times as much boards took, beyond the ranges of the constants

    def volts_squared(self, npu_mhz: float, cpu_mhz: float) -> Between:
        """Relative to the reference: both clocks at or below the nominal ones allow the lower voltage."""
        known = self.reference
        if npu_mhz > known["nominal_npu_mhz"] or cpu_mhz > known["nominal_cpu_mhz"]:
            return EXACT
        return Between(*((volts / known["volts"]) ** 2 for volts in known["nominal_volts"]))

    def idle_mw(self, npu_mhz: float, cpu_mhz: float) -> float:
        """What the whole board draws between two inferences: CPU awake, NPU without work."""
        awake = self.milliwatts["cpu_awake"].likely * cpu_mhz / self.reference["cpu_mhz"]
        core = (self.milliwatts["asleep"].likely + awake) * self.volts_squared(npu_mhz, cpu_mhz).likely
        return self.rest_mw.likely + core / self.efficiency.likely


@cache
def power_table() -> PowerTable:
    data = tomllib.loads(resources.files("atonc.machine.cost").joinpath("power.toml").read_text("utf-8"))
    tables = ({name: Between(*values) for name, values in data[of].items()} for of in ("milliwatts", "picojoules"))
    milliwatts, picojoules = tables
    supply = {name: Between(*values) for name, values in data["supply"].items()}
    return PowerTable(data["reference"], milliwatts, picojoules, *(supply[name] for name in _SUPPLY))


def energy_of(activity: Activity, npu_mhz: float, cpu_mhz: float, band: PredictionBand | None = None) -> EnergyEstimate:
    """`band`: how far the time may be off, which the energy then is too."""
    table = power_table()
    mw, pj, volts = table.milliwatts, table.picojoules, table.volts_squared(npu_mhz, cpu_mhz)
    npu, cpu = npu_mhz / table.reference["npu_mhz"], cpu_mhz / table.reference["cpu_mhz"]
    on_core = {
        "chip asleep": mw["asleep"].times(activity.milliseconds),
        "clocks of the NPU": mw["npu_clocked"].times(npu * activity.milliseconds),
        "CPU awake": mw["cpu_awake"].times(cpu * activity.awake_ms),
        "products": pj["product"].times(activity.products / 1e6),
        "RAM": pj["ram_byte"].times(activity.ram_bytes / 1e6),
        "way to the flash": pj["flash_byte"].times(activity.flash_bytes / 1e6),
        "way to external RAM": pj["hyperram_byte"].times(activity.hyperram_bytes / 1e6),
    }
    parts = {name: span.times(volts.likely) for name, span in on_core.items()} | {
        FLASH_DEVICE: pj["flash_device_byte"].times(activity.flash_bytes / 1e6),
        HYPERRAM_DEVICE: pj["hyperram_device_byte"].times(activity.hyperram_bytes / 1e6),
    }
    return EnergyEstimate(
        {name: span for name, span in parts.items() if span.likely},
        activity.milliseconds,
        table.rest_mw,
        table.idle_mw(npu_mhz, cpu_mhz),
        time=Between(1 + band.low, 1.0, 1 + band.high) if band else EXACT,
        volts=volts.times(1 / volts.likely),
    )


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
