"""Programmer and debugger of the virtual board, as scripts that load firmware call them: the steps of ST's evaluation
on a board, with a loader of our own in the place of ST's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from atonc.delivery.firmware import wire_firmware
from atonc.delivery.wire.links import LINE
from atonc.doors.cli.cli import main
from benchmarks.shared import st_board_tools
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS

LOADED = 0x7038_0000  # where the constants of the example lie


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return tmp_path / "tools"


@needs_compiler
def test_generate_load_validate(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No step repeats what another was told, and the last one names no port."""
    environment = st_board_tools.install(tools)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(LINE, environment[LINE])
    assert main(["generate", "-m", str(DIGITS), "--target", "stm32n6", "--no-epoch-controller", "-q"]) == 0
    _load(tools, environment)
    try:
        code = main(["validate", "-m", str(DIGITS), "--mode", "target", "-d", "serial:921600", "-b", "1"])
    finally:
        st_board_tools.end(tools)
    said = capsys.readouterr().out
    assert code == 0 and "every byte equals the emulator's" in said
    assert "is that of st_ai_output/network.c" in said and "predicted" in said


def _load(tools: Path, environment: dict[str, str]) -> None:
    """What a loader does: constants as a file for the programmer, the firmware by the debugger."""
    request = wire_firmware.BuildOptions((Path("st_ai_output"),), 1, 921_600)
    wire_firmware.build(request, Path("Project.elf"))
    (raw,) = Path("st_ai_output").glob("*.raw")
    moved = ["--change-addresses", hex(LOADED), "-Ibinary", "-Oihex"]
    commands = [
        [tools / "arm-none-eabi-objcopy", *moved, raw, "constants.hex"],
        [tools / "STM32_Programmer_CLI", "-q", "-c", "port=SWD", "--download", "constants.hex", "--verify"],
        [tools / "arm-none-eabi-gdb", "-batch", "Project.elf"],
    ]
    for command in commands:
        subprocess.run([str(word) for word in command], check=True, env={**os.environ, **environment})


def test_the_first_address_of_a_hex_file(tmp_path: Path) -> None:
    file = tmp_path / "a.hex"
    file.write_text(":020000047038D2\n:0400100001020304E2\n:00000001FF\n")
    assert st_board_tools._lowest(file) == LOADED + 0x10


def test_a_line_from_the_environment_is_for_those_who_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from atonc.delivery.wire import links
    from atonc.machine.base.errors import InputError

    monkeypatch.setenv(LINE, "nonsense")
    for text in ("serial", "serial:921600"):
        with pytest.raises(InputError, match="nonsense"):
            links.open_link(text)
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        links.open_link("socket:127.0.0.1:1")
