"""The host's side of a conversation with a validation firmware.

The line has no checksum and no second try of its own, so this side has: answers are read strictly, and when one is
missing, late or no answer at all, the board is brought back to where it listens and the question is put again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from atonc.delivery.wire import messages
from atonc.delivery.wire.links import ByteLink, LinkClosed
from atonc.delivery.wire.messages import (
    MORE,
    NARROW,
    PAYLOAD,
    WIDE,
    Ack,
    DecodeError,
    Dialect,
    LogMessage,
    ModelInfo,
    Operator,
    PacketError,
    Response,
    Sync,
    SystemInfo,
    TensorMessage,
)
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass

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


T = TypeVar("T")

TRIES = 4
_QUIET_S, _SETTLE_S, _DRAIN_S = 0.1, 0.5, 3.0
_PACES_S = (0.03, 0.12, 0.5)  # between bytes, for boards that are slower and slower to answer
_INFO_S = 5.0
_SPARE_PACKETS = 64
_MAX_NETWORKS, _MAX_LAYERS = 16, 4096
_CHUNK = 1024  # bytes of memory in one message
_POISON = b"\xff" * PAYLOAD  # no message goes on like this


class TargetError(AtoncError):
    """The board does not answer, or not as it should."""

    exit_code = 4


class Refused(AtoncError):
    """The board understood and said no."""


@dataclass(frozen=True)
class ReportedLayer:
    """One operator that the board reported, with the tensors that came behind it."""

    operator: Operator
    tensors: tuple[TensorMessage, ...]

    @property
    def epochs(self) -> tuple[int, int]:
        """The first and the last of its block."""
        first, last = self.operator.id & 0xFFFF, self.operator.id >> 16
        return first, last if first <= last < 0x8000 else first

    @property
    def cycles(self) -> tuple[int, ...]:
        """Counted by the CPU's clock: before, core, after."""
        return (*self.operator.cycles, 0, 0, 0)[:3]


@dataclass(frozen=True)
class BoardRunResult:
    outputs: tuple[bytes, ...]
    network: Operator
    layers: tuple[ReportedLayer, ...]


class Client(Conversation):
    """`patience_s` is how long an inference may take."""

    def __init__(
        self, link: ByteLink, patience_s: float = 120.0, note: Callable[[str], None] = lambda line: None
    ) -> None:
        super().__init__(link, note)
        self.patience_s = patience_s
        self.sync_info: Sync | None = None
        self.faults = 0  # how often something had to be asked again
        self._met = False  # it has answered, so its dialect is known
        self.resets = False  # before every run: a run that is asked for again must not begin where the first one ended

    # ----------------------------------------------------------------------------------------------------- the commands

    def connect(self) -> Sync:
        self._again("the board does not answer", self._drain)
        self._again("the board does not answer", self._first_contact)
        self.sync_info = self._twice("the board does not answer", self._sync)
        if self.sync_info.version >> 8 != 3:
            raise TargetError(f"the board speaks protocol {self.sync_info.version_text}, this client 3.1 and 3.2")
        return self.sync_info

    def system_info(self) -> SystemInfo:
        """Asked twice: nothing else tells whether a number was damaged on the way."""
        return self._twice("the board says nothing certain about itself", self._system_info)

    def models(self) -> tuple[ModelInfo, ...]:
        found: list[ModelInfo] = []
        for index in range(_MAX_NETWORKS):
            model = self._twice("the board says nothing certain about its networks", partial(self._model, index))
            if model is None or any(model.name == other.name for other in found):
                break
            found.append(model)
        return tuple(found)

    def run(
        self, model: ModelInfo, inputs: Sequence[bytes], mode: int = messages.IO_ONLY, first: bool = True
    ) -> BoardRunResult:
        sizes = [tensor.size_bytes for tensor in model.inputs]
        if [len(value) for value in inputs] != sizes:
            raise TargetError(f"inputs of {[len(value) for value in inputs]} bytes for a network that takes {sizes}")
        if self.resets:
            self._can(messages.CAN_RESET, "reset states to their initial values")

        def once() -> BoardRunResult:
            if self.resets:
                self._reset(model)
            return self._run(model, inputs, mode, first)

        return self._again("the inference does not come to an end", once)

    def sequence(self, model: ModelInfo, frames: Sequence[Sequence[bytes]]) -> list[BoardRunResult]:
        """Frames in order, from first states on. After a fault of the line nobody knows how far the board came, so all
        of them are sent again."""
        self._can(messages.CAN_RESET, "reset states to their initial values")

        def whole() -> list[BoardRunResult]:
            self._reset(model)
            return [self._run(model, inputs, messages.IO_ONLY, number == 0) for number, inputs in enumerate(frames)]

        return self._again("the sequence does not come to an end", whole)

    def can(self, capability: int) -> bool:
        return self.sync_info is not None and bool(self.sync_info.capability & capability)

    def received(self, model: ModelInfo, inputs: Sequence[bytes]) -> tuple[bytes, ...]:
        """The inputs of a run as they lie in the board's memory: the run is given up before it begins."""
        self._can(messages.CAN_PROGRAMS, "give up a run")

        def once() -> None:
            self._offer(model, inputs, messages.IO_ONLY, first=True)
            self.link.write(len(_POISON).to_bytes(self.dialect.header_bytes, "big") + _POISON)

        self._again("the inputs cannot be sent", once)
        return tuple(self.read_memory(tensor.address, tensor.size_bytes) for tensor in model.inputs)

    def exchange(self, model: ModelInfo, block: int, address: int) -> None:
        """A block of the network runs the program at this address from now on; 0: every block its own again."""
        self._can(messages.CAN_PROGRAMS, "exchange programs")

        def once() -> None:
            self._ask(messages.PROGRAM, address, model.name, block)
            self._acknowledged(self._response(_INFO_S), messages.DONE)

        self._again("the board does not take another program", once)

    def checksum_of(self, address: int, size: int) -> int:
        """The board's own sum over its memory, asked twice."""
        self._can(messages.CAN_MEMORY, "read and write memory")
        return self._twice("memory cannot be read", lambda: self._checksum(address, size))

    def read_memory(self, address: int, size: int) -> bytes:
        """Read twice, and compared with the board's own checksum."""
        self._can(messages.CAN_MEMORY, "read and write memory")

        def once() -> bytes:
            return self._read(address, size)

        data = self._twice("memory cannot be read", once)
        if size and self._again("memory cannot be read", lambda: self._checksum(address, size)) != checksum(data):
            raise TargetError("the memory changes while it is read", where=f"{address:#010x}")
        return data

    def write_memory(self, address: int, data: bytes) -> None:
        self._can(messages.CAN_MEMORY, "read and write memory")
        self._again("memory cannot be written", lambda: self._write(address, data))
        if self.read_memory(address, len(data)) != data:
            raise TargetError("memory does not hold what was written", where=f"{address:#010x}")

    def disconnect(self) -> None:
        """A board of protocol 3.2 is told; others hear nothing."""
        try:
            if self.sync_info is not None and self.sync_info.version & 0xFF >= 2:
                self._ask(messages.DISCONNECT)
        except (WireFault, OSError):
            pass
        self.link.close()

    def _can(self, capability: int, what: str) -> None:
        if not self.can(capability):
            raise Refused(f"this firmware cannot {what}", remedy="use a firmware that announces it")

    # ---------------------------------------------------------------------------------------------------- trying again

    def _again(self, failure: str, action: Callable[[], T]) -> T:
        reason = ""
        for turn in range(TRIES):
            try:
                return action()
            except LinkClosed as error:
                raise TargetError(f"the line is gone: {error}", where=self.link.description) from error
            except (WireFault, PacketError, DecodeError) as error:
                reason = str(error)
                self.faults += 1
                self._note(f"line: {reason}; asking again")
                if turn + 1 < TRIES:
                    self._recover()
        raise TargetError(
            f"{failure}: {reason}",
            where=self.link.description,
            rule=f"every question is put {TRIES} times",
            remedy="check cable, port and speed, and that the firmware runs; reset the board",
        )

    def _twice(self, failure: str, action: Callable[[], T]) -> T:
        """Until two answers in a row agree."""
        before = self._again(failure, action)
        for _ in range(TRIES):
            after = self._again(failure, action)
            if after == before:
                return after
            self.faults += 1
            before = after
        raise TargetError(f"{failure}: it says something else each time", where=self.link.description)

    def _recover(self) -> None:
        """To where the board waits for a new message, whatever it is in the middle of."""
        try:
            self._drain(_SETTLE_S)
            for dialect in (self.dialect,) if self._met else (WIDE, NARROW):
                self.dialect = dialect
                if self._back_in_touch():
                    return
        except WireFault:
            pass  # nobody is there, or not yet
        except LinkClosed as error:
            raise TargetError(f"the line is gone: {error}", where=self.link.description) from error
        finally:
            self.dialect = self.dialect if self._met else WIDE

    def _back_in_touch(self) -> bool:
        if self._in_touch():
            return True
        for pace_s in _PACES_S:
            found = self._find_boundary(pace_s)
            if found is None:
                raise WireFault("silence")
            if found:
                self._end_message()
            if self._in_touch():
                return True
        return False

    def _in_touch(self) -> bool:
        try:
            self._sync()
        except (WireFault, PacketError, DecodeError):
            self._drain()
            return False
        self._met = True
        return True

    def _find_boundary(self, pace_s: float) -> bool | None:
        """Zeros, one by one, until the board answers: then it has just got a whole packet. It answers within two
        packets, since it asks for more behind a packet of zeros; and to be sure it has to do so once more. None: it is
        silent."""
        self._drain()
        size = self.dialect.packet_bytes(self._payload)
        for _ in range(2 * size):
            self.link.write(b"\0")
            if self.link.read(1, pace_s):
                self._drain()
                self.link.write(b"\0" * size)
                return self.link.read(2, 4 * pace_s) == bytes([MORE])
        return None

    def _end_message(self) -> None:
        """As long as it asks for more, it gets what no message goes on with: as much as the longest one had left."""
        packet = len(_POISON).to_bytes(self.dialect.header_bytes, "big") + _POISON
        self.link.write(packet)
        for _ in range(self._longest // PAYLOAD + _SPARE_PACKETS):
            if self.link.read(1, _QUIET_S) != bytes([MORE]):
                break
            self.link.write(packet)
        self._drain()

    def _drain(self, quiet_s: float = _QUIET_S) -> None:
        """Reads until nothing more comes."""
        limit = self.link.now() + _DRAIN_S
        while self.link.now() < limit and self.link.read(4096, quiet_s):
            pass

    # ------------------------------------------------------------------------------------------------------- questions

    def _first_contact(self) -> Sync:
        """A board that wants one byte of header takes the two-byte form for an empty packet, and asks for more."""
        if self._met:
            return self._sync()
        self.dialect = WIDE
        self._payload = PAYLOAD
        self._ask(messages.SYNC)
        first = self._bytes(1, SHORT_S)
        if first != bytes([MORE]):
            found = self._synchronised(first)
            self._met = True
            return found
        self.link.write(b"\0" * (PAYLOAD + NARROW.header_bytes - 1))  # with the byte that was too much: one packet
        if self._bytes(1, SHORT_S) != bytes([MORE]):
            raise WireFault("the board asks for something that this client does not know")
        self.dialect = NARROW
        found = self._sync()
        self._met = True
        return found

    def _sync(self) -> Sync:
        self._payload = PAYLOAD
        self._ask(messages.SYNC)
        return self._synchronised(b"")

    def _synchronised(self, begun: bytes) -> Sync:
        answer = self._response(SHORT_S, begun)
        if not isinstance(answer.payload, Sync) or answer.state != messages.IDLE:
            raise WireFault("the answer to a synchronisation is something else")
        return answer.payload

    def _system_info(self) -> SystemInfo:
        self._ask(messages.SYS_INFO)
        answer = self._response(SHORT_S)
        if not isinstance(answer.payload, SystemInfo) or answer.state != messages.IDLE:
            raise WireFault("no system information came")
        if answer.payload.packet > PAYLOAD:
            self._payload = answer.payload.packet
        return answer.payload

    def _model(self, index: int) -> ModelInfo | None:
        self._ask(messages.NETWORK_INFO, index)
        answer = self._after_logs(_INFO_S)
        if isinstance(answer.payload, Ack) and answer.state == messages.ERROR:
            return None
        if not isinstance(answer.payload, ModelInfo) or answer.state != messages.IDLE:
            raise WireFault("no description of a network came")
        return answer.payload

    def _offer(self, model: ModelInfo, inputs: Sequence[bytes], mode: int, first: bool) -> None:
        """All inputs of a run; the board begins when the last one is acknowledged."""
        self._ask(messages.NETWORK_RUN, mode, model.name, messages.FIRST_SAMPLE if first else 0)
        ready = self._acknowledged(self._after_logs(_INFO_S), messages.WAITING)
        if ready != len(inputs[0]):
            raise WireFault(f"the board wants {ready} bytes of input")
        for position, content in enumerate(inputs):
            self._send(messages.data(content))
            state = messages.PROCESSING if position + 1 == len(inputs) else messages.WAITING
            taken = self._acknowledged(self._after_logs(_INFO_S), state)
            if taken != len(content):
                raise WireFault(f"the board took {taken} of {len(content)} bytes")
            if state == messages.WAITING:
                self._send(messages.acknowledge())

    def _reset(self, model: ModelInfo) -> None:
        self._ask(messages.RESET, name=model.name)
        self._acknowledged(self._response(_INFO_S), messages.DONE)

    def _run(self, model: ModelInfo, inputs: Sequence[bytes], mode: int, first: bool) -> BoardRunResult:
        self._offer(model, inputs, mode, first)
        self._send(messages.acknowledge())
        layers, network = self._layers()
        outputs = []
        for position, expected in enumerate(model.outputs):
            answer = self._after_logs(self.patience_s)
            state = messages.DONE if position + 1 == len(model.outputs) else messages.PROCESSING
            outputs.append(_content(answer, expected, state))
        return BoardRunResult(tuple(outputs), network, tuple(layers))

    def _layers(self) -> tuple[list[ReportedLayer], Operator]:
        """Operators with their tensors, up to the one for the whole network."""
        layers: list[ReportedLayer] = []
        while len(layers) < _MAX_LAYERS:
            operator = self._after_logs(self.patience_s).payload
            if not isinstance(operator, Operator):
                raise WireFault("no times came")
            if not operator.flags & messages.OP_INTERNAL:
                return layers, operator
            tensors: list[TensorMessage] = []
            while not operator.flags & messages.OP_BARE:
                tensor = self._after_logs(self.patience_s).payload
                if not isinstance(tensor, TensorMessage):
                    raise WireFault("a layer's tensor is missing")
                tensors.append(tensor)
                if tensor.info.flags & messages.IS_LAST:
                    break
            layers.append(ReportedLayer(operator, tuple(tensors)))
        raise WireFault("layers without end")

    def _checksum(self, address: int, size: int) -> int:
        self._ask(messages.MEMORY_CHECKSUM, address, option=size)
        return self._acknowledged(self._response(_INFO_S), messages.DONE)

    def _read(self, address: int, size: int) -> bytes:
        self._ask(messages.MEMORY_READ, address, option=size)
        self._acknowledged(self._response(SHORT_S), messages.PROCESSING if size else messages.DONE)
        found = b""
        while len(found) < size:
            answer = self._response(_INFO_S)
            if not isinstance(answer.payload, messages.DataMessage) or answer.payload.address != address + len(found):
                raise WireFault("memory of another place came")
            found += answer.payload.data
            if answer.state == messages.PROCESSING:
                self._send(messages.acknowledge())
        if len(found) != size:
            raise WireFault(f"{len(found)} bytes of memory where {size} were wanted")
        return found

    def _write(self, address: int, data: bytes) -> None:
        self._ask(messages.MEMORY_WRITE, address, option=len(data))
        self._acknowledged(self._response(SHORT_S), messages.WAITING if data else messages.DONE)
        for at in range(0, len(data), _CHUNK):
            part = data[at : at + _CHUNK]
            self._send(messages.data(part, address + at))
            last = at + _CHUNK >= len(data)
            taken = self._acknowledged(self._response(_INFO_S), messages.DONE if last else messages.WAITING)
            if taken != checksum(part):
                raise WireFault("memory was damaged on the way")


def _content(answer: Response, expected: messages.TensorInfo, state: int) -> bytes:
    tensor = answer.payload
    if not isinstance(tensor, TensorMessage) or answer.state != state:
        raise WireFault("an output is missing")
    info = tensor.info
    same = (info.name, info.format, info.shape) == (expected.name, expected.format, expected.shape)
    if not same or tensor.data.size != expected.size_bytes:
        raise WireFault(f"output {info.name} came where {expected.name} was due")
    return tensor.data.data


def checksum(data: bytes) -> int:
    """The 16-bit sum that validation firmware computes over memory."""
    total = 0
    for byte in data:
        total = ((total >> 1) + ((total & 1) << 15) + byte) & 0xFFFF
    return total
