"""Dialogues with GDB servers: recorded from the programs, or written from what is documented; and a server that plays
one back.

A file has one line for each packet: `> ` from the client, `< ` from the server, escaped as in a Python string. The
player answers a request as the recording did, in order for each request; what nobody ever asked gets the empty answer
that the protocol prescribes.

Recorded again by `python -m tests.board.gdb_dialogues PORT NAME` beside a server that listens; `session` is what the
client does then, on a chip with RAM at 0x20000000.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atonc.delivery.trials.gdb_target import GdbTarget
from atonc.machine.base.errors import ToolError
from atonc.machine.base.gdb_packets import PacketMark, PacketReader, frame
from tests.patience import PATIENCE

FOLDER = Path(__file__).parent / "dialogues"
RAM, BREAK = 0x2000_0000, 0x2000_0200
PROGRAM = bytes(k * 7 + (k >> 8) & 0xFF for k in range(3000))
INTERRUPT = "(interrupt)"

Dialogue = list[tuple[str, bytes]]


def read(name: str) -> Dialogue:
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    return [
        (line[0], line[2:].encode("latin1").decode("unicode_escape").encode("latin1"))
        for line in lines
        if line[:2] in ("> ", "< ")
    ]


@contextmanager
def played(dialogue: Dialogue) -> Iterator[int]:
    """A server that knows just this dialogue; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_play, args=(server, dialogue), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR) if thread.is_alive() else None


def _answers(dialogue: Dialogue) -> dict[bytes, deque[list[bytes]]]:
    found: dict[bytes, deque[list[bytes]]] = {}
    for side, payload in dialogue:
        if side == ">":
            found.setdefault(payload, deque()).append(latest := [])
        else:
            latest.append(payload)
    return found


def _play(server: socket.socket, dialogue: Dialogue) -> None:
    answers, reader, acknowledge = _answers(dialogue), PacketReader(repeats=False), True
    try:
        line = server.accept()[0]
    except OSError:
        return
    with line:
        while data := line.recv(1 << 16):
            for event in reader.feed(data):
                if event is PacketMark.INTERRUPT:
                    event = INTERRUPT.encode()
                elif not isinstance(event, bytes):
                    continue
                elif acknowledge:
                    line.sendall(b"+")
                known = answers.get(event, deque())
                replies = known.popleft() if len(known) > 1 else known[0] if known else [b""]
                line.sendall(b"".join(map(frame, replies)))
                acknowledge = acknowledge and not (event == b"QStartNoAckMode" and replies == [b"OK"])


def session(target: GdbTarget) -> list[object]:
    """What a recording holds: all that `board try` does."""
    seen: list[object] = [target.dialect.name]
    target.reset()
    seen.append(hex(target.register("pc")))
    target.write(RAM, PROGRAM)
    seen.append(target.read(RAM, len(PROGRAM)) == PROGRAM)
    target.set_register("r3", 0x1234_5678)
    seen.append(hex(target.register("r3")))
    target.break_at(BREAK)
    target.go()
    stopped = target.wait(PATIENCE)
    seen.append((stopped.kind, stopped.pc) if stopped else None)
    seen.append(target.step().kind)
    target.clear_break(BREAK)
    target.go()
    target.interrupt()
    stopped = target.wait(PATIENCE)
    seen.append(stopped.kind if stopped else None)
    try:
        target.read(0x0FF0_0000, 4)
    except ToolError as error:
        seen.append(error.what)
    return seen


def record(port: int, name: str) -> None:
    """Between the client and the server that listens at the port."""
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as middle:
        threading.Thread(target=_relay, args=(middle, port, lines), daemon=True).start()
        target = GdbTarget(f":{middle.getsockname()[1]}", wait_s=PATIENCE)
        print(session(target))
        target.close()
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def _relay(middle: socket.socket, port: int, lines: list[str]) -> None:
    client, server = middle.accept()[0], socket.create_connection(("127.0.0.1", port))
    readers = {client: PacketReader(repeats=False), server: PacketReader(repeats=True)}
    while True:
        for source in select.select([client, server], [], [])[0]:
            data = source.recv(1 << 16)
            if not data:
                return
            for event in readers[source].feed(data):
                payload = (
                    event if isinstance(event, bytes) else INTERRUPT.encode() if event is PacketMark.INTERRUPT else None
                )
                if payload is not None:
                    side = ">" if source is client else "<"
                    lines.append(f"{side} {payload.decode('latin1').encode('unicode_escape').decode()}")
            (server if source is client else client).sendall(data)


if __name__ == "__main__":
    record(int(sys.argv[1]), sys.argv[2])
