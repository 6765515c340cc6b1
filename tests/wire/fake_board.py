"""A board that speaks the validation protocol as ST's firmware does, in virtual time, at the end of a bad line."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace

from atonc.delivery.wire import messages
from atonc.delivery.wire.messages import MORE, PAYLOAD, WIDE, Dialect, TensorInfo, number, real, text

CPU_HZ, NPU_HZ = 600_000_000, 800_000_000
INT8 = 1 << 23 | 2 << 17 | 8 << 7 | 64
BYTE_S = 1e-5
_TOGETHER_S = 1.5 * BYTE_S  # bytes that follow each other so closely are handed over as one piece
INPUT_BYTES, OUTPUT_BYTES = 120, 90
LAYERS = ((1, 4, (224, 7684, 112)), (5, 5, (0, 0, 9000)), (6, 9, (100, 40_001, 7)))

Steps = Generator[None, int, None]


def compute(content: bytes, model: str = "first") -> bytes:
    """What the network computes: another input, or another network, gives something else."""
    digest = b"".join(hashlib.sha256(bytes([k]) + model.encode() + content).digest() for k in range(4))
    return digest[:OUTPUT_BYTES]


def tensor(name: str, size: int, flags: int) -> TensorInfo:
    return TensorInfo(name, INT8, size, 2, (1, size), 0.25, -3, 0x3420_0000, flags)


class FakeBoard:
    """`send` takes what it transmits. It reads as nanopb does: bytes of a message as they are needed."""

    def __init__(self, dialect: Dialect = WIDE, minor: int = 1, model: str = "first", hashed: bool = True) -> None:
        self.dialect, self.minor, self.model, self.hashed = dialect, minor, model, hashed
        self.memory = bytearray(8192)
        self.sent = bytearray()
        self._noise = random.Random(1)
        self.restart()

    def restart(self, model: str | None = None) -> None:
        self.model = model or self.model
        self.sent += b"boot\r\nREADY\r\n" if hasattr(self, "_steps") else b""
        self._packet, self._left, self._at = b"", 0, 0
        self._open = False
        self._steps = self._live()
        next(self._steps)

    def take(self, byte: int) -> None:
        self._steps.send(byte)

    # ------------------------------------------------------------------------------------------------------- reading

    def _next_packet(self) -> Generator[None, int, None]:
        header = bytearray()
        for _ in range(self.dialect.header_bytes):
            header.append((yield))
        body = bytearray()
        for _ in range(PAYLOAD):
            body.append((yield))
        self._packet, self._left, self._at = bytes(body), int.from_bytes(header, "big"), 0

    def _byte(self) -> Generator[None, int, int]:
        if not self._open:
            yield from self._next_packet()
            self._open = True
        while self._left == 0:
            self.sent.append(MORE)
            yield from self._next_packet()
        self._left -= 1
        self._at += 1
        inside = self._at <= len(self._packet)
        return self._packet[self._at - 1] if inside else self._noise.randrange(256)  # beyond: whatever lies there

    def _message(self) -> Generator[None, int, bytes]:
        self._open = False
        length = 0
        for shift in range(0, 35, 7):
            byte = yield from self._byte()
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            return b"\xff"
        content = bytearray()
        for _ in range(length):
            content.append((yield from self._byte()))
        return bytes(content)

    # ------------------------------------------------------------------------------------------------------- answering

    def _answer(self, identity: int, state: int, key: int, payload: bytes) -> None:
        for packet in self.dialect.answer(number(1, identity) + number(2, state) + text(key, payload)):
            self.sent += packet

    def _ack(self, identity: int, state: int, param: int, error: int = 0) -> None:
        self._answer(identity, state, 12, number(1, param) + number(2, error))

    def _live(self) -> Steps:
        while True:
            request = _numbers((yield from self._message()))
            if request is None:
                continue
            identity, command = request.get(1, 0), request.get(2, 1)
            if command == messages.SYNC:
                self._answer(identity, 0, 10, number(1, 3 << 8 | self.minor) + number(4, self.can) + number(5, 0x10104))
            elif command == messages.SYS_INFO:
                self._answer(identity, 0, 11, self._system())
            elif command == messages.NETWORK_INFO:
                yield from self._tell(identity, request.get(3, 0))
            elif command == messages.NETWORK_RUN:
                yield from self._run(identity, request.get(3, 0))
            elif command in (messages.MEMORY_READ, messages.MEMORY_WRITE, messages.MEMORY_CHECKSUM):
                yield from self._access(identity, command, request.get(3, 0), request.get(5, 0))
            elif command != messages.DISCONNECT:
                self._unknown(identity, command)

    can = 9  # per layer, memory

    def compute(self, content: bytes) -> bytes:
        return compute(content, self.model)

    def _unknown(self, identity: int, command: int) -> None:
        self._ack(identity, messages.ERROR, 4, 4)

    def _system(self) -> bytes:
        extra = (0, NPU_HZ, 900_000_000, 0)
        told = number(1, 0x486) + number(2, CPU_HZ) + number(3, 400_000_000) + number(4, 7)
        told += b"" if self.dialect.old else number(5, 0)
        return told + b"".join(number(5 if self.dialect.old else 6, value) for value in extra)

    def _tell(self, identity: int, index: int) -> Steps:
        if index:
            self._ack(identity, messages.ERROR, 4, 4)
            return
        self._answer(identity, messages.WAITING, 13, number(1, 1) + text(2, "s:config:version:1.0"))
        yield from self._message()
        told = text(1, "net") + number(2, 0x10104) + text(3, self.model if self.hashed else "") + text(4, "today")
        told += number(5, 1 << 24) + number(6, 1 << 24) + number(7, 0) + number(8, len(LAYERS))
        told += number(10, 1) + text(11, messages.tensor_info(tensor("in", INPUT_BYTES, 1)))
        told += number(12, 1) + text(13, messages.tensor_info(tensor("out", OUTPUT_BYTES, 2)))
        told += number(14, 0) + number(16, 0) + text(20, "fake")
        told += (real(21, 0.0) + real(22, 0.0)) if self.minor >= 2 else b""
        self._answer(identity, 0, 22, told)

    def _run(self, identity: int, mode: int) -> Steps:
        self._ack(identity, messages.WAITING, INPUT_BYTES)
        content = _content((yield from self._message()))
        if content is None or len(content) != INPUT_BYTES:
            self._ack(identity, messages.ERROR, len(content or b""), 1)
            return
        self._ack(identity, messages.PROCESSING, INPUT_BYTES)
        yield from self._message()
        if mode & messages.PER_LAYER:
            for first, last, parts in LAYERS:
                self._operator(identity, "", 5 << 24, last << 16 | first, parts, sum(parts), 1 << 16)
        total = [sum(parts[k] for _, _, parts in LAYERS) for k in range(3)]
        whole = (*total, sum(total), 0)
        self._operator(identity, "net", 0, 0, whole, sum(total), 0)
        result = self.compute(content)
        info = messages.tensor_info(tensor("out", OUTPUT_BYTES, 2 | 0x100))
        data = number(1, 0) + number(2, len(result)) + number(3, 0x3420_0000) + text(4, result)
        self._answer(identity, messages.DONE, 17, text(1, info) + text(2, data))

    def _operator(
        self, identity: int, name: str, kind: int, key: int, counters: tuple[int, ...], total: int, form: int
    ) -> None:
        told = text(1, name) + number(2, kind) + number(3, key) + real(4, 1e3 * total / CPU_HZ) + number(5, form)
        for value in counters:
            told += number(6, value) + (b"" if form else number(6, 0))
        self._answer(identity, messages.PROCESSING, 16, told + number(7, -1) + number(8, -1))

    def _access(self, identity: int, command: int, address: int, size: int) -> Steps:
        if address + size > len(self.memory):
            self._ack(identity, messages.ERROR, 4, 4)
        elif command == messages.MEMORY_CHECKSUM:
            from atonc.delivery.wire.client import checksum

            self._ack(identity, messages.DONE, checksum(bytes(self.memory[address : address + size])))
        elif command == messages.MEMORY_READ:
            self._ack(identity, messages.PROCESSING if size else messages.DONE, min(size, 1024))
            for at in range(0, size, 1024):
                part = bytes(self.memory[address + at : address + min(size, at + 1024)])
                last = at + 1024 >= size
                data = number(1, 0) + number(2, len(part)) + number(3, address + at) + text(4, part)
                self._answer(identity, messages.DONE if last else messages.PROCESSING, 15, data)
                if not last:
                    yield from self._message()
        else:
            yield from self._write(identity, address, size)

    def _write(self, identity: int, address: int, size: int) -> Steps:
        from atonc.delivery.wire.client import checksum

        self._ack(identity, messages.WAITING, min(size, 1024))
        while size > 0:
            part = _content((yield from self._message())) or b""
            if not part or len(part) > size:
                self._ack(identity, messages.ERROR, len(part), 1)
                return
            self.memory[address : address + len(part)] = part
            size -= len(part)
            address += len(part)
            self._ack(identity, messages.WAITING if size else messages.DONE, checksum(part))


def _numbers(message: bytes) -> dict[int, int] | None:
    try:
        return {key: value for key, value in messages.fields(message) if isinstance(value, int)}
    except messages.DecodeError:
        return None


def _content(message: bytes) -> bytes | None:
    try:
        return next((v for k, v in messages.fields(message) if k == 4 and isinstance(v, bytes)), None)
    except messages.DecodeError:
        return None


# ------------------------------------------------------------------------------------------------------------- the line


@dataclass(frozen=True)
class Fault:
    """At byte `at` of one direction (True: to the board): what happens to it."""

    to_board: bool
    at: int
    kind: str  # drop, double, corrupt, delay, reset, other
    amount: int = 1


class BadLine:
    """A link with faults. Time passes when somebody waits, and by bytes."""

    description = "line"

    def __init__(self, board: FakeBoard, faults: tuple[Fault, ...] = ()) -> None:
        self.board, self._now = board, 0.0
        self._faults = {(fault.to_board, fault.at): fault for fault in faults}
        self._count = {True: 0, False: 0}
        self._waiting: deque[tuple[float, int]] = deque()  # when it arrives, and the byte
        self.happened: list[Fault] = []

    def now(self) -> float:
        return self._now

    def write(self, data: bytes) -> None:
        for byte in data:
            self._now += BYTE_S
            for passed in self._pass(True, byte):
                self.board.take(passed)
            if self.board.sent:
                self._collect()

    def read(self, count: int, wait_s: float) -> bytes:
        limit = self._now + max(0.0, wait_s)
        if self._waiting and self._waiting[0][0] <= limit:
            self._now = max(self._now, self._waiting[0][0])
        elif not self._waiting or self._waiting[0][0] > limit:
            self._now = limit
        out = bytearray()
        while self._waiting and len(out) < count and self._waiting[0][0] <= self._now + _TOGETHER_S:
            arrives, byte = self._waiting.popleft()
            self._now = max(self._now, arrives)
            out.append(byte)
        return bytes(out)

    def close(self) -> None:
        pass

    def _collect(self) -> None:
        sent, self.board.sent = self.board.sent, bytearray()
        for byte in sent:
            start = max(self._now, self._waiting[-1][0] if self._waiting else 0.0) + BYTE_S
            late = self._faults.get((False, self._count[False]))
            extra = late.amount / 100 if late is not None and late.kind == "delay" else 0.0
            self._waiting += [(start + extra, passed) for passed in self._pass(False, byte)]

    def _pass(self, to_board: bool, byte: int) -> list[int]:
        fault = self._faults.get((to_board, self._count[to_board]))
        self._count[to_board] += 1
        if fault is None:
            return [byte]
        self.happened.append(fault)
        if fault.kind == "drop":
            return []
        if fault.kind == "double":
            return [byte, byte]
        if fault.kind == "corrupt":
            return [byte ^ (fault.amount & 0xFF or 1)]
        if fault.kind == "delay" and to_board:
            self._now += fault.amount / 100
        if fault.kind in ("reset", "other"):
            self.board.restart("second" if fault.kind == "other" else None)
            return []
        return [byte]


def script(seed: int, length: int) -> tuple[Fault, ...]:
    """Some faults, anywhere in a conversation of about so many bytes."""
    r = random.Random(seed)
    faults = []
    for _ in range(r.choice((1, 1, 2, 3, 6))):
        kind = r.choice(("drop", "drop", "double", "corrupt", "corrupt", "delay", "drop", "reset"))
        kind = "other" if r.random() < 0.03 else kind
        first = Fault(r.random() < 0.5, r.randrange(length), kind, r.randrange(1, 256))
        run = r.choice((1, 1, 1, 4, 40)) if kind in ("drop", "corrupt") else 1
        faults += [replace(first, at=first.at + k) for k in range(run)]
    return tuple(faults)
