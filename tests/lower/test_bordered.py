"""Windows on features of one byte, with the zero point around the image in memory: fewer cycles, the same meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.lower.sizes import free_bytes
from atonc.compiler.plan.task import Purpose
from atonc.compiler.request import target
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.merging import NO_MORE
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Feature, Grade
from atonc.machine.hw.safety.evidence.board_file import BoardEvidence
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.compiler.golden_graphs import Sketch
from tests.lower.harness import activation

ON = Options(verify=False)
BELOW = Feature("CONVACC pads left right top bottom", "3x3/1", "0 0 0 1")


@pytest.fixture(autouse=True)
def a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """It confirmed 3x3 windows of stride 1 with a line of padding below alone, which no published program has."""
    board = BoardEvidence(confirmed=frozenset({BELOW}))
    monkeypatch.setattr(target, "trust_of", lambda options: replace(TRUST_OF(options), board=board))


TRUST_OF = target.trust_of
OFF = replace(ON, schedule_without=("borders",))


def network(stride: int, zero: int = -120, behind: str = "logistic", large: bool = True) -> Graph:
    """A 3x3 layer on a picture of 32x32, behind a layer that needs more memory than the copy, or not."""
    size, channels = 64 if large else 32, 64 // stride
    net = Sketch().start(1, size, size, channels, zero=zero)
    if large:
        pool = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}
        net.op("max_pool", (1, 32, 32, channels), zero=zero, **pool)
    source = net.last
    net.conv(64, (3, 3), stride)
    shape = (1, 32 // stride, 32 // stride, 64)
    if behind == "logistic":
        net.op("logistic", shape, scale=1 / 256, zero=-128)
    elif behind == "add":
        net.op("add", shape, source, scale=0.04)
    if behind:
        net.conv(8)
    return net.graph()


def windows(compiled: Compiled) -> set[tuple[int, int]]:
    """Bytes of a feature and subtracted zero points of all 3x3 units."""
    units = (unit for epoch in compiled.program.epochs for unit in epoch.units.values())
    found = [unit for unit in units if isinstance(unit, ConvaccConfig) and unit.kernel_height == 3]
    return {(unit.feature_bytes, unit.feature_offset) for unit in found}


def has_border(compiled: Compiled) -> bool:
    return any(t.purpose == Purpose.BORDER for w in compiled.mapped.works for g in w.groups for t in g.tasks)


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


@pytest.mark.parametrize(
    "stride, zero, behind",
    [(1, -120, "logistic"), (1, 90, "logistic"), (1, -7, "add"), (2, -120, "logistic"), (2, 3, "")],
)
def test_faster_and_what_the_layers_mean(stride: int, zero: int, behind: str) -> None:
    """`verify` compares every layer with exact arithmetic, within the error that its form expects."""
    graph = network(stride, zero, behind)
    off, on = compile_graph(graph, OFF), compile_graph(graph, replace(ON, verify=True))
    assert not has_border(off) and windows(off) == {(2, zero)}
    assert has_border(on) and windows(on) == {(1, 0)} and cycles(on) < cycles(off)
    assert on.layout.peak_bytes <= off.layout.peak_bytes
    assert not on.choices.reasons and all(grade.grade.rank <= Grade.COMPOSED.rank for grade in on.grades)
    inputs = make_inputs(graph, 3)
    got, reference = Emulation(on.program, on.graph).run(inputs), run_mapped(on.graph, on.mapped, inputs)
    assert all(np.array_equal(got[name], reference[name]) for name in graph.outputs)


def test_the_row_that_nobody_reads_goes_with_the_chain() -> None:
    """A table behind the convolution has it too; a sum with an operand in memory does not follow."""
    table, total = (compile_graph(network(1, behind=kind), ON) for kind in ("logistic", "add"))
    assert any(merge.consumer.startswith("logistic") for merge in table.scheduled.schedule.merges)
    rules = {apart.rule for apart in total.scheduled.schedule.apart}
    assert NO_MORE in rules and not any(m.consumer.startswith("add") for m in total.scheduled.schedule.merges)


def test_no_row_behind_what_the_application_reads() -> None:
    assert not has_border(compile_graph(network(1, behind=""), ON))


def test_memory_that_is_free_beside_the_layer() -> None:
    """A copy where nothing is larger makes the peak higher: worth it for speed, and as long as much is left."""
    small = network(1, large=False)
    less, more = (compile_graph(small, replace(ON, prefer=prefer)) for prefer in ("memory", "speed"))
    assert has_border(compile_graph(network(1), replace(ON, prefer="memory"))) and not has_border(less)
    assert has_border(more) and cycles(more) < cycles(less) and more.layout.peak_bytes > less.layout.peak_bytes
    assert not has_border(compile_graph(small, replace(ON, resident="1K")))


def test_more_channels_than_a_chain_takes() -> None:
    """Slices of the channels, each on a chain of its own, whose sums are added."""
    net = Sketch().start(1, 48, 48, 80, zero=-120)
    net.conv(32, (3, 3), 2)
    graph = net.graph()
    off, on = compile_graph(graph, OFF), compile_graph(graph, replace(ON, verify=True))
    parts = [t for w in on.mapped.works for g in w.groups for t in g.tasks if t.purpose == Purpose.PART]
    assert windows(off) == {(2, -120)} and windows(on) == {(1, 0)} and cycles(on) < cycles(off)
    assert parts and not on.choices.reasons and all(grade.grade.rank <= Grade.COMPOSED.rank for grade in on.grades)
    inputs = make_inputs(graph, 3)
    got, reference = Emulation(on.program, on.graph).run(inputs), run_mapped(on.graph, on.mapped, inputs)
    assert all(np.array_equal(got[name], reference[name]) for name in graph.outputs)


def test_a_picture_as_it_comes() -> None:
    """Bytes of type uint8 are code + 128: the copy with the border takes them, and no epoch changes them before."""
    net = Sketch().start(1, 128, 128, 3, zero=-1)
    net.conv(8, (3, 3), 2)
    off, on = (
        compile_graph(net.graph(), replace(options, input_type="uint8", verify=options is ON)) for options in (OFF, ON)
    )
    edge = next(op.name for op in on.graph.ops if op.kind == "uint8_to_int8")
    assert not any(work.groups for work in on.mapped.works if work.op == edge)
    assert has_border(on) and windows(on) == {(1, 0)} and cycles(on) < 0.8 * cycles(off)
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in on.grades)
    inputs = make_inputs(on.graph, 3)
    got, reference = Emulation(on.program, on.graph).run(inputs), run_mapped(on.graph, on.mapped, inputs)
    assert all(np.array_equal(got[name], reference[name]) for name in on.graph.outputs)


def test_a_picture_whose_weights_have_a_zero_point() -> None:
    """Their second unit would pass its sums through memory: the picture is made signed first, as it was."""
    net = Sketch().start(1, 128, 128, 3, zero=-1)
    net.conv(8, (3, 3), 2)
    graph = net.graph()
    weights = graph.tensors[next(op for op in graph.ops if op.kind == "conv").inputs[1]]
    quant = replace(weights.quant, zero_points=weights.quant.zero_points + 3)
    graph = replace(graph, tensors={**graph.tensors, weights.name: replace(weights, quant=quant)})
    off, on = (compile_graph(graph, replace(options, input_type="uint8")) for options in (OFF, ON))
    assert not has_border(on) and cycles(on) <= cycles(off)


def test_not_without_that_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "trust_of", TRUST_OF)
    assert not has_border(compile_graph(network(1), ON)) and has_border(compile_graph(network(2), ON))


def test_other_zero_points_need_no_border() -> None:
    for zero in (0, -128):
        assert not has_border(compile_graph(network(1, zero), ON))


def test_only_seen_forms_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "trust_of", TRUST_OF)
    compiled = compile_graph(network(1), replace(ON, silicon="seen"))
    assert not has_border(compiled) and "conv1" not in {reason.node for reason in compiled.choices.reasons}


def test_free_bytes() -> None:
    sizes = zip("abcdef", (4, 10, 10, 3, 3, 3), strict=True)
    tensors = {name: activation(name, (1, 1, 1, size)) for name, size in sizes}
    ops = (
        Op("conv", "one", ("a",), ("b",), {}),
        Op("table", "two", ("b",), ("c",), {}),  # in the place of b
        Op("conv", "three", ("c",), ("d",), {}),
        Op("conv", "four", ("d",), ("e",), {}),
        Op("add", "five", ("d", "e"), ("f",), {}),  # in the place of one of them
    )
    graph = Graph(tensors, ops, ("a",), ("f",))
    assert free_bytes(graph) == {"one": 0, "two": 4, "three": 1, "four": 8, "five": 8}
    assert free_bytes(graph, 20) == {"one": 6, "two": 10, "three": 7, "four": 14, "five": 14}


@pytest.mark.parametrize("zero", [-128, 0, 44])
def test_windows_that_nothing_is_padded_for(zero: int) -> None:
    net = Sketch().start(1, 64, 64, 32, zero=zero)
    pool = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}
    net.op("max_pool", (1, 32, 32, 32), zero=zero, **pool)
    net.conv(48, (3, 3))
    (inner,) = (op for op in net.ops if op.kind == "conv")
    net.ops[-1] = replace(inner, attrs={**inner.attrs, "padding": (0, 0, 0, 0)})
    net.tensors[net.last] = replace(net.tensors[net.last], shape=(1, 30, 30, 48))
    net.conv(8)
    off, on = compile_graph(net.graph(), OFF), compile_graph(net.graph(), replace(ON, verify=True))
    assert windows(on) == {(1, 0)} and {size for size, _ in windows(off)} == {2}
    assert cycles(on) < cycles(off) and not on.choices.reasons
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in on.grades)


def test_a_first_layer_of_three_channels() -> None:
    """Bytes hold twice as many kernels, which is more than the copy costs; a later layer leaves it the memory."""
    net = Sketch().start(1, 96, 96, 3, zero=-1)
    net.conv(32, (3, 3), 2, zero=-128)
    net.conv(64)
    found, plain = compile_graph(net.graph(), ON), compile_graph(net.graph(), OFF)
    assert has_border(found) and not has_border(plain) and cycles(found) < cycles(plain)
    assert windows(found) == {(1, 0)} and windows(plain) == {(2, -1)}
    inputs = make_inputs(found.graph, 5)
    got, meant = Emulation(found.program, found.graph).run(inputs), run_mapped(found.graph, found.mapped, inputs)
    assert all(np.array_equal(got[name], meant[name]) for name in found.graph.outputs)
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in found.grades)


def test_without_a_board_a_ring_of_results_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published windows of one byte and stride 1 are padded on all sides; sums mean the same."""
    monkeypatch.setattr(target, "trust_of", TRUST_OF)
    graph = network(1, behind="")
    on, off = compile_graph(graph, ON), compile_graph(graph, OFF)
    assert on.cost.cycles < 0.9 * off.cost.cycles
    rings = [unit for epoch in on.program.epochs for unit in epoch.units.values() if isinstance(unit, ConvaccConfig)]
    assert {(unit.height, unit.padding) for unit in rings if unit.simd == 1} == {(34, (1, 1, 1, 1))}
    inputs = make_inputs(graph, 3)
    meant = run_mapped(on.graph, on.mapped, inputs)
    seen = Emulation(on.program, on.graph).run(inputs)
    assert all(np.array_equal(seen[name], meant[name]) for name in graph.outputs)
