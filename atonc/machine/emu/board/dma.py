"""HPDMA1: a channel that software starts copies a block from one address to another, then the blocks of its list.

How fast the chip's DMA is has not been measured. Here it moves what the slower of the two memories gives, and shares
the flash with the NPU as the price of copies says (`hw.dma`): while an epoch runs, copies from outside the chip get the
time that the epoch leaves, then every second turn. A list is read link by link, as each block ends; requests of
peripherals, repeated blocks and rights (RIF) are not modelled. From the start of a channel to the moment at which
software has seen its end, engines of the NPU may not touch what it writes to, nor write to what it reads: that they
would not in the time of this model proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.board.peripherals import WordRegisters
from atonc.machine.emu.board.system import Clock
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.dma import refuse_races
from atonc.machine.hw.cycles.hardware import EpochCycles
from atonc.machine.hw.dma import DmaCopy, Occupied, list_cycles, shared
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine

BYTES = 0x1000
_FIRST, _STRIDE, _CHANNELS = 0x50, 0x80, 16
_LBAR, _FCR, _SR, _CR, _TR2, _BR1, _SAR, _DAR, _LLR = 0x00, 0x0C, 0x10, 0x14, 0x44, 0x48, 0x4C, 0x50, 0x7C
_LINKED = ((31, 0x40), (30, _TR2), (29, _BR1), (28, _SAR), (27, _DAR), (26, 0x54), (25, 0x58), (16, _LLR))
_ON, _RESET, _BY_SOFTWARE, _SIZE, _REPEATED = 1, 2, 1 << 9, 0xFFFF, 0x7FF << 16
_IDLE, _ENDED, _DATA_ERROR, _LINK_ERROR = 1, 1 << 8, 1 << 10, 1 << 11
_AT_THE_END = 3 << 30  # of TR2: a list is complete when all of it is
_BUS_BYTES = 8
_MOST_LINKS = 1 << 12


class Hpdma(WordRegisters):
    def __init__(self, clock: Clock, memory: AddressSpace, machine: Machine, ratio: Callable[[], float]) -> None:
        """The clock counts cycles of the CPU; `ratio`: how many of them a cycle of the NPU takes."""
        super().__init__()
        self._clock, self._memory, self._machine, self._ratio = clock, memory, machine, ratio
        self.under_way: dict[int, list[DmaCopy]] = {}  # by channel: what software has not seen the end of
        self._due = 0  # when copies from outside the chip end, if no other epoch reads there
        self._taken_until = 0  # epochs that are under way have had their turns until then

    def read(self, offset: int) -> int:
        channel = self._channel(offset)
        found = super().read(offset)
        if channel is None or offset != channel + _SR:
            return found
        if found & _ENDED and not self._value(channel, _CR) & _ON:
            self.under_way.pop(channel, None)
        return found if self._value(channel, _CR) & _ON else found | _IDLE

    def write(self, offset: int, value: int) -> None:
        channel = self._channel(offset)
        if channel is not None and offset == channel + _FCR:
            self.words[channel + _SR] = self._value(channel, _SR) & ~value
            return
        if channel is not None and offset == channel + _CR and value & _RESET:
            self.under_way.pop(channel, None)
            self.words[channel + _LLR] = 0
            self._due = self._due if self.under_way else 0
        super().write(offset, value)
        if channel is not None and offset == channel + _CR and value & _ON:
            self._start(channel)

    def check(self, epoch: Epoch) -> None:
        """Refuses an epoch that does not keep away from copies."""
        refuse_races(epoch, [one for listed in self.under_way.values() for one in listed])

    def beside(self, epoch: EpochCycles) -> int:
        """The cycles that copies add to an epoch; they end later by as many."""
        ratio = self._ratio()
        begin = max(self._clock.now, self._taken_until)
        cost = shared(max(0.0, self._due - begin) / ratio, Occupied(epoch.cycles, epoch.detail.get("external", 0.0)))
        self._due += round(cost.added * ratio)
        self._taken_until = begin + round((epoch.cycles + cost.added) * ratio)
        return round(cost.added)

    def _channel(self, offset: int) -> int | None:
        number, _ = divmod(offset - _FIRST, _STRIDE)
        return _FIRST + number * _STRIDE if 0 <= number < _CHANNELS else None

    def _value(self, channel: int, register: int) -> int:
        return self.words.get(channel + register, 0)

    def _start(self, channel: int) -> None:
        if self._value(channel, _TR2) & _BY_SOFTWARE:  # else it waits for a request that nobody makes
            self.under_way[channel] = list(self._blocks(channel))
            outside = [self._cycles(one) for one in self.under_way[channel] if self._is_outside(one.source)]
            self._due = max(self._due, self._clock.now) + sum(outside)
            self._go_on(channel)

    def _blocks(self, channel: int) -> Iterator[DmaCopy]:
        """Lists all that it is going to copy, as its links say now."""
        values = {register: self._value(channel, register) for _, register in _LINKED}
        for _ in range(_MOST_LINKS):
            if size := values[_BR1] & _SIZE:
                yield DmaCopy(values[_SAR], values[_DAR], size)
            if not values[_LLR]:
                return
            try:
                values |= self._link(channel, values[_LLR])
            except InputError:
                return

    def _link(self, channel: int, link: int) -> dict[int, int]:
        """Reads what the next link puts into which registers."""
        names = [register for bit, register in _LINKED if link >> bit & 1]
        address = self._value(channel, _LBAR) & 0xFFFF_0000 | link & 0xFFFC
        return dict(zip(names, self._memory.read(address, 4 * len(names)).view("<u4").tolist(), strict=True))

    def _go_on(self, channel: int) -> None:
        """Begins the block that the registers say, or what follows it."""
        if self._value(channel, _BR1) & _REPEATED:
            raise NotModelledError("HPDMA1 with repeated blocks", rule="blocks of one line are modelled")
        source, target, size = (self._value(channel, register) for register in (_SAR, _DAR, _BR1))
        if size:
            one = DmaCopy(source, target, size)
            self._clock.schedule(self._cycles(one), lambda: self._end(channel, one))
        elif link := self._value(channel, _LLR):
            try:
                found = self._link(channel, link)
            except InputError:
                self._stop(channel, _LINK_ERROR)
                return
            self.words |= {channel + register: value for register, value in found.items()}
            self._clock.schedule(1, lambda: self._go_on(channel) if self._value(channel, _CR) & _ON else None)
        else:
            self._stop(channel, _ENDED)

    def _is_outside(self, address: int) -> bool:
        bank = self._machine.memory_at(address)
        return bank is not None and bank.external

    def _cycles(self, one: DmaCopy) -> int:
        """Counts cycles of the CPU that a block takes where nobody else reads."""
        found = one.size_bytes * max(self._byte_cycles(one.source), self._byte_cycles(one.target))
        if self._is_outside(one.source):
            found = max(found, list_cycles([one], self._machine))
        return round(found * self._ratio())

    def _byte_cycles(self, address: int) -> float:
        """Counts cycles of the NPU."""
        bank = self._machine.memory_at(address)
        if bank is not None and bank.external:
            return self._machine.external_cycles_per_byte(bank)
        return self._machine.clocks.npu_mhz / (self._machine.clocks.noc_mhz * _BUS_BYTES)

    def _end(self, channel: int, one: DmaCopy) -> None:
        """Ends a block; the last one also waits for what epochs have taken of the time."""
        if not self._value(channel, _CR) & _ON:
            return  # it was reset meanwhile
        late = self._due - self._clock.now
        if late > 0 and not self._value(channel, _LLR) and self._is_outside(one.source):
            self._clock.schedule(late, lambda: self._end(channel, one))
            return
        try:
            self._memory.write(one.target, self._memory.read(one.source, one.size_bytes))
        except InputError:
            self._stop(channel, _DATA_ERROR)
            return
        self.words[channel + _BR1] = 0
        if self._value(channel, _TR2) & _AT_THE_END != _AT_THE_END:
            self.words[channel + _SR] = self._value(channel, _SR) | _ENDED
        self._go_on(channel)

    def _stop(self, channel: int, flag: int) -> None:
        self.words[channel + _SR] = self._value(channel, _SR) | flag
        self.words[channel + _CR] &= ~_ON
