"""RIFSC, RISAF, IAC: who may reach what. Settings are kept and never enforced: no illegal access is ever reported."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

NAMES = ("RIFSC", "IAC", *(f"RISAF{number}" for number in (*range(1, 10), *range(11, 16), 21, 22, 23)))
SIZE_BYTES = 0x1000


class Firewall(WordRegisters):
    """One of them."""
