"""Words that help: remedies that can, percentages that are true, sentences that end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import atonc
from atonc.compiler.frontends.coverage import coverage
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.insight.explain import actions, decide, rules
from atonc.insight.explain.types import RemedyPrice
from atonc.machine.base.errors import InputError, sentence

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def digits() -> atonc.doors.python.compilation.Compilation:
    return atonc.compile(DIGITS, verify=False)


# -------------------------------------------------------------------------------------------------------- remedies


def test_no_remedy_advises_a_default_or_nothing() -> None:
    from atonc.compiler.select.rules import RULES

    for rule in (*rules.RULES, *RULES.values()):
        words = rule.remedy.lower()
        assert "nothing to do" not in words and not words.startswith(("no need", "none")), rule.id
        assert "--prefer speed" not in words, "it is the default"


def test_a_busy_bank_is_spread_where_the_user_packed_it(digits: atonc.doors.python.compilation.Compilation) -> None:
    from atonc.insight.explain import ours

    shares = {"npuRAM5": 1.0}
    packed = replace(digits.view, options=Options(prefer="memory"))
    assert "--prefer memory" in ours._bound(shares, 100, packed).remedy
    assert "--prefer" not in ours._bound(shares, 100, digits.view).remedy


def test_a_remedy_that_was_tried_and_costs_more_is_not_offered(
    digits: atonc.doors.python.compilation.Compilation,
) -> None:
    network = digits.network
    layer = next(one for one in network.layers if any(d.rule.id == "CPU-SOFTMAX" for d in one.decisions))
    decision = next(d for d in layer.decisions if d.rule.id == "CPU-SOFTMAX")
    answers = frozenset({"CPU-SOFTMAX"}), "compiled without it"
    slower = replace(network, layers=(replace(layer, cycles=layer.cycles + 5),))
    without = actions._price(decision, layer, network, [(*answers, slower)])
    assert without.remedy == "" and without.price == RemedyPrice(-5, 0, True, answers[1])
    faster = replace(network, steps=network.steps[:-1], layers=())
    assert actions._price(decision, layer, network, [(*answers, faster)]).remedy == decision.remedy
    first, *others = network.memory.rows
    less = replace(network.memory, rows=(replace(first, size_bytes=first.size_bytes - 10), *others))
    smaller = replace(slower, memory=less)
    assert actions._price(decision, layer, network, [(*answers, smaller)]).remedy, "it saves memory"


def test_what_was_tried_without_gain_is_told(digits: atonc.doors.python.compilation.Compilation) -> None:
    from atonc.insight.report.explain_text import layer_lines

    layer = digits.network.layers[-1]
    tried = [replace(d, remedy="", price=RemedyPrice(-5, 0, True, "compiled otherwise")) for d in layer.decisions]
    text = "\n".join(layer_lines(replace(layer, decisions=tuple(tried))))
    assert "tried without gain: compiled otherwise." in text and "what to do" not in text


def test_what_moves_is_not_bound_by_convolvers() -> None:
    """A transpose reads; only convolvers have features."""
    graph = _transpose()
    view = atonc.compiler.compile.compile_view.CompileView
    assert view is not None
    rule = decide.bound({"read": 1.0}, 10).rule
    assert rule.id == "BOUND-READ" and "convolver" not in rule.sentence
    compiled = atonc.compiler.compile.pipeline.compile_graph(graph, Options(verify=False))

    cost = compiled.cost
    assert all(step.bound_by != "feature" for step in cost.steps)


def _transpose() -> atonc.compiler.ir.Graph:
    from atonc.compiler.ir import Graph, Op, Quantisation, Tensor

    quant = Quantisation.per_tensor(0.1, 0)
    x, y = Tensor("x", (1, 24, 40, 16), "int8", quant), Tensor("y", (1, 40, 24, 16), "int8", quant)
    op = Op("transpose", "t", ("x",), ("y",), {"perm": (0, 2, 1, 3)}, ("t",))
    return Graph({"x": x, "y": y}, (op,), ("x",), ("y",), "moves", "tflite")


# --------------------------------------------------------------------------------------------------------- coverage


def _conv_relu(clamp: str, quantised: bool = True) -> bytes:
    scale, zero = np.array(0.05, np.float32), np.array(0, np.int8)
    weights = np.ones((4, 3, 3, 3), np.int8)
    constants = {"s": scale, "z": zero, "w": weights}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], name="conv"),
        helper.make_node(clamp, ["c"], ["r"], name="clamp"),
    ]
    if quantised:
        nodes += [
            helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"]),
            helper.make_node("DequantizeLinear", ["rq", "s", "z"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("Exp", ["r"], ["y"], name="exp"))
    edges = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8]),
             helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]  # fmt: skip
    listed = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", edges[:1], edges[1:], listed)
    opset = [helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_a_clamp_between_a_convolution_and_its_quantiser_is_quantised() -> None:
    found = coverage(read_onnx(_conv_relu("Relu")))
    assert found.percent == 100.0 and not found.float_nodes
    compiled = atonc.compiler.compile.pipeline.compile_graph(read_onnx(_conv_relu("Relu")), Options(verify=False))
    on_cpu = {reason.op for reason in compiled.choices.reasons}
    assert "conv" not in on_cpu and "relu" not in on_cpu, "and so it runs"


def test_real_values_that_are_computed_still_count_as_float() -> None:
    found = coverage(read_onnx(_conv_relu("Relu", quantised=False)))
    assert {node.name for node in found.float_nodes} == {"conv", "clamp", "exp"}
    assert coverage(read_onnx(_conv_relu("Sigmoid"))).percent < 100


def test_functions_on_float_are_on_the_cpu_because_of_float() -> None:
    compiled = atonc.compiler.compile.pipeline.compile_graph(
        read_onnx(_conv_relu("Relu", quantised=False)), Options(verify=False)
    )
    rules_by_op = {reason.op: reason.rule.id for reason in compiled.choices.reasons}
    assert rules_by_op["exp"] == "CPU-FLOAT"


# -------------------------------------------------------------------------------------------------------- sentences


def test_sentences_end_once() -> None:
    ends = {"a": "a.", "a.": "a.", "a?": "a?", "a! ": "a!", "see:": "see:"}
    assert {text: sentence(text) for text in ends} == ends
    error = InputError("is wrong", where="x", rule="be right", remedy="did you mean y?")
    assert str(error) == "x: is wrong\n  cause: be right\n  fix: did you mean y?"
    assert error.one_line == "x: is wrong; cause: be right; fix: did you mean y?"
    assert str(InputError("alone")) == "alone"


def test_no_sentence_is_broken_in_what_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(DIGITS), "-v"]) == 0
    assert main(["analyze", str(DIGITS), "-v", "--no-verify"]) == 0
    text = capsys.readouterr().out
    for line in text.splitlines():
        assert not line.endswith(("..", "?.", " .", ":.")) and ". ." not in line and ": ." not in line, line
    assert "nothing to do" not in text


def test_a_worst_case_that_says_nothing_is_not_printed(
    digits: atonc.doors.python.compilation.Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from atonc.insight.report import compile_text

    for peak, shown in ((3.0, True), (500.0, False)):
        monkeypatch.setattr(compile_text, "output_peaks", lambda *_, peak=peak: {"probabilities": peak})
        text = "\n".join(map(str, compile_text.error_chapter(digits.compiled).blocks))
        assert ("all layers together" in text) == shown and "more than 20" not in text


def test_one_node_is_explained_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(DIGITS), "--node", "SOFTMAX_7", "--no-prices"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("softmax SOFTMAX_7: CPU") and "bottlenecks" not in text and "layers" not in text
