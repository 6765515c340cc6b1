"""`atonc compare` of two applications: figures of the whole and of every network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.application.made import ONNX, TFLITE
from tests.errors_said import unwrapped


def file(folder: Path, name: str, *rates: int) -> str:
    networks = [("one", TFLITE), ("two", ONNX)][: len(rates)]
    rows = [
        f'[[network]]\nname = "{title}"\nmodel = "{model}"\nper_second = {rate}\n'
        for (title, model), rate in zip(networks, rates, strict=True)
    ]
    (folder / name).write_text("\n".join(rows))
    return str(folder / name)


def test_a_folder_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both, alone = file(tmp_path, "both.toml", 10, 20), file(tmp_path, "alone.toml", 20)
    assert main(["app", "build", both, "-o", str(tmp_path / "built"), "-q"]) == 0
    assert main(["compare", both, str(tmp_path / "built"), "--json", "--max-ratio", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)["figures"]
    assert rows and all(row["a"] == pytest.approx(row["b"]) for row in rows)
    assert {row["network"] for row in rows} == {"", "one", "two"}
    assert main(["compare", alone, both, "--max-ratio", "1.5"]) == 1
    said = capsys.readouterr()
    assert "times as long of every second" in said.err and "two" in said.out


def test_what_is_no_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = file(tmp_path, "app.toml", 10)
    assert main(["compare", whole, str(TFLITE)]) == 2
    assert "two applications, or two networks" in unwrapped(capsys.readouterr().err)
    assert main(["compare", whole, whole, "--seed", "1"]) == 2
    (tmp_path / "bad").mkdir()
    for text in ("{}", "[1]", '{"format": "atonc application 1", "networks": 3, "totals": {}}', "[" * 99_999):
        (tmp_path / "bad" / "app.json").write_text(text)
        assert main(["compare", str(tmp_path / "bad"), str(tmp_path / "bad")]) == 2
        assert "is not the map of an application" in unwrapped(capsys.readouterr().err)
