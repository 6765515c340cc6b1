"""Operators behind others in one epoch: the same bits, fewer cycles, only forms with evidence; every fault is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.lower.move.copies import SAME
from atonc.compiler.plan.longer import IDENTITY
from atonc.compiler.plan.task import EngineUse, Task, TaskGroup, Wire
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import FUSE
from atonc.compiler.schedule.check import MERGED, ONCE, check
from atonc.compiler.schedule.types import Merge
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers
from atonc.insight.explain.decide import of_schedule
from atonc.machine.hw.safety.evidence import Grade
from tests.compiler.golden_graphs import Sketch
from tests.compiler.random_graphs import random_graph, random_inputs

RANDOM = int(os.environ.get("ATONC_RANDOM_CHAINS", "6"))
CHAINED, PLAIN = Options(verify=False), Options(verify=False, schedule_without=(FUSE,))


def sigmoid() -> Graph:
    net = Sketch().start(1, 12, 12, 16)
    net.conv(24, (3, 3))
    net.op("logistic", (1, 12, 12, 24), scale=1 / 256, zero=-128)
    return net.graph()


def swish_that_others_read() -> Graph:
    """The convolution is read again by a later sum, so that it is written all the same."""
    net = Sketch().start(1, 12, 12, 32)
    first = net.conv(32)
    net.op("hard_swish", (1, 12, 12, 32), scale=0.015, zero=-110)
    net.op("max_pool", (1, 12, 12, 32), window=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), layout="NHWC")
    net.op("add", (1, 12, 12, 32), first, scale=0.04)
    return net.graph()


def residual() -> Graph:
    net = Sketch().start(1, 16, 16, 32, zero=3)
    net.conv(32, (3, 3))
    net.op("add", (1, 16, 16, 32), "x", scale=0.04)
    return net.graph()


def two_branches() -> Graph:
    """The later one of two convolutions takes the sum."""
    net = Sketch().start(1, 14, 14, 24, zero=-7)
    first = net.conv(40, (3, 3))
    net.last = "x"
    net.conv(40)
    net.op("add", (1, 14, 14, 40), first, scale=0.04)
    return net.graph()


def sums_through_memory() -> Graph:
    """So many channels that sums go through memory, and then a table."""
    net = Sketch().start(1, 8, 8, 200, zero=5)
    net.conv(16, (3, 3))
    net.op("logistic", (1, 8, 8, 16), scale=1 / 256, zero=-128)
    return net.graph()


GRAPHS = {g.__name__: g for g in (sigmoid, swish_that_others_read, residual, two_branches, sums_through_memory)}
KEPT = ("swish_that_others_read",)


def results(compiled: Compiled, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return Emulation(compiled.program, compiled.graph).run(inputs)


def same(graph: Graph, inputs: Callable[[Graph], dict[str, np.ndarray]]) -> tuple[Compiled, Compiled]:
    """Both programs, which must give the same bits."""
    chained, plain = (compile_graph(graph, options) for options in (CHAINED, PLAIN))
    assert not plain.scheduled.schedule.merges
    given = inputs(chained.graph)
    one, other = results(chained, given), results(plain, given)
    for name in chained.graph.outputs:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    return chained, plain


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


@pytest.mark.parametrize("name", GRAPHS)
def test_chained_operators_give_the_same_bits_in_fewer_cycles(name: str) -> None:
    chained, plain = same(GRAPHS[name](), lambda graph: make_inputs(graph, 1))
    assert [merge.kept for merge in chained.scheduled.schedule.merges][:1] == [name in KEPT]
    assert len(chained.program.epochs) < len(plain.program.epochs)
    assert cycles(chained) < cycles(plain)
    assert chained.layout.peak_bytes <= plain.layout.peak_bytes
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in chained.grades)


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_networks_give_the_same_bits(seed: int) -> None:
    same(random_graph(seed), lambda graph: random_inputs(graph, seed))


def test_the_front_of_a_tensor_is_not_all_of_it() -> None:
    """A slice from the first byte on is plain work on bytes, but the layer before writes more than it reads."""
    same(random_graph(141, False), lambda graph: random_inputs(graph, 141))


def test_every_operator_is_checked_and_explained() -> None:
    compiled = compile_graph(residual(), CHAINED)
    inputs = make_inputs(compiled.graph, 1)
    seen = Emulation(compiled.program, compiled.graph).run(inputs, observe=True)
    checks = Layers.of(compiled).check(inputs, seen, semantics=True)
    assert [(one.kind, one.chained, one.bad) for one in checks] == [("conv", True, False), ("add", False, False)]
    assert checks[1].through == 1  # the convolution is taken as it is meant
    for op in compiled.graph.ops:
        assert any(d.rule.id.startswith("CHAIN-") for d in of_schedule(op.name, compiled.scheduled.schedule))


def test_a_wrong_convolution_shows_in_the_sum_behind_it() -> None:
    compiled = compile_graph(residual(), CHAINED)
    inputs = make_inputs(compiled.graph, 1)
    seen = Emulation(compiled.program, compiled.graph).run(inputs, observe=True)
    output = compiled.graph.outputs[0]
    wrong = seen | {output: (seen[output].astype(np.int64) // 2).astype(np.int8)}
    assert any(one.bad for one in Layers.of(compiled).check(inputs, wrong, semantics=True))


def test_the_identity_is_that_of_copies() -> None:
    assert (IDENTITY,) == SAME


def test_only_seen_forms_are_chained_where_the_user_wants_that() -> None:
    compiled = compile_graph(residual(), Options(verify=False, silicon="seen"))
    grades = {grade.number: grade.grade for grade in compiled.grades}
    assert all(grade.rank <= Grade.WITHIN.rank for grade in grades.values())


# ------------------------------------------------------------------------------------------------- planted faults


def changed(merge: Merge, new: Task) -> Merge:
    return replace(merge, pairs=((merge.pairs[0][0], new), *merge.pairs[1:]))


def added(merge: Merge, write: bool) -> str:
    """The engine that the longer task has besides."""
    old, new = merge.pairs[0]
    return next(n for n, use in new.engines.items() if n not in old.engines and bool(use.config.to_memory) == write)


def with_engine(merge: Merge, name: str, use: EngineUse) -> Merge:
    new = merge.pairs[0][1]
    return changed(merge, replace(new, engines={**new.engines, name: use}))


def shifted_operand(merge: Merge) -> Merge:
    use = merge.pairs[0][1].engines[added(merge, False)]
    return with_engine(merge, added(merge, False), replace(use, config=replace(use.config, address=1)))


def other_operand(merge: Merge) -> Merge:
    use = merge.pairs[0][1].engines[added(merge, False)]
    return with_engine(merge, added(merge, False), replace(use, buffer=merge.through))


def transposed_result(merge: Merge) -> Merge:
    use = merge.pairs[0][1].engines[added(merge, True)]
    config = replace(use.config, frame_offset=use.config.frame_offset + 1)
    return with_engine(merge, added(merge, True), replace(use, config=config))


def another_sum(merge: Merge) -> Merge:
    old, new = merge.pairs[0]
    name = next(n for n in new.units if n not in old.units and getattr(new.units[n], "dual_input", 0))
    unit = new.units[name]
    return changed(merge, replace(new, units={**new.units, name: replace(unit, c=unit.c + 1)}))  # type: ignore[call-arg, attr-defined, type-var]


def exchanged_operands(merge: Merge) -> Merge:
    old, new = merge.pairs[0]
    fresh = {n for n in new.units if n not in old.units and getattr(new.units[n], "dual_input", 0)}
    wires = tuple(w._replace(port=1 - w.port) if w.target in fresh else w for w in new.wires)
    return changed(merge, replace(new, wires=wires))


def changed_producer(merge: Merge) -> Merge:
    old, new = merge.pairs[0]
    name = next(n for n in old.units if n.startswith("ARITH"))
    unit = new.units[name]
    return changed(merge, replace(new, units={**new.units, name: replace(unit, a=7)}))  # type: ignore[call-arg, type-var]


def extra_wire(merge: Merge) -> Merge:
    old, new = merge.pairs[0]
    conv = next(n for n in old.units if n.startswith("CONVACC"))
    return changed(merge, replace(new, wires=(*new.wires, Wire(added(merge, False), conv, 2))))


def kept_in_name_only(merge: Merge) -> Merge:
    return replace(merge, kept=True)


def another_group(merge: Merge) -> Merge:
    return replace(merge, group=TaskGroup(merge.group.tasks[:1]))


def forgotten_task(merge: Merge) -> Merge:
    return replace(merge, pairs=merge.pairs[1:])


def another_producer(merge: Merge) -> Merge:
    return replace(merge, producer="nobody")


FAULTS = {
    plant.__name__: plant
    for plant in (
        shifted_operand, other_operand, transposed_result, another_sum, exchanged_operands, changed_producer,
        extra_wire, kept_in_name_only, another_group, forgotten_task, another_producer,
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def summed() -> Compiled:
    return compile_graph(residual(), CHAINED)


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, summed: Compiled) -> None:
    schedule, works = summed.scheduled.schedule, summed.mapped.works
    aliases = summed.mapped.context.aliases
    assert check(works, schedule, summed.scheduled.plans, aliases) == []
    merge = next(merge for merge in schedule.merges if merge.consumer.startswith("add"))
    merges = tuple(FAULTS[name](one) if one is merge else one for one in schedule.merges)
    found = check(works, replace(schedule, merges=merges), summed.scheduled.plans, aliases)
    assert {finding.rule for finding in found} & {MERGED}, found


def test_a_merge_that_nobody_declares_is_found(summed: Compiled) -> None:
    schedule = replace(summed.scheduled.schedule, merges=())
    found = check(summed.mapped.works, schedule, summed.scheduled.plans, summed.mapped.context.aliases)
    assert {finding.rule for finding in found} >= {ONCE}


def test_an_operand_that_is_written_later_is_found(summed: Compiled) -> None:
    """The consumer's other operand would be read before it is there."""
    schedule, works = summed.scheduled.schedule, list(summed.mapped.works)
    merge = next(merge for merge in schedule.merges if merge.consumer.startswith("add"))
    place = next(n for n, work in enumerate(works) if work.op == merge.consumer)
    target = merge.group.tasks[0].writers()[0].buffer
    late = {
        name: EngineUse("x" if use.config.to_memory else target, use.config)
        for name, use in merge.group.tasks[0].engines.items()
    }
    again = TaskGroup.of(replace(merge.group.tasks[0], engines=late))
    works.insert(place, replace(works[place], op="late", groups=(again,)))
    found = check(works, schedule, summed.scheduled.plans, summed.mapped.context.aliases)
    assert any(finding.rule == MERGED and "behind the producer" in finding.seen for finding in found)
