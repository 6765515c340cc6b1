"""How far is an estimate from a full compilation, and what does it take?

Every model is compiled as users do, without verification, and estimated twice: as it is, with other weights, and from a
float copy of it, whose codes and scales are assumed. Times are predicted; seconds are processor
time of the estimate, with no layer known and again when the process knows the layers, as in a search. The process has
estimated other models before, so modules and tables are loaded. `--keep` keeps the figures of compilations alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from atonc.compiler.compile.pipeline import compile_file, read_model
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.request.options import Options
from atonc.insight.estimating.estimate import Estimate, estimate, known_forms
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.declare import COUNT, FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept

GROUP = "speed"
ARGUMENTS = (MODEL_FILES, ONLY, COUNT.but(default=1000, help="models, the small ones first"), KEEP, FRESH, WRITE)
SECONDS = ("seconds", "seconds again", "float seconds")
LATENCIES = ("estimated latency_ms", "float latency_ms")
FIGURES = ("latency_ms", "ram_bytes", "flash_bytes", "energy_uj")
CLASSES = (0.0, 0.1, 1.0, 5.0, float("inf"))  # milliseconds
DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits.tflite"
OPTIONS = Options(verify=False, allow_float=True)
WEIGHTED = ("conv", "dense", "transpose_conv")
CONVERSIONS = ("quantize", "dequantize", "requantize")

Record = dict[str, float]


def as_float(graph: Graph) -> Graph:
    """The model that a quantised one may have come from: its real weights, and nothing rounded between layers."""
    tensors = {name: _real(tensor) for name, tensor in graph.tensors.items()}
    same, ops = dict[str, str](), list[Op]()
    for op in graph.ops:
        inputs, target = tuple(same.get(name, name) for name in op.inputs), op.outputs[0]
        if op.kind in WEIGHTED and len(inputs) > 2 and inputs[2] and tensors[inputs[2]].dtype == "int32":
            bias = tensors[inputs[2]]  # without a scale: units of the accumulator
            tensors[bias.name] = replace(bias, dtype="float32", data=np.zeros(bias.shape, np.float32))
        if op.kind not in CONVERSIONS:
            ops.append(replace(op, inputs=inputs))
        elif target in graph.outputs:
            ops.append(Op("identity", op.name, inputs, op.outputs, {}, op.origin))
        elif tensors[inputs[0]].is_constant:
            tensors[target] = replace(tensors[inputs[0]], name=target)
        else:
            same[target] = inputs[0]
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _real(tensor: Tensor) -> Tensor:
    quant, data = tensor.quant, tensor.data
    if quant is None:
        return tensor
    if data is not None:
        codes = data.astype(np.float64) - quant.along(quant.zero_points, data.ndim)
        data = (codes * quant.along(quant.scales, data.ndim)).astype(np.float32)
    return replace(tensor, dtype="float32", quant=None, data=data)


def compiled(model: Path) -> Record:
    """Empty where the model is refused."""
    try:
        found = compile_file(model, OPTIONS)
    except AtoncError:
        return {}
    memory, cost = found.memory_use(), found.cost
    figures = cost.latency_ms, memory.ram_bytes, memory.flash_bytes, cost.energy.uj.likely
    return dict(zip(FIGURES, figures, strict=True))


def estimated(model: Path) -> Record:
    """With no layer known, and once more when all of them are but not the network; from a float copy with none. Empty
    where the model is refused."""
    try:
        found, one = _timed("seconds", model)
    except AtoncError:
        return {}
    found |= {f"estimated {name}": getattr(one, name) for name in FIGURES}
    estimate(DIGITS)
    found |= _timed("seconds again", model, fresh=False)[0]
    graph = read_model(model, OPTIONS)
    if not computes_on_codes(graph):
        return found
    again, one = _timed("float seconds", as_float(graph))
    return found | again | {"float latency_ms": one.latency_ms}


def computes_on_codes(graph: Graph) -> bool:
    """Not where weights alone are codes: as int8 it would be another network, and nobody compiled that."""
    return any(tensor.quant is not None and not tensor.is_constant for tensor in graph.tensors.values())


def _timed(name: str, model: Path | Graph, fresh: bool = True) -> tuple[Record, Estimate]:
    if fresh:
        known_forms.cache_clear()
    started = time.process_time()
    found = estimate(model)
    return {name: time.process_time() - started}, found


def off(record: Record, name: str, kind: str = "estimated") -> float:
    """Relative, of a figure that may be nothing; NaN of one that was not made."""
    return record.get(f"{kind} {name}", np.nan) / record[name] - 1 if record[name] else 0.0


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(records: Sequence[Record], name: str) -> float:
    return rank_correlation([one["latency_ms"] for one in records], [one[name] for one in records])


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:+.1f} %"


def rows(found: Mapping[str, Record]) -> Iterator[tuple[str, ...]]:
    for name, record in found.items():
        errors = [_percent(off(record, figure)) for figure in FIGURES]
        more = (
            _percent(off(record, "latency_ms", "float")),
            *(f"{record[kind]:.2f}" if kind in record else "-" for kind in SECONDS),
        )
        yield tables.in_a_cell(name), f"{record['latency_ms']:.3f}", *errors, *more


def classes(found: Mapping[str, Record]) -> Iterator[tuple[str, ...]]:
    for low, high in (*pairwise(CLASSES), (CLASSES[0], CLASSES[-1])):
        some = [one for one in found.values() if low <= one["latency_ms"] < high]
        if some:
            errors = [np.abs([off(one, figure) for one in some]) for figure in FIGURES]
            floats = np.abs([off(one, "latency_ms", "float") for one in some])
            seconds = [np.nanmedian([one.get(kind, np.nan) for one in some]) for kind in SECONDS]
            title = f"{low:g} to {high:g} ms" if high < CLASSES[-1] else f"from {low:g} ms" if low else "all"
            medians = [_percent(float(np.nanmedian(one))) for one in (*errors, floats)]
            worst = [_percent(float(np.nanmax(one))) for one in (errors[0], floats)]
            yield title, str(len(some)), *medians, *worst, *(f"{value:.2f}" for value in seconds)


def run(arguments: argparse.Namespace) -> Report:
    kept, models = Kept(arguments.keep, arguments.fresh), by_size(chosen(arguments))[: arguments.count]
    estimate(DIGITS)
    estimates = {model: estimated(model) for model in models}  # before any compilation: nothing is known from one
    made = {model: kept.of(model.name, partial(compiled, model)) for model in models}
    good = {model.name: record | estimates[model] for model, record in made.items() if record and estimates[model]}
    ranks = [_ranks([one for one in good.values() if name in one], name) for name in LATENCIES]
    floats = sum("float latency_ms" in record for record in good.values())
    lines = ["# Estimates against full compilations", "", (__doc__ or "").partition("\n\n")[2].strip(), ""]
    lines.append(
        f"{len(good)} models; rank correlation of the latency {ranks[0]:.4f}, from float copies {ranks[1]:.4f} "
        f"({floats} models: the others compute in float, only their weights are codes)."
    )
    named = ("latency", "RAM", "flash", "energy", "latency, float")
    titles = ("", ">models", *(f">{name}" for name in named), ">worst", ">worst, float", ">s", ">s again", ">s, float")
    lines += ["", "Median errors without their sign:", "", *tables.table(titles, list(classes(good)))]
    titles = ("network", ">compiled ms", *(f">{name}" for name in named), ">s", ">s again", ">s, float")
    lines += ["", *tables.table(titles, list(rows(good)))]
    return Report("\n".join(lines) + "\n")
