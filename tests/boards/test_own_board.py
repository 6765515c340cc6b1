"""A board that nobody knows is one new file: compiled for, with its clocks in every report of the build."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from atonc.insight.explain.folder import folder_view
from atonc.machine.hw.machine import stm32n6

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
MINE = """
name = "mine"
based_on = "stm32n6570-dk"
[clocks]
npu_mhz = 800
[[memories]]
name = "hyperRAM"
size = "16M"
[[areas]]
name = "frame buffers"
size = 0
[[areas]]
name = "weights"
base = 0x70400000
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled for the board, whose file is gone afterwards: the build has to remember."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.toml").write_text(MINE)
    made = folder / "build"
    assert main(["generate", str(DIGITS), "--board", str(folder / "mine.toml"), "-o", str(made), "--hex", "-q"]) == 0
    (folder / "mine.toml").unlink()
    return made


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_memories_are_those_of_the_board(build: Path) -> None:
    pools = {p["name"]: p for p in json.loads((build / "network_c_info.json").read_text())["memory_pools"]}
    assert int(pools["octoFlash"]["address"]) == 0x7040_0000
    assert pools["hyperRAM"]["size_bytes"] <= 16 << 20
    image = next(build.glob("*xSPI2*.hex")).read_text()
    assert image.startswith(":020000047040")  # the first record sets the upper half of the address
    assert "0x70400000" in (build / "network.c").read_text()


def test_every_report_has_the_clocks(build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--board mine.toml" in (build / "report.html").read_text()  # without the folder: same bytes anywhere
    assert all(str(build.parent) not in path.read_text(errors="replace") for path in build.iterdir())
    for name in ("network_report.txt", "report.html"):
        assert "NPU 800 MHz" in (build / name).read_text(), name
    assert "NPU 800 MHz" in said(capsys, "explain", build)
    assert json.loads(said(capsys, "explain", build, "--json"))["clocks"]["npu_mhz"] == 800
    said(capsys, "view", build, "--save", tmp_path / "page.html")
    assert '"npu_mhz":800' in (tmp_path / "page.html").read_text().replace(" ", "")
    assert "NPU 800 MHz" in said(capsys, "run", build)
    assert said(capsys, "compare", build, build).count("NPU 800 MHz, CPU 800 MHz") == 2


def test_a_build_is_as_fast_as_it_was_predicted(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the folder alone the same latency follows as when it was made; other clocks may be asked for."""
    report = (build / "network_report.txt").read_text()
    found = folder_view(build)
    assert f"{found.latency_ms:.2f} ms" in report or f"{found.latency_ms:.3f} ms" in report
    usual = json.loads(said(capsys, "explain", build, "--json", "--npu-mhz", "1000"))
    assert usual["latency_ms"] < found.latency_ms


def test_limits_are_those_of_the_clocks(build: Path) -> None:
    """No sentence has the figure of another board: 400 MB/s are two cycles a byte for an NPU at 800 MHz."""
    usual, own = folder_view(build, adjust=lambda _: stm32n6()), folder_view(build)
    said = {d.rule.id: d.limit for layer in own.layers for d in layer.decisions if d.rule.id.startswith("BOUND-")}
    before = {d.rule.id: d.limit for layer in usual.layers for d in layer.decisions}
    assert said.get("BOUND-FLASH") == "400 MB/s: 2 cycles per byte"
    assert before["BOUND-FLASH"] == "400 MB/s on the discovery kit: 2.5 cycles per byte"


def test_a_damaged_note_of_the_clocks_counts_as_absent(build: Path, tmp_path: Path) -> None:
    for wrong in ({}, {"clocks": {"npu_mhz": -1}}, [], {"clocks": {}, "external_memories": 3}, "x"):
        copy = tmp_path / "copy"
        shutil.copytree(build, copy, ignore=shutil.ignore_patterns("*_manifest.json"))
        path = copy / "network_program.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"machine": wrong}))
        assert folder_view(copy).npu_mhz == 1000
        shutil.rmtree(copy)


def test_cpu_layers_follow_the_clock_of_the_cpu(build: Path) -> None:
    """What the CPU takes does not change with the NPU's clock, and nearly doubles at half of its own: it waits as long
    for memory."""

    def cpu_ms(**clocks: float) -> float:
        view = folder_view(build, adjust=lambda machine: machine.with_clocks(**clocks))
        return sum(step.milliseconds for step in view.steps if step.on == "cpu")

    assert cpu_ms() > 0
    assert 1.9 * cpu_ms() < cpu_ms(cpu_mhz=400) < 2 * cpu_ms()
    assert cpu_ms(npu_mhz=400) == pytest.approx(cpu_ms(), rel=2e-3)  # counted in whole cycles of the NPU
