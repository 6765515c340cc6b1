"""`atonc.compile` in notebooks: short, with figures and a timeline; inputs converted or refused; options checked."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.request.options import Options
from atonc.doors.python.compilation import Compilation, LayerTable
from atonc.machine.base.errors import InputError, ToolError
from tests.cells import run_cells

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def digits() -> Compilation:
    return atonc.compile(DIGITS)


def test_it_is_short_as_text_whatever_the_names(digits: Compilation) -> None:
    text = str(digits)
    assert "digits.tflite" in text and "ms predicted" in text and "image 1x8x8x1 int8" in text
    board = replace(digits.view.board, name="b" * 999)
    long = Compilation(replace(digits.view, model="\x1b" + "m" * 5000, board=board))
    for found in (digits, long, digits.view, digits.compiled, digits.network, digits.layers):
        assert len(repr(found)) <= 200 and repr(found).isprintable()
    assert len(str(long)) < 1024 and "\x1b" not in str(long)


def test_it_is_a_page_with_figures_and_the_timeline(digits: Compilation) -> None:
    from html.parser import HTMLParser

    page = digits._repr_html_()
    opened: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Tags().feed(page)
    assert not opened, "every element is closed"
    assert f"{digits.latency_ms:.3f} ms" in page and f"{digits.memory.activations_bytes:,}" in page
    assert "<svg" in page and page.count("<rect") >= 2 and len(page) < 30_000
    assert "CPU-SOFTMAX" in digits.layers._repr_html_()


def test_names_of_strangers_cannot_act_in_a_page(digits: Compilation) -> None:
    bad = Compilation(replace(digits.view, model="<script>alert(1)</script>"))
    assert "<script" not in bad._repr_html_()


def test_figures_are_those_of_the_command_line(digits: Compilation, capsys: pytest.CaptureFixture[str]) -> None:
    from atonc.doors.cli.cli import main

    assert main(["analyze", str(DIGITS), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert digits.latency_ms == document["latency_ms"] and digits.cycles == document["cycles"]
    assert digits.memory.activations_bytes == document["memory"]["activations_bytes"]
    pools, in_code = document["memory"]["pools"], document["memory"]["code_constants_bytes"]
    assert sum(digits.memory.pools.values()) == sum(pool["used_bytes"] for pool in pools) + in_code
    assert round(digits.prediction_error, 4) == document["expected_error"]


def test_layers_are_a_sequence_and_a_table(digits: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = digits.layers
    assert len(layers) == 8 and layers[0].kind == "conv" and isinstance(layers[1:3], LayerTable)
    rows = layers.rows()
    assert [row["on"] for row in rows][-1] == "cpu" and rows[-1]["rules"].startswith("CPU-SOFTMAX")
    if find_spec("pandas") is not None:
        frame = layers.to_pandas()
        assert list(frame.columns) == list(LayerTable.COLUMNS) and len(frame) == 8
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ToolError, match="pandas is not installed"):
        layers.to_pandas()


def test_files_and_reports(digits: Compilation, tmp_path: Path) -> None:
    files = digits.save(tmp_path / "build")
    assert {"network.c", "network_c_info.json", "report.html"} <= {file.name for file in files}
    assert digits.report(tmp_path / "r.html").read_bytes().startswith(b"<!doctype html>")
    assert "latency" in digits.report(tmp_path / "r.txt").read_text()
    for wrong in (tmp_path / "r.pdf", tmp_path / "no" / "r.html"):
        with pytest.raises(InputError):
            digits.report(wrong)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        digits.save(tmp_path / "file")


def test_inputs_by_name_alone_and_as_pictures(digits: Compilation, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    codes = (pixels.astype(np.int16) - 128).astype(np.int8).reshape(1, 8, 8, 1)
    picture = image.fromarray(pixels)
    picture.save(tmp_path / "p.png")
    expected = digits.run({"image": codes})["probabilities"]
    for given in (codes, picture, tmp_path / "p.png", str(tmp_path / "p.png")):
        assert np.array_equal(digits.run(given)["probabilities"], expected)
        assert np.array_equal(digits.run(image=given)["probabilities"], expected)
    floats = atonc.compile(DIGITS, verify=False, input_type="float32")
    assert np.array_equal(floats.run(picture)["probabilities"], expected)
    with pytest.raises(InputError, match=r"did you mean 'image'"):
        digits.run(imge=codes)
    with pytest.raises(InputError, match="there is no such file"):
        digits.run(tmp_path / "missing.png")
    with pytest.raises(InputError, match="kind I"):
        digits.run(picture.convert("I"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"numerics": "3.x"}, "allowed are 'best', '2.x'"),
        ({"verify": "no"}, "verify is 'no', not True or False"),
        ({"input_typ": "int8"}, "did you mean input_type"),
        ({"seed": 1.5}, "not a whole number"),
        ({"npu_mhz": "fast"}, "not a number above zero"),
        ({"on_cpu": (1, 2)}, "not a list of names"),
        ({"input_type": "int8", "input_data_type": "int8"}, "given twice"),
        ({"silicon": "sen"}, "did you mean seen"),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        atonc.compile(DIGITS, **options)


def test_options_may_be_spelled_like_flags() -> None:
    from atonc.machine.base.declare import arguments

    words = {"no_inputs_allocation": True, "memory_pool": Path("a.mpool"), "cut_output_tensors": "a,b", "on_cpu": ["c"]}
    found = arguments(Options, {**words, "fix_parametric_shapes": "B=2", "npu_mhz": 800})
    assert found == Options(
        inputs_allocation=False, mpool="a.mpool", cut_outputs=("a", "b"), on_cpu=("c",), fixed_shapes={"B": 2},
        npu_mhz=800,
    )  # fmt: skip


def test_users_get_our_types() -> None:
    assert (ROOT / "atonc" / "py.typed").is_file()


# ----------------------------------------------------------------------------------------------------- the notebook


@pytest.mark.parametrize("folder", [NOTEBOOK.parent, ROOT, Path("/")], ids=["its own", "the clone", "another"])
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder)
    names, values = run_cells(NOTEBOOK)
    shown = [value._repr_html_() if hasattr(value, "_repr_html_") else repr(value) for value in values]
    assert any("<svg" in text for text in shown) and "network.c" in shown[-1]
    assert names["label"] == int(names["output"].argmax())


@pytest.mark.skipif(not (find_spec("nbclient") and find_spec("ipykernel")), reason="there is no Jupyter kernel")
def test_the_notebook_runs_in_a_kernel(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    book = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=resources).execute(
        env={**os.environ, "PYTHONPATH": paths}
    )
    texts = json.dumps([cell.get("outputs") for cell in book.cells])
    assert "<svg" in texts and "network.c" in texts


def test_the_page_about_python_works_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "python.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), names)
    for name in re.findall(r"`c\.(\w+)", text):
        assert hasattr(names["c"], name), f"a compilation has no {name}"


def test_examples_of_executorch_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "atonc.delivery.executorch.quantizer"):  # the second: where a test before had it
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=r"torch is not installed\n  fix: pip install '\.\[executorch\]'"):
        runpy.run_path(str(ROOT / "examples" / "delegate.py"))
    with pytest.raises(ToolError, match="is not installed") as lacking:
        run_cells(ROOT / "examples" / "executorch.ipynb")
    assert lacking.value.remedy == "pip install 'atonc[executorch]'"
