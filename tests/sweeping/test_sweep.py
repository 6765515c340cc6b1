"""A sweep: rows from its file, figures as `analyze` gives them, refused models as rows, and nothing computed twice."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import atonc
from atonc.compiler.compile.pipeline import compile_file, compile_front, target_of
from atonc.compiler.plan.policy import FRONT_STEP
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.insight.report import sweep_text
from atonc.insight.report.document import lines
from atonc.insight.report.html import sweep_page
from atonc.insight.sweeping.plan import read_plan
from atonc.insight.sweeping.row import unit_of
from atonc.insight.sweeping.run import on_front
from atonc.machine.base.errors import InputError

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("digits.tflite", "digits.onnx"):
        shutil.copy(DIGITS / name, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    (folder / "sweep.toml").write_text(text)
    return folder / "sweep.toml"


def test_every_combination_is_a_row(folder: Path) -> None:
    plan = read_plan(
        written(
            folder,
            """
models = ["digits.*"]
boards = ["stm32n6570-dk", "nucleo-n657x0-q"]
sizes = ["H=8", {H = 16, W = 8}]
[options]
prefer = ["speed", "memory"]
cut_outputs = ["a", "b"]
numerics = "2.x"
""",
        )
    )
    assert len(plan.rows) == 2 * 2 * 2 * 2
    assert plan.varied == ("prefer",)
    assert {row.size for row in plan.rows} == {"H=8", "H=16,W=8"}
    assert plan.rows[0].options == {"prefer": "speed", "cut_outputs": ["a", "b"], "numerics": "2.x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = []", "no models"),
        ('models = ["*.keras"]', "finds no model"),
        ('models = ["nothing.onnx"]', "there is no file"),
        ('model = ["digits.onnx"]', "did you mean models"),
        ('models = ["digits.onnx"]\n[options]\nprefr = "speed"', "did you mean prefer"),
        ('models = ["digits.onnx"]\n[options]\nprefer = "fast"', "allowed are"),
        ('models = ["digits.onnx"]\nboards = ["stm32h5"]', "no board"),
        ('models = ["digits.onnx"]\nsizes = [3]', "no size"),
        ('models = ["digits.onnx"]\nsizes = ["H"]', "line 2, sizes: 'H' is no size"),
        ('models = ["digits.onnx"]\nsizes = [{H = -1}]', "no size"),
        ('models = ["digits.onnx"]\n[options]\nprefer = []', "an empty list"),
        ('models = ["digits.onnx"]\n[options]\nnpu_mhz = nan', "npu_mhz: 'nan' is not a number above zero"),
        ('models = ["digits.onnx"]\n[options]\nkeep_free = -1', "keep_free: '-1' is not a size"),
        ("models = [", "not TOML"),
    ],
)
def test_a_wrong_file_is_told_before_the_work(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_plan(written(folder, text))


def test_options_that_do_not_go_together_refuse_their_rows_only(folder: Path) -> None:
    text = 'models = ["digits.tflite"]\n[options]\nencrypt_weights = [false, true]\nresident = ["", "4k"]\n'
    found = atonc.sweep(written(folder, text), processes=1)
    refused = [(row.options, row.why_not) for row in found.results if row.figures is None]
    ((options, why),) = refused
    assert len(found.results) == 4 and options == {"encrypt_weights": True, "resident": "4k"}
    assert "--encrypt-weights does not go with --resident" in why


def test_rows_are_kept_and_refused_models_are_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.tflite").write_bytes(b"no model")
    file = written(folder, 'models = ["digits.tflite", "broken.tflite"]\nsizes = ["H=8", "H=9"]\n')
    first = atonc.sweep(file, processes=2)
    good, *bad = first.results  # sizes mean nothing to a model without free dimensions: it is there once
    assert good.figures is not None and good.on_front and good.size == ""
    assert len(bad) == 2 and all("TFL3" in row.why_not and str(folder) not in row.why_not for row in bad)
    assert first.known == 0 and any("no free dimensions" in note for note in first.notes)
    again = atonc.sweep(file, processes=1)
    assert again.results == first.results and again.known == 4
    assert good.figures["latency_ms"] == atonc.compile(folder / "digits.tflite", verify=False).latency_ms

    assert main(["sweep", str(file), "-o", str(folder / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((folder / "out" / "sweep.json").read_text())
    rows = list(csv.DictReader(io.StringIO((folder / "out" / "sweep.csv").read_text())))
    assert [row["model"] for row in rows] == ["digits.tflite", "broken.tflite", "broken.tflite"]
    assert float(rows[0]["latency_ms"]) == good.figures["latency_ms"]
    page = sweep_page(first)
    assert b"front-plot" in page and page == (folder / "out" / "sweep.html").read_bytes()
    assert any(line.startswith("no figures: broken.tflite") for line in lines(sweep_text.document(first)))


def test_accuracy_is_a_column(folder: Path) -> None:
    file = written(folder, 'models = ["digits.tflite"]\naccuracy = true\nsamples = 1\n')
    found = atonc.sweep(file, processes=1)
    assert found.results[0].figures is not None and found.results[0].figures["outputs_db"] > 20


def test_the_key_of_a_row_follows_every_file_of_the_board(folder: Path) -> None:
    """A board may be based on another file, whose change changes the figures."""
    (folder / "base.toml").write_text('name = "base"\nbased_on = "stm32n6570-dk"\n')
    (folder / "mine.toml").write_text('name = "mine"\nbased_on = "base.toml"\n')
    plan = read_plan(written(folder, 'models = ["digits.tflite"]\nboards = ["mine.toml"]\n'))
    unit = unit_of(plan, plan.rows[0])
    assert [path.name for path in unit.files] == ["digits.tflite", "mine.toml", "base.toml"]
    assert str(folder) not in json.dumps(dict(unit.options))  # the same work in another folder has the same key


def test_files_that_options_name_are_part_of_a_row(folder: Path) -> None:
    text = 'models = ["digits.tflite"]\n[options]\nmpool = "/there/my.mpool"\nevidence = "/there/evidence.json"\n'
    plan = read_plan(written(folder, text))
    unit = unit_of(plan, plan.rows[0])
    assert [path.name for path in unit.files] == ["digits.tflite", "my.mpool", "evidence.json"]
    assert unit.options["evidence_file"] == 2 and "/there" not in json.dumps(dict(unit.options))


def test_the_front() -> None:
    rows = [(1.0, 9), (2.0, 5), (2.0, 6), (3.0, 5), (9.0, 1)]
    figures = [{"latency_ms": ms, "ram_bytes": size} for ms, size in rows]
    assert on_front([*figures, None], ["m"] * 6) == [True, True, False, False, True, False]
    assert on_front(figures, ["m", "m", "n", "n", "m"]) == [True, True, True, True, True], "one front for each model"
    better = [figures[0] | {"outputs_db": 20.0}, figures[2] | {"outputs_db": 30.0}, figures[1] | {"outputs_db": 10.0}]
    assert on_front(better, ["m"] * 3) == [True, True, True]


def test_the_front_of_one_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = str(folder / "digits.tflite"), folder / "front.html"
    assert main(["analyze", model, "--no-verify", "--json", "--pareto", str(page)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    figures = [row["figures"] for row in rows]
    ram, cycles = [[one[name] for one in figures] for name in ("ram_bytes", "cycles")]
    assert len(rows) > 1 and ram == sorted(set(ram)) and cycles == sorted(set(cycles), reverse=True)
    assert b"front-plot" in page.read_bytes()
    for row in rows:  # each can be had again
        decisions = str(folder / row["options"]["decisions"])
        assert main(["analyze", model, "--no-verify", "--json", "--decisions", decisions]) == 0
        again = json.loads(capsys.readouterr().out)
        found = {"cycles": again["cycles"], "ram_bytes": again["memory"]["ram_bytes"]}
        assert found == {name: row["figures"][name] for name in found}


def test_the_ends_of_the_front_are_as_good_as_single_goals(folder: Path) -> None:
    """Two objectives find at least what one of them finds."""
    model = folder / "digits.tflite"
    found = compile_front(model, Options(verify=False))
    fastest = compile_file(model, Options(verify=False, resident="all"))
    smallest = compile_file(model, Options(verify=False, prefer="memory"))
    assert min(one.cost.cycles for one in found) <= fastest.cost.cycles
    assert min(one.layout.memory.ram_bytes for one in found) <= FRONT_STEP * smallest.layout.memory.ram_bytes


def test_the_front_keeps_what_else_was_asked_for(folder: Path) -> None:
    asked = Options(verify=False, silicon="seen", cpu_mhz=600)
    found = compile_front(folder / "digits.tflite", asked)
    assert {one.target.trust.worst for one in found} == {target_of(asked).trust.worst}
    assert {one.target.machine.clocks.cpu_mhz for one in found} == {600}


def test_rows_may_be_estimates(folder: Path) -> None:
    found = atonc.sweep(written(folder, 'models = ["digits.tflite"]\nestimate = true\n'), processes=1)
    (row,) = found.results
    assert row.figures is not None and row.model == "digits.tflite"
    assert row.figures["latency_ms"] == atonc.estimate(folder / "digits.tflite").latency_ms
    assert any("figures are estimates" in note for note in found.notes)
    with pytest.raises(InputError, match="verify beside estimate"):
        atonc.sweep(written(folder, 'models = ["digits.tflite"]\nestimate = true\nverify = true\n'))
