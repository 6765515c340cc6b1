"""Schedules that let more weights be fetched ahead: the same results, in less time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.lower.move.copies import SAME
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.pack import pack
from atonc.compiler.search import generators
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Setting
from atonc.compiler.search.generators import GENERATORS, cut_kernels, reserve_engines
from atonc.compiler.search.generators.prefetch import free_copies
from atonc.compiler.search.loop import Generator
from atonc.compiler.select.decisions import Decisions
from atonc.compiler.verify.emulation import Emulation
from tests.compiler.golden_graphs import Sketch
from tests.lower.harness import facts

PLAIN = Options(verify=False)
AHEAD = Options(verify=False, schedule_with=("prefetch",))


def starved() -> Graph:
    """Three chains side by side in the first layer, which need few weights; the last ones wait for theirs."""
    net = Sketch().start(1, 48, 48, 16)
    net.conv(96)
    net.op("max_pool", (1, 6, 6, 96), window=(8, 8), stride=(8, 8), padding=(0, 0, 0, 0), layout="NHWC")
    net.conv(256)
    net.conv(512)
    return net.graph()


@cache
def ahead() -> Compiled:
    return compile_graph(starved(), AHEAD)


def cuts() -> Mapping[str, tuple[int, ...]]:
    """The cuts of the kernels of the network above."""
    found = ahead().decisions.cuts
    assert found
    return found


def same(one: Compiled, other: Compiled) -> bool:
    inputs = make_inputs(one.graph, 3)
    first, second = (Emulation(compiled.program, compiled.graph).run(inputs) for compiled in (one, other))
    return all(np.array_equal(first[name], second[name]) for name in one.graph.outputs)


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


def without(*levers: ModuleType) -> tuple[Generator, ...]:
    return tuple(one for one in GENERATORS if one.propose not in [lever.propose for lever in levers])


def test_kernels_are_cut_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, after = compile_graph(starved(), PLAIN), ahead()
    monkeypatch.setattr(generators, "GENERATORS", without(cut_kernels, reserve_engines))
    before = compile_graph(starved(), AHEAD)
    assert cycles(after) < cycles(before) < cycles(plain)
    assert same(plain, after) and after.layout.peak_bytes == plain.layout.peak_bytes
    assert len(after.program.steps) > len(plain.program.steps)


def test_chains_leave_engines_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, tried = compile_graph(starved(), PLAIN), [one.reason for one in ahead().search]
    assert not free_copies(plain.program.epochs[0])
    assert any("leave engines for copies" in reason for reason in tried)


def test_pieces_are_all_of_the_kernels_in_their_order() -> None:
    graph = compile_graph(starved(), PLAIN).graph
    whole = map_ops(facts(graph))
    pieces = map_ops(facts(graph, cuts=cuts()))
    kernels = [
        [constant.data for work in mapped.works for task in tasks(work.groups) for use in task.readers()
         if (constant := mapped.context.buffers[use.buffer]).kind == BufferKind.CONSTANT]
        for mapped in (whole, pieces)
    ]  # fmt: skip
    assert len(kernels[1]) > len(kernels[0]) and b"".join(kernels[1]) == b"".join(kernels[0])


def tasks(groups: tuple[TaskGroup, ...]) -> list[Task]:
    return [task for group in groups for task in group.tasks]


def test_cuts_between_sets_of_kernels_and_out_of_range() -> None:
    """Any bytes may be asked for: pieces begin at the last set of kernels before, and none is empty."""
    plain = compile_graph(starved(), PLAIN)
    graph, name, inputs = plain.graph, next(iter(cuts())), make_inputs(plain.graph, 4)
    half = plain.program.placed[name].buffer.size_bytes // 2
    setting = Setting(graph, plain.memory, plain.target, PLAIN)
    for asked, more in (((1,), 0), ((1 << 30,), 0), ((-5, 7, half, half + 1), 1)):
        program = build(setting, Decisions(cuts={name: asked})).made.program
        results = [Emulation(one, graph).run(inputs) for one in (plain.program, program)]
        assert all(np.array_equal(results[0][output], results[1][output]) for output in graph.outputs)
        kernels = [sum(one.startswith("kernels:") for one in made.placed) for made in (plain.program, program)]
        assert kernels[1] - kernels[0] == more


def test_epochs_leave_as_many_engines_as_asked() -> None:
    def copy(number: int) -> Task:
        b = TaskBuilder(("a",), "copy")
        b.write(b.unit(SAME[0], b.read("x", contiguous(16))), f"y{number}", contiguous(16, write=True))
        return b.done()

    group = TaskGroup(tuple(map(copy, range(5))))
    assert [len(epoch) for epoch in pack(group)] == [4, 1]  # ARITHs
    assert [len(epoch) for epoch in pack(group, spare=4)] == [3, 2]


def test_a_part_of_large_kernels_stays_in_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(verify=False, resident="100k")
    plain, after = compile_graph(starved(), PLAIN), compile_graph(starved(), options)
    monkeypatch.setattr(generators, "GENERATORS", without(cut_kernels))
    before = compile_graph(starved(), options)
    assert before.layout.memory.resident_bytes < after.layout.memory.resident_bytes <= 100 * 1024
    assert cycles(after) < cycles(before) < cycles(plain) and same(plain, after)
