"""Figures and their intervals, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.insight.evaluating.datasets import Dataset, DatasetEntry, Fit
from atonc.insight.evaluating.metrics import (
    ALL,
    COCO,
    EditDistance,
    Keypoints,
    MeanIou,
    Top,
    bootstrap,
    confusion,
    difference_interval,
    distance,
    distance_figures,
    edits,
    mean_interval,
    near_points,
    recall_curve,
    similarity,
    wilson,
)
from atonc.machine.base.errors import InputError


def labelled(*labels: int) -> Dataset:
    return Dataset("arrays", tuple(DatasetEntry(f"{k}", Path("x"), k, label) for k, label in enumerate(labels)))


def test_wilson_is_that_of_the_textbook() -> None:
    assert wilson(45, 50) == pytest.approx((0.7864, 0.9565), abs=1e-4)
    assert wilson(0, 20)[0] == 0.0 and wilson(20, 20)[1] == 1.0


def test_the_bootstrap_is_the_same_every_time_and_about_right() -> None:
    values = np.random.default_rng(1).normal(5, 1, 400)
    low, high = mean_interval(values)
    assert (low, high) == mean_interval(values)
    assert high - low == pytest.approx(2 * 1.96 / 20, rel=0.2)
    assert bootstrap(3, lambda some: float("nan"))[0] != bootstrap(3, lambda some: 1.0)[0]


def test_top_1_and_top_5() -> None:
    metric = Top()
    records = [metric.record([np.eye(7)[k] + np.arange(7) / 100], None, Fit()) for k in (0, 1, 2)]
    top1, top5 = metric.figures(records, labelled(0, 6, 2))
    assert (top1.value, top5.value) == pytest.approx((2 / 3, 1.0))
    assert not metric.same(records[0], records[1]) and metric.same(records[0], records[0])


def test_equal_scores_are_the_first_class() -> None:
    assert Top().record([np.zeros(3)], None, Fit())["classes"] == [0, 1, 2]


def test_mean_iou_of_two_classes() -> None:
    truth = np.array([[0, 0], [1, 255]])
    scores = np.zeros((1, 2, 2, 2))
    scores[0, :, :, 1] = [[-1, 1], [1, 1]]  # classes 0 1 / 1 (1)
    metric = MeanIou()
    records = [metric.record([scores], truth, Fit())] * 2
    mean, pixels = metric.figures(records, labelled(0, 0))
    assert mean.value == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert pixels.value == pytest.approx(2 / 3)


def test_distance_counts_codes() -> None:
    rows = [distance([np.array([1.0, 2.0])], [np.array([1.04, 2.2])], [0.1])] * 2
    cosine, same = distance_figures(rows)
    assert same.value == 0.5
    assert cosine.value == pytest.approx((1.04 + 4.4) / np.sqrt(5 * (1.04**2 + 2.2**2)))


def test_keypoint_similarity_of_coco() -> None:
    person = {"keypoints": [v for k in range(17) for v in (10.0 * k, 5.0, 2 if k < 2 else 0)], "area": 400.0}
    points = [[10.0 * k, 5.0] for k in range(17)]
    assert similarity(points, person) == 1.0
    points[1][0] += 3.0
    assert similarity(points, person) == pytest.approx((1 + np.exp(-9 / (2 * 400 * (2 * COCO[1]) ** 2))) / 2)


def test_heat_maps_become_points_of_the_picture() -> None:
    maps = np.zeros((1, 4, 4, 13))
    maps[0, 1, 2] = 1.0
    metric = Keypoints([maps.shape], (64, 64))
    ((_, points),) = metric.record([maps], None, Fit((0.5, 0.5), (0.0, 0.0), (128, 128), (64, 64)))
    assert points == [[80.0, 48.0]] * 13


def test_equal_answers_on_few_samples_prove_no_certainty() -> None:
    assert mean_interval(np.ones(5)) == pytest.approx((0.566, 1.0), abs=1e-3)
    assert mean_interval(np.array([0.5, 0.7, 0.6]))[0] < 0.6
    low, high = difference_interval(np.ones(5), np.ones(5))
    assert low == pytest.approx(-0.434, abs=1e-3) and high == pytest.approx(0.434, abs=1e-3)
    one, other = np.ones(400), np.r_[np.ones(360), np.zeros(40)]
    low, high = difference_interval(one, other)
    assert 0.06 < low < 0.1 < high < 0.14
    assert difference_interval(np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx((1.0, 1.0))


def test_classes_that_are_confused_and_the_surest_mistakes() -> None:
    truth = [0, 0, 1, 1]
    data = Dataset("arrays", tuple(DatasetEntry(str(k), Path("x"), k, label) for k, label in enumerate(truth)))
    answers = [(0, 0.9), (1, 0.6), (0, 0.8), (1, 0.9)]
    records = [{"classes": [answer], "of": 2, "score": score} for answer, score in answers]
    assert confusion(records, data).tolist() == [[1, 1], [1, 1]]
    assert Top().worst(records, data) == [2, 1]


def test_precision_against_recall_by_hand() -> None:
    scores, right = np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, False, True, True])
    curve = recall_curve("a", scores, right)
    assert curve.positives == 3
    # one of three at precision 1; two of three with both equal scores, 2 of 3; all with 3 of 4, better than that
    assert curve.precision[:34] == (1.0,) * 34 and set(curve.precision[34:]) == {0.75}
    assert curve.average == pytest.approx((34 + 67 * 0.75) / 101)


def test_each_class_that_occurs_has_its_curve_where_all_scores_are_kept() -> None:
    metric = Top()
    records = [metric.record([np.array(row)], None, Fit()) for row in ([0.7, 0.2, 0.1], [0.6, 0.3, 0.1])]
    mean, first, second = metric.curves(records, labelled(0, 1))
    assert (mean.name, first.name, second.name) == (ALL, "class 0", "class 1")
    assert (first.average, second.average, mean.average) == (1.0, 1.0, 1.0)
    many = [metric.record([np.arange(40.0)], None, Fit())]
    assert metric.curves(many, labelled(3)) == ()


def test_key_points_near_the_truth_in_sizes_of_the_box() -> None:
    person = {"keypoints": [0, 0, 2, 10, 0, 1, 0, 10, 2, 99, 99, 0], "bbox": [0, 0, 20, 50], "area": 1000.0}
    points = [[0.0, 2.5], [10.0, 2.6], [6.0, 2.0], [0.0, 0.0]]  # 2.5, 2.6 and 10 away; the last has no label
    assert near_points(points, person, 0.05) == pytest.approx(1 / 3)  # up to 2.5
    assert near_points(points, person, 0.2) == pytest.approx(1.0)  # up to 10
    data = Dataset("coco", (DatasetEntry("0", Path("x"), truth={"image": 7}),) * 2,
                   coco={"annotations": [{"image_id": 7, **person}]})  # fmt: skip
    far = [[90.0, 90.0]] * 4
    metric = Keypoints([(1, 8, 8, 4)], (64, 64))
    found = {one.name: one.value for one in metric.figures([[[0.9, far], [0.4, points]], []], data)}
    assert found["PCK@0.2"] == pytest.approx(0.5) and found["PCK@0.05"] == pytest.approx(1 / 6)  # the second saw nobody


def test_edits_by_hand() -> None:
    pairs = [("kitten", "sitting"), ("", "abc"), ("abc", ""), ("flaw", "lawn"), ("same", "same"), ("ab", "ba")]
    assert [edits([*map(ord, one)], [*map(ord, other)]) for one, other in pairs] == [3, 3, 3, 2, 0, 2]


def test_sequences_by_greedy_ctc() -> None:
    """Runs are one, and equal classes with a blank between them are two; the rate is of all labels together."""
    truth = np.array([[1, 1, 2, -1], [2, 1, 1, 2]])
    steps = [0, 1, 1, 0, 1, 2, 2, 0], [2, 2, 1, 1, 1, 0, 0, 3]  # 1 1 2; 2 1 3: one is missing, one is another
    metric = EditDistance([(1, 8, 4)], 0)
    records = [metric.record([np.eye(4)[[row]]], right, Fit()) for row, right in zip(steps, truth, strict=True)]
    assert records == [[0, 3, [1, 1, 2]], [2, 4, [2, 1, 3]]]
    rate, right = metric.figures(records, labelled(0, 0))
    assert (rate.value, right.value) == pytest.approx((2 / 7, 0.5))
    assert metric.worst(records, labelled(0, 0)) == [1] and "8 steps of 4 classes, 0 is the blank" in metric.note
    last = EditDistance([(8, 1, 4)], -1)
    assert last.record([np.eye(4)[[3, 0, 3, 0, 0]]], [0, 0], Fit()) == [0, 2, [0, 0]]
    for blank, label in ((0, 0), (-1, 3), (0, 4)):  # labels hold the blank, or no class of the model
        with pytest.raises(InputError, match="--blank"):
            EditDistance([(1, 8, 4)], blank).record([np.eye(4)], [label], Fit())
    with pytest.raises(InputError, match="along the last axis"):
        EditDistance([(1, 8, 8, 4)], 0)


def test_differences_of_figures_that_are_no_means_are_drawn_in_pairs() -> None:
    """One side is wrong in two labels more, always the same: by how much is sure, though neither figure is."""
    metric, data = EditDistance([(1, 20, 4)], 0), labelled(*[0] * 40)
    ours, theirs = ([[wrong + k % 3, 5, [k]] for k in range(40)] for wrong in (2, 0))
    rate, _ = metric.differences(ours, theirs, data)
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.4, 0.4, 0.4))
    assert metric.figures(ours, data)[0].high > metric.figures(ours, data)[0].low + 0.05
