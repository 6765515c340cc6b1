"""The other side of a UART: a TCP client, or whoever opens a pseudo-terminal.

Nobody hears what a firmware prints before it first waits for input: clients of binary protocols would take it for
packets. It is in the terminal's text.
"""

from __future__ import annotations

import os
import select
import socket
import tty
from pathlib import Path

from atonc.machine.base.errors import InputError, ToolError

_CHUNK = 1 << 16


class SocketWire:
    """A server for one client at a time, on this machine only."""

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"port {port} cannot be served: {error.strerror}", remedy="choose another port") from error
        self.port: int = self._server.getsockname()[1]
        self._client: socket.socket | None = None

    def receive(self, wait_s: float) -> bytes:
        if self._client is None:
            return self._let_in(wait_s)
        if not select.select([self._client], [], [], wait_s)[0]:
            return b""
        try:
            data = self._client.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._hang_up()
        return data

    def _let_in(self, wait_s: float) -> bytes:
        if wait_s and select.select([self._server], [], [], wait_s)[0]:
            self._client = self._server.accept()[0]
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return b""

    def send(self, data: bytes) -> None:
        if self._client is not None:
            try:
                self._client.sendall(data)
            except OSError:
                self._hang_up()

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        self._hang_up()
        self._server.close()


class PtyWire:
    """A pseudo-terminal; `path` is what a client opens as its serial port."""

    def __init__(self, link: Path | None = None) -> None:
        if not hasattr(os, "openpty"):
            raise ToolError("this system has no pseudo-terminals", remedy="use --serial socket:PORT")
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        self._link = link
        if link is not None:
            link.unlink(missing_ok=True)
            link.symlink_to(self.path)
        self._open = False

    def receive(self, wait_s: float) -> bytes:
        self._open = self._open or wait_s > 0
        if not select.select([self._master], [], [], wait_s)[0]:
            return b""
        return os.read(self._master, _CHUNK)

    def send(self, data: bytes) -> None:
        """What nobody reads is lost, as on a wire."""
        while self._open and data:
            if not select.select([], [self._master], [], 1.0)[1]:
                return
            data = data[os.write(self._master, data) :]

    def close(self) -> None:
        os.close(self._master)
        os.close(self._slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
