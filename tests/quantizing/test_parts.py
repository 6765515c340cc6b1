"""Joins that are sliced apart again: each part keeps its scale, however heads of detectors spell it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime")

import atonc
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.read import read as read_graph
from atonc.compiler.frontends.tails import note_of, told_tail
from atonc.compiler.request.options import Options
from atonc.delivery.generate.post import post_processing, require_family
from atonc.insight.accuracy.explain import explain_accuracy
from atonc.insight.evaluating.decoders import post_notes
from atonc.insight.evaluating.options import PostOptions
from atonc.insight.quantizing import widen
from atonc.insight.quantizing.graph import FloatGraph, decodings
from atonc.insight.quantizing.judge import EQUAL_DB, QuantizationJudge, Signal
from atonc.insight.quantizing.loading import parse, read, tidy
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.parts import CountedPlaces, apart, before_scores
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import InputError

SIDE, FEW = 8, {"calibration": "minmax", "objective": "accuracy", "correct_rounding": False, "correct_bias": False,
                "equalise": False}  # fmt: skip


def head(tmp_path: Path, behind: list[Any], ends: list[str], more: dict[str, Any]) -> Path:
    """Boxes of some hundreds and scores of some tenths, joined by map, and the maps joined."""
    random, make = np.random.default_rng(0), helper.make_node
    constants, nodes = {"flat": np.array([1, 6, -1]), "size": np.array([4, 2]), **more}, list[Any]()
    for k, step in enumerate((1, 2)):
        for part, (count, scale) in {"box": (4, 300.0), "score": (2, 0.3)}.items():
            constants[f"{part}{k}.w"] = (scale * random.normal(0, 0.3, (count, 3, 3, 3))).astype(np.float32)
            nodes.append(make("Conv", ["x", f"{part}{k}.w"], [f"{part}{k}"], f"{part}{k}", pads=[1] * 4,
                              strides=[step, step]))  # fmt: skip
        nodes += [make("Concat", [f"box{k}", f"score{k}"], [f"map{k}"], f"map{k}", axis=1),
                  make("Reshape", [f"map{k}", "flat"], [f"rows{k}"], f"rows{k}")]  # fmt: skip
    nodes += [make("Concat", ["rows0", "rows1"], ["all"], "all", axis=2), *behind]
    graph = helper.make_graph(
        nodes, "head", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ends],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "h.onnx")
    return tmp_path / "h.onnx"


MAKE = helper.make_node
SPLIT = [MAKE("Split", ["all", "size"], ["boxes", "raw"], "split", axis=1), MAKE("Sigmoid", ["raw"], ["y"], "sigmoid")]
TURNED = [
    MAKE("Transpose", ["all"], ["turned"], "turn", perm=[0, 2, 1]), MAKE("Sigmoid", ["turned"], ["soft"], "soft"),
    MAKE("Slice", ["soft", "four", "six", "two"], ["y"], "y"),
    MAKE("Gather", ["turned", "first"], ["boxes"], "b", axis=2),
]  # fmt: skip
CUTS = {"four": np.array([4]), "six": np.array([6]), "two": np.array([2]), "first": np.array(1)}


@pytest.mark.parametrize(("behind", "more"), [(SPLIT, {}), (TURNED, CUTS)], ids=["split", "turned, slice, gather"])
def test_parts_keep_their_scales(tmp_path: Path, behind: list[Any], more: dict[str, Any]) -> None:
    path = head(tmp_path, behind, ["boxes", "y"], more)
    values = np.random.default_rng(1).normal(0, 1, (16, 1, 3, SIDE, SIDE)).astype(np.float32)
    feeds = [{"x": value} for value in values[:2]]
    before = tidy(read(path), "h")
    expected = outputs(before, feeds)
    after = apart(before)
    assert "map0" not in {name for node in after.graph.node for name in node.output}
    for one, other in zip(outputs(after, feeds), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    np.savez(tmp_path / "x.npz", x=values)
    made = quantize(path, tmp_path / "x.npz", QuantizeOptions(**FEW))
    assert min(one.snr_db for one in made.outputs) > 25 and not any("could not" in note for note in made.notes)


def test_what_reads_the_whole_or_across_a_border_keeps_the_join(tmp_path: Path) -> None:
    """It is said where the parts are unlike."""
    across = {"four": np.array([3]), "six": np.array([6]), "two": np.array([1])}
    path = head(tmp_path, [MAKE("Slice", ["all", "four", "six", "two"], ["y"], "y")], ["y"], across)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(0, 1, (16, 1, 3, SIDE, SIDE)).astype(np.float32))
    made = quantize(path, tmp_path / "x.npz", QuantizeOptions(**FEW))
    assert any("2 joins of parts of unlike range (map1, map0)" in note for note in made.notes)


def test_boxes_are_made_in_float_where_that_is_better(tmp_path: Path) -> None:
    """Corners of a centre and a size: rounding in between costs a share of a pixel. A residual sum is no decoding."""
    more = {"far": np.array(300, np.float32), "near": np.array(-290, np.float32), "size": np.array([4, 2])}
    behind = [*SPLIT, MAKE("Add", ["boxes", "far"], ["there"], "there"), MAKE("Add", ["there", "near"], ["b"], "b")]
    path = head(tmp_path, behind, ["b", "y"], more)
    graph = FloatGraph(tidy(read(path), "h"))
    assert decodings(graph) == ("there", "b")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(0, 1, (16, 1, 3, SIDE, SIDE)).astype(np.float32))
    made = quantize(path, tmp_path / "x.npz", QuantizeOptions(**FEW))
    (step,) = (step for step in made.steps if step.name == "arithmetic of boxes in float")
    assert step.kept and {"there", "b"} <= set(made.float_nodes)
    written = FloatGraph(parse(made.model, "made"))
    assert "there" in written.producer["b"].input, "the file that learnt from all samples, too"
    assert [one.name for one in made.steps if one.name.startswith("file")] == [
        "file calibrated on all samples (compared on all samples)"]  # fmt: skip
    assert "there" not in quantize(path, tmp_path / "x.npz", QuantizeOptions(**FEW, float_tails=False)).float_nodes


def suppressing(tmp_path: Path) -> Path:
    nms = MAKE("NonMaxSuppression", ["corners", "y", "most", "iou", "least"], ["kept"], "nms", center_point_box=0)
    behind = [*SPLIT, MAKE("Transpose", ["boxes"], ["corners"], "turn", perm=[0, 2, 1]), nms]
    limits = {"iou": np.array([0.45], np.float32), "least": np.array([0.25], np.float32)}
    path = head(tmp_path, behind, ["kept"], {"most": np.array([5]), "size": np.array([4, 2]), **limits})
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(model, path)
    return path


def test_places_of_boxes_count_by_their_scores(tmp_path: Path) -> None:
    """What suppression leaves out may be as wrong as it likes; where no score is high enough the best counts."""
    model = apart(tidy(read(suppressing(tmp_path)), "h"))
    counted = CountedPlaces.of(model)
    graph = FloatGraph(before_scores(model))
    assert counted is not None and (counted.scores, counted.count, counted.least) == ("y", 80, 0.125)
    feeds = [{"x": np.random.default_rng(k).normal(0, 0.4, (1, 3, SIDE, SIDE)).astype(np.float32)} for k in range(12)]
    for least in (0.6, 1.1):
        graph.counted = replace(counted, least=least)
        judge = QuantizationJudge.of(graph, feeds)
        compared = judge._apart(judge.reference)
        best = [(1 / (1 + np.exp(-values[1]))).max(1)[0] for values in judge.reference]
        places = [some >= min(least, some.max()) for some in best]
        assert all(map(np.array_equal, places, judge.counted)) and 1 <= min(map(np.sum, places)) < 40
        for counts in (False, True):
            wrong = [list(values) for values in judge.reference]
            for values, some in zip(wrong, judge.counted, strict=True):
                values[0] = values[0] * np.where(some == counts, np.float32(1.1), np.float32(1))[:, None]
            found = Signal.of(compared, judge._apart(wrong)).by_column[0].db
            assert found == pytest.approx(20 if counts else EQUAL_DB, abs=0.01)
            assert judge.whole.expected is not compared and len(compared[0][0][0]) == places[0].sum()


def test_detectors_get_a_few_tensors_of_16_bits_where_that_is_cheap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widen, "DEARER", 2.0)  # conversions are most of so small a network
    path, data = suppressing(tmp_path), tmp_path / "x.npz"
    np.savez(data, x=np.random.default_rng(1).normal(0, 1, (16, 1, 3, SIDE, SIDE)).astype(np.float32))
    made, eight = (quantize(path, data, QuantizeOptions(**FEW, wide=wide)) for wide in ("", "none"))
    assert "16 bits in" in made.chosen.name and any("--wide none: 8 bits" in note for note in made.notes)
    assert "steps are judged where a score is 0.125 or more in float" in made.notes
    assert 1 < made.chosen.time_ms / eight.chosen.time_ms <= 2.001 and made.chosen.snr_db > eight.chosen.snr_db
    kinds = [{proto.data_type for proto in parse(one.model, "m").graph.initializer} for one in (made, eight)]
    assert TensorProto.INT16 in kinds[0] and TensorProto.INT16 not in kinds[1]
    assert not made.widths and made.outputs[1].snr_db > eight.outputs[1].snr_db + 3


def test_suppression_gets_scores_before_their_sigmoid(tmp_path: Path) -> None:
    """Codes of scores near 1 are alike; the order of the boxes is in what the sigmoid reads. A score that is an output
    of its own stays one."""
    path = suppressing(tmp_path)
    before = tidy(read(path), "h")
    after = before_scores(apart(before))
    tail = told_tail(after)
    assert tail is not None and tail.outputs == ("corners", "y:before")
    assert [one.kind for one in tail.operators] == ["Sigmoid", "NonMaxSuppression"] and "Sigmoid" in note_of(tail)
    feeds = [{"x": np.random.default_rng(1).normal(0, 1, (1, 3, SIDE, SIDE)).astype(np.float32)}]
    (boxes, raw), (expected, scores) = outputs(after, feeds)[0], outputs(tidy(read(path), "h"), feeds)[0]
    assert np.array_equal(boxes, expected) and np.allclose(1 / (1 + np.exp(-raw)), scores, atol=1e-6)
    data = tmp_path / "x.npz"
    np.savez(data, x=np.random.default_rng(1).normal(0, 1, (8, 1, 3, SIDE, SIDE)).astype(np.float32))
    quantize(path, data, QuantizeOptions(**FEW)).save(tmp_path / "int8.onnx")
    compiled = compile_graph(read_graph(tmp_path / "int8.onnx"), Options(verify=False))
    (note,) = post_notes(compiled.source)
    assert "generate --post corners_logits " in note  # scores before their sigmoid, and no box as centre and size
    assert "centre and size" not in note_of(compiled.source.tail or tail)
    view = atonc.compile(tmp_path / "int8.onnx", verify=False).view
    post = post_processing(view, PostOptions(post="auto"))  # the form and the thresholds that the operators tell
    assert post.decoder.family.name == "corners_logits"
    assert (post.decoder.limits.score, post.decoder.limits.overlap) == (0.25, 0.45)
    assert post_processing(view, PostOptions(post="corners_logits", post_score=0.4)).decoder.limits.score == 0.4
    for wrong in ("corners", "centres", "centres_logits"):
        with pytest.raises(InputError, match=f"are corners_logits, not {wrong}") as refusal:
            require_family(compiled.source, PostOptions(post=wrong))
        assert refusal.value.remedy == "--post corners_logits"
    told = explain_accuracy(compiled, Options(verify=False), path, [data], remedies=False)  # logits against logits
    assert [row[0] for row in told.outputs] == ["corners", "y:before"] and min(row[1] for row in told.outputs) > 25
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    onnx.save(model, path)
    assert [value.name for value in before_scores(apart(tidy(read(path), "h"))).graph.output] == ["corners", "y"]
