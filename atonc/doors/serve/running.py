"""Starts and ends the server: one for each folder, a socket of its own, a token where others could reach it."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import uvicorn

from atonc.doors.serve.app import ServiceSettings, application
from atonc.doors.serve.guard import is_loopback
from atonc.doors.serve.limits import require_limits
from atonc.machine.base.errors import InputError

MOST_CONNECTIONS = 500
GOODBYE_SECONDS = 1  # for answers that are under way; streams of events never end by themselves


def serve(settings: ServiceSettings, host: str, port: int, ask_token: bool) -> int:
    require_limits()
    if ask_token or not is_loopback(host):
        settings = replace(settings, token=settings.token or secrets.token_urlsafe(24))
    else:
        settings = replace(settings, token="")
    with _only_one(settings.folder), _socket(host, port) as listening:
        config = uvicorn.Config(
            application(settings),
            log_level="critical",
            access_log=False,
            limit_concurrency=MOST_CONNECTIONS,
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
            proxy_headers=False,
            ws="none",
        )
        print(f"{_address(host, listening)}{f'?token={settings.token}' if settings.token else ''} (Ctrl-C ends it)")
        print(f"builds and history: {settings.folder}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    return 0


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"


@contextlib.contextmanager
def _socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, proto, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, proto)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)  # who reads the address may use it at once
    except OSError as error:
        remedy = "name another with --host and --port"
        raise InputError(f"{host} port {port} cannot be used: {error.strerror}", remedy=remedy) from None
    with found:
        yield found


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two servers would start each other's jobs."""
    import fcntl  # POSIX, as the limits of jobs are: without them `serve` has ended with a sentence

    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # models are their owner's business
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(folder), remedy="--folder DIR") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("another server uses it", where=str(folder), remedy="name another --folder") from None
        yield
