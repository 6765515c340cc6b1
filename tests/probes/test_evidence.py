"""Controls have published forms, and every argument of the evidence has a probe that stands or falls with it."""

from __future__ import annotations

import pytest

from atonc.compiler.emit.contexts import safety_contexts
from atonc.delivery.probes import PROBES, Probe
from atonc.delivery.probes.build import build
from atonc.machine.hw.safety.evidence import EpochGrade, Grade, grade_program
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS, Argument


def grades(probe: Probe) -> tuple[EpochGrade, ...]:
    network = build(probe).network
    return grade_program(network.program.epochs, safety_contexts(network.program, network.pools))


@pytest.mark.parametrize("probe", [p for p in PROBES if p.is_control], ids=lambda probe: probe.name)
def test_a_control_has_nothing_but_published_forms(probe: Probe) -> None:
    assert [form for epoch in grades(probe) for form in epoch.forms] == []


@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda argument: argument.id)
def test_an_argument_is_asked_alone(argument: Argument) -> None:
    asked = {probe.name: probe for probe in PROBES}
    assert argument.probes
    for name in argument.probes:
        found = grades(asked[name])
        composed = [form.graded for epoch in found for form in epoch.forms if form.graded.grade == Grade.COMPOSED]
        assert {graded.argument for graded in composed} == {argument.id}
        assert Grade.UNSEEN not in {epoch.grade for epoch in found}


@pytest.mark.parametrize("probe", [p for p in PROBES if p.argument], ids=lambda probe: probe.name)
def test_a_probe_is_about_the_argument_that_it_names(probe: Probe) -> None:
    """Something of it rests on that argument, or it is a part of a larger set of chains; and nothing on another one."""
    graded = [form.graded for epoch in grades(probe) for form in epoch.forms]
    assert probe.argument in {one.argument for one in graded} or {one.grade for one in graded} == {Grade.PART}
    assert {one.argument for one in graded} <= {probe.argument, ""}


def test_probes_and_arguments_name_each_other() -> None:
    asked = {probe.name: probe.argument for probe in PROBES}
    assert {name: asked[name] for argument in ARGUMENTS for name in argument.probes} == {
        name: argument.id for argument in ARGUMENTS for name in argument.probes
    }
