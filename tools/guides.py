"""The commands of README.md and docs, run exactly as written in a fresh folder, and what one should see then.

Lines of a ```sh block are run in the order of the page. Between `<!-- seen: WORDS; WORDS -->` and `<!-- end -->` stand,
for each of the words, the first line with them that the commands above it printed (since the mark before it).
Every `atonc` is a process of its own, forked from one that has read the package: that takes longer than most commands.

    python tools/guides.py          runs all guides and writes what is seen
    tests/docs/test_guides.py       runs them and compares
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
GUIDES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
SEEN = re.compile(r"<!-- seen: ([^\n]+) -->\n(.*?)<!-- end -->", re.DOTALL)
_PIECE = re.compile(r"```sh\n(?P<lines>.*?)```|" + SEEN.pattern, re.DOTALL)
_BETWEEN = "\x1e"  # what no command prints
COLUMNS = "120"
# part of a line -> the programs that it needs besides atonc
NEEDS = {
    "cmake ": ("cmake", "arm-none-eabi-gcc"),
    "bare_metal": ("cmake", "arm-none-eabi-gcc"),
    "--mode board": ("arm-none-eabi-gcc",),
    "--try ": ("arm-none-eabi-gcc",),
    "field_update": ("arm-none-eabi-gcc",),
}


class Step(NamedTuple):
    """Commands, and what they should print."""

    lines: tuple[str, ...]
    words: tuple[str, ...]
    shown: str


def steps(text: str) -> list[Step]:
    found, lines = [], []
    for piece in _PIECE.finditer(text):
        if piece["lines"] is not None:
            whole = piece["lines"].replace("\\\n", " ")
            lines += [line for line in whole.splitlines() if line.strip()]
        else:
            found.append(Step(tuple(lines), tuple(piece[2].split("; ")), piece[3]))
            lines = []
    return [*found, Step(tuple(lines), (), "")]


def filled(page: Path) -> str:
    """The page with what its commands print now."""
    text = page.read_text()
    todo = steps(text)
    with tempfile.TemporaryDirectory() as folder:
        printed = _run(todo, _checkout(Path(folder)))
    shown = iter(_shown(step, output, page) for step, output in zip(todo, printed, strict=True) if step.words)
    return SEEN.sub(lambda match: f"<!-- seen: {match[1]} -->\n{next(shown)}<!-- end -->", text)


def _shown(step: Step, output: str, page: Path) -> str:
    if any(not runnable(line) for line in step.lines):
        return step.shown
    lines = output.splitlines()
    missing = [words for words in step.words if not any(words in line for line in lines)]
    if missing:
        raise LookupError(f"{page.name}: {missing} is in no line that was printed:\n{output}")
    found = [next(line for line in lines if words in line) for words in step.words]
    return "\n".join(["```text", *(line.rstrip() for line in found), "```", ""])


def runnable(line: str) -> bool:
    """What a line needs is on this machine: the virtual board wants a cross compiler."""
    return all(shutil.which(name) for part, names in NEEDS.items() if part in line for name in names)


def _run(todo: list[Step], checkout: Path) -> list[str]:
    script = "set -e\n" + f"printf '{_BETWEEN}'\n".join(
        "".join(f"{line}\n" for line in step.lines if runnable(line)) for step in todo
    )
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": COLUMNS, "NO_COLOR": "1"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=checkout, env={**os.environ, **settings}, capture_output=True, text=True
    )
    if done.returncode or "Traceback" in done.stderr:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.split(_BETWEEN)


def _checkout(folder: Path) -> Path:
    """As somebody who cloned and activated the environment has it."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "bin").mkdir()
    for name, words in (("atonc", f'-IS "{_server()}/ask.py" '), ("python3", "")):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        program.chmod(0o755)
    return folder


_ASK = """import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.path.join(os.path.dirname(__file__), "line"))
socket.send_fds(line, [json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
sys.exit(int(line.recv(9) or 70))
"""


@cache
def _server() -> Path:
    """Where the process listens that becomes `atonc` for whoever asks."""
    folder = Path(tempfile.mkdtemp(prefix="guides"))
    (folder / "ask.py").write_text(_ASK)
    command = [sys.executable, __file__, "--serve", str(folder / "line")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.terminate)
    assert server.stdout is not None and server.stdout.readline()
    return folder


def _serve(place: str) -> None:
    import atonc.delivery.generate.generating
    import atonc.doors.cli.start

    atonc.compile(ROOT / "examples" / "digits" / "digits.tflite")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for them
    while True:
        line, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            words, files, _, _ = socket.recv_fds(line, 1 << 20, 3)
            os._exit(_become(json.loads(words), files, line, atonc.doors.cli.start.main))
        line.close()


def _become(asked: list[Any], files: list[int], line: socket.socket, run: Callable[[], int]) -> int:
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.argv = ["atonc", *asked[0]]
    os.chdir(asked[1])
    os.environ.clear()
    os.environ.update(asked[2])
    code = 70
    try:
        code = run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    line.send(str(code).encode())
    return code


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        _serve(sys.argv[2])
    chosen = [Path(word).resolve() for word in sys.argv[1:]] or GUIDES
    for page in chosen:
        if SEEN.search(page.read_text()):
            page.write_text(filled(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
