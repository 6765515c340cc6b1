"""Accumulator chains and loops as whole epochs, against the scalar model frame by frame."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.convacc import FRAME_ZERO, ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, data_kinds, numbers

FEATURES, KERNELS, RESULTS, SUMS = 0x3410_0000, 0x3420_0000, 0x3430_0000, 0x3438_0000
REGION = 1 << 16


@dataclass(frozen=True)
class Case:
    """A chain of units, all with the same geometry; `passes` above 1: a loop over groups of frames."""

    units: int
    passes: int
    groups: int
    config: ConvaccConfig
    out_shift: int
    share_kernels: bool
    features: np.ndarray
    kernels: np.ndarray

    @property
    def frames(self) -> int:
        return self.passes * self.groups

    @property
    def out_elements(self) -> int:
        return self.config.out_elements


@st.composite
def cases(draw, largest_passes: int) -> Case:
    units, passes, groups = draw(st.integers(1, 4)), draw(st.integers(1, largest_passes)), draw(st.integers(1, 3))
    kernel = draw(st.sampled_from([1, 3]))
    batch, kernels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    simd = draw(st.integers(1, 2))
    pad = kernel // 2
    config = ConvaccConfig(
        simd=simd, feature_bytes=simd, kernel_width=kernel, kernel_height=kernel, batch=batch, kernels=kernels,
        height=height, line_elements=width * batch, pad_left=pad, pad_right=pad, pad_top=pad, pad_bottom=pad,
        rounded=1, saturated=1, round_mode=1, in_shift=0, out_shift=0, out_bytes=3, raw_out=1,
        feature_offset=draw(st.sampled_from([0, -128, 7])),
    )  # fmt: skip
    frames = units * passes * groups
    features = numbers(draw(data_kinds), frames * height * width * batch, "int8")
    weights = numbers(draw(data_kinds), frames * kernels * kernel * kernel * batch, "int8")
    out_shift, share = draw(st.integers(0, 9)), draw(st.booleans())
    return Case(units, passes, groups, config, out_shift, share, features, weights)


def reader(address: int, frame_elements: int, frames: int, stride: int, signs: int = 0) -> StrengConfig:
    signed = {"align_right": signs, "sign_extend": signs}
    common = {"raw": 1, "size0": 8, "frame_limit_enabled": 1, "frame_offset": stride}
    return StrengConfig(address=address, fsize_low=frame_elements, frames=frames, **common, **signed)


def writer(address: int, frame_elements: int, frames: int, stride: int) -> StrengConfig:
    common = {"raw": 1, "size0": 8, "size1": 8, "frame_limit_enabled": 1, "to_memory": 1}
    return StrengConfig(address=address, fsize_low=frame_elements, frames=frames, frame_offset=stride, **common)


def build(case: Case, loop: str = "") -> Epoch:
    """Unit u takes feature frames u, u + n, ... of memory; kernels come one stream each or one for all (KFILT)."""
    units: dict[str, object] = {}
    links: list[Link] = []
    set_bytes = case.config.kernels * case.config.kernel_height * case.config.kernel_width * case.config.batch
    frame = case.config.height * case.config.line_elements
    for u in range(case.units):
        name = f"CONVACC{u}"
        units[name] = _unit(case, u, loop)
        units[f"STRENG{u}"] = reader(FEATURES + u * frame, frame, case.frames, case.units * frame, signs=1)
        links += [Link(f"STRENG{u}", name, 0)]
        if case.share_kernels:
            links += [Link("STRENG4", name, 1)]
        else:
            stream = reader(KERNELS + u * set_bytes, set_bytes, case.frames, case.units * set_bytes)
            units[f"STRENG{4 + u}"] = stream
            links += [Link(f"STRENG{4 + u}", name, 1)]
        if u:
            links += [Link(f"CONVACC{u - 1}", name, 2)]
    if case.share_kernels:
        units["STRENG4"] = reader(KERNELS, set_bytes * case.units, case.frames, case.units * set_bytes)
    _add_outputs(case, loop, units, links)
    waits = tuple(name for name, config in units.items() if isinstance(config, StrengConfig) and config.to_memory)
    return Epoch(1, units, tuple(links), waits)


def _unit(case: Case, u: int, loop: str) -> ConvaccConfig:
    config, last = case.config, case.units - 1
    if case.share_kernels and case.units > 1:
        first = u * config.kernels
        config = replace(config, kernels_per_round=case.units * config.kernels, kernel_first=first)
        config = replace(config, kernel_last=first + config.kernels - 1)
    if u == last:
        config = replace(config, out_shift=case.out_shift, out_bytes=2, raw_out=0)
    if u == 0 and not loop:
        config = replace(config, no_sum=1, no_first_sum=1)
    if u == 0 and loop:
        config = replace(config, in_shift=case.out_shift, accumulator_filter=FRAME_ZERO)
        config = replace(config, frames_per_sum=case.passes, sum_first=1, sum_last=case.passes - 1)
        config = replace(config, generate_first_sum=int(loop == "ring"), no_first_sum=int(loop == "memory"))
    return config


def _add_outputs(case: Case, loop: str, units: dict[str, object], links: list[Link]) -> None:
    tail, size = f"CONVACC{case.units - 1}", case.out_elements
    if not loop:
        units["STRENG8"] = writer(RESULTS, size, case.frames, 2 * size)
        links += [Link(tail, "STRENG8", 0)]
        return
    units["STRENG8"] = writer(RESULTS, size, case.groups, 2 * size)
    gate = {"enabled0": False, "frames0": case.passes - 1, "enabled1": True, "frames1": 1}
    links += [Link(tail, "STRENG8", 0, **gate)]
    if loop == "ring":
        links += [Link(tail, "CONVACC0", 2)]
        return
    # through memory: ten engines do for at most three units with kernels of their own
    returned = reader(SUMS, size, case.frames, 0, signs=1)
    units["STRENG7"] = replace(returned, size1=8, sync=1, sync_source=9)
    units["STRENG9"] = writer(SUMS, size, case.frames, 0)
    links += [Link(tail, "STRENG9", 0), Link("STRENG7", "CONVACC0", 2)]


def memory_of(case: Case) -> AddressSpace:
    memory = AddressSpace()
    for name, base in (("features", FEATURES), ("kernels", KERNELS), ("results", RESULTS), ("sums", SUMS)):
        memory.add(name, base, REGION)
    memory.write(FEATURES, case.features.view(np.uint8))
    memory.write(KERNELS, case.kernels.view(np.uint8))
    return memory


def expected(case: Case) -> list[list[int]]:
    """Outputs of the last unit, frame by frame, with the sum handed from unit to unit and from pass to pass."""
    frame = case.config.height * case.config.line_elements
    set_bytes = len(case.kernels) // (case.units * case.frames)
    before, results = [], []
    for number in range(case.frames):
        carried = before if number % case.passes else []
        for u in range(case.units):
            position = number * case.units + u
            words = [int(v) & scalar.WORD for v in case.features[position * frame : (position + 1) * frame]]
            raw = case.kernels[position * set_bytes : (position + 1) * set_bytes].tobytes()
            own = scalar.conv_all(case.config, words, raw)[0]
            in_shift = case.out_shift if u == 0 else 0
            totals = [s + (c << in_shift) for s, c in zip(own, carried or [0] * len(own), strict=True)]
            last = u == case.units - 1
            stage = replace(case.config, out_shift=case.out_shift, out_bytes=2) if last else case.config
            carried = [scalar.conv_output(stage, total) for total in totals]
        before = carried
        results.append(carried)
    return results


def _stored(memory: AddressSpace, address: int, elements: int) -> list[int]:
    return memory.read(address, 2 * elements).view("<i2").tolist()


@EXAMPLES
@given(cases(largest_passes=1))
def test_a_chain_of_units_sums_exactly(case: Case) -> None:
    memory = memory_of(case)
    run_epoch(build(case), memory)
    wanted = [value for frame in expected(case) for value in frame]
    assert _stored(memory, RESULTS, len(wanted)) == wanted


@EXAMPLES
@given(cases(largest_passes=4).filter(lambda case: case.passes > 1))
def test_a_ring_through_the_switch(case: Case) -> None:
    """GEN1SUM: frame k adds output k - 1, rounded to 16 bit; the first of each group starts from zero."""
    memory = memory_of(case)
    run_epoch(build(case, "ring"), memory)
    wanted = [value for frame in expected(case)[case.passes - 1 :: case.passes] for value in frame]
    assert _stored(memory, RESULTS, len(wanted)) == wanted


@EXAMPLES
@given(cases(largest_passes=4).filter(lambda case: case.passes > 1 and (case.units < 4 or case.share_kernels)))
def test_a_loop_through_memory(case: Case) -> None:
    """The same sum, written to one place and read back; what is left there is the last frame."""
    memory = memory_of(case)
    memory.view(SUMS, REGION)[:] = 0x55  # never used: the first frame of a group starts from zero
    run_epoch(build(case, "memory"), memory)
    frames = expected(case)
    wanted = [value for frame in frames[case.passes - 1 :: case.passes] for value in frame]
    assert _stored(memory, RESULTS, len(wanted)) == wanted
    assert _stored(memory, SUMS, case.out_elements) == frames[-1]


def _example(units: int = 2, passes: int = 1) -> Case:
    config = ConvaccConfig(
        simd=1, feature_bytes=1, kernel_width=1, kernel_height=1, batch=1, kernels=1, height=1, line_elements=2,
        rounded=1, saturated=1, round_mode=1, in_shift=0, out_shift=0, out_bytes=3, raw_out=1,
    )  # fmt: skip
    frames = units * passes
    return Case(units, passes, 1, config, 0, False, np.ones(2 * frames, np.int8), np.ones(frames, np.int8))


def _broken(case: Case, loop: str = "", **changes: ConvaccConfig) -> Epoch:
    epoch = build(case, loop)
    return replace(epoch, units={**epoch.units, **changes})


def test_a_ring_without_a_first_unit_is_refused() -> None:
    case = _example(2, 2)
    epoch = build(case, "ring")
    first = replace(epoch.units["CONVACC0"], generate_first_sum=0, accumulator_filter=0)
    with pytest.raises(InputError, match="ring without a first unit"):
        run_epoch(replace(epoch, units={**epoch.units, "CONVACC0": first}), memory_of(case))


@pytest.mark.parametrize("missing", [("CONVACC0", 0), ("CONVACC1", 1), ("STRENG8", 0)])
def test_a_missing_link_is_refused(missing: tuple[str, int]) -> None:
    case = _example()
    epoch = build(case)
    links = tuple(link for link in epoch.links if (link.destination, link.port) != missing)
    with pytest.raises(InputError, match="nothing linked"):
        run_epoch(replace(epoch, links=links), memory_of(case))


def test_a_writer_that_waits_for_more_than_comes_is_refused() -> None:
    case = _example()
    with pytest.raises(InputError, match="never end"):
        run_epoch(_broken(case, STRENG8=writer(RESULTS, 3, 1, 0)), memory_of(case))


def test_units_of_different_output_size_are_refused() -> None:
    case = _example()
    other = replace(build(case).units["CONVACC1"], height=2, line_elements=1)
    broken = _broken(case, CONVACC1=other)
    units = {**broken.units, "STRENG8": writer(RESULTS, 1, 1, 0)}
    run_epoch(replace(broken, units=units), memory_of(case))  # two pixels in another order are still two pixels
    other = replace(other, kernels=2)
    with pytest.raises(AtoncError):
        run_epoch(_broken(case, CONVACC1=other), memory_of(case))


def test_an_accumulator_input_that_is_switched_off_or_missing_is_noticed() -> None:
    """NOSUM=1 with port 2 linked adds nothing on the chip; NOSUM=0 without a source waits for ever."""
    case = _example()
    ignoring = replace(build(case).units["CONVACC1"], no_sum=1)
    with pytest.raises(AtoncError):
        run_epoch(_broken(case, CONVACC1=ignoring), memory_of(case))
    waiting = replace(build(case).units["CONVACC0"], no_sum=0)
    with pytest.raises(AtoncError):
        run_epoch(_broken(case, CONVACC0=waiting), memory_of(case))


def test_the_incoming_sum_is_shifted_exactly() -> None:
    case = _example()
    wide = replace(build(case).units["CONVACC1"], in_shift=31, out_shift=31)
    memory = memory_of(case)
    run_epoch(_broken(case, CONVACC1=wide), memory)
    assert _stored(memory, RESULTS, 2) == [1, 1]


def test_a_gated_accumulator_input_raises() -> None:
    case = _example()
    epoch = build(case)
    links = tuple(replace(link, frames0=1, frames1=255) if link.port == 2 else link for link in epoch.links)
    with pytest.raises(AtoncError):
        run_epoch(replace(epoch, links=links), memory_of(case))


@pytest.mark.parametrize("changes", [{"accumulator_filter": 0}, {"sum_first": 0}])
def test_loops_that_nobody_has_observed_raise(changes: dict[str, int]) -> None:
    """Two groups: with FIRST = 0 the second group would go on from the first one's result."""
    case = replace(_example(1, 2), groups=2, features=np.ones(8, np.int8), kernels=np.ones(4, np.int8))
    for loop in ("ring", "memory"):
        broken = replace(build(case, loop).units["CONVACC0"], **changes)
        with pytest.raises(AtoncError):
            run_epoch(_broken(case, loop, CONVACC0=broken), memory_of(case))


def test_a_filter_inside_a_chain_raises() -> None:
    case = _example(2, 1)
    inner = replace(build(case).units["CONVACC1"], accumulator_filter=FRAME_ZERO, frames_per_sum=2, sum_first=1)
    with pytest.raises(AtoncError):
        run_epoch(_broken(case, CONVACC1=inner), memory_of(case))
