"""How far outputs are from the yardstick's: over all samples, and sample by sample."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atonc.compiler.compare.layers import code_size
from atonc.compiler.compare.metrics import Metrics, measure
from atonc.compiler.ir import Array, Graph
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Distance:
    """How far one side's values of an output lie from the yardstick's, over all samples."""

    title: str
    metrics: Metrics
    max_lsb: float
    squares: tuple[float, ...] = ()  # mean square distance of each sample


@dataclass(frozen=True)
class OutputResult:
    """One output over all samples: the program's distance, and those of the yardstick's siblings."""

    name: str
    metrics: Metrics
    max_lsb: float
    spread: tuple[Distance, ...] = ()
    squares: tuple[float, ...] = ()
    against: str = ""  # the yardstick
    skipped: int = 0  # values that the yardstick has as no number: NaN or infinite
    judged: OutputResult | None = None  # the program against what every installation has; None: this is it
    read: OutputResult | None = None  # exact arithmetic of the model as we read it, against kernels of others


def output_result(graph: Graph, name: str, values: Array, kernels: Mapping[str, Array]) -> OutputResult:
    """How far values of an output lie from the first of these kernels, and how far the others do; samples along the
    first axis. Where the yardstick has no number there is nothing to compare with."""
    yardstick, *others = kernels
    finite = np.isfinite(kernels[yardstick])
    compared = {title: np.where(finite, one, 0) for title, one in {**kernels, "program": values}.items()}
    expected = compared[yardstick]
    unit = unit_of(graph, name, expected)
    mine = distance("program", expected, compared["program"], unit)
    spread = tuple(distance(title, expected, compared[title], unit) for title in others)
    skipped = int(finite.size - finite.sum())
    return OutputResult(name, mine.metrics, mine.max_lsb, spread, mine.squares, yardstick, skipped)


def unit_of(graph: Graph, name: str, expected: Array) -> float:
    tensor = graph.tensors[name]
    return tensor.scale if tensor.quant is not None else code_size(graph, tensor, expected)


def distance(title: str, expected: Array, values: Array, unit: float) -> Distance:
    """Both hold samples along the first axis."""
    apart = values.astype(np.float64) - expected
    worst = float(np.abs(apart).max(initial=0.0)) / unit
    squares = np.square(apart).reshape(len(apart), -1).mean(axis=1) if apart.size else np.zeros(len(apart))
    return Distance(title, measure(expected, values, unit), worst, tuple(squares.tolist()))
