"""Rights that the self-test computes from registers against what the chip makes of them, for random regions."""

from __future__ import annotations

import random
import shutil

import pytest

from atonc.machine.emu.board.chip import ChipSetup, StuckBits
from atonc.machine.emu.board.peripherals import base_of
from atonc.machine.emu.board.rights import BusAccess, Risaf
from tests.selftest.bench import Image, Planted, build, run

pytest.importorskip("unicorn")
pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
FILTER, BANK = 3, 2  # AXISRAM2
RANGES = ((0x341E_0000, 0x341E_8000), (0x3416_0000, 0x3416_1000))  # what the firmware's map has of it
SEEDS = range(16)
OF_RIGHTS = {"NPU_MASTER", "RISAF_SECURITY", "RISAF_PRIVILEGE", "RISAF_READ", "RISAF_WRITE", "RISAF_CPU"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(tmp_path_factory.mktemp("rights"))


def regions(rng: random.Random) -> dict[int, int]:
    """Up to three regions by offset in the filter; most admit most."""
    words = {}
    for k in range(rng.randrange(4)):
        start, end = sorted(rng.sample(range(0x101), 2))
        first = rng.choice([0, start << 12])
        last = rng.choice([0xF_FFFF, (end << 12) - 1])
        open_to = 0x00FF_00FF if rng.random() < 0.7 else rng.getrandbits(32) & 0x00FF_00FF
        privileged = 0 if rng.random() < 0.7 else rng.getrandbits(8) << 16
        place = 0x40 * (k + 1)
        words |= {place: 1 | rng.choice([1 << 8, 1 << 8, 0]) | privileged, place + 4: first, place + 8: last}
        words[place + 12] = open_to
    return words


def drawn(seed: int) -> tuple[ChipSetup, bool]:
    """A chip, and whether its filter refuses an access that the network or the CPU makes."""
    rng = random.Random(seed)
    words = regions(rng)
    attributes = rng.choice([0x310, 0x310, 0x310, 0x110, 0x320, 0x210])
    base = base_of(f"RISAF{FILTER}")
    stuck = (StuckBits(0x5402_4C14, 0xFFFF_FFFF, attributes),)
    filter = Risaf(FILTER, lambda index: None)
    filter.words |= words
    rights = attributes >> 4 & 7, bool(attributes >> 8 & 1), bool(attributes >> 9 & 1)
    npu = [BusAccess(*rights, writes) for writes in (False, True)]
    cpu = [BusAccess(1, True, True, writes) for writes in (False, True)]
    refused = any(filter.refused(access, *bounds) for access in npu + cpu for bounds in RANGES)
    return ChipSetup({base + offset: word for offset, word in words.items()}, stuck), refused


@pytest.mark.parametrize("seed", SEEDS)
def test_registers_say_what_the_chip_does(seed: int, image: Image) -> None:
    chip, refused = drawn(seed)
    findings, _ = run(image, Planted(chip))
    told = [one for one in findings if one.name in OF_RIGHTS and one.detail == FILTER]
    assert bool(told) == refused, (chip, findings)
    if not refused:  # then engines and CPU do reach the bank
        assert not [one for one in findings if one.name in ("ENGINE_BYTES", "RAM_CPU") and one.detail == BANK], findings


def test_both_answers_are_drawn() -> None:
    refused = sum(drawn(seed)[1] for seed in SEEDS)
    assert 4 <= refused <= len(SEEDS) - 4
