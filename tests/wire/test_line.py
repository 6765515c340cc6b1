"""The line that scripts mean who name no port: it stands in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.delivery.firmware import wire_firmware
from atonc.delivery.wire import links
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS
from tests.wire.served import served


@needs_compiler
def test_generate_build_validate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No step repeats what another was told, and the last one names no port."""
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "-m", str(DIGITS), "--target", "stm32n6", "--no-epoch-controller", "-q"]) == 0
    wire_firmware.build(wire_firmware.BuildOptions((Path("st_ai_output"),), 1, 921_600), Path("Project.elf"))
    with served(tmp_path / "Project.elf") as line:
        monkeypatch.setenv(links.LINE, line)
        code = main(["validate", "-m", str(DIGITS), "--mode", "target", "-d", "serial:921600", "-b", "1"])
    said = capsys.readouterr().out
    assert code == 0 and "every byte equals the emulator's" in said
    assert "is that of st_ai_output/network.c" in said and "predicted" in said


def test_a_line_from_the_environment_is_for_those_who_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(links.LINE, "nonsense")
    for text in ("serial", "serial:921600"):
        with pytest.raises(InputError, match="nonsense"):
            links.open_link(text)
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        links.open_link("socket:127.0.0.1:1")
