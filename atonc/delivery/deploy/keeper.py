"""Runs a command and ends with who started it: `python keeper.py COMMAND...`, in a process group of its own.

Standard input is a pipe that the starter holds open. When it closes, the starter is gone, however it went: then the
whole group ends, with all that the command has started.
"""

import os
import signal
import subprocess
import sys
import threading

NOT_STARTED = 127


def _end_with_the_starter() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main(command: list[str]) -> int:
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    except OSError as error:
        print(f"error: {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
