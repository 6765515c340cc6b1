"""`atonc sweep` of applications: rows, figures and reasons as for models, and nothing computed twice."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import atonc
from atonc.delivery.application import building
from atonc.delivery.application.figures import figures
from atonc.delivery.application.read import read_application
from atonc.delivery.application.sweeping import sweep, unit_of
from atonc.doors.cli.cli import main
from atonc.insight.report import sweep_text
from atonc.insight.report.document import lines
from atonc.insight.sweeping.plan import SweepOptions, read_plan
from atonc.machine.base.errors import InputError
from tests.application.made import ONNX, TFLITE

PAIR = """
[[network]]
name = "one"
model = "digits.tflite"
per_second = 10

[[network]]
name = "two"
model = "digits.onnx"
per_second = 20
after = "one"
"""
HELD = "\n".join(  # nothing is left for networks
    f'[[reserve]]\nname = "{name}"\nmemory = "{name}"\nsize = "{size}"\n'
    for name, size in (("cpuRAM2", "1M"), *((f"npuRAM{number}", "448K") for number in (3, 4, 5, 6)))
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for model in (TFLITE, ONNX):
        shutil.copy(model, tmp_path)
    (tmp_path / "pair.toml").write_text(PAIR)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    (folder / "sweep.toml").write_text(text)
    return folder / "sweep.toml"


def test_rows_have_the_figures_of_the_build_and_are_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.toml").write_text("[[network]]\nname = 3\n")
    file = written(folder, 'applications = ["*.toml"]\n[options]\nresident = ["", "all"]\n')
    first = atonc.sweep(file, processes=2)
    assert [(row.model, row.options["resident"]) for row in first.results] == [
        ("broken.toml", ""), ("broken.toml", "all"), ("pair.toml", ""), ("pair.toml", "all"),
    ]  # fmt: skip
    assert all(row.figures is None and "broken.toml, line 2" in row.why_not for row in first.refused)
    assert len(first.refused) == 2 and str(folder) not in first.refused[0].why_not
    _, _, plain, resident = first.results
    assert plain.figures is not None and resident.figures is not None and plain.board == "stm32n6570-dk"
    told = figures(building.planned(read_application(folder / "pair.toml")))
    names = ("flash_load", "ram_bytes", "lower_bound_bytes", "kept_bytes", "free_flash_bytes")
    assert {name: plain.figures[name] for name in names} == {name: getattr(told, name) for name in names}
    assert plain.figures["busy_ms"] == pytest.approx(1000 * told.load)
    assert plain.figures["busy_low_ms"] < plain.figures["busy_ms"] < plain.figures["busy_high_ms"]
    assert 0 < plain.figures["npu_load"] < told.load, "these networks have a layer on the CPU"
    assert plain.figures["flash_bytes"] >= 13_000 and plain.figures["energy_uj_per_second"] > 0
    assert resident.figures["resident_bytes"] > 0 == plain.figures["resident_bytes"]
    assert resident.figures["busy_ms"] < plain.figures["busy_ms"] and plain.on_front and resident.on_front

    assert main(["sweep", str(file), "-o", str(folder / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((folder / "out" / "sweep.json").read_text())
    rows = list(csv.DictReader(io.StringIO((folder / "out" / "sweep.csv").read_text())))
    assert [row["resident"] for row in rows] == ["", "all"] * 2
    assert float(rows[3]["busy_ms"]) == resident.figures["busy_ms"] and rows[0]["why_not"]
    again = atonc.sweep(file)
    assert again.results == first.results and again.known == 4
    text = lines(sweep_text.document(again))
    assert "of a second" in text[1] and any(line.startswith("* pair.toml resident=all") for line in text)
    assert "ms of a second predicted" in repr(again) and "time of a second (ms)" in again._repr_html_()
    assert b'"busy_ms"' in (folder / "out" / "sweep.html").read_bytes()


def test_what_does_not_fit_is_a_row_and_alone_gives_code_1(folder: Path) -> None:
    (folder / "held.toml").write_text(HELD + PAIR)
    (folder / "lost.toml").write_text(PAIR.replace("digits.onnx", "lost.onnx"))
    file = written(folder, 'applications = ["held.toml", "lost.toml"]\nboards = ["nucleo-n657x0-q"]\n')
    assert main(["sweep", str(file), "-o", str(folder / "out"), "-q"]) == 1
    held, lost = json.loads((folder / "out" / "sweep.json").read_text())["rows"]
    assert "find no place in the NPU's own RAM" in held["why_not"] and held["board"] == "nucleo-n657x0-q"
    assert "lost.onnx" in lost["why_not"] and str(folder) not in lost["why_not"]
    shutil.copy(folder / "digits.onnx", folder / "lost.onnx")
    again = sweep(file, SweepOptions())
    assert again.known == 1 and again.results[1].figures is not None, "a file that comes makes another row"


def test_the_key_of_a_row_follows_all_its_files(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "board.toml").write_text('name = "mine"\nbased_on = "stm32n6570-dk"\n')
    (folder / "evidence.json").write_text("{}")
    (folder / "pair.toml").write_text(PAIR + '[network.options]\nevidence = "evidence.json"\n')
    plan = read_plan(written(folder, 'applications = ["pair.toml"]\nboards = ["mine/board.toml"]\n'))
    unit = unit_of(plan, plan.rows[0])
    names = ["pair.toml", "board.toml", "digits.tflite", "digits.onnx", "evidence.json"]
    assert [path.name for path in unit.files] == names
    assert str(folder) not in json.dumps(dict(unit.options))


def test_settings_are_for_the_whole_and_for_every_network(folder: Path) -> None:
    settings = 'share_constants = [false, true]\nprefer = "memory"\n'
    file = written(folder, f'applications = ["pair.toml"]\nverify = true\n[options]\n{settings}')
    apart, shared = atonc.sweep(file).results
    assert apart.figures is not None and shared.figures is not None and apart.figures["verified"] is True
    assert shared.figures["flash_bytes"] < apart.figures["flash_bytes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications = []", "no applications"),
        ('applications = ["*.app"]', "finds no application"),
        ('applications = ["nothing.toml"]', "there is no file"),
        ('applications = ["pair.toml"]\nmodels = ["digits.onnx"]', "models beside applications"),
        ('applications = ["pair.toml"]\nsizes = ["H=8"]', "sizes beside applications"),
        ('applications = ["pair.toml"]\nboards = ["stm32h5"]', "no board"),
        ('applications = ["pair.toml"]\n[options]\nprefer = "fast"', "allowed are"),
        ('applications = ["pair.toml"]\n[options]\nkeep_free = 8', "keep_free beside applications"),
        ('applications = ["pair.toml"]\n[options]\ndecisions = "a.json"', "decisions beside applications"),
        ('applications = ["pair.toml"]\n[options]\nshare_constants = "yes"', "not true or false"),
        ('models = ["digits.onnx"]\n[options]\nshare_constants = true', "not known"),
    ],
)
def test_a_wrong_file_is_told_before_the_work(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep(written(folder, text), SweepOptions())
