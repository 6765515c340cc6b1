"""How the work is done: threads, a cluster that calibrates, models that are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from atonc.compiler.frontends.tails import UNCUT
from atonc.insight.quantizing import observe
from atonc.insight.quantizing.calibrate import calibrate
from atonc.insight.quantizing.graph import FloatGraph, layers_of, make_plan
from atonc.insight.quantizing.loading import load, read, tidy
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import InputError
from tests.quantizing.float_models import Build, detector, network, samples, save


def test_a_cluster_calibrates_to_the_same_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    graph = FloatGraph(load(save(tmp_path, network())))
    feeds = [{"x": value[None]} for value in np.load(samples(tmp_path))["x"]]
    names, layers = make_plan(graph).tensors, layers_of(graph)
    here, there = (calibrate(graph, names, layers, feeds, scheduler) for scheduler in ("", "local"))
    for name in names:
        one, other = here[name], there[name]
        assert (one.low, one.high) == (other.low, other.high) and np.array_equal(one.values, other.values)
        assert one.tops is None or (other.tops is not None and np.array_equal(one.tops, other.tops))
    assert not list(tmp_path.glob("atonc-calibration-*"))


def test_an_address_that_is_none_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the address of a Dask scheduler"):
        quantize(tmp_path / "none.onnx", tmp_path, QuantizeOptions(scheduler="lab:8786"))


def test_threads_are_as_asked_then_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert observe.thread_count() == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert observe.thread_count() == 3
    with observe.threads(2):
        assert observe.thread_count() == 2
    assert observe.thread_count() == 3


def test_tails_are_cut_before_anything_is_quantised(tmp_path: Path) -> None:
    """Boxes and scores become the outputs; whoever joins them is gone, and so are its constants."""
    path = save(tmp_path, detector())
    graph = FloatGraph(tidy(read(path, cut_outputs=("boxes", "scores")), path.name))
    assert graph.outputs == ("boxes", "scores") and not any(node.op_type == "Concat" for node in graph.nodes)
    with pytest.raises(InputError, match="no tensor 'boxen' to cut at"):
        read(path, cut_outputs=("boxen",))
    few = {"objective": "accuracy", "correct_rounding": False, "equalise": False}
    made = quantize(path, samples(tmp_path), QuantizeOptions(cut_outputs=("boxes", "scores"), **few))
    assert list(made.outputs_db) == ["boxes", "scores"] and min(made.outputs_db.values()) > 20


def test_a_tail_of_suppression_stays_in_float_or_is_cut(tmp_path: Path) -> None:
    b = Build(5)
    rows = b.node("Relu", [b.conv("x", "c1", (5, 3, 3, 3))], "r1")
    for name, value in (("as_rows", [1, 5, 144]), ("most", [3])):
        b.constants.append(_whole(name, value))
    flat = b.node("Reshape", [rows, "as_rows"], "flat")
    for name, first, last in (("four", 0, 4), ("one", 4, 5)):
        b.constants += [_whole(f"{name}.from", [first]), _whole(f"{name}.to", [last]), _whole(f"{name}.axis", [1])]
        b.node("Slice", [flat, f"{name}.from", f"{name}.to", f"{name}.axis"], name)
    boxes = b.node("Transpose", ["four"], "boxes", perm=[0, 2, 1])
    chosen = b.node("NonMaxSuppression", [boxes, "one", "most"], "chosen")
    whole = b.node("Cast", [chosen], "y", to=1)
    path = save(tmp_path, b.model({"x": (1, 3, 12, 12)}, [whole]))
    graph = FloatGraph(tidy(read(path, cut_outputs=UNCUT), path.name))
    assert {node.op_type for node in graph.nodes if node.name in make_plan(graph).float_nodes} == {
        "NonMaxSuppression", "Cast",
    }  # fmt: skip
    few = {"objective": "accuracy", "correct_rounding": False, "equalise": False}
    cut = quantize(path, samples(tmp_path), QuantizeOptions(cut_outputs=("boxes", "one"), **few))
    assert cut.chosen.milliseconds is not None and min(cut.outputs_db.values()) > 20


def _whole(name: str, value: list[int]) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(value), name)
