"""Many builds in one view: folders, documents and sweeps in their order, in text, in JSON and as charts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from atonc.insight.report import history_text
from atonc.insight.report.document import lines
from atonc.insight.report.history_text import COSINE, BuildRow
from atonc.insight.report.html.page import document_page

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a CI keeps: build folders, and documents of which only figures are left."""
    folder = tmp_path_factory.mktemp("history")
    assert main(["generate", DIGITS, "-o", str(folder / "build-9"), "-q"]) == 0
    assert main(["generate", DIGITS, "-o", str(folder / "build-10"), "--resident", "-q", "--no-verify"]) == 0
    figures = {"latency_ms": 0.5, "latency_low_ms": 0.4, "latency_high_ms": 0.6, "ram_bytes": 2048, "cpu_ms": 0.1}
    (folder / "build-11.json").write_text(json.dumps({"format": 1, **figures, "memory": figures}))
    rows = [
        {"model": "m.tflite", "options": {"prefer": "speed", "clock": 1}, "figures": {**figures, "outputs_db": 31.5}},
        {"model": "m.tflite", "options": {"prefer": "memory"}, "figures": None},
    ]
    swept = {"format": 1, "sweep": "s.toml", "rows": rows, "varied": ["prefer"], "notes": []}
    (folder / "build-12.json").write_text(json.dumps(swept))
    (folder / "notes").mkdir()
    return folder


def test_a_folder_of_builds_is_shown_in_its_order(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = kept / "page.html"
    assert main(["compare", "--history", str(kept), "--html", str(page)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "4 builds in their order"
    assert [line.split()[0] for line in said[2:6]] == ["build-9", "build-10", "build-11", "m.tflite"]
    assert "prefer=speed" in said[5] and "31.5 dB" in said[5] and "20.0 %" in said[5]
    assert any(line.startswith("latency ") and "best" in line and "build-10" in line for line in said)
    html = page.read_text()
    assert html.count("<svg") == html.count("class='chart'") >= 5 and "class='bounds'" in html
    assert html.count("data-tip=") >= 6 and "latency (ms)" in html and "RAM (KiB)" in html


def test_builds_that_are_named_keep_their_order(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [str(kept / name) for name in ("build-10", "build-11.json", "build-9")]
    assert main(["compare", *places, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["document"] == "compare-history"
    assert [one["name"] for one in found["builds"]] == ["build-10", "build-11", "build-9"]
    first = found["builds"][0]
    assert first["latency_low_ms"] < first["figures"]["latency"] < first["latency_high_ms"]
    assert {"latency", "RAM", "flash", "CPU share"} <= set(first["figures"]) and COSINE not in first["figures"]
    assert COSINE in found["builds"][2]["figures"]


def test_rows_of_a_sweep_are_builds_too(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--history", str(kept / "build-12.json"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["builds"]
    assert row["name"] == "m.tflite prefer=speed" and row["figures"]["accuracy"] == 31.5


def test_figures_are_those_of_the_build_itself(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["compare", "--history", str(kept), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["builds"][0]["figures"]
    assert figures["latency"] == told["latency_ms"] and figures["RAM"] == told["memory"]["ram_bytes"]
    assert figures["flash"] == told["memory"]["flash_bytes"] and COSINE in figures
    assert figures["CPU share"] == pytest.approx(100 * told["bound_by"]["cpu"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no build"),
        (["{kept}/build-9"], "one build alone"),
        (["--history", "{kept}/notes"], "no build in it"),
        (["--history", "{kept}/build-9/network.c"], "is no folder and no document"),
        (["{kept}/build-9", "{kept}/build-9", "{kept}/build-9", "--max-ratio", "1.1"], "--max-ratio"),
        (["{kept}/build-9", "{kept}/build-9", "--against", "{kept}/build-11.json"], "name one build"),
    ],
)
def test_mistakes_are_told(words: list[str], said: str, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *(word.format(kept=kept) for word in words)]) == 2
    assert said in " ".join(capsys.readouterr().err.split()), "over line breaks"


def test_names_from_files_do_not_act() -> None:
    rows = [BuildRow(name, {"latency": (ms, "ms", False)}, (0.1, 2.0)) for name, ms in (("<b>", 1.0), ("c" * 90, 0.0))]
    document = history_text.document(rows)
    assert "<b>" not in document_page(document).decode().partition("<main")[2]
    assert all(len(line) <= 100 for line in lines(document)[:4])
