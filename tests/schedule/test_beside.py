"""Chains stand side by side as published programs have them, where nothing may rest on argument S1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.plan.co_scheduling import may_share_epoch
from atonc.compiler.plan.evidence import chain_texts
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.pack import pack
from atonc.compiler.schedule.spacers import spaced
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import PUBLISHED, Feature, Grade, Trust
from atonc.machine.hw.safety.evidence.board_file import BoardEvidence
from tests.compiler import golden_graphs
from tests.schedule.small import move, table, total

SEEN = Trust(Grade.WITHIN)
SETS = "chains side by side"


def refuted(*features: Feature) -> Trust:
    return Trust(board=BoardEvidence(refuted=frozenset(features)))


def sizes(trust: Trust, *tasks: Task) -> list[int]:
    return [len(epoch) for epoch in pack(TaskGroup(tasks), trust)]


def test_a_set_that_was_seen_stays() -> None:
    moves = tuple(move("x", f"y{n}") for n in range(4))
    assert sizes(PUBLISHED, *moves) == sizes(SEEN, *moves) == [4]


def test_the_largest_set_that_is_allowed_is_taken() -> None:
    """Two sums and two tables: as many as possible of those that there is room for."""
    long = replace(total("x", "z", "a"), cost=9)
    tasks = [long, table("x", "b"), replace(table("x", "c"), cost=5), total("x", "z", "d")]
    assert sizes(PUBLISHED, *tasks) == [4]
    found = pack(TaskGroup(tuple(tasks)), SEEN)
    assert sum(map(len, found)) == 4 and found[0][0] is tasks[0] and 1 < len(found) < 4
    assert all(may_share_epoch(epoch, SEEN) for epoch in found)


def test_what_a_board_refuted_is_kept_apart() -> None:
    one, other = move("x", "y", 0, 8), move("x", "y", 8, 8)
    near = Feature("two writers", "", "interleaved, no word in common")
    assert sizes(PUBLISHED, one, other) == [2]
    assert sizes(refuted(near), one, other) == [1, 1]
    assert sizes(refuted(Feature(SETS, "", "IN>ARITH>OUT || IN>ARITH>OUT")), one, other) == [1, 1]


def test_identities_are_added_only_where_they_help() -> None:
    moves = TaskGroup(tuple(move("x", f"y{n}") for n in range(3)))
    assert spaced(moves, PUBLISHED) is moves and spaced(moves, SEEN) is moves
    pair = TaskGroup(moves.tasks[:2])
    trust = refuted(Feature(SETS, "", "IN>ARITH>OUT || IN>ARITH>OUT"))
    found = spaced(pair, trust)
    assert sorted(len(task.units) for task in found.tasks) == [1, 2]
    assert [len(epoch) for epoch in pack(found, trust)] == [2] and spaced(found, trust) is found


def sets_of(compiled: Compiled) -> list[Feature]:
    found = []
    for step in compiled.scheduled.schedule.steps:
        texts = sorted(text for task in getattr(step, "tasks", ()) for text in chain_texts(task))
        found += [Feature(SETS, "", " || ".join(texts))] if len(texts) > 1 else []
    return found


@pytest.mark.parametrize("name", ["depthwise", "residual"])  # of other networks all sets are part of seen ones
def test_without_the_argument_sets_are_seen_and_bits_the_same(name: str) -> None:
    graph = getattr(golden_graphs, name)()
    default, strict = (compile_graph(graph, Options(verify=False, distrust=some)) for some in ((), ("S1",)))
    believed = Trust(distrusted=frozenset({"S1"}))
    assert any(not believed.allows(believed.grade(feature)) for feature in sets_of(default))
    assert sets_of(strict) and all(believed.allows(believed.grade(feature)) for feature in sets_of(strict))
    assert [r.node for r in strict.choices.reasons] == [r.node for r in default.choices.reasons]
    inputs = make_inputs(default.graph, 5)
    one, other = (Emulation(each.program, each.graph).run(inputs) for each in (default, strict))
    assert all(np.array_equal(one[output], other[output]) for output in one)
