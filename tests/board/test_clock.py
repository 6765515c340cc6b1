"""The board's clock is a function of what was executed: neither of how many instructions are executed at a time, nor of
how long the host takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from atonc.machine.emu.board import VirtualBoard, core, read_firmware
from atonc.machine.emu.board.peripherals import Terminal, Usart
from atonc.machine.emu.board.system import Clock
from tests.board.programs import build, busy_host, needs_compiler

pytestmark = needs_compiler
CPU_HZ = 600_000_000
SLICES = (7, 64, 2048, 5000)
# a tick every 997 cycles; waits for a byte, then measures work with branches and conditions by the cycle counter
PROGRAM = """
#define USART1 0x52001000u
#define CYCLES WORD(0xE0001004u)
uint32_t board_milliseconds(void);
volatile uint32_t odd;
static void work(void) { for (uint32_t k = 0; k < 3000; k++) { if (k % 3 == 1) odd += k; else odd ^= k; } }
int main(void) {
    WORD(0xE000E010u) = 0;
    WORD(0xE000E014u) = 996;
    WORD(0xE000E018u) = 0;
    WORD(0xE000E010u) = 7;
    WORD(USART1 + 0xCu) = 100;
    WORD(USART1) = 0xDu;
    while (!(WORD(USART1 + 0x1Cu) & 32u)) { }
    uint32_t byte = WORD(USART1 + 0x24u), ticks = board_milliseconds(), began = CYCLES;
    work();
    began = CYCLES - began;
    ticks = board_milliseconds() - ticks;
    WORD(0x90000000u) = byte; WORD(0x90000004u) = began; WORD(0x90000008u) = ticks;
    return 0;
}"""


class SlowWire:
    """The other side says nothing for so many looks, and then takes so many seconds for a byte."""

    def __init__(self, silent: int = 0, seconds: float = 0.0) -> None:
        self.silent, self.seconds = silent, seconds

    def receive(self, wait_s: float) -> bytes:
        self.silent -= 1
        if self.silent >= 0:
            return b""
        time.sleep(self.seconds)
        return b"A"

    def send(self, data: bytes) -> None:
        pass


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("clock"), PROGRAM)


def measured(elf: Path, wire: SlowWire) -> tuple[int, ...]:
    """Cycles and ticks."""
    board = VirtualBoard(read_firmware(elf))
    board.peripherals.connect(wire)
    board.run()
    byte, *found = board.memory.read(0x9000_0000, 12).view("<u4").tolist()
    assert byte == ord("A") and min(found) > 10
    return tuple(found)


def test_how_long_the_host_is_silent_does_not_count(elf: Path) -> None:
    found = {measured(elf, SlowWire(silent)) for silent in (0, 1, 2, 3, 5, 6, 7, 50, 51)}
    assert len(found) == 1, found


def test_how_long_the_host_takes_for_a_byte_does_not_count() -> None:
    def arrival(seconds: float) -> int:
        clock = Clock()
        uart = Usart(clock, Terminal(), lambda: (CPU_HZ, CPU_HZ), lambda level: None)
        uart.wire = SlowWire(10, seconds)
        uart.write(0x0C, 100)
        uart.write(0x00, 0xD)
        clock.schedule(CPU_HZ, lambda: None)
        while not uart.read(0x1C) & 1 << 5:
            pass
        return clock.now

    assert arrival(0.0) == arrival(0.002) == arrival(0.009)


def test_how_many_instructions_run_at_a_time_does_not_count(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for slices in SLICES:
        monkeypatch.setattr(core, "_LONGEST", slices)
        found.add(measured(elf, SlowWire(5)))
    assert len(found) == 1, found


def test_a_busy_host_does_not_count(elf: Path) -> None:
    alone = measured(elf, SlowWire(5))
    with busy_host():
        assert {measured(elf, SlowWire(5)) for _ in range(3)} == {alone}


def test_what_is_counted_is_what_was_executed(tmp_path: Path) -> None:
    """Forty instructions between two looks at the counter, one of which is the second look."""
    text = 'int main(void) { uint32_t a = WORD(0xE0001004u); __asm volatile(".rept 39\\n nop\\n .endr" ::: "memory"); '
    text += 'uint32_t b = WORD(0xE0001004u); board_print_number(b - a); board_print("\\n"); return 0; }'
    board = VirtualBoard(read_firmware(build(tmp_path, text)))
    board.run()
    assert board.serial.lines == ["40"]


def test_a_firmware_without_a_tick_that_waits_for_its_host_is_left_by_the_clock(tmp_path: Path) -> None:
    """Few looks at the UART take a second of the board: it is not asked for thousands of them before it is left."""
    text = "int main(void) { WORD(0xE000E010u) = 0; WORD(0x5200100Cu) = 100; WORD(0x52001000u) = 0xD; "
    text += "while (!(WORD(0x5200101Cu) & 0x20u)) { } return 0; }"
    board, wire = VirtualBoard(read_firmware(build(tmp_path, text))), SlowWire(1 << 30)
    board.peripherals.connect(wire)
    assert board.go_on(1 << 30) is None
    assert (1 << 30) - wire.silent < 100
