"""Weights that the chip's DMA copies ahead: the same results, never slower, awaited before they are read; planted
faults are found by the check of the steps, by the contents of buffers and by the emulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.emit.c.files import files
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.runs import dma_notes, npu_runs
from atonc.compiler.place.resident import on_chip_spans
from atonc.compiler.plan.contents import strays
from atonc.compiler.plan.types import Buffer, BufferKind, DmaPlan, Ride, StepPlan
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import check_copies
from atonc.compiler.schedule.prefetch import with_lists
from atonc.compiler.search.build import build
from atonc.compiler.search.generators import prefetch_dma
from atonc.compiler.search.saved import as_json
from atonc.compiler.search.weights import in_flash
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.layouts.every import find_layout, with_layout
from atonc.insight.explain import actions
from atonc.insight.explain.ours import network_view
from atonc.insight.report import compile_text, explain_text
from atonc.insight.report.document import lines
from atonc.machine.base.errors import ConflictError, InputError
from atonc.machine.cost.network import network_cost
from atonc.machine.emu.network import EmulatedNetwork, load
from atonc.machine.hw import dma
from atonc.machine.hw.dma import DmaCopy, DmaWork, Occupied
from atonc.machine.hw.machine import stm32n6
from tests.compiler.candidates import candidate_of
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.schedule.test_prefetch import COPY, steps

PLAIN = Options(verify=False, flash_mbps=100)  # small networks wait little for a faster one
AHEAD = replace(PLAIN, prefetch="dma")


@pytest.fixture(scope="module")
def ahead() -> Compiled:
    return compile_graph(random_graph(24), AHEAD)


def test_the_same_results_in_less_time(ahead: Compiled) -> None:
    graph = random_graph(24)
    before = compile_graph(graph, PLAIN)
    assert ahead.layout.memory.prefetched_bytes > 0 and ahead.layout.peak_bytes == before.layout.peak_bytes
    assert ahead.cost.cycles < before.cost.cycles and len(ahead.program.steps) == len(before.program.steps)
    assert ahead.decisions.by_dma and as_json(ahead.decisions)["by_dma"] is True
    values = random_inputs(before.graph, 1)
    results = [Emulation(one.program, one.graph).run(values) for one in (before, ahead)]
    assert all(np.array_equal(results[0][name], results[1][name]) for name in graph.outputs)


@pytest.mark.parametrize("seed", [3, 11, 16, 24, 31])
@pytest.mark.parametrize("flash_mbps", [40, 400])
def test_never_slower(seed: int, flash_mbps: float) -> None:
    before, after = (
        compile_graph(random_graph(seed), replace(options, flash_mbps=flash_mbps)) for options in (PLAIN, AHEAD)
    )
    assert after.cost.cycles <= before.cost.cycles
    assert any(step.dma for step in after.program.steps) == (after.cost.cycles < before.cost.cycles)


def test_the_price_of_the_plan_is_that_of_the_program() -> None:
    plain = candidate_of(compile_graph(random_graph(24), PLAIN), AHEAD)
    windows = on_chip_spans(plain.setting.memory)
    for count in (2, 4):
        lists = prefetch_dma.Lists(plain, windows, count)
        worth = {one: lists.planner.worth(one) for one in in_flash(plain.made.program, plain.setting.target)}
        lists.run(sorted((one for one in worth if worth[one] > 0), key=lambda one: -worth[one]))
        decisions = replace(plain.decisions, fetched=tuple(lists.fetched), by_dma=True)
        made = build(plain.setting, decisions, plain)
        assert lists.fetched and made.cycles - plain.cycles <= lists.added + len(made.made.program.steps)
        assert made.cycles - plain.cycles == pytest.approx(lists.added, rel=0.25)  # waits are later than planned
    (proposal,) = prefetch_dma.propose(plain)
    assert proposal.decisions.by_dma and proposal.decisions.fetched == tuple(prefetch_dma.choose(plain, windows))


def test_programs_of_the_controller_end_where_the_processor_works(ahead: Compiled) -> None:
    firsts = {run[0].number for run in npu_runs(ahead.program)}
    works = {step.number for step in ahead.program.steps if step.dma is not None and step.epoch is not None}
    assert works and works <= firsts


def test_a_doubt_that_grows_with_what_is_copied(ahead: Compiled) -> None:
    assert any(dma_share for topic, dma_share in ahead.cost.band.parts if "DMA" in topic)


def test_its_lists_count_as_ram(ahead: Compiled) -> None:
    lists = ahead.memory_use().ram_bytes - ahead.layout.memory.ram_bytes
    assert lists == dma.LINK_BYTES * max(sum(c.blocks for c in s.dma.starts) for s in ahead.program.steps if s.dma) > 0


# ---------------------------------------------------------------------------------------------------------- the folder


def written(ahead: Compiled, folder: Path, change: Callable[[str], str] = lambda text: text) -> EmulatedNetwork:
    found = files(CNetwork("network", ahead.program, ahead.graph, ahead.memory.pools, dma_channel=3))
    for name, data in found.items():
        text = name.endswith(".c")
        (folder / name).write_bytes(change(data.decode()).encode() if text else data)
    return load(folder)


def test_the_folder_is_the_program(ahead: Compiled, tmp_path: Path) -> None:
    net = written(ahead, tmp_path)
    works = {step.number: step.dma for step in ahead.program.steps if step.dma is not None}
    assert {step.number: step.dma for step in net.steps if step.dma is not None} == works
    assert "#  define ATONC_DMA_CHANNEL 3\n" in (tmp_path / "network.c").read_text()
    cycles = network_cost(net, net.steps, ahead.target.machine).cycles
    assert cycles == pytest.approx(ahead.cost.cycles, rel=0.02)
    given = random_inputs(ahead.graph, 1)
    for index, name in enumerate(ahead.program.inputs):
        net.write_input(index, given[name])
    list(net.run())
    wanted = Emulation(ahead.program, ahead.graph).run(given)
    for index, name in enumerate(ahead.program.outputs):
        assert net.read_output(index).reshape(-1).tobytes() == wanted[name].reshape(-1).tobytes()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  ATONC_Await_Copies_Default();\n", "", "while"),
        ("ATONC_Start_Copies_Default(0U, ", "ATONC_Start_Copies_Default(9999U, ", "copies 9999"),
        ("  ATONC_Await_Copies_Default();\n", "  ATONC_Await_Copies_Default();\n" * 2, "awaited, then"),
    ],
)
def test_a_folder_that_was_changed_is_refused(ahead: Compiled, tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(written(ahead, tmp_path, lambda text: text.replace(old, new)).run())


# --------------------------------------------------------------------------------------------------------------- races


def planted(ahead: Compiled, change: Callable[[DmaWork], DmaWork | None]) -> Emulation:
    changed = (replace(step, dma=step.dma and change(step.dma)) for step in ahead.program.steps)
    return Emulation(replace(ahead.program, steps=tuple(changed)), ahead.graph)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda work: replace(work, waits=False), id="nobody awaits"),
        pytest.param(lambda work: DmaWork(True) if work.waits else None, id="nothing is copied"),
    ],
)
def test_the_emulator_finds_races(ahead: Compiled, change: Callable[[DmaWork], DmaWork | None]) -> None:
    values = random_inputs(ahead.graph, 1)
    right = Emulation(ahead.program, ahead.graph).run(values)
    try:
        got = planted(ahead, change).run(values)
    except InputError as error:
        assert "DMA" in error.what or "copies" in error.what
    else:
        assert any(not np.array_equal(got[name], right[name]) for name in right)


def test_who_writes_to_a_target_is_found(ahead: Compiled) -> None:
    """A list whose target is the input of the network, which its first epoch reads."""
    program = ahead.program
    home = program.placed[program.inputs[0]]
    source = next(one.address for one in program.placed.values() if one.buffer.kind == BufferKind.CONSTANT)
    first = replace(program.steps[0], dma=DmaWork(False, (DmaCopy(source, home.address, 64),)))
    emulation = Emulation(replace(program, steps=(first, *program.steps[1:])), ahead.graph)
    with pytest.raises(InputError, match="while"):
        emulation.run(random_inputs(ahead.graph, 1))


# -------------------------------------------------------------------------------------------------- the check of steps


def listed(*rides: tuple[int, int, int]) -> tuple[StepPlan, ...]:
    """Lists by step, offset and size."""
    lists: dict[int, list[Ride]] = {}
    for step, offset, size in rides:
        lists.setdefault(step, []).append(Ride("weights", COPY, offset, size))
    return with_lists(steps()[0].plans, lists)


def findings(plans: tuple[StepPlan, ...]) -> set[str]:
    found, weights = steps()
    return {one.rule for one in check_copies.check(found.plans, plans, {COPY: weights})}


def test_lists_that_are_right() -> None:
    plans = listed((0, 64, 64), (1, 0, 64))
    assert not findings(plans)
    assert [plan.dma and (plan.dma.waits, len(plan.dma.starts)) for plan in plans] == [(False, 1), (True, 1), (True, 0)]


def without_waiting(plans: tuple[StepPlan, ...]) -> tuple[StepPlan, ...]:
    return (*plans[:-1], replace(plans[-1], dma=None))


FAULTS = {
    "a part is missing": (listed((0, 64, 64)), check_copies.WHOLE),
    "a part twice": (listed((0, 0, 128), (1, 0, 64)), check_copies.ONCE),
    "beyond the constant": (listed((0, 0, 192)), check_copies.COPY),
    "nobody awaits": (without_waiting(listed((0, 0, 128))), check_copies.ONE_LIST),
    "awaited without a start": (
        (replace(steps()[0].plans[0], dma=DmaPlan(True)), *listed((1, 0, 128))[1:]),
        check_copies.ONE_LIST,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str) -> None:
    plans, rule = FAULTS[fault]
    assert rule in findings(plans)


def test_contents_arrive_when_they_are_awaited() -> None:
    found, weights = steps()
    buffers = {**found.buffers, COPY: Buffer(COPY, weights.size_bytes, BufferKind.PREFETCHED)}
    right, late = listed((0, 0, 128)), without_waiting(listed((0, 0, 128)))
    assert not list(strays(right, buffers, {}, ["in"], ["out"]))
    assert [one.buffer for one in strays(late, buffers, {}, ["in"], ["out"])] == [COPY]


# -------------------------------------------------------------------------------------------------------------- prices


def test_what_a_list_costs() -> None:
    machine = stm32n6()
    copy = DmaCopy(0x70000000, 0x34200000, 100_000)
    alone = dma.list_cycles([copy], machine)
    bursts, blocks = -(-100_000 // 128), 2
    timing = machine.timing
    assert alone == pytest.approx(250_000 + bursts * timing.dma_burst + blocks * timing.dma_block)
    start, wait = DmaWork(False, (copy,)), DmaWork(True)

    def added(*between: Occupied) -> float:
        works = [(start, Occupied(0)), *((None, one) for one in between), (wait, Occupied(0))]
        return sum(one.added for one in dma.costs(works, machine)) - 2 * timing.dma_step

    assert added() == pytest.approx(alone)
    assert added(Occupied(1e6)) == 0
    assert added(Occupied(1e5, 4e4)) == pytest.approx(alone - 6e4)  # the flash is idle for so long
    assert added(Occupied(1e6, 9e5), Occupied(1e6)) == pytest.approx(alone - 1e5)  # turns, then nothing


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(("given", "channel"), [("", None), ("dma", 12), ("dma=0", 0), ("dma=15", 15)])
def test_the_channel(given: str, channel: int | None) -> None:
    assert Options(prefetch=given).dma_channel == channel


@pytest.mark.parametrize("given", ["dmb", "dma=16", "dma=", "dma=x", "dma=-1", "=3"])
def test_what_is_no_carrier(given: str) -> None:
    with pytest.raises(InputError, match="cannot copy weights ahead"):
        Options(prefetch=given)


@pytest.mark.parametrize(
    "more",
    [
        {"schedule_with": ("prefetch",)},
        {"relocatable": True},
        {"encrypt_weights": True},
        {"silicon": "seen"},
        {"no_npu": True},
    ],
    ids=str,
)
def test_what_does_not_go_with_it(more: dict[str, object]) -> None:
    with pytest.raises(ConflictError, match="does not go with"):
        Options(prefetch="dma", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "offered"),
    [
        ({}, True),
        ({"prefetch": "dma=3"}, False),
        ({"schedule_with": ("prefetch",)}, False),
        ({"relocatable": True}, False),
    ],
    ids=str,
)
def test_it_is_offered_where_it_may_be_given(more: dict[str, object], offered: bool) -> None:
    graph = random_graph(24)
    subject = actions.Subject(graph, replace(PLAIN, **more))  # type: ignore[arg-type]
    assert list(actions._ahead(subject)) == [{"prefetch": "dma"}] * offered


def test_a_layout_that_needs_an_image_is_named() -> None:
    with pytest.raises(ConflictError, match="--layout openmv"):
        with_layout(AHEAD, find_layout("openmv"))


def test_what_is_said_of_it(ahead: Compiled) -> None:
    """In every view: where it copies, that nobody has run it and what it keeps; else that it came to nothing."""
    none = compile_graph(random_graph(24), PLAIN)
    for made, said in ((ahead, "channel 12 of HPDMA1"), (none, "nothing is copied")):
        view = CompileView("model", "network", made.memory, made, made.cost, 0, AHEAD)
        for notes in (network_view(view).notes, compile_text.document(view).data()["notes"]):
            assert [said in note for note in notes if "--prefetch dma" in note] == [True]
    assert "not yet run on a board" in dma_notes(ahead.program, 12)[0] and not dma_notes(none.program, None)
    shown = "\n".join(lines(explain_text.search_document([], ahead.decisions)))
    assert "{" not in shown and "copied by the DMA: yes" in shown


@pytest.mark.parametrize("more", [{"prefetch": "dma"}, {"encrypt_weights": True}], ids=str)
def test_the_cpu_alone_is_tried_without_it(ahead: Compiled, more: dict[str, object]) -> None:
    """`--no-npu` does not go with it."""
    subject = actions.Subject(ahead.source, replace(PLAIN, **more), compiled=ahead)  # type: ignore[arg-type]
    assert all("on_cpu" in changes for changes in actions._faster_on_cpu(subject))


def test_what_waiting_for_the_flash_may_bring(ahead: Compiled) -> None:
    def most(compiled: Compiled, resident: str, may: bool = True) -> int:
        options = replace(PLAIN, resident=resident)
        return actions._flash_waits(actions.Subject(compiled.source, options, compiled=compiled, may_be_resident=may))

    plain = compile_graph(random_graph(24), PLAIN)
    assert most(plain, "0") == 0 and most(plain, "0", may=False) == most(plain, "1k") > most(ahead, "1k")


def test_what_is_said_of_weights_in_ram_is_what_they_bring(ahead: Compiled) -> None:
    """Other weights are copied ahead then: the program at hand does not tell."""
    options = replace(AHEAD, resident="all")
    kept = compile_graph(random_graph(24), options)
    view = CompileView("model", "network", ahead.memory, ahead, ahead.cost, 0, AHEAD)
    said = next(one for one in actions.quick(view) if one.options.room_for_weights == options.room_for_weights)
    assert said.after.cycles == kept.cost.cycles < ahead.cost.cycles
    assert said.after.ram_bytes == kept.memory_use().ram_bytes
