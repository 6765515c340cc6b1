"""How many units there are, how much they hold and where engines may start: each number once, with its evidence.

Safety rules, lowering, placement and the cycle models all read these. "Seen" means: in the 114 published networks that
the safety rules rest on (hw/links.py); `docs/silicon.md` says more about single features. Sizes of registers and
memories inside a unit stand in its own file in hw/units.
"""

from __future__ import annotations

from typing import NamedTuple

from atonc.machine.hw.machine import stm32n6

UNITS = stm32n6().units  # how many of each kind; ST's machine description of the chip says the same
INTERFACES = tuple(stm32n6().engine_ports.values())  # engines of each interface to the bus, by their numbers
MAX_CHAIN = UNITS["CONVACC"]  # one after the other: chains of all of them were seen
MOST_READERS, MOST_WRITERS = 8, 5  # engines of one epoch, in 9,526 epochs
MOST_PASSES = 128  # frames that a gate drops before it keeps one: 1..127 were seen, of 8 bits

# --- memory
BUS_BYTES = 8  # the bus moves so many at a time; 10,739 of 10,830 pairs of writers do not meet in such a word
READ_ALIGNMENT = 8  # of addresses where engines start outside the NPU's own RAM: 1,102 engines in cpuRAM and hyperRAM
WRITE_ALIGNMENT = 16  # the same engines
FLASH_ALIGNMENT = 16  # 7,017 readers
ALIGNED = max(READ_ALIGNMENT, WRITE_ALIGNMENT, FLASH_ALIGNMENT)  # every memory takes such an address
WIDE_ALIGNMENT = 8  # elements of 16 bits: their engines begin at multiples of 16 bytes in every published program
CPU_CACHE_LINE = 32  # of the Cortex-M55: maintenance must not touch a neighbour
NPU_CACHE_LINE = 64  # blobs fill whole ones
PREFETCH_BYTES = 64  # engines may read that far behind the last byte: LIMITADDR leaves it free on 45,820 of 46,259
XSPI_TAIL = 32  # bytes at the end of a memory-mapped device that must not be touched: erratum of the controller
MOST_RASTER_FRAMES = 41_472  # of an engine that walks a raster

# --- CONVACC
PRODUCTS = (18, 72, 36, 72)  # multiplications a cycle by SIMD mode 16x16, 8x8, 16x8, and one that nobody uses
# The first two are ST's figures. Published units with 8x8 take exactly 72 with 3x3 and deep 1x1, none takes more; with
# 16x8 exactly 36, but for stationary features, whose epochs were priced too low in the networks that were measured.
# --- sums of CONVACC
RING_LENGTHS = (1, MAX_CHAIN)  # units whose sums return through the switch
SYNC_BELOW = 768  # elements: shorter frames of sums always wait for their writer, 422 readers
SYNC_UP_TO = 1600  # longer ones never do, 548 readers; in between both occur, 304 of 362 wait
LEAST_READ_BACK = 40  # elements of a frame of sums that returns through memory, 1,332 readers
SUM_LIMIT = (1 << 23) - 1  # of a sum inside and between units: 24 bits on a link; no program shows wider accumulators
PARTIAL_LIMIT = (1 << 15) - 1  # of what goes on with 16 bits, in steps of the shift
MOST_OUT_SHIFT = 12  # bits that a CONVACC cuts off, 11,988 units
LEAST_DEEP = {3: 32, 1: 68}  # FBYTES in deep mode -> channels, 8,700 units of 1 x 1
LEAST_PLAIN = 2  # channels of the others
LEAST_FRAME = 2  # lines and columns under a window; 3 x 1 with stride 2 on one line never ended on a board


class Sizes(NamedTuple):
    """What a CONVACC holds at most: NR, B, NR x B x KW x KH and W x B."""

    kernels: int
    channels: int
    weights: int
    line: int


_LONG_LINE = 33_600  # of kernels with one line, which keep none

DEEP = Sizes(24, 128, 3072, _LONG_LINE)
PLAIN = Sizes(24, 24, 576, _LONG_LINE)  # 1 x 1
DSS2 = Sizes(4, 4, 144, 960)
WINDOWS = {1: Sizes(8, 8, 576, 1920), 2: Sizes(4, 8, 288, 1024)}  # SIMD mode -> of kernels with several lines
LINES = {1: Sizes(8, 16, 576, _LONG_LINE), 2: Sizes(8, 16, 384, _LONG_LINE)}  # of one line with several columns


def convacc_sizes(rows: int, columns: int, simd: int, deep: bool = False, dss2: bool = False) -> Sizes:
    """The most that was seen with such kernels in such a mode, in 11,988 units."""
    if deep:
        return DEEP
    if dss2:
        return DSS2
    if rows > 1:
        return WINDOWS[1 if simd == 1 else 2]
    return LINES[1 if simd == 1 else 2] if columns > 1 else PLAIN


# --- POOL and ARITH
POOL_CHANNELS, POOL_LINE = 8, 1792  # a frame's channels and the elements of its lines, 482 units
POOL_THREE_LINES = 66  # elements of a line under windows of three lines, one channel at a time, 127 units
_POOLED = {(2, 2): POOL_CHANNELS}  # window and stride of a maximum -> channels; others: 1, 137 units
WIDE_PAIR_SHIFT = 20  # bits behind a sum of two inputs of 16 bits that gives a byte, none in front of it, 547 units
MOST_WIDE_SHIFT = 23  # bits behind a product that gives 16 bits
MOST_TABLE_SHIFT = 23  # bits behind a table of coefficients, 18,601 units
MOST_RARE_SHIFT = 35  # the same from 16 bits to a byte, 4 units: 24 twice, 34 and 35


def most_pooled(window: int, stride: int) -> int:
    """Channels of a maximum that are taken at a time."""
    return _POOLED.get((window, stride), 1)
