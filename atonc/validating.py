"""`atonc validate`: the compiled program on the emulator against the reference kernels of the model.

Both sides get the same inputs. Values are compared as real numbers; one code of the output's format is the unit in
which percentages count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.arrays import read_arrays
from atonc.compare.inputs import make_inputs
from atonc.compare.metrics import Metrics, measure
from atonc.compare.subgraph import code_size
from atonc.errors import InputError, ToolError
from atonc.ir import Array, Graph, Tensor
from atonc.ops import run_graph, run_op, start_values
from atonc.ops.rounding import round_half_away
from atonc.pipeline import Compiled
from atonc.plan.types import CpuPlan
from atonc.verify import Emulation

Sample = Mapping[str, Array]

EXACT, TFLITE, ONNX = "exact arithmetic", "TFLite reference kernels", "onnxruntime without optimisation"
LIMIT, TABLE_LIMIT = 1.0, 2.0  # codes between a layer and exact arithmetic


@dataclass(frozen=True)
class OutputResult:
    """One output over all samples."""

    name: str
    metrics: Metrics
    max_lsb: float


@dataclass(frozen=True)
class LayerCheck:
    """One tensor that the program holds, against exact arithmetic on the inputs that the layer really had."""

    tensor: str
    kind: str
    node: str
    step: int
    on_cpu: bool
    through: int  # operators since the last observed tensors
    max_diff: float
    differ_percent: float
    limit: float

    @property
    def bad(self) -> bool:
        return self.max_diff > self.limit


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
    note: str
    outputs: tuple[OutputResult, ...]
    layers: tuple[LayerCheck, ...] = ()
    accuracy: Accuracy | None = None

    @property
    def first_bad(self) -> LayerCheck | None:
        return next((layer for layer in self.layers if layer.bad), None)


def validate(
    model: Path,
    compiled: Compiled,
    samples: Sequence[Sample],
    per_layer: bool = False,
    labels: Sequence[int] = (),
) -> Validation:
    """`labels`: the right class of each sample, for models whose first output has one value per class."""
    emulation = Emulation(compiled.program, compiled.graph)
    reference, note = choose_reference(model)
    pairs: list[list[tuple[Array, Array]]] = [[] for _ in compiled.graph.outputs]
    for sample in samples:
        got = emulation.run(program_inputs(compiled, sample))
        expected = reference_outputs(model, compiled, sample, reference)
        for pair, name, value in zip(pairs, compiled.graph.outputs, expected, strict=True):
            pair.append((real(compiled.graph.tensors[name], got[name]), value))
    results = [_output(compiled.graph, name, p) for name, p in zip(compiled.graph.outputs, pairs, strict=True)]
    layers = check_layers(compiled, emulation, samples[0]) if per_layer and samples else ()
    accuracy = _accuracy(pairs[0], labels) if labels else None
    return Validation(len(samples), reference, note, tuple(results), tuple(layers), accuracy)


def _accuracy(pairs: Sequence[tuple[Array, Array]], labels: Sequence[int]) -> Accuracy:
    if len(labels) < len(pairs):
        raise InputError(f"{len(labels)} labels for {len(pairs)} samples")
    right = [[int(side.argmax()) == label for side in pair] for pair, label in zip(pairs, labels, strict=False)]
    return Accuracy(len(pairs), sum(program for program, _ in right), sum(reference for _, reference in right))


def _output(graph: Graph, name: str, pairs: list[tuple[Array, Array]]) -> OutputResult:
    got, expected = (np.concatenate(side) for side in zip(*pairs, strict=True))
    expected = expected.reshape(got.shape)
    tensor = graph.tensors[name]
    scale = tensor.scale if tensor.quant is not None else code_size(graph, tensor, expected)
    worst = float(np.abs(got - expected).max(initial=0.0)) / scale
    return OutputResult(name, measure(expected, got, scale), worst)


def real(tensor: Tensor, codes: Array) -> Array:
    return (codes.astype(np.float64) - tensor.zero_point) * tensor.scale


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


def as_input(tensor: Tensor, value: Array, where: str = "") -> Array:
    """Real numbers become codes; codes stay as they are."""
    wanted = np.dtype(tensor.dtype)
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InputError(f"values for input {tensor.name} are not numbers, or infinite", where=where)
    if value.dtype == wanted:
        return value
    if wanted.kind == "f":
        return value.astype(wanted)
    if value.dtype.kind == "f" and tensor.quant is not None:
        value = round_half_away(value.astype(np.float64) / tensor.scale) + tensor.zero_point
        low, high = tensor.code_range
        return np.clip(value, low, high).astype(wanted)
    info = np.iinfo(wanted)
    if value.dtype.kind == "f" or value.min() < info.min or value.max() > info.max:
        raise InputError(f"{value.dtype} values do not fit input {tensor.name} of type {wanted}", where=where)
    return value.astype(wanted)


def synthetic_samples(source: Graph, count: int, seed: int = 0) -> list[Sample]:
    return [make_inputs(source, seed + k) for k in range(count)]


def program_inputs(compiled: Compiled, sample: Sample) -> dict[str, Array]:
    """The model's inputs in the formats that the program asks for (types and channel order may be the user's)."""
    found = {}
    for name in compiled.graph.inputs:
        here, there = compiled.source.tensors[name], compiled.graph.tensors[name]
        value = _same_order(sample[name], compiled.graph, name)
        if here.dtype != there.dtype:
            value = as_input(there, real(here, value)) if there.quant is not None else real(here, value)
        found[name] = value
    return found


def _same_order(value: Array, graph: Graph, name: str) -> Array:
    """The value of an edge of the model in the order that the program has; the shape alone would not tell for cubes."""
    here, there = value.shape, graph.tensors[name].shape
    if name in graph.turned and len(graph.turned[name]) == len(here):
        return value.transpose(graph.turned[name])
    if here == there:
        return value
    rank = len(here)
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if rank > 2 and tuple(here[axis] for axis in order) == there:
            return value.transpose(order)
    return value.reshape(there)


# --------------------------------------------------------------------------------------------------------- reference


def choose_reference(model: Path) -> tuple[str, str]:
    """Whose kernels, and what to say if they are not the ones that one would want."""
    try:
        if model.suffix == ".tflite":
            from ai_edge_litert import interpreter  # noqa: F401

            return TFLITE, ""
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

        return ONNX, ""
    except ImportError as error:
        return EXACT, f"{error.name} is not installed, so the reference is exact arithmetic of the graph"


def reference_outputs(
    model: Path, compiled: Compiled, sample: Sample, reference: str, kernels: str = "reference"
) -> list[Array]:
    """Real values of the program's outputs, in the program's order and shapes. `kernels`: which set of TFLite's."""
    source, graph = compiled.source, compiled.graph
    if reference == EXACT:
        values = run_graph(source, sample)
        found: Mapping[str, Array] = values | {name: values[held] for name, held in source.aliases.items()}
    else:
        found = _kernels(model, source, graph, sample, reference, kernels)
    outputs = []
    for index, name in enumerate(graph.outputs):
        value = _pick(found, graph, index)
        tensor = source.tensors.get(name) or source.tensors.get(source.aliases.get(name, ""), graph.tensors[name])
        as_real = value.astype(np.float64) if value.dtype.kind == "f" else real(tensor, value)
        outputs.append(np.ascontiguousarray(_same_order(as_real, graph, name)))
    return outputs


def _kernels(
    model: Path, source: Graph, graph: Graph, sample: Sample, reference: str, kernels: str
) -> Mapping[str, Array]:
    """The model's own outputs; all its tensors when the program ends elsewhere."""
    from atonc.compare.reference import run_onnx, run_tflite

    def run(every: bool) -> Mapping[str, Array]:
        if reference == ONNX:
            return run_onnx(model, sample, every)
        return run_tflite(model, [sample[name] for name in source.inputs], kernels, every)

    found = run(False)
    return found if set(graph.outputs) <= found.keys() or _in_order(found, graph) else run(True)


def _in_order(found: Mapping[str, Array], graph: Graph) -> bool:
    """Whether these are the program's outputs under other names: a file may give two tensors one name."""
    sizes = [graph.tensors[name].elements for name in graph.outputs]
    return [value.size for value in found.values()] == sizes


def _pick(found: Mapping[str, Array], graph: Graph, index: int) -> Array:
    name = graph.outputs[index]
    if name in found:
        return found[name]
    if _in_order(found, graph):
        return list(found.values())[index]
    raise ToolError(f"the reference gives no output {name}", remedy="report the model")


# ------------------------------------------------------------------------------------------------------------ layers


def check_layers(compiled: Compiled, emulation: Emulation, sample: Sample) -> list[LayerCheck]:
    """Every tensor of the canonical graph that lies in memory, in the order of the operators."""
    graph = compiled.graph
    inputs = program_inputs(compiled, sample)
    observed = emulation.run(inputs, observe=True)
    written = {name: step for step in compiled.program.steps for name in step.plan.writes()}
    values, distance = start_values(graph, inputs), dict[str, int]()
    layers = []
    for op in graph.ops:
        through = 1 + max((distance.get(name, 0) for name in op.inputs), default=0)
        for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            values[name] = result.codes
            distance[name] = through
            if name in observed and name in written:
                step, tensor = written[name], graph.tensors[name]
                unit = code_size(graph, tensor, result.codes)
                difference = np.abs(observed[name].astype(np.float64) - result.codes) / unit
                if tensor.is_float:  # memory holds float32
                    difference = np.where(difference < 1e-3, 0.0, difference)
                layers.append(
                    LayerCheck(
                        name,
                        op.kind,
                        ", ".join(op.origin) or op.name,
                        step.number,
                        isinstance(step.plan, CpuPlan),
                        through,
                        float(difference.max(initial=0.0)),
                        100.0 * float((difference > 0).mean()) if difference.size else 0.0,
                        TABLE_LIMIT if op.kind == "table" else LIMIT,
                    )
                )
                values[name], distance[name] = observed[name], 0
    return layers
