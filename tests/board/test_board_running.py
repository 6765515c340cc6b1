"""`atonc board run`: firmware that serves, ends, hangs; its UART on a socket and on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from atonc.delivery.trials import board_running
from atonc.delivery.trials.board_running import BoardRun
from atonc.delivery.trials.boarding import FirmwareError
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.wires import PtyWire, SocketWire
from tests.board.programs import IN_RAM, build, needs_compiler
from tests.errors_said import unwrapped

ECHO = """
static int spin(void) { while (!(WORD(0x56028004u) & (1u << 10))) { } return 1; } /* a PLL that nobody switched on */
static int heard(void) { while (!(WORD(0x5200101Cu) & (1u << 5))) { } return (int)WORD(0x52001024u); }
volatile uint32_t *const flash = (volatile uint32_t *)0x71000000u;
int main(void) {
    WORD(0x52001000u) = 1u | 1u << 2 | 1u << 3;
    WORD(0x56008010u) = 5; /* SYSCFG: no model */
    board_print("hello\\n");
    board_print_hex(*flash);
    board_print("\\n");
    for (;;) {
        const int byte = heard();
        if (byte == 'q')
            return 0;
        if (byte == 'h')
            spin();
        if (byte == 's')
            __asm volatile("mov r0, #0x18\\n bkpt 0xab");
        const char text[2] = {(char)(byte + 1), 0};
        board_print(text);
    }
}
"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("echo"), ECHO)


def talk(
    options: BoardRun, sends: bytes, answers: int
) -> tuple[board_running.BoardRunEnd | InputError, bytes, list[str]]:
    """A client that sends some bytes, reads so many and stays until the firmware ends."""
    said: list[str] = []
    came = bytearray()
    ready, over = threading.Event(), threading.Event()

    def client() -> None:
        assert ready.wait(60)
        with socket.create_connection(("127.0.0.1", int(said[0].rpartition(":")[2]))) as line:
            line.settimeout(60)
            line.sendall(sends)
            while len(came) < answers:
                came.extend(line.recv(100))
            over.wait(60)

    def say(text: str) -> None:
        said.append(text)
        ready.set()

    thread = threading.Thread(target=client, daemon=True)
    thread.start()
    try:
        ended: board_running.BoardRunEnd | InputError = board_running.run_firmware(options, say)
    except InputError as error:
        ended = error
    over.set()
    thread.join(60)
    return ended, bytes(came), said


@needs_compiler
def test_a_client_on_a_socket(echo: Path, tmp_path: Path) -> None:
    image = tmp_path / "image.bin"
    image.write_bytes(b"skip\x78\x56\x34\x12")
    flash = (board_running.contents(f"{image}@0x71000000+4"),)
    ended, came, said = talk(BoardRun(echo, flash, "socket:0", registers=True), b"ABCq", 3)
    assert isinstance(ended, board_running.BoardRunEnd) and came == b"BCD"
    assert (ended.reason, ended.number, ended.received) == ("bkpt", 2, 4)
    assert said[1:] == ["| hello", "| 0x12345678"]
    assert any("SYSCFG" in line and "written 1 times, holds 0x00000005" in line for line in ended.picture)


@needs_compiler
def test_a_firmware_that_hangs_shows_where(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_running, "STRETCH", 50_000)
    ended, _, _ = talk(BoardRun(echo, serial="socket:0", patience=1_000_000), b"h", 0)
    assert isinstance(ended, InputError)
    text = str(ended)
    assert "it seems to hang: 1 million instructions without a byte, an epoch or sleep" in text
    assert "in main" in text and "pc 0x77" in text
    assert "R0 " in text and "XPSR" in text and "lr 0x77" in text
    assert "read  RCC.SR" in text and "times)" in text


@needs_compiler
def test_firmware_in_ram_finds_a_chip_as_after_reset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has to switch on what it uses, unless the chip is said to be open; firmware in flash is left as it was."""
    bank_on = "WORD(0x56028A4Cu) = 1; WORD(0x52023100u) &= ~(1u << 20); "
    text = f"int main(void) {{ {bank_on} WORD(0x34200000u) = 5; board_print_hex(WORD(0x34200000u)); "
    text += "board_print_hex(WORD(0x34270000u) = 6); board_print_hex(WORD(0x34270000u)); "
    text += 'board_print("\\n"); return 0; }'
    for name in ("ram", "flash"):
        (tmp_path / name).mkdir()
    in_ram, in_flash = (build(tmp_path / name, text, where) for name, where in (("ram", IN_RAM), ("flash", None)))

    def said(*arguments: str) -> str:
        assert cli.main(["board", "run", *arguments]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| "))

    assert said(str(in_ram)) == said(str(in_flash), "--chip", "reset") == "| 0x000000050x000000060x00000000"
    assert said(str(in_ram), "--chip", "open") == said(str(in_flash)) == "| 0x000000050x000000060x00000006"
    assert said(str(in_ram), "--chip-fault", "axisram3_shutdown") == "| 0x000000000x000000060x00000000"
    assert cli.main(["board", "run", str(in_ram), "--chip-fault", "axisram9_shutdown"]) != 0
    assert "axisram6_shutdown" in unwrapped(capsys.readouterr().err)


@needs_compiler
def test_semihosting_exit(echo: Path) -> None:
    ended, came, _ = talk(BoardRun(echo, serial="socket:0"), b"Ps", 1)
    assert isinstance(ended, board_running.BoardRunEnd) and (ended.reason, came) == ("exit", b"Q")


@needs_compiler
def test_time_is_up_as_json(echo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "run", str(echo), "--serial", "pty", "--seconds", "0.2", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["reason"] == "time" and found["sent"] == len("hello\n0x00000000\n")
    assert "UART at /dev/" in err and "| hello" in err


# ---------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize("text", ["image.bin", "image.bin@", "image.bin@flash", "@0x71000000", "a@0x1+x"])
def test_what_is_no_place_in_memory(text: str) -> None:
    with pytest.raises(InputError, match="is not FILE@ADDRESS"):
        board_running.contents(text)


def test_flash_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "run", str(tmp_path / "none.elf")]) == 2
    assert "no such firmware image" in unwrapped(capsys.readouterr().err)


@pytest.mark.parametrize("text", ["tcp:1", "socket:", "socket:99999", "socket:x"])
def test_what_is_no_serial_line(text: str) -> None:
    with pytest.raises(InputError, match="neither pty"):
        board_running.wire_for(text)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(InputError, match="cannot be served"):
        board_running.wire_for(f"socket:{other.getsockname()[1]}")


def test_one_client_after_the_other_on_a_socket() -> None:
    wire = SocketWire()
    wire.send(b"nobody hears this")
    for word in (b"one", b"two"):
        with socket.create_connection(("127.0.0.1", wire.port)) as client:
            assert wire.receive(5.0) == b""  # it is let in
            client.sendall(word)
            assert wire.receive(5.0) == word
            wire.send(word[::-1])
            assert client.recv(10) == word[::-1]
        assert wire.receive(5.0) == b""  # it hung up
    wire.close()


def test_pseudo_terminal_with_a_name(tmp_path: Path) -> None:
    link = tmp_path / "board"
    wire = PtyWire(link)
    wire.send(b"before anybody could listen")
    assert wire.receive(0.001) == b""
    terminal = os.open(link, os.O_RDWR | os.O_NOCTTY)
    os.write(terminal, b"\x00\r\n\x03")
    assert wire.receive(5.0) == b"\x00\r\n\x03"
    wire.send(b"\x11\x04\n")
    assert os.read(terminal, 10) == b"\x11\x04\n"
    os.close(terminal)
    wire.close()
    assert not link.exists() and not link.is_symlink()


def test_a_timeout_of_the_firmware_says_why() -> None:
    said = FirmwareError("ATONC ERROR 20 epoch 5 detail 0x10000000 TIMEOUT").lines()
    assert "watchdog gave up" in said[1] and "--flash-mbps" in said[-1]
    assert "watchdog" not in "".join(FirmwareError("ATONC ERROR 23 epoch 5 detail 0x0 UNIT").lines())
