"""The line to a board: a serial port or a socket."""

from __future__ import annotations

import os
import re
import select
import socket
import time
from importlib import import_module
from typing import Any, Protocol

from atonc.machine.base.errors import InputError, ToolError, not_loaded

DEFAULT_BAUD = 115_200
LINE = "ATONC_LINE"  # in the environment: the line that `serial` without a port means
_ST_VENDOR = 0x0483
_SOCKET = re.compile(r"socket:([\w.\-]*):(\d{1,5})")
_CHUNK = 4096


class LinkClosed(OSError):
    """The other side has gone."""


class ByteLink(Protocol):
    """`read` gives what is there, at most so many bytes, after waiting at most so many seconds for the first."""

    description: str

    def read(self, count: int, wait_s: float) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    def now(self) -> float: ...
    def close(self) -> None: ...


def open_link(text: str) -> ByteLink:
    """`serial[:PORT][:BAUD]` or `socket:HOST:PORT`. Where no port is named, the environment may: so scripts that expect
    the only ST-LINK reach the virtual board."""
    if LINE in os.environ and text.startswith("serial") and not _serial_parts(text[7:])[0]:
        text = os.environ[LINE]
    found = _SOCKET.fullmatch(text)
    if found:
        return SocketLink(found[1] or "127.0.0.1", int(found[2]))
    if text == "serial" or text.startswith("serial:"):
        port, baud = _serial_parts(text[7:])
        return SerialLink(port, baud)
    raise InputError(f"-d {text} is not a line to a board", rule="serial[:PORT][:BAUD] or socket:HOST:PORT")


def _serial_parts(text: str) -> tuple[str, int]:
    """The port may have colons in it; what is left of the last one is a number when it is the speed."""
    port, _, last = text.rpartition(":")
    if last.isdigit() and not last.startswith("COM"):
        return port, int(last)
    return text.rstrip(":"), DEFAULT_BAUD


class SocketLink:
    def __init__(self, host: str, port: int) -> None:
        self.description = f"socket:{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=5.0)
        except (OSError, OverflowError) as error:  # overflow: a port beyond all ports
            raise InputError(
                f"no answer at {host}:{port}: {error}",
                remedy="start the board first: atonc board run FIRMWARE.elf --serial socket:PORT",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, count: int, wait_s: float) -> bytes:
        if not select.select([self._socket], [], [], max(0.0, wait_s))[0]:
            return b""
        try:
            data = self._socket.recv(min(count, _CHUNK))
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not data:
            raise LinkClosed("the other side closed the connection")
        return data

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise LinkClosed(str(error)) from error

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        self._socket.close()


class SerialLink:
    def __init__(self, port: str, baud: int) -> None:
        serial = _pyserial()
        port = port or _find_port()
        self.description = f"serial:{port}:{baud}"
        try:
            self._port = serial.Serial(port, baud, timeout=0.1, write_timeout=5.0, exclusive=None)
        except (serial.SerialException, ValueError) as error:
            raise InputError(
                f"port {port} cannot be opened: {error}",
                remedy="check the cable and who else uses the port; Linux: the group dialout",
            ) from error
        self._errors = (serial.SerialException, OSError)

    def read(self, count: int, wait_s: float) -> bytes:
        self._port.timeout = max(0.0, wait_s)
        try:
            first: bytes = self._port.read(1)
            waiting = min(count - 1, self._port.in_waiting)
            return first + (self._port.read(waiting) if first and waiting > 0 else b"")
        except self._errors as error:
            raise LinkClosed(str(error)) from error

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
            self._port.flush()
        except self._errors as error:
            raise LinkClosed(str(error)) from error

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        self._port.close()


def _pyserial() -> Any:
    try:
        return import_module("serial")
    except ImportError as error:
        raise not_loaded(error, "pyserial", "'atonc[serial]'") from error


def _find_port() -> str:
    """The ST-LINK of the only board that is there."""
    ports = import_module("serial.tools.list_ports").comports()
    found = [port.device for port in ports if port.vid == _ST_VENDOR]
    if len(found) == 1:
        return str(found[0])
    known = ", ".join(found or [port.device for port in ports]) or "none"
    raise ToolError(
        f"{len(found)} ST-LINK ports found where one is wanted; serial ports here: {known}",
        remedy="connect the board's ST-LINK USB port, or name the port: -d serial:PORT:BAUD",
    )
