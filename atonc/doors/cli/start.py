"""The entry of the `atonc` command: whenever Ctrl-C comes, the end is quiet."""

from __future__ import annotations

import gc
import signal
import sys

INTERRUPTED = 130
# Between two searches for cycles. A compilation keeps millions of small values and makes hardly any cycle: with the 700
# of Python, the searches are a twentieth of its time, and a single one at half a million a thirtieth.
NEW_OBJECTS = 4_000_000


def main() -> int:
    gc.set_threshold(NEW_OBJECTS)
    sys.unraisablehook = _quiet(sys.unraisablehook)
    try:
        from atonc.doors.cli.cli import main as run

        return run()
    except BaseException as error:
        from atonc.machine.base.errors import interrupted

        if not interrupted(error):
            raise
        print("atonc: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter puts itself away
        gc.freeze()  # and need not look for cycles in what ends with it: a seventh of the time of a small model


def _quiet(hook):  # type: ignore[no-untyped-def]
    """Interrupts that arrive where no exception can be passed on, as in a destructor, are no news."""

    def seen(what):  # type: ignore[no-untyped-def]
        if not issubclass(what.exc_type, KeyboardInterrupt):
            hook(what)

    return seen
