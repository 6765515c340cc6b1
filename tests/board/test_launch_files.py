"""Launch files of VS Code: what they start is what the command line knows, and a user's own files stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.delivery.firmware import wire_firmware
from atonc.delivery.firmware.launch_files import absent, launch_files
from atonc.delivery.generate import generating
from atonc.delivery.trials import board_running
from atonc.delivery.trials.board_running import BoardRun
from atonc.doors.cli import cli
from tests.board.programs import build, needs_compiler
from tests.emit.generated import digits


def test_the_task_starts_what_the_configuration_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: json.loads(data) for name, data in launch_files("out/firmware.elf", ["a.bin@0x70000000"]).items()}
    (task,) = files[".vscode/tasks.json"]["tasks"]
    virtual, real = files[".vscode/launch.json"]["configurations"]
    assert virtual["preLaunchTask"] == task["label"]
    assert task["args"][-1] == ":" + virtual["miDebuggerServerAddress"].rpartition(":")[2]
    assert virtual["program"] == real["executable"] == "${workspaceFolder}/out/firmware.elf"
    assert real["serverArgs"] == ["--apid", "1"]
    ready = task["problemMatcher"]["background"]["endsPattern"].removeprefix("^")
    assert task["command"] == "atonc" and ready


@needs_compiler
def test_the_command_of_the_task_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elf = build(tmp_path, "int main(void) { return 0; }")
    (tmp_path / "a.hex").write_text(":0200000470008A\n:04000000010203F006\n:00000001FF\n")
    files = launch_files(elf.name, ["a.hex"])
    (task,) = json.loads(files[".vscode/tasks.json"])["tasks"]
    words = [word.replace("${workspaceFolder}", str(tmp_path)) for word in task["args"]]
    words[-1] = ":0"  # any port
    assert cli.main([*words, "--seconds", "0"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(task["problemMatcher"]["background"]["endsPattern"].removeprefix("^"))
    board = board_running.make_board(BoardRun(elf, tuple(map(board_running.contents, [f"{tmp_path}/a.hex"]))))
    assert board.memory.read(0x7000_0000, 4).tobytes() == b"\x01\x02\x03\xf0"


@needs_compiler
def test_sources_get_launch_files_and_a_users_own_stay(tmp_path: Path) -> None:
    generating.generate(digits("digits"), tmp_path / "network")
    project, options = tmp_path / "project", wire_firmware.BuildOptions((tmp_path / "network",))
    wire_firmware.write_sources(options, project)
    written = {path.name: path.read_bytes() for path in (project / ".vscode").iterdir()}
    assert set(written) == {"launch.json", "tasks.json"} and b"constants_0x7" in written["tasks.json"]
    wire_firmware.write_sources(options, project)
    assert {path.name: path.read_bytes() for path in (project / ".vscode").iterdir()} == written
    (project / ".vscode/tasks.json").unlink()
    (project / ".vscode/launch.json").write_text("mine")
    wire_firmware.write_sources(options, project)
    assert [path.name for path in (project / ".vscode").iterdir()] == ["launch.json"]
    assert (project / ".vscode/launch.json").read_text() == "mine"


def test_half_of_a_users_files_is_left_alone() -> None:
    files = launch_files("a.elf")
    assert absent(files, lambda file: None) == files
    assert absent(files, files.get) == files
    assert absent(files, lambda file: b"{}" if file.endswith("tasks.json") else None) == {}
