"""The resource isolation of the chip (RIF): who may reach which memory, and the note of those who tried.

A master has a compartment and is secure and privileged or not (RIFSC); a memory has a filter in front of it (RISAF)
with regions. Where no region is enabled only secure privileged accesses of compartment 1 pass; inside regions one that
allows the access is enough (ST's applications lay a region for secure accesses over one for others). A refused read
gives zeros, a refused write is lost, and the filter and the illegal access controller (IAC) keep a flag of it.

Not certain: that regions which overlap add up (it follows from how ST's applications set them), whether the error
address is the bus address or an offset, and on which master the epoch controller reads (0 here). Subregions are not
modelled, and the CPU's own accesses are never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.peripherals import WordRegisters
from atonc.machine.emu.bus import canonical

# where the filters stand: the memory that each protects begins here, addresses in its registers count from there
RISAF_BASES = {2: 0x3406_4000, 3: 0x3410_0000, 4: 0, 5: 0, 6: 0, 7: 0x3400_0000, 8: 0x343C_0000, 9: 0x3440_0000,
               11: 0x9000_0000, 12: 0x7000_0000, 13: 0x8000_0000}  # fmt: skip
IAC_NPU = 106  # its registers, in RIFSC and IAC
IAC_INTERRUPT = 13


def iac_index(risaf: int) -> int:
    return 138 + risaf if risaf < 21 else 133 + risaf


@dataclass(frozen=True)
class BusAccess:
    compartment: int
    secure: bool
    privileged: bool
    writes: bool


@dataclass(frozen=True)
class RifRegion:
    start: int
    end: int  # one past the last
    config: int
    compartments: int

    def allows(self, access: BusAccess) -> bool:
        """Secure regions are for secure accesses, others for accesses that are not."""
        number = access.compartment + (16 if access.writes else 0)
        privileged_only = self.config >> 16 + access.compartment & 1
        return (
            bool(self.compartments >> number & 1)
            and bool(self.config >> 8 & 1) == access.secure
            and (access.privileged or not privileged_only)
        )


_IASR, _IACR, _IAESR, _IADDR, _REGIONS, _REGION_BYTES, _REGION_COUNT = 0x08, 0x0C, 0x20, 0x24, 0x40, 0x40, 15
_START, _END, _COMPARTMENTS = 0x04, 0x08, 0x0C
_ILLEGAL = 1 << 1


class Risaf(WordRegisters):
    """The filter in front of one memory."""

    def __init__(self, number: int, note: Callable[[int], None]) -> None:
        super().__init__()
        self.number, self._base, self._note = number, RISAF_BASES.get(number, 0), note

    def write(self, offset: int, value: int) -> None:
        if offset == _IACR:
            self.words[_IASR] = self.words.get(_IASR, 0) & ~value
        elif offset not in (_IASR, _IAESR, _IADDR):
            super().write(offset, value)

    def regions(self) -> Iterator[RifRegion]:
        for place in range(_REGIONS, _REGIONS + _REGION_COUNT * _REGION_BYTES, _REGION_BYTES):
            config = self.words.get(place, 0)
            if config & 1:
                start, end, allowed = (self.words.get(place + k, 0) for k in (_START, _END, _COMPARTMENTS))
                yield RifRegion(self._address(start), self._address(end) + 1, config, allowed)

    def _address(self, word: int) -> int:
        return self._base + word if self._base else canonical(word)

    def refused(self, access: BusAccess, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of an address range that are closed to the access; noted if there are any."""
        regions = list(self.regions())
        inside = {edge for region in regions for edge in (region.start, region.end) if start < edge < end}
        edges = sorted({start, end} | inside)
        closed = [part for part in pairwise(edges) if not self._allowed(access, part[0], regions)]
        if closed:
            self._refuse(access, closed[0][0])
        return closed

    @staticmethod
    def _allowed(access: BusAccess, address: int, regions: list[RifRegion]) -> bool:
        covering = [region for region in regions if region.start <= address < region.end]
        if covering:
            return any(region.allows(access) for region in covering)
        return access.secure and access.privileged and access.compartment == 1

    def _refuse(self, access: BusAccess, address: int) -> None:
        if not self.words.get(_IASR, 0) & _ILLEGAL:  # the first one stays until it is acknowledged
            kind = access.privileged << 4 | access.secure << 5 | access.writes << 7
            self.words[_IAESR], self.words[_IADDR] = access.compartment | kind, address
        self.words[_IASR] = self.words.get(_IASR, 0) | _ILLEGAL
        self._note(iac_index(self.number))


_RIMC_NPU, _SECURE_SLAVES, _NPU_BIT = 0xC14, 0x10 + 4 * (IAC_NPU // 32), 1 << IAC_NPU % 32


class Rifsc(WordRegisters):
    """Attributes of masters and of peripherals' registers; those of the NPU count here."""

    def npu(self, writes: bool) -> BusAccess:
        """How the NPU appears on the bus. It can be secure only if its registers are."""
        word = self.words.get(_RIMC_NPU, 0)
        return BusAccess(word >> 4 & 7, bool(word >> 8 & 1) and self.npu_is_secure, bool(word >> 9 & 1), writes)

    @property
    def npu_is_secure(self) -> bool:
        return bool(self.words.get(_SECURE_SLAVES, 0) & _NPU_BIT)


_IER, _ISR, _ICR, _IAC_WORDS = 0x00, 0x80, 0x100, 5


class IllegalAccesses(WordRegisters):
    """IAC: a flag for each resource on which an access was refused. Flags are kept whether their interrupt is on."""

    def __init__(self, set_line: Callable[[bool], None]) -> None:
        super().__init__()
        self._set_line = set_line

    def note(self, index: int) -> None:
        place = _ISR + 4 * (index // 32)
        self.words[place] = self.words.get(place, 0) | 1 << index % 32
        self._update()

    def write(self, offset: int, value: int) -> None:
        if _ICR <= offset < _ICR + 4 * _IAC_WORDS:
            place = _ISR + offset - _ICR
            self.words[place] = self.words.get(place, 0) & ~value
        elif not _ISR <= offset < _ISR + 4 * _IAC_WORDS:
            super().write(offset, value)
        self._update()

    def _update(self) -> None:
        words = self.words
        self._set_line(any(words.get(_ISR + k, 0) & words.get(_IER + k, 0) for k in range(0, 4 * _IAC_WORDS, 4)))
