"""Detectors: what a quantiser costs in mean average precision, and suppression inside the graph.

Four detectors with different heads (`shared/detector_cases.py`) are trained here on made pictures. Each quantiser gets
the same pictures and its default settings; all are judged in the chip's arithmetic on pictures of another seed. Then
six files with suppression inside (`shared/detector_tails.py`) go through `atonc quantize` and the compiler as they are:
what was cut is run behind the chip's outputs, and its boxes are held against those of the float file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from atonc.insight.evaluating.boxes import overlaps
from atonc.insight.evaluating.metrics import evaluated, precision
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.judge import Signal
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.observe import outputs, threads
from atonc.insight.quantizing.parts import BEFORE
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import AtoncError
from benchmarks.precision import ARGUMENTS as ARGUMENTS
from benchmarks.precision import listed, span
from benchmarks.quantize import ORT, by_onnxruntime, like
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import Report
from benchmarks.shared.detector_cases import CLASSES, DETECTORS, SIDE, Box, scenes, trained
from benchmarks.shared.detector_tails import SUPPRESSING, tail_of, with_tail
from benchmarks.shared.kept import Kept
from benchmarks.shared.tables import table

GROUP = "quantising"
CALIBRATING, HELD = 0, 1
PICTURES, SUPPRESSED = 1200, 200  # held: for the mean precision, and for files with suppression inside
DRAWS = 200  # of the pictures, with repetition: how sure a difference is
LEAST, IOU, EQUAL = 0.05, 0.5, 0.9  # the score of a box for the mean precision, of suppression, of boxes that are equal
Array = np.ndarray


# -------------------------------------------------------------------------------------------------------------- boxes


def boxes_of(key: str, found: list[Array]) -> Array:
    """Rows of corners, score and class of a detector's outputs, suppressed."""
    if key == "yolo":
        (x, y, w, h), scores = found[0][0, :4], found[0][0, 4:]
        corners = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
    elif key == "centernet":
        heat, size, offset = np.split(found[0][0], (CLASSES, CLASSES + 2))
        near = np.lib.stride_tricks.sliding_window_view(np.pad(heat, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
        down, right = np.mgrid[: SIDE // 4, : SIDE // 4]
        at = 4 * (offset + np.stack([right, down]))
        corners = np.concatenate([at - size / 2, at + size / 2]).reshape(4, -1).T
        scores = (heat * (heat == near.max((3, 4)))).reshape(CLASSES, -1)
    else:
        corners, scores = found[0][0], found[1][0]
    rows = list[Array]()
    for kind, own in enumerate(scores):
        left = [k for k in np.argsort(-own, kind="stable") if own[k] > LEAST]
        while left:
            best = left.pop(0)
            rows.append(np.array([*corners[best], own[best], kind]))
            over = overlaps(corners[best], corners[left]) if left else ()
            left = [k for k, shared in zip(left, over, strict=True) if shared <= IOU]
    return np.array(rows).reshape(-1, 6)


def evaluation_of(found: list[Array], truth: list[list[Box]]) -> Any:
    """By pycocotools, of every picture and class."""
    notes = [(image, *box) for image, boxes in enumerate(truth) for box in boxes]
    coco = {
        "images": [{"id": k, "width": SIDE, "height": SIDE} for k in range(len(truth))],
        "categories": [{"id": k, "name": str(k)} for k in range(CLASSES)],
        "annotations": [{"id": k + 1, "image_id": image, "category_id": kind, "bbox": [x, y, end - x, low - y]}
                        for k, (image, kind, x, y, end, low) in enumerate(notes)],
    }  # fmt: skip
    entries = [SimpleNamespace(truth={"image": k}) for k in range(len(truth))]
    records = [[[x, y, end - x, low - y, score, int(kind)] for x, y, end, low, score, kind in rows.tolist()]
               for rows in found]  # fmt: skip
    return evaluated(records, SimpleNamespace(coco=coco, entries=entries))  # type: ignore[arg-type]


def mean_precision(evaluation: Any, some: Array) -> tuple[float, float]:
    """At an overlap of 0.5, and over 0.5 to 0.95, in percent."""
    return 100 * precision(evaluation, 0, some), 100 * precision(evaluation, None, some)


def equal(one: Array, other: Array) -> int:
    """Boxes of one side that have their own of the same class on the other."""
    left, count = list(range(len(other))), 0
    for row in one:
        same = [k for k in left if other[k, 5] == row[5]]
        over = overlaps(row[:4], other[same, :4]) if same else np.zeros(0)
        if over.size and over.max() >= EQUAL:
            left.remove(same[int(over.argmax())])
            count += 1
    return count


# ---------------------------------------------------------------------------------------------------------- measuring


def measure(key: str, folder: Path, count: int) -> dict[str, Any]:
    started = time.process_time()
    path = trained(key, folder / f"{key}.onnx")
    learnt = scenes(np.random.default_rng(CALIBRATING), count)[0][:, None]
    held, truth = scenes(np.random.default_rng(HELD), PICTURES)
    tidy = load(path, {})
    (name,) = FloatGraph(tidy).inputs
    feeds = [{name: value[None]} for value in held]
    reference = outputs(tidy, feeds)
    every = np.arange(PICTURES)
    seen_by = {"float": evaluation_of([boxes_of(key, one) for one in reference], truth)}
    found = dict[str, Signal]()

    def judged(label: str, data: bytes) -> None:
        seen = like(reference, chip_outputs(compiled_model(data, QuantizeOptions().board), feeds))
        found[label] = Signal.of(reference, seen)
        seen_by[label] = evaluation_of([boxes_of(key, one) for one in seen], truth)

    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "samples.npz"
        np.savez(data, **{name: learnt})
        made = quantize(path, data, QuantizeOptions(samples=count, threads=1))
    judged("atonc", made.model)
    for label, method in ORT.items():
        try:
            judged(label, by_onnxruntime(tidy, name, learnt, method))
        except AtoncError as error:
            print(key, label, error.one_line)
    row: dict[str, Any] = {label: mean_precision(one, every) for label, one in seen_by.items()}
    best = max(theirs := [label for label in ORT if label in row], key=lambda label: row[label][0])
    draws = np.random.default_rng(0).integers(0, PICTURES, (DRAWS, PICTURES))
    gains = [mean_precision(seen_by["atonc"], some)[0] - mean_precision(seen_by[best], some)[0] for some in draws]
    row |= {"best": best, "gain": [float(end) for end in np.percentile(gains, (2.5, 97.5))], "tried": len(theirs)}
    row["db"] = {label: signal.db for label, signal in found.items()}
    row["outputs"] = [{**printed.as_dict(), "held_db": one.db}
                      for printed, one in zip(made.outputs, found["atonc"].by_column, strict=True)]  # fmt: skip
    return {**row, "samples": count, "seconds": time.process_time() - started}


def suppressing(key: str, folder: Path, count: int) -> dict[str, Any]:
    """As `atonc quantize FILE` and `atonc generate` of its result do it; the application runs what was cut."""
    started = time.process_time()
    file = with_tail(key, trained(SUPPRESSING[key][0], folder / f"{SUPPRESSING[key][0]}.onnx"), folder / f"{key}.onnx")
    held = scenes(np.random.default_rng(HELD), SUPPRESSED)[0]
    feeds = [{"x": value[None]} for value in held]
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "samples.npz"
        np.savez(data, x=scenes(np.random.default_rng(CALIBRATING), count)[0][:, None])
        made = quantize(file, data, QuantizeOptions(samples=count, threads=1))
    assert made.tail is not None
    compiled = compiled_model(made.model, QuantizeOptions().board)
    seen = chip_outputs(compiled, feeds)
    cut = [name.removesuffix(BEFORE) for name in made.tail.outputs]  # the file knows the scores alone
    chip = [{end: 1 / (1 + np.exp(-value)) if end != name else value
             for end, name, value in zip(cut, made.tail.outputs, values, strict=True)} for values in seen]  # fmt: skip
    twin = tail_of(file, cut)
    answers = [rows for (rows,) in outputs(twin, chip)]
    wanted = [rows for (rows,) in outputs(file.read_bytes(), feeds)]
    same = sum(equal(one, other) for one, other in zip(wanted, answers, strict=True))
    return {
        "cut": cut, "left": len(made.tail.operators), "same": same, "float": sum(map(len, wanted)),
        "chip": sum(map(len, answers)), "wide": made.chosen.name.partition("16 bits in ")[2],
        "ms": compiled.cost.latency_ms, "db": made.chosen.snr_db, "seconds": time.process_time() - started,
    }  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    rows = Kept(arguments.keep, arguments.fresh)
    for key in (key for key in (*DETECTORS, *SUPPRESSING) if asked_for(arguments.only, key)):
        with threads(1):  # other work runs beside it
            how = measure if key in DETECTORS else suppressing
            rows.of(key, lambda key=key, how=how: how(key, arguments.work, arguments.samples))
    return Report(page(rows))


# --------------------------------------------------------------------------------------------------------------- page


def page(rows: dict[str, Any]) -> str:
    heads = {key: rows[key] for key in DETECTORS if key in rows}
    tails = {key: rows[key] for key in SUPPRESSING if key in rows}
    no_worse = sum(row["atonc"][0] >= row[row["best"]][0] for row in heads.values())
    possible = sum(row["float"][0] >= row[row["best"]][0] for row in heads.values())
    worse = [key for key, row in heads.items() if row["gain"][1] < 0]
    near = sum(row["float"][0] - row["atonc"][0] <= 1 for row in heads.values())
    shares = {key: row["same"] / max(row["float"], row["chip"], 1) for key, row in tails.items()}
    cells = [[key, *(f"{row[label][0]:.1f}, {row[label][1]:.1f}" if label in row else "refused"
                     for label in ("float", "atonc", *ORT)), "{:+.2f} to {:+.2f}".format(*row["gain"])]
             for key, row in heads.items()]  # fmt: skip
    noise = [[key, *(f"{row['db'][label]:.1f}" if label in row["db"] else "refused"
                                    for label in ("atonc", *ORT))] for key, row in heads.items()]  # fmt: skip
    forms = [[key, SUPPRESSING[key][2], len(row["cut"]), row["left"], row["float"], row["chip"],
              sure(shares[key], max(row["float"], row["chip"])), f"{row['ms']:.3f}", row["wide"]]
             for key, row in tails.items()]  # fmt: skip
    labels = [label.removeprefix("ort_") for label in ORT]
    counted, whole = coverage(heads)
    return "\n".join([
        "# Detectors", "",
        f"mAP50 at least that of onnxruntime's best on {no_worse} of {len(heads)} (in float on {possible}), "
        f"surely worse on {len(worse)}, within a point of float on {near}. {counted} "
        "Suppression inside the graph: at least 97 % of the boxes equal those of "
        f"the float file on {sum(s >= 0.97 for s in shares.values())} of {len(tails)}.", "",
        f"{PICTURES} held pictures; mAP50 and mAP50:95 in percent, in the chip's arithmetic:", "",
        *table(["detector", "float", "atonc", *labels, "mAP50 over the best, 95 %"], cells), "",
        "Signal to noise against float in dB, mean of pictures and outputs:", "",
        *table(["detector", "atonc", *labels], noise), "",
        "Each output whole: what `quantize` prints, judged by the pictures that calibrate, and the figure of the held "
        "pictures, in the chip's arithmetic, which is to lie inside (eight other networks: "
        "[precision.md](precision.md)):", "",
        *table(["detector", "output", "printed (95 % of new samples)", "held", "values clipped"], whole), "",
        f"Suppression inside, {SUPPRESSED} held pictures: quantised and compiled as the files are (`atonc quantize`, "
        "then `atonc generate`; 16 bits: tensors that get them by themselves). Equal: "
        f"of the boxes of the side that has more, those with one of their class at an overlap of {EQUAL} on the other.",
        "", *table(["file", "what it ends with", "outputs", "operators left", "boxes, float", "boxes, chip", "equal",
                    "ms", "16 bits"], forms), "",
        *table(["detector", "what", "samples"],
               [[key, DETECTORS[key].what, row["samples"]] for key, row in heads.items()]), "",
    ])  # fmt: skip


def sure(share: float, count: int) -> str:
    """With half of the width of its 95 % interval."""
    return f"{100 * share:.1f} % ± {196 * (share * (1 - share) / max(count, 1)) ** 0.5:.1f}"


def coverage(heads: dict[str, Any]) -> tuple[str, list[list[str]]]:
    """On how many the printed intervals hold, and rows by output."""
    cells, missed = list[list[str]](), dict[str, None]()
    for key, row in heads.items():
        for one in row["outputs"]:
            low, high = one["interval_db"]
            if not low <= one["held_db"] <= high:
                missed[key] = None
            clipped = "" if one["clipped"] is None else f"{one['clipped']:,} of {one['values']:,}"
            printed = f"{one['snr_db']:.1f} ({span([low, high], '.1f')})"
            cells.append([key, one["name"], printed, f"{one['held_db']:.1f}", clipped])
    inside = f"{len(heads) - len(missed)} of {len(heads)}{listed(list(missed), 'not on')}"
    return f"The printed interval of every output holds the held figure on {inside}.", cells
