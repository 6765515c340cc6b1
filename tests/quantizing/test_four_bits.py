"""Weights of 4 bits: how they are rounded, which layers get them, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
from onnx import TensorProto, numpy_helper

import atonc
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.doors.cli.cli import main
from atonc.insight.quantizing.graph import FloatGraph, layers_of
from atonc.insight.quantizing.judge import QuantizationJudge
from atonc.insight.quantizing.loading import load, raised
from atonc.insight.quantizing.mend import MendOptions
from atonc.insight.quantizing.narrow import Narrowed, NarrowLayer, as_many_as_fit, cheapest_first, why_eight
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.scales import Tuning
from atonc.insight.quantizing.types import PrecisionPoint, QuantizeOptions
from atonc.insight.quantizing.weights import FOUR, Moments, channel_scales, one_by_one, output_error, refined, rounded
from atonc.insight.quantizing.write import four_bit_tensor
from atonc.insight.report.quantize_text import QuantizePageParts, page
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from tests.quantizing.float_models import Build, save

SHAPE = (3, 10, 10)
FEW = {"objective": "accuracy", "calibration": "minmax", "equalise": False}


def wide() -> Any:
    """Layers that may have 4 bits (3x3, 1x1, dense with its weights either way), one depthwise, one small."""
    b = Build(1)
    x = b.node("Relu", [b.conv("x", "c1", (12, 3, 3, 3))], "r1")
    x = b.node("Relu", [b.conv(x, "c2", (12, 1, 3, 3), group=12)], "r2")
    x = b.node("Relu", [b.conv(x, "c3", (24, 12, 3, 3))], "r3")
    x = b.node("Relu", [b.conv(x, "c4", (32, 24, 1, 1))], "r4")
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "p")], "f")
    w, bias = b.constant("d1.w", b.random.normal(0, 0.3, (32, 20))), b.constant("d1.b", np.zeros(20))
    x = b.node("Relu", [b.node("Gemm", [x, w, bias], "d1")], "r5")
    w, bias = b.constant("d2.w", b.random.normal(0, 0.3, (30, 20))), b.constant("d2.b", np.zeros(30))
    return b.model({"x": (1, *SHAPE)}, [b.node("Gemm", [x, w, bias], "y", transB=1)])


def pictures(folder: Path, count: int = 24) -> Path:
    """With a slope each, so that neighbours are alike as in pictures."""
    random = np.random.default_rng(3)
    slopes = random.uniform(0, 1, (count, 3, 1, 1)) * np.linspace(0, 1, 10) + random.uniform(0, 0.3, (count, *SHAPE))
    path = folder / f"pictures_{count}.npz"
    np.savez(path, x=(slopes / 1.3).astype(np.float32))
    return path


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("four_bits")
    path, data = save(folder, wide()), pictures(folder)
    wishes = {"4": {"bits": "4", "max_loss": "none"}, "mixed": {"bits": "mixed"}}
    return {name: atonc.quantize(path, data, **wish, **FEW) for name, wish in wishes.items()}, folder


def test_refining_is_never_worse_than_rounding_one_by_one() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(300, 20)) @ (random.normal(size=(20, 20)) * np.geomspace(1, 0.05, 20))
    within = (rows.T @ rows / 300 + 0.01 * np.eye(20))[None]
    wanted = random.normal(size=(1, 8, 20))
    scales = channel_scales(wanted[0], None, codes=FOUR)[None].astype(np.float64)
    codes, fitted = refined(wanted, within, scales, FOUR)
    plain = one_by_one(wanted, within, scales, FOUR)
    nearest = FOUR.codes(wanted[0], scales[0])[None]
    ways = (codes, fitted), (plain, scales), (nearest, scales)
    ours, stepwise, least = (output_error(wanted - c * s[:, :, None], within) for c, s in ways)
    assert codes.dtype == np.int8 and codes.min() >= -8 and codes.max() <= 7
    assert (ours <= stepwise * (1 + 1e-6)).all()
    assert ours.sum() < 0.8 * stepwise.sum() < 0.8 * least.sum()


def test_a_layer_mends_what_the_one_before_lost() -> None:
    """What it reads is too small by a fifth, and mixed with noise that is like the other inputs."""
    random = np.random.default_rng(2)
    real = random.normal(size=(4000, 1, 12))
    seen = 0.8 * real + 0.1 * np.roll(real, 1, axis=2)
    weights = random.normal(size=(1, 6, 12))
    errors = []
    for truth in (None, real):
        moments = Moments.empty(1, 12)
        moments.add(seen, truth)
        codes, scales, _ = rounded(weights, moments, allowed=FOUR)
        found = np.einsum("ngk,gok->no", seen, codes * scales[:, :, None])
        errors.append(np.square(found - np.einsum("ngk,gok->no", real, weights)).mean())
    assert errors[1] < 0.5 * errors[0]


def test_codes_are_packed_as_onnx_has_them() -> None:
    for codes in (np.arange(-8, 7, dtype=np.int8).reshape(3, 5), np.array([[7, -8], [-1, 0]], np.int8)):
        stored = four_bit_tensor(codes, "w")
        assert stored.data_type == TensorProto.INT4 and len(stored.raw_data) == -(-codes.size // 2)
        assert np.array_equal(numpy_helper.to_array(stored).astype(np.int8), codes)


def test_the_file_has_the_form_of_published_ones(narrow: Any) -> None:
    """Opset 21, IR 10, INT4 codes and zero points, one scale per output channel along axis 0, biases INT32."""
    made = narrow[0]["4"]
    model = onnx.ModelProto.FromString(made.model)
    onnx.checker.check_model(model)
    assert model.ir_version == 10 and [(o.domain, o.version) for o in model.opset_import] == [("", 21)]
    stored = {p.name: p for p in model.graph.initializer}
    by_output = {node.output[0]: node for node in model.graph.node}
    kinds = {}
    for node in (n for n in model.graph.node if n.op_type in ("Conv", "Gemm")):
        weights = by_output[node.input[1]]
        codes, scales, zeros = (stored[name] for name in weights.input)
        assert weights.attribute[0].i == 0 and list(scales.dims) == list(zeros.dims) == [codes.dims[0]]
        assert zeros.data_type == codes.data_type and not numpy_helper.to_array(zeros).astype(np.int8).any()
        assert stored[by_output[node.input[2]].input[0]].data_type == TensorProto.INT32
        kinds[codes.name.split(".")[0]] = codes.data_type
    four, eight = TensorProto.INT4, TensorProto.INT8
    assert kinds == {"c1": eight, "c2": eight, "c3": four, "c4": four, "d1": four, "d2": four}


def test_our_front_end_and_onnxruntime_read_the_same(narrow: Any) -> None:
    made, folder = narrow[0]["4"], narrow[1]
    graph = read_onnx(made.model, "four")
    weights = [t.data for t in graph.tensors.values() if t.data is not None and t.dtype == "int8" and t.data.size > 100]
    small = sorted(codes.size for codes in weights if codes.min() >= -8 and codes.max() <= 7)
    assert small == [600, 640, 32 * 24, 24 * 12 * 9] and len(weights) == 6
    feeds = [{"x": value[None]} for value in np.load(pictures(folder))["x"]]
    exact, seen = (np.stack([y[0] for y in outputs(m, feeds)]) for m in (wide(), made.model))
    assert np.square(exact).sum() > 50 * np.square(exact - seen).sum()
    compiled = atonc.compile(made, verify=True, resident="all")
    in_flash = sum(row.size_bytes for row in compiled.layout.memory.rows if row.use.name == "WEIGHTS" and not row.ram)
    assert in_flash == pytest.approx(made.sizes[-1].flash_bytes, rel=0.02)


def test_rounding_by_outputs_wins_surely(narrow: Any) -> None:
    steps = [step for step in narrow[0]["4"].steps if "4 bits" in step.name]
    nearest, learnt = steps[0], next(step for step in steps if "rounded by" in step.name)
    assert learnt.kept and learnt.snr_db > nearest.snr_db + 2


def test_every_point_of_the_front_is_measured_and_smaller(narrow: Any) -> None:
    made = narrow[0]["mixed"]
    flash = [point.flash_bytes for point in made.sizes]
    assert flash == sorted(flash, reverse=True) and len(flash) >= 4
    chosen = next(point for point in made.sizes if point.chosen)
    assert chosen.snr_db >= made.sizes[0].snr_db - 0.5 and made.sizes[-1].share > 0.8
    bits = {tensor.tensor.split(".")[0]: tensor for tensor in made.tensors}
    assert sum(tensor.bits == 4 for tensor in made.tensors) == chosen.layers
    assert "depthwise" in bits["c2"].reason and "weights" in bits["c1"].reason
    assert all((tensor.alone_db is None) == bool(tensor.reason) for tensor in made.tensors)
    assert all(tensor.size_bytes == -(-tensor.values * tensor.bits // 8) for tensor in made.tensors)
    shown = page(made, QuantizePageParts({})).decode()
    assert shown.count("<circle") == len(made.front) + len(made.sizes)
    assert "bytes of flash" in shown and "Weights by tensor" in shown


def test_the_same_input_gives_the_same_bytes(narrow: Any) -> None:
    folder = narrow[1]
    again = atonc.quantize(save(folder, wide()), pictures(folder), bits="4", max_loss="none", **FEW)
    assert again.model == narrow[0]["4"].model


def test_a_flash_that_is_to_be_met_is_met(narrow: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made, folder = narrow[0]["mixed"], narrow[1]
    wanted = made.sizes[2].flash_bytes + 1
    target = folder / "fits.onnx"
    words = ["--max-flash", str(wanted), "--objective", "accuracy", "--calibration", "minmax", "--no-equalisation"]
    files = [str(save(folder, wide())), "--data", str(pictures(folder)), "-o", str(target), "--json"]
    assert main(["quantize", *files, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    (chosen,) = [point for point in found["sizes"] if point["chosen"]]
    assert chosen["flash_bytes"] <= wanted and {tensor["bits"] for tensor in found["tensors"]} == {4, 8}
    with pytest.raises(CapacityError, match="even with 4 bits"):
        atonc.quantize(save(folder, wide()), pictures(folder), max_flash=1000, **FEW)


def test_the_order_weighs_noise_against_what_is_saved() -> None:
    signal, noise = np.array([100.0]), np.array([1.0])
    layers = [
        NarrowLayer("loud", 0.1, np.array([5.0])),
        NarrowLayer("large", 0.5, np.array([0.5])),
        NarrowLayer("small", 0.01, np.array([0.1])),
        NarrowLayer("free", 0.01, np.array([0.0])),
    ]
    assert cheapest_first(layers, signal, noise) == ("free", "large", "small", "loud")


def test_a_layer_that_is_too_dear_does_not_bar_those_behind_it() -> None:
    prices, asked = {"a": 1, "b": 9, "c": 1, "d": 2, "e": 1}, list[frozenset[str]]()

    def fits(names: frozenset[str]) -> bool:
        asked.append(names)
        return sum(prices[name] for name in names) <= 4

    assert as_many_as_fit(tuple(prices), fits) == {"a", "c", "d"} and len(asked) <= 9
    assert as_many_as_fit(("a", "c", "d"), fits) == {"a", "c", "d"} and asked[-1] == {"a", "c", "d"}
    assert as_many_as_fit(("b",), fits) == frozenset()


def test_four_bits_stay_within_the_loss_unless_told_otherwise(narrow: Any) -> None:
    """Both halves of the samples judge what the other taught; more loss allows more weights."""
    (every, mixed), folder = (narrow[0][name] for name in ("4", "mixed")), narrow[1]
    usual = atonc.quantize(save(folder, wide()), pictures(folder), bits="4", **FEW)
    shares = []
    for made, allowed in ((mixed, 0.5), (usual, 1.5), (every, np.inf)):
        (chosen,) = [point for point in made.sizes if point.chosen]
        mean = chosen.snr_db - made.sizes[0].snr_db
        assert (mean + chosen.gain_db[0]) / 2 >= -allowed
        shares.append(chosen.share)
    assert shares == sorted(shares) and every.sizes[-1].chosen and shares[1] > 0
    assert usual.sizes[0].snr_db == mixed.sizes[0].snr_db


def test_a_way_is_judged_by_samples_that_did_not_teach_it() -> None:
    """The verdict of two judges on one model is that of one judge with all samples."""
    graph, random = FloatGraph(wide()), np.random.default_rng(5)
    feeds = [{"x": random.uniform(0, 1, (1, *SHAPE)).astype(np.float32)} for _ in range(9)]
    other = wide()
    stored = other.graph.initializer[0]
    stored.CopyFrom(numpy_helper.from_array(1.1 * numpy_helper.to_array(stored), stored.name))
    halves = [QuantizationJudge.of(graph, some) for some in (feeds[:4], feeds[4:])]
    whole, changed = QuantizationJudge.together([(QuantizationJudge.of(graph, feeds), other)])
    found, also = QuantizationJudge.together([(judge, other) for judge in halves])
    assert np.array_equal(found.noise, whole.noise) and found.db == whole.db < 60 and also == pytest.approx(changed)


def test_a_model_without_four_bits_says_so() -> None:
    none = (0.0, 0.0), (-4.0, -3.0), (-3.5, -4.0, -3.0)
    points = [PrecisionPoint(0, 0.0, 900, 30.0, *none), PrecisionPoint(4, 0.9, 500, 26.5, *none)]
    for four, said in ((frozenset[str](), 1), (frozenset({"c"}), 0)):
        chosen: Any = SimpleNamespace(tuning=Tuning(four=four))
        notes = Narrowed(chosen, MendOptions(), tuple(points), {}).notes
        assert len(notes) == said and all("3.5 dB lost" in note and "90 %" in note for note in notes)


def test_wishes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for wrong in ({"bits": "5"}, {"max_loss": "much"}, {"max_flash": -1}, {"max_loss": "none%"}):
        with pytest.raises(InputError):
            QuantizeOptions(**wrong)
    assert QuantizeOptions(bits="4", max_loss="1%").max_changed == 0.01
    assert QuantizeOptions(max_loss="2").max_loss_db == 2
    assert QuantizeOptions(max_flash=5).precision == "mixed" and QuantizeOptions().precision == "8"
    usual = [QuantizeOptions(bits=bits).four_bits_loss_db for bits in ("4", "mixed")]
    assert usual == [1.5, 0.5] and QuantizeOptions(bits="4", max_loss="none").four_bits_loss_db == np.inf
    tight = QuantizeOptions(bits="4", max_loss="3")  # the loss is that of 4 bits: speed costs no more than in int8
    assert tight.four_bits_loss_db == 3 and tight.max_loss_db == QuantizeOptions().max_loss_db == 0.5
    b = Build()
    only_depthwise = b.model({"x": (1, 64, 8, 8)}, [b.conv("x", "y", (64, 1, 3, 3), group=64)])
    data = tmp_path / "s.npz"
    np.savez(data, x=np.random.default_rng(0).uniform(0, 1, (8, 64, 8, 8)).astype(np.float32))
    with pytest.raises(UnsupportedError, match="no layer may"):
        atonc.quantize(save(tmp_path, only_depthwise), data, bits="4", **FEW)
    fits = atonc.quantize(save(tmp_path, only_depthwise), data, max_flash=100_000, **FEW)
    assert any("no weights need 4 bits" in note and "100,000" in note for note in fits.notes)
    assert len({row.name for row in fits.front}) == len(fits.front)
    with pytest.raises(CapacityError, match="--max-flash 10"):
        atonc.quantize(save(tmp_path, only_depthwise), data, max_flash=10, **FEW)
    b = Build()
    image = b.model({"x": (1, 8, 8, 8)}, [b.conv("x", "y", (16, 8, 3, 3))])
    np.savez(data, x=np.random.default_rng(0).uniform(0, 1, (8, 8, 8, 8)).astype(np.float32))
    with pytest.raises(InputError, match="row of classes"):
        atonc.quantize(save(tmp_path, image), data, bits="mixed", max_loss="1%", **FEW)


def test_attributes_that_became_inputs_are_constants(tmp_path: Path) -> None:
    b = Build()
    x = b.node("ReduceMean", [b.conv("x", "c", (64, 3, 3, 3))], "m", axes=[2, 3], keepdims=0)
    w = b.constant("w", b.random.normal(0, 0.3, (64, 10)))
    graph = FloatGraph(raised(load(save(tmp_path, b.model({"x": (1, 3, 8, 8)}, [b.node("Gemm", [x, w], "y")]))), "m"))
    assert graph.model.opset_import[0].version == 21 and not [n for n in graph.nodes if n.op_type == "Constant"]
    assert [why_eight(graph, layer) for layer in layers_of(graph)] == ["", ""]
    feeds = [{"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}]
    assert outputs(graph.model, feeds)[0][0].shape == (1, 10)
