"""Whatever ends `deploy`, what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atonc.delivery.deploy import tools
from atonc.machine.base.errors import ToolError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")
# a tool that starts another one, tells that both run, and would go on for hours
_TOOL = 'sleep 10000 & echo started > "$0"; wait'
_DEPLOY = """
import sys
from pathlib import Path
from atonc.delivery.deploy import tools
tools.run(["sh", "-c", sys.argv[1], sys.argv[2]], Path(), "building", (int(sys.argv[3]),))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_with_it(number: signal.Signals, tmp_path: Path) -> None:
    """Both tools hold the end of a pipe: it is read until nobody does any more."""
    started = tmp_path / "started"
    os.mkfifo(started)
    listens, held = os.pipe()
    command = [sys.executable, "-c", _DEPLOY, _TOOL, str(started), str(held)]
    with subprocess.Popen(command, pass_fds=[held], stderr=subprocess.DEVNULL) as process:
        os.close(held)
        assert started.read_text() == "started\n"
        process.send_signal(number)
        assert os.read(listens, 1) == b""  # the last of them has gone
    os.close(listens)
    assert process.returncode != 0


def test_what_a_tool_says_and_how_it_ends(tmp_path: Path) -> None:
    assert tools.run(["sh", "-c", "cat; echo done; pwd"], tmp_path, "trying") == f"done\n{tmp_path}\n"
    for command, said in ((["sh", "-c", "echo 'error: of mine' >&2; exit 3"], "of mine"), (["./none"], "No such file")):
        with pytest.raises(ToolError, match="trying failed") as error:
            tools.run(command, tmp_path, "trying")
        assert said in "\n".join(error.value.details)
