"""Decisions as JSON: saved with a build, given back with `--decisions`. The file may be anybody's: all is checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from atonc.compiler.ir import Graph
from atonc.compiler.ir.text import dump
from atonc.compiler.request.options import Options
from atonc.compiler.select.decisions import FIRST, Copy, Decisions, Fetched, MadeFor, Stripe
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import RULES
from atonc.compiler.select.variants import Variant
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

KEY = "decisions"  # beside what else a file has
MAX_BYTES = 1 << 26
_DIGEST = 16  # digits of a digest that tell graphs apart
_MOST = 1 << 48  # beyond any address, size or count
_CONDITIONS = {
    "npu": "the NPU (--no-npu)",
    "numerics": "--numerics",
    "epoch_controller": "the epoch controller (--no-epoch-controller)",
    "graph": "the digest of the graph",  # last: it depends on the others as well
}
_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def as_json(decisions: Decisions) -> dict[str, Any]:
    """What differs from the first decisions; sets in order."""
    values = {name: value for name, value in asdict(decisions).items() if value != asdict(FIRST)[name]}
    for name, value in values.items():
        if isinstance(value, frozenset):
            values[name] = sorted(value)
        elif isinstance(value, Fraction):
            values[name] = str(value)
    if decisions.on_cpu:
        values["on_cpu"] = {op: why.as_dict() for op, why in decisions.on_cpu.items()}
    return values


def made_for(graph: Graph, options: Options) -> MadeFor:
    """The graph counts without its name, which may be that of the file."""
    digest = hashlib.sha256(dump(replace(graph, name="")).encode()).hexdigest()
    return MadeFor(graph.name, digest[:_DIGEST], options.numerics, not options.no_npu, options.epoch_controller)


def read_decisions(path: Path, graph: Graph, now: MadeFor) -> Decisions:
    """From a file of its own, or from NAME_program.json; `now`: what they shall be used for."""
    try:
        found = _object(json.loads(read_file(path, MAX_BYTES)), "the file")
        if not found:
            raise ValueError(f"the file lacks {KEY!r}, and names no decision either")
        given = _object(found.get(KEY, found), f"its {KEY!r}")
        decisions = _decisions(given)
    except (ValueError, TypeError, RecursionError) as error:
        what = "a binary file" if isinstance(error, UnicodeDecodeError) else str(error)[:200]
        raise InputError(
            f"no decisions: {what}",
            where=str(path),
            rule="a file that `atonc explain --search --json` or `atonc generate` wrote (NAME_program.json)",
        ) from None
    if decisions.made_for is not None:
        _require_same(decisions.made_for, now, path)
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
        raise ValueError(did_you_mean(strange[0], known, f"unknown decision {strange[0][:60]!r}"))
    return Decisions(**{name: _read(name, value) for name, value in given.items()})


def _read(name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except KeyError as error:
        raise ValueError(f"{name!r} lacks {error}") from None
    except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"{name!r}: {error}") from None


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:60]!r} is not a list of names")
    return frozenset(_text(one) for one in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise TypeError(f"{str(value)[:60]!r} is not a whole number from 0 on")
    return value


def _codes(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise TypeError(f"{str(value)[:60]!r} is not a number of codes")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _fetched(value: Any) -> tuple[Fetched, ...] | None:
    if value is None:
        return None
    return tuple(_one_fetched(one) for one in value)


def _one_fetched(given: Mapping[str, Any]) -> Fetched:
    numbers = {name: _whole(value) for name, value in given.items() if name not in ("constant", "copies")}
    copies = (Copy(**{name: _whole(value) for name, value in copy.items()}) for copy in given["copies"])
    return Fetched(_text(given["constant"]), **numbers, copies=tuple(copies))


def _stripe(given: Mapping[str, Any]) -> Stripe:
    ops, bands = tuple(map(_text, given["ops"])), _whole(given["bands"])
    if not ops or not bands:
        raise ValueError("a stripe without operators or without row tiles")
    return Stripe(ops, bands)


def _made_for(value: Any) -> MadeFor | None:
    if value is None:
        return None
    texts = {name: _text(value[name]) for name in ("model", "graph", "numerics")}
    return MadeFor(**texts, npu=_flag(value["npu"]), epoch_controller=_flag(value["epoch_controller"]))


def _refused(rule: str, seen: str, limit: str, remedy: str) -> RefusedForm:
    if rule not in RULES:
        raise ValueError(did_you_mean(_text(rule), RULES, f"no rule is called {rule[:60]!r}"))
    return RefusedForm(RULES[rule], _text(seen), _text(limit), _text(remedy))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "huge_share": Fraction,
    "compact": _flag,
    "thrifty": _flag,
    "fused": _flag,
    "on_cpu": lambda value: {op: _refused(**_object(why, op)) for op, why in _object(value, "it").items()},
    "unfused": _names,
    "alone": _names,
    "stripes": lambda value: tuple(map(_stripe, value)),
    "unstriped": _names,
    "reserved": _names,
    "forms": lambda value: {op: str(Variant.read(_text(text))) for op, text in _object(value, "it").items()},
    "disproved": lambda value: {op: tuple(map(_codes, errors)) for op, errors in _object(value, "it").items()},
    "cuts": lambda value: {name: tuple(map(_whole, cuts)) for name, cuts in _object(value, "it").items()},
    "near": _names,
    "ram_scarce": _flag,
    "resident_bytes": _whole,
    "resident": lambda value: None if value is None else {_text(name): _whole(place) for name, place in value.items()},
    "fetched": _fetched,
    "by_dma": _flag,
    "made_for": _made_for,
}


def _require_same(before: MadeFor, now: MadeFor, path: Path) -> None:
    """Elsewhere the same names may stand for something else."""
    for name, what in _CONDITIONS.items():
        was, asked = getattr(before, name), getattr(now, name)
        if was != asked:
            raise InputError(
                f"made for {before.model[:60] or 'a graph'} where {what} is {_said(was)}; here it is {_said(asked)}",
                where=str(path),
                rule="decisions belong to one graph (a model with its cuts and formats) and one way to lower it",
                remedy="give the model and the options of then, or make the decisions again with these; without its "
                "'made_for' a file is taken as far as its names fit",
            )


def _said(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _require_known(decisions: Decisions, graph: Graph, path: Path) -> None:
    ops = {op.name for op in graph.ops}
    striped = (name for stripe in decisions.stripes for name in stripe.ops)
    apart = (*decisions.unfused, *decisions.alone, *decisions.unstriped, *decisions.reserved, *decisions.near)
    for name in (*decisions.on_cpu, *decisions.forms, *decisions.disproved, *apart, *striped):
        if name not in ops:
            raise InputError(
                f"the network has no operator {name[:80]!r}",
                where=str(path),
                rule="decisions belong to one network",
                remedy=did_you_mean(name, ops, "save them again from this model"),
            )
    _require_neighbours(decisions.stripes, [op.name for op in graph.ops], path)


def _require_neighbours(stripes: Sequence[Stripe], ops: Sequence[str], path: Path) -> None:
    """Stripes are lowered from their first operator on."""
    taken: set[str] = set()
    for stripe in stripes:
        first = ops.index(stripe.ops[0])
        if tuple(ops[first : first + len(stripe.ops)]) != stripe.ops or not taken.isdisjoint(stripe.ops):
            raise InputError(
                f"no stripe: {', '.join(stripe.ops)[:200]}",
                where=str(path),
                rule="operators of a stripe come one behind the other in the graph, each in one stripe",
                remedy="name them in their order, without gaps",
            )
        taken.update(stripe.ops)
