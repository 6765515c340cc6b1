"""A Python process of ours that answers messages: started, asked, limited in time and buried in one place.

A message is two lengths in text, a JSON document and bytes. Whatever the work itself prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
_MOST_LINE = 64  # of the two lengths that begin a message
_MOST_DOCUMENT = 1 << 26
Message = tuple[dict[str, Any], bytes]


# ----------------------------------------------------------------------------------------------------------- messages


def send(stream: IO[bytes], document: Mapping[str, Any], *contents: bytes) -> None:
    text = json.dumps(document).encode()
    stream.write(b"%d %d\n" % (len(text), sum(map(len, contents))) + text)
    for content in contents:
        stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """EOFError when the other side is gone, also in the middle of a message."""
    sizes = [int(word) for word in stream.readline(_MOST_LINE).split() if word.isdigit()]
    if len(sizes) != 2 or sizes[0] > _MOST_DOCUMENT:
        raise EOFError
    text, content = (stream.read(size) for size in sizes)
    if [len(text), len(content)] != sizes:
        raise EOFError
    document: dict[str, Any] = json.loads(text)
    return document, content


def answers() -> IO[bytes]:
    """In the child: where answers go. What the work prints must not get between them."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return stream


# ---------------------------------------------------------------------------------------------------------- processes


def python(code: str) -> list[str]:
    """The command of a child; modules beside the user are not its own."""
    return [sys.executable, "-P", "-c", code]


def ending(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with exit code {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


class ChildDiedError(Exception):
    """The process ended instead of answering; `late`: because it took too long."""

    def __init__(self, how: str, late: bool) -> None:
        super().__init__(how)
        self.how, self.late = how, late


class Child:
    """One process that runs some Python code, in an environment with these changes."""

    def __init__(
        self, code: str, changes: Mapping[str, str], said: IO[bytes] | None = None, own_session: bool = False
    ) -> None:
        """`said`: what it prints, where that is kept. `own_session`: Ctrl-C is for who started it."""
        self._process = subprocess.Popen(
            python(code),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, **changes},
            start_new_session=own_session,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, document: Mapping[str, Any], *contents: bytes, seconds: float = 0.0) -> Message:
        """Its answer; with a limit in seconds, if one is given."""
        assert self._process.stdin is not None and self._process.stdout is not None
        late, timer = threading.Event(), None
        if seconds:
            timer = threading.Timer(seconds, self._give_up, (late,))
            timer.daemon = True
            timer.start()
        try:
            send(self._process.stdin, document, *contents)
            return receive(self._process.stdout)
        except (EOFError, ValueError, OSError):
            self.kill()
            raise ChildDiedError(ending(self._process.wait()), late.is_set()) from None
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self.kill()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Ends it, and waits for its end."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
