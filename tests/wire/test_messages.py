"""Messages as bytes: what is written reads back, and what is no message is refused with what is wrong about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.delivery.wire import messages
from atonc.delivery.wire.messages import NARROW, WIDE, DecodeError, PacketError, TensorInfo, number, real, text

INT8 = 2 << 17 | 8 << 7 | 1 << 23
INFO = TensorInfo("x", INT8, 24, 4, (1, 2, 3, 4), 0.5, -128, 0x34200000, messages.IS_INPUT)
DATA = messages.data(b"abcd", 16)
OPERATOR = text(1, "conv") + number(2, 3) + number(3, 4) + real(4, 0.5)
INFORMATION = b"".join(number(key, key) for key in (1, 2, 3, 4, 5)) + number(6, 7) + number(6, 8)
COUNTS = (10, 12, 14, 16)


def answer(kind: int, payload: bytes) -> bytes:
    return number(1, 7) + number(2, messages.DONE) + text(kind, payload)


def model(counts: Sequence[int] = (1, 0, 0, 0), tensors: bytes = text(11, messages.tensor_info(INFO))) -> bytes:
    said = {1: "net", 3: "hash", 4: "today", 20: ""}
    return (
        b"".join(text(key, words) for key, words in said.items())
        + b"".join(number(key, key) for key in (2, 5, 6, 7, 8))
        + b"".join(number(key, count) for key, count in zip(COUNTS, counts, strict=True))
        + tensors
    )


@given(st.integers(-(2**63), 2**64 - 1))
def test_numbers_read_back(value: int) -> None:
    assert messages.read_varint(b"?" + messages.varint(value), 1) == (value % 2**64, 1 + len(messages.varint(value)))


def test_every_payload_reads_back() -> None:
    def read(kind: int, payload: bytes, old: bool = False) -> object:
        found = messages.response(answer(kind, payload), old)
        assert (found.request, found.state) == (7, messages.DONE)
        return found.payload

    sync = read(10, number(1, 0x0302) + number(4, 9) + number(5, 1))
    assert isinstance(sync, messages.Sync) and (sync.version_text, sync.capability) == ("3.2", 9)
    system = read(11, INFORMATION)
    assert system == messages.SystemInfo(1, 2, 3, 4, 5, (7, 8)) and system.npu_hz == 8
    assert read(11, INFORMATION, old=True) == messages.SystemInfo(1, 2, 3, 4, 0, (5,))
    ack = read(12, number(1, 3) + number(2, 4))
    assert isinstance(ack, messages.Ack) and ack.words == "wrong parameter"
    assert messages.Ack(0, 9).words == "error 9"
    assert read(13, number(1, 2) + text(2, b"a\xff")) == messages.LogMessage(2, "a�")
    assert read(15, DATA) == messages.DataMessage(0, 4, 16, b"abcd")
    assert read(17, text(1, messages.tensor_info(INFO)) + text(2, DATA)) == messages.TensorMessage(
        INFO, messages.DataMessage(0, 4, 16, b"abcd")
    )
    halves = read(16, OPERATOR + number(5, 0) + b"".join(number(6, n) for n in (1, 2, 3, 4)))
    words = read(16, OPERATOR + number(5, messages.COUNTERS_32 << 16) + number(6, 1) + number(6, 2))
    assert isinstance(halves, messages.Operator) and halves.cycles == (1 | 2 << 32, 3 | 4 << 32)
    assert isinstance(words, messages.Operator) and words.cycles == (1, 2)
    network = read(22, model())
    assert isinstance(network, messages.ModelInfo) and network.inputs == (INFO,) and network.nodes == 8


def test_fields_of_eight_bytes_are_passed_over() -> None:
    assert messages.response(b"\xf9\x01" + bytes(8) + answer(12, number(1, 0) + number(2, 0))).request == 7


@pytest.mark.parametrize(
    ("kind", "bits", "sign", "dtype"),
    [
        (1, 16, 0, "<f2"), (1, 32, 1, "<f4"), (1, 64, 0, "<f8"), (2, 8, 0, "u1"), (2, 8, 1, "i1"), (2, 16, 1, "<i2"),
        (2, 32, 0, "<u4"), (2, 64, 1, "<i8"), (3, 8, 0, "u1"),
        (1, 8, 0, None), (1, 24, 0, None), (1, 120, 0, None), (2, 4, 0, None), (2, 24, 0, None), (0, 8, 0, None),
    ],
)  # fmt: skip
def test_formats(kind: int, bits: int, sign: int, dtype: str | None) -> None:
    info = TensorInfo("x", sign << 23 | kind << 17 | bits << 7, 5, 1, (5,), 1.0, 0, 0, 0)
    if dtype is None:
        with pytest.raises(DecodeError, match="tensor x has format 0x"):
            _ = info.size_bytes
    else:
        assert info.dtype == np.dtype(dtype) and info.size_bytes == 5 * np.dtype(dtype).itemsize


ACK = number(1, 0) + number(2, 0)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\x80", "a number does not end"),
        (b"\xff" * 11, "a number does not end"),
        (b"\x00\x00", "field 0"),
        (b"\x0b", "wire type 3"),
        (b"\x0a\x05ab", "5 bytes where 2 are left"),
        (b"\x0d\x01", "4 bytes where 1 are left"),
        (number(1, 7) + number(2, 3), "response with 0 payloads"),
        (answer(12, ACK) + text(13, number(1, 0)), "response with 2 payloads"),
        (number(1, 7) + text(12, ACK), "response has field 2 0 times"),
        (answer(12, ACK) + number(1, 8), "response has field 1 2 times"),
        (text(1, "7") + number(2, 3) + text(12, ACK), "response: field 1 is no number"),
        (number(1, 7) + number(2, 3) + number(12, 1), "response: field 12 has no bytes"),
        (answer(13, number(1, 0) + number(2, 0)), "log: field 2 has no bytes"),
        (answer(11, INFORMATION + text(6, "x")), "system information: field 6 is no list of numbers"),
        (answer(15, number(1, 0) + number(2, 5) + number(3, 0) + text(4, "abcd")), "4 bytes of data that says 5"),
        (answer(16, OPERATOR.replace(b"conv", b"c\xffnv") + number(5, 0)), "operator: field 1 is no text"),
        (answer(16, OPERATOR[:-5] + text(4, "abc") + number(5, 0)), "operator: field 4 is no float"),
        (answer(16, OPERATOR + number(5, 0) + number(6, 1)), "operator conv has 1 halves of counters"),
        (answer(22, model((2, 0, 0, 0))), "1 tensors where 2 are said"),
        (answer(22, model((1, 0, 0, 0), number(11, 1))), "model information: field 11 is no list of messages"),
        (
            answer(17, text(1, messages.tensor_info(INFO) + number(5, 9)) + text(2, DATA)),
            "tensor x has 5 dimensions and says 4",
        ),
    ],
)
def test_what_is_no_message_is_refused(message: bytes, said: str) -> None:
    with pytest.raises(DecodeError) as refused:
        messages.response(message)
    assert str(refused.value) == said


@pytest.mark.parametrize("dialect", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 100])
def test_packets_give_the_message_back(dialect: messages.Dialect, size: int) -> None:
    message = bytes(range(size))
    packets = list(dialect.answer(message))
    assert {len(packet) for packet in packets} == {dialect.packet_bytes()}
    opened = [dialect.open(packet) for packet in packets]
    assert b"".join(part for part, _ in opened) == message
    assert [last for _, last in opened] == [False] * (len(packets) - 1) + [True]
    cut = list(dialect.cut(message))
    sent = b"".join(packet[dialect.header_bytes :][: packet[dialect.header_bytes - 1]] for packet in cut)
    assert sent == messages.varint(size) + message and len(cut) == math.ceil((size + 1) / 32)


@pytest.mark.parametrize(
    ("packet", "said"), [(b"\x00\x21", "33 of 32 bytes"), (b"\x00\x1f", "31 of 32 bytes"), (b"\x80\x21", "33 of 32")]
)
def test_what_no_packet_begins_with(packet: bytes, said: str) -> None:
    with pytest.raises(PacketError, match=f"a packet with {said}"):
        WIDE.open(packet + bytes(32))
