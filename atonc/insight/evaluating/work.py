"""A unit of work: some samples through all sides (the NPU, the int8 model's own kernels, the float model), a record of
each. A pure function of files and options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.compare.layers import code_size
from atonc.compiler.compare.reference import OPTIMISED
from atonc.compiler.compare.reference_process import ReferenceProcess
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.inputs import as_input, first_states, real
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.compiler.request.options import Options
from atonc.insight.evaluating.datasets import Fit, Preparation, SequenceTensor, mask_of, picture_input, row
from atonc.insight.evaluating.engine import Engine
from atonc.insight.evaluating.metrics import Metric, distance, metric_for
from atonc.insight.validating.references import References, as_program
from atonc.insight.validating.sequences import reference_outputs
from atonc.insight.workers.unit import WorkUnit, digest
from atonc.machine.base.declare import arguments
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled

Sample = Mapping[str, Array]
Outputs = list[Array]  # real values of the program's outputs, in its order and shapes
NPU, INT8, FLOAT = "NPU", "int8", "float"


class Sides:
    """Ready to run; one for each process."""

    def __init__(self, compiled: Compiled, model: Path, float_model: Path | None, int8: bool) -> None:
        self.compiled, self.engine = compiled, Engine(compiled)
        self.references = References(model, siblings=False) if int8 else None
        self.float_model = FloatModel(float_model, compiled) if float_model is not None else None

    def sequences(self, samples: Sequence[Sample]) -> dict[str, list[Outputs]]:
        """The same of sequences: the first axis of each value counts frames, states are first ones before each sample,
        and the answer is that of the last frame."""
        first, long = first_states(self.compiled.source), len(next(iter(samples[0].values())))
        every = [[{**first, **{n: v[k] for n, v in sample.items()}} for k in range(long)] for sample in samples]
        found = {NPU: self.engine.last_outputs(every)}
        if self.references is not None:
            outputs = (reference_outputs(self.references, self.compiled, frames, (0,)) for frames in every)
            found[INT8] = [one[-1] for one in outputs]
        return found

    def run(self, samples: Sequence[Sample]) -> dict[str, list[Outputs]]:
        """Runs every side on each sample."""
        found = {NPU: self.engine.outputs(samples)}
        if self.references is not None:
            found[INT8] = [next(iter(self.references.outputs(self.compiled, s).values())) for s in samples]
        if self.float_model is not None:
            found[FLOAT] = [self.float_model.outputs(sample) for sample in samples]
        return found

    @property
    def notes(self) -> list[str]:
        return self.references.notes if self.references is not None else []

    def close(self) -> None:
        if self.references is not None and self.references.process is not None:
            self.references.process.close()
        if self.float_model is not None:
            self.float_model.process.close()


class FloatModel:
    """The model before quantisation, by the fast kernels of its own runtime."""

    def __init__(self, path: Path, compiled: Compiled) -> None:
        self.path, self.compiled = path, compiled
        self.graph = read(path)
        require_alike(self.graph, compiled.source, path)
        self.process = ReferenceProcess()

    def outputs(self, sample: Sample) -> Outputs:
        given = {}
        for ours, theirs in zip(self.compiled.source.inputs, self.graph.inputs, strict=True):
            tensor = self.compiled.source.tensors[ours]
            value = sample[ours] if tensor.quant is None else real(tensor, sample[ours])
            wanted = self.graph.tensors[theirs]
            given[theirs] = turned(value, wanted.shape).astype(wanted.dtype)
        return as_program(self.compiled, self.process.run(self.path, given, OPTIMISED))


def require_alike(graph: Graph, source: Graph, path: Path) -> None:
    """Requires as many inputs and outputs, of the same sizes."""
    for what in ("inputs", "outputs"):
        theirs = [graph.tensors[name].elements for name in getattr(graph, what)]
        ours = [source.tensors[name].elements for name in getattr(source, what)]
        if sorted(theirs) != sorted(ours) or (what == "inputs" and theirs != ours):
            raise InputError(
                f"its {what} have {theirs} values, those of the int8 model {ours}",
                where=str(path),
                rule="both are the same model",
            )


def turned(value: Array, shape: tuple[int, ...]) -> Array:
    """Channels first or last, as the other model wants them."""
    if value.shape == shape:
        return value
    rank = value.ndim
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if rank > 2 and tuple(value.shape[axis] for axis in order) == shape:
            return value.transpose(order)
    return value.reshape(shape)


PAIRS = ((NPU, FLOAT), (INT8, FLOAT), (NPU, INT8))


def compute(unit: WorkUnit) -> bytes:
    """Records of the samples as JSON. The files are the model, the float model if there is one, then data."""
    words = unit.options
    sides = _sides(unit.files[: 1 + words["float"]], json.dumps(words["compiler"], sort_keys=True), words["int8"])
    source = sides.compiled.source
    samples = [_sample(source, one, unit.files, words) for one in words["samples"]]
    shapes = [sides.compiled.graph.tensors[name].shape for name in sides.compiled.graph.frame_outputs]
    metric = metric_for(words["metric"], words, shapes, input_side(source.tensors[source.inputs[0]].shape))
    values = [one for one, _, _ in samples]
    found = sides.sequences(values) if words["frames"] else sides.run(values)
    records = [_record(metric, sides, found, k, truth, fit) for k, (_, truth, fit) in enumerate(samples)]
    notes = sorted(dict.fromkeys(sides.notes))
    return json.dumps({"records": records, "notes": notes}, sort_keys=True).encode()


def _record(
    metric: Metric, sides: Sides, found: Mapping[str, Any], number: int, truth: Any, fit: Fit
) -> dict[str, Any]:
    graph = sides.compiled.graph
    tensors = [graph.tensors[name] for name in graph.frame_outputs]
    answers = {side: metric.record(values[number], truth, fit) for side, values in found.items()}
    far = {}
    for one, other in PAIRS:
        if one in found and other in found:
            a, b = found[one][number], found[other][number]
            pairs = zip(tensors, b, strict=True)
            steps = [t.scale if t.quant is not None else code_size(graph, t, value) for t, value in pairs]
            far[f"{one}-{other}"] = distance(a, b, steps)
    return {"sides": answers, "distance": far}


def _sample(
    source: Graph, one: Mapping[str, Any], files: Sequence[Path], words: Mapping[str, Any]
) -> tuple[dict[str, Array], Any, Fit]:
    """Values of the inputs in the model's own formats, truth, and where the picture is in them."""
    path, inputs = files[one["file"]], sample_tensors(source, words["frames"])
    if one["row"] is not None:
        values, label = row(path, one["row"], inputs)
        given = {tensor.name: as_input(tensor, _plain(values[tensor.name], tensor.dtype)) for tensor in inputs}
        return given, label if one["truth"] is None or isinstance(one["truth"], dict) else one["truth"], Fit()
    how = Preparation(words["resize"], words["normalise"], words["colours"])
    value, fit = picture_input(path, source, inputs[0], how)
    truth = one["truth"]
    if isinstance(truth, dict) and "mask" in truth:
        truth = mask_of(files[truth["mask"]])
    return {inputs[0].name: value}, truth, fit


SEQUENCES = "a sample of such a network is a sequence: arrays [samples, frames, ...], its states reset before each"


def sample_tensors(source: Graph, frames: int) -> list[Tensor]:
    """What a sample has for each input that is no state; `frames`: of a sequence."""
    plain = [source.tensors[name] for name in source.frame_inputs]
    if not frames:
        return plain
    held = [{member.name: getattr(one, member.name) for member in fields(one)} for one in plain]
    return [SequenceTensor(**{**one, "shape": (frames, *one["shape"])}) for one in held]


def _plain(value: Array, dtype: str) -> Array:
    """Whole numbers in a file may be wider than codes are."""
    if value.dtype.kind in "iu" and np.dtype(dtype).kind in "iu" and value.dtype != np.dtype(dtype):
        limits = np.iinfo(dtype)
        if limits.min <= value.min() and value.max() <= limits.max:
            return value.astype(dtype)
    return value


def input_side(shape: tuple[int, ...]) -> tuple[int, int]:
    """Width and height of the input, where it is a picture."""
    if len(shape) != 4:
        return 1, 1
    return (shape[3], shape[2]) if shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4) else (shape[2], shape[1])


# ------------------------------------------------------------------------------------------ once in every process


_READY: dict[tuple[Any, ...], Sides] = {}  # of the last model


def _sides(models: Sequence[Path], options: str, int8: bool) -> Sides:
    """`models`: the int8 model and perhaps the float one."""
    key = (*((str(path), digest(path)) for path in models), options, int8)
    if key not in _READY:
        forget()
        compiled = compile_file(models[0], arguments(Options, json.loads(options)))
        _READY[key] = Sides(compiled, models[0], models[1] if len(models) > 1 else None, int8)
    return _READY[key]


def forget() -> None:
    """Ends the processes of the last model's kernels."""
    while _READY:
        _READY.popitem()[1].close()
