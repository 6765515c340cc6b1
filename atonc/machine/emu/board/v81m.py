"""Armv8.1-M: the scalar instructions that a Cortex-M55 has and unicorn's Cortex-M33 has not.

Encodings stand here as the architecture manual draws them: 0, 1, and letters for fields. Blanks are for the eye. A
letter that stands in several places is one field, most significant bit first; `.` is a bit that nobody looks at. The
first pattern of a table that fits is the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from importlib import import_module
from typing import Protocol

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import assembler as asm
from atonc.machine.emu.board.assembler import ASR, LR, LSL, LSR

WIDTH = 32


@dataclass(frozen=True)
class Instruction:
    """An instruction of 32 bits: what it is and the contents of its fields."""

    pattern: Pattern
    word: int
    fields: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.pattern.name

    def __getitem__(self, letter: str) -> int:
        return self.fields[letter]


@dataclass(frozen=True)
class Pattern:
    name: str
    mask: int
    value: int
    fields: tuple[tuple[str, tuple[int, ...]], ...]  # letter, positions of its bits, most significant first

    def read(self, word: int) -> Instruction:
        return Instruction(self, word, {letter: gather(word, bits) for letter, bits in self.fields})


def gather(word: int, positions: tuple[int, ...]) -> int:
    value = 0
    for position in positions:
        value = value << 1 | word >> position & 1
    return value


def pattern(name: str, drawing: str) -> Pattern:
    drawn = drawing.replace(" ", "")
    if len(drawn) != WIDTH:
        raise ValueError(f"{name}: {len(drawn)} bits")
    mask = value = 0
    fields: dict[str, list[int]] = {}
    for position, character in zip(range(WIDTH - 1, -1, -1), drawn, strict=True):
        if character in "01":
            mask |= 1 << position
            value |= int(character) << position
        elif character != ".":
            fields.setdefault(character, []).append(position)
    return Pattern(name, mask, value, tuple((letter, tuple(bits)) for letter, bits in fields.items()))


class PatternTable:
    """Finds the instruction that a word is; words that were seen once are remembered."""

    def __init__(
        self, patterns: Iterable[Pattern], exists: Callable[[Instruction], bool] = lambda instruction: True
    ) -> None:
        """`exists`: whether what fits a pattern is such an instruction."""
        self._exists = exists
        self._by_byte: dict[int, list[Pattern]] = {}
        for entry in patterns:
            for byte in range(256):
                if (byte << 24 ^ entry.value) & entry.mask & 0xFF00_0000 == 0:
                    self._by_byte.setdefault(byte, []).append(entry)
        self._known: dict[int, Instruction | None] = {}

    def find(self, word: int) -> Instruction | None:
        if word not in self._known:
            fits = (p.read(word) for p in self._by_byte.get(word >> 24, ()) if word & p.mask == p.value)
            self._known[word] = next(filter(self._exists, fits), None)
        return self._known[word]


# ---------------------------------------------------------------------------------------------------- the instructions
# The table is complete for what a Cortex-M33 would execute as something else (long shifts look like ORRS with the
# program counter, VSCCLRM like a load) or refuse. Letters: n, m, d registers; l, h the pair of a long shift; i a
# number.

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
TABLE = PatternTable((*LOOPS, *BRANCH_FUTURE, *SHIFTS, *SELECTS, *CLEARS, *SYSTEM, *HALVES, *DOUBLES))


# --------------------------------------------- long and saturating shifts that have no short form in other instructions

_MASK = 0xFFFF_FFFF
_BITS = {False: 64, True: 48}  # what UQRSHLL and SQRSHRL saturate to


def on_one(instruction: Instruction, value: int, amount: int) -> tuple[int, bool]:
    """A shift of one register: the result and whether it saturated. `amount` is a register, or unused."""
    by = instruction.fields.get("i", 0) or 32
    signed, unsigned = _signed(value, 32), value & _MASK
    match instruction.name:
        case "UQSHL":
            return _clip(unsigned << by, 0, _MASK)
        case "SQSHL":
            return _clip_signed(signed << by, 32)
        case "URSHR":
            return _rounded(unsigned, by) & _MASK, False
        case "SRSHR":
            return _rounded(signed, by) & _MASK, False
        case "UQRSHL":
            by = _signed(amount, 8)
            return _clip(unsigned << by if by >= 0 else _rounded(unsigned, -by), 0, _MASK)
        case _:  # SQRSHR
            by = -_signed(amount, 8)
            return _clip_signed(signed << by if by >= 0 else _rounded(signed, -by), 32)


def on_pair(instruction: Instruction, value: int, amount: int) -> tuple[int, bool]:
    """A shift of two registers as one number of 64 bits."""
    by = instruction.fields.get("i", 0) or 32
    signed, unsigned, whole = _signed(value, 64), value & (1 << 64) - 1, (1 << 64) - 1
    match instruction.name:
        case "LSLL by register":
            by = _signed(amount, 8)
            return (unsigned << by if by >= 0 else unsigned >> -by) & whole, False
        case "ASRL by register":
            by = _signed(amount, 8)
            return (signed >> by if by >= 0 else signed << -by) & whole, False
        case "LSLL":
            return unsigned << by & whole, False
        case "LSRL":
            return unsigned >> by, False
        case "ASRL":
            return signed >> by & whole, False
        case "UQSHLL":
            return _clip(unsigned << by, 0, whole)
        case "SQSHLL":
            return _clip_signed(signed << by, 64)
        case "URSHRL":
            return _rounded(unsigned, by), False
        case "SRSHRL":
            return _rounded(signed, by) & whole, False
        case "UQRSHLL":
            by, bits = _signed(amount, 8), _BITS[bool(instruction["s"])]
            if by < -bits:  # also of 48 bits, whatever stands above them: as QEMU has it
                return 0, False
            return _clip(unsigned << by if by >= 0 else _rounded(unsigned, -by), 0, (1 << bits) - 1)
        case _:  # SQRSHRL
            by, bits = -_signed(amount, 8), _BITS[bool(instruction["s"])]
            if by <= -bits:
                return 0, False
            result, saturated = _clip_signed(signed << by if by >= 0 else _rounded(signed, -by), bits)
            return _signed(result, bits) & whole, saturated


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _rounded(value: int, by: int) -> int:
    return (value + (1 << by - 1)) >> by


def _clip(value: int, low: int, high: int) -> tuple[int, bool]:
    clipped = min(max(value, low), high)
    return clipped, clipped != value


def _clip_signed(value: int, bits: int) -> tuple[int, bool]:
    clipped, saturated = _clip(value, -(1 << bits - 1), (1 << bits - 1) - 1)
    return clipped & (1 << bits) - 1, saturated


# ------------------------------------------------------------------------------------- instructions rewritten as others
# In their place, or as a few lines elsewhere (a stub) that a branch leads to. They run at full speed, which loops need,
# and leave flags and other registers alone.

_ZERO = 15  # as an operand of a select
_SCRATCH = 0
_LONG = {"LSLL": LSL, "LSRL": LSR, "ASRL": ASR}
_NO_PAIR = 6  # the upper register of a pair would be sp or pc
_IGNORED = ("BF", "BFL", "BFX", "BFCSEL")


def in_place(instruction: Instruction) -> bytes | None:
    """One instruction of four bytes with the same effect, if there is. Not two of two bytes: the core may stop between
    them, and go on in the middle of what memory has there."""
    if instruction.name == "DLS":
        return asm.move_shifted(LR, instruction["n"], LSL, 0)
    return asm.NOP_WIDE if instruction.name in _IGNORED else None


def stub_code(instruction: Instruction, at: int, here: int) -> bytes | None:
    """Code for `here` that does what the instruction at `at` does, and goes on where that would."""
    name = instruction.name
    if name in ("LE", "LE forever"):
        return _loop_end(here, at + 4 - _distance(instruction), at + 4, name == "LE forever")
    if name == "WLS":
        return _loop_start(here, instruction["n"], at + 4 + _distance(instruction), at + 4)
    if name in _LONG and instruction["h"] < _NO_PAIR:
        low, high = 2 * instruction["l"], 2 * instruction["h"] + 1
        return _back(_long_shift(_LONG[name], low, high, instruction["i"] or 32), here, at)
    return _back(_select(instruction), here, at) if name == "CSEL" else None


def _back(code: bytes, here: int, at: int) -> bytes:
    return code + asm.branch(here + len(code), at + 4)


def _distance(instruction: Instruction) -> int:
    return instruction["i"] << 2 | instruction["j"] << 1


def _loop_end(here: int, start: int, behind: int, forever: bool) -> bytes:
    """The loop ends when one round or none is left."""
    if forever:
        return asm.branch(here, start)
    again = asm.pop(_SCRATCH) + asm.subtract_small(LR, LR, 1)
    code = asm.push(_SCRATCH) + asm.move_shifted(_SCRATCH, LR, LSR, 1)
    code += asm.skip_if_zero(_SCRATCH, (len(again) + 4) // 2) + again
    code += asm.branch(here + len(code), start) + asm.pop(_SCRATCH)
    return code + asm.branch(here + len(code), behind)


def _loop_start(here: int, count: int, end: int, behind: int) -> bytes:
    enter = asm.pop(_SCRATCH) + asm.move(LR, count)
    code = asm.push(_SCRATCH) + asm.move(_SCRATCH, count)
    code += asm.skip_if_zero(_SCRATCH, (len(enter) + 4) // 2) + enter
    code += asm.branch(here + len(code), behind) + asm.pop(_SCRATCH)
    return code + asm.branch(here + len(code), end)


def _long_shift(kind: int, low: int, high: int, by: int) -> bytes:
    if by == 32:
        if kind == LSL:
            return asm.move_shifted(high, low, LSL, 0) + asm.move_small(low, 0)
        rest = asm.move_small(high, 0) if kind == LSR else asm.move_shifted(high, high, ASR, 31)
        return asm.move_shifted(low, high, LSL, 0) + rest
    if kind == LSL:
        carried = asm.or_shifted(high, low, LSR, 32 - by)
        return asm.move_shifted(high, high, LSL, by) + carried + asm.move_shifted(low, low, LSL, by)
    carried = asm.or_shifted(low, high, LSL, 32 - by)
    return asm.move_shifted(low, low, LSR, by) + carried + asm.move_shifted(high, high, kind, by)


def _select(instruction: Instruction) -> bytes:
    """CSEL, CSINC, CSINV and CSNEG: the second operand as it is, plus one, inverted, negated."""
    to, first, second, kind = (instruction[letter] for letter in "dnmo")
    yes = asm.move_small(to, 0) if first == _ZERO else asm.move_shifted(to, first, LSL, 0)
    if second == _ZERO:
        zeros = (asm.move_small(to, 0), asm.move_small(to, 1), asm.move_minus_one(to), asm.move_small(to, 0))
        return asm.if_else(instruction["c"]) + yes + zeros[kind]
    others = (
        asm.move_shifted(to, second, LSL, 0),
        asm.add_small(to, second, 1),
        asm.move_inverted(to, second),
        asm.negate(to, second),
    )
    return asm.if_else(instruction["c"]) + yes + others[kind]


# ------------------------------------------------ instructions executed here, one by one, when the core stopped at them

_CODE = 0x1000
_ALL = 7


class Registers(Protocol):
    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...


class DoubleUnit:
    """Arithmetic on doubles. A Cortex-M33 has none, unicorn's Cortex-M7 has: a second core, with nothing but a word of
    memory, executes just the one instruction on copies of the registers."""

    def __init__(self) -> None:
        unicorn, self._arm = import_module("unicorn"), import_module("unicorn.arm_const")
        self._error = unicorn.UcError
        # with UC_MODE_MCLASS its FPU stays closed
        self._uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB)
        self._uc.ctl_set_cpu_model(self._arm.UC_CPU_ARM_CORTEX_M7)
        self._uc.mem_map(_CODE, 0x1000, _ALL)
        self._uc.mem_write(_CODE, b"\xb0\xee\x40\x0a")  # vmov s0, s0: the first of all sets FPSCR back
        self._uc.emu_start(_CODE | 1, _CODE + 4, count=1)

    def execute(self, instruction: Instruction, core: Registers) -> None:
        names = [*(f"D{number}" for number in sorted(_touched(instruction.word))), "FPSCR"]
        for name in names:
            self._uc.reg_write(self._id(name), core.register(name))
        state = self._uc.reg_read(self._id("CPSR")) & ~_FLAGS
        self._uc.reg_write(self._id("CPSR"), state | core.register("XPSR") & _FLAGS)  # VSEL looks at them
        word = instruction.word
        self._uc.mem_write(_CODE, (word >> 16).to_bytes(2, "little") + (word & 0xFFFF).to_bytes(2, "little"))
        self._uc.ctl_remove_cache(_CODE, _CODE + 4)
        try:
            self._uc.emu_start(_CODE | 1, _CODE + 4, count=1)
        except self._error as error:
            raise InputError(f"{instruction.name} ({word >> 16:04x} {word & 0xFFFF:04x}) is undefined") from error
        for name in names:
            core.set_register(name, self._uc.reg_read(self._id(name)))

    def _id(self, name: str) -> int:
        number: int = getattr(self._arm, f"UC_ARM_REG_{name}")
        return number


def _touched(word: int) -> set[int]:
    """Every register of 64 bits that the three register fields can mean, as double or as half of one."""
    fields = ((word >> 12 & 15, word >> 22 & 1), (word >> 16 & 15, word >> 7 & 1), (word & 15, word >> 5 & 1))
    return {number for low, extra in fields for number in (low, 16 * extra + low) if number < 16}


_NAMES = (*(f"R{number}" for number in range(13)), "SP", "LR", "PC")
_ONE = ("UQSHL", "URSHR", "SRSHR", "SQSHL", "UQRSHL", "SQRSHR")
_PAIR = ("UQSHLL", "URSHRL", "SRSHRL", "SQSHLL", "UQRSHLL", "SQRSHRL", "LSLL by register", "ASRL by register",
         "LSLL", "LSRL", "ASRL")  # fmt: skip
_DOUBLES = ("VCVT.F64.F32", "VCVTB/VCVTT with F64", "arithmetic on doubles")
_APSR = 15  # in the list of CLRM
_FLAGS = 0xF800_0000


class Executor:
    """`saturated` is the sticky flag Q of the program status, which unicorn keeps itself."""

    def __init__(self, core: Registers) -> None:
        self._core = core
        self._doubles: DoubleUnit | None = None
        self._table: dict[str, Callable[[Instruction], None]] = {
            **dict.fromkeys(_ONE, self._shift_one),
            **dict.fromkeys(_PAIR, self._shift_pair),
            **dict.fromkeys(_DOUBLES, self._double),
            "CLRM": self._clear,
        }

    def run(self, instruction: Instruction) -> None:
        if instruction.name not in self._table:
            word = instruction.word
            raise NotModelledError(
                f"{instruction.name} ({word >> 16:04x} {word & 0xFFFF:04x}) is an instruction that this core lacks",
                remedy="build the firmware without it, or report the instruction",
            )
        self._table[instruction.name](instruction)

    def _shift_one(self, instruction: Instruction) -> None:
        name = _NAMES[instruction["d"]]
        result, saturated = on_one(instruction, self._core.register(name), self._amount(instruction))
        self._core.set_register(name, result)
        self._note(saturated)

    def _shift_pair(self, instruction: Instruction) -> None:
        low, high = _NAMES[2 * instruction["l"]], _NAMES[2 * instruction["h"] + 1]
        if high in ("SP", "PC"):
            raise NotModelledError(f"{instruction.name} of {low} and {high} is unpredictable")
        value = self._core.register(low) | self._core.register(high) << 32
        result, saturated = on_pair(instruction, value, self._amount(instruction))
        self._core.set_register(low, result & 0xFFFF_FFFF)
        self._core.set_register(high, result >> 32)
        self._note(saturated)

    def _amount(self, instruction: Instruction) -> int:
        return self._core.register(_NAMES[instruction["m"]]) if "m" in instruction.fields else 0

    def _note(self, saturated: bool) -> None:
        if saturated:
            self._core.set_register("XPSR", self._core.register("XPSR") | 1 << 27)

    def _double(self, instruction: Instruction) -> None:
        self._doubles = self._doubles or DoubleUnit()
        self._doubles.execute(instruction, self._core)

    def _clear(self, instruction: Instruction) -> None:
        for number in range(16):
            if instruction["r"] >> number & 1:
                if number == _APSR:
                    self._core.set_register("XPSR", self._core.register("XPSR") & ~_FLAGS)
                else:
                    self._core.set_register(_NAMES[number], 0)
