"""Windows has no fcntl, no fork and no process groups. Whoever compiles, explains, validates and emulates needs none of
them: everything that only POSIX has is hidden from a fresh process here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
# not uname, statvfs and SIGKILL: the library itself calls them here, and something else on Windows
CALLS = {
    "os": (
        "chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups", "getloadavg",
        "getpgid", "getpgrp", "getpriority", "getsid", "getuid", "killpg", "mkfifo", "nice", "openpty", "posix_spawn",
        "sched_getaffinity", "sched_setaffinity", "setgid", "setpgid", "setpriority", "setsid", "setuid",
        "sysconf", "wait", "wait3", "wait4", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK",
    ),
    "signal": (
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "alarm",
        "pthread_sigmask", "setitimer",
    ),
    "socket": ("AF_UNIX",),
    "time": ("tzset",),
}  # fmt: skip
# a process that has nothing of these, then runs the command line
HIDDEN = f"""
import importlib.abc, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {MODULES!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in {MODULES!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
for name, hidden in {CALLS!r}.items():
    module = __import__(name)
    for call in hidden:
        if hasattr(module, call):
            delattr(module, call)
from atonc.doors.cli.start import main
sys.exit(main())
"""


def _without_posix(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDDEN, *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("analyze", str(DIGITS / "digits.tflite")),
        ("explain", str(DIGITS / "digits.onnx")),
        ("validate", str(DIGITS / "digits.tflite"), "--input", str(DIGITS / "test.npz")),
        ("evaluate", str(DIGITS / "digits.tflite"), "--data", str(DIGITS / "test.npz"), "--limit", "5"),
        ("run", str(ROOT / "examples" / "first")),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_it_works_without_what_only_posix_has(words: tuple[str, ...], tmp_path: Path) -> None:
    done = _without_posix(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_same_files_are_written(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    words = ("generate", str(DIGITS / "digits.tflite"), "-o", "build")
    done = _without_posix(*words, folder=tmp_path / "there")
    assert done.returncode == 0, done.stderr
    subprocess.run(
        [sys.executable, "-m", "atonc", *words], cwd=tmp_path / "here", check=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE,
    )  # fmt: skip
    here, there = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "build").iterdir()} for name in ("here", "there")
    )
    assert here.keys() == there.keys()
    different = {name for name in here if here[name] != there[name]}
    assert different <= {"network_report.txt"}, "it alone says how long the compilation took"


def test_what_needs_posix_says_so(tmp_path: Path) -> None:
    done = _without_posix("serve", "--folder", str(tmp_path), folder=tmp_path)
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert "pip install" not in done.stderr, "no package would help"
