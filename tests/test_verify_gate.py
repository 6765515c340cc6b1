"""A program that does not compute what the model says is refused: no files, exit code 1, the layer by its name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile import pipeline
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.emit.program import Program
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.compiler.search import candidate
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers, verify
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import ToolError, VerificationError
from tests.compiler.random_graphs import random_graph
from tests.compiler.test_planted_mistakes import planted
from tests.errors_said import unwrapped
from tests.frontends.tflite_models import O, T, build
from tests.lower.harness import activation

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.tflite"


def plant(monkeypatch: pytest.MonkeyPatch, kind: str, field: str) -> None:
    """From now on, the first unit of a kind gets a wrong setting."""
    honest = candidate.bind

    def bind(*arguments: Any) -> Program:
        program = honest(*arguments)
        found = planted(replace(PLAIN, program=program), kind, field, 1)
        return program if found is None else found.program

    monkeypatch.setattr(candidate, "bind", bind)


PLAIN = atonc.compile(DIGITS, verify=False).compiled


def test_a_wrong_program_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, "CONVACC", "out_shift")
    assert main(["generate", str(DIGITS), "-o", str(tmp_path / "out")]) == 1
    text = unwrapped(capsys.readouterr().err)
    assert text.startswith("atonc: digits.tflite, CONV_2D_0") and "conv1" in text and "Traceback" not in text
    assert not (tmp_path / "out").exists()
    assert main(["analyze", str(DIGITS)]) == 1
    assert main(["analyze", str(DIGITS), "--no-verify"]) == 0


def test_a_program_that_computes_something_else_than_it_means_is_refused() -> None:
    """Even where both are near to exact arithmetic."""
    compiled = pipeline.compile_file(DIGITS, Options(verify=False))
    context = compiled.mapped.context
    op = next(op for op in compiled.graph.ops if op.name in context.semantics)
    honest = context.semantics[op.name]
    verify(compiled.program, compiled.graph, compiled.mapped)
    context.semantics[op.name] = replace(honest, codes=lambda given: [codes ^ 1 for codes in honest.codes(given)])
    with pytest.raises(VerificationError, match="other codes than its mapping says"):
        verify(compiled.program, compiled.graph, compiled.mapped)


def test_the_report_counts_layers() -> None:
    report = atonc.compile(DIGITS).verification
    assert report is not None and report.layers == 8 and 0 <= report.worst_layer <= 1


def test_outputs_are_compared_as_they_are_at_the_end() -> None:
    """A later step that overwrites an output is found, although the layer was right when it was written."""
    inputs = make_inputs(PLAIN.graph, 0)
    observed = Emulation(PLAIN.program, PLAIN.graph).run(inputs, observe=True)

    def bad(held: dict[str, Any]) -> list[str]:
        return [layer.tensor for layer in Layers.of(PLAIN).check(inputs, held) if layer.bad]

    assert not bad(observed)
    assert bad(observed | {"probabilities": np.zeros_like(observed["probabilities"])}) == ["probabilities"]


@pytest.mark.parametrize("seed", [3, 4])
def test_random_networks_pass(seed: int) -> None:
    for numerics in ("best", "2.x"):
        compiled = compile_graph(random_graph(seed), Options(numerics=numerics))
        assert compiled.report is not None and compiled.report.layers > 0


CONSTANTS = {
    "int8": (np.arange(24).reshape(2, 3, 4) - 9, 0.1),
    "uint8": (np.arange(24).reshape(2, 3, 4), 0.1),
    "float32": (np.linspace(-1, 1, 7), None),
    "int32": (np.arange(-3, 4), None),
}


@pytest.mark.parametrize("dtype", CONSTANTS)
def test_constants_that_are_outputs_are_written(dtype: str, tmp_path: Path) -> None:
    data, scale = CONSTANTS[dtype]
    tensors = [T("x", (1, 4), scale=0.1), T("y", (1, 4), scale=0.1)]
    tensors.append(T("k", data.shape, dtype, scale, 3 if scale else 0, data=data))
    model = tmp_path / "model.tflite"
    model.write_bytes(build(tensors, [O("RELU", ["x"], ["y"])], ["x"], ["y", "k"]))
    view = generating.generate(generating.analyze(model, Options()), tmp_path / "out")
    wanted, inputs = np.asarray(data, dtype), {"x": np.zeros((1, 4), np.int8)}
    assert np.array_equal(atonc.run(view.compiled, inputs)["k"], wanted)
    network = atonc.load(tmp_path / "out")
    found = list(atonc.run(network, {network.inputs[0].name: inputs["x"]}).values())
    assert np.array_equal(found[1].reshape(-1), wanted.reshape(-1))


def test_a_constant_that_nobody_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pass that writes them, constant outputs would be whatever memory holds: found before it runs."""
    honest = tuple(step for step in order.PASSES if step.__name__ != "write_constant_outputs")
    monkeypatch.setattr(order, "PASSES", honest)
    monkeypatch.setattr(order, "write_constant_outputs", lambda graph: graph)  # behind the types of the edges
    constant = Tensor("k", (3,), "int8", Quantisation.per_tensor(0.1), np.array([1, 2, 3], np.int8))
    tensors = {"x": activation("x", (1, 4)), "y": activation("y", (1, 4)), "k": constant}
    with pytest.raises(ToolError, match=r"3 unwritten bytes \(k\)"):
        compile_graph(Graph(tensors, (Op("relu", "r", ("x",), ("y",)),), ("x",), ("y", "k")))


def test_json_of_generate_shows_the_verification(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(DIGITS), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["verify"]
    assert set(found) >= {"exact", "outputs", "layers", "worst_layer"}
