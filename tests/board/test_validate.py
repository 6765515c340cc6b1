"""`atonc validate --mode board` as the user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.delivery.firmware import building
from atonc.delivery.firmware.image import vendor_runtime
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS
from tests.errors_said import unwrapped


@needs_compiler
def test_digits_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", str(DIGITS), "--mode", "board", "-b", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["equal"] and found["core"] == "cortex-m33"
    assert (found["samples"], found["bytes_compared"], found["bytes_different"]) == (1, 10, 0)


@needs_compiler
@pytest.mark.parametrize("built", [False, True])
def test_the_clocks_that_are_asked_for(built: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cycles(flash: int, *words: str) -> int:
        if built:
            assert cli.main(["generate", str(DIGITS), "-o", str(tmp_path), "-q", "--no-verify", *words]) == 0
        place = ["-o", str(tmp_path)] if built else []
        assert cli.main(["validate", str(DIGITS), "--mode", "board", "-b", "1", "--json", *place, *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["npu_mhz"], found["cpu_mhz"], found["flash_mb_per_s"]) == (1000, 800, flash)
        return int(found["npu_cycles"])

    assert cycles(50, "--flash-mbps", "50") > 3 * cycles(400)


def test_missing_compiler_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["validate", str(DIGITS), "--mode", "board"]) == 4
    assert building.PACKAGES in unwrapped(capsys.readouterr().err)


def test_runtime_folder_without_sources(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        vendor_runtime(tmp_path / "none")
    with pytest.raises(InputError, match=r"ll_aton_runtime\.c is nowhere below"):
        vendor_runtime(tmp_path)


def test_runtime_folder_is_searched(tmp_path: Path) -> None:
    """Names decide, wherever they lie; of several headers the one for this chip is taken."""
    home = tmp_path / "Middlewares" / "Npu" / "ll_aton"
    names = ["ll_aton.c", "ll_aton_runtime.c", "ll_aton_lib.c", "ll_aton_lib_sw_operators.c", "ll_aton_util.c"]
    places = {home: [*names, "ll_aton_runtime.h", "ecloader.c"]}
    places[tmp_path / "Devices" / "OTHER"] = ["ATON.h"]
    places[tmp_path / "Devices" / "STM32N6xx"] = ["ATON.h", "npu_cache.h"]
    places[tmp_path / "Drivers"] = ["stm32n6xx.h", "core_cm55.h", "stm32n6xx_hal.h"]
    for folder, files in places.items():
        folder.mkdir(parents=True)
        for name in files:
            (folder / name).touch()
    found = vendor_runtime(tmp_path)
    assert [path.name for path in found.sources] == [*names, "ecloader.c"]
    assert found.includes == (home, tmp_path / "Devices" / "STM32N6xx", tmp_path / "Drivers")
    assert not found.ours
