"""Twelve faults and more, each planted into a network that is otherwise well quantised: the report begins with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.accuracy.explain import examine
from atonc.insight.explain.types import ACTIVATION, ARITHMETIC, WEIGHTS, LossFinding
from tests.accuracy.planted import FloatNet, Format, Quantiser

SHAPE = (1, 3, 12, 12)
DEAD, PRUNED = 2, 5  # a channel of r1 that is always zero, and one of c2 without weights


def network() -> FloatNet:
    net = FloatNet()
    net.conv("x", "c1", (3, 8))
    net.constants["c1_b"][DEAD] = -4
    net.op("Relu", ["c1"], "r1")
    net.conv("r1", "c2", (8, 8))
    net.op("Relu", ["c2"], "r2")
    net.op("Add", ["r1", "r2"], "sum")
    net.conv("sum", "c3", (8, 8), 1)
    net.op("Sigmoid", ["c3"], "gate")
    net.op("Mul", ["c3", "gate"], "swish")
    net.conv("swish", "boxes", (8, 4), 1)
    net.conv("swish", "raw", (8, 4), 1)
    net.op("Sigmoid", ["raw"], "scores")
    return net


def samples(count: int = 2) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [{"x": rng.uniform(0, 1, SHAPE).astype(np.float32)} for _ in range(count)]


@dataclass(frozen=True)
class Fault:
    """A change of the float network or of the quantiser, and where the report must find it."""

    layer: str
    part: str
    symptoms: tuple[str, ...]
    network: Callable[[FloatNet], None] = lambda net: None
    quantiser: Callable[[Quantiser], None] = lambda made: None
    program: Callable[[Compiled], Compiled] = lambda compiled: compiled
    numerics: str = "best"
    outputs: tuple[str, ...] = ("boxes", "scores")


def scaled(name: str, factor: float) -> Callable[[Quantiser], None]:
    """One step of an activation is so many times as large."""

    def change(made: Quantiser) -> None:
        made.formats[name] = Format(made.formats[name].scale * factor, made.formats[name].zero)

    return change


def moved(name: str, codes: int) -> Callable[[Quantiser], None]:
    def change(made: Quantiser) -> None:
        made.formats[name] = Format(made.formats[name].scale, made.formats[name].zero + codes)

    return change


def huge_weight(net: FloatNet) -> None:
    net.constants["c2_w"][3, DEAD, 1, 1] = 60  # on a channel that is always zero: the function stays


def huge_channel(net: FloatNet) -> None:
    net.constants["c3_w"][4] *= 60


def unlike_channels(net: FloatNet) -> None:
    net.constants["c2_w"][::2, DEAD, 1, 1] = 30


def unlike_outputs(net: FloatNet) -> None:
    net.constants["boxes_w"] *= 400
    net.op("Concat", ["boxes", "scores"], "both", axis=1)


def pruned(net: FloatNet) -> None:
    net.constants["c2_w"][PRUNED] = 0
    net.constants["c2_b"][PRUNED] = 1.5


def tiny_scale(made: Quantiser) -> None:
    made.weight_scales["c2_w"] = np.where(np.arange(8) == PRUNED, 1e-9, 0.01)


def clipped_weights(made: Quantiser) -> None:
    made.weight_scales["c2_w"] = np.full(8, 0.001)


def another_sign(made: Quantiser) -> None:
    weights = onnx.numpy_helper.to_array(next(k for k in made.source.graph.initializer if k.name == "c3_w")).copy()
    weights[1] *= -1
    made.weights["c3_w"] = weights


def per_tensor(name: str) -> Callable[[Quantiser], None]:
    return lambda made: made.per_tensor.add(name)


def opposed(net: FloatNet) -> None:
    """Weights whose signed sum is small and whose sums on positive inputs are large."""
    rng = np.random.default_rng(1)
    signs = np.where(np.arange(8) < 4, 1.0, -1.0).reshape(1, -1, 1, 1)
    net.constants["c2_w"] = (signs * rng.uniform(0.9, 1, (8, 8, 3, 3))).astype(np.float32)
    net.constants["c1_b"] = np.where(np.arange(8) < 4, 2.0, -2.0).astype(np.float32)
    net.constants["c2_b"] = np.full(8, -30, np.float32)


def short_table(compiled: Compiled) -> Compiled:
    """The table of the scores ends in the middle: what lies behind is its last value."""
    op = next(op for op in compiled.graph.ops if "n_scores" in op.origin)
    meanings = compiled.mapped.context.semantics
    whole = meanings[op.name]
    middle = compiled.graph.tensors[op.inputs[0]].zero_point
    meanings[op.name] = replace(whole, codes=lambda given: whole.codes([np.minimum(given[0], middle)]))
    return compiled


FAULTS = {
    "one huge weight in a channel": Fault("n_c2", WEIGHTS, ("huge-weight",), huge_weight),
    "one huge channel under one scale": Fault("n_c3", WEIGHTS, ("huge-channel",), huge_channel, per_tensor("c3_w")),
    "unlike channels under one scale": Fault(
        "n_c2", WEIGHTS, ("unlike-channels",), unlike_channels, per_tensor("c2_w")
    ),
    "clipped activation": Fault("n_r2", ACTIVATION, ("clipped",), quantiser=scaled("r2", 1 / 8)),
    "unlike outputs share a scale": Fault("n_both", ACTIVATION, ("shared-scale",), unlike_outputs, outputs=("both",)),
    "input of 0..255 meant": Fault("x_q", ACTIVATION, ("input-range",), quantiser=scaled("x", 255)),
    "input beyond its range": Fault("x_q", ACTIVATION, ("input-range",), quantiser=scaled("x", 1 / 4)),
    "dead ReLU": Fault("n_r2", ACTIVATION, ("dead",), quantiser=scaled("r2", 600)),
    "wrong zero point": Fault("n_c3", ACTIVATION, ("zero-point",), quantiser=moved("c3", 90)),
    "bias beyond 32 bits": Fault("n_c2", WEIGHTS, ("bias-overflow",), pruned, tiny_scale),
    "clipped weights": Fault("n_c2", WEIGHTS, ("clipped-weights",), quantiser=clipped_weights),
    "too coarse input of an addition": Fault("n_r2", ACTIVATION, ("coarse",), quantiser=scaled("r2", 40)),
    "a channel with another sign": Fault("n_c3", WEIGHTS, ("weights-differ",), quantiser=another_sign),
    "16-bit sums saturate": Fault("n_c2", ARITHMETIC, ("saturation",), opposed, numerics="2.x"),
    "a table cut short": Fault("n_scores", ARITHMETIC, ("table",), program=short_table),
}


def report(fault: Fault, remedies: bool = False, original: bool = True) -> tuple[LossFinding, ...]:
    net = network()
    fault.network(net)
    model = net.model({"x": SHAPE}, list(fault.outputs))
    made = Quantiser.calibrated(model, samples())
    fault.quantiser(made)
    options = Options(verify=False, numerics=fault.numerics)
    compiled = fault.program(compile_graph(read_onnx(made.model().SerializeToString()), options))
    real = read_onnx(model.SerializeToString()) if original else None
    return examine(compiled, real, samples(), options, remedies).findings


@pytest.mark.parametrize("name", FAULTS)
def test_each_is_the_first_or_second_line(name: str) -> None:
    fault, found = FAULTS[name], report(FAULTS[name])
    lines = [(one.layer, one.part, one.symptom) for one in found[:2]]
    assert any((fault.layer, fault.part, symptom) in lines for symptom in fault.symptoms), found[:3]


MENDED = {  # what mends it, and what it must bring
    "clipped activation": ("a range that fits", 20.0),
    "wrong zero point": ("a range that fits", 20.0),
    "unlike outputs share a scale": ("its parts kept apart", 20.0),
    "bias beyond 32 bits": ("weights from float", 20.0),
    "one huge weight in a channel": ("the same, with the largest weights clipped", 4.0),
    "16-bit sums saturate": ("compile with --numerics best", 20.0),
    "a table cut short": ("compute it on the CPU", 5.0),
}


@pytest.mark.parametrize("name", MENDED)
def test_remedies_are_tried_and_priced(name: str) -> None:
    words, gain = MENDED[name]
    first = report(FAULTS[name], remedies=True)[0]
    remedy = next(one for one in first.remedies if one.what.startswith(words))
    assert remedy.tried and remedy.gain_db > gain, remedy
    assert remedy.price_ms is not None and abs(remedy.price_ms) < 10
    assert any(one.price_ms and one.price_ms > 0 for one in first.remedies), "the CPU is not free"


def test_a_sound_network_has_no_loud_finding() -> None:
    sound = report(Fault("", "", ()))
    assert all(one.outputs_db > 35 for one in sound), sound[:2]
    assert {one.symptom for one in sound} <= {"eight-bits", "eight-bit-weights", "rounding", "shared-scale"}


def test_without_a_float_model_activations_and_arithmetic_are_found() -> None:
    for name in ("clipped activation", "dead ReLU", "a table cut short"):
        fault = FAULTS[name]
        lines = [(one.layer, one.part) for one in report(fault, original=False)[:2]]
        assert (fault.layer, fault.part) in lines, name


def test_a_large_loss_does_not_hide_what_the_next_remedy_brings() -> None:
    """The second line is tried on the network in which the first is mended."""
    both = Fault("", "", (), quantiser=lambda made: (scaled("r2", 1 / 8)(made), scaled("swish", 20)(made))[0])
    first, second = report(both, remedies=True)[:2]
    best = max(one.after_db for one in first.remedies if one.what.startswith("a range that fits") and one.after_db)
    assert {first.layer, second.layer} == {"n_r2", "n_swish"}
    assert second.remedies[0].before_db == pytest.approx(best)
    assert second.remedies[0].gain_db > 5
