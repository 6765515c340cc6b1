"""Two applications side by side: folders of `atonc app build`, or application files that are planned for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from atonc.delivery.application import building
from atonc.delivery.application.app_map import MAP, read_map
from atonc.delivery.application.figures import figures
from atonc.delivery.application.read import read_application
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

# figure of the whole -> what it is called, and what it is counted in
TOTALS = {
    "load": ("time", "%"),
    "flash_load": ("flash read", "%"),
    "ram_bytes": ("RAM", "bytes"),
    "kept_bytes": ("RAM that stays", "bytes"),
    "resident_bytes": ("weights in RAM", "bytes"),
    "image_ram_bytes": ("RAM of images", "bytes"),
    "saved_constants_bytes": ("flash saved", "bytes"),
}
EACH = {"latency_ms": ("latency", "ms"), "ram_bytes": ("RAM", "bytes"), "constants_bytes": ("constants", "bytes")}


@dataclass(frozen=True)
class AppFigurePair:
    """One figure of two applications; nothing on a side that does not have the network."""

    network: str  # empty: of the whole
    name: str
    unit: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a and self.b is not None else None


def is_application(place: Path) -> bool:
    """A folder with the map of an application, or an application file."""
    return place.suffix == ".toml" or (place / MAP).is_file()


def compare_applications(a: Path, b: Path) -> list[AppFigurePair]:
    for place in (a, b):
        if not is_application(place):
            raise InputError(
                "an application and something else",
                where=str(place),
                rule="compare takes two applications, or two networks",
                remedy="name a folder of atonc app build, or an application file",
            )
    one, other = _figures_at(a), _figures_at(b)
    return [*_pairs("", TOTALS, one["totals"], other["totals"]), *_of_networks(one["networks"], other["networks"])]


def _figures_at(place: Path) -> dict[str, Any]:
    if place.suffix == ".toml":
        told = figures(building.planned(read_application(place))).as_dict()
        return {"networks": told["networks"], "totals": told}
    return read_map(place / MAP, _figures_in)


def _figures_in(data: Mapping[str, Any]) -> dict[str, Any]:
    networks = [{"name": str(row["name"]), **{key: float(row[key]) for key in EACH}} for row in data["networks"]]
    return {"networks": networks, "totals": {key: float(data["totals"].get(key, 0)) for key in TOTALS}}


def _of_networks(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> Iterator[AppFigurePair]:
    sides = [{row["name"]: row for row in rows} for rows in (one, other)]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        yield from _pairs(name, EACH, sides[0].get(name), sides[1].get(name))


def _pairs(
    network: str, names: Mapping[str, tuple[str, str]], a: Mapping[str, Any] | None, b: Mapping[str, Any] | None
) -> Iterator[AppFigurePair]:
    for key, (name, unit) in names.items():
        scale = 100 if unit == "%" else 1
        one, other = (None if side is None else scale * side[key] for side in (a, b))
        yield AppFigurePair(network, name, unit, one, other)


def text_lines(found: Sequence[AppFigurePair]) -> Iterator[str]:
    yield f"  {'':28} {'':16} {'A':>14} {'B':>14} {'B/A':>7}"
    for one in found:
        ratio = "" if one.ratio is None else f"{one.ratio:.3f}"
        cells = f"{_said(one.a, one.unit):>14} {_said(one.b, one.unit):>14} {ratio:>7}"
        yield f"  {one.network[:28] or 'all networks':28} {one.name:16} {cells}"


def _said(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} B" if unit == "bytes" else f"{value:,.3f} {unit}"


def as_json(found: Sequence[AppFigurePair]) -> dict[str, Any]:
    rows = [
        {"network": one.network, "figure": one.name, "unit": one.unit, "a": one.a, "b": one.b, "ratio": one.ratio}
        for one in found
    ]
    return {"figures": rows}
