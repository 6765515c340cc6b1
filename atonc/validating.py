"""`atonc validate`: the compiled program on the emulator against the reference kernels of the model.

Both sides get the same inputs. Values are compared as real numbers; one code of the output's format is the unit in
which percentages count. `judging.py` says what passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.arrays import read_arrays
from atonc.compare.inputs import make_inputs, make_noise
from atonc.compare.metrics import Metrics, measure
from atonc.compare.subgraph import code_size
from atonc.emulation import Emulation
from atonc.errors import InputError
from atonc.inputs import as_input, program_inputs, real
from atonc.ir import Array, Graph, Tensor
from atonc.layer_checks import LayerCheck, check_program
from atonc.pipeline import Compiled
from atonc.reading_checks import ReadingCheck, check_reading
from atonc.references import References

Sample = Mapping[str, Array]
NOISE_SEED = 1  # pictures leave corners of operators in the dark


@dataclass(frozen=True)
class Distance:
    """Of one side's values of an output, over all samples, from the yardstick's."""

    title: str
    metrics: Metrics
    max_lsb: float


@dataclass(frozen=True)
class OutputResult:
    """One output over all samples: the program's distance, and those of the yardstick's siblings."""

    name: str
    metrics: Metrics
    max_lsb: float
    spread: tuple[Distance, ...] = ()


@dataclass(frozen=True)
class Accuracy:
    """How many samples get the right label: by the program and by the reference."""

    samples: int
    program: int
    reference: int


@dataclass(frozen=True)
class Validation:
    samples: int
    reference: str
    notes: tuple[str, ...]
    outputs: tuple[OutputResult, ...]
    layers: tuple[LayerCheck, ...] = ()  # the program against the canonical graph
    reading: tuple[ReadingCheck, ...] = ()  # the graph as we read it against the reference
    accuracy: Accuracy | None = None

    @property
    def first_bad(self) -> LayerCheck | None:
        return next((layer for layer in self.layers if layer.bad), None)

    @property
    def first_misread(self) -> ReadingCheck | None:
        return next((check for check in self.reading if check.bad), None)


def validate(
    references: References, compiled: Compiled, samples: Sequence[Sample], labels: Sequence[int] = ()
) -> Validation:
    """`labels`: the right class of each sample, for models whose first output has one value per class."""
    if not samples:
        raise InputError("no samples to compare", remedy="give inputs with at least one sample")
    emulation = Emulation(compiled.program, compiled.graph)
    outputs = compiled.graph.outputs
    program: list[list[Array]] = [[] for _ in outputs]
    kernels: dict[str, list[list[Array]]] = {}
    for sample in samples:
        got = emulation.run(program_inputs(compiled, sample))
        _append(program, [real(compiled.graph.tensors[name], got[name]) for name in outputs])
        for title, values in references.outputs(compiled, sample).items():
            _append(kernels.setdefault(title, [[] for _ in outputs]), values)
    yardstick, *others = (title for title in kernels if len(kernels[title][0]) == len(samples))
    results = []
    for k, name in enumerate(outputs):
        expected = np.stack(kernels[yardstick][k])
        unit = unit_of(compiled.graph, name, expected)
        mine = distance("program", expected, np.stack(program[k]), unit)
        spread = tuple(distance(title, expected, np.stack(kernels[title][k]), unit) for title in others)
        results.append(OutputResult(name, mine.metrics, mine.max_lsb, spread))
    layers = check_program(compiled, emulation, program_inputs(compiled, samples[0]))
    reading = check_reading(references, compiled.source, [samples[0], make_noise(samples[0], NOISE_SEED)])
    accuracy = _accuracy(program[0], kernels[yardstick][0], labels) if labels else None
    notes = tuple(dict.fromkeys(references.notes))
    return Validation(len(samples), yardstick, notes, tuple(results), tuple(layers), tuple(reading), accuracy)


def _append(lists: list[list[Array]], values: Sequence[Array]) -> None:
    """In single precision: outputs may be pictures, and there are several kernel sets."""
    for found, value in zip(lists, values, strict=True):
        found.append(value.astype(np.float32))


def unit_of(graph: Graph, name: str, expected: Array) -> float:
    tensor = graph.tensors[name]
    return tensor.scale if tensor.quant is not None else code_size(graph, tensor, expected)


def distance(title: str, expected: Array, values: Array, unit: float) -> Distance:
    worst = float(np.abs(values - expected).max(initial=0.0)) / unit
    return Distance(title, measure(expected, values, unit), worst)


def _accuracy(program: Sequence[Array], reference: Sequence[Array], labels: Sequence[int]) -> Accuracy:
    if len(labels) < len(program):
        raise InputError(f"{len(labels)} labels for {len(program)} samples")
    right = [sum(int(value.argmax()) == label for value, label in zip(side, labels, strict=False))
             for side in (program, reference)]  # fmt: skip
    return Accuracy(len(program), *right)


# ------------------------------------------------------------------------------------------------------------ inputs


def read_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """Arrays named like the inputs (or as many as there are inputs, in order); a first axis beyond the model's own
    counts samples."""
    samples: list[Sample] = []
    for file in files:
        arrays = read_arrays(file)
        named = {name: arrays[name] for name in source.inputs if name in arrays}
        if len(named) < len(source.inputs):
            if len(arrays) != len(source.inputs):
                wanted = ", ".join(source.inputs)
                raise InputError(
                    f"holds {len(arrays)} arrays, the model has inputs {wanted}",
                    where=str(file),
                    remedy="name the arrays after the inputs",
                )
            named = dict(zip(source.inputs, arrays.values(), strict=True))
        samples += _split(source, named, str(file))
    return samples[:limit] if limit else samples


def read_labels(files: Sequence[Path]) -> list[int]:
    """Arrays called "labels" beside the inputs: the right class of each sample."""
    found: list[int] = []
    for file in files:
        labels = read_arrays(file).get("labels")
        if labels is not None and labels.dtype.kind in "iu" and labels.ndim == 1:
            found += labels.tolist()
    return found


def _split(source: Graph, named: Mapping[str, Array], where: str) -> Iterator[Sample]:
    rows = {name: _rows(source.tensors[name], value, where) for name, value in named.items()}
    count = min(len(value) for value in rows.values())
    for k in range(count):
        yield {name: value[k] for name, value in rows.items()}


def _rows(tensor: Tensor, value: Array, where: str) -> list[Array]:
    if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
        raise InputError(f"shape {value.shape} does not hold inputs of shape {tensor.shape}", where=where)
    return [as_input(tensor, row, where) for row in value.reshape(-1, *tensor.shape)]


def synthetic_samples(source: Graph, count: int, seed: int = 0) -> list[Sample]:
    return [make_inputs(source, seed + k) for k in range(count)]
