"""Semihosting: what a firmware asks of its debugger by `bkpt 0xAB`, number in r0, arguments behind r1.

Text is shown and the end of the program is told; files of the host are not offered: every other call gets -1.
"""

from __future__ import annotations

from typing import Any, Protocol

from atonc.machine.base.frozen import dataclass

SEMIHOSTING = 0xAB
_WRITEC, _WRITE0, _WRITE, _EXIT, _EXIT_EXTENDED = 0x03, 0x04, 0x05, 0x18, 0x20
_APPLICATION_EXIT = 0x2_0026
_LONGEST = 1 << 16
_STANDARD_OUTPUTS = (1, 2)
_NO = 0xFFFF_FFFF


@dataclass(frozen=True)
class SemihostingAnswer:
    text: str = ""
    exit_code: int | None = None


class HostedCore(Protocol):
    uc: Any
    failure: type[Exception]  # of an access to memory

    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...


def answer(core: HostedCore) -> SemihostingAnswer:
    """What the call that the core stands behind prints; the result is in r0."""
    call, argument = core.register("R0"), core.register("R1")
    if call == _EXIT:
        return SemihostingAnswer(exit_code=0 if argument == _APPLICATION_EXIT else 1)
    if call == _EXIT_EXTENDED:
        reason, code = (_word(core, argument + 4 * k) for k in (0, 1))
        return SemihostingAnswer(exit_code=code & 0xFF if reason == _APPLICATION_EXIT else 1)
    if call == _WRITEC:
        return SemihostingAnswer(_bytes(core, argument, 1).decode("latin1"))
    if call == _WRITE0:
        return SemihostingAnswer(_string(core, argument).decode("utf-8", "replace"))
    if call == _WRITE and _word(core, argument) in _STANDARD_OUTPUTS:
        size = min(_word(core, argument + 8), _LONGEST)
        core.set_register("R0", 0)
        return SemihostingAnswer(_bytes(core, _word(core, argument + 4), size).decode("utf-8", "replace"))
    core.set_register("R0", _NO)
    return SemihostingAnswer()


def _bytes(core: HostedCore, address: int, size: int) -> bytes:
    """None where no memory is: a firmware's wrong pointer is not the debugger's fault."""
    try:
        return bytes(core.uc.mem_read(address, size))
    except core.failure:
        return b""


def _word(core: HostedCore, address: int) -> int:
    return int.from_bytes(_bytes(core, address, 4), "little")


def _string(core: HostedCore, address: int) -> bytes:
    found = bytearray()
    while len(found) < _LONGEST:
        byte = _bytes(core, address + len(found), 1)
        if byte in (b"", b"\x00"):
            break
        found += byte
    return bytes(found)
