"""Rows of several layers in turn: the same bits as whole layers, where tensors would leave the chip, and proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.conv.cuts import Rows, with_rows
from atonc.compiler.lower.conv.layer import layer_of
from atonc.compiler.lower.conv.prepare import ShiftedCopy
from atonc.compiler.lower.map_ops import Mapped, map_ops
from atonc.compiler.place import BoardMemory
from atonc.compiler.plan.contents import strays
from atonc.compiler.plan.policy import whole_room
from atonc.compiler.plan.task import Task
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.assign import assign
from atonc.compiler.schedule.check import ONCE, TOPOLOGICAL, check
from atonc.compiler.schedule.types import EpochOfTasks, Schedule, Step
from atonc.compiler.search import goal, log
from atonc.compiler.search.generators import compact, row_tiles
from atonc.compiler.search.generators.row_tiles import runs
from atonc.compiler.select.decisions import Decisions, Stripe
from atonc.compiler.select.form import Refusal, RefusedForm
from atonc.compiler.verify.emulation import Emulation
from atonc.insight.explain import rules
from atonc.insight.explain.ours import network_view
from atonc.machine.hw.safety.evidence import Grade
from tests.lower.harness import TARGET, activation, constant, facts

ROOM = whole_room(TARGET.machine)

RUN = ("expand", "depthwise", "project")


@cache
def network(
    height: int = 64, expanded: int = 120, branch: bool = False, curved: bool = False, picture: bool = False
) -> Graph:
    """A block of a mobile network: many channels between few. With a branch something else reads what lies between; a
    curved one has a table behind its first layer; a picture comes as bytes without sign."""
    rng = np.random.default_rng(3)
    half = height // 2
    tensors = [
        activation("x", (1, height, 64, 8)),
        activation("e", (1, height, 64, expanded), 0.03, -128),
        activation("d", (1, half, 32, expanded), 0.03, -128),
        activation("p", (1, half, 32, 16), 0.1, 3),
    ]
    ops = []
    layers = (
        ("expand", "x", "e", 8, expanded, 1),
        ("depthwise", "e", "d", 1, expanded, 3),
        ("project", "d", "p", expanded, 16, 1),
    )
    for name, x, y, inputs, channels, window in layers:
        wide = window > 1
        attrs = {
            "layout": "NHWC", "dilation": (1, 1), "groups": expanded if wide else 1,
            "stride": (2, 2) if wide else (1, 1), "padding": (0, 0, 1, 1) if wide else (0, 0, 0, 0),
        }  # fmt: skip
        weights = rng.integers(-127, 128, (channels, window, window, inputs)).astype(np.int8)
        tensors += [
            constant(f"{name}.w", weights, rng.uniform(0.002, 0.006, channels), axis=0),
            constant(f"{name}.b", rng.integers(-2000, 2000, channels).astype(np.int32)),
        ]
        ops.append(Op("conv", name, (x, f"{name}.w", f"{name}.b"), (y,), attrs, (name,)))
    if curved:
        tensors.append(activation("f", (1, height, 64, expanded), 0.03, -120))
        codes = tuple(int(code) for code in np.tanh(np.linspace(-2, 2, 256)) * 100)
        ops.insert(1, Op("table", "curve", ("e",), ("f",), {"table": codes}, ("curve",)))
        ops[2] = replace(ops[2], inputs=("f", *ops[2].inputs[1:]))
    if picture:
        tensors.append(Tensor("u", (1, height, 64, 8), "uint8", Quantisation.per_tensor(0.05, 128)))
        ops.insert(0, Op("uint8_to_int8", "edge", ("u",), ("x",), {}, ("edge",)))
    outputs: tuple[str, ...] = ("p",)
    if branch:
        tensors.append(activation("m", (1, half, 32, expanded), 0.03, -128))
        ops.append(Op("add", "sum", ("d", "d"), ("m",), {}, ("sum",)))
        outputs = ("p", "m")
    return Graph({t.name: t for t in tensors}, tuple(ops), ("u" if picture else "x",), outputs)


def small_board(options: Options) -> BoardMemory:
    """One bank of the NPU's RAM; all else lies outside the chip."""
    board = memories(options)
    kept = [p for p in board.pools if not p.writable or p in board.external_ram or p.name == "npuRAM3"]
    return replace(board, pools=tuple(kept))


@cache
def compiled(without: tuple[str, ...] = (), branch: bool = False, curved: bool = False) -> Compiled:
    options = Options(schedule_without=without, verify=not (without or branch or curved))
    graph = network(branch=branch, curved=curved)
    return compile_canonical(graph, graph, options, small_board(options))


def outputs_of(one: Compiled) -> list[np.ndarray]:
    source = one.graph.tensors[one.graph.inputs[0]]
    codes = np.random.default_rng(5).integers(-128, 128, source.shape).astype(np.int8)
    found = Emulation(one.program, one.graph).run({source.name: codes.view(source.dtype)})
    return [found[name] for name in one.graph.outputs]


@pytest.mark.parametrize(("expanded", "large"), [(96, True), (104, True)])
def test_bands_are_as_large_as_the_chip_holds(expanded: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options, graph = Options(verify=False), network(expanded=expanded)
    cycles, bands = [], []
    for parts in ((1.0,), (2.0, 1.0)):
        monkeypatch.setattr(row_tiles, "SPILL_PARTS", parts)
        board = small_board(options)
        one = compile_canonical(graph, graph, options, board)
        assert not one.layout.spilled_bytes
        cycles.append(one.cost.cycles)
        bands.append(one.mapped.stripes[0].bands)
    assert (cycles[1] < cycles[0], bands[1] < bands[0]) == (large, large)


def test_what_would_leave_the_chip_is_computed_in_turn() -> None:
    striped, whole = compiled(), compiled(("stripe",))
    assert [stripe.ops for stripe in striped.mapped.stripes] == [RUN] and not whole.mapped.stripes
    outside = {name for name, placed in striped.layout.placed.items() if placed.pool == "hyperRAM"}
    assert whole.layout.spilled_bytes > 400_000 and outside <= {"p"}, "nothing between the layers leaves the chip"
    assert striped.report is not None and {check.tensor for check in striped.report.checks} == {"e", "d", "p"}
    assert not any(grade.grade == Grade.UNSEEN for grade in striped.grades)
    for one, other in zip(outputs_of(striped), outputs_of(whole), strict=True):
        assert np.array_equal(one, other)


def test_explain_says_so() -> None:
    one, board = compiled(), small_board(Options())
    cost = one.cost
    for layer in network_view(CompileView("model", "network", board, one, cost, 0)).layers:
        found = [d for d in layer.decisions if d.rule is rules.STRIPED]
        assert len(found) == 1 and "3 layers in turn, expand to project" in found[0].seen


def test_what_others_read_stays_whole() -> None:
    """The sum reads what the depthwise layer writes: only rows of what lies before it can go in turn."""
    assert [stripe.ops for stripe in compiled(branch=True).mapped.stripes] == [RUN[:2]]
    for one, other in zip(outputs_of(compiled(branch=True)), outputs_of(compiled(("stripe",), True)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("without", ((), ("fuse",)))
def test_tables_take_part(without: tuple[str, ...]) -> None:
    """In the epochs of the layer before, or by themselves."""
    striped, whole = compiled(without, curved=True), compiled(("stripe",), curved=True)
    assert [stripe.ops for stripe in striped.mapped.stripes] == [("expand", "curve", "depthwise", "project")]
    assert bool(striped.scheduled.schedule.merges) == (not without)
    assert np.array_equal(outputs_of(striped)[0], outputs_of(whole)[0])


def test_less_memory_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = network(40, 48, picture=True), Options(verify=False)
    asked = replace(options, prefer="memory")
    assert not compile_canonical(graph, graph, asked, memories(asked)).mapped.stripes  # a block alone is too slow so
    monkeypatch.setattr(goal, "SLOWER", 2.0)
    found = [compile_canonical(graph, graph, one, memories(one)) for one in (options, asked)]
    assert [stripe.ops for one in found for stripe in one.mapped.stripes] == [("edge", *RUN)]
    assert found[1].layout.peak_bytes < 0.6 * found[0].layout.peak_bytes
    assert np.array_equal(*(outputs_of(one)[0] for one in found))


def test_runs_end_where_little_lies_between() -> None:
    """And where an operator may not take part; one operator alone is no run."""

    def names(picture: bool, without: str = "") -> list[list[str]]:
        graph = network(40, 8, picture=picture)
        usable = {op.name for op in graph.ops} - {without}
        return [[op.name for op in run] for run in runs(graph, usable, ROOM)]

    assert names(picture=False) == [["expand", "depthwise"]]
    assert names(picture=True) == [["edge", "expand", "depthwise"]]
    assert names(picture=True, without="depthwise") == [["edge", "expand"]]
    assert names(picture=True, without="expand") == []


@pytest.mark.parametrize("bands", (2, 3, 7))
def test_any_number_of_bands_means_the_same(bands: int) -> None:
    graph = network(40, 24)
    mapped, whole = striped_works(bands), map_ops(facts(graph))
    assert [stripe.bands for stripe in mapped.stripes] == [bands]
    values = {"x": np.random.default_rng(bands).integers(-128, 128, (1, 40, 64, 8))}
    for op in graph.ops:
        results = [m.context.semantics[op.name].codes([values[op.inputs[0]]])[0] for m in (mapped, whole)]
        assert np.array_equal(*results), op.name
        values[op.outputs[0]] = results[0]


def test_rows_that_nobody_sees_mean_what_the_whole_layer_gives() -> None:
    """The depthwise layer strides over the last of 41 rows, so that no band has it."""
    graph = network(41, 24)
    expand, depthwise, project = graph.ops
    depthwise = replace(depthwise, attrs={**depthwise.attrs, "padding": (1, 1, 0, 0)})
    graph = replace(graph, ops=(expand, depthwise, project))
    mapped = map_ops(facts(graph), Decisions(stripes=(Stripe(RUN, 3),)))
    assert [stripe.ops for stripe in mapped.stripes] == [RUN]
    values = [np.random.default_rng(1).integers(-128, 128, (1, 41, 64, 8))]
    meant, whole = (one.context.semantics["expand"].codes(values)[0] for one in (mapped, map_ops(facts(graph))))
    assert np.array_equal(meant, whole)


def test_bands_that_round_otherwise_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atonc.compiler.lower.stripes.roundings", lambda semantics: {0: frozenset([id(semantics)])})
    mapped = striped_works(3)
    assert not mapped.stripes and isinstance(mapped.unstriped["expand"], RefusedForm)
    assert "rounded otherwise" in mapped.unstriped["expand"].seen


# --- planted faults: what the checks of every compilation say of wrong stripes


def striped_works(bands: int = 3) -> Mapped:
    return map_ops(facts(network(40, 24)), Decisions(stripes=(Stripe(RUN, bands),)))


def first_of(op: str, steps: list[Step], band: int) -> int:
    """The step with the first epoch of a band."""
    own = [n for n, step in enumerate(steps) if isinstance(step, EpochOfTasks) and op in step.ops]
    epochs, left = divmod(len(own), 3)  # of a band
    assert epochs and not left
    return own[band * epochs]


def late_rows(steps: list[Step]) -> list[Step]:
    """The depthwise layer before the rows that it sees."""
    one, other = first_of("expand", steps, 1), first_of("depthwise", steps, 1)
    steps[one], steps[other] = steps[other], steps[one]
    return steps


def lost_band(steps: list[Step]) -> list[Step]:
    del steps[first_of("project", steps, 2)]
    return steps


def early_results(steps: list[Step]) -> list[Step]:
    """The last layer reads a band that is not computed yet."""
    one, other = first_of("depthwise", steps, 2), first_of("project", steps, 2)
    steps[one], steps[other] = steps[other], steps[one]
    return steps


@pytest.mark.parametrize(("plant", "rule"), ((late_rows, TOPOLOGICAL), (lost_band, ONCE), (early_results, TOPOLOGICAL)))
def test_wrong_orders_are_found(plant: Callable[[list[Step]], list[Step]], rule: str) -> None:
    mapped = striped_works()
    sound = schedule(mapped.works)
    assert not check(mapped.works, sound, assign(sound), mapped.context.aliases)
    planted = Schedule(tuple(plant(list(sound.steps))))
    assert rule in {f.rule for f in check(mapped.works, planted, assign(planted), mapped.context.aliases)}


def moved(task: Task, by: int) -> Task:
    """All that it writes, so many bytes further."""
    uses = {
        name: replace(use, config=replace(use.config, address=use.config.address + by * bool(use.config.to_memory)))
        for name, use in task.engines.items()
    }
    return replace(task, engines=uses)


@pytest.mark.parametrize("op", RUN)
def test_rows_in_the_wrong_place_are_found(op: str) -> None:
    """A row further: it ends beyond the band, or rows are missing that somebody reads."""
    mapped, graph = striped_works(), network(40, 24)
    sound = schedule(mapped.works)
    known = mapped.context.buffers, mapped.context.aliases, graph.inputs, graph.outputs
    assert not list(strays(assign(sound), *known))
    steps = list(sound.steps)
    number = first_of(op, steps, 1)
    step = steps[number]
    assert isinstance(step, EpochOfTasks)
    line = 64 * 24 if op == "expand" else 32 * (24 if op == "depthwise" else 16)
    steps[number] = replace(step, tasks=tuple(moved(task, line) for task in step.tasks))
    assert list(strays(assign(Schedule(tuple(steps))), *known))


def test_a_shifted_copy_of_some_rows_is_not_taken_for_all() -> None:
    """The copy is kept by the name of what it copies: the next band would read rows that it does not have."""
    graph = network()
    context = map_ops(facts(graph)).context
    layer = layer_of(graph.ops[0], context)
    for rows in (Rows(0, 16), Rows(16, 32)):
        with pytest.raises(Refusal, match="some rows"):
            ShiftedCopy().prepare(with_rows(layer, rows, rows), context)
    assert not context.shifted_copies
    shifted = ShiftedCopy().prepare(layer, context)
    assert context.before and context.shifted_copies[layer.source] == shifted.source


def test_activations_make_room_for_weights_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some weights find no room, programs with small activations are built too, and the fastest one is taken."""
    graph, options = network(40, 48), Options(verify=False, resident="all")
    found = compile_canonical(graph, graph, options, memories(options))
    assert not any("smallest extent" in attempt.reason for attempt in found.search), "there is room for all"
    for module in (compact, row_tiles):
        monkeypatch.setattr(module, "short_of_room", lambda candidate: True)
    found = compile_canonical(graph, graph, options, memories(options))
    assert any("smallest extent" in attempt.reason for attempt in found.search)
    assert any("of the peak" in attempt.reason for attempt in found.search)
    decided = [one.cycles for one in found.search if one.verdict in (log.Verdict.BEST, log.Verdict.KEPT_OUT)]
    assert found.cost.cycles == min(decided)
