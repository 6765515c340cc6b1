"""The verdict of `validate` is that of the program, not of the packages that are there; and what has no value is said
to have none."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Tensor
from atonc.compiler.request.options import Options
from atonc.compiler.verify.verify import LayerCheck
from atonc.doors.cli.cli import main
from atonc.doors.verbs.reply import CommandReply, give, junit
from atonc.insight.report import compile_text, validate_text
from atonc.insight.report.document import Mark
from atonc.insight.validating import judging, references
from atonc.insight.validating.references import EXACT, exact_outputs
from atonc.insight.validating.validate_options import ValidateOptions
from atonc.insight.validating.validating import ROUNDED_ONCE, Validation, validate_model
from atonc.machine.base.errors import CANNOT_JUDGE
from benchmarks import verdicts as verdicts_benchmark
from tests.frontends.chaotic import chaotic
from tests.frontends.onnx_models import Net


def verdicts(model: Path, **asked: object) -> tuple[Validation, list[str]]:
    found = validate_model(model, ValidateOptions(**asked), Options(verify=False))  # type: ignore[arg-type]
    return found, [judging.judge(output) for output in found.outputs]


@pytest.mark.parametrize(("depth", "gain", "verdict"), [(8, 1.5, judging.CLOSE), (24, 2.5, judging.SPREAD)])
def test_packages_of_others_change_no_verdict(
    depth: int, gain: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model = tmp_path / "chaotic.tflite"
    model.write_bytes(chaotic(depth, gain))
    theirs, with_package = verdicts(model)
    monkeypatch.setattr(references, "find_spec", lambda name: None)
    ours, without = verdicts(model)
    assert theirs.reference != ours.reference == EXACT
    assert with_package == without == [verdict]
    assert not [*judging.complaints(theirs), *judging.complaints(ours)]


@pytest.mark.parametrize(("depth", "gain", "mark"), [(8, 1.5, Mark.GOOD), (24, 2.5, Mark.DOUBT)])
def test_generate_praises_only_what_validate_calls_close(depth: int, gain: float, mark: Mark, tmp_path: Path) -> None:
    from atonc.compiler.compile.compile_view import analyze

    model = tmp_path / "chaotic.tflite"
    model.write_bytes(chaotic(depth, gain))
    row = compile_text._verified(analyze(model, Options()))
    assert row.mark is mark and (f"below {judging.MIN_COSINE}" in row.text) == (mark is Mark.DOUBT)


def codes_net(kind: str, *operands: float) -> bytes:
    """Codes through one operator; the output is dequantised, so its name stands for codes that another tensor holds."""
    net = Net()
    x = net.qdq("x", 0.02, 3)
    (y,) = net.node(kind, [x, *(net.const(np.float32(one)) for one in operands)])
    return net.model({"x": (1, 40)}, [net.qdq(y, 0.03, -5)])


def test_exact_outputs_are_real_numbers(tmp_path: Path) -> None:
    """Without the packages of others they are the yardstick: codes would have another length."""
    model = tmp_path / "codes.onnx"
    model.write_bytes(codes_net("Mul", 1.5))
    compiled = compile_file(model, Options(verify=False))
    values = np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 40)
    (got,) = exact_outputs(compiled, {"x": values})
    assert np.abs(got - 1.5 * values).max() < 0.06 and 1.3 < np.abs(got).max() < 1.6


# ----------------------------------------------------------------------------------------------------- no value at all


def zero_by_zero() -> bytes:
    """x / sqrt(x * x): a LayerNorm in its parts, of one value."""
    net = Net()
    x = net.qdq("x", 0.02)
    square = net.qdq(net.node("Mul", [x, x])[0], 0.02)
    root = net.qdq(net.node("Sqrt", [square])[0], 0.02)
    (quotient,) = net.node("Div", [x, root])
    return net.model({"x": (1, 64)}, [net.qdq(quotient, 0.02, 10)])


def test_a_divisor_that_may_be_zero_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "norm.onnx"
    model.write_bytes(zero_by_zero())
    assert main(["generate", str(model), "-o", str(tmp_path / "out")]) == 0
    assert "can be zero: 0/0 has no value" in capsys.readouterr().out
    model.write_bytes(codes_net("Div", 1.5))
    assert not any("zero" in note for note in read(model).notes)


def test_zero_by_zero_is_no_failure(tmp_path: Path) -> None:
    """Kernels of others make another code of it than we do; all other values count."""
    pytest.importorskip("onnxruntime")
    model, inputs = tmp_path / "norm.onnx", tmp_path / "inputs.npy"
    model.write_bytes(zero_by_zero())
    values = np.zeros((1, 1, 64), np.float32)
    values[..., ::2] = 0.5
    np.save(inputs, values)
    found, verdict = verdicts(model, valinput=(inputs,))
    assert not list(judging.complaints(found)) and verdict == [judging.CLOSE]
    assert any("divides zero by zero in 32 values" in note for note in found.notes)


def test_what_the_reference_has_no_number_for_is_not_compared(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net = Net()
    (root,) = net.node("Sqrt", [net.qdq("x", 0.02)])
    model = tmp_path / "root.onnx"
    model.write_bytes(net.model({"x": (1, 64)}, [root]))
    options = Options(verify=False, allow_float=True)
    found = validate_model(model, ValidateOptions(range=(-1.0, 1.0), batches=2), options)
    assert not list(judging.complaints(found))
    assert any("has no number (NaN or infinite) in" in note for note in found.notes)
    assert 0 < found.outputs[0].skipped < 128


def test_a_float_beyond_its_largest_number_is_infinite(tmp_path: Path) -> None:
    """In exact arithmetic it is not, and no program can do better."""
    net = Net()
    (huge,) = net.node("Mul", [net.qdq("x", 0.02), net.const(np.float32(3e38))])
    (y,) = net.node("Mul", [huge, net.const(np.float32(2.0))])
    model = tmp_path / "huge.onnx"
    model.write_bytes(net.model({"x": (1, 64)}, [y]))
    assert compile_file(model, Options(allow_float=True)).report is not None


# ------------------------------------------------------------------------------------------ what only packages decide


def far(lacks: str = "", spread: float = 0.0, times: float = 3.0) -> judging.OutputResult:
    """An output that is so many times further from our own arithmetic than our other rounding; `spread`: rmse of the
    model's other kernels, where there are some."""
    rng = np.random.default_rng(0)
    exact = rng.normal(0, 1, (10, 64))
    made, near = exact + rng.normal(0, 1, exact.shape), exact + rng.normal(0, 1 / times, exact.shape)
    graph = Graph({"y": Tensor("y", (1, 64), "float32")}, (), ("y",), ("y",))
    own = judging.output_result(graph, "y", made, {EXACT: exact, ROUNDED_ONCE: near})
    if not spread:
        return replace(own, lacks=lacks)
    theirs = {"reference": exact, "optimised": exact + rng.normal(0, spread, exact.shape)}
    return replace(judging.output_result(graph, "y", made, theirs), judged=own)


@pytest.mark.parametrize(
    ("output", "verdict", "code"),
    [
        (far(), judging.FAR, 1),
        (far(lacks="ai_edge_litert"), judging.UNJUDGED, CANNOT_JUDGE),
        (far(spread=0.1), judging.FAR, 1),
        (far(spread=1.0), judging.SPREAD, 0),
        (far(lacks="ai_edge_litert", times=20.0), judging.FAR, 1),
        (far(spread=1.0, times=20.0), judging.FAR, 1),
    ],
)
def test_what_our_own_kernels_do_not_let_pass_others_decide(
    output: judging.OutputResult, verdict: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never failed without the package where it would pass with it."""
    found = Validation(10, EXACT, (), (output,))
    assert judging.judge(output) == verdict
    document = validate_text.document(found, again=lambda *words: " ".join(words))
    shown = argparse.Namespace(json=False, quiet=False)
    assert give(CommandReply("validate", document), shown) == code
    said = capsys.readouterr()
    assert ("pip install ai-edge-litert" in said.err) == (code == CANNOT_JUDGE) == ("cannot judge" in said.out)
    assert document.line.startswith({0: "passed", 1: "failed", CANNOT_JUDGE: "cannot judge"}[code])
    assert ("failed" in said.out) == (code == 1)
    assert (b"<failure" in junit("validate", Path("m"), document.checks or ())) == (code == 1)
    assert (b"<skipped" in junit("validate", Path("m"), document.checks or ())) == (code == CANNOT_JUDGE)


@pytest.mark.parametrize("numbers", [0, 1])
def test_where_no_value_is_a_number_nothing_is_judged(numbers: int) -> None:
    exact = np.full((2, 4), np.nan)
    exact[0, :numbers] = 1.0
    graph = Graph({"y": Tensor("y", (1, 4), "float32")}, (), ("y",), ("y",))
    output = judging.output_result(graph, "y", exact, {EXACT: exact, ROUNDED_ONCE: exact})
    found = Validation(2, EXACT, (), (output,))
    assert validate_text.verdict_of(found) == ("passed" if numbers else judging.UNJUDGED)
    assert [*judging.unjudged(found)] == ([] if numbers else [judging.nothing_compared("y")])


def test_generate_and_validate_say_so_with_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, model = Net(), tmp_path / "m.onnx"
    y = net.node("Mul", ["x", net.const(np.array([np.inf, -np.inf], np.float32))])[0]
    model.write_bytes(net.model({"x": (1, 2)}, [y]))
    assert main(["validate", str(model), "--allow-float"]) == CANNOT_JUDGE
    assert main(["analyze", str(model), "--allow-float"]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(judging.nothing_compared(y)) == 2


def test_a_layer_that_is_wrong_fails_whatever_is_installed() -> None:
    wrong = LayerCheck("t", "conv", "CONV_2D_3", 4, False, 1, 9.0, 0.1, 1.0)
    found = Validation(10, EXACT, (), (far(lacks="ai_edge_litert"),), layers=(wrong,))
    assert validate_text.verdict_of(found) == "failed"


@pytest.mark.parametrize("blocked", [False, True])
def test_with_an_import_blocked_the_verdict_is_the_same(blocked: bool, tmp_path: Path) -> None:
    """As the benchmark of this name does with 40 models."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model = tmp_path / "chaotic.tflite"
    model.write_bytes(chaotic(24, 2.5))
    found = verdicts_benchmark._validated(model, verdicts_benchmark._BLOCK if blocked else "")
    assert (found["verdict"], found["exit_code"], found["outputs"]) == ("passed", 0, [judging.SPREAD])
