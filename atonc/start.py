"""The entry of the `atonc` command: whenever Ctrl-C comes, the end is quiet."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> int:
    sys.unraisablehook = _quiet(sys.unraisablehook)
    try:
        from atonc.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter puts itself away


def _quiet(hook):  # type: ignore[no-untyped-def]
    """Interrupts that arrive where no exception can be passed on, as in a destructor, are no news."""

    def seen(what):  # type: ignore[no-untyped-def]
        if not issubclass(what.exc_type, KeyboardInterrupt):
            hook(what)

    return seen
