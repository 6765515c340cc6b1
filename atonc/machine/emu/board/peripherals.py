"""The peripherals of the board: which model stands at which address."""

from __future__ import annotations

from functools import partial

from atonc.machine.emu.board import clocks, gpio, security, timers
from atonc.machine.emu.board.accesses import Accesses
from atonc.machine.emu.board.clock import Clock
from atonc.machine.emu.board.clocks import ClockRegisters
from atonc.machine.emu.board.devices import Devices, WordRegisters
from atonc.machine.emu.board.fuses import Fuses
from atonc.machine.emu.board.interrupts import Nvic
from atonc.machine.emu.board.npu_cache import NpuCache
from atonc.machine.emu.board.power import PowerRegisters
from atonc.machine.emu.board.terminal import Terminal
from atonc.machine.emu.board.timers import Timer
from atonc.machine.emu.board.usart import UartWire, Usart
from atonc.machine.emu.board.xspi import Xspi

_UARTS = {"USART1": 159, "USART2": 160, "USART3": 161, "UART4": 162, "UART5": 163, "USART6": 164, "UART7": 165,
          "UART8": 166, "UART9": 167, "USART10": 168}  # fmt: skip
_IDCODE = {0: 0x1000_6486}  # DBGMCU: an STM32N6
_PAGE = 0x1000
_DEFAULT_CPU_HZ = 800_000_000


class Peripherals:
    """`clocks` as registers of RCC is what a first-stage loader has left."""

    def __init__(
        self, clock: Clock, nvic: Nvic, terminal: Terminal, accesses: Accesses, preset: dict[int, int] | None = None
    ) -> None:
        self.devices = Devices(accesses)
        self.clocks = ClockRegisters(preset)
        self.uarts: dict[str, Usart] = {}
        add = self.devices.add
        add("RCC", self.clocks, clocks.SIZE_BYTES)
        add("PWR", PowerRegisters())
        add("BSEC", Fuses(), _PAGE)
        add("CACHEAXI", NpuCache())
        add("DBGMCU", WordRegisters(_IDCODE))
        for port in gpio.PORTS:
            add(f"GPIO{port}", gpio.Gpio())
        for name in security.NAMES:
            add(name, security.Firewall(), security.SIZE_BYTES)
        for number in (1, 2, 3):
            add(f"XSPI{number}", Xspi())
        for name, irq in _UARTS.items():
            self.uarts[name] = Usart(clock, terminal, self._uart_hz, partial(nvic.set_line, irq))
            add(name, self.uarts[name])
        for name, irq in timers.INTERRUPTS.items():
            add(name, Timer(clock, self._timer_hz, partial(nvic.set_line, irq)))

    def connect(self, wire: UartWire, uart: str = "USART1") -> None:
        self.uarts[uart].wire = wire

    def _cpu_hz(self) -> int:
        return self.clocks.cpu_hz or _DEFAULT_CPU_HZ

    def _uart_hz(self) -> tuple[int, int]:
        return self._cpu_hz(), self.clocks.usart1_hz or clocks.HSI_HZ

    def _timer_hz(self) -> tuple[int, int]:
        return self._cpu_hz(), self.clocks.bus_hz or clocks.HSI_HZ
