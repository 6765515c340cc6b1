"""The client for GDB servers against what they say.

Which of these dialogues are real:
- the virtual board's own server and, where it is installed, OpenOCD run as programs: OpenOCD once without a chip (its
  dummy adapter answers ones), once with the virtual board behind a JTAG port (`jtag_chip`), which it takes for a
  Cortex-M55;
- `dialogues/pyocd-0.46.0.txt` was recorded from pyOCD's own server (0.46.0 of PyPI) on a fake debug probe with a chip
  of a few registers;
- ST-LINK_gdbserver and the J-Link GDB Server are written from what is documented, not recorded: ST's manual UM2576 and
  the log in github.com/Marus/cortex-debug/issues/567 (`monitor reset halt` is answered by "Unknown reset option"),
  SEGGER's manual UM08001 and the issue 461 there (`monitor reset` resets and halts, the two words together are
  unknown). st-util's small dialect (no target description, no p, no X) follows the log in
  github.com/stlink-org/stlink/issues/616.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from atonc.delivery.trials import gdb_servers
from atonc.delivery.trials.gdb_servers import NAMES, PROGRAMS, FoundServer, GdbServerProgram, find_server, started
from atonc.delivery.trials.gdb_target import GdbTarget, address_of, registers_of, started_target
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.gdb_packets import MOST_PAYLOAD, PacketMark, PacketReader, frame
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.debugging import BoardDebugger
from tests.board import gdb_dialogues
from tests.board.jtag_chip import DebugPort, DebugRegisters, TestAccessPort, serve
from tests.board.programs import build, needs_compiler
from tests.patience import PATIENCE, until

needs_openocd = pytest.mark.skipif(shutil.which("openocd") is None, reason="no OpenOCD: apt install openocd")

# ------------------------------------------------------------------------------------------------------------- packets


def test_a_packet_comes_back_however_it_is_cut() -> None:
    payloads = [b"", b"OK", bytes(range(256)), b"}}##$$**", b"m34000000,4"]
    stream = b"+noise" + b"".join(map(frame, payloads)) + b"-\x03"
    for size in (1, 2, 3, 7, len(stream)):
        reader = PacketReader(repeats=False)
        found = [event for k in range(0, len(stream), size) for event in reader.feed(stream[k : k + size])]
        assert found == [PacketMark.TAKEN, *payloads, PacketMark.AGAIN, PacketMark.INTERRUPT]


def test_runs_of_equal_characters_are_for_answers_only() -> None:
    """`0* ` is four zeros: the example of gdb's manual."""
    stream = b"$0* #7a"
    assert list(PacketReader(repeats=True).feed(stream)) == [b"0000"]
    assert list(PacketReader(repeats=False).feed(stream)) == [b"0* "]
    body = b"0* }]"  # with an escape
    stream = b"$%s#%02x" % (body, sum(body) & 0xFF)
    assert list(PacketReader(repeats=True).feed(stream)) == [b"0000}"]
    assert list(PacketReader(repeats=False).feed(stream)) == [b"0* }"]


def test_what_is_no_packet() -> None:
    reader = PacketReader(repeats=True)
    assert list(reader.feed(b"$OK#00$OK#9a")) == [PacketMark.BROKEN, b"OK"]
    assert list(reader.feed(b"$half$OK#9a")) == [b"OK"]  # cut off, and sent again
    assert list(reader.feed(b"%Stop:T05#00$OK#9a")) == [b"OK"]
    long = list(reader.feed(b"$" + b"x" * (2 * MOST_PAYLOAD + 10)))
    assert long == [PacketMark.BROKEN] and list(reader.feed(b"yy#00$OK#9a")) == [b"OK"]
    bomb = b"0*~" * 20_000
    assert list(reader.feed(b"$%s#%02x" % (bomb, sum(bomb) & 0xFF))) == [PacketMark.BROKEN]


# ----------------------------------------------------------------------------------------------- servers from documents


class SmallChip:
    """64 KB of RAM and the registers of a core whose every instruction is two bytes long; `words` is what a server says
    to monitor commands, as packets."""

    features = b"PacketSize=3fff"
    description = b""
    single = binary = no_acks = True
    stop = b"T05thread:1;"
    words: dict[str, list[bytes]] = {}  # noqa: RUF012
    most_packet = 0x4000

    def __init__(self) -> None:
        self.ram, self.registers = bytearray(1 << 16), [0] * 17
        self.stops: set[int] = set()
        self.halted, self.orders = True, list[str]()
        self.reset()

    def reset(self) -> None:
        self.registers = [0] * 17
        self.registers[15] = 0x2000_0100

    def answer(self, packet: bytes) -> list[bytes]:
        assert len(packet) <= self.most_packet
        kind, rest = packet[:1], packet[1:]
        if packet.startswith(b"qSupported"):
            return [self.features]
        if packet.startswith(b"qRcmd,"):
            return self.monitor(bytes.fromhex(packet[6:].decode()).decode())
        if packet.startswith(b"qXfer:features:read:target.xml:"):
            start, size = (int(word, 16) for word in packet.split(b":")[-1].split(b","))
            part = self.description[start : start + size]
            return [(b"m" if start + size < len(self.description) else b"l") + part]
        if packet == b"QStartNoAckMode":
            return [b"OK" if self.no_acks else b""]
        if kind in b"mMX" and packet:
            return [self.memory(kind, rest)]
        if kind == b"g":
            return [b"".join(map(self.word, self.registers))]
        if kind == b"G":
            self.registers = [
                int.from_bytes(bytes.fromhex(rest[8 * k : 8 * k + 8].decode()), "little") for k in range(17)
            ]
            return [b"OK"]
        if kind in b"pP" and self.single and packet:
            number, _, value = rest.partition(b"=")
            if kind == b"p":
                return [self.word(self.registers[int(number, 16)])]
            self.registers[int(number, 16)] = int.from_bytes(bytes.fromhex(value.decode()), "little")
            return [b"OK"]
        return self.run(kind, rest)

    def run(self, kind: bytes, rest: bytes) -> list[bytes]:
        if kind == b"?":
            return [self.stop]
        if kind in (b"Z", b"z"):
            place = int(rest.split(b",")[1], 16)
            (self.stops.add if kind == b"Z" else self.stops.discard)(place)
            return [b"OK"]
        if kind == b"s":
            self.registers[15] += 2
            return [self.stop]
        if kind == b"c":
            ahead = [place for place in self.stops if place >= self.registers[15]]
            self.halted = bool(ahead)
            self.registers[15] = min(ahead, default=self.registers[15])
            return [self.stop] if ahead else []
        return [b"T02thread:1;" if self.stop[:1] == b"T" else b"S02"] if kind == b"\x03" else [b""]

    @staticmethod
    def word(value: int) -> bytes:
        return value.to_bytes(4, "little").hex().encode()

    def memory(self, kind: bytes, rest: bytes) -> bytes:
        place, _, data = rest.partition(b":")
        address, size = (int(word, 16) for word in place.split(b","))
        if kind == b"X" and not self.binary:
            return b""
        at = address - 0x2000_0000
        if not 0 <= at <= at + size <= len(self.ram):
            return b"E01"
        if kind == b"m":
            return self.ram[at : at + size].hex().encode()
        self.ram[at : at + size] = data if kind == b"X" else bytes.fromhex(data.decode())
        return b"OK"

    def monitor(self, order: str) -> list[bytes]:
        self.orders.append(order)
        if order in self.words and order.startswith("reset"):
            self.reset()
        return self.words.get(order, self.words["*"])


def said(text: str) -> bytes:
    return b"O" + text.encode().hex().encode()


class StLink(SmallChip):
    features = b"PacketSize=c00;qXfer:memory-map:read+;qXfer:features:read+;QStartNoAckMode+"
    description = b'<target><feature name="org.gnu.gdb.arm.m-profile">' + b"".join(
        b'<reg name="%s" bitsize="32"/>' % name.encode()
        for name in (*(f"r{k}" for k in range(13)), "sp", "lr", "pc", "xpsr")
    ) + b"</feature></target>"  # fmt: skip
    most_packet = 0xC00
    words = {  # noqa: RUF012
        "reset": [b"OK"], "halt": [b"OK"], "reset halt": [said("Unknown reset option\n"), b"OK"],
        "*": [said("Unknown command\n"), b"OK"],
    }  # fmt: skip


class JLink(SmallChip):
    features = b"PacketSize=4000;qXfer:memory-map:read-;QStartNoAckMode+;hwbreak+"
    words = {  # noqa: RUF012
        "reset": [said("Resetting target\r\n"), b"OK"],
        "halt": [said("Target halted\r\n"), b"OK"],
        "version": [said("SEGGER J-Link GDB Server\n"), b"OK"],
        "*": [b"E01"],
    }


class StUtil(SmallChip):
    features = b"PacketSize=3fff"
    single = binary = no_acks = False
    stop = b"S05"
    words = {"reset": [b"OK"], "halt": [b"OK"], "*": [b""]}  # noqa: RUF012


class Tiny(StUtil):
    """Packets of 64 bytes, and breakpoints only by the server's own hand."""

    single = True

    features = b"PacketSize=40"
    most_packet = 0x40

    def answer(self, packet: bytes) -> list[bytes]:
        return [b""] if packet[:1] == b"Z" and packet[1:2] == b"1" else super().answer(packet)


@contextmanager
def serving(chip: SmallChip) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, chip), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket, chip: SmallChip) -> None:
    while True:
        try:
            line = server.accept()[0]
        except OSError:
            return
        with line:  # closed when the chip has met something unexpected
            _serve_one(line, chip)


def _serve_one(line: socket.socket, chip: SmallChip) -> None:
    reader, acknowledge = PacketReader(repeats=False), True
    while data := line.recv(1 << 16):
        for event in reader.feed(data):
            if event is PacketMark.INTERRUPT and not chip.halted:
                chip.halted = True
                line.sendall(frame(chip.answer(b"\x03")[0]))
            elif isinstance(event, bytes):
                line.sendall((b"+" if acknowledge else b"") + b"".join(map(frame, chip.answer(event))))
                acknowledge = acknowledge and not (event == b"QStartNoAckMode" and chip.no_acks)


SEEN = ["0x20000100", True, "0x12345678", ("breakpoint", 0x2000_0200), "breakpoint", "interrupt",
        "4 bytes at 0x0ff00000 cannot be read"]  # fmt: skip


@pytest.mark.parametrize(
    ("chip", "name", "orders"),
    [
        (StLink, "GDB server", ["version", "reset halt", "reset", "halt"]),
        (JLink, "J-Link GDB Server", ["version", "reset", "halt"]),
        (StUtil, "GDB server", ["version", "reset halt", "reset", "halt"]),
        (Tiny, "GDB server", ["version", "reset halt", "reset", "halt"]),
    ],
)
def test_servers_as_they_are_documented(chip: type[SmallChip], name: str, orders: list[str]) -> None:
    behind = chip()
    with serving(behind) as port:
        target = GdbTarget(f":{port}", wait_s=PATIENCE)
        assert gdb_dialogues.session(target) == [name, *SEEN]
        target.close()
    assert behind.orders == orders
    assert behind.ram[: len(gdb_dialogues.PROGRAM)] == gdb_dialogues.PROGRAM


def test_a_server_whose_name_is_known_is_not_asked() -> None:
    behind = StLink()
    with serving(behind) as port:
        target = GdbTarget(f":{port}", wait_s=PATIENCE, dialect=gdb_servers.STLINK)
        target.reset()
        target.close()
    assert behind.orders == ["reset", "halt"]


def test_the_recorded_dialogue_of_pyocd() -> None:
    with gdb_dialogues.played(gdb_dialogues.read("pyocd-0.46.0")) as port:
        target = GdbTarget(f":{port}", wait_s=PATIENCE)
        assert gdb_dialogues.session(target) == ["pyOCD", *SEEN]
        target.close()


def test_a_reset_that_fails_in_words_only() -> None:
    """pyOCD answers an error of a monitor command as if it were output."""
    dialogue = gdb_dialogues.read("pyocd-0.46.0")
    order = b"qRcmd," + b"reset halt".hex().encode()
    place = dialogue.index((">", order))
    dialogue[place + 1] = ("<", b"Error: no such core\n".hex().encode())
    with gdb_dialogues.played(dialogue) as port:
        target = GdbTarget(f":{port}", wait_s=PATIENCE)
        with pytest.raises(ToolError, match="no such core"):
            target.reset()
        target.close()


def test_reconnecting_sets_breakpoints_again() -> None:
    behind = JLink()
    with serving(behind) as port:
        target = GdbTarget(f":{port}", wait_s=PATIENCE)
        target.break_at(0x2000_0200)
        target.close()
        with pytest.raises(ToolError, match="connection is closed"):
            target.register("pc")
        behind.stops.clear()
        target.connect()
        assert behind.stops == {0x2000_0200}
        target.close()


# --------------------------------------------------------------------------------------------------- hostile and absent


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ToolError, match="no GDB server answers") as told:
        GdbTarget(f":{port}")
    assert "--gdb HOST:PORT" in told.value.fix


@pytest.mark.parametrize(
    "stream",
    [b"", b"+", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+$zz#00", b"+$" + b"x" * 100, b"+$E01#a6", b"\xff\xfe+$}#7d"],
)
def test_a_server_that_is_none(stream: bytes) -> None:
    def speak(server: socket.socket) -> None:
        line = server.accept()[0]
        line.sendall(stream)
        line.recv(1 << 16)
        line.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=speak, args=(server,), daemon=True).start()
        with pytest.raises(ToolError):
            GdbTarget(f":{server.getsockname()[1]}", wait_s=1.0)


@pytest.mark.parametrize(
    ("first", "then"), [(b"+$", b"A"), (b"", b"$AAAA"), (b"+", b"$AAAA#"), (b"+", b"$O41#b4"), (b"+", b"+")]
)
def test_a_server_that_never_ends(first: bytes, then: bytes) -> None:
    def speak(server: socket.socket) -> None:
        line = server.accept()[0]
        with suppress(OSError):
            line.sendall(first)
            while True:
                line.sendall(then * 10_000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=speak, args=(server,), daemon=True).start()
        with pytest.raises(ToolError, match="packets without end: it is no GDB server") as told:
            GdbTarget(f":{server.getsockname()[1]}", wait_s=PATIENCE)
    assert told.value.where.startswith("127.0.0.1:") and "GDB port" in told.value.fix and told.value.exit_code == 4


@pytest.mark.parametrize("text", ["", "host", "host:", ":99999", "a b:1", "::1:3333"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ToolError, match="no address of a GDB server"):
        address_of(text)


def test_addresses() -> None:
    assert [str(address_of(text)) for text in ("3333", ":1", "pi.local:4", "[::1]:5")] == [
        "127.0.0.1:3333", "127.0.0.1:1", "pi.local:4", "::1:5",
    ]  # fmt: skip


def test_target_descriptions_of_several_files_and_hostile_ones() -> None:
    files = {
        "target.xml": '<target><xi:include href="core.xml"/><reg name="late" bitsize="64"/></target>',
        "core.xml": '<reg name="r0" bitsize="32" regnum="0"/><reg name="xPSR" bitsize="32" regnum="25"/>',
    }
    found = registers_of(lambda name: files.get(name, ""))
    assert {name: (one.number, one.size_bytes, one.offset) for name, one in found.items()} == {
        "r0": (0, 4, 0), "xpsr": (25, 4, 4), "late": (26, 8, 8),
    }  # fmt: skip
    assert registers_of(lambda name: '<xi:include href="target.xml"/>') == {}
    many = registers_of(lambda name: "".join(f'<reg name="x{k}" bitsize="99999999"/>' for k in range(5000)))
    assert len(many) == 1024 and all(one.size_bytes == 4 for one in many.values())


# --------------------------------------------------------------------------------------------------------- the programs


def test_every_server_has_a_command_for_this_chip(tmp_path: Path) -> None:
    for program in PROGRAMS:
        words = FoundServer(program, Path("/opt") / program.executables[0], tmp_path).command(61234)
        joined = " ".join(words)
        assert "61234" in joined and "2000" in joined and "{" not in joined
    assert "--apid 1" in " ".join(PROGRAMS[0].arguments) and "target/stm32n6x.cfg" in PROGRAMS[1].arguments


def test_a_server_that_nobody_knows_is_told_before_anything_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "try", "--server", "nonsense"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--server" in said and "nonsense" in said and all(name in said for name in NAMES) and "''" not in said


def test_no_server_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("STM32_CUBE_IDE_DIR", raising=False)
    with pytest.raises(ToolError, match="no GDB server was found") as told:
        find_server()
    assert "pyocd pack install" in told.value.rule and "--gdb HOST:PORT" in told.value.fix
    with pytest.raises(ToolError, match="JLinkGDBServerCLExe was not found"):
        find_server("jlink")
    with pytest.raises(InputError, match="is no GDB server"):
        find_server("lauterbach")


def test_the_first_server_of_the_table_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "plugins/com.st.stm32cube.ide.mcu.externaltools.stlink-gdb-server.linux64_2/tools/bin"
    inside.mkdir(parents=True)
    (inside / "ST-LINK_gdbserver").touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("openocd", "pyocd"):
        (tools / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tools))
    assert find_server().path == tools / "openocd"
    assert find_server("pyocd").path == tools / "pyocd"
    assert find_server(ide=tmp_path).path == inside / "ST-LINK_gdbserver"


def script(tmp_path: Path, text: str, hints: tuple[tuple[str, str], ...] = ()) -> FoundServer:
    path = tmp_path / "server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    program = GdbServerProgram("x", gdb_servers.OPENOCD, ("server",), ("{port}",), "nowhere", hints)
    return FoundServer(program, path, tmp_path)


def test_a_server_that_ends_tells_what_it_printed(tmp_path: Path) -> None:
    found = script(
        tmp_path, "echo line one; echo 'Error: open failed'; exit 1", (("open failed", "connect the probe"),)
    )
    with started(found, 1) as server, pytest.raises(ToolError, match="ended by itself") as told:
        started_target(server, 1)
    assert "open failed" in told.value.rule and told.value.fix == "connect the probe"


def test_a_server_that_cannot_be_started(tmp_path: Path) -> None:
    found = script(tmp_path, "")
    found.path.chmod(0o644)
    with pytest.raises(ToolError, match="cannot be started"), started(found, 1):
        pass


DUMMY = """
adapter driver dummy
adapter speed 1000
jtag newtap x cpu -irlen 4 -expected-id 0
target create x.cpu arm7tdmi -chain-position x.cpu
"""


@contextmanager
def openocd(folder: Path, script: str) -> Iterator[GdbTarget]:
    """The target behind the program with this script."""
    (folder / "test.cfg").write_text(script)
    words = ("-c", "gdb_port {port}", "-c", "tcl_port disabled", "-c", "telnet_port disabled", "-f", "test.cfg", "-c",
             "gdb_memory_map disable", "-c", "init", "-s", str(folder))  # fmt: skip
    program = GdbServerProgram("openocd", gdb_servers.UNKNOWN, ("openocd",), words, "")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with started(FoundServer(program, Path(shutil.which("openocd") or ""), folder), port) as server:
        target = started_target(server, port)
        target.wait_s = PATIENCE
        yield target
        target.close()


CHIP = """
adapter driver remote_bitbang
remote_bitbang host 127.0.0.1
remote_bitbang port {port}
jtag newtap x cpu -irlen 4 -expected-id 0x4ba00477
dap create x.dap -chain-position x.cpu
target create x.cpu cortex_m -dap x.dap -ap-num 0
cortex_m reset_config sysresetreq
"""


@needs_openocd
@needs_compiler
def test_the_virtual_board_through_openocd(tmp_path: Path) -> None:
    elf = build(tmp_path, "volatile uint32_t turns, go = 1; int main(void) { while (go) turns++; return 0; }")
    firmware = read_firmware(elf)
    registers = DebugRegisters(BoardDebugger(lambda: VirtualBoard(firmware), lambda text: None))
    main, turns = firmware.symbols["main"] & ~1, firmware.symbols["turns"]
    data = bytes(range(256)) * 4
    with socket.create_server(("127.0.0.1", 0)) as wire:
        tap = TestAccessPort(DebugPort(registers))
        threading.Thread(target=serve, args=(wire, tap), daemon=True).start()
        with openocd(tmp_path, CHIP.format(port=wire.getsockname()[1])) as target:
            assert target.dialect is gdb_servers.OPENOCD
            target.reset()
            assert registers.resets and target.register("pc") == firmware.symbols["Reset_Handler"] & ~1
            target.write(0x3420_0000, data)
            assert target.read(0x3420_0000, len(data)) == data
            target.set_register("r3", 0x1234_5678)
            assert target.register("r3") == 0x1234_5678
            target.break_at(main)
            target.go()
            stopped = target.wait(PATIENCE)
            assert stopped is not None and (stopped.kind, stopped.pc) == ("breakpoint", main)
            assert target.step().kind == "breakpoint" and target.register("pc") != main
            target.go()
            assert target.wait(0.0) is None
            target.interrupt()
            stopped = target.wait(PATIENCE)
            assert stopped is not None and stopped.kind == "interrupt"
            assert target.read(turns, 4) != bytes(4)
            target.write(firmware.symbols["go"], bytes(4))
            target.go()
            stopped = target.wait(PATIENCE)
            assert stopped is not None and stopped.kind == "breakpoint"
            assert target.read(stopped.pc or 0, 2) == b"\x02\xbe"  # the end of the firmware


@needs_openocd
def test_openocd_without_a_chip(tmp_path: Path) -> None:
    with openocd(tmp_path, DUMMY) as target:
        assert target.dialect is gdb_servers.OPENOCD and "pc" in target.registers
        assert target.register("r0") == 0xFFFF_FFFF and target.read(0x100, 9000) == b"\xff" * 9000
        target.write(0x100, bytes(range(256)) * 40)
        assert "Open On-Chip Debugger" in target.monitor("version")
        with pytest.raises(ToolError, match="refuses `monitor reset halt`") as told:  # there is no chip
            target.reset()
        assert "how to reset?" in told.value.rule
        with pytest.raises(ToolError, match="invalid command name"):
            target.monitor("nonsense")
        target.break_at(0x2000)
        target.go()
        stopped = target.wait(PATIENCE)
        assert stopped is not None and stopped.kind == "breakpoint"


@needs_openocd
def test_debians_openocd_does_not_know_the_chip_and_that_is_said(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["openocd", "-c", "puts [find target/stm32n6x.cfg]; exit"], capture_output=True, text=True, timeout=PATIENCE
    )
    if "Can't find" not in listed.stdout + listed.stderr:
        pytest.skip("this OpenOCD knows the STM32N6")
    with started(find_server("openocd"), 0) as server:
        until(lambda: server.ended)
        error = server.failure("it ended")
    assert "newer than 0.12" in error.fix or "connect the board" in error.fix
