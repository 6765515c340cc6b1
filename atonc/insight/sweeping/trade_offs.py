"""One model with the options that trade RAM for time: the rows behind `atonc analyze --pareto`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import ALL_FREE, Options
from atonc.insight.sweeping.front import MEMORY
from atonc.insight.sweeping.options import SweepOptions
from atonc.insight.sweeping.plan import OWN_KEYS, SweepPlan, SweepRow
from atonc.insight.sweeping.run import Sweep, run
from atonc.machine.base.declare import default_of

VARIED = ("prefer", "resident", "schedule_with")
_SIZES = tuple(str(size << 10) for size in (64, 128, 256, 512, 1024, 2048))  # of weights that stay in RAM


def trade_offs(model: Path, asked: Options) -> SweepPlan:
    """Everything else stays as the user asked for it."""
    names = [member.name for member in fields(Options) if member.name not in (*OWN_KEYS, *VARIED)]
    given = {name: getattr(asked, name) for name in names if getattr(asked, name) != _default(name)}
    shape = ",".join(f"{name}={size}" for name, size in asked.fixed_shapes.items())
    rows = tuple(SweepRow(model, asked.board, shape, {**given, **varied}) for varied in _choices(asked))
    return SweepPlan(str(model), rows, verify=asked.verify, varied=VARIED)


def pareto(model: Path, asked: Options, options: SweepOptions) -> Sweep:
    """By RAM, and of rows with the same figures the first: a size may be more than is free."""
    found = run(trade_offs(model, asked), options)
    once = {json.dumps(result.figures or result.why_not, sort_keys=True): result for result in reversed(found.results)}
    kept = sorted(once.values(), key=lambda result: (result.figures or {}).get(MEMORY, math.inf))
    return replace(found, results=tuple(kept))


def _choices(asked: Options) -> Iterator[Mapping[str, Any]]:
    yield _choice("speed")
    yield _choice("memory")
    for size in (ALL_FREE, *_SIZES):
        yield _choice("speed", size)
    if asked.silicon != "seen":  # no published program fetches weights ahead
        yield _choice("speed", "", "prefetch")
        yield _choice("speed", ALL_FREE, "prefetch")


def _choice(prefer: str, resident: str = "", *passes: str) -> Mapping[str, Any]:
    return dict(zip(VARIED, (prefer, resident, passes), strict=True))


def _default(name: str) -> Any:
    return default_of(next(member for member in fields(Options) if member.name == name))
