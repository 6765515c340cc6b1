"""Decisions as JSON: saved with a build, given back with `--decisions`. The file may be anybody's: all is checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from atonc.compiler.ir import Graph
from atonc.compiler.select.decisions import FIRST, Copy, Decisions, Fetched, Stripe
from atonc.compiler.select.form import RefusedForm
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

KEY = "decisions"  # beside what else a file has
MAX_BYTES = 1 << 26
_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def as_json(decisions: Decisions) -> dict[str, Any]:
    """What differs from the first decisions; sets in order."""
    values = {name: value for name, value in asdict(decisions).items() if value != asdict(FIRST)[name]}
    for name, value in values.items():
        if isinstance(value, frozenset):
            values[name] = sorted(value)
        elif isinstance(value, Fraction):
            values[name] = str(value)
    return values


def read_decisions(path: Path, graph: Graph) -> Decisions:
    """From a file of its own, or from NAME_program.json."""
    try:
        found = _object(json.loads(read_file(path, MAX_BYTES)), "the file")
        given = _object(found.get(KEY, found), f"its {KEY!r}")
        decisions = _decisions(given)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, ZeroDivisionError) as error:
        raise InputError(
            f"no decisions: {str(error)[:200]}",
            where=str(path),
            rule="a file that `atonc explain --search --json` or `atonc generate` wrote (NAME_program.json)",
        ) from None
    _require_known(decisions, graph, path)
    return decisions


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what} is {_KINDS.get(type(value), 'a value')}, not an object with names")
    return value


def _decisions(given: Mapping[str, Any]) -> Decisions:
    known = {one.name for one in fields(Decisions)}
    strange = [name for name in given if name not in known]
    if strange:
        raise ValueError(did_you_mean(strange[0], known, f"nobody decides {strange[0][:60]!r}"))
    return Decisions(**{name: _READERS[name](value) for name, value in given.items()})


def _names(value: Any) -> frozenset[str]:
    return frozenset(_text(one) for one in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _fetched(value: Any) -> tuple[Fetched, ...] | None:
    if value is None:
        return None
    return tuple(Fetched(**{**one, "copies": tuple(Copy(**copy) for copy in one["copies"])}) for one in value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "huge_share": Fraction,
    "compact": _flag,
    "fused": _flag,
    "on_cpu": lambda value: {_text(op): RefusedForm(**why) for op, why in value.items()},
    "unfused": _names,
    "alone": _names,
    "stripes": lambda value: tuple(Stripe(tuple(map(_text, one["ops"])), int(one["bands"])) for one in value),
    "unstriped": _names,
    "reserved": _names,
    "forms": lambda value: {_text(op): _text(label) for op, label in value.items()},
    "disproved": lambda value: {_text(op): tuple(map(float, errors)) for op, errors in value.items()},
    "cuts": lambda value: {_text(name): tuple(map(int, cuts)) for name, cuts in value.items()},
    "resident_bytes": int,
    "resident": lambda value: None if value is None else {_text(name): int(place) for name, place in value.items()},
    "fetched": _fetched,
}


def _require_known(decisions: Decisions, graph: Graph, path: Path) -> None:
    ops = {op.name for op in graph.ops}
    striped = (name for stripe in decisions.stripes for name in stripe.ops)
    apart = (*decisions.unfused, *decisions.alone, *decisions.unstriped, *decisions.reserved)
    for name in (*decisions.on_cpu, *decisions.forms, *decisions.disproved, *apart, *striped):
        if name not in ops:
            raise InputError(
                f"the network has no operator {name[:80]!r}",
                where=str(path),
                rule="decisions belong to one network",
                remedy=did_you_mean(name, ops, "save them again from this model"),
            )
