"""A strict chip: what a firmware forgot to switch on is missing, as on silicon; what it did switch on works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu import network as emulator
from atonc.machine.emu.board import Firmware, VirtualBoard, read_firmware
from atonc.machine.emu.board.board import LoadedSegment
from atonc.machine.emu.board.chip import FAULTS, RCC, ChipSetup, StuckBits, faults, mapped
from atonc.machine.emu.board.peripherals import AFTER_FIRST_STAGE
from atonc.machine.emu.board.rights import iac_index
from atonc.machine.emu.files.initialisers import load_initialisers
from tests.board.programs import build, busy_host, needs_compiler
from tests.board.test_npu import BLOB, REGISTERS

pytestmark = needs_compiler
ROOT = Path(__file__).parents[2]
FIRST = ROOT / "examples" / "first"
POWER = ROOT / "atonc" / "machine" / "runtime" / "bare_metal" / "npu_power.c"
STAGED = 0x7100_0000  # the input, in flash
LOADED = mapped("XSPI2")  # the test's own code runs from flash
# switches everything on, brings the input, lets the epoch controller run and waits for it, asleep or looking
PROGRAM = """
#undef WORD
#include "%s"
volatile uint32_t done;
void NPU0_IRQHandler(void) { uint32_t lines = WORD(INTCTRL + 8); done = WORD(EPOCHCTRL + 12);
    WORD(EPOCHCTRL + 12) = done; WORD(INTCTRL + 16) = lines; }
int main(void) {
    WORD(0xE000E010u) = 0;
    npu_power_on();
    for (uint32_t k = 0; k < 16384; k += 4) WORD(0x342E0000u + k) = WORD(0x71000000u + k);
    WORD(0x34350000u) = WORD(0x34350004u) = 0xEEEEEEEEu;
    WORD(INTCTRL + 0x14) = 0x3ff; WORD(INTCTRL) = 1; WORD(0xE000E104u) = 1u << 21; start(_ec_blob_first_1);
    WAIT
    return 0; }
"""
WAITS = {
    "asleep": 'while (!done) __asm volatile("wfe");',
    "looking": "for (uint32_t k = 0; k < 3000 && !done; k++) (void)WORD(EPOCHCTRL + 0);",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Firmware]:
    return {
        name: read_firmware(
            build(tmp_path_factory.mktemp(name), REGISTERS + BLOB + (PROGRAM % POWER).replace("WAIT", wait))
        )
        for name, wait in WAITS.items()
    }


class Tried:
    """The network of examples/first on a strict chip: whether it ended, and whether its bytes are right."""

    def __init__(
        self,
        firmware: Firmware,
        chip: ChipSetup,
        change: Callable[[VirtualBoard], None] | None = None,
        clocks: dict[int, int] | None = None,
    ) -> None:
        net = emulator.load(FIRST)
        image = np.random.default_rng(5).integers(-128, 128, net.inputs[0].shape).astype(np.int8)
        self.board = VirtualBoard(firmware, clocks=clocks, chip=LOADED + chip)
        for segment in load_initialisers(net.network):
            self.board.poke(segment.address, np.frombuffer(segment.data, np.uint8))
        net.write_input(0, image)
        self.board.poke(STAGED, net.memory.read(net.inputs[0].address, net.inputs[0].size_bytes))
        if change is not None:
            change(self.board)
        list(net.run())
        self.said = ""
        try:
            self.board.run(1_000_000)
        except InputError as error:
            self.said = str(error)
        wanted = net.outputs[0]
        found = self.board.memory.read(wanted.address, wanted.size_bytes)
        self.right = np.array_equal(found, net.memory.read(wanted.address, wanted.size_bytes))

    @property
    def refused(self) -> set[int]:
        """The filters that the illegal access controller names."""
        assert self.board.chip is not None
        flags = [self.board.chip.iac.read(0x80 + 4 * k) for k in range(5)]
        names = {iac_index(number): number for number in self.board.chip.risafs}
        return {number for index, number in names.items() if flags[index // 32] >> index % 32 & 1}


# --------------------------------------------------------------------------------------------------------- a whole run


@pytest.mark.parametrize("wait", WAITS)
def test_a_firmware_that_switches_everything_on(images: dict[str, Firmware], wait: str) -> None:
    tried = Tried(images[wait], ChipSetup())
    assert tried.right and not tried.said and not tried.refused
    assert tried.board.npu.fault is None and not tried.board.npu.stalled


@pytest.mark.parametrize(
    "fault",
    [
        *(f"axisram{bank}_{kind}" for bank in (3, 4, 5, 6) for kind in ("shutdown", "clock_off")),
        "npu_clock_off", "npu_in_reset", "rimc_not_set", "npu_not_secure", "controller_silent",
        *(f"{place}_{kind}_refused" for place in ("npu", "flash") for kind in ("read", "compartment")),
        "npu_write_refused",
    ],
)  # fmt: skip
def test_a_forgotten_step_gives_other_bytes(images: dict[str, Firmware], fault: str) -> None:
    tried = Tried(images["looking"], faults(fault))
    assert not tried.right and not tried.said
    assert bool(tried.refused) == (fault.endswith("refused") or fault in ("rimc_not_set", "npu_not_secure"))


@pytest.mark.parametrize(
    "fault",
    [
        "axisram2_shutdown", "axisram2_clock_off", "cache_clock_off", "cacheaxiram_clock_off", "vencram_clock_off",
        "axisram2_sleep_clock_off", "cacheaxiram_sleep_clock_off", "cache_sleep_clock_off",
        "xspi1_not_mapped", "hyperram_read_refused", "cpu_ram_write_refused", "flash_write_refused", "data_cache_deaf",
    ],
)  # fmt: skip
def test_what_the_network_does_not_use_may_be_off(images: dict[str, Firmware], fault: str) -> None:
    tried = Tried(images["asleep"], faults(fault))
    assert tried.right and not tried.said and not tried.refused


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("npu_sleep_clock_off", "the NPU has no clock in sleep (RCC_AHB5LPENR bit 31)"),
        ("axisram5_sleep_clock_off", "AXISRAM5 has no clock in sleep (RCC_MEMLPENR bit 2)"),
        ("axisram6_sleep_clock_off", "AXISRAM6 has no clock in sleep (RCC_MEMLPENR bit 3)"),
        ("xspi2_sleep_clock_off", "XSPI2 has no clock in sleep (RCC_AHB5LPENR bit 12)"),
    ],
)
def test_without_clocks_in_sleep_only_who_stays_awake_gets_there(
    images: dict[str, Firmware], fault: str, cause: str
) -> None:
    asleep, looking = (Tried(images[wait], faults(fault)) for wait in ("asleep", "looking"))
    assert "the CPU sleeps and nothing is left that could wake it" in asleep.said and cause in asleep.said
    assert looking.right and not looking.said


def test_an_engine_that_does_not_answer_hangs_its_epoch(images: dict[str, Firmware]) -> None:
    used: set[str] = set()

    def watch(board: VirtualBoard) -> None:
        board.npu.watch = lambda epoch, cycles: used.update(epoch.engines())

    assert Tried(images["asleep"], ChipSetup(), watch).right and 0 < len(used) < 10
    for number in range(10):
        tried = Tried(images["asleep"], faults(f"engine{number}_silent"))
        name = f"STRENG{number}"
        assert (f"{name} does not answer" in tried.said) == (name in used) != tried.right


@pytest.mark.parametrize("wait", WAITS)
def test_a_network_takes_the_same_cycles_beside_a_busy_host(images: dict[str, Firmware], wait: str) -> None:
    def cycles() -> tuple[int, int, int]:
        tried = Tried(images[wait], ChipSetup())
        assert tried.right
        return tried.board.clock.now, tried.board.core.instructions, tried.board.npu.cycles

    alone = cycles()
    with busy_host():
        assert cycles() == cycles() == alone


def test_a_slow_npu_takes_longer(images: dict[str, Firmware]) -> None:
    """IC6 divides by 256 instead of 3."""
    slow, usual = (Tried(images["asleep"], one, clocks=AFTER_FIRST_STAGE) for one in (faults("npu_slow"), ChipSetup()))
    assert slow.right and usual.right and slow.board.clock.waited > 50 * usual.board.clock.waited


# ------------------------------------------------------------------------------------------------------ external memory


def test_flash_that_is_wrong(images: dict[str, Firmware]) -> None:
    """Missing, with one other bit, and four kilobytes further than the network thinks."""
    weights = load_initialisers(emulator.load(FIRST).network)[0]

    def missing(board: VirtualBoard) -> None:
        board.poke(weights.address, np.full(len(weights.data), 0xFF, np.uint8))

    def flipped(board: VirtualBoard) -> None:
        board.poke(weights.address, board.memory.read(weights.address, 1) ^ np.uint8(0x40))

    def shifted(board: VirtualBoard) -> None:
        board.poke(weights.address + 0x1000, board.memory.read(weights.address, len(weights.data)))
        missing(board)

    for change in (missing, flipped, shifted):
        tried = Tried(images["asleep"], ChipSetup(), change)
        assert not tried.right and not tried.said


@pytest.mark.parametrize("fault", ["xspi2_not_mapped", "xspi2_clock_off"])
def test_the_cpu_faults_where_no_controller_maps_memory(images: dict[str, Firmware], fault: str) -> None:
    said = Tried(images["asleep"], faults(fault)).said
    assert "the CPU stopped" in said and "XSPI2" in said and "where nothing is" not in said


# ------------------------------------------------------------------------------------------------------- single parts


def answers(tmp_path: Path, body: str, chip: ChipSetup, data_cache: bool = False) -> list[str]:
    text = f'#define SAY(word) board_print_hex(word); board_print("\\n");\nint main(void) {{ {body} return 0; }}'
    board = VirtualBoard(read_firmware(build(tmp_path, text)), data_cache, chip=LOADED + chip)
    board.run(1_000_000)
    return board.serial.lines


@pytest.mark.parametrize("data_cache", [False, True])
def test_ram_is_there_when_it_has_power_and_a_clock(tmp_path: Path, data_cache: bool) -> None:
    """Off: zeros, at both addresses, and nothing stays. Without its clock it keeps what it has, without power not."""
    look = "SAY(WORD(0x34200010u)) SAY(WORD(0x24200010u)) "
    clock_on, clock_off = "WORD(0x56028A4Cu) = 1; ", "WORD(0x5602924Cu) = 1; "
    up, down = "WORD(0x52023100u) &= ~(1u << 20); ", "WORD(0x52023100u) |= 1u << 20; "
    store = "WORD(0x34200010u) = 7; "
    steps = ("", store + up, clock_on, store, clock_off, clock_on, down + up)
    found = answers(tmp_path, "".join(step + look for step in steps), ChipSetup(), data_cache)
    pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
    assert all(first == second for first, second in pairs)
    off, still_off, fresh, stored, gated, kept, lost = (int(first, 16) for first, _ in pairs)
    assert (off, still_off, stored, gated, kept) == (0, 0, 7, 0, 7)
    assert fresh == lost and fresh not in (0, 7)


def test_registers_without_a_clock(tmp_path: Path) -> None:
    """The NPU's version; its cache, which keeps no setting; a controller that is reset."""
    body = "SAY(WORD(0x580E0004u)) WORD(0x580DFC00u) = 1; WORD(0x56028A60u) = 3u << 30; "
    body += "SAY(WORD(0x580E0004u)) SAY(WORD(0x580DFC00u)) WORD(0x580DFC00u) = 1; SAY(WORD(0x580DFC00u)) "
    body += "WORD(0x56028A20u) = 3u << 30; SAY(WORD(0x580E0004u)) WORD(0x56029220u) = 3u << 30; SAY(WORD(0x580DFC00u)) "
    zero, version = "0x00000000", "0x01b4121f"
    assert answers(tmp_path, body, ChipSetup()) == [zero, version, zero, "0x00000001", zero, zero]


def test_secure_registers_of_the_npu_do_not_answer_at_the_other_address(tmp_path: Path) -> None:
    body = "WORD(0x56028A60u) = 1u << 31; SAY(WORD(0x480E0004u)) WORD(0x5402401Cu) = 1u << 10; "
    body += "SAY(WORD(0x480E0004u)) SAY(WORD(0x5402508Cu)) WORD(0x5402510Cu) = ~0u; SAY(WORD(0x5402508Cu)) "
    found = answers(tmp_path, body, ChipSetup())
    assert found == ["0x01b4121f", "0x00000000", f"{1 << 10:#010x}", "0x00000000"]


def test_what_a_filter_keeps_of_a_refused_access(images: dict[str, Firmware]) -> None:
    """The first one: secure, privileged, compartment 1, a write, and its address."""
    board = Tried(images["looking"], faults("npu_write_refused")).board
    assert board.chip is not None
    filters = [board.chip.risafs[4], board.chip.risafs[5]]
    told = [(one.read(0x20), one.read(0x24)) for one in filters if one.read(0x08)]
    assert told and all(kind == 1 | 1 << 4 | 1 << 5 | 1 << 7 and address >> 20 == 0x342 for kind, address in told)
    for one in filters:
        one.write(0x0C, 3)
        assert one.read(0x08) == 0


def test_images_are_not_loaded_into_memory_that_is_off(images: dict[str, Firmware]) -> None:
    firmware = images["asleep"]
    part = LoadedSegment(0x3420_0000, 0x3420_0000, False, b"data")
    spread = replace(firmware, segments=(*firmware.segments, part))
    VirtualBoard(spread)
    with pytest.raises(InputError, match="AXISRAM3 is shut down"):
        VirtualBoard(spread, chip=LOADED)


def test_faults_have_names_and_add_up(images: dict[str, Firmware]) -> None:
    assert len(FAULTS) >= 25
    both = faults("npu_clock_off", "npu_sleep_clock_off", "controller_silent")
    assert {bits.address for bits in both.stuck} == {RCC + 0x260, RCC + 0x2A0} and both.silent
    both_mapped = mapped("XSPI1") + mapped("XSPI2")
    assert both_mapped == mapped("XSPI1", "XSPI2") and both_mapped.words[RCC + 0x260] == 1 << 5 | 1 << 12
    with pytest.raises(InputError, match="npu_clok_off"):
        faults("npu_clok_off")
    with pytest.raises(InputError, match="0x50000000"):
        VirtualBoard(images["asleep"], chip=ChipSetup(stuck=(StuckBits(0x5000_0000, 1),)))
