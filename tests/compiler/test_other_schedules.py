"""Networks under other schedules: the same bytes, by really other programs, and a difference is seen."""

from __future__ import annotations

import pytest

from atonc.compiler.verify.emulation import Emulation
from tests.compiler import other_schedules
from tests.compiler.cases import judge
from tests.compiler.layer_checks import compile_checked
from tests.compiler.random_graphs import random_graph, random_inputs

SEEDS = (1, 7003, 7004)


@pytest.mark.parametrize("plain", [True, False])
def test_outputs_keep_their_bytes(plain: bool) -> None:
    verdicts = [judge(random_graph(seed, plain), seed, schedules=True) for seed in SEEDS]
    assert [verdict.problem for verdict in verdicts] == [""] * len(SEEDS)
    without, in_ram = zip(*(verdict.schedules for verdict in verdicts), strict=True)
    assert sum(other.epochs for other in without) > sum(verdict.epochs for verdict in verdicts)
    assert sum(other.copies for other in in_ram) > 0


@pytest.mark.parametrize(("seed", "others"), [(967, 0), (1623, 0)])  # the other forms have no evidence
def test_lanes_stay_where_other_forms_would_be_chosen_without(seed: int, others: int) -> None:
    verdict = judge(random_graph(seed, plain=True), seed, schedules=True)
    assert not verdict.problem
    assert [len(other.forms) for other in verdict.schedules] == [others, 0]


def test_weights_are_kept_and_fetched() -> None:
    compiled = compile_checked(random_graph(7001))
    placed = other_schedules.weights_in_ram(compiled).placed.keys() - compiled.program.placed.keys()
    assert {name.rpartition(" ")[2] for name in placed} == {"(resident)", "(prefetched)"}


def test_another_byte_is_a_problem() -> None:
    compiled = compile_checked(random_graph(7003))
    inputs = random_inputs(compiled.graph, 0)
    outputs = Emulation(compiled.program, compiled.graph).run(random_inputs(compiled.graph, 1))  # not of these inputs
    problems = [other.problem for other in other_schedules.other_schedules(compiled, inputs, outputs)]
    assert [problem.split(", other bytes")[0] for problem in problems] == [
        "schedule: without passes",
        "schedule: weights in RAM",
    ]
