"""Samples that calibrate nothing, networks whose outputs change their size, and how much work a range is."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import read_model
from atonc.compiler.frontends.tails import UNCUT
from atonc.compiler.ir import Array
from atonc.compiler.request.options import Options
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.judge import poor_outputs
from atonc.insight.quantizing.loading import require_equal_sizes
from atonc.insight.quantizing.observe import FirstNorm, require_trained_range, still_outputs
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.samples import odd_sizes, read_samples
from atonc.insight.quantizing.scales import Seen, choose
from atonc.insight.quantizing.types import OutputAccuracy, QuantizeOptions
from atonc.insight.quantizing.widen import missed
from atonc.insight.report.document import lines
from atonc.insight.report.quantize_text import as_json, document
from atonc.machine.base.errors import InputError, UnsupportedError
from tests.patience import operations

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SIDE, MOST_OPERATIONS = 8, 50_000


def model(tail: list[Any], output: tuple[str, int, list[Any]], constants: dict[str, Array], path: Path) -> Path:
    """A convolution with 6 channels as 1x6x64, and what is behind it."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    given = {"w": rng.normal(0, 0.5, (6, 3, 3, 3)).astype(np.float32), "s": np.array([1, 6, 64]), **constants}
    head = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1] * 4),
        helper.make_node("Reshape", ["a", "s"], ["rows"], name="reshape"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    y = helper.make_tensor_value_info(*output)
    protos = [numpy_helper.from_array(value, name) for name, value in given.items()]
    graph = helper.make_graph([*head, *tail], "net", [x], [y], protos)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def plain(folder: Path) -> Path:
    return model([onnx.helper.make_node("Relu", ["rows"], ["y"])], ("y", 1, [1, 6, 64]), {}, folder / "net.onnx")


def samples(folder: Path, values: Array) -> Path:
    np.savez(folder / "samples.npz", x=values.astype(np.float32))
    return folder / "samples.npz"


def usual(count: int = 8) -> Array:
    return np.random.default_rng(1).normal(0, 1, (count, 1, 3, SIDE, SIDE))


@pytest.mark.parametrize("seed", range(5))
def test_entropy_chooses_as_onnxruntime_does(seed: int) -> None:
    from onnxruntime.quantization.calibrate import HistogramCollector

    rng = np.random.default_rng(seed)
    values = (rng.normal(0, 1, 400), rng.laplace(0, 1, 400), np.maximum(rng.normal(0, 1, 400), 0),
              rng.uniform(3, 5, 400), np.zeros(40))[seed].reshape(-1, 1)  # fmt: skip
    collector = HistogramCollector("entropy", False, 1024, 128, 99.99, None)
    with redirect_stdout(StringIO()):
        collector.collect({"x": [values.astype(np.float32)]})
        low, high = collector.compute_collection_result()["x"][:2]
    seen = Seen(float(values.min()), float(values.max()), values)
    assert choose(seen, "entropy") == (max(float(low), seen.low), min(float(high), seen.high))


def test_entropy_is_little_work_and_is_done_once() -> None:
    """onnxruntime's takes a million lines for a tensor, and every step of the calibration asked again."""
    values = np.random.default_rng(0).laplace(0, 1, (400, 1))
    seen = Seen(float(values.min()), float(values.max()), values)
    first = operations(lambda: choose(seen, "entropy"))
    assert first < MOST_OPERATIONS and operations(lambda: choose(seen, "entropy")) < 10
    large = Seen(seen.low, seen.high, np.tile(values, (50, 1)))
    assert operations(lambda: choose(large, "entropy")) < 1.1 * first


def test_one_sample_that_is_a_mistake_is_told(tmp_path: Path) -> None:
    values = usual()
    values[4] *= 1e12
    found = quantize(plain(tmp_path), samples(tmp_path, values), QuantizeOptions(calibration="minmax"))
    assert any("sample 4 of 'x'" in note and "leave it out" in note for note in found.notes), found.notes


def test_samples_of_no_size_are_told_and_their_figure_is_no_praise(tmp_path: Path) -> None:
    """Codes of values below the smallest scale are all zero: that is noise, not 120 dB."""
    found = quantize(plain(tmp_path), samples(tmp_path, 1e-30 * usual()), QuantizeOptions(calibration="minmax"))
    assert all(abs(db) < 1 for db in found.outputs_db.values()) and abs(found.chosen.snr_db) < 1
    assert any("reach" in note and "scaled as in training" in note for note in found.notes)
    assert any("output y has 0.0 dB" in note for note in found.notes)
    text = "\n".join(lines(document(found, "net.onnx")))
    assert "atonc generate" not in text and "see the notes" in text


def test_usual_samples_give_no_note(tmp_path: Path) -> None:
    found = quantize(plain(tmp_path), samples(tmp_path, usual()), QuantizeOptions(calibration="minmax"))
    assert not found.notes and "atonc generate net.onnx" in "\n".join(lines(document(found, "net.onnx")))


def boxes() -> tuple[list[Any], tuple[str, int, list[Any]], dict[str, Array]]:
    make = onnx.helper.make_node
    tail = [
        make("Split", ["rows", "sizes"], ["corners", "scores"], axis=1, name="split"),
        make("Transpose", ["corners"], ["boxes"], perm=[0, 2, 1], name="turn"),
        make("NonMaxSuppression", ["boxes", "scores", "most", "", "least"], ["y"], name="nms"),
    ]
    sizes = {"sizes": np.array([4, 2]), "most": np.array([9]), "least": np.array([0.2], np.float32)}
    return tail, ("y", onnx.TensorProto.INT64, [None, 3]), sizes


def mask() -> tuple[list[Any], tuple[str, int, list[Any]], dict[str, Array]]:
    make = onnx.helper.make_node
    tail = [
        make("Greater", ["rows", "least"], ["mask"], name="greater"),
        make("NonZero", ["mask"], ["places"], name="nonzero"),
        make("Transpose", ["places"], ["turned"], name="turn"),
        make("GatherND", ["rows", "turned"], ["y"], name="pick"),
    ]
    return tail, ("y", onnx.TensorProto.FLOAT, [None]), {"least": np.array([0.2], np.float32)}


@pytest.mark.parametrize(
    ("made", "node", "cut", "left"),
    [
        (boxes, "nms", "boxes,scores", "1 operator stays with the application: NonMaxSuppression 'nms' (boxes of a "
         "class 9, score 0.2)"),
        (mask, "nonzero", "rows", "4 operators stay with the application: Greater 'greater' (limit 0.2); NonZero"),
    ],
    ids=["boxes", "mask"],
)  # fmt: skip
def test_what_has_no_fixed_size_is_left_to_the_application(
    tmp_path: Path, made: Any, node: str, cut: str, left: str
) -> None:
    """By itself, by name, and again where the int8 model is compiled; or refused, where the user wants that."""
    file = model(*made(), tmp_path / "net.onnx")
    data, few = samples(tmp_path, usual()), {"calibration": "minmax", "objective": "accuracy"}
    found = quantize(file, data, QuantizeOptions(**few))
    assert [one.name for one in found.outputs] == cut.split(",") and found.tail is not None
    assert any(left in note for note in found.notes) and as_json(found)["tail"]["outputs"] == cut.split(",")
    found.save(tmp_path / "int8.onnx")
    again = read_model(tmp_path / "int8.onnx", Options())
    assert again.tail == found.tail and any("was cut at" in note and left in note for note in again.notes)
    assert read_model(file, Options()).tail == found.tail
    elsewhere = read_model(tmp_path / "int8.onnx", Options(cut_outputs=again.ops[0].outputs))
    assert elsewhere.tail is None and not any("stay" in note for note in elsewhere.notes)
    with pytest.raises(UnsupportedError) as caught:
        quantize(file, data, QuantizeOptions(cut_outputs=UNCUT))
    error = caught.value
    assert error.where == f"net.onnx, {node}" and "one size" in error.rule
    assert "leave --cut-output-tensors out" in error.remedy
    with pytest.raises(InputError) as mistyped:
        quantize(file, data, QuantizeOptions(cut_outputs=(f"{node}s",)))
    assert node not in mistyped.value.remedy  # which would be refused


def test_thresholds_that_are_no_numbers_and_large_ones_are_told_as_they_are(tmp_path: Path) -> None:
    behind, end, constants = boxes()
    odd = constants | {"most": np.array([1 << 40]), "least": np.array([np.nan], np.float32)}
    tail = read_model(model(behind, end, odd, tmp_path / "net.onnx"), Options()).tail
    assert tail is not None and str(tail.operators[-1]) == (
        "NonMaxSuppression 'nms' (boxes of a class 1099511627776, score nan)"
    )
    assert json.loads(json.dumps(tail.as_dict(), allow_nan=False))["operators"][-1]["values"] == {
        "boxes of a class": 1 << 40, "score": "nan",
    }  # fmt: skip


def test_sizes_that_only_a_run_shows() -> None:
    one, other = np.zeros((3, 2)), np.zeros((4, 2))
    require_equal_sizes(("a", "b"), [[one, one], [one, one]])
    with pytest.raises(UnsupportedError, match="output b: 3x2 values in one run, 4x2 in another"):
        require_equal_sizes(("a", "b"), [[one, one], [one, other]])


def test_int8_that_picks_another_number_of_values(tmp_path: Path) -> None:
    """As many values in each sample, but small ones are 0 in int8; nothing of one size lies before to cut at."""
    make, numbers = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = [
        make("NonZero", ["x"], ["places"]),
        make("Transpose", ["places"], ["turned"], perm=[1, 0]),
        make("GatherND", ["x", "turned"], ["picked"]),
        make("Unsqueeze", ["picked", "one"], ["column"]),
        make("MatMul", ["column", "w"], ["y"]),
    ]
    x = onnx.helper.make_tensor_value_info("x", 1, [1, 3, SIDE, SIDE])
    y = onnx.helper.make_tensor_value_info("y", 1, [None, 4])
    protos = [numbers(np.array([1]), "one"), numbers(np.ones((1, 4), np.float32), "w")]
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], protos)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match=r"output y: 192x4 values in one run, 1\d\dx4 in another"):
        quantize(tmp_path / "net.onnx", samples(tmp_path, usual()), QuantizeOptions(calibration="minmax"))


def test_outputs_that_stay_the_same_and_those_that_are_noise_are_told() -> None:
    random, still = np.random.default_rng(0).normal(size=(4, 3)), np.zeros(3)
    notes = still_outputs(("a", "b", "c"), [[one, still, 1 + 1e-6 * one] for one in random])
    assert [note.split(",")[0] for note in notes] == [
        "output b is the same for all samples", "output c hardly changes over the samples",
    ]  # fmt: skip
    noisy = OutputAccuracy("y", 3.0, (2.0, 4.0), 0, 8)
    assert "--wide" in poor_outputs([noisy])[0] and "--wide" not in poor_outputs([noisy], trained=True)[0]
    assert (
        not missed([noisy], QuantizeOptions(wide="3"))
        and "3.0 dB, less than the 40.0" in missed([noisy], QuantizeOptions(wide="1%"))[0]
    )


def test_an_output_that_is_an_input_says_nothing_of_its_shape(tmp_path: Path) -> None:
    """Without a shape at its output the input was taken as a single number."""
    made = onnx.load(plain(tmp_path))
    made.graph.output.append(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None))
    assert FloatGraph(made).shapes["x"] == (1, 3, SIDE, SIDE)


def test_a_norm_that_remembers_nothing_judges_no_samples(tmp_path: Path) -> None:
    before = onnx.load(plain(tmp_path))
    feeds = [{"x": one.astype(np.float32)} for one in usual(2)]
    require_trained_range(FirstNorm(before, np.zeros(6, np.float32)), feeds, "samples")


@pytest.mark.parametrize(("top", "odd"), [(1e-7, True), (1.0, False), (255.0, False), (1e7, True)])
def test_samples_far_from_one_are_told_on_both_sides(top: float, odd: bool) -> None:
    assert bool(odd_sizes("x", np.array([top, top]))) == odd


def test_one_sample_without_an_axis_in_front_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((3, 8, 8), np.float32))
    for shape in (1, 3, 8, 8), (3, 8, 8):
        with pytest.raises(InputError, match="samples of shape 8x8 do not fit") as refused:
            read_samples(tmp_path / "one.npy", {"x": shape}, QuantizeOptions())
        assert refused.value.remedy.startswith("this is one sample: add an axis of 1 in front")
