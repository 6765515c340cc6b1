"""Python packages: what atonc's own metadata asks for, extra by extra."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import metadata

from atonc.delivery.doctor.types import DoctorItem, DoctorState, below

LEAST_PYTHON = "3.11"
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?$")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_LEAST = re.compile(r">=\s*([\w.]+)")
_BELOW = re.compile(r"<\s*([\w.]+)")


def python() -> DoctorItem:
    version = ".".join(map(str, sys.version_info[:3]))
    state = DoctorState.OLD if below(version, LEAST_PYTHON) else DoctorState.FOUND
    return DoctorItem("Python", state, version, f"{LEAST_PYTHON} or later", sys.executable)


def packages(extra: str = "") -> tuple[DoctorItem, ...]:
    """Those that always are needed, or those of one extra."""
    asked = requirements().get(extra, ())
    if not asked:
        remedy = "install atonc again with pip: the list of packages that it needs is not there"
        return (
            DoctorItem(f"metadata of atonc{f', extra {extra}' if extra else ''}", DoctorState.BROKEN, remedy=remedy),
        )
    return tuple(_look_for(name, limits, extra) for name, limits in asked)


@cache
def requirements() -> dict[str, tuple[tuple[str, str], ...]]:
    """Extra (empty: always) -> names and limits."""
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        lines = metadata.requires("atonc") or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        if match := _REQUIREMENT.match(line):
            extra = _EXTRA.search(match[3] or "")
            found.setdefault(extra[1] if extra else "", []).append((match[1], match[2].strip()))
    return {extra: tuple(rows) for extra, rows in found.items()}


def _look_for(name: str, limits: str, extra: str) -> DoctorItem:
    remedy = f"pip install 'atonc[{extra}]'" if extra else f"pip install '{name}{limits}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return DoctorItem(name, DoctorState.MISSING, wanted=limits, remedy=remedy)
    least, most = _LEAST.search(limits), _BELOW.search(limits)
    if least and below(version, least[1]):
        return DoctorItem(name, DoctorState.OLD, version, limits, remedy=f"pip install --upgrade '{name}{limits}'")
    if most and not below(version, most[1]):
        return DoctorItem(name, DoctorState.NEW, version, limits, remedy=f"pip install '{name}{limits}'")
    return DoctorItem(name, DoctorState.FOUND, version, limits)
