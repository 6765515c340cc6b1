"""Estimates against the compilation of the same model, from its codes and from a float copy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compile.pipeline import compile_file, read_model
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.alike import _looks
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv import depthwise
from atonc.compiler.lower.conv.lanes import most_interleaved
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.compiler.search.build import build
from atonc.compiler.select.decisions import FIRST
from atonc.doors.cli.cli import main
from atonc.insight.estimating.assume import MIDDLE, SIGNED, is_float, with_codes, with_plain_values
from atonc.insight.estimating.estimate import BATCH, SHIFTED, assumed_setting, estimate, known_forms
from atonc.machine.base.errors import InputError
from atonc.machine.hw.safety.evidence import PUBLISHED
from atonc.machine.hw.safety.evidence.epochs import MANY
from benchmarks.estimate import as_float, computes_on_codes
from tests.frontends.onnx_models import Net
from tests.lower import test_stripes

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS = EXAMPLES / "digits" / "digits.tflite"
OPTIONS = Options(verify=False, allow_float=True)
MODELS = [DIGITS, EXAMPLES / "story" / "story_int8.onnx", EXAMPLES / "denoiser" / "denoiser_int8.onnx"]


def test_whole_clocks_are_whole_numbers_given_or_not() -> None:
    for given, written in (0.0, "1000"), (800.0, "800"), (612.5, "612.5"):
        found = estimate(DIGITS, replace(OPTIONS, npu_mhz=given))
        assert json.dumps(found.as_dict()["npu_mhz"]) == written


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_a_quantised_model_costs_what_its_compilation_does(model: Path) -> None:
    found, compiled = estimate(model), compile_file(model, OPTIONS)
    memory = compiled.memory_use()
    assert found.latency_ms == pytest.approx(compiled.cost.latency_ms, rel=0.05)
    assert found.ram_bytes == pytest.approx(memory.ram_bytes, rel=0.1)
    assert found.flash_bytes == pytest.approx(memory.flash_bytes, rel=0.05)
    assert found.energy_uj == pytest.approx(compiled.cost.energy.uj.likely, rel=0.05)


def test_a_float_model_costs_what_it_will_when_it_is_quantised() -> None:
    found, compiled = estimate(as_float(read_model(DIGITS, OPTIONS))), compile_file(DIGITS, OPTIONS)
    assert found.latency_ms == pytest.approx(compiled.cost.latency_ms, rel=0.1)
    assert found.flash_bytes == pytest.approx(compiled.memory_use().flash_bytes, rel=0.05)
    assert any("int8 of a float" in one for one in found.assumed)


def test_an_open_batch_is_told_where_there_is_one() -> None:
    net = Net()
    y = net.qdq(net.conv(net.qdq("x", 0.05, -3), (6, 4, 3, 3), 0.05, pads=[1, 1, 1, 1]), 0.2, 5)
    for first, given, told in (("N", {}, True), (1, {}, False), ("N", {"N": 1}, False)):
        graph = read_onnx(net.model({"x": (first, 4, 6, 6)}, [y]), fixed_shapes=given)
        assert (BATCH in estimate(graph).assumed) == told


def test_weights_with_zero_points_are_told_to_be_uncertain() -> None:
    graph = read_model(DIGITS, OPTIONS)
    layer = next(op for op in graph.ops if op.kind == "conv")
    weights = graph.tensors[layer.inputs[1]]
    moved = replace(weights, quant=Quantisation.per_tensor(weights.scale, 9))
    assert SHIFTED in estimate(replace(graph, tensors={**graph.tensors, weights.name: moved})).assumed
    assert SHIFTED not in estimate(graph).assumed


def test_what_has_no_room_on_the_chip_comes_in_row_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atonc.insight.estimating.estimate.memories", test_stripes.small_board)
    found = estimate(test_stripes.network())
    striped, whole = test_stripes.compiled(), test_stripes.compiled(("stripe",))
    assert found.latency_ms == pytest.approx(striped.cost.latency_ms, rel=0.05) and not found.spilled_bytes
    assert whole.cost.latency_ms > 1.2 * striped.cost.latency_ms and whole.layout.spilled_bytes


def test_an_estimate_is_an_objective_of_optuna() -> None:
    optuna = pytest.importorskip("optuna")
    from examples.search_keywords import MOST_MS, candidate

    def objective(trial: Any) -> float:
        found = atonc.estimate(candidate(8 * trial.suggest_int("channels", 2, 8), trial.suggest_int("blocks", 1, 3), 2))
        return float(found.macs) if found.latency_ms <= MOST_MS else 0.0

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=8)
    best = study.best_trial.params
    assert study.best_value == max(trial.value for trial in study.trials) > 0
    assert study.best_value == atonc.estimate(candidate(8 * best["channels"], best["blocks"], 2)).macs


def test_a_module_without_an_example_is_told_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"has no example(?s:.*)estimate\(module, example\)"):
        atonc.estimate(SimpleNamespace(named_modules=()))  # type: ignore[arg-type]


def test_a_layer_before_a_pool_shares_no_form_with_others() -> None:
    """Its results are cut with a look at the pool, so nothing may depend on which of them was seen first."""
    chain = _chain([Op("relu", f"act{k}", (f"y{k}",), (f"x{k + 1}",)) for k in range(3)])
    attrs = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}
    pool = Op("max_pool", "pool", ("x3",), ("p",), attrs)
    tensors = {**chain.tensors, "p": replace(chain.tensors["x3"], name="p", shape=(1, 4, 4, 8))}
    setting = assumed_setting(replace(chain, tensors=tensors, ops=(*chain.ops, pool), outputs=("p",)), OPTIONS)
    facts = build(setting, FIRST).mapped.context.facts
    layers = [op for op in setting.graph.ops if op.kind == "conv"]
    results = [_looks(op.outputs[0], op, Context(facts)) for op in layers]
    edges = [result[5] for result in results if isinstance(result, tuple)]
    assert [bool(readers) for _, _, readers in edges] == [False, False, True]


def test_layers_do_not_differ_in_zero_points_near_zero() -> None:
    graph = order.run(read_model(MODELS[1], OPTIONS), OPTIONS)
    codes = [name for name, one in graph.tensors.items() if one.dtype == "int8" and one.quant and not one.is_constant]
    before, after = ([one.tensors[name].zero_point for name in codes] for one in (graph, with_plain_values(graph)))
    assert len(set(before)) > len(set(after))
    assert after == [old if old == 0 or abs(old) > MIDDLE else SIGNED[1] for old in before]


def test_the_layers_are_the_whole() -> None:
    found = estimate(DIGITS)
    assert sum(layer.milliseconds for layer in found.layers) == pytest.approx(found.latency_ms, rel=1e-6)
    assert sum(layer.macs for layer in found.layers) == found.macs
    assert [layer.on_cpu for layer in found.layers][-1]


def _float_graph(*ops: Op, size: int = 8) -> Graph:
    """A layer with 8 channels, and operators behind it; the last one gives the output."""
    names = {name for op in ops for name in (*op.inputs, *op.outputs)}
    shape = (1, size, size, 8)
    known = {name: Tensor(name, shape, "float32") for name in (*names, "x", "y")}
    known |= {name: Tensor(name, (), "float32", data=np.float32(3).reshape(())) for name in names if name.isupper()}
    known["w"] = Tensor("w", (8, 3, 3, 8), "float32", data=np.ones((8, 3, 3, 8), np.float32))
    attrs = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    first = Op("conv", "first", ("x", "w"), ("y",), attrs)
    return Graph(known, (first, *ops), ("x",), (ops[-1].outputs[0],), "float")


def _chain(acts: list[Op]) -> Graph:
    """A convolution before each activation, all of one shape."""
    one = _float_graph(Op("relu", "act", ("y",), ("z",)))
    layer, tensors, ops = one.ops[0], {"x0": replace(one.tensors["x"], name="x0")}, list[Op]()
    for k, act in enumerate(acts):
        weights, made, after = f"w{k}", f"y{k}", f"x{k + 1}"
        tensors |= {name: replace(one.tensors["y"], name=name) for name in (made, after)}
        tensors[weights] = replace(one.tensors["w"], name=weights)
        ops += [replace(layer, name=f"conv{k}", inputs=(f"x{k}", weights), outputs=(made,)), act]
    return Graph(tensors, tuple(ops), ("x0",), (f"x{len(acts)}",), "chain")


def _kinds(graph: Graph) -> list[str]:
    return [op.kind for op in order.run(with_codes(graph), OPTIONS).ops]


def test_an_activation_stays_with_its_layer() -> None:
    assert _kinds(_float_graph(Op("relu", "act", ("y",), ("z",)))) == ["conv"]


def test_a_function_that_is_written_with_several_operators_is_one_table() -> None:
    written = _float_graph(
        Op("add", "plus", ("y", "THREE"), ("a",)),
        Op("clip", "clip", ("a",), ("b",), {"low": 0.0, "high": 6.0}),
        Op("mul", "times", ("y", "b"), ("c",)),
    )
    assert _kinds(written) == ["conv", "table"]


def test_codes_are_given_to_all_that_flows() -> None:
    graph = with_codes(_float_graph(Op("add", "sum", ("x", "y"), ("z",))))
    assert {graph.tensors[name].dtype for name in ("x", "y", "z")} == {"int8"}
    assert is_float(_float_graph(Op("relu", "act", ("y",), ("z",)))) and not is_float(graph)


@pytest.mark.parametrize(("kind", "dtype"), [("softmax", "float32"), ("arg_max", "int64")])
def test_softmax_and_arg_max_read_codes(kind: str, dtype: str) -> None:
    """As in models of TFLite's converter: in float they took up to seven times as long."""
    one = _float_graph(Op(kind, "last", ("y",), ("z",), {"axis": 3, "keepdims": False}))
    shape = (1, 8, 8) if kind == "arg_max" else (1, 8, 8, 8)
    graph = replace(one, tensors={**one.tensors, "z": Tensor("z", shape, dtype)})
    assert _kinds(graph) == ["conv", kind]


def test_shared_forms_keep_what_they_were_preferred_to() -> None:
    """The convolution is cut anew so that the mean runs behind it: without, +69 %."""
    attrs = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    known = {"x": (1, 64, 64, 3), "y": (1, 64, 64, 32), "z": (1, 32)}
    tensors = {name: Tensor(name, shape, "float32") for name, shape in known.items()}
    tensors["w"] = Tensor("w", (32, 1, 1, 3), "float32", data=np.ones((32, 1, 1, 3), np.float32))
    mean = Op("mean", "mean", ("y",), ("z",), {"axes": (1, 2), "keepdims": False})
    graph = Graph(tensors, (Op("conv", "conv", ("x", "w"), ("y",), attrs), mean), ("x",), ("z",), "float")
    setting = assumed_setting(graph, OPTIONS)
    alone = build(replace(setting, alike=None), FIRST)
    assert build(setting, FIRST).cost.latency_ms == alone.cost.latency_ms


@pytest.mark.parametrize(("shape", "stride"), [((24, 24, 48), 2), ((12, 12, 96), 1), ((8, 8, 144), 1)])
def test_blocks_of_channels_take_what_is_expected_of_them(
    shape: tuple[int, int, int], stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices and in bands: only the row that is expected to be the shortest is built."""
    asked, expected = depthwise.cheapest_of, list[float]()

    def checked(rows: list[Any], **more: Any) -> Iterator[Any]:
        for _, row, cycles in rows:
            form = (yield row).form
            assert depthwise.least_cycles(form.groups, form.target) == cycles
            expected.append(cycles)
        return (yield from asked(rows, **more))

    monkeypatch.setattr(depthwise, "cheapest_of", checked)
    height, width, channels = shape
    weights = np.ones((channels, 3, 3, 1), np.float32)
    out = (1, height // stride, width // stride, channels)
    tensors = {"x": Tensor("x", (1, *shape), "float32"), "w": Tensor("w", weights.shape, "float32", data=weights)}
    tensors["y"] = Tensor("y", out, "float32")
    attrs = {"stride": (stride, stride), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": channels}
    conv = Op("conv", "conv", ("x", "w"), ("y",), {**attrs, "layout": "NHWC"})
    known_forms.cache_clear()
    estimate(Graph(tensors, (conv,), ("x",), ("y",), "blocks"))
    assert len(set(expected)) > (channels == 48)


def test_no_more_writers_interleave_than_evidence_allows() -> None:
    asked = replace(PUBLISHED, asked=MANY)
    assert [most_interleaved(n, PUBLISHED) for n in (1, 2, 3, 4)] == [1, 2, 2, 2] and most_interleaved(3, asked) == 3


def test_a_float_copy_is_compared_where_the_model_computes_on_codes() -> None:
    """One whose weights alone are codes would be another network as int8."""
    model, weights = read_model(DIGITS, OPTIONS), _float_graph(Op("relu", "act", ("y",), ("z",)))
    coded = replace(weights.tensors["w"], dtype="int8", quant=Quantisation.per_tensor(0.1), data=np.int8([[[[1]]]]))
    weights = replace(weights, tensors={**weights.tensors, "w": coded})
    assert computes_on_codes(model) and not computes_on_codes(weights) and not is_float(weights)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_nothing_depends_on_what_was_estimated_before(model: Path) -> None:
    """Layers that look alike share their forms, those of other models too."""
    known_forms.cache_clear()
    first = estimate(model)
    for other in MODELS:
        estimate(other)
    known = len(known_forms().known)
    assert estimate(model) == first and len(known_forms().known) == known


def test_layers_that_look_alike_have_constants_of_their_own() -> None:
    """Equal ones would take flash once."""
    layers = [Op("relu", f"act{k}", (f"y{k}",), (f"x{k + 1}",)) for k in range(4)]
    graph = _chain(layers)
    one, four = estimate(_chain(layers[:1])), estimate(graph)
    assert four.flash_bytes == 4 * one.flash_bytes > 0


def test_the_command_line_says_figures_and_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(DIGITS)]) == 0
    text = capsys.readouterr().out
    assert "assumed: random weights" in text and "conv" in text
    ms, low, high = re.findall(
        r"latency +([\d.]+) ms estimated \(([\d.]+) to ([\d.]+) ms\) at NPU 1000 MHz, CPU 800", text
    )[0]
    assert len({len(one.partition(".")[2]) for one in (ms, low, high)}) == 1
    assert main(["estimate", str(DIGITS), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["document"] == "estimate" and len(found["layers"]) == 8 and found["latency_ms"] > 0


def test_python_takes_what_counts(tmp_path: Path) -> None:
    found = atonc.estimate(DIGITS, board="stm32n6570-dk", npu_mhz=800)
    assert found.latency_ms > atonc.estimate(DIGITS.read_bytes()).latency_ms
    assert len(found.rows()) == len(found.layers) and "estimated" in repr(found)
    with pytest.raises(atonc.errors.InputError, match="resident does not count"):
        atonc.estimate(DIGITS, resident=True)
    with pytest.raises(atonc.errors.InputError, match="object is no PyTorch module"):
        atonc.estimate(object(), 1)
    graph = replace(read_model(DIGITS, OPTIONS), name="mine")
    assert atonc.estimate(graph).model == "mine"


def _erf_and_top_k(file: Path, dtype: str) -> Path:
    onnx = pytest.importorskip("onnx")
    helper, code = onnx.helper, getattr(onnx.TensorProto, dtype)
    nodes = [helper.make_node("Erf", ["x"], ["a"]), helper.make_node("TopK", ["a", "k"], ["v", "i"])]
    x, v = (helper.make_tensor_value_info(name, code, shape) for name, shape in (("x", ["N", 30]), ("v", None)))
    k = helper.make_tensor("k", onnx.TensorProto.INT64, [1], [3])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [v], [k])), file)
    return file


def test_an_operator_that_has_no_price_is_named(tmp_path: Path) -> None:
    assert "TopK" in " ".join(estimate(_erf_and_top_k(tmp_path / "tail.onnx", "FLOAT")).notes)


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(atonc.errors.AtoncError, match=r"half\.onnx, .*float16"):
        estimate(_erf_and_top_k(tmp_path / "half.onnx", "FLOAT16"))


@pytest.mark.parametrize("content", [b"", b"TFL3", b"not a model"])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "damaged.onnx"
    file.write_bytes(content)
    with pytest.raises(atonc.errors.AtoncError):
        atonc.estimate(file)


def test_the_example_finds_a_network_within_its_limits() -> None:
    pytest.importorskip("onnx")
    from examples.search_keywords import MOST_MS, MOST_RAM, search

    model, found = search(3, seed=2)
    assert 0 < found.latency_ms <= MOST_MS and 0 < found.ram_bytes <= MOST_RAM
    assert model.graph.name.startswith("ds_cnn") and len(found.layers) > 3
