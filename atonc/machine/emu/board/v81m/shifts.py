"""Long and saturating shifts that have no short form in other instructions: computed here, when they are reached."""

from __future__ import annotations

from atonc.machine.emu.board.v81m.patterns import Instruction

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
