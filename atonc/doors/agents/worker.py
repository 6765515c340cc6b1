"""What runs in the process of a call: `python -m atonc.doors.agents.worker`, the command line in the agent's folder.

It runs where `request.json` lies, prints one JSON object per line for each stage, and leaves there what the verb
printed: its document, and the lines for people."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from atonc.doors.cli import cli
from atonc.doors.serve.limits import confine
from atonc.doors.serve.worker import REQUEST, RESULT, STAGES, Progress, end_with_the_server
from atonc.machine.base import progress

LINES = "lines.txt"


def main() -> int:
    threading.Thread(target=end_with_the_server, daemon=True).start()
    request, place = json.loads(Path(REQUEST).read_text("utf-8")), Path.cwd()
    confine(request["limits"])
    news = sys.stdout  # what the verb prints goes to files

    def tell(**message: Any) -> None:
        print(json.dumps(message), file=news, flush=True)

    watcher = Progress(STAGES if request["staged"] else None, tell)
    with (place / RESULT).open("w") as result, (place / LINES).open("w", errors="replace") as lines:
        os.chdir(request["folder"])
        with contextlib.redirect_stdout(result), contextlib.redirect_stderr(lines), progress.watching(watcher.heard):
            return cli.main(request["words"])


if __name__ == "__main__":
    sys.exit(main())
