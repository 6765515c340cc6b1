"""Mistakes in single unit settings: comparing the emulator with the mapped semantics finds them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from atonc.compiler.compile.pipeline import Compiled
from tests.compiler.layer_checks import compile_checked, run_checked
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.compiler.test_named_cases import seven_by_seven

PLANTS = (
    ("ARITH", "shift_out", 1),
    ("ARITH", "b", 1 << 8),
    ("CONVACC", "out_shift", 1),
    ("CONVACC", "feature_offset", 1),
    ("POOL", "out_shift", 1),
    ("ACTIV", "shift_b", 1),
    ("STRENG", "address", 1),
)


@cache
def compiled_networks() -> tuple[Compiled, ...]:
    return tuple(compile_checked(graph) for graph in (random_graph(7), random_graph(9), seven_by_seven()))


def planted(compiled: Compiled, kind: str, field: str, more: int) -> Compiled | None:
    """The first unit of a kind with another setting."""
    for number, step in enumerate(compiled.program.steps):
        units = {} if step.epoch is None else step.epoch.of_kind(kind)
        for name, config in units.items():
            assert step.epoch is not None
            wrong = replace(config, **{field: getattr(config, field) + more})
            epoch = replace(step.epoch, units={**step.epoch.units, name: wrong})
            steps = list(compiled.program.steps)
            steps[number] = replace(step, epoch=epoch)
            return replace(compiled, program=replace(compiled.program, steps=tuple(steps)))
    return None


@pytest.mark.parametrize(("kind", "field", "more"), PLANTS)
def test_planted_mistakes_show(kind: str, field: str, more: int) -> None:
    found = 0
    for compiled in compiled_networks():
        wrong = planted(compiled, kind, field, more)
        if wrong is None:
            continue
        inputs = random_inputs(compiled.graph, 1)
        assert not run_checked(compiled, inputs).unlike_meaning
        try:
            found += bool(run_checked(wrong, inputs).unlike_meaning)
        except Exception:
            found += 1  # a writer that waits for ever, an access outside memory
    assert found
