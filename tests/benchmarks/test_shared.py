"""What benchmarks share: the walk through the corpus, records that outlive a stopped run, tables."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.shared import corpus, kept, tables


@pytest.fixture(name="models")
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATONC_CORPUS", str(tmp_path))
    folder = tmp_path / "models"
    folder.mkdir()
    for name, size in {"a_large.tflite": 9, "b_small.onnx": 1, "c_kws_ref_model.tflite": 5, "notes.txt": 1}.items():
        (folder / name).write_text("x" * size)
    return folder


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_one_walk_knows_all_shared_arguments(models: Path) -> None:
    assert names(corpus.chosen(Namespace())) == ["a_large.tflite", "b_small.onnx", "c_kws_ref_model.tflite"]
    assert names(corpus.chosen(Namespace(only=["small", "large"]))) == ["a_large.tflite", "b_small.onnx"]
    assert names(corpus.chosen(Namespace(few=True))) == ["c_kws_ref_model.tflite"]
    assert names(corpus.chosen(Namespace(shard="1/2"))) == ["b_small.onnx"]
    assert names(corpus.chosen(Namespace(models=(), only=()), ["b_small.onnx"])) == ["b_small.onnx"]
    assert corpus.chosen(Namespace(models=["a_large.tflite"]), ["b_small.onnx"]) == [models / "a_large.tflite"]
    assert names(corpus.by_size(corpus.chosen(Namespace())))[0] == "b_small.onnx"


@pytest.mark.parametrize("kind", [kept.Kept, kept.KeptLines])
def test_a_stopped_run_goes_on(kind: type[kept.Kept], tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    assert kind(file).of("one", lambda: {"ms": 1}) == {"ms": 1}
    again = kind(file)
    assert again.of("one", lambda: pytest.fail("it was measured before")) == {"ms": 1}
    again.of("two", lambda: {"ms": 2})
    assert kind(file) == {"one": {"ms": 1}, "two": {"ms": 2}}
    assert kind(file, fresh=True) == {}


def test_a_folder_of_records_is_shared(tmp_path: Path) -> None:
    assert kept.in_folder(tmp_path / "default", "one", lambda: {"ms": 1}) == {"ms": 1}
    assert kept.in_folder(tmp_path / "default", "one", lambda: {"ms": 2}) == {"ms": 1}
    assert kept.in_folder(tmp_path / "default", "one", lambda: {"ms": 2}, fresh=True) == {"ms": 2}


def test_tables() -> None:
    lines = list(tables.table(["model", ">ms"], [("a", 1), ("b", 2)]))
    assert lines == ["| model | ms |", "|---|---:|", "| a | 1 |", "| b | 2 |"]
    assert tables.in_a_cell("no | such\nfile", 8) == "no / suc"
    assert tables.geometric_mean([0.5, 2.0]) == pytest.approx(1.0) and tables.geometric_mean([]) == 1.0
