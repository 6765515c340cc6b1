"""A virtual board behind its GDB server, in a thread; and gdb itself in batch mode."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.gdb_server import GdbServer, listening_at
from tests.patience import PATIENCE

GDB = next((name for name in ("gdb-multiarch", "arm-none-eabi-gdb") if shutil.which(name)), None)
needs_gdb = pytest.mark.skipif(GDB is None, reason="no gdb for Arm: apt install gdb-multiarch")


@contextmanager
def served(make: Callable[[], VirtualBoard]) -> Iterator[GdbServer]:
    """The server while the block runs. The board is its own affair until then."""
    over = threading.Event()
    server = GdbServer(make, listening_at(":0"), over.is_set)
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            server.serve()
        except BaseException as error:  # a server that died would only look slow
            failures.append(error)
            raise

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        over.set()
        thread.join(PATIENCE)
    assert not failures and not thread.is_alive()


def gdb(server: GdbServer, elf: Path, *orders: str) -> str:
    """What gdb prints for these commands; an error of one of them ends it."""
    assert GDB is not None
    start = ("set confirm off", "set pagination off", "set width 0", f"target remote 127.0.0.1:{server.port}")
    words = [word for order in (*start, *orders) for word in ("-ex", order)]
    done = subprocess.run(
        [GDB, "-batch", "-nx", *words, str(elf)], capture_output=True, text=True, errors="replace", timeout=PATIENCE
    )
    return done.stdout + done.stderr
