"""From plans and addresses to epochs: what engines are told, and which memory the application brings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atonc.compiler.emit import runs
from atonc.compiler.emit.program import Program, ProgramStep, bind, bind_epoch, relative_pools, user_buffers
from atonc.compiler.emit.runs import copy_bytes
from atonc.compiler.emit.write import description
from atonc.compiler.ir import Graph
from atonc.compiler.place import board
from atonc.compiler.place.pools import movable_outside
from atonc.compiler.place.types import USER_BASE, Placed
from atonc.compiler.plan import streams
from atonc.compiler.plan.task import EngineUse
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, EpochPlan
from atonc.machine.hw.ec.blob import Blob, Container
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import NPU_CACHE_LINE, PREFETCH_BYTES
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

CACHED = frozenset({"hyperRAM", "octoFlash"})


def placed(name: str, address: int, size: int, pool: str, kind: BufferKind = BufferKind.ACTIVATION) -> Placed:
    return Placed(Buffer(name, size, kind), address, pool, 0, 0, user_allocated=pool == "user")


HOMES = {
    "inside": placed("inside", 0x3420_0000, 64, "npuRAM3"),
    "outside": placed("outside", 0x9000_0000, 64, "hyperRAM"),
    "weights": placed("weights", 0x7000_0000, 64, "octoFlash", BufferKind.CONSTANT),
}


def copying(*links: Link) -> EpochPlan:
    """Three readers and a writer, 16 bytes behind the start of their buffers."""
    names = ("inside", "outside", "weights")
    engines = {f"STRENG{k}": EngineUse(name, streams.contiguous(48, offset=16)) for k, name in enumerate(names)}
    engines["STRENG3"] = EngineUse("inside", streams.contiguous(48, write=True, offset=16))
    return EpochPlan(("c",), "copies", {}, engines, links)


def engine(epoch: Epoch, name: str) -> StrengConfig:
    config = epoch.units[name]
    assert isinstance(config, StrengConfig)
    return config


def test_engines_are_told_where_their_buffer_begins_and_ends() -> None:
    epoch = bind_epoch(copying(), 7, HOMES, CACHED)
    for unit, name in (("STRENG0", "inside"), ("STRENG1", "outside"), ("STRENG2", "weights"), ("STRENG3", "inside")):
        assert engine(epoch, unit).address == HOMES[name].address + 16
        assert engine(epoch, unit).address_limit == HOMES[name].address + 64 + PREFETCH_BYTES - 1
    assert epoch.number == 7 and epoch.waits == ("STRENG3",)


def test_only_constants_pass_through_the_npu_cache_and_copies_of_them_do_not() -> None:
    epoch = bind_epoch(copying(), 1, HOMES, CACHED)
    assert [engine(epoch, f"STRENG{k}").cacheable for k in range(4)] == [0, 0, 1, 0]
    copied = bind_epoch(copying(Link("STRENG2", "STRENG3", 0)), 1, HOMES, CACHED)
    assert engine(copied, "STRENG2").cacheable == 0


def test_the_application_brings_room_for_all_that_share_a_memory() -> None:
    homes = {
        "in": placed("in", USER_BASE, 48, "user", BufferKind.INPUT),
        "taller": placed("taller", USER_BASE, 96, "user"),
        "view": placed("view", USER_BASE, 32, "user"),
        "out": placed("out", 0x3420_0000, 16, "npuRAM3", BufferKind.OUTPUT),
    }
    (found,) = user_buffers([CpuPlan(("c",), "c", "c", ("in",), ("out",))], homes, ("in",), ("out",))
    assert (found.direction, found.name, found.size_bytes, found.npu_ram_only) == ("input", "in", 96, False)


def test_only_pools_that_hold_something_are_relative() -> None:
    pools = movable_outside(board("stm32n6570-dk")).pools
    assert {pool.name for pool in pools if not pool.absolute} == {"hyperRAM", "octoFlash"}
    assert [pool.address for pool in relative_pools(pools, {"o": HOMES["outside"]})] == [0x9000_0000]
    assert not relative_pools(pools, {"i": HOMES["inside"]})


def test_long_runs_are_cut_into_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [copying(Link("STRENG0", "STRENG3", 0)) for _ in range(8)]
    program = bind(list(plans), HOMES, (), (), CACHED)
    (whole,) = runs.npu_runs(program)
    assert len(whole) == 8
    size = runs.ec_program.written_words(program.epochs[0])
    monkeypatch.setattr(runs, "MOST_WORDS", 3 * size + len(runs.ec_program.words([])))
    parts = runs.npu_runs(program)
    assert [len(part) for part in parts] == [3, 3, 2]
    assert [step.number for part in parts for step in part] == list(range(1, 9))


def test_the_cpu_ends_a_program() -> None:
    cpu = CpuPlan(("s",), "s", "s", ("inside",), ("outside",))
    program = bind([copying(), cpu, copying(), copying()], HOMES, (), (), CACHED)
    assert [[step.number for step in run] for run in runs.npu_runs(program)] == [[1], [3, 4]]
    assert isinstance(program, Program) and all(isinstance(step, ProgramStep) for step in program.steps)


def test_programs_in_ram_fill_whole_lines() -> None:
    small, large = (Container(Blob((0x3DD,) * words)) for words in (1, 100))
    for one in (small, large):
        size = 4 * len(one.blob.words())
        assert copy_bytes(one) % NPU_CACHE_LINE == 0 and size <= copy_bytes(one) < size + NPU_CACHE_LINE


def test_the_description_counts_steps_from_one() -> None:
    program = bind([copying(), copying()], HOMES, (), (), CACHED)
    (one,) = [b for b in description(program, Graph({}, (), (), ()), "net")["buffers"] if b["name"] == "inside"]
    assert (one["first_step"], one["last_step"], one["address"], one["size_bytes"]) == (1, 1, 0x3420_0000, 64)
    steps = description(program, Graph({}, (), (), ()), "net")["steps"]
    assert [(step["number"], step["kind"], step["blob"]) for step in steps] == [
        (1, "npu", "_ec_blob_net_1"), (2, "npu", "_ec_blob_net_1"),
    ]  # fmt: skip


def test_no_table_is_kept_over_a_step_of_the_cpu() -> None:
    """It begins a program of its own, which may run after another network."""
    table = ArithConfig(table=bytes(range(1, 13)), vector_a=1)
    plan = replace(copying(), units={"ARITH0": table})
    cpu = CpuPlan(("s",), "s", "s", ("inside",), ("outside",))
    program = runs.keep_tables(bind([plan, plan, cpu, plan, plan], HOMES, (), (), CACHED))
    assert [tuple(epoch.kept) for epoch in program.epochs] == [(), ("ARITH0",), (), ("ARITH0",)]
