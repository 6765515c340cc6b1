"""Lines to a board: how they are named, and what is said when nobody is there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from atonc.delivery.wire import links
from atonc.delivery.wire.client import Client, TargetError
from atonc.delivery.wire.links import open_link
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError, ToolError
from tests.emit.generated import DIGITS
from tests.errors_said import unwrapped


@pytest.mark.parametrize(
    "text", ["", "usb", "socket", "socket:", "socket:localhost", "socket:a:b", "socket:x:1:2", "serial5", "SOCKET:a:1"]
)
def test_no_line(text: str) -> None:
    with pytest.raises(InputError, match="is not a line to a board") as error:
        open_link(text)
    assert "serial[:PORT][:BAUD] or socket:HOST:PORT" in str(error.value)


@pytest.mark.parametrize(
    ("text", "port", "baud"),
    [
        ("", "", 115200),
        ("/dev/ttyACM0", "/dev/ttyACM0", 115200),
        ("/dev/ttyACM0:921600", "/dev/ttyACM0", 921600),
        ("921600", "", 921600),
        ("COM3", "COM3", 115200),
        ("COM3:9600", "COM3", 9600),
        ("/dev/serial/by-id/a:b", "/dev/serial/by-id/a:b", 115200),
    ],
)
def test_serial_parts(text: str, port: str, baud: int) -> None:
    assert links._serial_parts(text) == (port, baud)


def test_socket_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert cli.main(["validate", str(DIGITS), "--mode", "target", "-d", f"socket:127.0.0.1:{port}", "-b", "1"]) == 2
    err = unwrapped(capsys.readouterr().err)
    assert f"no answer at 127.0.0.1:{port}" in err and "atonc board run" in err


def test_port_beyond_all_ports() -> None:
    with pytest.raises(InputError, match="no answer at localhost:70000"):
        open_link("socket:localhost:70000")


def test_serial_port_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("serial")
    with pytest.raises(InputError, match="cannot be opened") as error:
        open_link(f"serial:{tmp_path / 'ttyNone'}:115200")
    assert "dialout" in str(error.value)


def test_without_pyserial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(ToolError, match=r"pyserial is not installed") as error:
        open_link("serial:/dev/ttyACM0")
    assert "pip install 'atonc[serial]'" in str(error.value)


@pytest.mark.parametrize(("vendors", "words"), [((), "0 ST-LINK"), ((0x483, 0x483), "2 ST-LINK"), ((0x403,), "ttyX0")])
def test_which_serial_port(monkeypatch: pytest.MonkeyPatch, vendors: tuple[int, ...], words: str) -> None:
    pytest.importorskip("serial")
    from serial.tools import list_ports

    ports = [SimpleNamespace(device=f"/dev/ttyX{k}", vid=vendor) for k, vendor in enumerate(vendors)]
    monkeypatch.setattr(list_ports, "comports", lambda: ports)
    with pytest.raises(ToolError, match=words):
        open_link("serial")


def test_the_only_st_link_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("serial")
    from serial.tools import list_ports

    ports = [SimpleNamespace(device="/dev/other", vid=None), SimpleNamespace(device="/dev/link", vid=0x483)]
    monkeypatch.setattr(list_ports, "comports", lambda: ports)
    assert links._find_port() == "/dev/link"


def test_other_side_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = open_link(f"socket::{server.getsockname()[1]}")
        server.accept()[0].close()
        with pytest.raises(TargetError, match="the line is gone: the other side closed the connection"):
            Client(link).connect()
        link.close()
