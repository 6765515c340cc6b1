"""A job's process: it ends in time, with everything that it started, and takes no more than it may."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from atonc.doors.serve.jobs import LINE_BYTES, Message, run_limited
from atonc.doors.serve.limits import JobLimits
from tests.patience import until

FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print('{"child": %d}' % child.pid, flush=True)
time.sleep(600)
"""


def _gone(process: int) -> bool:
    """Ended, or waiting for a parent that does not ask."""

    def gone() -> bool:
        try:
            os.kill(process, 0)
            return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except (ProcessLookupError, FileNotFoundError):
            return True

    return until(gone)


def _written(code: str, folder: Path) -> list[str]:
    (folder / "program.py").write_text(code)
    return [sys.executable, "program.py"]


def test_the_clock_ends_a_process_with_its_children(tmp_path: Path) -> None:
    said: list[Message] = []
    for seconds in (2.0, 20.0, 200.0):  # until the process had time to start
        ended = asyncio.run(run_limited([sys.executable, "-c", FAMILY], tmp_path, seconds, said.append))
        assert ended.timed_out and ended.signal == 9
        if said:
            break
    assert _gone(said[0]["child"])


def test_cancelling_does_too(tmp_path: Path) -> None:
    said: list[Message] = []

    async def work() -> bool:
        task = asyncio.create_task(run_limited([sys.executable, "-c", FAMILY], tmp_path, 60, said.append))
        while not said:
            await asyncio.sleep(0.02)
        task.cancel()
        return isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)

    assert asyncio.run(work())
    assert _gone(said[0]["child"])


def test_a_process_that_ends_leaves_no_children(tmp_path: Path) -> None:
    said: list[Message] = []
    code = FAMILY.rsplit("time.sleep(600)", 1)[0]
    ended = asyncio.run(run_limited([sys.executable, "-c", code], tmp_path, 60, said.append))
    assert ended.exit_code == 0 and not ended.timed_out
    assert _gone(said[0]["child"])


def test_what_it_says_is_bounded_and_may_be_nonsense(tmp_path: Path) -> None:
    said: list[Message] = []
    lines = ["x" * 3 * LINE_BYTES, "[1]", "{", '{"stage": 1}']
    code = f"import sys\nprint(*{lines}, sep='\\n')\nsys.exit('bye')"
    ended = asyncio.run(run_limited(_written(code, tmp_path), tmp_path, 60, said.append))
    assert said == [{"stage": 1}]
    assert ended.exit_code == 1 and ended.log.strip() == "bye"


def test_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATONC_TOKEN", "secret")
    said: list[Message] = []
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    asyncio.run(run_limited([sys.executable, "-c", code], tmp_path, 60, said.append))
    assert "secret" not in said[0].values() and said[0]["TMPDIR"] == str(tmp_path / "scratch")


def test_a_worker_is_confined_before_it_reads(tmp_path: Path) -> None:
    limits = asdict(JobLimits(seconds=5, memory_bytes=1 << 30, file_bytes=1 << 20))
    code = f"""
from atonc.doors.serve.limits import confine
confine({json.dumps(limits)})
try:
    bytearray(2 << 30)
except MemoryError:
    print("no memory")
try:
    open("large", "wb").write(bytes(2 << 20))
except OSError:
    print("no space")
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.split("\n")[:2] == ["no memory", "no space"], found.stderr
