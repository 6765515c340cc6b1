"""A worker of this machine: what runs in the processes that `local.py` starts.

Messages come on standard input and go out on what was standard output, each a length in text, a JSON document and, in
answers, the bytes of the result. Whatever the work itself prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import IO, Any

from atonc.workers.call import answer

_MOST_LINE = 64  # of the two lengths that begin a message


def send(stream: IO[bytes], document: dict[str, Any], content: bytes = b"") -> None:
    text = json.dumps(document).encode()
    stream.write(b"%d %d\n" % (len(text), len(content)) + text + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """EOFError when the other side is gone, also in the middle of a message."""
    sizes = stream.readline(_MOST_LINE).split()
    if len(sizes) != 2:
        raise EOFError
    text, content = (stream.read(int(size)) for size in sizes)
    if (len(text), len(content)) != tuple(map(int, sizes)):
        raise EOFError
    document: dict[str, Any] = json.loads(text)
    return document, content


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the work prints must not get between messages
    todo: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(todo,), daemon=True).start()
    while True:
        asked = todo.get()
        send(answers, *answer(asked["function"], asked["unit"], asked["version"]))


def _listen(todo: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Ends the process with whoever started it, also in the middle of its work."""
    try:
        while True:
            todo.put(receive(sys.stdin.buffer)[0])
    except (EOFError, ValueError, OSError):
        os._exit(0)
