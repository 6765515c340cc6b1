"""The trace for Perfetto, the graph for Netron, and the page of any folder."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

import atonc
from atonc.doors.cli.cli import main
from atonc.insight.explain.compare import compare
from tests.emit.generated import steps_of_digits
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent
DIGITS, FIRST = ROOT / "examples" / "digits" / "digits.tflite", ROOT / "examples" / "first"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures")
    extra = ["--trace", str(path / "t.json"), "--annotate", str(path / "a.onnx"), "--no-verify", "-q"]
    assert main(["generate", str(DIGITS), "-o", str(path / "out"), *extra]) == 0
    return path


def test_slices_follow_each_other(folder: Path) -> None:
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == steps_of_digits()
    for one, two in pairwise(slices):
        assert two["ts"] == pytest.approx(one["ts"] + one["dur"], abs=1e-3)
    assert {event["tid"] for event in slices} == {1, 2}
    assert max(event["args"]["bytes"] for event in events if event["ph"] == "C") == 3072


def test_netron_reads_where_and_why(folder: Path) -> None:
    model = onnx.load(folder / "a.onnx")
    value = onnx.helper.get_attribute_value
    nodes = {node.name: {a.name: value(a) for a in node.attribute} for node in model.graph.node}
    assert nodes["SOFTMAX_7"]["runs_on"] == b"cpu"
    assert b"CPU-SOFTMAX" in nodes["SOFTMAX_7"]["rules"]
    assert nodes["CONV_2D_1"]["cycles"] > 0


@pytest.mark.parametrize("place", ["ours", "first"])
def test_every_folder_has_a_page(folder: Path, place: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["view", str(folder / "out" if place == "ours" else FIRST), "--save", str(page)]) == 0
    assert b"<title>" in page.read_bytes()


def test_builds_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(folder / "out"), str(FIRST), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert figures["epochs"]["a"] == steps_of_digits()
    assert main(["compare", str(DIGITS), str(DIGITS), "--max-ratio", "0.9", "-q"]) == 1


def test_a_folder_explains_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(layer["decisions"] for layer in document["layers"])
    assert "unknown" not in json.dumps(document).lower()


def test_the_page_is_served(folder: Path) -> None:
    command = [sys.executable, "-m", "atonc", "view", str(folder / "out"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                assert b"<title>" in answer.read()
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(address + "etc/passwd", timeout=PATIENCE)
        finally:
            server.terminate()


def test_a_c_file_stands_for_its_network(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder / "out" / "network.c"), "--node", "SOFTMAX_7"]) == 0
    assert "CPU-SOFTMAX" in capsys.readouterr().out
    assert main(["compare", str(folder / "out" / "network.c"), str(folder / "out"), "--seed", "1", "-q"]) == 0


def test_python_explains_and_compares(folder: Path) -> None:
    explained = atonc.explain(DIGITS, prices=True)
    assert explained.layers[-1].decisions[0].rule.id == "CPU-SOFTMAX"
    assert explained.layers[-1].decisions[0].price is not None
    assert compare(explained, atonc.explain(folder / "out")).unmatched == 0
