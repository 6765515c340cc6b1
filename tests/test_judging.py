"""What `validate` lets pass: outputs as far as the reference's own kernels, and nothing that is wrong in a layer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.metrics import Metrics
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, layer_name
from atonc.compiler.request.options import Options
from atonc.compiler.verify.verify import LayerCheck, forced_run
from atonc.doors.cli.cli import main
from atonc.insight.report import document as doc
from atonc.insight.report import validate_text
from atonc.insight.report.document import lines
from atonc.insight.validating import judging, validating
from atonc.insight.validating.judging import Distance, OutputResult
from atonc.insight.validating.references import EXACT, ReadingCheck, References, check_reading, exact_outputs
from atonc.insight.validating.validating import Validation
from atonc.machine.base.errors import InputError
from tests.compiler.test_planted_mistakes import planted
from tests.frontends.tflite_models import O, T, build
from tests.lower.harness import activation

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.tflite"


def metrics(cos: float, rmse: float, within: float = 50.0) -> Metrics:
    return Metrics(1.0, rmse, 0.0, 0.0, 0.0, 0.0, 0.0, cos, 0.0, within)


def output(cos: float, rmse: float, *siblings: float, within: float = 50.0) -> OutputResult:
    spread = tuple(Distance(f"kernels {k}", metrics(0.9, far), 9.0) for k, far in enumerate(siblings))
    return OutputResult("y", metrics(cos, rmse, within), 9.0, spread)


def layer(most: float, limit: float = 1.0) -> LayerCheck:
    return LayerCheck("t", "conv", "CONV_2D_3", 4, False, 1, most, 0.1, limit)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (output(0.99, 5.0), judging.CLOSE),
        (output(0.5, 5.0, within=99.5), judging.CLOSE),
        (output(0.95, 5.0), judging.FAR),
        (output(0.95, 5.0, 1.0, 4.1), judging.SPREAD),
        (output(0.95, 5.0, 1.0, 3.9), judging.FAR),
        (output(float("nan"), float("nan"), 4.0), judging.FAR),
    ],
)
def test_outputs_are_close_or_as_far_as_other_kernels(found: OutputResult, verdict: str) -> None:
    assert judging.judge(found) == verdict


def test_a_bad_layer_fails_whatever_the_outputs_are() -> None:
    good = Validation(1, "kernels", (), (output(1.0, 0.0),), (layer(1.0),), (ReadingCheck("t", "conv", "C", 1.0),))
    assert not list(judging.complaints(good))
    (sentence,) = judging.complaints(replace(good, layers=(layer(0.0), layer(1.5))))
    assert "CONV_2D_3" in sentence and "1.5 LSB" in sentence
    assert len(list(judging.complaints(replace(good, layers=(layer(float("nan")),))))) == 1
    (sentence,) = judging.complaints(replace(good, reading=(ReadingCheck("t", "conv", "CONV_2D_7", 2.0),)))
    assert "CONV_2D_7" in sentence and "as we read it" in sentence


def chaotic(rng: np.random.Generator, times: float, samples: int) -> OutputResult:
    """Distances as in a chaotic network: a few samples bring most of them, on either side others."""
    mine, theirs = (tuple(np.exp(rng.normal(0.0, 1.2, samples)).tolist()) for _ in range(2))
    mine = tuple(times**2 * square for square in mine)
    sibling = Distance("kernels", metrics(0.9, float(np.sqrt(np.mean(theirs)))), 9.0, theirs)
    return OutputResult("y", metrics(0.9, float(np.sqrt(np.mean(mine)))), 9.0, (sibling,), mine)


def wrong_verdicts(times: float, right: str, trials: int = 200) -> dict[int, int]:
    """Counts wrong verdicts in so many trials, by samples: few, and as many as are taken while the verdict is open."""
    rng, wrong = np.random.default_rng(5), {4: 0, validating.MOST_SAMPLES: 0}
    for _ in range(trials):
        whole = chaotic(rng, times, validating.MOST_SAMPLES)
        for samples in wrong:
            wrong[samples] += judging.judge(_first(whole, samples)) != right
    return wrong


def _first(output: OutputResult, samples: int) -> OutputResult:
    def cut(squares: tuple[float, ...]) -> tuple[Metrics, tuple[float, ...]]:
        return metrics(0.9, float(np.sqrt(np.mean(squares[:samples])))), squares[:samples]

    (sibling,) = output.spread
    (mine, squares), (theirs, others) = cut(output.squares), cut(sibling.squares)
    return OutputResult("y", mine, 9.0, (Distance("kernels", theirs, 9.0, others),), squares)


def test_more_samples_tell_chaos_from_faults() -> None:
    """The same margin: what is no further than the siblings passes, what is twice as far fails."""
    alike, twice = wrong_verdicts(1.0, judging.SPREAD), wrong_verdicts(2.0, judging.FAR)
    assert alike[4] > 40 and twice[4] > 20  # of 200: few samples say little
    assert alike[validating.MOST_SAMPLES] < 30 and twice[validating.MOST_SAMPLES] < 5


def test_a_verdict_is_open_while_the_margin_lies_within_the_interval() -> None:
    rng = np.random.default_rng(1)
    few, many = chaotic(rng, 1.2, 4), chaotic(rng, 4.0, 40)
    found = judging.ratio(few)
    assert found is not None and found.low < found.value < found.high and judging.is_open(few)
    assert not judging.is_open(many) and judging.judge(many) == judging.FAR
    assert not judging.is_open(replace(few, metrics=metrics(0.99, 1.0)))  # close by itself
    agreeing = replace(few, spread=(Distance("kernels", metrics(1.0, 0.0), 0.0, (0.0,) * 4),))
    assert judging.ratio(agreeing) is None and judging.is_open(agreeing) and judging.judge(agreeing) == judging.FAR
    (sentence,) = judging.complaints(Validation(4, "kernels", (), (agreeing,)))
    assert "more of them may tell otherwise" in sentence


def validated(compiled: Compiled, samples: int = 2, wanted: validating.Wanted | None = None) -> Validation:
    with References(DIGITS) as references:
        made = validating.synthetic_samples(compiled.source, samples)
        return validating.validate(references, compiled, made, wanted)


def test_one_wrong_bias_fails_by_its_outputs_too() -> None:
    """With every sample that may be taken: a fault is not mistaken for chaos."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    source = read(DIGITS)
    op = next(op for op in source.ops if op.kind == "dense")
    bias = source.tensors[op.inputs[2]]
    assert bias.data is not None
    data = bias.data.copy()
    data[4] += 8000  # five and a half in the logits of a class
    wrong = replace(source, tensors={**source.tensors, bias.name: replace(bias, data=data)})
    compiled, asked = compile_graph(wrong, Options(verify=False)), list[tuple[int, int]]()

    def more(first: int, count: int) -> list[validating.Sample]:
        asked.append((first, count))
        return validating.synthetic_samples(source, count, first)

    found = validated(compiled, 2, validating.Wanted(layers=False, more=more))
    assert [judging.judge(output) for output in found.outputs] == [judging.FAR]
    assert found.samples == 2 + sum(count for _, count in asked) <= validating.MOST_SAMPLES
    assert [first for first, _ in asked] == [2 * 2**k for k in range(len(asked))]
    assert len(found.outputs[0].squares) == found.samples
    assert op.name in next(judging.complaints(validated(compiled)))


def test_a_planted_fault_fails() -> None:
    """One unit of one epoch shifts its results by one bit more."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    compiled = atonc.compile(DIGITS, verify=False).compiled
    wrong = planted(compiled, "CONVACC", "out_shift", 1)
    assert wrong is not None
    found = validated(wrong)
    assert found.first_bad is not None and found.first_bad.tensor == "conv1"
    assert "conv1" in next(judging.complaints(found))
    document = validate_text.as_json(found)
    assert not document["passed"] and document["first_bad_tensor"] == "conv1"
    name = layer_name(compiled.graph.producers["conv1"])
    assert document["first_bad_layer"] == name
    assert any(f"first bad layer: {name} (" in line for line in lines(validate_text.document(found, verbose=True)))


def test_an_operator_that_was_misread_is_named() -> None:
    """The program is right for the graph, and the graph is wrong: a stride of the padding too far."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    source = read(DIGITS)
    op = source.ops[0]
    shifted = replace(op, attrs={**op.attrs, "padding": (2, 1, 0, 1)})
    found = validated(compile_graph(replace(source, ops=(shifted, *source.ops[1:])), Options(verify=False)))
    assert found.first_bad is None and found.first_misread is not None
    assert found.first_misread.node == op.name
    assert f"{op.name}: conv as we read it" in next(judging.complaints(found))


def test_the_spread_of_the_kernels_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    assert main(["validate", str(DIGITS), "--samples", "2", "-v"]) == 0
    text = capsys.readouterr().out
    for words in ("TFLite optimised kernels", "TFLite XNNPACK kernels", "1.25 times", "as read from the model"):
        assert words in text
    assert main(["validate", str(DIGITS), "--samples", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] and not document["complaints"] and document["margin"] == judging.MARGIN
    (found,) = document["outputs"]
    assert found["verdict"] == judging.CLOSE
    assert [s["kernels"] for s in found["spread"]] == ["TFLite optimised kernels", "TFLite XNNPACK kernels"]
    assert all({"cos", "rmse", "max_lsb", "exact_pct", "within1_pct"} <= set(s) for s in found["spread"])


def test_onnxruntime_has_a_spread_too() -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    model = DIGITS.with_suffix(".onnx")
    with References(model) as references:
        compiled = atonc.compile(model, verify=False).compiled
        found = validating.validate(references, compiled, validating.synthetic_samples(compiled.source, 2))
    assert found.reference == "onnxruntime without optimisation" and not list(judging.complaints(found))
    assert [s.title for s in found.outputs[0].spread] == ["onnxruntime with optimisation"]
    assert len(found.reading) > 5
    shown = "\n".join(doc.lines(validate_text.document(found, 0.99)))
    assert "against onnxruntime without optimisation" in shown and "\n  with optimisation  " in shown


def test_without_the_interpreters_exact_arithmetic_is_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atonc.insight.validating.references.find_spec", lambda name: None)
    compiled = atonc.compile(DIGITS, verify=False).compiled
    found = validated(compiled, 1)
    assert found.reference == EXACT and "not installed" in found.notes[0] and not found.reading
    (sample,) = validating.synthetic_samples(compiled.source, 1)
    assert np.array_equal(exact_outputs(compiled, sample)[0].shape, compiled.graph.tensors["probabilities"].shape)


def test_operators_of_one_node_may_share_its_name() -> None:
    tensors = {name: activation(name, (1, 4)) for name in "xyz"}
    ops = (Op("relu", "node", ("x",), ("y",)), Op("maximum", "node", ("y", "x"), ("z",)))
    inputs = {"x": np.array([[-3, 0, 5, 7]], np.int8)}
    found = list(forced_run(Graph(tensors, ops, ("x",), ("z",)), inputs, {}))
    assert not found  # nothing is held, and nothing is missing
    held = {"y": np.array([[9, 9, 9, 9]], np.int8)}
    assert [forced.name for forced in forced_run(Graph(tensors, ops, ("x",), ("z",)), inputs, held)] == ["y"]


def test_floats_that_tflite_turns_into_bytes_may_be_further(tmp_path: Path) -> None:
    """Weights of bytes with values of floats: the kernel rounds the values, and that bound is known."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (5, 3, 3, 8))
    tensors = [T("x", (1, 6, 7, 8), "float32"), T("w", weights.shape, scale=[0.01] * 5, data=weights)]
    tensors += [T("b", (5,), "float32", data=np.zeros(5)), T("y", (1, 6, 7, 5), "float32")]
    fields = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    model = tmp_path / "hybrid.tflite"
    model.write_bytes(build(tensors, [O("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", fields)], ["x"], ["y"]))
    with References(model) as references:
        source = read(model)
        sample = {"x": rng.normal(size=(1, 6, 7, 8)).astype(np.float32)}
        (found,) = check_reading(references, source, [sample])
        assert 0 < found.max_diff <= found.limit and found.limit > 1
        doubled = replace(source.tensors["w"], quant=Quantisation(np.full(5, 0.02), np.zeros(5, np.int64), 0))
        (wrong,) = check_reading(references, replace(source, tensors={**source.tensors, "w": doubled}), [sample])
        assert wrong.bad


def rounding_model(folder: Path) -> Path:
    """ROUND between floats, which TFLite's reference kernels do not have, behind a dense layer of bytes."""
    weights = np.random.default_rng(1).integers(-127, 128, (4, 8))
    tensors = [T("x", (1, 8), scale=0.02), T("w", (4, 8), scale=0.01, data=weights), T("a", (1, 4), scale=0.05)]
    tensors += [T("b", (1, 4), "float32"), T("c", (1, 4), "float32"), T("y", (1, 4), scale=0.05)]
    ops = [O("FULLY_CONNECTED", ["x", "w", "-"], ["a"], "FullyConnectedOptions"), O("DEQUANTIZE", ["a"], ["b"])]
    ops += [O("ROUND", ["b"], ["c"]), O("QUANTIZE", ["c"], ["y"])]
    path = folder / "rounds.tflite"
    path.write_bytes(build(tensors, ops, ["x"], ["y"]))
    return path


def test_where_one_set_of_kernels_lacks_an_operator_another_one_judges(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    model = rounding_model(tmp_path)
    with References(model) as references:
        compiled = atonc.compile(model, verify=False).compiled
        found = validating.validate(references, compiled, validating.synthetic_samples(compiled.source, 2))
    assert found.reference == "TFLite optimised kernels" and any("'ROUND'" in note for note in found.notes)


def test_where_all_of_them_do_exact_arithmetic_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)

    def refuse(*_: object) -> None:
        raise InputError("TFLite cannot run it: Didn't find op")

    with References(DIGITS) as references:
        assert references.process is not None
        monkeypatch.setattr(references.process, "run", refuse)
        compiled = atonc.compile(DIGITS, verify=False).compiled
        found = validating.validate(references, compiled, validating.synthetic_samples(compiled.source, 2))
    assert found.reference == EXACT and any("no kernels of others" in note for note in found.notes)
    assert not list(judging.complaints(found))


def test_kernels_that_overflow_are_no_reference(tmp_path: Path) -> None:
    """A scale beyond all use shifts sums out of TFLite's 32 bits: its codes there mean nothing, and a note says so."""
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (6, 1, 1, 8))
    tensors = [T("x", (1, 6, 6, 8), scale=0.02), T("w", weights.shape, scale=[0.05] * 6, data=weights)]
    tensors += [T("b", (6,), "int32", data=np.zeros(6)), T("y", (1, 6, 6, 6), scale=8e-9)]
    fields = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    model = tmp_path / "silent.tflite"
    model.write_bytes(build(tensors, [O("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", fields)], ["x"], ["y"]))
    with References(model) as references:
        sample = {"x": rng.integers(-128, 128, (1, 6, 6, 8)).astype(np.int8)}
        (found,) = check_reading(references, read(model), [sample])
        assert found.max_diff > 1 and not found.bad
        assert any("overflow" in note for note in references.notes)


@pytest.mark.parametrize(("dtype", "steps", "exact", "largest"), [("int8", 255, 100, 0.25), ("int16", 65535, 0, 64.25)])
def test_floats_that_are_computed_are_judged_in_steps_of_the_codes_behind(
    dtype: str, steps: int, exact: float, largest: float
) -> None:
    x = replace(activation("x", (1, 4)), dtype=dtype)
    w = Tensor("w", (1, 4), "int8", Quantisation.per_tensor(0.1, 0), np.ones((1, 4), np.int8))  # a constant
    floats = {name: Tensor(name, (1, 4), "float32") for name in "dvpy"}
    ops = (Op("dequantize", "d", ("x",), ("d",)), Op("dequantize", "v", ("w",), ("v",)),
           Op("mul", "p", ("d", "v"), ("p",)), Op("tanh", "y", ("p",), ("y",)))  # fmt: skip
    graph = Graph({"x": x, "w": w, **floats}, ops, ("x",), ("y",))
    kernels = {"k": np.array([[0.25, -1.0, 0.5, 0.75]])}
    found = judging.output_result(graph, "y", kernels["k"] + 0.25 / 255, kernels)
    assert (found.steps, found.metrics.exact_percent) == (steps, exact) and found.max_lsb == pytest.approx(largest)
    said = "\n".join(map(str, validate_text._short(Validation(1, "k", (), (found,)), 0.99)))
    assert f"y computed in float: an LSB is the largest value / {steps:,}" in said
    assert ("0.25" if dtype == "int8" else "64") == validate_text._largest(found.max_lsb)
    codes = judging.output_result(graph, "d", kernels["k"] + x.scale, kernels)
    assert codes.steps == 0 and codes.max_lsb == pytest.approx(1)  # these are codes
