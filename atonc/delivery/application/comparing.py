"""Applications side by side: two folders of `atonc app build` or application files that are planned for it, and `atonc
sweep` of applications, each planned for every board and setting that the file names.

Rows of a sweep, the keeping of them and the front are those of a sweep of models; here is what a row of an application
depends on, and what it costs. `sweep` takes a file of either kind, as this wing sees both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.frontends.custom_file import custom_files
from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application import building, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import ApplicationPlan, figures
from atonc.delivery.application.read import FILES, MAP, OWN, read_application, read_map
from atonc.delivery.application.types import AppChanges, Application
from atonc.insight.report.document import Chapter, Column, Document, Table, fields_of
from atonc.insight.sweeping import row as models
from atonc.insight.sweeping.plan import SHARE, SweepOptions, SweepPlan, SweepRow, read_plan
from atonc.insight.sweeping.run import Sweep, run
from atonc.insight.workers import WorkUnit
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import CheckResult

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
        if not place.exists():
            raise missing(place, "file or folder")
        if not is_application(place):
            rule = "compare takes two applications, or two networks"
            remedy = "name a folder of atonc app build, or an application file"
            raise InputError("an application and something else", where=str(place), rule=rule, remedy=remedy)
    one, other = _figures_at(a), _figures_at(b)
    sides = [{row["name"]: row for row in side["networks"]} for side in (one, other)]
    found = [*_pairs("", TOTALS, one["totals"], other["totals"])]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        found += _pairs(name, EACH, sides[0].get(name), sides[1].get(name))
    return found


def _figures_at(place: Path) -> dict[str, Any]:
    if place.suffix == ".toml":
        told = figures(building.planned(read_application(place))).as_dict()
        return {"networks": told["networks"], "totals": told}
    return read_map(place / MAP, _figures_in)


def _figures_in(data: Mapping[str, Any]) -> dict[str, Any]:
    networks = [{"name": str(row["name"]), **{key: float(row[key]) for key in EACH}} for row in data["networks"]]
    return {"networks": networks, "totals": {key: float(data["totals"].get(key, 0)) for key in TOTALS}}


def _pairs(
    network: str, names: Mapping[str, tuple[str, str]], a: Mapping[str, Any] | None, b: Mapping[str, Any] | None
) -> Iterator[AppFigurePair]:
    for key, (name, unit) in names.items():
        scale = 100 if unit == "%" else 1
        one, other = (None if side is None else scale * side[key] for side in (a, b))
        yield AppFigurePair(network, name, unit, one, other)


PAIRS = (
    Column[AppFigurePair]("", lambda one: one.network[:28] or "all networks", width=28, left=True),
    Column[AppFigurePair]("", lambda one: one.name, left=True),
    Column[AppFigurePair]("A", lambda one: _said(one.a, one.unit), width=14),
    Column[AppFigurePair]("B", lambda one: _said(one.b, one.unit), width=14),
    Column[AppFigurePair]("B/A", lambda one: one.ratio, "{:.3f}", width=7),
)


def document(found: Sequence[AppFigurePair], checks: Sequence[CheckResult] = ()) -> Document:
    rows = [fields_of(one, "network", "figure=name", "unit", "a", "b", "ratio") for one in found]
    sections = [Chapter("", [Table(PAIRS, found, "Figures", titles=True)])]
    return Document(sections=sections, data=lambda: {"figures": rows}, checks=checks)


def _said(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} B" if unit == "bytes" else f"{value:,.3f} {unit}"


FUNCTION = "atonc.delivery.application.comparing:compute"
_RESIDENT = "resident"


def sweep(file: Path, options: SweepOptions) -> Sweep:
    """All rows of a file, whether it names models or applications."""
    plan = read_plan(file)
    if not plan.applications:
        return run(plan, options, models.unit_of, models.FUNCTION)
    for name in plan.rows[0].options:  # some things are no network's own, or name files that each application names
        if name in (*OWN, *FILES) and name != _RESIDENT:
            rule = "options of a sweep are said to every network of every application"
            raise InputError(f"{name} beside applications", where=plan.file, rule=rule, remedy="leave it out")
    return run(replace(plan, rows=tuple(map(_with_board, plan.rows))), options, unit_of, FUNCTION)


def _with_board(row: SweepRow) -> SweepRow:
    """The row with the board that its file names, where the sweep names none."""
    found = None if row.board else _readable(row.model, AppChanges())
    return row if found is None else replace(row, board=found.board)


def _readable(file: Path, changes: AppChanges) -> Application | None:
    """Nothing where it cannot be read: that is said when the row is computed, as its reason."""
    try:
        return read_application(file, changes)
    except AtoncError:
        return None


def _changes(board: str, options: Mapping[str, Any]) -> AppChanges:
    each = {name: value for name, value in options.items() if name not in (_RESIDENT, SHARE)}
    return AppChanges(board, options.get(_RESIDENT), options.get(SHARE), each)


def unit_of(plan: SweepPlan, row: SweepRow) -> WorkUnit:
    """The application file, those of its board, and all that it names: files that are not there change the key when
    they come."""
    files = [row.model]
    names = {"options": dict(row.options), "verify": plan.verify} | models.add_board(row.board, files)
    found, named = _readable(row.model, _changes(row.board, row.options)), list[Path]()
    for one in found.networks if found is not None else ():
        options = [getattr(one.options, name) for name in FILES]
        named += [one.model, *(Path(name) for name in (*options, *one.options.calibration) if name)]
        named += custom_files(one.options.custom)
    files += dict.fromkeys(file for file in named if file.is_file())
    return WorkUnit(f"{row.model.name} {Path(row.board).name}".strip(), tuple(files), names)


def compute(unit: WorkUnit) -> bytes:
    return models.figures_or_reason(unit, _measured)


def _measured(unit: WorkUnit) -> dict[str, Any]:
    application = read_application(unit.files[0], _changes(models.board_of(unit), unit.options["options"]))
    found = building.planned_from(*building.read_with_room(application))
    return figures_of(planning.verify_all(found) if unit.options["verify"] else found)


def figures_of(found: ApplicationPlan) -> dict[str, Any]:
    """Times and energy are those of a second with all the runs that the file asks for."""
    told = figures(found)
    runs = [(one.network.per_second, one.compiled) for one in found.networks]
    bands = [(rate, made.cost.band.around(made.cost.latency_ms)) for rate, made in runs]
    constants = (
        (home.address, home.end)
        for _, made in runs
        for home in made.program.placed.values()
        if home.buffer.kind == BufferKind.CONSTANT
    )
    in_code = sum(one.code_constants_bytes for one in told.networks)
    return {
        "busy_ms": 1000 * told.load,
        "busy_low_ms": sum(rate * low for rate, (low, _) in bands),
        "busy_high_ms": sum(rate * high for rate, (_, high) in bands),
        "energy_uj_per_second": sum(rate * made.cost.energy.uj.likely for rate, made in runs),
        "npu_load": sum(rate * made.cost.npu_ms for rate, made in runs) / 1000,
        "flash_load": told.flash_load,
        "ram_bytes": told.ram_bytes,
        "lower_bound_bytes": told.lower_bound_bytes,
        "kept_bytes": told.kept_bytes,
        "resident_bytes": told.resident_bytes,
        "image_ram_bytes": told.image_ram_bytes,
        "flash_bytes": parts.size_of(parts.joined(constants)) + in_code,
        "free_flash_bytes": told.free_flash_bytes,
        "cpu_layers": sum(len(made.choices.reasons) for _, made in runs),
        "verified": True if all(made.report is not None for _, made in runs) else None,  # what fails is refused
        "notes": list(found.model_notes),
    }
