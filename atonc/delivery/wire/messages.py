"""The messages, as a client sends and reads them, in as much of protocol buffers as they need and in packets of fixed
size. Field numbers are those of the published protocol 3.1 and 3.2.

A message that lacks a field that it must have, or has one twice, is refused: the line carries no checksum, so what can
be checked is. Which of the two forms of packets a board speaks shows in its first answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial

import numpy as np

from atonc.machine.base.frozen import dataclass

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST_VARINT = 10

Value = int | bytes
Field = tuple[int, Value]  # number of the field; floats come as their bytes


class DecodeError(ValueError):
    """Not a message."""


def varint(number: int) -> bytes:
    """Negative numbers as 64 bits, as protocol buffers have them."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def real(field: int, value: float) -> bytes:
    return varint(field << 3 | _FOUR) + struct.pack("<f", value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number and where it ends."""
    value = 0
    for length in range(_LONGEST_VARINT):
        if at + length >= len(data):
            break
        byte = data[at + length]
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return value & (1 << 64) - 1, at + length + 1
    raise DecodeError("a number does not end")


def fields(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind, field = tag & 7, tag >> 3
        if field == 0:
            raise DecodeError("field 0")
        if kind == _VARINT:
            value, at = read_varint(data, at)
            yield field, value
            continue
        if kind == _BYTES:
            length, at = read_varint(data, at)
        elif kind in (_FOUR, _EIGHT):
            length = 4 if kind == _FOUR else 8
        else:
            raise DecodeError(f"wire type {kind}")
        if at + length > len(data):
            raise DecodeError(f"{length} bytes where {len(data) - at} are left")
        yield field, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """A 32-bit number with sign, however long it was written."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


SYNC, SYS_INFO, DISCONNECT, NETWORK_INFO, NETWORK_RUN = 0, 1, 2, 10, 11
MEMORY_READ, MEMORY_WRITE, MEMORY_CHECKSUM = 20, 21, 22
PROGRAM, RESET = 70, 71  # not ST's: asked of a firmware that has CAN_PROGRAMS, CAN_RESET
IDLE, WAITING, PROCESSING, DONE, ERROR = range(5)
IO_ONLY, PER_LAYER, WITH_DATA = 1, 2, 4
FIRST_SAMPLE = 1
CAN_OBSERVE, CAN_MEMORY = 1, 8
CAN_RESET = 0x200  # gives the states of a network their first values
CAN_PROGRAMS = 0x100  # takes other programs for blocks, and gives up a run whose inputs are not acknowledged
IS_INPUT, IS_OUTPUT, IS_INTERNAL, IS_LAST, NO_DATA, IN_POOL = 1, 2, 4, 0x100, 0x200, 0x400
OP_INTERNAL, OP_LAST, OP_BARE = 1, 2, 4  # of a layer, the last one, without tensors
COUNTERS_32 = 1
_FLOAT, _INTEGER, _BOOL = 1, 2, 3
_WIDTHS = {_FLOAT: (16, 32, 64), _INTEGER: (8, 16, 32, 64)}  # bits
_ERRORS = {
    0: "no error", 1: "wrong size", 2: "wrong format", 3: "wrong state", 4: "wrong parameter", 5: "wrong shape",
    6: "unknown command", 7: "not initialised", 8: "too much data", 10: "failed",
}  # fmt: skip


@dataclass(frozen=True)
class Sync:
    version: int
    capability: int
    runtime: int

    @property
    def version_text(self) -> str:
        return f"{self.version >> 8}.{self.version & 0xFF}"


STM32N6 = 0x486  # the device number of the chip


@dataclass(frozen=True)
class SystemInfo:
    device: int
    cpu_hz: int
    bus_hz: int
    cache: int
    packet: int
    extra: tuple[int, ...]

    @property
    def npu_hz(self) -> int:
        return self.extra[1] if len(self.extra) > 1 else 0


@dataclass(frozen=True)
class TensorInfo:
    name: str
    format: int
    elements: int
    dimensions: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    address: int
    flags: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        kind, bits = self.format >> 17 & 0xF, self.format >> 7 & 0x7F
        if kind == _BOOL:
            return np.dtype(np.uint8)
        letter = "f" if kind == _FLOAT else "i" if self.format >> 23 & 1 else "u"
        if kind not in _WIDTHS or bits not in _WIDTHS[kind]:
            raise DecodeError(f"tensor {self.name} has format {self.format:#010x}")
        return np.dtype(f"<{letter}{bits // 8}")

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True)
class ModelInfo:
    name: str
    runtime: int
    signature: str
    compiled: str
    runtime_version: int
    tool_version: int
    macs: int
    nodes: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    activations: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    description: str


@dataclass(frozen=True)
class DataMessage:
    kind: int
    size: int
    address: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Operator:
    name: str
    kind: int
    id: int
    duration_ms: float
    counter_type: int
    counters: tuple[int, ...]

    @property
    def flags(self) -> int:
        return self.kind >> 24

    @property
    def cycles(self) -> tuple[int, ...]:
        """Cycles of the CPU's clock: before, core, after; for a whole network also all and extra."""
        if self.counter_type >> 16 == COUNTERS_32:
            return self.counters
        return tuple(low | high << 32 for low, high in zip(self.counters[::2], self.counters[1::2], strict=True))


@dataclass(frozen=True)
class TensorMessage:
    info: TensorInfo
    data: DataMessage


@dataclass(frozen=True)
class Ack:
    param: int
    error: int

    @property
    def words(self) -> str:
        return _ERRORS.get(self.error, f"error {self.error}")


@dataclass(frozen=True)
class LogMessage:
    level: int
    text: str


Payload = Sync | SystemInfo | Ack | LogMessage | DataMessage | Operator | TensorMessage | ModelInfo


@dataclass(frozen=True)
class Response:
    request: int
    state: int
    payload: Payload


# ------------------------------------------------------------------------------------------------------------- sending


def request(identity: int, command: int, param: int = 0, name: str = "", option: int = 0) -> bytes:
    return (
        number(1, identity) + number(2, command) + number(3, param & 0xFFFF_FFFF) + text(4, name)
        + number(5, option & 0xFFFF_FFFF)
    )  # fmt: skip


def acknowledge(param: int = 0) -> bytes:
    return number(1, param) + number(2, 0)


def data(content: bytes, address: int = 0) -> bytes:
    return number(1, 0) + number(2, len(content)) + number(3, address) + text(4, content)


def tensor_info(info: TensorInfo) -> bytes:
    return (
        text(1, info.name) + number(2, info.format) + number(3, info.elements) + number(4, info.dimensions)
        + b"".join(number(5, size) for size in info.shape) + real(6, info.scale) + number(7, info.zero_point)
        + number(8, info.address) + number(9, info.flags)
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- reading


class _Fields:
    """The fields of one message, each taken once."""

    def __init__(self, message: bytes, what: str) -> None:
        self._what = what
        self._found: dict[int, list[Value]] = {}
        for key, value in fields(message):
            self._found.setdefault(key, []).append(value)

    def many(self, key: int) -> list[Value]:
        return self._found.get(key, [])

    def one(self, key: int) -> Value:
        found = self.many(key)
        if len(found) != 1:
            raise DecodeError(f"{self._what} has field {key} {len(found)} times")
        return found[0]

    def number(self, key: int) -> int:
        value = self.one(key)
        if not isinstance(value, int):
            raise DecodeError(f"{self._what}: field {key} is no number")
        return value

    def numbers(self, key: int) -> tuple[int, ...]:
        values = self.many(key)
        if any(not isinstance(value, int) for value in values):
            raise DecodeError(f"{self._what}: field {key} is no list of numbers")
        return tuple(int(value) for value in values if isinstance(value, int))

    def raw(self, key: int) -> bytes:
        value = self.one(key)
        if isinstance(value, int):
            raise DecodeError(f"{self._what}: field {key} has no bytes")
        return value

    def text(self, key: int) -> str:
        try:
            return self.raw(key).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{self._what}: field {key} is no text") from error

    def real(self, key: int) -> float:
        value = self.raw(key)
        if len(value) != 4:
            raise DecodeError(f"{self._what}: field {key} is no float")
        return float(struct.unpack("<f", value)[0])

    def messages(self, key: int) -> list[bytes]:
        values = self.many(key)
        if any(isinstance(value, int) for value in values):
            raise DecodeError(f"{self._what}: field {key} is no list of messages")
        return [value for value in values if not isinstance(value, int)]


def response(message: bytes, old: bool = False) -> Response:
    """`old`: the dialect of 3.1 without a packet size in its system information."""
    found = _Fields(message, "response")
    kinds = [key for key in _PAYLOADS if found.many(key)]
    if len(kinds) != 1:
        raise DecodeError(f"response with {len(kinds)} payloads")
    read = partial(_system_info, old=old) if kinds[0] == _SYSTEM else _PAYLOADS[kinds[0]]
    return Response(found.number(1), found.number(2), read(found.raw(kinds[0])))


def _sync(message: bytes) -> Sync:
    found = _Fields(message, "sync")
    return Sync(found.number(1), found.number(4), found.number(5))


def _system_info(message: bytes, old: bool = False) -> SystemInfo:
    found = _Fields(message, "system information")
    packet, extra = (0, found.numbers(5)) if old else (found.number(5), found.numbers(6))
    return SystemInfo(found.number(1), found.number(2), found.number(3), found.number(4), packet, extra)


def _ack(message: bytes) -> Ack:
    found = _Fields(message, "acknowledge")
    return Ack(found.number(1), found.number(2))


def _log(message: bytes) -> LogMessage:
    found = _Fields(message, "log")
    return LogMessage(found.number(1), found.raw(2).decode(errors="replace"))


def _data(message: bytes) -> DataMessage:
    found = _Fields(message, "data")
    read = DataMessage(found.number(1), found.number(2), found.number(3), found.raw(4))
    if len(read.data) != read.size:
        raise DecodeError(f"{len(read.data)} bytes of data that says {read.size}")
    return read


def _operator(message: bytes) -> Operator:
    found = _Fields(message, "operator")
    read = Operator(
        found.text(1), found.number(2), found.number(3), found.real(4), found.number(5), found.numbers(6)
    )  # fmt: skip
    if read.counter_type >> 16 != COUNTERS_32 and len(read.counters) % 2:
        raise DecodeError(f"operator {read.name} has {len(read.counters)} halves of counters")
    return read


def read_tensor_info(message: bytes) -> TensorInfo:
    found = _Fields(message, "tensor")
    info = TensorInfo(
        name=found.text(1),
        format=found.number(2),
        elements=found.number(3),
        dimensions=found.number(4),
        shape=found.numbers(5),
        scale=found.real(6),
        zero_point=signed(found.number(7)),
        address=found.number(8),
        flags=found.number(9),
    )  # fmt: skip
    if info.dimensions & 0xFF_FFFF != len(info.shape):
        raise DecodeError(f"tensor {info.name} has {len(info.shape)} dimensions and says {info.dimensions & 0xFFFFFF}")
    return info


def _tensor(message: bytes) -> TensorMessage:
    found = _Fields(message, "tensor")
    return TensorMessage(read_tensor_info(found.raw(1)), _data(found.raw(2)))


def _model(message: bytes) -> ModelInfo:
    found = _Fields(message, "model information")
    lists = []
    for count, key in ((10, 11), (12, 13), (14, 15), (16, 17)):
        tensors = tuple(read_tensor_info(inner) for inner in found.messages(key))
        if found.number(count) != len(tensors):
            raise DecodeError(f"{len(tensors)} tensors where {found.number(count)} are said")
        lists.append(tensors)
    return ModelInfo(
        name=found.text(1),
        runtime=found.number(2),
        signature=found.text(3),
        compiled=found.text(4),
        runtime_version=found.number(5),
        tool_version=found.number(6),
        macs=found.number(7),
        nodes=found.number(8),
        inputs=lists[0],
        outputs=lists[1],
        activations=lists[2],
        params=lists[3],
        description=found.text(20),
    )  # fmt: skip


_SYSTEM = 11
_PAYLOADS: dict[int, Callable[[bytes], Payload]] = {
    10: _sync, _SYSTEM: _system_info, 12: _ack, 13: _log, 15: _data, 16: _operator, 17: _tensor, 22: _model,
}  # fmt: skip


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
