"""Vector instructions that nobody has needed yet: they stop the board with their name."""

from __future__ import annotations

from atonc.machine.emu.board.v81m.patterns import Pattern, PatternTable, pattern

PATTERNS: tuple[Pattern, ...] = (
    pattern("VLDRD or VSTRD by a vector", "1111 1101 .... ...0 ...1 1111 .... ...."),
    pattern("VLDRD or VSTRD, gathered", "111. 1100 100. .... ...0 1111 1... ...."),
    pattern("VMULLP", "111. 1110 0.11 ...1 .... 1110 .0.0 ...0"),
    pattern("VMAXNMA or VMINNMA", "111. 1110 0.11 1111 .... 1110 10.0 ...1"),
    pattern("VCMUL", "111. 1110 0.11 ...0 .... 1110 .0.0 ...."),
    pattern("VQDMLADH or VQDMLSDH", "111. 1110 0... ...0 .... 1110 .0.0 ...0"),
    pattern("VQRDMLADH or VQRDMLSDH", "111. 1110 0... ...0 .... 1110 .0.0 ...1"),
    pattern("VADC or VSBC", "111. 1110 0.11 ...0 .... 1111 .0.0 ...0"),
    pattern("VHCADD or VCADD", "111. 1110 0... ...0 .... 1111 .0.0 ...0"),
    pattern("VRMLALDAVH", "111. 1110 1... ...0 .... 1111 .0.0 ...0"),
    pattern("VRMLSLDAVH", "1111 1110 1... ...0 .... 1110 .0.0 ...1"),
    pattern("VBRSR", "1111 1110 0... ...1 ...1 1110 .110 ...."),
    pattern("VQRDMLAH or VQRDMLASH", "1110 1110 0... ...0 .... 1110 .100 ...."),
    pattern("VQDMLAH or VQDMLASH", "1110 1110 0... ...0 .... 1110 .110 ...."),
    pattern("VCADD of floats", "1111 110. 1.0. ...0 ...0 1000 .1.0 ...0"),
    pattern("VCMLA", "1111 110. ..1. ...0 ...0 1000 .1.0 ...0"),
    pattern("vector instruction", "111. 1111 .... .... .... .... .... ...."),
    pattern("vector instruction", "111. 1110 .... .... .... 111. .... ...."),
    pattern("vector load or store", "111. 110. .... .... .... 111. .... ...."),
)
TABLE = PatternTable(PATTERNS)
