"""NVIC and system control: which exception comes next, and the core's own registers."""

from __future__ import annotations

from atonc.machine.emu.board.clock import Clock
from atonc.machine.emu.board.cycle_counters import PMU_CTRL, CycleCounters
from atonc.machine.emu.board.data_cache import DataCache

HARD_FAULT, SVCALL, PENDSV, SYSTICK, FIRST_IRQ = 3, 11, 14, 15, 16
IRQS = 256
THREAD_PRIORITY = 0x100  # lower than every interrupt

_ISER, _ICER, _ISPR, _ICPR, _IABR, _IPR = 0xE100, 0xE180, 0xE200, 0xE280, 0xE300, 0xE400
_SYST_CSR, _SYST_RVR, _SYST_CVR = 0xE010, 0xE014, 0xE018
_CPUID, _ICSR, _VTOR, _AIRCR = 0xED00, 0xED04, 0xED08, 0xED0C
_SHPR = 0xED18
_STIR = 0xEF00
_CACHE_FIRST, _CACHE_LAST = 0xEF50, 0xEF78  # cache maintenance
CORTEX_M55 = 0x411F_D221  # what relocatable images ask for; the core itself has less, and `blocks` the rest


class Nvic:
    """Pending, enabled and active exceptions by number; priorities as the 4 bits of this chip."""

    def __init__(self) -> None:
        self.pending: set[int] = set()
        self.enabled: set[int] = {HARD_FAULT, SVCALL, PENDSV, SYSTICK}
        self.levels: set[int] = set()  # lines that stay up: they pend again when the handler returns
        self.priorities: dict[int, int] = {}
        self.active: list[int] = []
        self.event = False  # WFE falls through once

    def priority(self, number: int) -> int:
        return -1 if number == HARD_FAULT else self.priorities.get(number, 0)

    @property
    def current(self) -> int:
        return min((self.priority(number) for number in self.active), default=THREAD_PRIORITY)

    def set_line(self, irq: int, level: bool) -> None:
        number = FIRST_IRQ + irq
        if level and number not in self.levels:
            self.pending.add(number)
            self.event = True
        (self.levels.add if level else self.levels.discard)(number)

    def waiting(self) -> int | None:
        """The most urgent enabled exception that may preempt what runs; masks apart."""
        ready = [n for n in self.pending if n in self.enabled and self.priority(n) < self.current]
        return min(ready, key=lambda n: (self.priority(n), n), default=None)

    def enter(self, number: int) -> None:
        self.pending.discard(number)
        self.active.append(number)

    def leave(self) -> int:
        number = self.active.pop()
        if number in self.levels:
            self.pending.add(number)
        self.event = True  # returning from a handler wakes WFE
        return number


class SystemControl:
    """The private peripheral bus: NVIC, SCB, SysTick and the cycle counters; other words keep what is written."""

    def __init__(self, nvic: Nvic, clock: Clock) -> None:
        self.nvic, self.clock = nvic, clock
        self.words: dict[int, int] = {}
        self.cache: DataCache | None = None
        self._systick_start = 0
        self._counters = CycleCounters(clock)

    @property
    def vector_table(self) -> int:
        return self.words.get(_VTOR, 0)

    def read(self, offset: int, size: int) -> int:
        word = self._read_word(offset & ~3)
        return word >> 8 * (offset & 3) & ((1 << 8 * size) - 1)

    def write(self, offset: int, size: int, value: int) -> None:
        if size < 4:
            shift, mask = 8 * (offset & 3), (1 << 8 * size) - 1
            value = self._read_word(offset & ~3) & ~(mask << shift) | (value & mask) << shift
        self._write_word(offset & ~3, value)

    # --------------------------------------------------------------------------------------------------------- reading

    def _read_word(self, offset: int) -> int:
        nvic = self.nvic
        if offset in CycleCounters.OFFSETS:
            return self._counters.read(offset)
        if offset == _SYST_CVR:
            reload = self.words.get(_SYST_RVR, 0)
            return reload - (self.clock.now - self._systick_start) % (reload + 1)
        if offset == _SYST_CSR:
            return self._read_systick()
        if offset == _CPUID:
            return CORTEX_M55
        if offset == _ICSR:
            return (nvic.active[-1] if nvic.active else 0) | (SYSTICK in nvic.pending) << 26 | bool(nvic.pending) << 22
        if _ISER <= offset < _IPR:
            group = offset & ~0x7F if offset < _IABR else _IABR
            members = {_ISER: nvic.enabled, _ICER: nvic.enabled, _ISPR: nvic.pending, _ICPR: nvic.pending}
            return _bits(members.get(group, set(nvic.active)), offset - group)
        if _IPR <= offset < _IPR + IRQS:
            return self._priority_word(FIRST_IRQ + offset - _IPR)
        if _SHPR <= offset < _SHPR + 12:
            return self._priority_word(4 + offset - _SHPR)
        return self.words.get(offset, 0)

    def _priority_word(self, first: int) -> int:
        return sum(self.nvic.priorities.get(first + k, 0) << 8 * k for k in range(4))

    def _read_systick(self) -> int:
        """COUNTFLAG tells that the counter passed zero since the last look."""
        control, reload = self.words.get(_SYST_CSR, 0), self.words.get(_SYST_RVR, 0)
        periods = (self.clock.now - self._systick_start) // (reload + 1)
        if control & 1 and periods:
            self._systick_start += periods * (reload + 1)
            return control | 1 << 16
        return control

    # --------------------------------------------------------------------------------------------------------- writing

    def _write_word(self, offset: int, value: int) -> None:
        nvic = self.nvic
        if offset in CycleCounters.OFFSETS:
            self._counters.write(offset, value)
        elif offset == PMU_CTRL:
            self.words[offset] = self._counters.control(value)
        elif offset in (_SYST_CSR, _SYST_CVR):
            self._write_systick(offset, value)
        elif offset == _ICSR:
            self._write_icsr(value)
        elif offset == _STIR:
            nvic.pending.add(FIRST_IRQ + (value & 0x1FF))
        elif _CACHE_FIRST <= offset <= _CACHE_LAST:
            if self.cache is not None:
                self.cache.command(offset, value)
        elif _ISER <= offset < _IABR:
            self._write_sets(offset, value)
        elif _IPR <= offset < _IPR + IRQS:
            self._write_priorities(FIRST_IRQ + offset - _IPR, value)
        elif _SHPR <= offset < _SHPR + 12:
            self._write_priorities(4 + offset - _SHPR, value)
        else:
            self.words[offset] = value

    def _write_sets(self, offset: int, value: int) -> None:
        nvic, group = self.nvic, offset & ~0x7F
        first = FIRST_IRQ + 8 * (offset - group)
        numbers = {first + bit for bit in range(32) if value >> bit & 1}
        if group == _ISER:
            nvic.enabled |= numbers
        elif group == _ICER:
            nvic.enabled -= numbers
        elif group == _ISPR:
            nvic.pending |= numbers
        else:
            nvic.pending -= numbers - nvic.levels

    def _write_priorities(self, first: int, value: int) -> None:
        for k in range(4):
            self.nvic.priorities[first + k] = value >> 8 * k & 0xF0

    def _write_icsr(self, value: int) -> None:
        for bit, number in ((28, PENDSV), (26, SYSTICK)):
            if value >> bit & 1:
                self.nvic.pending.add(number)
            if value >> bit - 1 & 1:
                self.nvic.pending.discard(number)

    def _write_systick(self, offset: int, value: int) -> None:
        was = self.words.get(_SYST_CSR, 0)
        self._systick_start = self.clock.now if offset == _SYST_CVR or not was & 1 else self._systick_start
        if offset == _SYST_CSR:
            self.words[offset] = value & 7
            if value & 3 == 3 and was & 3 != 3:
                self._plan_tick()

    def _plan_tick(self) -> None:
        self.clock.schedule(self.words.get(_SYST_RVR, 0) + 1, self._tick)

    def _tick(self) -> None:
        if self.words.get(_SYST_CSR, 0) & 3 == 3:
            self.nvic.pending.add(SYSTICK)
            self._plan_tick()


def _bits(numbers: set[int], byte_offset: int) -> int:
    first = FIRST_IRQ + 8 * byte_offset
    return sum(1 << bit for bit in range(32) if first + bit in numbers)
