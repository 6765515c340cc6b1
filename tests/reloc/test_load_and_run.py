"""`atonc load-and-run`: on the virtual board for real, on a real board as far as pretended tools go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.delivery.recordings import store
from atonc.delivery.recordings.store import digest
from atonc.doors.cli.cli import main
from tests.board.programs import needs_compiler
from tests.errors_said import unwrapped
from tests.reloc import images
from tests.reloc.images import FOR_BOARD
from tests.wire.fake_board import LAYERS, BadLine, FakeBoard

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
    monkeypatch.setattr("atonc.delivery.trials.loading.build_loader", lambda runtime, folder: loader)
    record = split_image.with_name("recorded.npz")
    assert main(["load-and-run", "-i", str(split_image), "--mode", "xip", "--json", "--record", str(record)]) == 0
    found = json.loads(capsys.readouterr().out)
    recorded = store.read(record)
    assert recorded.virtual and not store.faults(recorded) and not recorded.expects
    assert [digest(recorded.arrays["c_outputs_1"])] == found["outputs"]
    assert [epoch["kind"] for epoch in found["epochs"]] == ["EC", "SW"]
    controller = found["epochs"][0]
    assert controller["npu"] > 10 * controller["pre"] and found["cycles"] >= sum(e["npu"] for e in found["epochs"])
    assert len(found["outputs"]) == 1 and found["inferences_per_second"] > 0


def test_a_missing_parameter_file(split_image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_image.with_name("network_rel_params.bin").unlink()
    assert main(["load-and-run", str(split_image)]) == 2
    assert "network_rel_params.bin, which is not there" in unwrapped(capsys.readouterr().err)


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
    assert said in unwrapped(capsys.readouterr().err)


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
        "[7] run it through serial::5529600: 2 inferences, times of every epoch",
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


def on_real(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.delenv("STM32_CUBE_IDE_DIR", raising=False)
    monkeypatch.setattr("atonc.delivery.trials.real_board._SETTLE_S", 0.0)
    elf = path.with_name("firmware.elf")
    elf.write_bytes(b"")
    return main(["load-and-run", str(path), "--real", "--firmware", str(elf), *words])


def test_the_steps_run_in_order(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", "")
    assert on_real(split_image, tmp_path / "tools", monkeypatch, "--mode", "no-run") == 0
    calls = (tmp_path / "tools" / "calls").read_text().splitlines()
    programmer = [call for call in calls if call.startswith("STM32_Programmer_CLI")]
    assert len(programmer) == 4 and "--download" in programmer[1] and "_params.bin 0x71800000" in programmer[3]
    assert any(call.startswith("arm-none-eabi-gdb -batch") for call in calls)
    assert "--mode target -d serial::921600" in capsys.readouterr().out


def test_times_come_over_the_line(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", "")
    opened: list[str] = []

    def open_link(text: str) -> BadLine:
        opened.append(text)
        return BadLine(FakeBoard())

    monkeypatch.setattr("atonc.delivery.wire.links.open_link", open_link)
    assert (
        on_real(split_image, tmp_path / "tools", monkeypatch, "--serial", "serial:/dev/ttyACM0:921600", "--json") == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert opened == ["serial:/dev/ttyACM0:921600"] and found["board"] == "board at line"
    assert [(e["first"], e["last"], (e["pre"], e["npu"], e["post"])) for e in found["epochs"]] == list(LAYERS)
    assert found["cycles"] == sum(sum(parts) for _, _, parts in LAYERS) and found["cpu_mhz"] == 600.0


def test_no_line_is_said_so(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", "")
    assert on_real(split_image, tmp_path / "tools", monkeypatch, "--serial", "socket:127.0.0.1:1") == 2
    assert "127.0.0.1:1" in unwrapped(capsys.readouterr().err)


@pytest.mark.parametrize("name", ["STM32_Programmer_CLI", "ST-LINK_gdbserver", "arm-none-eabi-gdb"])
def test_a_missing_tool_is_named(
    name: str, split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tools"
    pretend(folder, "")
    (folder / name).unlink()
    monkeypatch.setattr(
        "atonc.delivery.trials.real_board.shutil.which", lambda tool: str(folder / tool) if tool != name else None
    )
    assert on_real(split_image, folder, monkeypatch) == 4
    error = unwrapped(capsys.readouterr().err)
    assert f"{name} was not found (it comes with STM32Cube" in error and "--dry-run shows all steps" in error
    assert not (folder / "calls").exists(), "nothing was started"


def test_a_missing_validation_firmware_is_named(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", "")
    assert on_real(split_image, tmp_path / "tools", monkeypatch, "--firmware", str(tmp_path / "none.elf")) == 4
    assert "none.elf was not found" in unwrapped(capsys.readouterr().err)


@pytest.mark.parametrize(
    "says, meaning",
    [
        ("Error: Unable to get core ID", "the chip does not answer: power, boot switches"),
        ("Error: No STM32 target found!", "the chip does not answer: power, boot switches"),
        ("Error: ST-LINK error (DEV_USB_COMM_ERR): already in use", "close the IDE's debugger"),
    ],
)
def test_a_board_that_does_not_answer(
    says: str,
    meaning: str,
    split_image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pretend(tmp_path / "tools", f'echo "{says}"; exit 1')
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 4
    assert meaning in unwrapped(capsys.readouterr().err)


def test_no_probe_is_said_so(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", 'echo "Error: No debug probe detected."; exit 1')
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 4
    error = unwrapped(capsys.readouterr().err)
    assert "reset the board failed" in error and "no ST-LINK is connected" in error


def test_a_failing_download_ends_it(
    split_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(tmp_path / "tools", 'case "$*" in *download*) echo "Error: verification failed"; exit 1;; esac')
    assert on_real(split_image, tmp_path / "tools", monkeypatch) == 4
    assert "flash network_rel.bin" in (error := unwrapped(capsys.readouterr().err)) and "verification failed" in error
