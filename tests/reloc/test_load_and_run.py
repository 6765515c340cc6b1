"""`atonc load-and-run`: on the virtual board for real, on a real board as far as pretended tools go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.cli import main
from tests.board.programs import needs_compiler
from tests.reloc import images
from tests.reloc.images import FOR_BOARD

pytestmark = needs_compiler


@pytest.fixture
def split_image(tmp_path: Path) -> Path:
    built = images.image(images.folder(), replace(FOR_BOARD, split=True))
    path = tmp_path / "network_rel.bin"
    path.write_bytes(built.image.data)
    path.with_name("network_rel_params.bin").write_bytes(built.params)
    return path


def test_on_the_virtual_board(
    split_image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = images.loader()  # the same, built once for all tests
    monkeypatch.setattr("atonc.loading.build_loader", lambda runtime, folder: loader)
    assert main(["load-and-run", "-i", str(split_image), "--mode", "xip", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [epoch["kind"] for epoch in found["epochs"]] == ["EC", "SW"]
    controller = found["epochs"][0]
    assert controller["npu"] > 10 * controller["pre"] and found["cycles"] >= sum(e["npu"] for e in found["epochs"])
    assert len(found["outputs"]) == 1 and found["inferences_per_second"] > 0


def test_a_missing_parameter_file(split_image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_image.with_name("network_rel_params.bin").unlink()
    assert main(["load-and-run", str(split_image)]) == 2
    assert "network_rel_params.bin, which is not there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (("--mode", "fly"), "possible are: copy, xip"),
        (("--address", "here"), "is not ADDRESS"),
        (("--board", "nucleo", "--dry-run"), "supported are: stm32n6570-dk"),
        (("--real", "--cube-ide-dir", "/nowhere"), "no such folder"),
    ],
)
def test_wrong_options(
    split_image: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load-and-run", str(split_image), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_shows_every_step(
    split_image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["load-and-run", str(split_image), "--dry-run", "--mode", "xip,max-speed"]) == 0
    out = capsys.readouterr().out
    steps = [line for line in out.splitlines() if line.startswith("[")]
    assert [step.split(" at ")[0] for step in steps] == [
        "[1] reset the board",
        "[2] flash network_rel.bin",
        "[3] reset the board",
        "[4] flash network_rel_params.bin",
        "[5] start the GDB server",
        "[6] load and start stm32n6570-dk-validation-reloc-xip-5529600.elf",
    ]
    assert "mode=hotplug freq=2000 ap=1 --extload" in out and "0x71800000" in out
    assert out.count("missing: ") == 4


def pretend(folder: Path, programmer: str) -> None:
    """Tools that say what the test wants and note how they were called."""
    folder.mkdir()
    for name, body in (("STM32_Programmer_CLI", programmer), ("ST-LINK_gdbserver", ""), ("arm-none-eabi-gdb", "")):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\n{body}\nexit 0\n')
        path.chmod(0o755)


def on_real(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.delenv("STM32_CUBE_IDE_DIR", raising=False)
    monkeypatch.setattr("atonc.real_board._SETTLE_S", 0.0)
    elf = path.with_name("firmware.elf")
    elf.write_bytes(b"")
    return main(["load-and-run", str(path), "--real", "--firmware", str(elf)])


def test_the_steps_run_in_order(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", "")
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 0
    calls = (tmp_path / "tools" / "calls").read_text().splitlines()
    programmer = [call for call in calls if call.startswith("STM32_Programmer_CLI")]
    assert len(programmer) == 4 and "--download" in programmer[1] and "_params.bin 0x71800000" in programmer[3]
    assert any(call.startswith("arm-none-eabi-gdb -batch") for call in calls)
    assert "--mode target -d serial" in capsys.readouterr().out


def test_no_probe_is_said_so(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", 'echo "Error: No debug probe detected."; exit 1')
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 4
    error = capsys.readouterr().err
    assert "reset the board failed" in error and "no ST-LINK is connected" in error


def test_a_failing_download_ends_it(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", 'case "$*" in *download*) echo "Error: verification failed"; exit 1;; esac')
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 4
    assert "flash network_rel.bin" in (error := capsys.readouterr().err) and "verification failed" in error
