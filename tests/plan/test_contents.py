"""Every byte that is read was written before: planted reads of bytes that hold nothing are found, each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Op
from atonc.compiler.lower.move.copies import SAME
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.contents import require_written, strays
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.compiler.plan.task import EngineUse
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, EpochPlan, StepPlan
from atonc.compiler.schedule.assign import assign_epoch
from atonc.machine.base.errors import ToolError
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.lower import harness

SIZES = {"x": 64, "a": 64, "b": 64, "y": 64}
BUFFERS = {name: Buffer(name, size, BufferKind.ACTIVATION, name) for name, size in SIZES.items()}


def move(source: str, near: StrengConfig, target: str, far: StrengConfig) -> EpochPlan:
    b = TaskBuilder(("op",), "move")
    b.write(b.unit(SAME[0], b.read(source, near)), target, replace(far, to_memory=1))
    return assign_epoch([b.done()])


def found(*plans: StepPlan, outputs: tuple[str, ...] = (), aliases: dict[str, str] | None = None) -> list[str]:
    found = strays(plans, BUFFERS, aliases or {}, ("x",), outputs)
    return [f"{stray.step} {stray.unit} {stray.buffer}: {stray.seen}" for stray in found]


WHOLE = contiguous(64)


def test_a_chain_of_whole_tensors() -> None:
    cpu = CpuPlan(("op",), "on the CPU", "op", ("a",), ("b",))
    assert found(move("x", WHOLE, "a", WHOLE), cpu, move("b", WHOLE, "y", WHOLE), outputs=("y",)) == []


def test_reading_before_writing() -> None:
    assert found(move("a", WHOLE, "y", WHOLE)) == ["1 STRENG0 a: reads unwritten bytes among 0..63"]


def test_reading_behind_the_end() -> None:
    assert found(move("x", contiguous(64, offset=1), "y", WHOLE)) == ["1 STRENG0 x: reads bytes 1..64 of 64"]


def test_writing_behind_the_end() -> None:
    assert found(move("x", WHOLE, "y", contiguous(64, offset=1))) == ["1 STRENG5 y: writes bytes 1..64 of 64"]


def test_a_hole_in_the_middle() -> None:
    """Four pixels of 16 channels of which twelve are written, then read as they are or as a whole."""
    some = engine(Area.whole(2, 2, 16).channels_from(2, 12), looped=True)
    parts = move("x", contiguous(48), "a", some)
    assert found(parts, move("a", some, "b", contiguous(48))) == []
    assert found(parts, move("a", WHOLE, "b", WHOLE)) == ["2 STRENG0 a: reads unwritten bytes among 0..63"]
    rest = [
        move("x", contiguous(4 * n), "a", engine(Area.whole(2, 2, 16).channels_from(first, n)))
        for first, n in ((0, 2), (14, 2))
    ]
    assert found(parts, *rest, move("a", WHOLE, "b", WHOLE)) == []


def test_writers_of_the_same_epoch_are_too_late() -> None:
    b = TaskBuilder(("op",), "both")
    b.write(b.unit(SAME[0], b.read("x", WHOLE)), "a", replace(WHOLE, to_memory=1))
    b.write(b.unit(SAME[0], b.read("a", WHOLE)), "y", replace(WHOLE, to_memory=1))
    assert found(assign_epoch([b.done()])) == ["1 STRENG5 a: reads unwritten bytes among 0..63"]


def test_the_cpu_and_the_application_read_all_of_a_tensor() -> None:
    half = move("x", contiguous(32), "a", contiguous(32))
    cpu = CpuPlan(("op",), "on the CPU", "op", ("a",), ("b",))
    assert found(half, cpu) == ["2 CPU a: reads 32 unwritten bytes"]
    assert found(half, outputs=("a",)) == ["1 CPU a: reads 32 unwritten bytes"]


def test_names_of_one_memory() -> None:
    assert found(move("x", WHOLE, "a", WHOLE), move("b", WHOLE, "y", WHOLE), aliases={"b": "a"}) == []


def convolution(reader: StrengConfig, **settings: int) -> EpochPlan:
    """Four pixels of 16 channels through a CONVACC."""
    b = TaskBuilder(("op",), "conv")
    config = ConvaccConfig(batch=16, line_elements=32, height=2, **settings)
    kernels = b.read("x", contiguous(16))
    b.write(b.unit(config, b.read("a", reader), kernels), "y", contiguous(4, write=True))
    return assign_epoch([b.done()])


def test_bytes_that_only_fill_up_packed_words() -> None:
    written = move("x", WHOLE, "a", WHOLE)
    frame = engine(Area.whole(2, 2, 16), word_bytes=3, looped=True)  # 22 words: 66 bytes
    pixels = engine(Area.whole(2, 2, 16), word_bytes=3, depth=6, looped=True)  # 18 bytes of each pixel
    for reader in (frame, pixels):
        assert reader.span()[1] == 66
        assert found(written, convolution(reader)) == []
        assert found(written, convolution(replace(reader, address=1)))[0].startswith("2 STRENG0 a")
    assert found(written, move("a", frame, "y", WHOLE)) == ["2 STRENG0 a: reads bytes 0..65 of 64"]  # copied


def test_sums_that_come_back() -> None:
    b = TaskBuilder(("op",), "conv")
    sums = engine(Area(1, 1, 8, 16, 16, 0, 2), Frames(4, 0))
    unit = b.unit(ConvaccConfig(batch=16), b.read("x", WHOLE), b.read("x", WHOLE))
    b.write(unit, "b", replace(sums, to_memory=1))
    b.link(b.read("b", sums), unit, 2)
    plan = assign_epoch([b.done()])
    assert found(plan) == []
    elsewhere = {**plan.engines, "STRENG3": EngineUse("a", sums)}
    assert found(replace(plan, engines=elsewhere)) == ["1 STRENG3 a: reads unwritten bytes among 0..15"]


def test_the_error_names_the_place() -> None:
    with pytest.raises(ToolError, match="STRENG0 reads unwritten bytes among"):
        require_written([move("a", WHOLE, "y", WHOLE)], BUFFERS, {}, ("x",), ())


@pytest.mark.parametrize("channels", [2, 3, 43, 128, 129, 200, 301])
@pytest.mark.parametrize("zero_point", [-128, 0, 7])
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions_read_no_channel_behind_the_last(channels: int, zero_point: int, kernel: int) -> None:
    """128 channels in three batches of 43 would read three bytes behind the last pixel."""
    weights = np.random.default_rng(channels).integers(-127, 128, (16, kernel, kernel, channels)).astype(np.int8)
    tensors = (
        harness.activation("x", (1, 4, 6, channels), zero_point=zero_point),
        harness.constant("w", weights, np.full(16, 0.01), axis=0),
        harness.activation("y", (1, 4, 6, 16), scale=4.0),  # codes as coarse as sums of so many products are
    )
    op = Op("conv", "conv", ("x", "w"), ("y",), {"padding": (kernel // 2,) * 4})
    plans, context = harness.lower(harness.graph_of(op, *tensors))
    assert list(strays(plans, context.buffers, context.aliases, ("x",), ("y",))) == []
