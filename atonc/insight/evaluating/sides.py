"""Who computes the same samples: the NPU, the int8 model's own kernels, the float model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.compare.reference import OPTIMISED
from atonc.compiler.compare.reference_process import ReferenceProcess
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.inputs import program_inputs, real
from atonc.compiler.ir import Array, Graph
from atonc.insight.evaluating.engine import Engine
from atonc.insight.validating.references import References, as_program
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled

Sample = Mapping[str, Array]
Outputs = list[Array]  # real values of the program's outputs, in its order and shapes
NPU, INT8, FLOAT = "NPU", "int8", "float"


class Sides:
    """Ready to run; one for each process. Use it with `with`."""

    def __init__(self, compiled: Compiled, model: Path, float_model: Path | None, int8: bool) -> None:
        self.compiled, self.engine = compiled, Engine(compiled)
        self.references = References(model, siblings=False) if int8 else None
        self.float_model = FloatModel(float_model, compiled) if float_model is not None else None

    def run(self, samples: Sequence[Sample]) -> dict[str, list[Outputs]]:
        """Runs every side on each sample."""
        graph = self.compiled.graph
        given = [program_inputs(self.compiled, sample) for sample in samples]
        got = self.engine.run({n: np.stack([one[n] for one in given]) for n in graph.inputs})
        reals = {n: real(graph.tensors[n], v) if graph.tensors[n].quant is not None else v for n, v in got.items()}
        found = {NPU: [[reals[n][k] for n in graph.outputs] for k in range(len(samples))]}
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
