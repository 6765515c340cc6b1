"""`atonc sweep` of applications: each planned for every board and setting that the file names.

Rows, the keeping of them and the front are those of a sweep of models; here is what a row of an application depends
on, and what it costs. `sweep` takes a file of either kind, as this wing sees both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application import building, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.figures import figures
from atonc.delivery.application.plan_types import ApplicationPlan
from atonc.delivery.application.read import FILES, OWN, read_application
from atonc.delivery.application.types import AppChanges, Application
from atonc.insight.sweeping import row as models
from atonc.insight.sweeping.plan import SHARE, SweepOptions, SweepPlan, SweepRow, read_plan
from atonc.insight.sweeping.run import Sweep, run
from atonc.insight.workers import WorkUnit
from atonc.machine.base.errors import AtoncError, InputError

FUNCTION = "atonc.delivery.application.sweeping:compute"
_RESIDENT = "resident"


def sweep(file: Path, options: SweepOptions) -> Sweep:
    """All rows of a file, whether it names models or applications."""
    plan = read_plan(file)
    if not plan.applications:
        return run(plan, options, models.unit_of, models.FUNCTION)
    _require_settings(plan)
    return run(replace(plan, rows=tuple(map(_with_board, plan.rows))), options, unit_of, FUNCTION)


def _require_settings(plan: SweepPlan) -> None:
    """Some things are no network's own, or name files that each application names for itself."""
    for name in plan.rows[0].options:
        if name in (*OWN, *FILES) and name != _RESIDENT:
            rule = "options of a sweep are said to every network of every application"
            raise InputError(f"{name} beside applications", where=plan.file, rule=rule, remedy="leave it out")


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
    found = _readable(row.model, _changes(row.board, row.options))
    named = _named(found) if found is not None else []
    files += dict.fromkeys(file for file in named if file.is_file())
    return WorkUnit(f"{row.model.name} {Path(row.board).name}".strip(), tuple(files), names)


def _named(application: Application) -> list[Path]:
    found = []
    for one in application.networks:
        options = [getattr(one.options, name) for name in FILES]
        found += [one.model, *(Path(name) for name in (*options, *one.options.calibration) if name)]
    return found


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
    in_code = sum(made.memory_use().code_constants_bytes for _, made in runs)
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
        "cpu_layers": sum(len(made.mapped.reasons) for _, made in runs),
        "verified": True if all(made.report is not None for _, made in runs) else None,  # what fails is refused
        "notes": [f"{one.name}: {note}" for one in found.networks for note in one.compiled.source.notes],
    }
