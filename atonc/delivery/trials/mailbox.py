"""The mailbox of the probe firmware (`runtime/probe/mailbox.h`) as bytes: what is asked before the start, and what the
firmware has told so far. Bytes come from whatever runs at the other end: nothing in them is believed."""

from __future__ import annotations

import struct

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

SYMBOL, CHECKPOINT = "atonc_mailbox", "atonc_checkpoint"
RUNS, ENDED, FAULT = 1, 2, 3  # states
SEMIHOSTING, EMULATED, ON_CHIP = 1, 2, 4  # options
_MAGIC, _REQUEST, _VERSION = 0x4D4E5441, 0x51544E41, 1
_HEAD = struct.Struct("<10I64s64s")
HEAD_BYTES = _HEAD.size
_MOST = 1 << 20  # bytes of a log
_ASKED = struct.Struct("<3I")
_ASKED_AT = 12


@dataclass(frozen=True)
class Mailbox:
    state: int
    probe: int  # that is asked now
    asked: str  # its name; empty: none yet
    board: str  # that the firmware was built for
    length: int  # of the log
    lost: int  # lines that did not fit


def request(first_probe: int, options: int = 0) -> tuple[int, bytes]:
    """What to write before the start, and how far behind the beginning of the mailbox."""
    return _ASKED_AT, _ASKED.pack(_REQUEST, first_probe, options)


def nothing() -> bytes:
    """A head that no firmware has written yet: what an earlier one left must not be taken for an answer."""
    return bytes(HEAD_BYTES)


def parse(data: bytes, where: str) -> Mailbox:
    magic, version, state, _, _, _, probe, length, capacity, lost, asked, board = _HEAD.unpack(data)
    if magic != _MAGIC:
        raise _wrong(where, f"it begins with {magic:#010x} instead of {_MAGIC:#010x}: the firmware has not started")
    if version != _VERSION:
        raise _wrong(where, f"its version is {version}, this atonc reads {_VERSION}")
    if state not in (RUNS, ENDED, FAULT):
        raise _wrong(where, f"there is no state {state}")
    if not length <= capacity <= _MOST:
        raise _wrong(where, f"{length} bytes of log in a buffer of {capacity}")
    return Mailbox(state, probe, _text(asked, where), _text(board, where), length, lost)


def _text(data: bytes, where: str) -> str:
    text, end, _ = data.partition(b"\0")
    if not end or not all(0x21 <= byte < 0x7F for byte in text):
        raise _wrong(where, "a name in it is not text")
    return text.decode("ascii")


def _wrong(where: str, what: str) -> InputError:
    return InputError(
        f"the mailbox in RAM is not one of this firmware: {what}",
        where=where,
        rule="the firmware that runs is the one that was loaded, and start-up got as far as its first line",
        remedy="reset the board (boot switches in development mode), then run the same command again",
    )
