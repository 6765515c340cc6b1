"""The core's cycle counters: DWT, and the PMU that newer firmware takes instead."""

from __future__ import annotations

from atonc.machine.emu.board.clock import Clock

_MASK = 0xFFFF_FFFF
DWT_CYCCNT, PMU_CCNTR, PMU_CTRL = 0x1004, 0x307C, 0x3E04
_PMU_RESETS = 1 << 1 | 1 << 2  # of the event counters, of the cycle counter: read as zero


class CycleCounters:
    """Offsets on the private bus."""

    OFFSETS = (DWT_CYCCNT, PMU_CCNTR)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = dict.fromkeys(self.OFFSETS, 0)

    def read(self, offset: int) -> int:
        return self._clock.now - self._start[offset] & _MASK

    def write(self, offset: int, value: int) -> None:
        self._start[offset] = self._clock.now - value

    def control(self, value: int) -> int:
        """A write to the PMU's control register; what stays in it."""
        if value & 1 << 2:
            self.write(PMU_CCNTR, 0)
        return value & ~_PMU_RESETS
