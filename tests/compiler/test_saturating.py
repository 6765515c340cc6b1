"""No sum saturates in silence: layers built for it are right within two codes, or run on the CPU with a reason."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Array, Graph, Op
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.sums import Layered
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers, verify
from atonc.machine.base.errors import VerificationError
from atonc.machine.hw.limits import SUM_LIMIT
from tests.compiler.saturating import WITHIN, judge, saturating_graph
from tests.lower.harness import activation, constant

INPUTS = 12_096


def many_inputs(scale: float = 0.76, outputs: int = 8, inputs: int = INPUTS) -> Graph:
    """A dense layer on positive features, whose weights are rather positive: its sums are three times 2^23."""
    rng = np.random.default_rng(3)
    weights = np.clip(rng.normal(20.0, 25.0, (outputs, inputs)), -127, 127).astype(np.int8)
    tensors = (
        activation("x", (1, inputs), 0.0108, -128),
        constant("w", weights, 0.0007),
        constant("b", rng.integers(-500, 500, outputs).astype(np.int32)),
        activation("y", (1, outputs), scale, -128),
    )
    return Graph({t.name: t for t in tensors}, (Op("dense", "d", ("x", "w", "b"), ("y",), {}),), ("x",), ("y",))


def positive(graph: Graph, seed: int) -> dict[str, Array]:
    shape = graph.tensors["x"].shape
    return {"x": np.random.default_rng(seed).integers(-128, 60, shape).astype(np.int8)}


def worst(compiled: Compiled, inputs: dict[str, Array]) -> float:
    emulation = Emulation(compiled.program, compiled.graph)
    return max(c.max_diff for c in Layers.of(compiled).check(inputs, emulation.run(inputs, observe=True)))


def test_sums_beyond_24_bits_are_cut_into_slices_of_channels() -> None:
    graph = many_inputs()
    inputs = positive(graph, 1)
    centred = inputs["x"].astype(int) + 128
    sums = centred @ np.asarray(graph.tensors["w"].data).astype(int).T
    assert np.abs(sums).max() > 2 * SUM_LIMIT and run_graph(graph, inputs)["y"].max() < 127  # nothing ends at a limit
    compiled = compile_graph(graph)
    assert not compiled.choices.reasons  # on the NPU
    found = compiled.mapped.context.semantics["d"].codes
    assert isinstance(found, Layered) and all(len(piece.chains) > 1 for piece in found.pieces)
    assert worst(compiled, inputs) <= 1
    assert compiled.report is not None and compiled.report.worst_layer <= 1


@pytest.mark.parametrize("seed", range(10))
def test_networks_built_to_saturate(seed: int) -> None:
    """The first networks have every kind of layer."""
    verdict = judge(saturating_graph(seed))
    assert verdict.off <= WITHIN and not verdict.refused


def test_a_coarse_layer_goes_to_the_cpu_unless_it_is_asked_for() -> None:
    """Sums go up to the middle of the channels and come back, by more than 16 bits hold in steps of a code."""
    graph = many_inputs(scale=0.02, inputs=2048)
    turned = np.where(np.arange(2048) < 1024, 100, -100) * np.ones((8, 1), int)
    weights = constant("w", turned.astype(np.int8), 0.0007)
    graph = Graph({**graph.tensors, "w": weights}, graph.ops, ("x",), ("y",))
    refused = compile_graph(graph, Options(verify=False))
    (reason,) = refused.choices.reasons
    assert reason.rule.id == "COARSE" and reason.limit == "2 LSB" and "--allow-coarse" in reason.remedy
    asked = compile_graph(graph, Options(allow_coarse=20.0))
    assert not asked.choices.reasons and 2 < Layers.of(asked).limits["d"] <= 20


def test_what_a_layer_means_is_no_excuse_for_saturation() -> None:
    """The shift of a layer is lowered behind the compiler's back: its epochs and its meaning agree, its codes are
    wrong, and the verification says so."""
    graph = many_inputs()
    compiled = compile_graph(graph, Options(verify=False))
    limits = dict(Layers.of(compiled).limits)
    assert limits == {"d": 1.0}
    layered = compiled.mapped.context.semantics["d"].codes
    assert isinstance(layered, Layered)
    pieces = [replace(piece, rule=_lower(piece.rule)) for piece in layered.pieces]
    compiled.mapped.context.semantics["d"] = replace(
        compiled.mapped.context.semantics["d"], codes=Layered(layered.shape, pieces), room=0.5
    )
    held = {"y": np.asarray(compiled.mapped.context.semantics["d"].codes([positive(graph, 1)["x"]])[0], np.int8)}
    (check,) = Layers.of(compiled).check(positive(graph, 1), held)
    assert check.bad and check.max_diff > 2 and check.room < 1


def _lower(rule: object) -> Requantisation:
    assert isinstance(rule, Requantisation)
    return replace(rule, out_shift=rule.out_shift - 4, factors=rule.factors >> 4)


def test_verification_says_what_to_do_about_sums_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_graph(many_inputs(), Options(verify=False))

    def check(*_: object, **__: object) -> list[object]:
        honest = Layers.check(*_, **__)  # type: ignore[arg-type]
        return [replace(one, max_diff=109.0, room=0.25) for one in honest]

    class Wrong(Layers):
        pass

    monkeypatch.setattr(Wrong, "check", check)
    monkeypatch.setattr("atonc.compiler.verify.verify.Layers", Wrong)
    with pytest.raises(VerificationError, match="109 codes") as found:
        verify(compiled.program, compiled.graph, compiled.mapped)
    assert "4 times what units hand on" in str(found.value) and "--calibration" in str(found.value)


def test_the_report_names_the_layer_with_the_least_room() -> None:
    """Weights at random: sums are far below what is possible, so room is what typical inputs leave."""
    rng = np.random.default_rng(4)
    graph = many_inputs(scale=0.02, inputs=2048)
    weights = constant("w", rng.integers(-127, 128, (8, 2048)).astype(np.int8), 0.0011)
    report = compile_graph(Graph({**graph.tensors, "w": weights}, graph.ops, ("x",), ("y",))).report
    assert report is not None and report.tightest is not None
    assert 1.25 < report.tightest.room < inf and report.tightest.node == "d"
    assert report.sums.startswith("accumulator headroom ") and report.sums.endswith("x (d)")


def degenerate(height: int) -> Graph:
    """Windows of 5x5 over channels whose scales were calibrated on nothing: one step of a sum is hundreds of codes."""
    rng = np.random.default_rng(7)
    scales = 10.0 ** rng.uniform(-1, 3, 16)
    tensors = (
        activation("x", (1, height, height, 16), 0.02, -128),
        constant("w", rng.integers(1, 128, (16, 5, 5, 1)).astype(np.int8), scales, axis=0),
        activation("y", (1, height, height, 16), 0.004, -128),
    )
    attrs = {"padding": (2, 2, 2, 2), "stride": (1, 1), "dilation": (1, 1), "groups": 16, "layout": "NHWC"}
    op = Op("conv", "c", ("x", "w"), ("y",), attrs)
    return Graph({t.name: t for t in tensors}, (op,), ("x",), ("y",))


def test_what_is_far_off_in_theory_only_stays_where_many_values_show_it() -> None:
    many, few = (compile_graph(degenerate(height)) for height in (16, 6))
    assert not many.choices.reasons and many.mapped.context.semantics["c"].error == 2.0
    assert "COARSE" in {refused.rule.id for refused in many.mapped.forms["c"].refused}
    assert many.report is not None and many.report.worst_layer <= 2
    assert [reason.rule.id for reason in few.choices.reasons] == ["COARSE"]
