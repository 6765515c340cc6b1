"""Packets of the GDB remote serial protocol, for both ends: `$payload#checksum`, answered by + or - until both sides
agree to leave that out.

Nothing here knows a socket. What comes from the other side is not trusted: lengths are bounded, and what is no packet
is one of the marks below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

MOST_PAYLOAD = 1 << 20
_SPECIAL = re.compile(rb"[#$}*]")
_START = re.compile(rb"[$%+\-\x03]")
_REPEAT_BASE = 29  # the character behind a star is the number of further copies, plus this


class PacketMark(Enum):
    """What comes besides packets."""

    TAKEN = b"+"
    AGAIN = b"-"
    INTERRUPT = b"\x03"
    BROKEN = b""  # a packet with a wrong checksum, or longer than anybody sends


def frame(payload: bytes) -> bytes:
    """The packet with this payload. A star is escaped too: only answers use it, but every receiver undoes it."""
    body = _SPECIAL.sub(lambda found: b"}" + bytes([found[0][0] ^ 0x20]), payload)
    return b"$%s#%02x" % (body, sum(body) & 0xFF)


def payload_of(body: bytes, repeats: bool) -> bytes | None:
    """Undoes escapes and, in answers of a server, runs of equal characters; None where the result is too long."""
    if b"}" not in body and not (repeats and b"*" in body):
        return body
    found, at = bytearray(), 0
    while at < len(body):
        byte = body[at]
        if byte == 0x7D and at + 1 < len(body):
            found.append(body[at + 1] ^ 0x20)
            at += 2
        elif byte == 0x2A and repeats and found and at + 1 < len(body):
            found += found[-1:] * max(0, body[at + 1] - _REPEAT_BASE)
            at += 2
        else:
            found.append(byte)
            at += 1
        if len(found) > MOST_PAYLOAD:
            return None
    return bytes(found)


class PacketReader:
    """Bytes as they come in, packets as they go out. `repeats`: whether the other side is a server, whose answers may
    hold runs; in what a debugger sends, a star is a star."""

    def __init__(self, repeats: bool) -> None:
        self._repeats = repeats
        self._waiting = bytearray()
        self._dropping = False  # the rest of a packet that is too long

    def feed(self, data: bytes) -> Iterator[bytes | PacketMark]:
        self._waiting += data
        while self._waiting:
            found = self._next()
            if found is None:
                return
            if not isinstance(found, int):
                yield found

    def _next(self) -> bytes | PacketMark | int | None:
        """A packet or a mark; a number of bytes that meant nothing; None: more has to come."""
        waiting = self._waiting
        if not self._dropping and waiting[0] not in b"$%":
            return self._between()
        end = waiting.find(b"#")
        if end < 0 or end + 3 > len(waiting):
            if len(waiting) <= 2 * MOST_PAYLOAD:
                return None
            waiting.clear()
            was, self._dropping = self._dropping, True
            return 0 if was else PacketMark.BROKEN
        body, digits, kind = bytes(waiting[1:end]), bytes(waiting[end + 1 : end + 3]), waiting[0]
        del waiting[: end + 3]
        if self._dropping:
            self._dropping = False
            return 0
        return self._checked(body, digits, kind)

    def _between(self) -> PacketMark | int:
        """Outside packets: noise is passed over."""
        start = _START.search(self._waiting)
        count = start.start() if start else len(self._waiting)
        if count:
            del self._waiting[:count]
            return count
        byte = bytes(self._waiting[:1])
        same = len(self._waiting) - len(self._waiting.lstrip(byte)) if byte == PacketMark.TAKEN.value else 1
        del self._waiting[:same]  # taken twice is taken
        return PacketMark(byte)

    def _checked(self, body: bytes, digits: bytes, kind: int) -> bytes | PacketMark | int:
        if kind == ord("%"):
            return 0  # a notification: nobody here has asked for any
        body = body.rpartition(b"$")[2]  # a packet that begins inside another: the first was cut off
        if not re.fullmatch(rb"[0-9a-fA-F]{2}", digits) or int(digits, 16) != sum(body) & 0xFF:
            return PacketMark.BROKEN
        payload = payload_of(body, self._repeats)
        return PacketMark.BROKEN if payload is None else payload
