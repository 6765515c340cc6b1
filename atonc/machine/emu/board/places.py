"""Where things are on the STM32N6: memories, peripherals and interrupt numbers that the virtual board answers at.

On-chip memories and peripherals have a secure address (bit 28 set) and a non-secure alias; both reach the same bytes.
"""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import regs
from atonc.machine.hw.machine import HYPERRAM, Machine

ALIAS = 0x1000_0000


@dataclass(frozen=True)
class BoardPlace:
    name: str
    base: int  # the secure address where there are two
    size_bytes: int
    cached: bool = False  # by the processor's data cache; what it never writes is left out

    @property
    def on_chip(self) -> bool:
        return self.base >> 28 in (0x1, 0x3, 0x5)


MEMORIES = (
    BoardPlace("ITCM", 0x1000_0000, 0x4_0000),
    BoardPlace("DTCM", 0x3000_0000, 0x4_0000),
    BoardPlace("AXISRAM", 0x3400_0000, 0x40_0000, cached=True),  # AXISRAM1 to 6 and the NPU cache's RAM, side by side
    BoardPlace("VENCRAM", 0x3440_0000, 0x2_0000, cached=True),
    BoardPlace("AHBSRAM", 0x3800_0000, 0x8000),
    BoardPlace("BKPSRAM", 0x3C00_0000, 0x2000),
)
_PAGE = 0x1000  # memories are mapped in such steps


def external(machine: Machine) -> tuple[BoardPlace, ...]:
    """Flash and RAM outside the chip, as the board has them."""
    banks = [bank for bank in machine.memories if bank.external]
    return tuple(BoardPlace(b.name, b.base, -(-b.size_bytes // _PAGE) * _PAGE, b.kind == HYPERRAM) for b in banks)


NPU = BoardPlace("NPU", regs.ATON_BASE_SECURE, 0x2_0000)
# all other peripherals: `devices` knows them one by one
PERIPHERALS = (
    BoardPlace("peripherals", 0x5000_0000, 0x80E_0000),
    BoardPlace("peripherals behind the NPU", 0x5810_0000, 0x10_0000),
)

PRIVATE_BUS = BoardPlace("core", 0xE000_0000, 0x10_0000)  # NVIC, system control, SysTick, DWT

NPU_INTERRUPT = 53  # lines 0 to 3 of the NPU are 53 to 56
