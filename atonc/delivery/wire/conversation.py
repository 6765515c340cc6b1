"""Messages to a board and its answers, packet by packet; an answer that is late, damaged or to another question is a
fault."""

from __future__ import annotations

from collections.abc import Callable

from atonc.delivery.wire import messages
from atonc.delivery.wire.links import ByteLink
from atonc.delivery.wire.messages import Ack, LogMessage, Response
from atonc.delivery.wire.packets import MORE, PAYLOAD, WIDE, Dialect

SHORT_S = 1.0
_MORE_S = 5.0
_MAX_MESSAGE, _MAX_LOGS = 64 << 20, 4096


class WireFault(Exception):
    """Something on the line went wrong; asking again may help."""


class Conversation:
    def __init__(self, link: ByteLink, note: Callable[[str], None]) -> None:
        self.link, self._note = link, note
        self.dialect: Dialect = WIDE
        self._request = 0
        self._longest = 0  # bytes of a message
        self._payload = PAYLOAD

    def _ask(self, command: int, param: int = 0, name: str = "", option: int = 0) -> None:
        self._request += 1
        self._send(messages.request(self._request, command, param, name, option))

    def _send(self, message: bytes) -> None:
        self._longest = max(self._longest, len(message))
        for position, packet in enumerate(self.dialect.cut(message, self._payload)):
            if position and self._bytes(1, _MORE_S) != bytes([MORE]):
                raise WireFault("the board does not ask for the rest of a message")
            self.link.write(packet)

    def _after_logs(self, wait_s: float) -> Response:
        """The next message that is no log; logs are acknowledged."""
        for _ in range(_MAX_LOGS):
            answer = self._response(wait_s)
            if not isinstance(answer.payload, LogMessage):
                return answer
            self._note(f"board: {answer.payload.text}")
            self._send(messages.acknowledge())
        raise WireFault("logs without end")

    def _acknowledged(self, answer: Response, state: int) -> int:
        ack = answer.payload
        if not isinstance(ack, Ack):
            raise WireFault("no acknowledgement came")
        if answer.state == messages.ERROR:
            raise WireFault(f"the board says: {ack.words} ({ack.param})")
        if answer.state != state or ack.error:
            raise WireFault(f"the board is in state {answer.state}, {ack.words}")
        return ack.param

    def _response(self, wait_s: float, begun: bytes = b"") -> Response:
        size, message = self.dialect.packet_bytes(self._payload), b""
        while True:
            packet = begun + self._bytes(size - len(begun), wait_s if not message else SHORT_S)
            begun = b""
            part, last = self.dialect.open(packet, self._payload)
            message += part
            if last:
                break
            if len(message) > _MAX_MESSAGE:
                raise WireFault("a message without end")
        answer = messages.response(message, self.dialect.old)
        if answer.request != self._request:
            raise WireFault(f"an answer to question {answer.request} came, this is question {self._request}")
        return answer

    def _bytes(self, count: int, wait_s: float) -> bytes:
        """Exactly so many; the first within the time, the others one after the other."""
        data = b""
        limit = self.link.now() + wait_s
        while len(data) < count:
            part = self.link.read(count - len(data), limit - self.link.now())
            if not part and self.link.now() >= limit:
                raise WireFault(f"{len(data)} of {count} bytes came in time" if data else f"silence for {wait_s:g} s")
            if part:
                data += part
                limit = max(limit, self.link.now() + SHORT_S)
        return data
