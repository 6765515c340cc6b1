"""The checker finds every planted fault, names the right rule, and says nothing about legal epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from atonc.machine.base.reasons import Severity, Violation
from atonc.machine.hw.safety import (
    CheckedBuffer,
    CheckedPool,
    PoolKind,
    SafetyContext,
    all_rules,
    check_epoch,
    check_program,
    worst,
)
from atonc.machine.hw.safety.evidence.trust import multicast_seen
from atonc.machine.hw.units.stream_engine import is_seen
from tests.hw import safety_epochs as legal
from tests.hw.safety_faults import FAULTS
from tests.hw.safety_parts import NPU_RAM3, NPU_RAM4, NPU_RAM5, add, change, reader, with_events, writer
from tests.hw.safety_plants import Fault, common_source, interleaved, masked_line, other_kernel, swap
from tests.patience import growth

OTHERWISE_TESTED = {"O09", "M15", "M17"}  # they need more than one epoch, or buffers


def ids(violations: list[Violation], severity: Severity) -> set[str]:
    return {v.rule.id for v in violations if v.severity == severity}


@pytest.mark.parametrize("name", legal.LEGAL)
def test_legal_epochs_are_clean(name: str) -> None:
    assert check_epoch(legal.LEGAL[name]()) == []


@pytest.mark.parametrize("name", legal.LEGAL)
def test_the_sequence_of_newer_releases_is_clean_too(name: str) -> None:
    assert check_epoch(with_events(legal.LEGAL[name](), style=2)) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rule} {fault.what}")
def test_planted_fault_is_found(fault: Fault) -> None:
    found = check_epoch(fault.plant())
    mine = [v for v in found if v.rule.id == fault.rule]
    assert mine, f"{fault.rule} says nothing; found {found}"
    assert {v.severity for v in mine} == {mine[0].rule.severity}
    assert ids(found, Severity.VIOLATION) - {fault.rule} == set(fault.also)


def test_every_rule_has_a_planted_fault() -> None:
    assert {rule.id for rule in all_rules()} == {fault.rule for fault in FAULTS} | OTHERWISE_TESTED


def test_rules_say_what_users_need() -> None:
    for rule in all_rules():
        assert rule.sentence and rule.remedy and str(rule.evidence), rule.id
        assert not rule.sentence.endswith(".") and not rule.remedy.endswith("."), rule.id
        assert set(rule.as_dict()) == {"id", "family", "sentence", "evidence", "limit", "remedy", "severity"}


def test_findings_read_well() -> None:
    found = check_epoch(swap(legal.convolution(), STRENG6=writer(NPU_RAM3, 2048, 3)))
    assert str(found[0]) == (
        "epoch 7, STRENG6: violation B01: takes 6144 elements (limit: 4096 arrive). "
        "Rule: each writer takes exactly as many elements as its chain produces."
    )
    assert found[0].as_dict()["evidence"] == "15491 of 15491 writers"
    assert worst(found) == Severity.VIOLATION and worst([]) is None


def test_an_empty_epoch_is_fine() -> None:
    epoch = legal.convolution()
    assert check_epoch(replace(epoch, units={}, links=(), waits=(), events=())) == []


def test_a_program_keeps_one_way_to_set_up_the_switch() -> None:
    first, second = legal.convolution(), with_events(legal.addition(), style=2)
    assert check_program([first, first]) == [] == check_program([second, second])
    assert [v.rule.id for v in check_program([first, second])] == ["O09"]


def test_without_events_only_configurations_are_judged() -> None:
    assert check_epoch(replace(legal.convolution(), events=())) == []


class TestDocumentedExceptions:
    """What a few public programs do is a note, not a violation."""

    LOOP: ClassVar[dict[str, int]] = {"frame_repeat": 16, "frame_offset": 0, "repeat_offset": 32}

    def test_a_frame_repeated_for_port_y_too_often(self) -> None:
        found = check_epoch(swap(legal.addition(), STRENG5=reader(NPU_RAM4, 32, 48, **self.LOOP)))
        assert ids(found, Severity.NOTE) == {"B05"} and not ids(found, Severity.VIOLATION)

    def test_such_a_reader_may_run_past_its_limit(self) -> None:
        loop = {**self.LOOP, "address_limit": NPU_RAM4 + 50}
        found = check_epoch(swap(legal.addition(), STRENG5=reader(NPU_RAM4, 32, 48, **loop)))
        assert ids(found, Severity.NOTE) == {"B05", "M03"} and not ids(found, Severity.VIOLATION)

    def test_but_not_before_it_is_done(self) -> None:
        loop = {**self.LOOP, "address_limit": NPU_RAM4 + 30}
        found = check_epoch(swap(legal.addition(), STRENG5=reader(NPU_RAM4, 32, 48, **loop)))
        assert ids(found, Severity.VIOLATION) == {"M03"}

    def test_other_surplus_for_port_y_is_a_fault(self) -> None:
        found = check_epoch(swap(legal.addition(), STRENG5=reader(NPU_RAM4, 1024)))
        assert ids(found, Severity.VIOLATION) == {"B05"}

    def test_chain_with_a_shift_of_one(self) -> None:
        epoch = change(change(legal.chain(), "CONVACC0", out_shift=1), "CONVACC1", in_shift=1)
        found = check_epoch(epoch)
        assert "A06" in ids(found, Severity.NOTE) and not ids(found, Severity.VIOLATION)

    def test_chain_with_a_shift_of_two(self) -> None:
        """As one program of ST 4.0.0 has it: 3x3, features of two bytes. Not elsewhere."""
        epoch = change(change(legal.chain(), "CONVACC0", out_shift=2), "CONVACC1", in_shift=2)
        assert "A06" in ids(check_epoch(epoch), Severity.VIOLATION)
        wide = {"feature_bytes": 2, "simd": 2, "kernel_width": 3, "kernel_height": 3}
        found = check_epoch(change(change(epoch, "CONVACC0", **wide), "CONVACC1", **wide))
        assert "A06" in ids(found, Severity.NOTE) and "A06" not in ids(found, Severity.VIOLATION)

    @pytest.mark.parametrize(
        ("batch", "size", "severity"),
        [(16, 32, Severity.NOTE), (8, 32, Severity.VIOLATION), (16, 8, Severity.VIOLATION)],
    )
    def test_stride_2_of_1x1(self, batch: int, size: int, severity: Severity) -> None:
        """As one program of ST 4.0.0 has it, and nothing else."""
        epoch = change(other_kernel(1, 1), "CONVACC0", stride_x=2, stride_y=2)
        epoch = change(epoch, "CONVACC0", batch=batch, line_elements=batch * size, height=size)
        assert "U03" in ids(check_epoch(epoch), severity)

    @pytest.mark.parametrize(
        ("kernels", "line", "severity"),
        [(1, 37_800, Severity.NOTE), (2, 37_800, Severity.VIOLATION), (1, 37_808, Severity.VIOLATION)],
    )
    def test_a_line_of_1x1(self, kernels: int, line: int, severity: Severity) -> None:
        epoch = change(other_kernel(1, 1), "CONVACC0", batch=8, kernels=kernels, line_elements=line)
        assert "U04" in ids(check_epoch(epoch), severity)

    @pytest.mark.parametrize(("shift", "severity"), [(24, Severity.NOTE), (35, Severity.NOTE), (36, Severity.UNPROVEN)])
    def test_a_shift_behind_a_table(self, shift: int, severity: Severity) -> None:
        found = check_epoch(change(legal.convolution(), "ARITH1", shift_out=shift))
        assert "V09" in ids(found, severity)

    def test_seven_columns_with_stride_2(self) -> None:
        strided = change(other_kernel(7, 3, count=4), "CONVACC0", stride_x=2, stride_y=2)
        assert "H7" not in ids(check_epoch(strided), Severity.NOTE)
        assert "H7" in ids(check_epoch(other_kernel(7, 3, count=4)), Severity.NOTE)

    @pytest.mark.parametrize(
        ("shape", "steps", "seen"),
        [
            ((4, 4725, 1), (75_600, 16), True),
            ((4725, 2, 8), (8, 151_200), True),
            ((4, 4725, 2), (75_600, 16), False),
            ((5, 4725, 1), (75_600, 16), False),
            ((4725, 3, 8), (8, 151_200), False),
        ],
    )
    def test_rare_rasters_of_writers(self, shape: tuple[int, int, int], steps: tuple[int, int], seen: bool) -> None:
        assert is_seen(shape, *steps, 1) == seen and not is_seen(shape, *steps, 0)

    def test_a_reader_feeds_an_arith_and_a_copy(self) -> None:
        """As ST 4.0.0 has it in yolo26; an ARITH and a POOL nobody has."""
        assert multicast_seen("STRENG", ("STRENG:0", "ARITH:0")) and multicast_seen("STRENG", ("ARITH:0", "ARITH:1"))
        assert not multicast_seen("STRENG", ("ARITH:0", "POOL:0"))

    @pytest.mark.parametrize("line", range(8))
    def test_every_part_of_a_full_height_kernel(self, line: int) -> None:
        """Eight masked 1x1 kernels over a frame of one column: what never ended on a board."""
        assert {"H11", "H12"} <= ids(check_epoch(masked_line(line, columns=1)), Severity.VIOLATION)

    @pytest.mark.parametrize("crop", [{}, {"crop_top": 1}, {"crop_top": 2}])
    def test_parts_of_a_window_have_a_common_source(self, crop: dict[str, int]) -> None:
        """The palm detector that ST ships begins one or two lines apart."""
        assert "H13" not in ids(check_epoch(common_source(**crop)), Severity.VIOLATION)

    def test_256_frames_need_no_gate(self) -> None:
        epoch = legal.chained_features()
        units = {
            "STRENG0": replace(epoch.engines()["STRENG0"], frames=256, frame_offset=0),
            "STRENG5": replace(epoch.engines()["STRENG5"], fsize_low=256 * 576 & 0xFFFF, fsize_high=256 * 576 >> 16),
            "STRENG6": replace(epoch.engines()["STRENG6"], frames=256),
        }
        limits = {name: replace(c, address_limit=c.span()[1] + 63) for name, c in units.items()}
        links = [replace(k, frames0=0, frames1=0, other_source=0) for k in epoch.links]
        assert not ids(check_epoch(replace(swap(epoch, **limits), links=tuple(links))), Severity.VIOLATION)

    def test_transposed_writer(self) -> None:
        steps = {"pixel_offset_low": 512, "line_offset_low": 16, "frame_offset": 8192}
        epoch = change(legal.copy(), "STRENG5", **steps, address_limit=NPU_RAM3 + 0x8000)
        assert not ids(check_epoch(epoch), Severity.VIOLATION)


class TestContext:
    def test_pools_of_the_caller_decide(self) -> None:
        flash = CheckedPool("weights", 0x7038_0000, 0x1000, PoolKind.FLASH, writable=False)
        ram = CheckedPool("ram", NPU_RAM3, 0x1C_0000, PoolKind.ON_CHIP)
        assert check_epoch(legal.convolution(), SafetyContext((flash, ram))) == []
        short = replace(ram, size_bytes=0xFFF)
        found = check_epoch(legal.convolution(), SafetyContext((flash, short)))
        assert {(v.rule.id, v.unit) for v in found} == {("M14", "STRENG0"), ("M14", "STRENG6")}

    def test_a_pool_that_is_not_writable(self) -> None:
        pools = (CheckedPool("all", NPU_RAM3, 0x1C_0000, PoolKind.ON_CHIP, writable=False),)
        flash = CheckedPool("weights", 0x7038_0000, 0x1000, PoolKind.FLASH, writable=False)
        assert [v.rule.id for v in check_epoch(legal.convolution(), SafetyContext((*pools, flash)))] == ["M13"]

    def test_neighbouring_pools_hold_one_buffer(self) -> None:
        epoch = swap(legal.convolution(), STRENG6=writer(NPU_RAM4 - 2048, 2048, 2))
        assert check_epoch(epoch) == []

    def test_non_secure_addresses_are_the_same_memory(self) -> None:
        epoch = legal.convolution()
        moved = {n: c.address & ~0x1000_0000 for n, c in epoch.engines().items() if c.address >> 28 == 3}
        for name, address in moved.items():
            limit = epoch.engines()[name].address_limit & ~0x1000_0000
            epoch = change(epoch, name, address=address, address_limit=limit)
        assert check_epoch(epoch) == []

    def test_writers_stay_in_their_buffer(self) -> None:
        fits, short = CheckedBuffer("out", NPU_RAM3, 4096), CheckedBuffer("out", NPU_RAM3, 4095)
        assert check_epoch(legal.convolution(), SafetyContext(buffers=(fits,))) == []
        found = check_epoch(legal.convolution(), SafetyContext(buffers=(short,)))
        assert [(v.rule.id, v.unit) for v in found] == [("M15", "STRENG6")]

    def test_a_reader_stays_inside_its_buffer(self) -> None:
        fits, short = CheckedBuffer("in", NPU_RAM5, 4096), CheckedBuffer("in", NPU_RAM5, 4095)
        assert check_epoch(legal.convolution(), SafetyContext(buffers=(fits,))) == []
        found = check_epoch(legal.convolution(), SafetyContext(buffers=(short,)))
        assert [(v.rule.id, v.unit) for v in found] == [("M17", "STRENG0")]

    def test_packed_words_may_end_behind_the_buffer(self) -> None:
        packed = swap(legal.copy(), STRENG0=reader(NPU_RAM5, 683, element_bytes=3))
        sizes = {
            size: check_epoch(packed, SafetyContext(buffers=(CheckedBuffer("in", NPU_RAM5, size),)))
            for size in (2047, 2046)
        }
        assert [("M17" in {v.rule.id for v in found}) for found in sizes.values()] == [False, True]

    def test_user_buffers_may_lie_anywhere(self) -> None:
        assert check_epoch(swap(legal.addition(), STRENG0=reader(0xA000_0000, 512))) == []


def test_slices_may_lie_beside_each_other_in_words_of_their_own() -> None:
    assert [v for v in check_epoch(interleaved(8)) if v.rule.family != "evidence"] == []


def test_two_chains_in_one_epoch() -> None:
    epoch = add(
        legal.convolution(),
        "STRENG2 > STRENG3",
        STRENG2=reader(NPU_RAM5 + 0x8000, 512),
        STRENG3=writer(NPU_RAM4, 512),
    )
    assert check_epoch(epoch) == []


def test_the_check_takes_twice_as_long_for_twice_as_many_epochs() -> None:
    def checking(count: int) -> Callable[[], object]:
        epochs = [legal.memory_loop() for _ in range(count)]
        assert check_program(epochs) == []  # reads the data files too
        return lambda: check_program(epochs)

    assert growth(checking, 20) < 2.2
