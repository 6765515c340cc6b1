"""A worker of this machine: what runs in the processes that `local.py` starts."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Any

from atonc.insight.workers.call import answer
from atonc.machine.base import child


def main() -> None:
    answers = child.answers()
    todo: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(todo,), daemon=True).start()
    while True:
        asked = todo.get()
        child.send(answers, *answer(asked["function"], asked["unit"], asked["version"]))


def _listen(todo: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Ends the process with whoever started it, also in the middle of its work."""
    try:
        while True:
            todo.put(child.receive(sys.stdin.buffer)[0])
    except (EOFError, ValueError, OSError):
        os._exit(0)
