"""Scalar instructions beyond a Cortex-M33: low-overhead loops, long and saturating shifts, selects, doubles.

The table is complete for what such a core would execute as something else (long shifts look like ORRS with the program
counter, VSCCLRM like a load) or refuse. Letters: n, m, d registers; l, h the pair of a long shift; i a number.
"""

from __future__ import annotations

from atonc.machine.emu.board.v81m.patterns import Pattern, PatternTable, pattern

LOOPS = (
    pattern("DLS", "1111 0000 0100 nnnn 1110 0000 0000 0001"),
    pattern("WLS", "1111 0000 0100 nnnn 1100 jiii iiii iii1"),
    pattern("LE", "1111 0000 0000 1111 1100 jiii iiii iii1"),
    pattern("LE forever", "1111 0000 0010 1111 1100 jiii iiii iii1"),
    pattern("LETP", "1111 0000 0001 1111 1100 jiii iiii iii1"),
    pattern("LCTP", "1111 0000 0000 1111 1110 0000 0000 0001"),
    pattern("WLSTP", "1111 0000 00ss nnnn 1100 jiii iiii iii1"),
    pattern("DLSTP", "1111 0000 00ss nnnn 1110 0000 0000 0001"),
    pattern("unallocated loop instruction", "1111 0000 0... .... 11.0 .... .... ...1"),
)
# branches that are announced beforehand: a core may ignore the announcement, and unicorn's would refuse it
BRANCH_FUTURE = (
    pattern("BFL", "1111 0... .... .... 1100 .... .... ...1"),
    pattern("BFCSEL", "1111 0... .0.. .... 1110 .... .... ...1"),
    pattern("BF", "1111 0... .10. .... 1110 .... .... ...1"),
    pattern("BFX", "1111 0... .11. .... 1110 0000 0000 0001"),
)
# order matters: the forms for single registers have 1111 where the others have a pair, and all of them look like a
# select of r13
SHIFTS = (
    pattern("UQSHL", "1110 1010 0101 dddd 0iii 1111 ii00 1111"),
    pattern("URSHR", "1110 1010 0101 dddd 0iii 1111 ii01 1111"),
    pattern("SRSHR", "1110 1010 0101 dddd 0iii 1111 ii10 1111"),
    pattern("SQSHL", "1110 1010 0101 dddd 0iii 1111 ii11 1111"),
    pattern("LSLL", "1110 1010 0101 lll0 0iii hhh1 ii00 1111"),
    pattern("LSRL", "1110 1010 0101 lll0 0iii hhh1 ii01 1111"),
    pattern("ASRL", "1110 1010 0101 lll0 0iii hhh1 ii10 1111"),
    pattern("UQSHLL", "1110 1010 0101 lll1 0iii hhh1 ii00 1111"),
    pattern("URSHRL", "1110 1010 0101 lll1 0iii hhh1 ii01 1111"),
    pattern("SRSHRL", "1110 1010 0101 lll1 0iii hhh1 ii10 1111"),
    pattern("SQSHLL", "1110 1010 0101 lll1 0iii hhh1 ii11 1111"),
    pattern("UQRSHL", "1110 1010 0101 dddd mmmm 1111 0000 1101"),
    pattern("SQRSHR", "1110 1010 0101 dddd mmmm 1111 0010 1101"),
    pattern("LSLL by register", "1110 1010 0101 lll0 mmmm hhh1 0000 1101"),
    pattern("ASRL by register", "1110 1010 0101 lll0 mmmm hhh1 0010 1101"),
    pattern("UQRSHLL", "1110 1010 0101 lll1 mmmm hhh1 s000 1101"),
    pattern("SQRSHRL", "1110 1010 0101 lll1 mmmm hhh1 s010 1101"),
)
SELECTS = (pattern("CSEL", "1110 1010 0101 nnnn 10oo dddd cccc mmmm"),)
CLEARS = (
    pattern("CLRM", "1110 1000 1001 1111 rrrr rrrr rrrr rrrr"),
    pattern("VSCCLRM", "1110 1100 1.01 1111 .... 101. .... ...."),
)
# FPSCR itself is no stranger to the Cortex-M33; 2 is its flags alone, 12 VPR, 13 its predicate, 14 and 15 contexts
SYSTEM = (
    pattern("VMRS", "1110 1110 1111 0010 tttt 1010 0001 0000"),
    pattern("VMRS", "1110 1110 1111 11rr tttt 1010 0001 0000"),
    pattern("VMSR", "1110 1110 1110 0010 tttt 1010 0001 0000"),
    pattern("VMSR", "1110 1110 1110 11rr tttt 1010 0001 0000"),
    pattern("VLDR of a system register", "1110 1101 ...1 .... ...0 1111 1... ...."),
    pattern("VLDR of a system register", "1110 1100 ..11 .... ...0 1111 1... ...."),
    pattern("VSTR of a system register", "1110 1101 ...0 .... ...0 1111 1... ...."),
    pattern("VSTR of a system register", "1110 1100 ..10 .... ...0 1111 1... ...."),
)
HALVES = (
    pattern("half-precision arithmetic", "111. 1110 .... .... .... 1001 .... ...."),
    pattern("half-precision load or store", "1110 110. .... .... .... 1001 .... ...."),
    pattern("VMOVX.F16", "1111 1110 1.11 0000 .... 1010 01.0 ...."),
    pattern("VINS.F16", "1111 1110 1.11 0000 .... 1010 11.0 ...."),
)
# D is bit 22, N bit 7, M bit 5; what has no pattern of its own is called by the last one
DOUBLES = (
    pattern("VCVT.F64.F32", "1110 1110 1D11 0111 dddd 1010 11M0 mmmm"),
    pattern("VCVTB/VCVTT with F64", "1110 1110 1D11 001. dddd 1011 .1M0 mmmm"),
    pattern("arithmetic on doubles", "111. 1110 .D.. nnnn dddd 1011 N.M0 mmmm"),
)
PATTERNS: tuple[Pattern, ...] = (
    *LOOPS, *BRANCH_FUTURE, *SHIFTS, *SELECTS, *CLEARS, *SYSTEM, *HALVES, *DOUBLES,
)  # fmt: skip
TABLE = PatternTable(PATTERNS)
