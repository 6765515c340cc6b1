"""The models of the chip's peripherals, register by register, as firmware meets them."""

from __future__ import annotations

import pytest

from atonc.machine.emu.board.peripherals import (
    AFTER_FIRST_STAGE,
    FIREWALLS,
    TIMER_INTERRUPTS,
    Accesses,
    ClockRegisters,
    Fuses,
    Gpio,
    NpuCache,
    Peripherals,
    PowerRegisters,
    Terminal,
    Timer,
    Usart,
    Xspi,
    base_of,
    name_of,
)
from atonc.machine.emu.board.system import DWT_CYCCNT, PMU_CCNTR, Clock, CycleCounters, Nvic

CPU_HZ = 600_000_000
RCC, USART1, GPIOE, SYSCFG = 0x5602_8000, 0x5200_1000, 0x5602_1000, 0x5600_8000


def peripherals(clocks: dict[int, int] | None = None) -> Peripherals:
    return Peripherals(Clock(), Nvic(), Terminal(), Accesses(), clocks)


# ----------------------------------------------------------------------------------------------------- clocks and power


def test_clock_registers_have_forms_that_set_and_clear() -> None:
    clocks = ClockRegisters()
    clocks.write(0x800 + 0x260, 1 << 31)
    clocks.write(0x800 + 0x260, 1 << 3)
    assert clocks.read(0x260) == clocks.read(0x800 + 0x260) == 1 << 31 | 1 << 3
    clocks.write(0x1000 + 0x260, 1 << 31)
    assert clocks.read(0x260) == 1 << 3


def test_what_is_on_is_ready_and_what_is_chosen_is_used() -> None:
    clocks = ClockRegisters()
    assert clocks.read(0x04) == 1 << 3  # the internal oscillator
    clocks.write(0x800, 7 << 8)  # three PLLs
    assert clocks.read(0x04) == 7 << 8 | 1 << 3
    clocks.write(0x20, 0x0203_0000)
    assert clocks.read(0x20) == 0x2233_0000 & 0x3030_0000 | 0x0203_0000


def test_frequencies_after_reset_and_after_a_first_stage() -> None:
    fresh, ready = ClockRegisters(), ClockRegisters(AFTER_FIRST_STAGE)
    assert {fresh.cpu_hz, fresh.bus_hz, fresh.npu_hz, fresh.npu_ram_hz, fresh.usart1_hz} == {64_000_000}
    assert not fresh.configured and ready.configured
    hz = 600_000_000, 400_000_000, 800_000_000, 800_000_000
    assert (ready.cpu_hz, ready.bus_hz, ready.npu_hz, ready.npu_ram_hz) == hz


@pytest.mark.parametrize(("source", "hz"), [(0, 200_000_000), (5, 4_000_000), (6, 64_000_000)])
def test_clock_of_the_uart(source: int, hz: int) -> None:
    assert ClockRegisters(AFTER_FIRST_STAGE | {0x174: source}).usart1_hz == hz


def test_a_bypassed_pll_gives_what_goes_in() -> None:
    assert ClockRegisters(AFTER_FIRST_STAGE | {0x90: 1 << 27 | 2 << 28}).cpu_hz == 48_000_000


def test_the_voltage_that_was_asked_for_is_there() -> None:
    power = PowerRegisters()
    assert power.read(0x20) & 2 and not power.read(0x20) & 1 << 16
    power.write(0x20, 1)
    assert power.read(0x20) == 1 | 2 | 1 << 16 | 1 << 17
    power.write(0x34, 0x1234)
    assert power.read(0x34) == 0x1234


# ------------------------------------------------------------------------------------------------- fuses and firewalls


def test_fuses_are_blown_by_command_only() -> None:
    fuses = Fuses()
    assert fuses.read(4 * 124) == 1 << 15 | 1 << 16  # as boards come
    fuses.write(4 * 7, 0xFF)
    assert fuses.read(4 * 7) == 0
    fuses.write(0xC08, 0x5)
    fuses.write(0xC04, 1 << 13 | 7)
    fuses.write(0xC08, 0x2)
    fuses.write(0xC04, 1 << 13 | 7)
    assert fuses.read(4 * 7) == 0x7  # a fuse never comes back
    fuses.write(0xC04, 7)
    assert fuses.read(4 * 7) == 0x7 and fuses.read(0xE44) == 2


def test_rights_are_kept_and_not_enforced() -> None:
    board = peripherals()
    for name in FIREWALLS:
        base = base_of(name)
        board.devices.write(base + 0x40, 4, 0xA5A5_0001)
        assert board.devices.read(base + 0x40, 4) == 0xA5A5_0001
    assert not board.devices.accesses.unmodelled


# ----------------------------------------------------------------------------------------------------------------- GPIO


def test_pins() -> None:
    port = Gpio()
    port.write(0x00, 1 << 8 | 2 << 10)  # pin 4 is an output, pin 5 another function
    port.write(0x18, 1 << 4 | 1 << 5)
    assert port.read(0x14) == 0x30 and port.read(0x10) == 0x10
    port.write(0x18, 1 << 20)
    assert port.read(0x14) == 0x20
    port.write(0x18, 1 << 21 | 1 << 5)  # set wins
    assert port.read(0x14) == 0x20
    port.write(0x28, 1 << 5)
    assert port.read(0x14) == port.read(0x18) == port.read(0x28) == 0


# ---------------------------------------------------------------------------------------------------------------- USART


class Wire:
    def __init__(self, data: bytes = b"") -> None:
        self.data, self.sent = data, b""

    def receive(self, wait_s: float) -> bytes:
        data, self.data = self.data, b""
        return data

    def send(self, data: bytes) -> None:
        self.sent += data


class Uart:
    """A USART at 1 Mbit/s of a clock of 100 MHz: a byte takes 6000 cycles of the CPU."""

    BYTE = 6000

    def __init__(self, data: bytes = b"") -> None:
        self.clock, self.text, self.wire, self.line = Clock(), Terminal(), Wire(data), False
        self.usart = Usart(self.clock, self.text, lambda: (CPU_HZ, 100_000_000), self._level)
        self.usart.wire = self.wire
        self.usart.write(0x0C, 100)
        self.usart.write(0x00, 1 | 1 << 2 | 1 << 3)

    def _level(self, level: bool) -> None:
        self.line = level

    def status(self, bit: int) -> bool:
        return bool(self.usart.read(0x1C) >> bit & 1)


def test_a_byte_out_takes_its_time() -> None:
    uart = Uart()
    assert uart.usart.read(0x1C) == 1 << 6 | 1 << 7 | 1 << 21 | 1 << 22
    for byte in b"ok\n":
        uart.usart.write(0x28, byte)
    assert uart.clock.now == 0
    assert uart.status(6) and uart.clock.now == 3 * Uart.BYTE  # who polls waits
    uart.usart.flush()
    assert uart.wire.sent == b"ok\n" and uart.text.lines == ["ok"] and uart.usart.sent == 3


def test_bytes_in_come_one_after_the_other() -> None:
    uart = Uart(b"\x01\x02")
    assert uart.status(5) and uart.clock.now == Uart.BYTE
    assert uart.usart.read(0x24) == 1 and uart.usart.read(0x24) == 1  # the next one is not there yet
    assert uart.status(5) and uart.clock.now == 2 * Uart.BYTE
    assert uart.usart.read(0x24) == 2 and uart.usart.received == 2
    assert not uart.status(5)


def test_answers_are_no_text() -> None:
    uart = Uart(b"?")
    uart.usart.write(0x28, ord("A"))
    assert uart.status(5) and uart.usart.read(0x24) == ord("?")
    uart.usart.write(0x28, 0xAA)
    assert uart.text.text == "A"


def test_waiting_for_the_other_side_lets_time_pass() -> None:
    uart = Uart()
    for _ in range(3):
        assert not uart.status(5)
    assert uart.clock.now == 0
    assert not uart.status(5) and uart.clock.now > 0


def test_a_receiver_that_is_off_hears_nothing_and_a_request_empties_it() -> None:
    uart = Uart(b"abc")
    uart.usart.write(0x00, 1 | 1 << 3)
    assert not uart.status(5) and uart.wire.data == b"abc"
    uart.usart.write(0x00, 1 | 1 << 2)
    assert uart.status(5)
    uart.usart.write(0x18, 1 << 3)
    assert not uart.status(5)


def test_interrupt_of_a_byte_that_has_come() -> None:
    uart = Uart(b"x")
    uart.usart.write(0x00, 1 | 1 << 2 | 1 << 5)
    assert not uart.line
    uart.usart.poll()
    uart.clock.advance(Uart.BYTE)
    uart.usart.poll()
    assert uart.line
    uart.usart.read(0x24)
    assert not uart.line


# --------------------------------------------------------------------------------------------------------------- timers


class Counting:
    """A timer of 200 MHz beside a CPU of 600 MHz: one step is three cycles."""

    def __init__(self) -> None:
        self.clock, self.levels = Clock(), [False]
        self.timer = Timer(self.clock, lambda: (CPU_HZ, 200_000_000), self.levels.append)


def test_counter_with_prescaler() -> None:
    made = Counting()
    made.timer.write(0x28, 9)
    made.clock.advance(999)
    assert made.timer.read(0x24) == 0
    made.timer.write(0x00, 1)
    made.clock.advance(999 + 30 * 7)
    assert made.timer.read(0x24) == 7
    made.timer.write(0x00, 0)
    made.clock.advance(10_000)
    assert made.timer.read(0x24) == 7
    made.timer.write(0x24, 100)
    assert made.timer.read(0x24) == 100


def test_overflow_tells_and_goes_on() -> None:
    made = Counting()
    made.timer.write(0x2C, 99)
    made.timer.write(0x0C, 1)
    made.timer.write(0x00, 1)
    made.clock.advance(299)
    assert not made.levels[-1]
    made.clock.advance(300)
    assert made.levels[-1] and made.timer.read(0x10) == 1
    made.timer.write(0x10, 0)
    assert not made.levels[-1]
    made.clock.advance(600)
    assert made.levels[-1]


def test_one_pulse_ends_and_changes_void_what_was_planned() -> None:
    made = Counting()
    made.timer.write(0x2C, 9)
    made.timer.write(0x00, 1 | 1 << 3)
    made.timer.write(0x2C, 19)
    made.clock.advance(30)
    assert made.timer.read(0x10) == 0
    made.clock.advance(60)
    assert made.timer.read(0x10) == 1 and made.timer.read(0x00) == 1 << 3


def test_update_by_software_and_numbers_of_interrupts() -> None:
    made = Counting()
    made.timer.write(0x24, 55)
    made.timer.write(0x14, 1)
    assert made.timer.read(0x24) == 0 and made.timer.read(0x10) == 1
    assert (
        TIMER_INTERRUPTS["TIM2"],
        TIMER_INTERRUPTS["TIM7"],
        TIMER_INTERRUPTS["TIM9"],
        TIMER_INTERRUPTS["TIM18"],
    ) == (116, 121, 126, 135)


# ------------------------------------------------------------------------------------------------- memories and caches


def test_registers_of_a_memory_chip_hold_what_was_written() -> None:
    xspi = Xspi()
    xspi.write(0x48, 0x300)
    xspi.write(0x110, 0x72)
    xspi.write(0x50, 0x02)
    xspi.write(0x00, 1 << 28)  # reading
    xspi.write(0x48, 0x300)
    assert xspi.read(0x50) == 0x02
    xspi.write(0x48, 0x200)
    assert xspi.read(0x50) == 0
    assert xspi.read(0x20) == 0xE and xspi.commands == [0x72]


def test_commands_of_the_npu_cache_are_done_at_once() -> None:
    cache = NpuCache()
    cache.write(0x00, 1 | 1 << 1)
    cache.write(0x100, 1 | 2 << 1)
    assert (cache.read(0x00), cache.read(0x100), cache.read(0x04)) == (1, 4, 1 << 1 | 1 << 4)


def test_cycle_counters() -> None:
    clock = Clock()
    counters = CycleCounters(clock)
    clock.advance(5000)
    assert counters.read(DWT_CYCCNT) == counters.read(PMU_CCNTR) == 5000
    assert counters.control(1 | 1 << 1 | 1 << 2) == 1
    assert counters.read(PMU_CCNTR) == 0 and counters.read(DWT_CYCCNT) == 5000
    counters.write(DWT_CYCCNT, 0xFFFF_FFFF)
    clock.advance(5002)
    assert counters.read(DWT_CYCCNT) == 1


# ------------------------------------------------------------------------------------------------- registers and names


def test_bytes_and_halfwords_of_registers() -> None:
    devices = peripherals().devices
    devices.write(GPIOE + 0x20, 4, 0x1122_3344)
    devices.write(GPIOE + 0x21, 1, 0xAA)
    devices.write(GPIOE + 0x22, 2, 0xBBCC)
    assert devices.read(GPIOE + 0x20, 4) == 0xBBCC_AA44
    assert devices.read(GPIOE + 0x23, 1) == 0xBB and devices.read(GPIOE + 0x20, 2) == 0xAA44


def test_registers_without_a_model_are_kept_and_named() -> None:
    devices = peripherals().devices
    devices.write(SYSCFG + 0x10, 4, 7)
    assert devices.read(SYSCFG + 0x10, 4) == 7 and devices.read(SYSCFG + 0x10, 4) == 7
    devices.read(RCC, 4)
    (line,) = devices.accesses.unmodelled_lines()
    name = name_of(SYSCFG + 0x10)
    assert name.startswith("SYSCFG.") and line == f"{name}: read 2 times, written 1 times, holds 0x00000007"


def test_the_last_accesses_are_told_once_each() -> None:
    devices = peripherals().devices
    for _ in range(5):
        devices.read(USART1 + 0x1C, 4)
    devices.write(RCC + 0x20, 4, 0)
    polled, written = devices.accesses.recent_lines()
    assert polled.startswith("read  USART1.ISR") and polled.endswith("(5 times)")
    assert written == "write RCC.CFGR1 0x00000000"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0x5602_8020, "RCC.CFGR1"),
        (0x4602_8020, "RCC.CFGR1"),  # the non-secure address
        (0x5200_101E, "USART1.ISR"),
        (0x5200_13F0, "USART1+0x3f0"),
        (0x4000_0000, "TIM2.CR1"),
        (0x0000_0010, "0x00000010"),
    ],
)
def test_names(address: int, name: str) -> None:
    assert name_of(address) == name
