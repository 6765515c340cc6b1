"""`import atonc` as people in notebooks use it: models from memory, batches, layers by name, results as tables."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.doors.python.compilation import Compilation
from atonc.doors.python.results import ComparisonResult, QuantisedResult, Result, SweepTable
from atonc.insight.quantizing.types import OutputAccuracy, QuantizationStep, QuantizedCandidate
from atonc.insight.sweeping.run import SweepResult
from atonc.machine.base.errors import AtoncError, InputError, ToolError

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.tflite", DIGITS / "test.npz"


@pytest.fixture(scope="module")
def digits() -> Compilation:
    return atonc.compile(MODEL)


def test_the_interface_is_what_dir_says() -> None:
    assert dir(atonc) == sorted(atonc.__all__)
    assert {"compare", "compile", "evaluate", "quantize", "sweep", "validate"} <= set(dir(atonc))
    assert all(getattr(atonc, name) is not None for name in dir(atonc))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = atonc.nothing  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------- models from memory


def test_bytes_are_compiled_like_their_file(digits: Compilation) -> None:
    found = atonc.compile(MODEL.read_bytes())
    assert found.view.model == "model.tflite" and found.cycles == digits.cycles
    assert found.view.reproduce["model sha256"] == digits.view.reproduce["model sha256"]


def _onnx_model(name: str) -> Any:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(DIGITS / "digits.onnx")
    model.graph.name = name
    return model


@pytest.mark.parametrize(
    ("name", "file"),
    [("small", "small.onnx"), ("../../etc/x", "etc_x.onnx"), ("", "model.onnx"), ("a" * 900, "a" * 48 + ".onnx")],
    ids=["a name", "a path", "none", "a long one"],
)
def test_an_onnx_object_is_compiled_by_the_name_of_its_graph(name: str, file: str) -> None:
    found = atonc.compile(_onnx_model(name), verify=False)
    assert found.view.model == file and found.latency_ms > 0


def test_what_quantize_gives_is_compiled() -> None:
    content = _onnx_model("any").SerializeToString()
    found = atonc.compile(_quantised(content), verify=False)
    assert found.view.model == "float_int8.onnx"


@pytest.mark.parametrize("wrong", [None, 3, object(), np.zeros(3), [MODEL]])
def test_anything_else_is_refused_with_what_is_taken(wrong: Any) -> None:
    for function in (atonc.compile, atonc.validate, atonc.explain):
        with pytest.raises(InputError, match=r"a model cannot be of type \w+(?s:.*)its bytes, an onnx.ModelProto"):
            function(wrong)
    with pytest.raises(InputError, match="data cannot be of type int"):
        atonc.quantize(MODEL, 3)  # type: ignore[arg-type]


def test_errors_of_what_was_in_memory_name_no_folder() -> None:
    for wrong in (b"", b"abc", bytes(100), MODEL.read_bytes()[:300]):
        with pytest.raises(AtoncError) as refused:
            atonc.compile(wrong)
        assert refused.value.where.startswith("model.") and tempfile.gettempdir() not in str(refused.value)
    with pytest.raises(InputError) as refused:
        atonc.validate(MODEL, {"a": np.zeros(2), "b": np.zeros(2)})
    assert refused.value.where == "data.npz"


def test_constants_beside_an_object_are_asked_for(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    file = tmp_path / "m.onnx"
    onnx.save(_onnx_model("m"), file, save_as_external_data=True, size_threshold=0, location="w.bin")
    with pytest.raises(InputError, match="load_external_data=True"):
        atonc.compile(onnx.load(file, load_external_data=False))
    assert atonc.compile(onnx.load(file), verify=False).latency_ms > 0


# ------------------------------------------------------------------------------------------------------ layers, batches


def test_layers_by_name(digits: Compilation) -> None:
    second = digits.layers[1]
    assert digits.layers[second.name] is second and digits.layers[second.nodes[0]] is second
    with pytest.raises(KeyError, match="did you mean"):
        digits.layers[f"{second.name}x"]
    with pytest.raises(KeyError, match="no layer is called"):
        digits.layers[1:1]["anything"]


@pytest.fixture(scope="module")
def images() -> np.ndarray[Any, Any]:
    with np.load(DATA) as data:
        return np.asarray(data["image"][:3])


def test_a_batch_is_its_samples_one_after_the_other(digits: Compilation, images: np.ndarray[Any, Any]) -> None:
    alone = [digits.run(image)["probabilities"] for image in images]
    assert not np.array_equal(alone[0], alone[1])
    expected = np.concatenate(alone)
    flat = images.reshape(3, 8, 8, 1)
    for batch in (flat, flat[:, None], flat[..., 0], list(flat), {"image": flat}):
        found = digits.run(batch)["probabilities"]
        assert found.shape == (3, 10) and np.array_equal(found, expected)
    assert np.array_equal(digits.run(flat[:1])["probabilities"], alone[0])


def test_a_loaded_network_takes_batches(digits: Compilation, images: np.ndarray[Any, Any], tmp_path: Path) -> None:
    digits.save(tmp_path / "build")
    loaded = atonc.load(tmp_path / "build")
    inputs, outputs = loaded.inputs[0].name, loaded.outputs[0].name
    with pytest.raises(InputError, match=r"takes no dict(?s:.*)atonc.run\(network, inputs\)"):
        loaded.run({inputs: images})
    found = atonc.run(loaded, {inputs: images})[outputs]
    assert np.array_equal(found.reshape(3, -1), digits.run(images)["probabilities"])


def test_pictures_are_a_batch_too(digits: Compilation, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = [image.fromarray(np.full((8, 8), shade, np.uint8)) for shade in (0, 90, 250)]
    found = digits.run(pictures)["probabilities"]
    assert found.shape == (3, 10)
    assert np.array_equal(found[2:], digits.run(pictures[2])["probabilities"])


@pytest.mark.parametrize("shape", [(0, 8, 8, 1), (3, 8, 7, 1), (2, 3, 8, 8, 1)])
def test_what_is_no_batch_is_refused(digits: Compilation, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="has shape 1x8x8x1"):
        digits.run(np.zeros(shape, np.int8))


def test_lists_of_unlike_lengths_are_refused(digits: Compilation) -> None:
    with pytest.raises(InputError, match="unlike lengths"):
        digits.run([[1, 2], [3]])


def test_inputs_have_as_many_samples() -> None:
    from atonc.compiler.inputs.inputs import samples_of

    shapes = {"a": (1, 4), "b": (1, 2)}
    with pytest.raises(InputError, match="'a' 3 samples and 'b' 2 samples"):
        samples_of(shapes, {"a": np.zeros((3, 4)), "b": np.zeros((2, 2))})
    with pytest.raises(InputError, match="'b' one alone"):
        samples_of(shapes, {"a": np.zeros((3, 4)), "b": np.zeros((1, 2))})
    found = samples_of(shapes, {"a": np.zeros((3, 4)), "b": np.ones((3, 2))})
    assert found is not None and [sample["b"].shape for sample in found] == [(2,)] * 3


# ------------------------------------------------------------------------------------------------------------- results


class _Frame:
    """What pandas would be given."""

    def __init__(self, rows: list[Mapping[str, Any]], columns: Any = None) -> None:
        self.rows, self.columns = rows, columns


def _shown(found: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short as text, closed as a page, every table a data frame, a clear word without pandas."""
    assert len(repr(found)) < 400 and "\n" not in repr(found) and repr(found).isprintable()
    page = found._repr_html_()
    assert page.startswith("<div><b>") and page.endswith("</div>") and "<script" not in page
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=_Frame))
    for table in found.tables:
        assert found.to_pandas(table).rows == found.rows(table)
    with pytest.raises(InputError, match="there is no table 'nope'"):
        found.to_pandas("nope")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ToolError, match=r"pandas is not installed(?s:.*)rows\(\)"):
        found.to_pandas()


def test_validate(monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(DATA) as data:
        arrays = {"image": data["image"][:4], "labels": data["labels"][:4]}
    found = atonc.validate(MODEL, arrays)
    assert found.passed and found.samples == 4 and found.accuracy is not None
    assert [row["verdict"] for row in found.rows()] == ["close"] and len(found.rows("layers")) >= 8
    assert repr(found).startswith("<passed: 4 samples emulated") and "cosine 0.99" in repr(found)
    _shown(found, monkeypatch)
    strict = atonc.validate(MODEL.read_bytes(), arrays, min_cos=1.1, io_only=True, compiler={"seed": 3})
    assert strict.min_cosine == 1.1 and not strict.rows("layers")


@pytest.mark.parametrize("option", [{"mode": "board"}, {"output": Path("x")}, {"record": Path("x.npz")}])
def test_wishes_without_effect_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"has no effect here(?s:.*)atonc validate has --"):
        atonc.validate(MODEL, **option)


def test_evaluate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with np.load(DATA) as data:
        arrays = {"image": data["image"][:6], "labels": data["labels"][:6]}
    found = atonc.evaluate(MODEL, arrays, output=tmp_path, processes=1)
    assert found.samples == 6 and {row["by"] for row in found.rows()} >= {"NPU", "int8"}
    assert repr(found).startswith("<digits.tflite, 6 samples, ")
    assert found._repr_html_().count("<circle") == len(found.sides) > 1
    _shown(found, monkeypatch)


def _quantised(model: bytes = b"") -> QuantisedResult:
    front = (
        QuantizedCandidate("plain", 40.0, (0.0, 99.0), 2.0, 2000, chosen=True, span_ms=(1.9, 2.1)),
        QuantizedCandidate("<b>fast</b>", 30.0, (0.0, 99.0), None, None, refusal="no"),
        QuantizedCandidate("faster", 35.0, (0.0, 99.0), 1.0, 1000),
    )
    steps = (QuantizationStep("ranges", 40.0, (39.0, 41.0), None, True),)
    outputs = (OutputAccuracy("y", 39.5, (38.0, 41.0), 3, 80),)
    return QuantisedResult("float.onnx", model, 8, 2, outputs, (), steps, front, ())


def test_quantised(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _quantised()
    assert repr(found).startswith("<float.onnx as int8: 39.5 dB in the worst output, 2.000 ms (1.900 to 2.100) pre")
    page = found._repr_html_()
    assert page.count("<circle") == 2 and "class='chosen'" in page and "<b>fast" not in page
    assert ">3</text>" in page, "numbers are those of the table, where the second is refused"
    _shown(found, monkeypatch)


def test_quantize_takes_objects_and_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    from tests.quantizing.float_models import network

    samples = np.random.default_rng(0).uniform(0, 1, (8, 3, 12, 12)).astype(np.float32)
    found = atonc.quantize(network(), {"x": samples}, objective="accuracy")
    assert found.samples == 8 and found.chosen.milliseconds is not None
    _shown(found, monkeypatch)
    assert atonc.compile(found, verify=False).latency_ms == pytest.approx(found.chosen.milliseconds, abs=1e-4)


def test_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    band = {"latency_low_ms": 1.4, "latency_high_ms": 1.8}
    figures = {"latency_ms": 1.5, **band, "ram_bytes": 4096, "notes": ["a"]}
    rows = (
        SweepResult("a.tflite", "dk", "", {"prefer": "speed"}, figures, on_front=True),
        SweepResult("<i>.tflite", "dk", "", {"prefer": "memory"}, None, "too large"),
    )
    found = SweepTable("sweep.toml", rows, ("prefer",), False, 0)
    fastest = "the fastest 1.500 ms predicted (1.400 to 1.800)"
    assert repr(found).startswith(f"<sweep.toml: 2 rows, 1 compiled, 1 refused; {fastest}")
    names = {"model": "a.tflite", "board": "dk", "size": "", "prefer": "speed"}
    assert found.rows()[0] == {**names, "latency_ms": 1.5, **band, "ram_bytes": 4096, "on_front": True, "why_not": ""}
    page = found._repr_html_()
    assert page.count("<circle") == 1 and "RAM (KiB)" in page and "<i>" not in page
    assert page.count("<th>") * len(rows) == page.count("<td>"), "a refused row has empty cells, not fewer"
    _shown(found, monkeypatch)


def test_compare(digits: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    other = atonc.compile(MODEL, verify=False, npu_mhz=500)
    found = atonc.compare(digits, other, seed=1)
    assert isinstance(found, ComparisonResult) and found.same_model
    assert found.a.latency_ms == pytest.approx(digits.latency_ms) and found.b.latency_ms > found.a.latency_ms
    assert found.rows("outputs")[0]["exact_pct"] == 100.0
    assert any("npu" in row["option"] for row in found.rows("options"))
    assert repr(found).startswith("<two builds of digits.tflite: A ") and found._repr_html_().count("<svg") == 2
    _shown(found, monkeypatch)
