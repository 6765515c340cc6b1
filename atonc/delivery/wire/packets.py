"""Messages cut into packets of fixed size. Which of the two forms a board speaks shows in its first answer."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.delivery.wire.protobuf import varint
from atonc.machine.base.frozen import dataclass

PAYLOAD = 32
MORE = 0xAA  # the board's byte for: go on
_LAST = 0x80
_MAX_PACKET = 4094


class PacketError(ValueError):
    """Bytes that no packet begins with."""


@dataclass(frozen=True)
class Dialect:
    """The header is one or two bytes: how many bytes of the packet count, and, from the board, whether it is the last
    of its message."""

    name: str
    header_bytes: int
    old: bool  # system information without a packet size

    def cut(self, message: bytes, payload: int = PAYLOAD) -> Iterator[bytes]:
        """Cuts a message for the board, with its length before it."""
        whole = varint(len(message)) + message
        for at in range(0, len(whole), payload):
            part = whole[at : at + payload]
            yield len(part).to_bytes(self.header_bytes, "big") + part.ljust(payload, b"\0")

    def packet_bytes(self, payload: int = PAYLOAD) -> int:
        return self.header_bytes + payload

    def open(self, packet: bytes, payload: int = PAYLOAD) -> tuple[bytes, bool]:
        """Opens a packet from the board: what counts, and whether the message ends."""
        first = packet[0]
        size = int.from_bytes(bytes([first & ~_LAST]) + packet[1 : self.header_bytes], "big")
        last = bool(first & _LAST)
        if size > payload or (size < payload and not last):
            raise PacketError(f"a packet with {size} of {payload} bytes that is not the last of its message")
        return packet[self.header_bytes : self.header_bytes + size], last

    def answer(self, message: bytes, payload: int = PAYLOAD) -> Iterator[bytes]:
        """As a board sends a message: without a length, the last packet marked; an empty one when it ended before."""
        for at in range(0, len(message) + 1, payload):
            part = message[at : at + payload]
            last = len(part) < payload
            header = bytearray(len(part).to_bytes(self.header_bytes, "big"))
            header[0] |= _LAST if last else 0
            yield bytes(header) + part.ljust(payload, b"\0")


WIDE = Dialect("3.1 or 3.2 with two bytes of header", 2, False)
NARROW = Dialect("3.1 with one byte of header", 1, True)
