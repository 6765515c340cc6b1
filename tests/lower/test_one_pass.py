"""Layers of 16 bits in one pass: what memory holds, what units make of sums, and which tensors are stored so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.conv.requantise import Accumulated
from atonc.compiler.lower.conv.wide_results import AS_CODES, MOST_OFF, WideEnd, WideLine, line_rules, wide_end
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import ended, requantised
from atonc.compiler.lower.sixteen import sums
from atonc.compiler.lower.sixteen.sums import most_dropped
from atonc.compiler.plan.coarse import HIGHEST, LOWEST, CoarseCodes
from atonc.compiler.plan.policy import SELDOM, WIDE_STEP
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.passes import ONE_PASS
from atonc.compiler.select.form import Semantics
from atonc.compiler.select.rules import CONV_MODE
from atonc.compiler.verify import verify
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import PUBLISHED
from atonc.machine.hw.units import arith
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.compiler.wide_networks import random_network
from tests.lower.harness import constant, facts

ALL = np.arange(LOWEST, HIGHEST + 1)
RELU = (0, HIGHEST)


def through(units: list[ArithConfig], stream: np.ndarray) -> np.ndarray:
    for unit in units:
        stream = arith.execute(unit, stream.astype(np.int16), None)
    return stream.astype(np.int64)


@pytest.mark.parametrize("dropped", range(7))
def test_what_memory_holds_stands_for_the_nearest_code(dropped: int) -> None:
    coarse = CoarseCodes(dropped)
    stored = coarse.stored(ALL)
    again = coarse.codes(stored)
    assert np.abs(again - ALL).max() <= (1 if dropped == 0 else coarse.step // 2)
    np.testing.assert_array_equal(coarse.stored(again), stored)
    assert coarse.stored(np.array(0)) == 1 and coarse.codes(np.array(1)) == 0


@pytest.mark.parametrize("dropped", [0, 1, 4])
@pytest.mark.parametrize("clip", [None, RELU])
def test_the_last_unit_clips_and_stores(clip: tuple[int, int] | None, dropped: int) -> None:
    """Codes in front of it reach both ends of 16 bits where the clip is."""
    coarse = CoarseCodes(dropped)
    end = wide_end(clip, coarse)
    codes = np.arange(-40_000, 40_000)
    results = np.clip(codes * end.gain + end.moved, LOWEST, HIGHEST)
    stored = through([end.unit()] if end.has_unit else [], results)
    low, high = clip or (LOWEST, HIGHEST)
    expected = coarse.codes(coarse.stored(np.clip(codes, low, high)))
    assert np.abs(coarse.codes(stored) - expected).max() <= max(1, coarse.step // 2)
    np.testing.assert_array_equal(coarse.codes(stored), ended(end, results))
    assert not end.has_unit or PUBLISHED.allows_all(PUBLISHED.grade_unit(end.unit()))


def test_other_clips_have_no_end() -> None:
    with pytest.raises(Refusal):
        wide_end((-1000, HIGHEST), None)


def line_of(end: WideEnd, farthest: float = 9_000.0) -> tuple[WideLine | None, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    scale, offset = rng.uniform(0.002, 0.008, 12), rng.uniform(-farthest, farthest, 12)
    needed = np.full(12, 8_000_000.0)
    (rule,) = line_rules(Accumulated(scale, offset, needed, offset, 1, 65536.0), end, [12])
    return rule, scale, offset


ENDS = {
    "codes": AS_CODES,
    "ReLU": wide_end(RELU, None),
    "13 bits": wide_end(None, CoarseCodes(3)),
    "ReLU, 13 bits": wide_end(RELU, CoarseCodes(3)),
}


@pytest.mark.parametrize("name", ENDS)
def test_one_unit_is_as_exact_as_it_says(name: str) -> None:
    end = ENDS[name]
    rule, scale, offset = line_of(end)
    assert rule is not None
    sums = np.random.default_rng(6).integers(-7_900_000, 7_900_000, (3000, 12))
    low = 0 if end.gain == 2 else LOWEST
    exact = np.clip(np.rint(sums * scale + offset), low, HIGHEST)
    acc = np.clip(np.sign(sums) * ((np.abs(sums) + (1 << rule.out_shift >> 1)) >> rule.out_shift), LOWEST, HIGHEST)
    found = requantised(rule, acc)
    assert np.abs(found - exact).max() <= rule.error * WIDE_STEP + 1
    units = rule.units(0, 12, 12, 3000)
    assert len(units) == rule.ariths(12) == (2 if end.has_unit else 1)
    stored = through(units, acc.reshape(-1)).reshape(acc.shape)
    np.testing.assert_array_equal(end.coarse.codes(stored) if end.coarse else stored, found)
    assert all(PUBLISHED.allows_all(PUBLISHED.grade_unit(unit)) for unit in units)


def test_biases_beyond_the_addends_take_two_units() -> None:
    assert line_of(ENDS["ReLU"], farthest=200_000.0)[0] is None
    assert MOST_OFF < WIDE_STEP


def network(seed: int = 3) -> Graph:
    return random_network(seed).graph("int16")


def test_tensors_between_layers_are_stored_on_a_coarser_scale() -> None:
    graph = network()
    mapped = map_ops(facts(graph))
    coarse = mapped.context.coarse
    assert coarse and all(codes.zero == 1 for codes in coarse.values())
    edges = {*graph.inputs, *graph.outputs}
    for name, codes in coarse.items():
        assert name not in edges and 0 <= codes.dropped <= most_dropped(mapped.context)
        assert all(op.kind in ("conv", "dense") for op in (graph.producers[name], *graph.consumers[name]))
        assert mapped.context.buffers[name].coarse == codes


def test_the_user_may_have_whole_codes() -> None:
    mapped = map_ops(replace(facts(network()), without=frozenset({ONE_PASS})))
    assert not mapped.context.coarse
    units = [u for w in mapped.works for g in w.groups for t in g.tasks for u in t.units.values()]
    assert not [u for u in units if isinstance(u, ConvaccConfig) and u.feature_bytes == 2 and u.feature_offset == 1]


def test_what_the_cpu_reads_or_writes_is_stored_as_it_is() -> None:
    graph = network()
    name, _ = next(iter(map_ops(facts(graph)).context.coarse.items()))
    for op in (graph.producers[name], graph.consumers[name][0]):
        found = map_ops(replace(facts(graph), on_cpu=frozenset({op.name})))
        assert name not in found.context.coarse


def test_a_layer_that_refuses_gets_whole_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage is decided before forms are: mapping begins anew without the tensors that one of them cannot take."""
    graph = network()
    name = next(iter(map_ops(facts(graph)).context.coarse))
    reader = graph.consumers[name][0].name
    known = sums.in_one_pass

    def refusing(layer, draft):
        if layer.op.name == reader:
            raise Refusal(CONV_MODE, "nothing", "nothing", "nothing")
        return (yield from known(layer, draft))

    monkeypatch.setattr(sums, "in_one_pass", refusing)
    mapped = map_ops(facts(graph))
    assert name not in mapped.context.coarse and not mapped.reason_of


def test_the_report_counts_whole_codes() -> None:
    """Observed tensors are codes of the model, whatever memory holds."""
    compiled = compile_graph(network(), Options())
    coarse = compiled.mapped.context.coarse
    assert compiled.report is not None and 1 <= compiled.report.worst_layer <= 2 * WIDE_STEP
    shape = compiled.graph.tensors["x"].shape
    codes = np.random.default_rng(0).integers(-20_000, 20_000, shape).astype(np.int16)
    seen = Emulation(compiled.program, compiled.graph).run({"x": codes}, observe=True)
    for name, how in coarse.items():
        if name in seen:
            inside = np.abs(seen[name].astype(int)) < HIGHEST
            assert not (seen[name][inside].astype(int) % how.step).any()


def readers(count: int) -> Graph:
    """So many equal layers that read one input of 16 bits; their sums need codes without their lowest bits."""
    weights = np.random.default_rng(5).integers(90, 128, (16, 1, 1, 7)).astype(np.int8)
    return layers(count, weights, (1, 12, 12, 7), 0.3)


def layers(count: int, weights: np.ndarray, shape: tuple[int, ...], scale: float) -> Graph:
    """So many equal layers on one input."""
    outputs, window = weights.shape[:2]
    tensors = {
        "x": Tensor("x", shape, "int16", Quantisation.per_tensor(1e-4, 0)),
        "w": constant("w", weights, np.full(outputs, 0.004), axis=0),
    }
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": (window // 2,) * 4, "groups": 1, "layout": "NHWC"}
    names = [f"y{k}" for k in range(count)]
    for name in names:
        tensors[name] = Tensor(name, (*shape[:3], outputs), "int16", Quantisation.per_tensor(scale, 0))
    ops = tuple(Op("conv", name, ("x", "w"), (name,), attrs) for name in names)
    return Graph(tensors, ops, ("x",), tuple(names))


def test_channels_in_slices_leave_features_more_bits() -> None:
    """Each slice sums fewer, so codes lose fewer bits, and weights are still read once."""
    weights = np.random.default_rng(5).integers(-127, 128, (64, 3, 3, 64)).astype(np.int8)
    compiled = compile_graph(layers(1, weights, (1, 8, 8, 64), 0.004), Options())
    form, declared = compiled.mapped.forms["y0"], compiled.mapped.context.semantics["y0"]
    seen = [refused.seen for refused in form.refused]
    assert [f"sums of y0 need codes without their {bits} lowest bits" in seen for bits in (8, 7, 6)] == [1, 1, 0]
    (copy,) = compiled.mapped.context.shifted_copies
    assert copy.startswith("coarser codes 6 ")
    (twice,) = (one.built for one in form.alternatives if str(one.variant) == "two passes")
    assert twice is not None and twice.cycles > 1.5 * form.cycles
    assert 0 < declared.seldom < declared.error <= 2 * WIDE_STEP
    assert form.error == declared.error / WIDE_STEP, "users hear of the whole error"
    assert compiled.report is not None and 1 <= compiled.report.worst_layer <= declared.error


def test_what_many_roundings_seldom_reach_weighs_less() -> None:
    always = Semantics(list, error=32.0, step=WIDE_STEP)
    assert always.compared == 1.0
    assert replace(always, seldom=16.0).compared == pytest.approx((1 + SELDOM) / 2)
    assert replace(always, seldom=64.0).compared == pytest.approx(SELDOM), "of a form that is shown to be better"


def test_every_reader_of_a_coarser_copy_declares_its_rounding() -> None:
    """The copy is made for the first of them: the others see the same codes."""
    mapped = map_ops(facts(readers(3)))
    errors = [mapped.context.semantics[f"y{k}"].error for k in range(3)]
    assert errors[0] == errors[1] == errors[2] > 0
    assert len(mapped.context.shifted_copies) == 1, "one copy for all of them"


def test_a_form_that_is_coarser_than_it_declares_is_followed_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification finds it; the layer is read byte by byte then, and nothing else changes."""
    honest = sums.in_one_pass

    def boasting(layer, draft):
        found = yield from honest(layer, draft)
        draft.require_fine(layer.op, 0.4)
        means = replace(found.form.semantics[layer.op.name], error=0.4)
        return replace(found, form=replace(found.form, semantics={layer.op.name: means}))

    monkeypatch.setattr(sums, "in_one_pass", boasting)
    compiled = compile_graph(readers(2), Options())
    assert compiled.decisions.disproved == {"y0": (0.4,), "y1": (0.4,)}
    assert not compiled.choices.reasons and compiled.report is not None
    assert all(check.max_diff <= check.limit for check in compiled.report.checks)


def test_and_in_the_end_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every form declares too little."""
    monkeypatch.setattr(verify, "_limit", lambda op, declared: -1.0 * (not declared.on_cpu))
    compiled = compile_graph(readers(1), Options())
    assert [reason.rule.id for reason in compiled.choices.reasons] == ["COARSE"]
