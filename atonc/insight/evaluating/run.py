"""`atonc evaluate` from the question to the figures."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import read_model
from atonc.compiler.frontends.coverage import require_quantised
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.insight import workers
from atonc.insight.evaluating.datasets import Dataset, DatasetEntry, open_data
from atonc.insight.evaluating.decoders import parse_anchors
from atonc.insight.evaluating.metrics import (
    Metric,
    MetricFigure,
    RecallCurve,
    Top,
    confusion,
    distance_figures,
    metric_for,
    metric_name,
    require_categories,
    require_comparison,
    require_fit,
)
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.evaluating.work import (
    FLOAT,
    INT8,
    NPU,
    PAIRS,
    SEQUENCES,
    forget,
    input_side,
    require_alike,
    sample_tensors,
)
from atonc.insight.workers.run import require_scheduler
from atonc.insight.workers.unit import digest
from atonc.machine.base import progress
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

MOST_WORST = 24
UNITS = "units"  # folder with what is done, in the output folder
FUNCTION = "atonc.insight.evaluating.work:compute"
_IN_PLAIN = "--encrypt-weights: evaluated is the same program on plain weights, since the cipher is not public"


@dataclass(frozen=True)
class AnsweredSample:
    """A sample that is worth a look, with everybody's answer."""

    entry: DatasetEntry
    answers: dict[str, str]  # by side, in words


@dataclass(frozen=True)
class Evaluation:
    model: str
    samples: int
    metric: str
    sides: dict[str, tuple[MetricFigure, ...]]
    differences: tuple[MetricFigure, ...]  # NPU less yardstick, on the same samples
    distances: dict[str, tuple[MetricFigure, ...]]  # by pair of sides
    yardstick: str  # with whom the NPU's answers are compared
    changed: tuple[AnsweredSample, ...]  # the NPU's answer differs from the yardstick's
    worst: tuple[AnsweredSample, ...]  # the NPU's answer is furthest from the truth
    confusion: tuple[tuple[int, ...], ...]  # of a classifier on the NPU: by class, how often which answer
    curves: dict[str, tuple[RecallCurve, ...]]  # by side: of all classes, then of each; none without scores
    origin: dict[str, str]  # what was asked, so that it can be asked again
    data: Dataset
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Without anything that differs from run to run."""
        return {
            "model": self.model,
            "samples": self.samples,
            "metric": self.metric,
            "figures": {side: [figure.as_dict() for figure in figures] for side, figures in self.sides.items()},
            "differences": [figure.as_dict() for figure in self.differences],
            "distances": {pair: [figure.as_dict() for figure in figures] for pair, figures in self.distances.items()},
            "origin": self.origin,
            "confusion": [list(row) for row in self.confusion],
            "curves": {side: [curve.as_dict() for curve in curves] for side, curves in self.curves.items()},
            "yardstick": self.yardstick,
            "changed": [{"sample": c.entry.name, **c.answers} for c in self.changed],
            "notes": list(self.notes),
        }


def evaluate(model: Path, wanted: EvaluateOptions, compiler: Options, output: Path) -> Evaluation:
    """Everything that can be wrong with the question is said before the long work begins."""
    if wanted.scheduler:
        require_scheduler(wanted.scheduler)
    source = read_model(model, compiler)
    if not compiler.allow_float:
        require_quantised(source)
    kept = output / UNITS
    if wanted.fresh:
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True, exist_ok=True)
    float_model = Path(wanted.float_model) if wanted.float_model else None
    if float_model is not None:
        require_alike(read(float_model), source, float_model)
    require_sequences(source, wanted)
    data = open_data(wanted, sample_tensors(source, wanted.frames), kept)
    if wanted.frames and data.entries[0].row is None:
        raise InputError("images are no sequences", where=wanted.data, rule=SEQUENCES, remedy="give arrays (.npz)")
    name = metric_name(wanted.metric, data)
    outputs = [source.tensors[name] for name in source.frame_outputs]
    require_comparison(name, data, wanted)
    require_fit(name, data, outputs[0].elements, wanted.data)
    words = {"decoder": wanted.decoder, "anchors": parse_anchors(wanted.anchors), "iou": wanted.iou}
    words["blank"] = wanted.blank
    metric = metric_for(name, words, [t.shape for t in outputs], input_side(source.tensors[source.inputs[0]].shape))
    require_categories(metric, data, wanted.data)
    data = replace(data, notes=(*data.notes, *([metric.note] if metric.note else [])))
    units = _units((model, float_model), data, {"metric": name, **words}, wanted, compiler)
    answers = _work(units, len(data.entries), wanted, kept)
    if compiler.encrypt_weights:
        data = replace(data, notes=(*data.notes, _IN_PLAIN))
    return summary(_origin(model, wanted, data), metric, data, answers)


def require_sequences(source: Graph, wanted: EvaluateOptions) -> None:
    """A network with states answers a sequence, and each sample begins with first states; others know no frames."""
    keeps = source.frame_inputs != source.inputs
    if keeps and not wanted.frames:
        raise InputError("the network keeps states from frame to frame", rule=SEQUENCES,
                         remedy="say how many frames a sample has: --frames N (1: each sample is one first frame)"
                         )  # fmt: skip
    if wanted.frames and not keeps:
        raise InputError("--frames for a network without states", rule="frames are those of a sequence",
                         remedy="leave it out, or declare its states: --state OUT=IN")  # fmt: skip
    if keeps and wanted.float_model:
        raise InputError("--float with a network that keeps states", rule="which of its outputs are states is unknown",
                         remedy="compare both with atonc validate --frames")  # fmt: skip


def _units(
    models: tuple[Path, Path | None],
    data: Dataset,
    metric: dict[str, Any],
    wanted: EvaluateOptions,
    compiler: Options,
) -> list[workers.WorkUnit]:
    first = [path for path in models if path is not None]
    shared = {
        "compiler": {**asdict(compiler), "verify": False},
        "float": len(first) == 2,
        "int8": wanted.int8,
        **metric,
        "resize": wanted.resize,
        "normalise": wanted.normalisation(),
        "colours": wanted.colours,
        "frames": wanted.frames,
    }
    units = []
    for start in range(0, len(data.entries), wanted.samples_together):
        some = data.entries[start : start + wanted.samples_together]
        files: list[Path] = list(first)
        samples = [_described(entry, files) for entry in some]
        title = f"samples {start} to {start + len(some) - 1}"
        units.append(workers.WorkUnit(title, tuple(files), {**shared, "samples": samples}))
    return units


def _described(entry: DatasetEntry, files: list[Path]) -> dict[str, Any]:
    """Files by their numbers among those of the unit."""

    def number(path: Path) -> int:
        if path not in files:
            files.append(path)
        return files.index(path)

    truth = entry.truth
    if isinstance(truth, dict) and "mask" in truth:
        truth = {"mask": number(Path(truth["mask"]))}
    elif isinstance(truth, dict) and "image" in truth:
        truth = None  # boxes are compared at the end
    return {"file": number(entry.file), "row": entry.row, "truth": truth}


def _work(units: Sequence[workers.WorkUnit], count: int, wanted: EvaluateOptions, kept: Path) -> list[dict[str, Any]]:
    """The answers of all units in order; what an interrupted run has done is not done again."""
    answers: list[dict[str, Any]] = [{}] * len(units)
    processes = 0 if wanted.processes == 1 else wanted.processes or None  # 1: here
    started, done, fresh = time.monotonic(), 0, 0
    progress.stage("evaluating", 0, count)
    found = workers.stream(units, FUNCTION, scheduler=wanted.scheduler or None, processes=processes, cache=kept)
    try:
        for one in found:
            answers[one.number] = json.loads(one.result)
            samples = len(one.unit.options["samples"])
            done, fresh = done + samples, fresh + (0 if one.known else samples)
            progress.stage(f"evaluating{_pace(fresh, count - done, time.monotonic() - started)}", done, count)
    finally:
        forget()
    return answers


def _pace(fresh: int, left: int, seconds: float) -> str:
    if not fresh:
        return ""
    rate = fresh / max(seconds, 1e-9)
    minutes, rest = divmod(round(left / rate), 60)
    return f", {rate:.1f} samples/s, {minutes}:{rest:02d} left"


# -------------------------------------------------------------------------------------------------------- the figures


def summary(origin: dict[str, str], metric: Metric, data: Dataset, answers: Sequence[dict[str, Any]]) -> Evaluation:
    records = [record for answer in answers for record in answer["records"]]
    sides = {side: [record["sides"][side] for record in records] for side in records[0]["sides"]}
    figures, curves = {}, {}
    for side, own in sides.items():
        progress.stage(f"figures of {side}")
        figures[side] = tuple(metric.figures(own, data))
        curves[side] = metric.curves(own, data)
    pairs = [f"{a}-{b}" for a, b in PAIRS if f"{a}-{b}" in records[0]["distance"]]
    distances = {pair: tuple(distance_figures([r["distance"][pair] for r in records])) for pair in pairs}
    yardstick = FLOAT if FLOAT in sides else INT8 if INT8 in sides else ""
    pairs_of_answers = zip(sides[NPU], sides.get(yardstick, ()), strict=False)
    changed = [k for k, (ours, theirs) in enumerate(pairs_of_answers) if not metric.same(ours, theirs)]
    notes = dict.fromkeys([*data.notes, *(note for answer in answers for note in answer["notes"])])
    return Evaluation(
        model=origin["model"],
        samples=len(records),
        metric=metric.name,
        sides=figures,
        differences=tuple(metric.differences(sides[NPU], sides[yardstick], data)) if yardstick else (),
        distances=distances,
        yardstick=yardstick,
        changed=_answered(metric, data, sides, changed),
        worst=_answered(metric, data, sides, metric.worst(sides[NPU], data)[:MOST_WORST]),
        confusion=tuple(map(tuple, confusion(sides[NPU], data).tolist())) if metric.name == Top.name else (),
        curves=curves if any(curves.values()) else {},
        origin=origin,
        data=data,
        notes=tuple(notes),
    )


def _answered(
    metric: Metric, data: Dataset, sides: dict[str, list[Any]], numbers: Sequence[int]
) -> tuple[AnsweredSample, ...]:
    return tuple(
        AnsweredSample(data.entries[k], {side: metric.words(records[k], data) for side, records in sides.items()})
        for k in numbers
    )


def _origin(model: Path, wanted: EvaluateOptions, data: Dataset) -> dict[str, str]:
    """Names without folders: the same question has the same answer wherever the files are."""
    found = {"model": model.name, "model sha256": digest(model), "data": Path(wanted.data).name}
    found |= {"data sha256": _data_digest(wanted, data), "atonc": __version__}
    if wanted.float_model:
        path = Path(wanted.float_model)
        found |= {"float model": path.name, "float model sha256": digest(path)}
    return found


def _data_digest(wanted: EvaluateOptions, data: Dataset) -> str:
    """Hashes all that was read: names and contents of samples and masks, and the file that names them."""
    found = hashlib.sha256(digest(Path(wanted.data)).encode() if Path(wanted.data).is_file() else b"")
    for entry in data.entries:
        mask = entry.truth.get("mask") if isinstance(entry.truth, dict) else None
        found.update(f"{entry.name} {digest(entry.file)} {digest(Path(mask)) if mask else ''}\n".encode())
    return found.hexdigest()
