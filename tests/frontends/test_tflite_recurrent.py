"""LSTMs of TFLite: every code as its own kernel computes it, and forms that are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.request.options import Options
from atonc.insight.quantizing.from_tflite import read_float
from atonc.machine.base.errors import UnsupportedError
from tests.frontends.tflite_models import O, T, build

STEPS, INPUTS, CELLS = 7, 5, 6
TANH, CLIP = {0: ("b", 4), 1: ("f", 10.0)}, {0: ("b", 4), 1: ("f", 0.5)}


def model(batch: int = 1, zero: int = -1, cell: float = 2.0**-11, fields: Any = None, **operands: str) -> bytes:
    """`operands`: tensors at places that are usually empty, or empty ones."""
    rng = np.random.default_rng(3)
    tensors = [T("x", (batch, STEPS, INPUTS), scale=0.03, zero=-7)]
    for k in range(4):
        scales = rng.uniform(0.005, 0.02, 2)
        tensors += [
            T(f"w{k}", (CELLS, INPUTS), scale=scales[0], data=rng.integers(-127, 128, (CELLS, INPUTS))),
            T(f"r{k}", (CELLS, CELLS), scale=scales[1], data=rng.integers(-127, 128, (CELLS, CELLS))),
            T(f"b{k}", (CELLS,), "int32", scale=0.03 * scales[0], data=rng.integers(-900, 900, CELLS)),
        ]
    tensors += [
        T("h", (batch, CELLS), scale=1 / 128, zero=zero, variable=True),
        T("c", (batch, CELLS), "int16", scale=cell, variable=True),
        *(T(f"i{k}", (), "float32") for k in range(4)),
        T("hidden", (), scale=1 / 128, zero=zero),
        T("y", (batch, STEPS, CELLS), scale=1 / 128, zero=zero),
        T("extra", (CELLS,), "int16", scale=0.001, data=rng.integers(-99, 99, CELLS)),
    ]
    places = ["x", *(f"w{k}" for k in range(4)), *(f"r{k}" for k in range(4)), *["-"] * 3]
    places += [*(f"b{k}" for k in range(4)), "-", "-", "h", "c", *["-"] * 4]
    for place, name in operands.items():
        places[int(place[1:])] = name
    between = [*(f"i{k}" for k in range(4)), "hidden"]
    options = "UnidirectionalSequenceLSTMOptions"
    op = O("UNIDIRECTIONAL_SEQUENCE_LSTM", places, ["y"], options, fields or TANH, between)
    return build(tensors, [op], ["x"], ["y"])


def real(batch: int, steps: int) -> bytes:
    """The same in floats, as the converter writes it without quantisation."""
    rng = np.random.default_rng(3)
    shapes = {f"{what}{k}": shape for k in range(4)
              for what, shape in (("w", (CELLS, INPUTS)), ("r", (CELLS, CELLS)), ("b", (CELLS,)))}  # fmt: skip
    tensors = [T(n, s, "float32", data=rng.normal(0, 0.5, s).astype(np.float32)) for n, s in shapes.items()]
    tensors += [T(name, (batch, CELLS), "float32", variable=True) for name in "hc"]
    tensors += [T("x", (batch, steps, INPUTS), "float32"), T("y", (batch, steps, CELLS), "float32")]
    places = ["x", *(f"{what}{k}" for what in "wr" for k in range(4)), *["-"] * 3, *(f"b{k}" for k in range(4))]
    op = O("UNIDIRECTIONAL_SEQUENCE_LSTM", [*places, "-", "-", "h", "c"], ["y"],
           "UnidirectionalSequenceLSTMOptions", {**TANH, 1: ("f", 10.0)})  # fmt: skip
    return build(tensors, [op], ["x"], ["y"])


@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (1, 7), (3, 7), (1, 40)])
def test_real_numbers_are_those_of_tflite(batch: int, steps: int, tmp_path: Path) -> None:
    """Also as ONNX, which is what `quantize` writes out."""
    pytest.importorskip("ai_edge_litert")
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "lstm.tflite"
    path.write_bytes(real(batch, steps))
    x = np.random.default_rng(0).normal(0, 1, (batch, steps, INPUTS)).astype(np.float32)
    wanted, graph = run_tflite(path, {"x": x})["y"], read_tflite(path.read_bytes())
    assert np.abs(run_graph(graph, {"x": x})["y"] - wanted).max() < 1e-6
    assert any("does not cut its cells at 10" in note for note in graph.notes) == (steps > 10)
    session = runtime.InferenceSession(read_float(path.read_bytes(), "lstm").SerializeToString())
    assert np.abs(session.run(None, {"x": x})[0] - wanted).max() < 1e-6


def inputs(batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (batch, STEPS, INPUTS)).astype(np.int8)


@pytest.mark.parametrize(
    ("batch", "zero", "cell", "fields"),
    [(1, -1, 2.0**-11, TANH), (3, 5, 2.0**-12, TANH), (1, 0, 2.0**-15, CLIP), (2, 0, 2.0**-9, TANH)],
)
def test_every_code_is_that_of_tflite(batch: int, zero: int, cell: float, fields: Any, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    data = model(batch, zero, cell, fields)
    path = tmp_path / "lstm.tflite"
    path.write_bytes(data)
    graph = read_tflite(data)
    assert graph.notes
    assert "empty state" in graph.notes[0]
    for seed in range(3):
        x = inputs(batch, seed)
        assert np.array_equal(run_graph(graph, {"x": x})["y"], run_tflite(path, {"x": x})["y"])


def test_compiles_and_verifies() -> None:
    compiled = compile_graph(read_tflite(model()))
    assert [reason.rule.id for reason in compiled.choices.reasons] == ["CPU-STATE"]
    assert compiled.report is not None


def test_its_weights_and_multiplications_are_counted() -> None:
    """Though no memory image holds them: they are arrays of the C file."""
    compiled = compile_graph(read_tflite(model()), Options(verify=False))
    weights = 4 * CELLS * (INPUTS + CELLS)
    assert graph_macs(compiled.graph) == STEPS * weights
    memory = compiled.memory_use()
    assert memory.weights_bytes == memory.flash_bytes == memory.code_constants_bytes >= weights + 4 * 8 * CELLS


@pytest.mark.parametrize(
    ("operands", "fields", "what"),
    [
        ({"p9": "extra"}, TANH, "peepholes"),
        ({"p16": "w0"}, TANH, "projection"),
        ({"p20": "extra"}, TANH, "normalisation"),
        ({"p1": "-"}, TANH, "CIFG"),
        ({}, {0: ("b", 1)}, "activation relu"),
        ({}, {**TANH, 3: ("B", 1)}, "first axis"),
    ],
)
def test_other_forms_are_refused_by_name(operands: dict[str, str], fields: Any, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        read_tflite(model(fields=fields, **operands))


def test_cells_of_an_odd_scale_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="cells of scale"):
        read_tflite(model(cell=0.0003))


def test_weights_of_other_sizes_are_refused() -> None:
    with pytest.raises(Exception, match="weights"):
        read_tflite(model(p2="r1"))
