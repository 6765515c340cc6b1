"""The virtual board as a target of gdb: one debugger at a time, on a TCP port.

A packet that nobody understands gets an empty answer, a malformed one an error, and none stops the server. A debugger
that vanishes leaves the board halted; one that detaches lets it run on.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.gdb_packets import PacketMark, PacketReader, frame
from atonc.machine.emu.board.board import VirtualBoard
from atonc.machine.emu.board.debugging import (
    CORE_REGISTERS,
    DOUBLE_REGISTERS,
    REGISTERS,
    SIGTRAP,
    SYSTEM_REGISTERS,
    BoardDebugger,
    DebugStop,
    register_bytes,
)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PACKET_BYTES = 0x4000
_RECEIVE_BYTES = 1 << 16
_LOOK_S = 0.1  # between two looks at whether the server shall end
_SEND_S = 10.0  # a debugger that takes nothing for so long is gone
_MALFORMED, _NOTHING_THERE, _RUNNING = b"E16", b"E0e", b"E10"  # numbers as errno has them
_FEATURES = b"PacketSize=%x;vContSupported+;QStartNoAckMode+;qXfer:features:read+;qXfer:memory-map:read+" % PACKET_BYTES
_OURS = b";atonc.board+"  # by which our own client knows its server
_PLACE = re.compile(rb"([0-9a-fA-F]{1,8}),([0-9a-fA-F]{1,8})")
_WIRE = re.compile(r"(?:(\[[0-9a-fA-F:]+\]|[\w.\-]*):)?(\d{1,5})")

Say = Callable[[str], None]
Handler = Callable[[bytes], bytes | None]


class MalformedPacket(ValueError):
    """Nothing that a debugger sends."""


@dataclass(frozen=True)
class GdbListening:
    """Where to listen."""

    host: str
    port: int


def listening_at(text: str, remote: bool = False) -> GdbListening:
    """[HOST]:PORT; `remote` allows addresses that other machines reach."""
    found = _WIRE.fullmatch(text)
    if not found or int(found[2]) > 65535:
        raise InputError(f"--gdb {text[:60]} is not [HOST]:PORT", rule="as in :3333; port 0 takes a free one")
    host = (found[1] or LOOPBACK[0]).strip("[]")
    if host not in LOOPBACK and not remote:
        raise InputError(
            f"--gdb {text[:60]}: this opens the board to other machines",
            rule="whoever connects can load and run any code on the virtual board",
            remedy="use :PORT, or allow it with --gdb-remote",
        )
    return GdbListening(host, int(found[2]))


class GdbServer:
    """Serves until `over` says so or a debugger orders `monitor quit`."""

    def __init__(self, make: Callable[[], VirtualBoard], at: GdbListening, over: Callable[[], bool]) -> None:
        try:
            family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
            self._server = socket.create_server((at.host, at.port), family=family)
        except OSError as error:
            raise InputError(
                f"{at.host}:{at.port} cannot be served: {error.strerror or error}", remedy="choose another port"
            ) from error
        self.port: int = self._server.getsockname()[1]
        self.host = at.host
        self.debugger = BoardDebugger(make, self._print)
        self.quit = False
        self._over = over
        self._client: socket.socket | None = None
        self._running = False
        self._last = DebugStop(SIGTRAP)
        self._fresh_line()
        self._handlers: dict[bytes, Handler] = {
            b"?": lambda _: self._reason(self._last), b"!": lambda _: b"OK", b"g": self._all_registers,
            b"G": self._set_all_registers, b"p": self._one_register, b"P": self._set_one_register, b"m": self._read,
            b"M": self._write_hex, b"X": self._write_binary, b"c": self._continue, b"C": self._continue,
            b"s": self._step, b"S": self._step, b"Z": self._insert, b"z": self._remove, b"H": lambda _: b"OK",
            b"T": lambda text: b"OK" if text in (b"1", b"01") else _MALFORMED, b"D": self._detach, b"k": self._kill,
            b"q": self._query, b"Q": self._set, b"v": self._verbose, b"R": self._restart,
        }  # fmt: skip

    @property
    def board(self) -> VirtualBoard:
        return self.debugger.board

    # ------------------------------------------------------------------------------------------------------- connection

    def serve(self) -> None:
        try:
            while not self.quit and not self._over():
                self._listen(0.0 if self._running else _LOOK_S)
                if self._running:
                    stopped = self.debugger.go()
                    if stopped is not None:
                        self._stop(stopped)
        finally:
            self._hang_up()
            self._server.close()

    def _listen(self, wait_s: float) -> None:
        wanted = [self._server, *([self._client] if self._client is not None else [])]
        ready = select.select(wanted, [], [], wait_s)[0]
        if self._server in ready:
            self._let_in(self._server.accept()[0])
        if self._client is not None and self._client in ready:
            self._receive()

    def _let_in(self, line: socket.socket) -> None:
        if self._client is not None:
            line.close()  # one at a time
            return
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.settimeout(_SEND_S)
        self._client = line
        self._fresh_line()
        if self._running:
            self._running, self._last = False, self.debugger.halt()

    def _fresh_line(self) -> None:
        self._reader, self._acknowledge, self._sent = PacketReader(repeats=False), True, b""

    def _receive(self) -> None:
        try:
            data = self._client.recv(_RECEIVE_BYTES) if self._client is not None else b""
        except OSError:
            data = b""
        if not data:
            self._vanished()
        for event in self._reader.feed(data):
            if self._client is None:
                return
            self._event(event)

    def _vanished(self) -> None:
        self._hang_up()
        if self._running:
            self._running, self._last = False, self.debugger.halt()
        self.debugger.remove_all()

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _event(self, event: bytes | PacketMark) -> None:
        if event is PacketMark.INTERRUPT:
            if self._running:
                self._stop(self.debugger.halt())
        elif event is PacketMark.AGAIN:
            self._send(self._sent)
        elif event is PacketMark.BROKEN:
            self._send(b"-" if self._acknowledge else frame(_MALFORMED))
        elif isinstance(event, bytes):
            if self._acknowledge:
                self._send(b"+")
            reply = _RUNNING if self._running else self._reply(event)
            if reply is not None:
                self._answer(reply)
            if event == b"QStartNoAckMode":
                self._acknowledge = False

    def _reply(self, packet: bytes) -> bytes | None:
        """None: the answer comes later, or never."""
        handler = self._handlers.get(packet[:1])
        try:
            return b"" if handler is None else handler(packet[1:])
        except MalformedPacket:
            return _MALFORMED
        except AtoncError:
            return _NOTHING_THERE

    def _answer(self, payload: bytes) -> None:
        self._sent = frame(payload)
        self._send(self._sent)

    def _send(self, data: bytes) -> None:
        if self._client is not None and data:
            try:
                self._client.sendall(data)
            except OSError:
                self._vanished()

    def _print(self, text: str) -> None:
        """On the debugger's console."""
        data = text.encode()
        for start in range(0, len(data), PACKET_BYTES // 4):
            self._answer(b"O" + data[start : start + PACKET_BYTES // 4].hex().encode())

    # -------------------------------------------------------------------------------------------------------- run, stop

    def _continue(self, text: bytes) -> None:
        self._go_from(text)
        self._running = True

    def _step(self, text: bytes) -> None:
        self._go_from(text)
        self._stop(self.debugger.step())

    def _go_from(self, text: bytes) -> None:
        """`c`, `c ADDRESS`; a signal that comes before it means nothing to a chip."""
        address = text.rpartition(b";")[2] if b";" in text else text
        if address and len(text) != 2:
            self.debugger.set_register("pc", _number(address))

    def _stop(self, stopped: DebugStop) -> None:
        self._running, self._last = False, stopped
        if stopped.text:
            self._print(stopped.text)
        self._answer(self._reason(stopped))

    @staticmethod
    def _reason(stopped: DebugStop) -> bytes:
        if stopped.exit_code is not None:
            return b"W%02x" % stopped.exit_code
        watch = b"" if stopped.watch is None else b"%s:%x;" % (stopped.watch[0].encode(), stopped.watch[1])
        return b"T%02x%sthread:1;" % (stopped.signal, watch)

    def _insert(self, text: bytes) -> bytes:
        kind, address, size = _stop_at(text)
        self.debugger.insert(kind, address, size)
        return b"OK"

    def _remove(self, text: bytes) -> bytes:
        self.debugger.remove(*_stop_at(text))
        return b"OK"

    def _detach(self, _: bytes) -> None:
        """The board runs on alone."""
        self._answer(b"OK")
        self._hang_up()
        self.debugger.remove_all()
        self._running = self._last.exit_code is None

    def _kill(self, _: bytes) -> None:
        self._hang_up()
        self.debugger.remove_all()
        self._reset()

    def _restart(self, _: bytes) -> None:
        self._reset()

    def _reset(self) -> None:
        self.debugger.reset()
        self._last = DebugStop(SIGTRAP)

    def _verbose(self, text: bytes) -> bytes | None:
        if text == b"Cont?":
            return b"vCont;c;C;s;S"
        if text.startswith(b"Cont;"):
            action = text[5:].partition(b";")[0].partition(b":")[0][:1]
            if action not in (b"c", b"C", b"s", b"S"):
                raise MalformedPacket
            (self._step if action in (b"s", b"S") else self._continue)(b"")
            return None
        if text.startswith(b"Kill;"):
            self._reset()
            return b"OK"
        return b""

    # -------------------------------------------------------------------------------------------------------- registers

    def _all_registers(self, _: bytes) -> bytes:
        return b"".join(self._value(name) for name in REGISTERS)

    def _value(self, name: str) -> bytes:
        return self.debugger.register(name).to_bytes(register_bytes(name), "little").hex().encode()

    def _set_all_registers(self, text: bytes) -> bytes:
        data = _bytes(text)
        if len(data) != sum(map(register_bytes, REGISTERS)):
            raise MalformedPacket
        at = 0
        for name in REGISTERS:
            size = register_bytes(name)
            self.debugger.set_register(name, int.from_bytes(data[at : at + size], "little"))
            at += size
        return b"OK"

    def _one_register(self, text: bytes) -> bytes:
        return self._value(_register(text))

    def _set_one_register(self, text: bytes) -> bytes:
        number, _, value = text.partition(b"=")
        name, data = _register(number), _bytes(value)
        if len(data) != register_bytes(name):
            raise MalformedPacket
        self.debugger.set_register(name, int.from_bytes(data, "little"))
        return b"OK"

    # ----------------------------------------------------------------------------------------------------------- memory

    def _read(self, text: bytes) -> bytes:
        address, size = _place(text)
        return self.debugger.read(address, min(size, PACKET_BYTES // 2 - 16)).hex().encode()

    def _write_hex(self, text: bytes) -> bytes:
        place, _, data = text.partition(b":")
        return self._write(place, _bytes(data))

    def _write_binary(self, text: bytes) -> bytes:
        place, _, data = text.partition(b":")
        return self._write(place, data)

    def _write(self, place: bytes, data: bytes) -> bytes:
        address, size = _place(place)
        if size != len(data):
            raise MalformedPacket
        self.debugger.write(address, data)
        return b"OK"

    # ---------------------------------------------------------------------------------------------------------- queries

    def _query(self, text: bytes) -> bytes | None:
        name, _, rest = text.partition(b":")
        fixed = {
            b"Supported": _FEATURES + _OURS, b"C": b"QC1", b"fThreadInfo": b"m1", b"sThreadInfo": b"l",
            b"Attached": b"1", b"Symbol": b"OK",
        }  # fmt: skip
        if name in fixed:
            return fixed[name]
        if name == b"Xfer":
            return self._transfer(rest)
        return self._monitor(_bytes(text[5:])) if text.startswith(b"Rcmd,") else b""

    def _set(self, text: bytes) -> bytes:
        return b"OK" if text == b"StartNoAckMode" else b""

    def _transfer(self, text: bytes) -> bytes:
        documents = {b"features:read:target.xml": target_description, b"memory-map:read:": self._memory_map}
        what, _, place = text.rpartition(b":")
        if what not in documents:
            return b""
        offset, size = _place(place)
        document = documents[what]().encode()
        part = document[offset : offset + min(size, PACKET_BYTES - 64)]
        return (b"l" if offset + len(part) >= len(document) else b"m") + part

    def _memory_map(self) -> str:
        places = "".join(
            f'<memory type="ram" start="{start:#x}" length="{size:#x}"/>' for start, size in self.debugger.memory_map()
        )
        return f'<?xml version="1.0"?><memory-map>{places}</memory-map>'

    def _monitor(self, order: bytes) -> bytes:
        said = self._order(" ".join(order.decode("latin1").split()))
        self._print(said)
        return b"OK"

    def _order(self, order: str) -> str:
        """What a command of the board itself prints."""
        board = self.board
        if order in ("reset", "reset halt", "reset init"):
            self._reset()
            return f"the board is reset and halted: {self.board.where()}\n"
        if order == "halt":
            return f"halted: {board.where()}\n"
        if order == "cycles":
            return f"{board.clock.now} cycles, {board.core.instructions} instructions, {board.npu.epochs} epochs\n"
        if order == "where":
            return "".join(f"{line}\n" for line in board.picture())
        if order in ("see cpu", "see npu"):
            self.debugger.other_masters = order == "see npu"
            return f"memory is shown as the {order[4:].upper()} sees it\n"
        if order == "version":
            return "atonc virtual board\n"
        if order == "quit":
            self.quit = True
            return "the virtual board ends\n"
        return _HELP if order in ("help", "") else f"unknown command {order[:40]!r}\n{_HELP}"


_HELP = """monitor reset        reset the chip and halt it (also: reset halt); memories keep their bytes
monitor halt         where the core stands
monitor cycles       what the board's clock says
monitor where        registers, caller, the last accesses to devices
monitor see npu      show memory as the NPU sees it; see cpu: through the data cache (default)
monitor quit         end the virtual board
"""


def _number(text: bytes) -> int:
    if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", text):
        raise MalformedPacket
    return int(text, 16)


def _place(text: bytes) -> tuple[int, int]:
    found = _PLACE.fullmatch(text)
    if not found:
        raise MalformedPacket
    return int(found[1], 16), int(found[2], 16)


def _stop_at(text: bytes) -> tuple[int, int, int]:
    """Kind, address and size; conditions are the debugger's own affair."""
    kind, _, place = text.partition(b",")
    address, size = _place(place.partition(b";")[0])
    if kind not in (b"0", b"1", b"2", b"3", b"4") or not 1 <= size <= 64:
        raise MalformedPacket
    return int(kind), address, size


def _bytes(text: bytes) -> bytes:
    if not re.fullmatch(rb"(?:[0-9a-fA-F]{2})*", text):
        raise MalformedPacket
    return bytes.fromhex(text.decode())


def _register(text: bytes) -> str:
    number = _number(text)
    if number >= len(REGISTERS):
        raise MalformedPacket
    return REGISTERS[number]


def target_description() -> str:
    """A Cortex-M55 as gdb knows it: single-precision and vector registers follow from the doubles."""

    def feature(name: str, registers: tuple[str, ...]) -> str:
        kinds = {"sp": "data_ptr", "msp": "data_ptr", "psp": "data_ptr", "lr": "code_ptr", "pc": "code_ptr"}
        kinds |= dict.fromkeys(DOUBLE_REGISTERS, "ieee_double")
        entries = "".join(
            f'<reg name="{register}" bitsize="{8 * register_bytes(register)}" regnum="{REGISTERS.index(register)}" '
            f'type="{kinds.get(register, "uint32")}"/>'
            for register in registers
        )
        return f'<feature name="org.gnu.gdb.arm.{name}">{entries}</feature>'

    features = (
        feature("m-profile", CORE_REGISTERS),
        feature("m-system", SYSTEM_REGISTERS),
        feature("vfp", (*DOUBLE_REGISTERS, "fpscr")),
        feature("m-profile-mve", ("vpr",)),
    )
    return f'<?xml version="1.0"?><target version="1.0"><architecture>arm</architecture>{"".join(features)}</target>'
