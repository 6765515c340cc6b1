"""Room beyond what samples showed, values that are clipped all the same, and figures that hold on new samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from atonc.doors.cli.cli import main
from atonc.insight.quantizing.calibrate import calibrate, with_curves
from atonc.insight.quantizing.graph import FloatGraph, layers_of, make_plan
from atonc.insight.quantizing.judge import QuantizationJudge, Signal
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.run import QuantizationWork, quantize
from atonc.insight.quantizing.scales import LOW, FunctionValues, Tuning, assign
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.quantizing.write import codes_reach
from tests.quantizing.float_models import Build, save

Feeds = list[dict[str, np.ndarray]]


def dense() -> Any:
    b = Build()
    w, bias = b.constant("w", b.random.normal(0, 1, (8, 4))), b.constant("b", np.zeros(4))
    return b.model({"x": (1, 8)}, [b.node("Gemm", ["x", w, bias], "y")])


def drawn(loudest: float, count: int = 40) -> np.ndarray:
    """Samples of unlike loudness; the second is the loudest of all."""
    random = np.random.default_rng(2)
    found = random.normal(size=(count, 8)) * random.lognormal(0, 0.2, (count, 1))
    found[1] *= loudest
    return found.astype(np.float32)


def worked(folder: Path, values: np.ndarray) -> QuantizationWork:
    graph, feeds = FloatGraph(load(save(folder, dense()))), [{"x": value[None]} for value in values]
    return QuantizationWork(graph, QuantizeOptions(), feeds[::2], QuantizationJudge.of(graph, feeds[1::2]))


def test_each_half_judges_what_the_other_taught(tmp_path: Path) -> None:
    """Exchanged halves give the same figures; ranges of a half are those of its own samples."""
    values = drawn(4.0)
    work, other = worked(tmp_path, values), worked(tmp_path, np.concatenate([values[1:], values[:1]]))
    for one in (work, other):
        one.start(one.graph)
        one.decide(method="minmax")
    assert work.other is not None and work.seen["x"].high < work.other.seen["x"].high
    found, same = work.signal(Tuning()), other.signal(Tuning())
    assert len(found.noise) == len(values) and np.allclose(np.sort(found.noise[:, 0]), np.sort(same.noise[:, 0]))
    alone = [work.judge.signal(work.model(Tuning())), work.other.judge.signal(work.other.model(Tuning()))]
    assert np.array_equal(found.noise, np.concatenate([one.noise for one in alone]))


def test_clipped_values_are_counted_and_judged_apart(tmp_path: Path) -> None:
    """A few clipped values are most of the noise and hide what coarser weights add."""
    work = worked(tmp_path, drawn(6.0))
    work.start(work.graph)
    work.decide(method="minmax")
    (fine, _), found = work.models(Tuning()), work.signal(Tuning())
    low, high = codes_reach(fine, "y")
    loud = np.array([values[0] for values in work.judge.reference])
    beyond = (loud < low) | (loud > high)
    assert found.beyond[: len(loud)].sum() == beyond.sum() > 0
    assert found.clipped.sum() > 0.9 * found.noise.sum() and (found.clipped <= found.noise).all()
    coarse = Signal(found.signal, found.noise + 2 * found.unclipped.noise.mean(), found.clipped, found.beyond)
    pooled = [10 * np.log10(one.noise.sum()) for one in (found, coarse, found.unclipped, coarse.unclipped)]
    assert pooled[1] - pooled[0] < 1 < pooled[3] - pooled[2]
    assert codes_reach(work.graph.model, "y") == (-np.inf, np.inf)


def test_values_inside_are_counted_too(tmp_path: Path) -> None:
    """A ReLU's result in front of another layer; what calibrates is quieter than what judges."""
    b = Build()
    x = b.node("Relu", [b.conv("x", "c1", (4, 2, 3, 3))], "r1")
    values = np.random.default_rng(0).normal(0, 1, (16, 1, 2, 6, 6)).astype(np.float32)
    values[1::2] *= 3
    np.savez(tmp_path / "x.npz", x=values)
    path = save(tmp_path, b.model({"x": (1, 2, 6, 6)}, [b.conv(x, "y", (3, 4, 1, 1))]))
    made = quantize(path, tmp_path / "x.npz", QuantizeOptions(samples=16, objective="accuracy", calibration="minmax"))
    found = {one.name: one for one in made.clipped_inside}
    assert found["r1"].values == 16 * 4 * 36 and 0 < found["r1"].clipped < found["r1"].values / 2 and "y" not in found


def silu(folder: Path) -> FloatGraph:
    b = Build(1)
    inner = b.conv("x", "c1", (8, 3, 3, 3), spread=4.0)
    act = b.node("Mul", [inner, b.node("Sigmoid", [inner], "g")], "s")
    return FloatGraph(load(save(folder, b.model({"x": (1, 3, 8, 8)}, [b.conv(act, "y", (4, 8, 1, 1))]))))


def test_codes_are_not_spent_where_a_function_is_flat(tmp_path: Path) -> None:
    graph, random = silu(tmp_path), np.random.default_rng(0)
    feeds = [{"x": random.normal(0, 4, (1, 3, 8, 8)).astype(np.float32)} for _ in range(10)]
    plan = make_plan(graph)
    plain = calibrate(graph, plan.tensors, layers_of(graph), feeds)
    seen = with_curves(graph, plan, plain, ())
    assert [name for name, one in seen.items() if one.curve] == ["c1"] and seen["c1"].low < -12
    assert with_curves(graph, plan, plain, ("c1",)) == plain  # judged itself
    free, fitted = (assign(graph, plan, one, "minmax", Tuning()) for one in (plain, seen))
    assert {name for name in free if free[name] != fitted[name]} == {"c1"} and fitted["c1"].scale < 0.8 * free[
        "c1"
    ].scale
    low, step = (LOW - fitted["c1"].zero) * fitted["c1"].scale, fitted["s"].scale
    x = np.linspace(seen["c1"].low, low, 100)
    assert low < -3 and np.ptp(x / (1 + np.exp(-x))) <= 0.55 * step  # beyond, the result has one code


def test_a_function_is_flat_at_both_ends_or_at_none() -> None:
    points = np.linspace(-10, 10, 2001)
    low, high = FunctionValues("y", points, 1 / (1 + np.exp(-points))).told_apart(1 / 128)
    assert low == pytest.approx(-high) and high == pytest.approx(np.log(255), abs=0.02)
    low, high = FunctionValues("y", points, np.where(points < 0, 0.1 * points, points)).told_apart(0.1)
    assert low == pytest.approx(-9.5, abs=0.02) and high == pytest.approx(9.95, abs=0.02)


def test_outputs_that_are_often_clipped_get_room(tmp_path: Path) -> None:
    """Most of what costs little; with samples that show all of the range nothing is spent."""
    rooms, shown = [], np.repeat(np.linspace(-1, 1, 20, dtype=np.float32), 2)[:, None] * drawn(2.0)[1]
    for values in (drawn(2.0), shown):
        work = worked(tmp_path, values)
        work.start(work.graph)
        work._ranges()
        before = work.signal(work.base).beyond.sum()
        work._headroom()
        rooms.append(work.base.head)
        assert work.signal(work.base).beyond.sum() <= before
        step = next((one for one in work.steps if one.kept and "of the outputs" in one.name), work.steps[0])
        assert step.snr_db > work.steps[0].snr_db - 0.25
    assert rooms[0] > 1 == rooms[1]


def test_intervals_hold_what_new_samples_give() -> None:
    """Noise with a heavy tail, as clipping makes it: 19 of 20 intervals hold the figure of other samples, and of all
    energy together the tail decides."""
    random, inside = np.random.default_rng(0), 0
    for _ in range(200):
        noise = random.lognormal(0, 1.5, (2, 40, 1))
        seen, new = (Signal(np.full((40, 1), 1e3), one) for one in noise)
        low, high = seen.interval()
        assert low < seen.db < high
        inside += low <= new.db <= high
    assert inside >= 190
    better = Signal(seen.signal, seen.noise / 10)
    assert seen.interval(better)[1] > better.db, "the file may be better than what half of the samples taught"


def test_samples_without_signal_say_nothing() -> None:
    """Silence that stays silence is no perfect sample, and noise alone is no worse than the floor."""
    signal, noise = np.array([[100.0], [0.0], [0.0]]), np.array([[1.0], [0.0], [5.0]])
    assert Signal(signal, noise).by_sample[:, 0].tolist() == [20.0, 0.0, -20.0]
    assert Signal(signal[1:2], noise[1:2]).db == 120


def test_a_sample_that_stretches_every_range_does_not_spoil_the_file(tmp_path: Path) -> None:
    """The half without it teaches the file; what it clips is counted."""
    np.savez(tmp_path / "data.npz", x=drawn(60.0))
    made = quantize(save(tmp_path, dense()), tmp_path / "data.npz", QuantizeOptions(objective="accuracy"))
    (last, whole) = [step for step in reversed(made.steps) if step.name.startswith("file calibrated on")]
    assert "one half" in last.name and last.gain_db is not None and last.gain_db[0] > 0 and "all" in whole.name
    assert made.outputs[0].clipped and made.outputs[0].interval_db[1] >= last.snr_db > whole.snr_db


def test_every_figure_says_its_interval_and_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "data.npz", x=drawn(6.0))
    words = ["quantize", str(save(tmp_path, dense())), "--data", str(tmp_path / "data.npz"), "--objective", "accuracy"]
    words += ["-o", str(tmp_path / "int8.onnx"), "--page", str(tmp_path / "page.html")]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["accuracy"]
    assert found["split"] == "2-fold cross-validation on 40 samples" and row["values"] == 160
    assert row["interval_db"][0] < row["snr_db"] == found["outputs"]["y"] < row["interval_db"][1] and row["clipped"] > 0
    for one in (*found["steps"], *found["front"]):
        assert one["interval_db"][0] <= one["snr_db"] <= one["interval_db"][1]
    assert main(words) == 0
    text = capsys.readouterr().out
    said = [found["split"], f"({row['clipped']} of 160 values clipped)", "on new samples, 95 %"]
    assert all(words in text for words in said) and said[1] in (tmp_path / "page.html").read_text()
