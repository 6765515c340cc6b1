"""A firmware on the virtual board in a thread of the test, its UART on a socket: so that something can be planted in
the chip, its memories or its code while a client talks to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from atonc.delivery.trials.board_running import BoardRun, make_board
from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.wires import SocketWire

_STRETCH = 200_000  # instructions between two looks at whether the test is over


@contextmanager
def planted(elf: Path, plant: Callable[[VirtualBoard], None]) -> Iterator[str]:
    """Gives the line that a client opens. `plant` changes the board before it starts."""
    board, wire, over = make_board(BoardRun(elf)), SocketWire(0), Event()
    board.peripherals.connect(wire)
    plant(board)

    def run() -> None:
        while not over.is_set() and board.go_on(_STRETCH) is None:
            pass

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"socket:127.0.0.1:{wire.port}"
    finally:
        over.set()
        thread.join(60)
        wire.close()
