"""`generate --layout`: the folder beside the other files, or a refusal before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.emit.generated import DIGITS


def test_the_folder_lies_beside_the_other_files(tmp_path: Path) -> None:
    command = ["generate", str(DIGITS), "--cut-output-tensors", "dense", "--layout", "rust", "-o", str(tmp_path), "-q"]
    for _ in range(2):  # the second build replaces the first
        assert main([*command, "--no-verify"]) == 0
    assert (tmp_path / "network.c").is_file()
    assert (tmp_path / "network_rust" / "src" / "lib.rs").is_file()
    assert len(list(tmp_path.glob("network_*/Cargo.toml"))) == 1


def test_a_folder_that_was_changed_stops_the_whole_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", str(DIGITS), "--cut-output-tensors", "dense", "--layout", "rust", "-o", str(tmp_path), "-q"]
    assert main([*command, "--no-verify"]) == 0
    (tmp_path / "network_rust" / "README.md").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main([*command, "--no-verify", "--prefer", "memory", "--npu-mhz", "500"]) == 2
    assert "README.md" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("layout", "advised"), [("rust", False), ("cmsis", True)])
def test_only_what_the_layout_takes_is_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str, advised: bool
) -> None:
    command = ["generate", str(DIGITS), "--cut-output-tensors", "dense", "--layout", layout, "-o", str(tmp_path)]
    assert main([*command, "--no-verify"]) == 0
    assert ("--resident" in capsys.readouterr().out) is advised


def test_a_refusal_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert main(["generate", str(DIGITS), "--layout", "rust", "-o", str(folder), "--no-verify"]) == 2
    assert "softmax" in capsys.readouterr().err
    assert not folder.exists()
