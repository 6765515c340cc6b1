"""What surrounds the core: time, the memories as it sees them, its data cache, exceptions and its own registers."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import field

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import Bytes, canonical

Action = Callable[[], None]


class Clock:
    """Time on the board: one counter in CPU cycles, and what happens later.

    One instruction is one cycle; waiting for the NPU lets the counter jump to the moment when something happens.
    Nothing else moves it: not how many instructions are executed at a time, and not the host's own clock."""

    def __init__(self) -> None:
        self.begun: Callable[[], int] = lambda: 0  # instructions of the slice that runs
        self.waited = 0  # cycles in which the CPU slept or polled
        self.held = False  # a debugger looks: nobody waits for anything, and nothing moves
        self._passed = 0  # cycles, without those of the slice that runs
        self._order = 0
        self._queue: list[tuple[int, int, Action]] = []

    @property
    def now(self) -> int:
        return self._passed + self.begun()

    def executed(self, instructions: int) -> None:
        """Counts the instructions of a slice that is over."""
        self._passed += instructions

    def schedule(self, delay: int, action: Action) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now + max(0, delay), self._order, action))

    @property
    def next_event(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def run_due(self) -> None:
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()

    def advance(self, until: int) -> None:
        """The CPU waits until then; what is due by then happens."""
        if self.held:
            return
        ahead = max(0, until - self.now)
        self._passed += ahead
        self.waited += ahead
        self.run_due()

    def jump(self) -> bool:
        """Jumps to the next event; False when nothing is planned."""
        if not self._queue:
            return False
        self.advance(self._queue[0][0])
        return True


_MASK = 0xFFFF_FFFF
DWT_CYCCNT, PMU_CCNTR, PMU_CTRL = 0x1004, 0x307C, 0x3E04
_PMU_RESETS = 1 << 1 | 1 << 2  # of the event counters, of the cycle counter: read as zero


class CycleCounters:
    """DWT, and the PMU that newer firmware takes instead, by offset on the private bus."""

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


LINE = 32
_CHUNK = 1 << 16
INVALIDATE, CLEAN, CLEAN_INVALIDATE = 0xEF5C, 0xEF68, 0xEF70  # by address, offsets in the system control space
_ALL = {0xEF60: INVALIDATE, 0xEF6C: CLEAN, 0xEF74: CLEAN_INVALIDATE}  # by set and way


@dataclass(frozen=True)
class CachedMemory:
    base: int
    memory: Bytes  # what other masters see
    cpu: Bytes  # what the processor sees
    clean: Bytes  # what it saw when the line was last in step
    written: set[int] = field(default_factory=set)  # lines that it wrote, whatever the value

    @property
    def end(self) -> int:
        return self.base + self.memory.size


class DataCache:
    """The processor's data cache, as unkind as a cache may be: every line is always in it, what is not cleaned never
    reaches memory in time, what is not invalidated is never read again, and dirty lines are written back at the worst
    moment.

    CPU and NPU each have their own bytes; maintenance by address (or of everything) is what copies lines between them.
    So a firmware that forgets a call computes something else here, as it may on a board.
    """

    def __init__(self) -> None:
        self.parts: list[CachedMemory] = []
        self.operations = 0

    def add(self, base: int, memory: Bytes) -> Bytes:
        """The processor's own bytes of a memory that holds zeros (copies would occupy all of it)."""
        part = CachedMemory(base, memory, np.zeros_like(memory), np.zeros_like(memory))
        self.parts.append(part)
        return part.cpu

    def command(self, offset: int, value: int) -> None:
        """A write to a maintenance register."""
        if offset in _ALL:
            for part in self.parts:
                self._apply(_ALL[offset], part, 0, part.memory.size)
        elif offset in (INVALIDATE, CLEAN, CLEAN_INVALIDATE):
            self.operations += 1
            address = canonical(value) & ~(LINE - 1)
            for part in self.parts:
                if part.base <= address < part.end:
                    self._apply(offset, part, address - part.base, LINE)

    def wrote(self, address: int, size_bytes: int) -> None:
        """The processor has written; where nobody says so, a line is dirty when its bytes have changed."""
        address = canonical(address)
        for part in self.parts:
            if part.base <= address < part.end:
                first, last = ((address - part.base + offset) // LINE for offset in (0, size_bytes - 1))
                part.written.add(first)
                part.written.add(last)

    def in_step(self, address: int, size_bytes: int) -> None:
        """The host has put bytes into memory: an application would have told the cache. Its neighbours stay."""
        address = canonical(address)
        for part in self.parts:
            if part.base <= address < part.end:
                self._fetch(part, address - part.base, size_bytes)

    def evict(self) -> None:
        """Writes back what is dirty, as a cache may do at any time: after the NPU has written, for instance."""
        for part in self.parts:
            for start in range(0, part.memory.size, _CHUNK):
                size = min(_CHUNK, part.memory.size - start)
                cpu, clean = (side[start : start + size].view("<u8") for side in (part.cpu, part.clean))
                same = np.array_equal(cpu, clean)
                if not same or any(start <= line * LINE < start + size for line in part.written):
                    self._write_back(part, start, size)

    def _apply(self, operation: int, part: CachedMemory, start: int, size: int) -> None:
        if operation != INVALIDATE:
            self._write_back(part, start, size)
        if operation != CLEAN:
            self._fetch(part, start, size)
            part.written.difference_update(range(start // LINE, (start + size) // LINE))

    @staticmethod
    def _write_back(part: CachedMemory, start: int, size: int) -> None:
        """Whole lines: bytes that others changed in a dirty line are lost."""
        first, count = start // LINE, size // LINE
        cut = slice(start, start + size)
        cpu, clean, memory = (side[cut].reshape(-1, LINE) for side in (part.cpu, part.clean, part.memory))
        dirty = (cpu.view("<u8") != clean.view("<u8")).any(axis=1)
        dirty[[line - first for line in part.written if first <= line < first + count]] = True
        memory[dirty] = clean[dirty] = cpu[dirty]
        part.written.difference_update(range(first, first + count))

    @staticmethod
    def _fetch(part: CachedMemory, start: int, size: int) -> None:
        cut = slice(start, start + size)
        part.cpu[cut] = part.clean[cut] = part.memory[cut]


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


@dataclass(frozen=True)
class MemoryWindow:
    start: int
    data: Bytes

    @property
    def end(self) -> int:
        return self.start + self.data.size


class CpuMemory:
    """The memories as the processor sees them: arrays at addresses, aliases included, devices not. Written here, memory
    changes behind unicorn's back: who writes where code may lie has to tell it."""

    def __init__(self) -> None:
        self.windows: list[MemoryWindow] = []
        self.absent: list[tuple[int, int, str]] = []  # of a strict chip: zeros, writes are lost; or why it faults
        self._last: MemoryWindow | None = None

    def add(self, start: int, data: Bytes) -> None:
        self.windows.append(MemoryWindow(start, data))

    def find(self, address: int) -> MemoryWindow | None:
        last = self._last
        if last is not None and last.start <= address < last.end:
            return last
        self._last = next((w for w in self.windows if w.start <= address < w.end), None)
        return self._last

    def view(self, address: int, size_bytes: int) -> Bytes:
        window = self.find(address)
        if window is None or address + size_bytes > window.end:
            raise InputError(f"access to {size_bytes} bytes at {address:#010x}, where no memory is")
        offset = address - window.start
        for start, end, why in self.absent:
            if start < address + size_bytes and address < end:
                if why:
                    raise InputError(f"access to {size_bytes} bytes at {address:#010x}, {why}")
                return np.zeros(size_bytes, np.uint8)
        return window.data[offset : offset + size_bytes]

    def code(self, address: int, size_bytes: int) -> bytes:
        """Up to so many bytes, fewer at the end of a memory; none where there is none."""
        window = self.find(address)
        if window is None:
            return b""
        offset = address - window.start
        return window.data[offset : offset + size_bytes].tobytes()
