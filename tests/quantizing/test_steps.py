"""Each step by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("tflite")
from onnx import numpy_helper

from atonc.insight.quantizing import run, workbench
from atonc.insight.quantizing.calibrate import calibrate
from atonc.insight.quantizing.graph import (
    WEIGHTED,
    FloatGraph,
    layers_of,
    magnitudes,
    make_plan,
    matrix,
    own_constants,
    rows,
)
from atonc.insight.quantizing.judge import QuantizationJudge, Signal, judged, parts_of, unlike_heads
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.mend import equalise
from atonc.insight.quantizing.observe import outputs, session
from atonc.insight.quantizing.price import QuantizationPrice
from atonc.insight.quantizing.price import choose as choose_candidate
from atonc.insight.quantizing.run import QuantizationWork, TriedModel, quantize
from atonc.insight.quantizing.scales import (
    PERCENTILE,
    Seen,
    Tuning,
    assign,
    choose,
    error,
    input_range,
    scale_of,
    symmetric,
)
from atonc.insight.quantizing.types import QuantizedCandidate, QuantizeOptions
from atonc.insight.quantizing.weights import Bounds, Moments, channel_scales, rounded
from tests.frontends.tflite_models import O, T, build
from tests.quantizing.float_models import Build, detector, nested_detector, network, samples, save


def graph_of(folder: Path, spread: float = 1.0) -> FloatGraph:
    return FloatGraph(own_constants(load(save(folder, network(spread))), WEIGHTED))


def feeds(folder: Path, count: int = 12) -> list[dict[str, np.ndarray]]:
    return [{"x": value[None]} for value in np.load(samples(folder, count))["x"]]


def test_the_plan_keeps_functions_whole_and_relu_with_its_layer(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    plan = make_plan(graph)
    kinds = {name: graph.producer[name].op_type for name in plan.tensors if name in graph.producer}
    assert sorted(kinds.values()) == sorted(
        ["Relu", "Relu", "Conv", "Mul", "Add", "Concat", "GlobalAveragePool", "Flatten", "Gemm"]
    )  # no sigmoid inside of the SiLU, no convolution in front of a ReLU, no softmax
    assert [graph.producer[output].op_type for output, _ in plan.concats] == ["Concat"]
    assert len(plan.float_nodes) == 1 and "y" in make_plan(graph, float_tails=False).tensors


def test_tuning_shares_scales_and_zero_points(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    plan = make_plan(graph)
    seen = calibrate(graph, plan.tensors, layers_of(graph), feeds(tmp_path))
    free = assign(graph, plan, seen, "minmax", Tuning())
    tuned = assign(graph, plan, seen, "minmax", Tuning(concats=True, zeros=True))
    output, inputs = plan.concats[0]
    assert len({tuned[name] for name in (output, *inputs)}) == 1 < len({free[name] for name in (output, *inputs)})
    assert {scale.zero for scale in tuned.values()} <= {0, -128}
    assert not {scale.zero for scale in free.values()} <= {0, -128}


def test_camera_bytes_are_the_codes() -> None:
    for top in (255.0, 1.0):
        values = np.linspace(0, top * 0.99, 50).reshape(-1, 1)
        scale = scale_of(*input_range(Seen(0.0, float(values.max()), values)))
        assert scale.zero == -128 and scale.scale == pytest.approx(top / 255, rel=1e-6)


def test_ranges_by_error_cut_outliers_and_weigh_channels() -> None:
    random = np.random.default_rng(0)
    values = random.laplace(0, 1, (40_000, 2)) * np.array([3.0, 1.0])
    seen = Seen(float(values.min()), float(values.max()), values)
    cut, whole = scale_of(*choose(seen, "mse")), scale_of(*choose(seen, "minmax"))
    assert error(seen, cut) < 0.9 * error(seen, whole)
    weighed = Seen(seen.low, seen.high, values, np.array([0.0, 1.0]))  # nobody reads the louder channel
    assert choose(weighed, "output")[1] <= choose(seen, "mse")[1]
    assert symmetric(-1.0, 3.0).zero == 0 and symmetric(0.0, 3.0).zero == -128
    for method in ("percentile", "entropy"):
        low, high = choose(seen, method)
        assert seen.low <= low < 0 < high <= seen.high
        assert high - low < 0.95 * (seen.high - seen.low)  # really a choice
    low, high = choose(seen, "percentile")  # 1 in 10,000 is outside; onnxruntime's leaves out 1 in 100,000
    assert np.mean((values < low) | (values > high)) == pytest.approx(1 - PERCENTILE / 100, rel=0.2)


def test_careful_ranges_keep_three_quarters() -> None:
    seen = Seen(-20.0, 20.0, np.random.default_rng(0).normal(0, 1, (10_000, 1)))  # once it was 20
    (low, high), cut = choose(seen, "careful"), choose(seen, "output")
    assert low <= 0.74 * seen.low and high >= 0.74 * seen.high and cut[1] - cut[0] < high - low


def test_a_step_is_kept_only_if_it_wins_by_more_than_chance(tmp_path: Path) -> None:
    """One that is a little better on every sample is surely better; much better on a single one proves nothing."""
    signal, noise = np.full((20, 1), 100.0), np.r_[np.ones(19), 6.0][:, None]
    plain, steady = Signal(signal, noise), Signal(signal, 0.8 * noise)
    lucky = Signal(signal, np.full((20, 1), 1.02))
    assert lucky.db > plain.db and lucky.gain_over(plain)[0] < 0 < steady.gain_over(plain)[0]
    graph = graph_of(tmp_path)
    work = QuantizationWork(graph, QuantizeOptions(), feeds(tmp_path), QuantizationJudge.of(graph, feeds(tmp_path)))
    assert [work.keeps(name, one) for name, one in (("a", plain), ("b", lucky), ("c", steady))] == [True, False, True]
    assert work.best is steady and [step.kept for step in work.steps] == [True, False, True]
    assert work.steps[0].gain_db is None and work.steps[2].gain_db == pytest.approx((0.969, 0.969), abs=1e-3)


def test_rounding_by_outputs_beats_nearest() -> None:
    random = np.random.default_rng(1)
    mixing = random.normal(size=(24, 24)) * np.geomspace(1, 0.01, 24)
    values = (random.normal(size=(500, 24)) @ mixing + 0.7)[:, None]
    weights = random.normal(size=(1, 6, 24))
    moments = Moments.empty(1, 24)
    moments.add(values)
    codes, scales, shift = rounded(weights, moments)
    plain_scales = channel_scales(weights[0])
    plain = np.rint(weights[0] / plain_scales[:, None]) * plain_scales[:, None]
    exact = values[:, 0] @ weights[0].T
    mended = values[:, 0] @ (codes[0] * scales[0][:, None]).T + shift[0]
    lost = [np.square(found - exact).mean() for found in (mended, values[:, 0] @ plain.T)]
    assert codes.dtype == np.int8 and np.abs(codes.astype(int)).max() <= 127
    assert lost[0] < 0.5 * lost[1]


def test_similar_scales_have_a_bounded_spread() -> None:
    weights = np.random.default_rng(2).normal(size=(5, 9)) * np.geomspace(1, 1e-4, 5)[:, None]
    scales = channel_scales(weights, bounds=Bounds(spread=6.0))
    assert scales.max() / scales.min() <= 6.0 * 1.25
    assert channel_scales(weights).max() / channel_scales(weights).min() > 1000


def test_scales_are_bounded_only_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(tmp_path, spread=8.0)
    work = QuantizationWork(graph, QuantizeOptions(), feeds(tmp_path), QuantizationJudge.of(graph, feeds(tmp_path)))
    work.start(graph)
    names = list(work.layers)
    priced = QuantizationPrice(1.0, 1, "", dict.fromkeys(names, 100))
    before = TriedModel(QuantizedCandidate("", 0.0, (0.0, 0.0), 1.0, 1), None, Tuning(), work.state,
                        Signal(np.ones((1, 1)), np.ones((1, 1))), {}, priced)  # fmt: skip
    found = QuantizationPrice(1.0, 1, "", {names[0]: 90, names[1]: 110, "x": 1})
    monkeypatch.setattr(workbench, "price", lambda *_: found)
    tuning = work._where_it_pays(before, Tuning(spread=2.0))
    assert tuning.layers == {names[0]} and tuning.name == "scales of channels within a factor of 2 in 1 layer"
    free, bounded = work.mended(Tuning(), run.NOTHING), work.mended(tuning, run.NOTHING)
    spreads = [made[names[0]][1].scales.max() / made[names[0]][1].scales.min() for made in (free, bounded)]
    assert spreads[1] <= 2.0 * 1.25 < spreads[0]
    assert all(np.array_equal(free[name][1].scales, bounded[name][1].scales) for name in names[1:])
    assert work._where_it_pays(before, Tuning(whole=True)) == Tuning(whole=True)


def test_equalisation_keeps_the_function_and_evens_the_channels(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, spread=8.0)
    given, layers = feeds(tmp_path), layers_of(graph)
    seen = calibrate(graph, make_plan(graph).tensors, layers, given)
    before = outputs(graph.model, given)
    assert equalise(graph, layers, seen) >= 1
    after = outputs(graph.model, given)
    assert all(np.allclose(a[0], b[0], atol=1e-5) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_clip_is_never_reached_by_equalised_channels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Its limits are scalars, or one value as in what TFLite's ReLU6 becomes."""
    b = Build(3)
    bounds = [b.constant("low", np.full(shape, 0.0)), b.constant("high", np.full(shape, 6.0))]
    middle = b.node("Clip", [b.conv("x", "c1", (8, 3, 3, 3), 8.0), *bounds], "m")
    model = b.model({"x": (1, 3, 12, 12)}, [b.conv(middle, "y", (8, 1, 3, 3), group=8)])
    graph = FloatGraph(own_constants(load(save(tmp_path, model)), WEIGHTED))
    given, layers = feeds(tmp_path), layers_of(graph)
    before = outputs(graph.model, given)
    assert equalise(graph, layers, calibrate(graph, make_plan(graph).tensors, layers, given)) == 1
    assert all(np.allclose(a[0], c[0], atol=1e-4) for a, c in zip(before, outputs(graph.model, given), strict=True))


@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2]}, {"dilations": [2, 2]}, {"group": 2}])
def test_rows_are_what_the_convolution_reads(tmp_path: Path, attributes: dict[str, object]) -> None:
    b = Build(4)
    shape = (4, 4 // int(str(attributes.get("group", 1))), 3, 3)
    graph = FloatGraph(load(save(tmp_path, b.model({"x": (1, 4, 9, 7)}, [b.conv("x", "y", shape, **attributes)]))))
    (layer,) = layers_of(graph)
    x = np.random.default_rng(6).normal(size=(1, 4, 9, 7)).astype(np.float32)
    y = session(graph.model).run(None, {"x": x})[0]
    stored = graph.constants[layer.weights]
    found = rows(layer, x, stored, np.random.default_rng(0), 10_000)
    sums = np.einsum("pgk,gok->pgo", found, matrix(layer, stored)).reshape(len(found), -1)
    expected = y[0].reshape(4, -1).T - graph.constants[layer.bias]
    assert np.allclose(sums, expected, atol=1e-5)


def test_float_tflite_becomes_the_same_network(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    tensors = [
        T("x", (1, 6, 5, 3), "float32"), T("w", (4, 3, 3, 3), "float32", data=random.normal(size=(4, 3, 3, 3))),
        T("b", (4,), "float32", data=random.normal(size=4)), T("y", (1, 6, 5, 4), "float32"),
        T("s", (1, 6, 5, 4), "float32"), T("m", (1, 6, 5, 4), "float32"),
        T("d", (3, 120), "float32", data=random.normal(size=(3, 120)) * 0.1), T("z", (1, 3), "float32"),
    ]  # fmt: skip
    ops = [
        O("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", {0: ("b", 0), 1: ("i", 1), 2: ("i", 1)}),
        O("LOGISTIC", ["y"], ["s"]), O("MUL", ["y", "s"], ["m"]), O("FULLY_CONNECTED", ["m", "d"], ["z"]),
    ]  # fmt: skip
    same_as_tflite(tmp_path, build(tensors, ops, ["x"], ["z"]), random.normal(size=(1, 6, 5, 3)))


def test_windows_and_parts_of_float_tflite(tmp_path: Path) -> None:
    """Where channels are first (behind a convolution) and where they are last: rows of a state, gates of a cell."""
    random = np.random.default_rng(8)
    bounds = {"b": (0, 5, 0, 1), "e": (1, 0, 5, 4), "s": (1, -2, 1, 2), "k": (0, 1, 0, 0), "f": (1, 6, 5, 3)}
    tensors = [
        T("x", (1, 6, 5, 3), "float32"), T("w", (4, 3, 3, 3), "float32", data=random.normal(size=(4, 3, 3, 3))),
        T("c", (4,), "float32", data=random.normal(size=4)), T("y", (1, 6, 5, 4), "float32"),
        *(T(name, (4,), "int32", data=np.array(value)) for name, value in bounds.items()),
        T("ones", (4,), "int32", data=np.ones(4)), T("axis", (1,), "int32", data=np.array([3])),
        T("window", (1, 5, 5, 3), "float32"), T("turned", (1, 3, 5, 2), "float32"),
        *(T(name, (1, 6, 5, 2), "float32") for name in ("low", "high", "m")),
        T("d", (3, 165), "float32", data=random.normal(size=(3, 165)) * 0.1), T("z", (1, 3), "float32"),
        *(T(f"{n}1", (1, size), "float32") for n, size in (("window", 75), ("turned", 30), ("m", 60))),
        T("flat", (2,), "int32", data=np.array([1, -1])), T("all", (1, 165), "float32"),
    ]  # fmt: skip
    joined = ["window1", "turned1", "m1"]
    ops = [
        O("STRIDED_SLICE", ["x", "k", "f", "ones"], ["window"], "StridedSliceOptions"),
        O("CONV_2D", ["x", "w", "c"], ["y"], "Conv2DOptions", {0: ("b", 0), 1: ("i", 1), 2: ("i", 1)}),
        O("SPLIT", ["axis", "y"], ["low", "high"], "SplitOptions", {0: ("i", 2)}),
        O("STRIDED_SLICE", ["y", "b", "e", "s"], ["turned"], "StridedSliceOptions"), O("MUL", ["low", "high"], ["m"]),
        *(O("RESHAPE", [name.rstrip("1"), "flat"], [name]) for name in joined),
        O("CONCATENATION", joined, ["all"], "ConcatenationOptions", {0: ("i", 1)}),
        O("FULLY_CONNECTED", ["all", "d"], ["z"]),
    ]  # fmt: skip
    same_as_tflite(tmp_path, build(tensors, ops, ["x"], ["z"]), random.normal(size=(1, 6, 5, 3)))


def same_as_tflite(folder: Path, model: bytes, value: np.ndarray) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    path, x = folder / "float.tflite", value.astype(np.float32)
    path.write_bytes(model)
    runner = interpreter.Interpreter(str(path))
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], x)
    runner.invoke()
    expected = runner.get_tensor(runner.get_output_details()[0]["index"])
    assert np.allclose(outputs(load(path), [{"x": x}])[0][0], expected, atol=1e-5)


def test_magnitudes_of_a_transform_stay_in_float_where_codes_of_squares_lose_them(tmp_path: Path) -> None:
    b, random = Build(5), np.random.default_rng(5)
    b.conv("x", "parts", (16, 8, 1, 1))
    parts = []
    for k, name in enumerate(("re", "im")):
        cut = {f"{name}:from": 8 * k, f"{name}:to": 8 * k + 8, f"{name}:axis": 1}
        b.constants += [numpy_helper.from_array(np.array([value], np.int64), key) for key, value in cut.items()]
        parts.append(
            b.node("Pow", [b.node("Slice", ["parts", *cut], name), b.constant(f"{name}:two", 2.0)], f"{name}2")
        )
    root = b.node("Sqrt", [b.node("Add", parts, "power")], "root")
    b.node("Relu", [b.conv(root, "c", (4, 8, 1, 1))], "y")
    path = save(tmp_path, b.model({"x": (1, 8, 1, 6)}, ["y"]))
    assert set(magnitudes(FloatGraph(load(path)))) == {"Pow re2", "Pow im2", "Add power", "Sqrt root"}
    x = random.normal(0, 1, (60, 8, 1, 6)) * 10.0 ** random.uniform(-2, 0.3, (60, 1, 1, 6))  # loud and soft frames
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    wanted = QuantizeOptions(objective="accuracy", calibration="minmax", correct_rounding=False, equalise=False)
    found = quantize(path, tmp_path / "x.npz", wanted)
    step = next(step for step in found.steps if step.name == "roots of squares in float")
    assert step.kept and step.snr_db > 3 + found.steps[0].snr_db and "Sqrt root" in found.float_nodes
    b.nodes[[node.name for node in b.nodes].index("Add power")].op_type = "Sub"  # nothing like a magnitude
    assert not magnitudes(FloatGraph(load(save(tmp_path, b.model({"x": (1, 8, 1, 6)}, ["y"])))))


def test_logits_are_judged_beside_the_probabilities(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    assert judged(graph) == ("y", "logits")
    judge = QuantizationJudge.of(graph, feeds(tmp_path))
    assert [len(values) for values in judge.reference] == [2] * 12 and [len(v) for v in judge.expected] == [1] * 12
    assert judge.signal(graph.model).db == 120 and judge.whole.signal(graph.model).db == 120


def test_speed_is_not_bought_with_less_than_other_tools_reach() -> None:
    found = [
        QuantizedCandidate("free", 30.0, (0.0, 99.0), 3.0, 3),
        QuantizedCandidate("worse in what reads as the same time", 29.7, (0.0, 99.0), 1.9999, 2),
        QuantizedCandidate("good enough", 29.9, (0.0, 99.0), 2.0, 2),
        QuantizedCandidate("fast", 29.6, (0.0, 99.0), 1.0, 1, sound=False),
        QuantizedCandidate("poor", 29.4, (0.0, 99.0), 0.9, 1),
    ]
    chosen = {
        objective: [c.name for c in choose_candidate(found, QuantizeOptions(objective=objective)) if c.chosen]
        for objective in ("accuracy", "balanced", "speed")
    }
    assert chosen == {"accuracy": ["free"], "balanced": ["good enough"], "speed": ["poor"]}


def test_boxes_and_scores_of_one_output_keep_their_scales(tmp_path: Path) -> None:
    """With one scale the scores have a few codes; in float the joined output is as good as its parts."""
    path, data = save(tmp_path, detector()), samples(tmp_path)
    graph = FloatGraph(own_constants(load(path), WEIGHTED))
    assert np.array_equal(parts_of(graph)["y"], np.repeat([0, 1], [4, 2]).reshape(1, 6, 1, 1) + np.zeros((12, 12)))
    few = {"objective": "accuracy", "correct_rounding": False, "equalise": False}
    apart, joined = (
        quantize(path, data, QuantizeOptions(**few)),
        quantize(path, data, QuantizeOptions(**few, float_tails=False)),
    )
    assert ("joined outputs keep the scales of their parts", True) in [(step.name, step.kept) for step in apart.steps]
    assert len(apart.float_nodes) == 1 and not joined.float_nodes
    feed = feeds(tmp_path)
    expected = np.concatenate([one[0] for one in outputs(graph.model, feed)])
    errors = [np.abs(np.concatenate([one[0] for one in outputs(made.model, feed)]) - expected)[:, 4:].max()
              for made in (apart, joined)]  # fmt: skip
    assert errors[0] < 0.02 < 0.2 < errors[1]
    assert apart.chosen.milliseconds is not None  # it compiles


def test_joins_of_joins_keep_the_scales_of_their_parts(tmp_path: Path) -> None:
    """As YOLOX: boxes and scores joined at each size, then the sizes, then turned."""
    path, data = save(tmp_path, nested_detector()), samples(tmp_path)
    graph = FloatGraph(own_constants(load(path), WEIGHTED))
    owners = parts_of(graph)["y"]
    assert owners.shape == (1, 144 + 36, 6)
    assert [np.unique(owners[0, rows, columns]).tolist() for rows in (slice(0, 144), slice(144, None))
            for columns in (slice(0, 4), slice(4, None))] == [[0], [1], [2], [3]]  # fmt: skip
    seen = calibrate(graph, make_plan(graph).tensors, layers_of(graph), feeds(tmp_path))
    kinds = [graph.nodes[index].op_type for index, node in enumerate(graph.nodes)
             if node.name in unlike_heads(graph, seen)]  # fmt: skip
    assert kinds.count("Concat") == 3 and "Transpose" in kinds and not {"Conv", "Sigmoid", "Mul"} & set(kinds)
    few = {"objective": "accuracy", "correct_rounding": False, "equalise": False}
    made = quantize(path, data, QuantizeOptions(**few))
    assert ("joined outputs keep the scales of their parts", True) in [(step.name, step.kept) for step in made.steps]
    feed = feeds(tmp_path)
    pairs = zip(outputs(graph.model, feed), outputs(made.model, feed), strict=True)
    assert max(np.abs(one[0] - other[0])[..., 4:].max() for one, other in pairs) < 0.02
    assert made.chosen.milliseconds is not None  # it compiles


def test_parts_of_like_range_share_a_scale(tmp_path: Path) -> None:
    graph = FloatGraph(own_constants(load(save(tmp_path, detector(0.5))), WEIGHTED))
    seen = calibrate(graph, make_plan(graph).tensors, layers_of(graph), feeds(tmp_path))
    assert unlike_heads(graph, seen) == ()
