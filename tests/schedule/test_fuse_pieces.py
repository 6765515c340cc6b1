"""Parts of a join written to their place by whoever makes them: the same bits, fewer cycles, every fault is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.plan.task import EngineUse, Task
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import FUSE
from atonc.compiler.schedule.check import MERGED, check
from atonc.compiler.schedule.types import Merge
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers
from atonc.insight.explain.decide import of_schedule
from tests.compiler.golden_graphs import Sketch
from tests.schedule.planted import Fault, rules_broken, with_fault

ON = Options(verify=False)
OFF = replace(ON, schedule_without=(FUSE,))


def joined(axis: int = 1, read_by_others: bool = False, rows: int = 8, columns: int = 4, channels: int = 8) -> Graph:
    """Two convolutions whose results are joined, and one that reads the join."""
    net = Sketch().start(1, rows, columns, 8, zero=-128)
    one = net.conv(channels)
    net.last = "x"
    two = net.conv(channels)
    quant = net.tensors[one]
    net.last = one
    shape = [1, rows, columns, channels]
    shape[axis] *= 2
    net.tensors[two] = replace(net.tensors[two], quant=quant.quant)
    net.op("concat", tuple(shape), two, scale=quant.scale, zero=quant.zero_point, axis=axis)
    last = net.conv(8, (3, 3))
    graph = net.graph()
    return replace(graph, outputs=(last, one)) if read_by_others else graph


def moved(compiled: Compiled) -> list[Merge]:
    """Merges of the parts of a join."""
    return [one for one in compiled.scheduled.schedule.merges if one.consumer.startswith("concat")]


def cycles(compiled: Compiled) -> int:
    return sum(step.cycles for step in compiled.program.steps)


@pytest.mark.parametrize(("axis", "channels"), [(1, 8), (3, 8), (3, 24)])
def test_a_join_takes_no_step_and_gives_the_same_bits(axis: int, channels: int) -> None:
    """One part behind the other, or bytes of both in turn."""
    graph = joined(axis, channels=channels)
    on, off = compile_graph(graph, ON), compile_graph(graph, OFF)
    assert [merge.consumer for merge in moved(on)] == ["concat2", "concat2"]
    assert not any("concat" in owner for owner in on.scheduled.schedule.owners)
    assert any("concat" in owner for owner in off.scheduled.schedule.owners)
    inputs = make_inputs(graph, 3)
    one, two = (Emulation(c.program, c.graph).run(inputs) for c in (on, off))
    assert all(np.array_equal(one[name], two[name]) for name in graph.outputs)


def test_layers_are_checked_and_explained() -> None:
    compiled = compile_graph(joined(), ON)
    inputs = make_inputs(compiled.graph, 1)
    seen = Emulation(compiled.program, compiled.graph).run(inputs, observe=True)
    checks = Layers.of(compiled).check(inputs, seen, semantics=True)
    assert [(one.kind, one.bad) for one in checks] == [(op.kind, False) for op in compiled.graph.ops]
    assert any(d.rule.id.startswith("CHAIN-") for d in of_schedule("concat2", compiled.scheduled.schedule))
    wrong = seen | {"concat2": np.roll(seen["concat2"], 1)}
    assert any(one.bad for one in Layers.of(compiled).check(inputs, wrong, semantics=True))


def test_bytes_may_begin_at_any_address() -> None:
    """Unlike wider elements: here the second part begins at byte 60."""
    merges = moved(compile_graph(joined(rows=5, columns=3, channels=4), ON))
    assert sorted(one.producer for one in merges) == ["conv0", "conv1"]


@pytest.mark.parametrize("axis", [1, 3])
def test_a_part_that_others_read_is_written_twice(axis: int) -> None:
    graph = joined(axis, read_by_others=True)
    on, off = compile_graph(graph, ON), compile_graph(graph, OFF)
    assert sorted(merge.kept for merge in moved(on)) == [False, True]
    inputs = make_inputs(graph, 4)
    one, two = (Emulation(c.program, c.graph).run(inputs) for c in (on, off))
    assert all(np.array_equal(one[name], two[name]) for name in graph.outputs)
    for merge in moved(on):
        assert MERGED not in rules_broken(on, merge)
        assert MERGED in rules_broken(on, replace(merge, kept=not merge.kept))


# ------------------------------------------------------------------------------------------------- planted faults


@pytest.fixture(scope="module", params=[1, 3])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    return compile_graph(joined(request.param), ON)


def writer_of(old: Task, new: Task) -> str:
    return next(name for name, use in new.engines.items() if use != old.engines[name])


def with_writer(use: EngineUse, old: Task, new: Task) -> Task:
    return replace(new, engines={**new.engines, writer_of(old, new): use})


def further(old: Task, new: Task) -> Task:
    use = new.engines[writer_of(old, new)]
    return with_writer(replace(use, config=replace(use.config, address=use.config.address + 8)), old, new)


def less(old: Task, new: Task) -> Task:
    use = new.engines[writer_of(old, new)]
    return with_writer(replace(use, config=replace(use.config, frames=use.config.frames + 1)), old, new)


def elsewhere(old: Task, new: Task) -> Task:
    return with_writer(old.engines[writer_of(old, new)], old, new) if old is not new else new


def other_steps(old: Task, new: Task) -> Task:
    use = new.engines[writer_of(old, new)]
    config = replace(use.config, raw=0, depth=4, fsize_low=2, fsize_high=16, pixel_offset_low=8, line_offset_low=4)
    return with_writer(replace(use, config=config), old, new)


def other_sums(old: Task, new: Task) -> Task:
    name = next(n for n in reversed(new.units) if n.startswith("ARITH"))
    return replace(new, units={**new.units, name: replace(new.units[name], a=5)})  # type: ignore[call-arg, type-var]


def another_wire(old: Task, new: Task) -> Task:
    return replace(new, wires=(*new.wires[:-1], new.wires[-1]._replace(stop_after=1)))


FAULTS: dict[str, Fault] = {
    "eight bytes further": further,
    "another number of frames": less,
    "where it was": elsewhere,
    "in another order": other_steps,
    "another sum": other_sums,
    "a gate in front of the writer": another_wire,
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("part", [0, 1])
def test_planted_faults_are_found(name: str, part: int, compiled: Compiled) -> None:
    merge = moved(compiled)[part]
    assert MERGED not in rules_broken(compiled, merge)
    assert MERGED in rules_broken(compiled, with_fault(merge, FAULTS[name]))


def test_parts_at_one_place_are_found(compiled: Compiled) -> None:
    """The second part where the first one is: what the copies did is something else."""
    first, second = moved(compiled)
    other = replace(second, group=first.group)
    assert MERGED in rules_broken(compiled, other)


def test_somebody_who_reads_the_whole_before_is_found(compiled: Compiled) -> None:
    """Between the producer and the copies."""
    scheduled, (_, second) = compiled.scheduled, moved(compiled)
    works = list(scheduled.reference)
    producer = next(k for k, work in enumerate(works) if work.op == second.producer)
    reader = next(work for work in works if work.op.startswith("conv3"))
    works.insert(producer + 1, replace(reader, op="early"))
    found = check(works, scheduled.schedule, scheduled.plans, compiled.mapped.context.aliases)
    assert MERGED in {finding.rule for finding in found}
