"""Units wired to each other in one epoch: every stream keeps its meaning on the way from memory to memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import arith, pool
from atonc.machine.hw.units.activ import THRESHOLD_RELU, ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.decompress import DecunConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, data_kinds, numbers

INPUT, SECOND, WEIGHTS, OUTPUT, OTHER = (0x3400_0000 + k * 0x1_0000 for k in range(5))

ADD = ArithConfig(
    operation=arith.AFFINE, dual_input=1, a=3, b=-2, c=5, bytes_x=1, out_bytes_x=1, bytes_y=1, out_bytes_y=1,
    out_bytes=2, saturated=1, rounded=1, round_mode=1,
)  # fmt: skip
NARROW = ArithConfig(
    a=1, bytes_x=2, out_bytes=1, saturated=1, rounded=1, round_mode=1, shift_out=2, bytes_y=1, out_bytes_y=1
)
THRESHOLD = ActivConfig(
    type=THRESHOLD_RELU, parameter=-3, parameter2=-4, feature_bytes=1, feature_out_bytes=1, out_bytes=1, rounded=1,
    saturated=1, round_mode=1,
)  # fmt: skip


def engine(address: int, elements: int, frames: int = 1, size: int = 1, **changes: int) -> StrengConfig:
    plain = {"raw": 1, "continuous": 1, "size0": 8, "size1": 8 * (size > 1), "frame_limit_enabled": 1}
    return StrengConfig(**{**plain, "address": address, "fsize_low": elements, "frames": frames, **changes})


def run(units: dict[str, UnitConfig], links: list[tuple[str, str, int] | Link], **contents: np.ndarray) -> AddressSpace:
    memory = AddressSpace()
    memory.add("all", INPUT, 0x5_0000)
    for name, values in contents.items():
        memory.write({"first": INPUT, "second": SECOND, "weights": WEIGHTS}[name], values.view(np.uint8))
    wired = tuple(link if isinstance(link, Link) else Link(*link) for link in links)
    writers = tuple(name for name, c in units.items() if isinstance(c, StrengConfig) and c.to_memory)
    run_epoch(Epoch(7, units, wired, writers), memory)
    return memory


def stored(memory: AddressSpace, address: int, count: int, dtype: str = "int8") -> list[int]:
    return memory.read(address, count * np.dtype(dtype).itemsize).view(dtype).tolist()


@EXAMPLES
@given(data_kinds, data_kinds, st.integers(1, 60))
def test_two_inputs_two_units_and_a_threshold(kind_x: tuple[str, int], kind_y: tuple[str, int], count: int) -> None:
    x, y = numbers(kind_x, count, "int8"), numbers(kind_y, count, "int8")
    units = {
        "STRENG0": engine(INPUT, count),
        "STRENG1": engine(SECOND, count),
        "ARITH0": ADD,
        "ARITH1": NARROW,
        "ACTIV0": THRESHOLD,
        "STRENG2": engine(OUTPUT, count, to_memory=1),
        "STRENG3": engine(OTHER, count, size=2, to_memory=1),
    }
    links = [("STRENG0", "ARITH0", 0), ("STRENG1", "ARITH0", 1), ("ARITH0", "ARITH1", 0), ("ARITH0", "STRENG3", 0)]
    links += [("ARITH1", "ACTIV0", 0), ("ACTIV0", "STRENG2", 0)]
    memory = run(units, links, first=x, second=y)
    sums = scalar.arith(ADD, x.tolist(), y.tolist(), [])
    narrow = scalar.arith(NARROW, sums, None, [])
    assert stored(memory, OTHER, count, "int16") == sums
    assert stored(memory, OUTPUT, count) == [scalar.activ(THRESHOLD, value, [], []) for value in narrow]


@EXAMPLES
@given(data_kinds, st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))
def test_a_unit_may_yield_more_frames_than_a_convolution_takes(
    kind: tuple[str, int], frames: int, surplus: int, batch: int
) -> None:
    """ARITH to CONVACC is gated "keep n, then drop 255": the features of n frames, whatever the producer's frames."""
    size = 2 * 2 * batch
    x = numbers(kind, (frames + surplus) * size, "int8")
    conv = ConvaccConfig(
        simd=1, feature_bytes=1, kernel_width=1, kernel_height=1, batch=batch, kernels=1, height=2,
        line_elements=2 * batch, out_shift=0, out_bytes=2, rounded=1, saturated=1, round_mode=1, no_sum=1,
    )  # fmt: skip
    weights = numbers(("random", 5), frames * batch, "int8")
    same = ArithConfig(a=1, bytes_x=1, out_bytes_x=1, out_bytes=1, saturated=1, rounded=1, round_mode=1)
    units = {
        "STRENG0": engine(INPUT, x.size),
        "ARITH3": same,
        "STRENG1": engine(WEIGHTS, batch, frames),
        "CONVACC1": conv,
        "STRENG9": engine(OUTPUT, 4, frames, size=2, to_memory=1),
    }
    gate = Link("ARITH3", "CONVACC1", 0, frames0=frames, frames1=255)
    links = [("STRENG0", "ARITH3", 0), gate, ("STRENG1", "CONVACC1", 1), ("CONVACC1", "STRENG9", 0)]
    memory = run(units, links, first=x, weights=weights)
    sums = scalar.conv_all(conv, x[: frames * size].tolist(), weights.tobytes())
    assert stored(memory, OUTPUT, 4 * frames, "int16") == [scalar.conv_output(conv, s) for f in sums for s in f]


def test_a_pool_feeds_a_pool_and_the_writer_transposes() -> None:
    """One frame of 4x4x2 becomes planes: line step 2, pixel step 1, channel planes by frames of the writer."""
    first = PoolConfig(
        type=pool.MAX, batch=2, height=5, line_elements=10, window_x=2, window_y=2, stride_x=1, stride_y=1, out_width=4,
        out_height=4, feature_bytes=1, feature_out_bytes=1, out_bytes=1, rounded=1, saturated=1, round_mode=1,
    )  # fmt: skip
    second = PoolConfig(
        type=pool.MAX, batch=2, height=4, line_elements=8, window_x=2, window_y=2, stride_x=2, stride_y=2, out_width=2,
        out_height=2, feature_bytes=1, feature_out_bytes=1, out_bytes=1, rounded=1, saturated=1, round_mode=1,
    )  # fmt: skip
    x = numbers(("random", 3), 50, "int8")
    planes = {"raw": 0, "continuous": 0, "fsize_high": 2, "fsize_low": 2, "depth": 2, "pixel_offset_low": 2}
    writer = engine(OUTPUT, 2, to_memory=1, **{**planes, "line_offset_low": 32})
    units = {"STRENG0": engine(INPUT, 50), "POOL0": first, "POOL1": second, "STRENG5": writer}
    memory = run(units, [("STRENG0", "POOL0", 0), ("POOL0", "POOL1", 0), ("POOL1", "STRENG5", 0)], first=x)
    wanted = scalar.pool_frame(second, scalar.pool_frame(first, x.tolist()))
    assert stored(memory, OUTPUT, 4) + stored(memory, OUTPUT + 32, 4) == wanted


def test_reads_happen_before_writes() -> None:
    """In place: a chain that writes where it reads sees the old values."""
    x = numbers(("random", 9), 40, "int8")
    double = ArithConfig(a=2, bytes_x=1, out_bytes_x=1, out_bytes=1, saturated=1, rounded=1, round_mode=1)
    units = {"STRENG0": engine(INPUT, 40), "ARITH0": double, "STRENG1": engine(INPUT, 40, to_memory=1)}
    memory = run(units, [("STRENG0", "ARITH0", 0), ("ARITH0", "STRENG1", 0)], first=x)
    assert stored(memory, INPUT, 40) == [max(-128, min(127, 2 * int(v))) for v in x]


COPY = {"STRENG0": engine(INPUT, 8), "STRENG1": engine(OUTPUT, 8, to_memory=1)}


def test_both_aliases_of_on_chip_memory_are_one() -> None:
    x = numbers(("random", 2), 8, "int8")
    units = {**COPY, "STRENG0": engine(INPUT & ~0x1000_0000, 8)}
    assert stored(run(units, [("STRENG0", "STRENG1", 0)], first=x), OUTPUT, 8) == x.tolist()


@pytest.mark.parametrize(
    ("units", "links", "message"),
    [
        (COPY, [], "nothing linked"),
        (COPY, [("STRENG4", "STRENG1", 0)], "not enabled"),
        ({**COPY, "STRENG0": engine(INPUT, 7)}, [("STRENG0", "STRENG1", 0)], "never end"),
        ({**COPY, "STRENG0": engine(0x7000_0000, 8)}, [("STRENG0", "STRENG1", 0)], "no memory"),
        ({**COPY, "STRENG0": engine(INPUT + 0x4_FFFF, 8)}, [("STRENG0", "STRENG1", 0)], "outside the memory"),
        ({**COPY, "ARITH0": NARROW, "ARITH1": NARROW},
         [("ARITH0", "ARITH1", 0), ("ARITH1", "ARITH0", 0), ("ARITH0", "STRENG1", 0)], "feed each other"),
        ({**COPY, "ARITH0": ADD}, [("STRENG0", "ARITH0", 0), ("ARITH0", "STRENG1", 0)], "port 1"),
    ],
)  # fmt: skip
def test_epochs_that_would_hang_are_refused(units: dict, links: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(units, links)


def test_waiting_for_an_engine_that_writes_nothing_is_refused() -> None:
    memory = AddressSpace()
    memory.add("all", INPUT, 0x5_0000)
    epoch = Epoch(3, COPY, (Link("STRENG0", "STRENG1", 0),), ("STRENG0",))
    with pytest.raises(InputError, match="waits for STRENG0"):
        run_epoch(epoch, memory)


def test_units_that_no_network_uses_are_not_guessed() -> None:
    with pytest.raises(NotModelledError, match="DECUN"):
        run({**COPY, "DECUN0": DecunConfig()}, [("STRENG0", "DECUN0", 0), ("DECUN0", "STRENG1", 0)])
