"""The filters of the resource isolation, region by region, and the controller that notes what they refuse."""

from __future__ import annotations

import pytest

from atonc.machine.emu.board.rights import BusAccess, IllegalAccesses, Rifsc, Risaf

FLASH = 0x7000_0000
TRUSTED = BusAccess(1, secure=True, privileged=True, writes=False)
SECURE, OPEN, ALL, READ_ONLY = 1 << 8 | 1, 1, 0x00FF_00FF, 0xFF


def risaf(*regions: tuple[int, int, int, int], number: int = 12) -> Risaf:
    """Regions as configuration, first and last address, compartments."""
    made = Risaf(number, lambda index: None)
    for k, region in enumerate(regions):
        for place, word in zip((0x00, 0x04, 0x08, 0x0C), region, strict=True):
            made.write(0x40 * (k + 1) + place, word)
    return made


@pytest.mark.parametrize(
    ("access", "passes"),
    [
        (TRUSTED, True),
        (BusAccess(1, True, True, True), True),
        (BusAccess(0, True, True, False), False),
        (BusAccess(1, False, True, False), False),
        (BusAccess(1, True, False, False), False),
        (BusAccess(0, False, False, False), False),  # the NPU after reset
    ],
)
def test_without_regions_only_the_trusted_compartment_passes(access: BusAccess, passes: bool) -> None:
    assert risaf().refused(access, FLASH, FLASH + 64) == ([] if passes else [(FLASH, FLASH + 64)])


@pytest.mark.parametrize(
    ("config", "compartments", "access", "passes"),
    [
        (SECURE, ALL, BusAccess(5, True, False, False), True),
        (SECURE, READ_ONLY, BusAccess(5, True, False, True), False),
        (SECURE, READ_ONLY << 16, BusAccess(5, True, False, False), False),
        (SECURE, ~(1 << 5), BusAccess(5, True, False, False), False),
        (SECURE, ~(1 << 5), BusAccess(5, True, False, True), True),
        (SECURE | 1 << 21, ALL, BusAccess(5, True, False, False), False),  # privileged only, for compartment 5
        (SECURE | 1 << 21, ALL, BusAccess(5, True, True, False), True),
        (SECURE | 1 << 21, ALL, BusAccess(4, True, False, False), True),
        (OPEN, ALL, TRUSTED, False),  # a region for accesses that are not secure
        (OPEN, ALL, BusAccess(0, False, False, False), True),
        (SECURE & ~1, 0, TRUSTED, True),  # not enabled
    ],
)
def test_a_region_decides(config: int, compartments: int, access: BusAccess, passes: bool) -> None:
    made = risaf((config, 0, 0x7FF_FFFF, compartments))
    assert (made.refused(access, FLASH + 0x1000, FLASH + 0x2000) == []) == passes


def test_regions_that_overlap_add_up_and_others_are_as_without() -> None:
    made = risaf((SECURE, 0, 0xFFF, READ_ONLY), (OPEN, 0, 0x1FFF, ALL), (SECURE, 0x1000, 0x1FFF, 0))
    plain = BusAccess(0, False, False, False)
    assert made.refused(TRUSTED, FLASH, FLASH + 0x3000) == [(FLASH + 0x1000, FLASH + 0x2000)]
    assert made.refused(plain, FLASH + 0x800, FLASH + 0x3000) == [(FLASH + 0x2000, FLASH + 0x3000)]


@pytest.mark.parametrize("base", [0x2420_0000, 0x3420_0000])
def test_filters_of_the_npu_take_whole_addresses(base: int) -> None:
    made = risaf((SECURE, base, base + 0x6_FFFF, READ_ONLY), number=4)
    write = BusAccess(1, True, True, True)
    assert made.refused(write, 0x3426_FF00, 0x3427_0100) == [(0x3426_FF00, 0x3427_0000)]
    assert (made.read(0x08), made.read(0x20), made.read(0x24)) == (2, 0xB1, 0x3426_FF00)


def test_the_first_refused_access_is_kept_until_it_is_acknowledged() -> None:
    noted: list[int] = []
    made = Risaf(2, noted.append)
    plain = BusAccess(3, False, False, True)
    made.refused(plain, 0x3406_4000, 0x3406_4010)
    made.refused(BusAccess(0, False, False, False), 0x3406_8000, 0x3406_8010)
    assert (made.read(0x20), made.read(0x24)) == (3 | 1 << 7, 0x3406_4000) and noted == [140, 140]
    made.write(0x20, 0)  # for reading only
    made.write(0x0C, 2)
    assert made.read(0x08) == 0
    made.refused(BusAccess(0, False, False, False), 0x3406_8000, 0x3406_8010)
    assert (made.read(0x20), made.read(0x24)) == (0, 0x3406_8000)


def test_the_npu_is_secure_only_if_its_registers_are() -> None:
    rifsc = Rifsc()
    assert rifsc.npu(False) == BusAccess(0, False, False, False)
    rifsc.write(0xC14, 1 << 9 | 1 << 8 | 1 << 4)
    assert rifsc.npu(True) == BusAccess(1, False, True, True)
    rifsc.write(0x1C, 1 << 10)
    assert rifsc.npu(True) == BusAccess(1, True, True, True)


def test_illegal_accesses_interrupt_only_when_asked_to() -> None:
    levels: list[bool] = []
    iac = IllegalAccesses(levels.append)
    iac.note(142)
    assert iac.read(0x90) == 1 << 14 and not any(levels)
    iac.write(0x90, 0)  # for reading only
    iac.write(0x10, 1 << 14)
    assert levels[-1] and iac.read(0x90) == 1 << 14
    iac.write(0x110, 1 << 14)
    assert not levels[-1] and iac.read(0x90) == 0
