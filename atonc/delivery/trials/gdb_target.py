"""A chip, or the virtual board, through any GDB server: memory, registers, breakpoints, run and stop.

The client speaks what all servers understand and asks for the rest: which server it is decides only how a reset is
ordered (`gdb_servers`). It works without X packets, without no-ack mode, with small packets and with either way of
sending a monitor command's output.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from atonc.delivery.trials.gdb_servers import DIALECTS, FAILURE, UNKNOWN, GdbDialect, RunningServer, retries
from atonc.machine.base.errors import ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.gdb_packets import MOST_PAYLOAD, PacketMark, PacketReader, frame

DEFAULT_PORT = 3333
_SUPPORTED = b"qSupported:swbreak+;hwbreak+;vContSupported+"
_CHUNK = 1 << 16
_MOST_ANSWER = 4 * MOST_PAYLOAD  # bytes that no answer comes near, whatever is printed around it
_LEAST_PACKET, _MOST_PACKET = 64, 0x4000
_OVERHEAD = 40  # characters of a packet that are no data
_TRIES = 3
_SIGNAL_INTERRUPT, _SIGNAL_TRAP = 2, 5
_ADDRESS = re.compile(r"(?:(?P<host>[\w.\-]*|\[[0-9a-fA-F:]+\]):)?(?P<port>\d{1,5})")
_REGISTER = re.compile(r"<reg\s([^>]*)/?>|<xi:include\s([^>]*)/?>")
_ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*["']([^"']*)["']""")
_MOST_DESCRIPTION = 1 << 20
_MOST_REGISTERS, _MOST_INCLUDES = 1024, 16
_ALIASES = {"r13": "sp", "r14": "lr", "r15": "pc", "cpsr": "xpsr"}

Output = Callable[[str], None]


@dataclass(frozen=True)
class StopReason:
    """Why the core stands still: `breakpoint` (also a BKPT instruction or a finished step), `interrupt`, `watch`,
    `fault`, or `exit` of the firmware. `pc` is None where the server has no process any more."""

    kind: str
    pc: int | None
    signal: int = 0
    text: str = ""  # the server's own words


@dataclass(frozen=True)
class TargetRegister:
    number: int
    size_bytes: int
    offset: int  # in the answer with all registers


# before a server says otherwise: what gdb itself assumes of an Arm core without a description
_PLAIN_REGISTERS = {
    **{name: TargetRegister(k, 4, 4 * k) for k, name in enumerate((*(f"r{n}" for n in range(13)), "sp", "lr", "pc"))},
    "xpsr": TargetRegister(25, 4, 164),
}


@dataclass(frozen=True)
class GdbAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def address_of(text: str) -> GdbAddress:
    """HOST:PORT, :PORT or PORT."""
    found = _ADDRESS.fullmatch(text.strip())
    if not found or not 0 <= int(found["port"]) <= 65535:
        raise ToolError(f"{text[:60]!r} is no address of a GDB server", remedy="give HOST:PORT, as in localhost:3333")
    return GdbAddress((found["host"] or "127.0.0.1").strip("[]"), int(found["port"]))


def started_target(server: RunningServer, port: int, say: Output | None = None) -> GdbTarget:
    """The target behind a server that is starting."""
    for _ in retries(server):
        try:
            return GdbTarget(f"127.0.0.1:{port}", say=say, dialect=server.found.program.dialect)
        except ToolError:
            continue
    raise server.failure("the GDB server does not answer")


class GdbTarget:
    """A debug target. `wait_s` is how long the server may take for an answer; `say` hears what the firmware prints over
    semihosting. A `dialect` that is known, because the server was started here, is not asked for."""

    def __init__(
        self, address: str, wait_s: float = 10.0, say: Output | None = None, dialect: GdbDialect = UNKNOWN
    ) -> None:
        self.address, self.wait_s, self.say, self.dialect = address_of(address), wait_s, say, dialect
        self.features: dict[str, str] = {}
        self.running = False
        self._line: socket.socket | None = None
        self._breakpoints: dict[int, bytes] = {}  # address -> type of packet that the server took
        self.connect()

    # ------------------------------------------------------------------------------------------------------ connection

    def connect(self) -> None:
        """Also again, after the connection was lost: breakpoints are set anew."""
        self._hang_up()
        try:
            self._line = socket.create_connection((self.address.host, self.address.port), self.wait_s)
        except OSError as error:
            raise self._error(
                f"no GDB server answers: {error.strerror or error}",
                "start the server of your debug probe, or let `atonc board try` start one; "
                "then give its address with --gdb HOST:PORT",
            ) from error
        self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader, self._came = PacketReader(repeats=True), list[bytes | PacketMark]()
        self._acknowledge = True
        self._flood = 0  # bytes since the last packet was sent, or since the running firmware has printed
        self._binary: bool | None = None  # whether the server takes X packets; None: not asked yet
        self._single: bool | None = None  # whether it takes p packets
        self.running = False
        self._line.sendall(b"+")
        self._negotiate()

    def _negotiate(self) -> None:
        words = self._ask(_SUPPORTED).decode("latin1").split(";")
        pairs = (word.partition("=") for word in words if word)
        self.features = {name.rstrip("+-?"): value or name[-1:] for name, _, value in pairs}
        size = self.features.get("PacketSize", "")
        stated = int(size, 16) if re.fullmatch("[0-9a-fA-F]{1,8}", size) else 400
        self._packet_size = min(max(stated, _LEAST_PACKET), _MOST_PACKET)
        if self.features.get("QStartNoAckMode") == "+" and self._ask(b"QStartNoAckMode") == b"OK":
            self._acknowledge = False
        self._ask(b"Hg0")
        self._stopped_now()
        self._registers = self._description()
        self.dialect = self._recognise() if self.dialect is UNKNOWN else self.dialect
        for address in tuple(self._breakpoints):
            self.break_at(address)

    def _stopped_now(self) -> None:
        """A server that lets the core run when somebody attaches is told to stop it."""
        reply = self._ask(b"?")
        if reply[:1] in (b"S", b"T", b"W", b"X"):
            return
        self._send_raw(b"\x03")
        self._reply(self.wait_s)

    def _recognise(self) -> GdbDialect:
        """By its features where they give it away, else by what it says to `monitor version`."""
        joined = ";".join(f"{name}{value}" for name, value in self.features.items())
        for dialect in DIALECTS:
            if dialect.feature and re.search(dialect.feature, joined):
                return dialect
        said = self.monitor("version", must=False)
        return next((dialect for dialect in DIALECTS if re.search(dialect.words, said, re.IGNORECASE)), UNKNOWN)

    def _description(self) -> dict[str, TargetRegister]:
        if self.features.get("qXfer:features:read") != "+":
            return dict(_PLAIN_REGISTERS)
        return registers_of(self._document) or dict(_PLAIN_REGISTERS)

    def _document(self, name: str) -> str:
        text = bytearray()
        while len(text) < _MOST_DESCRIPTION:
            size = self._packet_size - _OVERHEAD
            part = self._ask(b"qXfer:features:read:%s:%x,%x" % (name.encode("latin1", "replace"), len(text), size))
            if part[:1] not in (b"l", b"m") or part == b"m":
                break
            text += part[1:]
            if part[:1] == b"l":
                break
        return text.decode("utf-8", "replace")

    def close(self) -> None:
        """Leaves the core as it is: halted if it is halted."""
        self._hang_up()

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    # ---------------------------------------------------------------------------------------------------------- memory

    def read(self, address: int, size: int) -> bytes:
        found = bytearray()
        most = (self._packet_size - _OVERHEAD) // 2
        while len(found) < size:
            here, count = address + len(found), min(most, size - len(found))
            reply = self._ask(b"m%x,%x" % (here, count))
            try:
                part = bytes.fromhex(reply.decode("ascii"))
            except ValueError:
                part = b""
            if not part or len(part) > count:
                raise self._refused(f"{count} bytes at {here:#010x} cannot be read", reply)
            found += part
        return bytes(found)

    def write(self, address: int, data: bytes) -> None:
        if self._binary is None:
            self._binary = self._ask(b"X%x,0:" % address) == b"OK"
        most = (self._packet_size - _OVERHEAD) // 2  # escapes can double it
        for start in range(0, len(data), most):
            here, part = address + start, data[start : start + most]
            if self._binary:
                reply = self._ask(b"X%x,%x:%s" % (here, len(part), part))
            else:
                reply = self._ask(b"M%x,%x:%s" % (here, len(part), part.hex().encode()))
            if reply != b"OK":
                raise self._refused(f"{len(part)} bytes at {here:#010x} cannot be written", reply)

    # ------------------------------------------------------------------------------------------------------- registers

    @property
    def registers(self) -> tuple[str, ...]:
        return tuple(self._registers)

    def register(self, name: str) -> int:
        place = self._place(name)
        if self._single is not False:
            reply = self._ask(b"p%x" % place.number)
            if reply or self._single:
                self._single = True
                return self._value(name, reply)
            self._single = False
        start = 2 * place.offset
        return self._value(name, self._ask(b"g")[start : start + 2 * place.size_bytes])

    def set_register(self, name: str, value: int) -> None:
        place = self._place(name)
        word = (value & (1 << 8 * place.size_bytes) - 1).to_bytes(place.size_bytes, "little").hex().encode()
        reply = self._ask(b"P%x=%s" % (place.number, word))
        if not reply:
            everything = self._ask(b"g")
            start = 2 * place.offset
            reply = self._ask(b"G" + everything[:start] + word + everything[start + len(word) :])
        if reply != b"OK":
            raise self._refused(f"register {name} cannot be written", reply)

    def _place(self, name: str) -> TargetRegister:
        found = self._registers.get(name.lower()) or self._registers.get(_ALIASES.get(name.lower(), ""))
        if found is None:
            raise self._error(f"the server knows no register {name}", "", f"it has: {', '.join(self._registers)[:200]}")
        return found

    def _value(self, name: str, reply: bytes) -> int:
        if not re.fullmatch(rb"(?:[0-9a-fA-F]{2}){1,16}", reply):
            raise self._refused(f"register {name} cannot be read", reply)
        return int.from_bytes(bytes.fromhex(reply.decode()), "little")

    # --------------------------------------------------------------------------------------------------- stop and start

    def reset(self) -> None:
        """Resets the chip and halts it before its first instruction; breakpoints stay."""
        standing = tuple(self._breakpoints)
        for address in standing:
            self.clear_break(address)
        self._order_reset()
        reply = self._ask(b"?")
        if reply[:1] not in (b"S", b"T"):
            raise self._refused("the chip does not stand still after a reset", reply)
        for address in standing:
            self.break_at(address)

    def _order_reset(self) -> None:
        for orders in self.dialect.reset:
            try:
                for order in orders:
                    said = self.monitor(order)
                    if FAILURE.search(said):
                        raise self._refused(f"`monitor {order}` failed", b"", said=said)
                return
            except ToolError:
                if orders == self.dialect.reset[-1]:
                    raise

    def break_at(self, address: int) -> None:
        """A breakpoint by a comparator of the core, which works in every memory; else one that the server plants."""
        reply = b""
        for kind in (b"1", b"0"):
            reply = self._ask(b"Z%s,%x,2" % (kind, address & ~1))
            if reply == b"OK":
                self._breakpoints[address & ~1] = kind
                return
        raise self._refused(f"no breakpoint at {address:#010x}", reply, "a Cortex-M55 has eight: remove others")

    def clear_break(self, address: int) -> None:
        kind = self._breakpoints.pop(address & ~1, None)
        if kind is not None:
            self._ask(b"z%s,%x,2" % (kind, address & ~1))

    def step(self) -> StopReason:
        """One instruction. A breakpoint at it is taken away meanwhile, as debuggers do: servers would stop at once."""
        here = self.register("pc") & ~1
        standing = here in self._breakpoints
        self.clear_break(here)
        self._send(b"s")
        self.running = True
        stopped = self.wait(self.wait_s)
        if stopped is None:
            raise self._error("a single step does not end", "interrupt the core and look where it stands")
        if standing:
            self.break_at(here)
        return stopped

    def go(self) -> None:
        """Lets the core run, over a breakpoint that it stands at."""
        if self.register("pc") & ~1 in self._breakpoints:
            self.step()
        self._send(b"c")
        self.running = True

    def wait(self, seconds: float) -> StopReason | None:
        """Until the core stops; None when it still runs after so long."""
        if not self.running:
            raise self._error("the core does not run", "call go() first")
        end = time.monotonic() + seconds
        while True:
            reply = self._reply(max(0.0, end - time.monotonic()), must=False)
            if reply is None:
                return None
            if reply[:1] == b"F":  # the server's files are not offered to the firmware
                self._send(b"F-1,58")
            elif reply[:1] in (b"S", b"T", b"W", b"X"):
                self.running = False
                return self._reason(reply)

    def _reason(self, reply: bytes) -> StopReason:
        text = reply.decode("latin1")
        number = int(text[1:3], 16) if re.fullmatch("[0-9a-fA-F]{2}", text[1:3]) else 0
        if text[0] in "WX":
            return StopReason("exit", None, number, text)
        watched = "watch:" in text
        kinds = {_SIGNAL_TRAP: "watch" if watched else "breakpoint", _SIGNAL_INTERRUPT: "interrupt", 0: "interrupt"}
        return StopReason(kinds.get(number, "fault"), self.register("pc"), number, text)

    def interrupt(self) -> None:
        """Asks a running core to stop; `wait` gives the reason."""
        self._send_raw(b"\x03")

    def monitor(self, order: str, must: bool = True) -> str:
        """A command of the server itself; what it printed."""
        self._send(b"qRcmd," + order.encode("latin1", "replace").hex().encode())
        said: list[str] = []
        while True:
            reply = self._reply(max(self.wait_s, 30.0), said=said)
            if reply == b"OK" or reply is None:
                break
            if reply == b"" or re.fullmatch(rb"E[0-9a-fA-F]{2}|E\..*", reply, re.DOTALL):
                if must:
                    raise self._refused(f"the server refuses `monitor {order}`", reply, said="".join(said))
                break
            if re.fullmatch(rb"(?:[0-9a-fA-F]{2})+", reply):
                said.append(bytes.fromhex(reply.decode()).decode("utf-8", "replace"))
            break
        return "".join(said)

    # --------------------------------------------------------------------------------------------------------- packets

    def _ask(self, payload: bytes) -> bytes:
        if self.running:
            raise self._error("the core runs: memory and registers are read when it stands still", "interrupt it first")
        self._send(payload)
        reply = self._reply(self.wait_s)
        return b"" if reply is None else reply

    def _send(self, payload: bytes) -> None:
        self._flood = 0
        for _ in range(_TRIES):
            self._send_raw(frame(payload))
            if not self._acknowledge or self._taken():
                return
        raise self._error("the server does not take packets", "is it a GDB server? Give its GDB port, not telnet's")

    def _taken(self) -> bool:
        """Whether the packet was acknowledged; some servers leave it out and answer at once."""
        end = time.monotonic() + self.wait_s
        while self._receive(end - time.monotonic()):
            for k, event in enumerate(self._came):
                if event is PacketMark.TAKEN or isinstance(event, bytes):
                    del self._came[: k + (event is PacketMark.TAKEN)]
                    return True
                if event is PacketMark.AGAIN:
                    del self._came[: k + 1]
                    return False
            self._came.clear()
        return False

    def _reply(self, wait_s: float, must: bool = True, said: list[str] | None = None) -> bytes | None:
        """The next packet that is no console output."""
        end, late = time.monotonic() + wait_s, False
        while True:
            while self._came:
                event = self._came.pop(0)
                if event is PacketMark.BROKEN and self._acknowledge:
                    self._send_raw(b"-")
                if not isinstance(event, bytes):
                    continue
                if self._acknowledge:
                    self._send_raw(b"+")
                if event[:1] != b"O" or event == b"OK":
                    return event
                self._heard(event[1:], said)
            left = end - time.monotonic()
            if late or not self._receive(left):
                if must:
                    raise self._error(
                        f"no answer within {wait_s:g} s",
                        "is the board powered and its probe connected? Restart the GDB server",
                    )
                return None
            late = left <= 0

    def _heard(self, coded: bytes, said: list[str] | None) -> None:
        self._flood = 0 if self.running else self._flood
        if re.fullmatch(rb"(?:[0-9a-fA-F]{2})*", coded):
            text = bytes.fromhex(coded.decode()).decode("utf-8", "replace")
            if said is not None:
                said.append(text)
            elif self.say is not None:
                self.say(text)

    def _receive(self, wait_s: float) -> bool:
        """Whether something came, be it half a packet."""
        if self._came:
            return True
        line = self._open_line()
        if not select.select([line], [], [], max(0.0, wait_s))[0]:
            return False
        try:
            data = line.recv(_CHUNK)
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(None)
        self._flood += len(data)
        if self._flood > _MOST_ANSWER:
            self._hang_up()
            self.running = False
            raise self._error(
                "the server sends packets without end: it is no GDB server", "give the GDB port of your server"
            )
        self._came += self._reader.feed(data)
        return True

    def _send_raw(self, data: bytes) -> None:
        try:
            self._open_line().sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def _open_line(self) -> socket.socket:
        if self._line is None:
            raise self._error("the connection is closed", "call connect() again")
        return self._line

    # ---------------------------------------------------------------------------------------------------------- errors

    def _lost(self, error: OSError | None) -> ToolError:
        self._hang_up()
        self.running = False
        why = f": {error.strerror or error}" if error else ""
        return self._error(f"the GDB server closed the connection{why}", "look at what it printed; then try again")

    def _refused(self, what: str, reply: bytes, fix: str = "", said: str = "") -> ToolError:
        text = said.strip() or reply.decode("latin1")[:80]
        answer = f"the server answered {text!r}" if text else "the server does not know the command"
        return self._error(what, fix or self.dialect.fix, answer)

    def _error(self, what: str, fix: str, rule: str = "") -> ToolError:
        where = f"{self.dialect.name} at {self.address}" if self.dialect is not UNKNOWN else str(self.address)
        return ToolError(what, where=where, rule=rule, remedy=fix)


# ------------------------------------------------------------------------------------------------- target descriptions


def registers_of(document: Callable[[str], str]) -> dict[str, TargetRegister]:
    """The registers of a target description in the order of its files; of a hostile one at most some hundred."""
    found: dict[str, TargetRegister] = {}
    number = 0
    text, read = document("target.xml"), 0
    while text and len(found) < _MOST_REGISTERS:
        entry = _REGISTER.search(text)
        if entry is None:
            break
        text = text[entry.end() :]
        if entry[2] is not None:
            name = dict(_ATTRIBUTE.findall(entry[2])).get("href", "")
            read += 1
            text = (document(name) if name and read <= _MOST_INCLUDES else "") + text
            continue
        attributes = dict(_ATTRIBUTE.findall(entry[1]))
        name, bits, given = (attributes.get(key, "") for key in ("name", "bitsize", "regnum"))
        number = int(given) if given.isdecimal() else number
        size = int(bits) // 8 if bits.isdecimal() and 8 <= int(bits) <= 2048 else 4
        found.setdefault(name.lower(), TargetRegister(number, size, 0))
        number += 1
    return _in_order(found)


def _in_order(found: dict[str, TargetRegister]) -> dict[str, TargetRegister]:
    """With their places in the answer with all registers, which goes by number."""
    offset = 0
    for name, entry in sorted(found.items(), key=lambda item: item[1].number):
        found[name] = replace(entry, offset=offset)
        offset += entry.size_bytes
    return found
