"""Decisions come from what recipes recorded, not from the words in titles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.ir import Graph, Op
from atonc.compiler.plan.task import Purpose
from atonc.compiler.plan.types import EpochPlan
from atonc.insight.explain.ours import network_view
from tests.compiler.golden_graphs import Sketch
from tests.insight.views import compile_view
from tests.lower import harness


def padded() -> Graph:
    """A depthwise window whose padding no unit adds."""
    weights = np.random.default_rng(5).integers(-127, 128, (8, 10, 8, 1)).astype(np.int8)
    tensors = (
        harness.activation("x", (1, 49, 40, 8), zero_point=4),
        harness.constant("w", weights, np.full(8, 0.01), axis=0),
        harness.activation("y", (1, 25, 20, 8), scale=0.5),
    )
    attrs = {"groups": 8, "padding": (4, 3, 5, 3), "stride": (2, 2), "dilation": (1, 1), "layout": "NHWC"}
    return harness.graph_of(Op("conv", "c", ("x", "w"), ("y",), attrs), *tensors)


def decisions(view: CompileView) -> list[tuple[str, str, str]]:
    return [(layer.name, one.rule.id, one.seen) for layer in network_view(view).layers for one in layer.decisions]


def test_a_padded_copy_says_why() -> None:
    view = compile_view(padded())
    (seen,) = (seen for _, rule, seen in decisions(view) if rule == "MODE-PADDED-COPY")
    form = view.compiled.mapped.forms["c"]
    assert form.refused and form.refused[0].seen in seen and form.refused[0].limit in seen
    plans = [plan for plan in view.compiled.scheduled.plans if isinstance(plan, EpochPlan)]
    count = sum(plan.purpose == Purpose.PADDING for plan in plans)
    assert seen.startswith(f"{count} of {len(plans)} epochs") and 0 < count < len(plans)


def test_titles_decide_nothing() -> None:
    view = compile_view(padded())
    before = decisions(view)
    steps = tuple(replace(step, plan=replace(step.plan, title="?")) for step in view.compiled.program.steps)
    program = replace(view.compiled.program, steps=steps)
    assert decisions(replace(view, compiled=replace(view.compiled, program=program))) == before


def test_lanes_say_what_else_was_possible() -> None:
    sketch = Sketch().start(1, 28, 28, 16, zero=-5)  # so few channels that one chain leaves convolvers idle
    sketch.conv(96, (1, 1))
    view = compile_view(sketch.graph())
    (seen,) = (seen for _, rule, seen in decisions(view) if rule == "FORM-CHEAPEST")
    (form,) = (form for form in view.compiled.mapped.forms.values() if form.alternatives)
    alternatives = form.alternatives
    assert seen.startswith(f"{alternatives[0].chosen.label}: {alternatives[0].chosen_form.cycles:,} cycles; ")
    (slowest,) = (one for one in alternatives if one.variant.label == "one chain after the other")
    assert slowest.built is None and f"one chain after the other at least {slowest.least_cycles:,.0f}" in seen
    assert all(one.form and one.form.cost >= one.chosen_form.cost for one in alternatives)
    assert all(one.form and one.form.cycles >= one.least_cycles for one in alternatives), "a bound is one"
