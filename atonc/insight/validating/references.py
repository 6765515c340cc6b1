"""The model's own kernels beside a compiled program: the yardstick, and how far the yardstick's own siblings are.

TFLite comes with three sets of kernels that round differently, onnxruntime runs a graph as it is or optimised. What
they differ by among themselves is what a model leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np

from atonc.compiler.compare.reference import OPTIMISED, REFERENCE, XNNPACK, kernel_sets
from atonc.compiler.compare.reference_process import ReferenceProcess
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.read import is_tflite
from atonc.compiler.inputs.inputs import in_order_of, real
from atonc.compiler.ir import Array, Graph
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import InputError, ToolError, VerificationError

Sample = Mapping[str, Array]

EXACT = "exact arithmetic"
TFLITE = {
    REFERENCE: "TFLite reference kernels",
    OPTIMISED: "TFLite optimised kernels",
    XNNPACK: "TFLite XNNPACK kernels",
}
ONNX = {REFERENCE: "onnxruntime without optimisation", OPTIMISED: "onnxruntime with optimisation"}


class Edges(Protocol):
    """A model as it was read, and as it was compiled: a `Compiled`, or whatever else has both."""

    @property
    def source(self) -> Graph: ...

    @property
    def graph(self) -> Graph: ...


class References:
    """All kernel sets that can run a model, in a process of their own. Use it with `with`, and early: the process
    loads its libraries while the model is being compiled."""

    def __init__(self, model: Path, exact_only: bool = False, siblings: bool = True) -> None:
        """`exact_only`: no kernels but exact arithmetic, for models that do not begin where the file does. `siblings`:
        all kernel sets, not the yardstick alone."""
        self.model, self.notes = model, list[str]()
        tflite = is_tflite(model, limits.read_bytes(model))
        self.titles = TFLITE if tflite else ONNX
        missing = [n for n in (("ai_edge_litert",) if tflite else ("onnx", "onnxruntime")) if find_spec(n) is None]
        self.sets, note = ((), "") if missing or exact_only else kernel_sets(model)
        self.sets = self.sets if siblings else self.sets[:1]
        self.process = ReferenceProcess() if self.sets else None
        if exact_only:
            note = "the model is compared with exact arithmetic of the graph, not with its own kernels"
        elif missing:
            note = f"{missing[0]} is not installed, so the reference is exact arithmetic of the graph"
        self.notes += [note] if note else []

    def __enter__(self) -> References:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.close()

    @property
    def yardstick(self) -> str:
        return self.titles[self.sets[0]] if self.sets else EXACT

    def outputs(self, compiled: Edges, sample: Sample) -> dict[str, list[Array]]:
        """By title, the yardstick first: real values of the program's outputs in its order and shapes.

        A set that cannot run the model is left out from then on, and a note says so. Where none can, exact arithmetic
        takes their place.
        """
        if self.process is None:
            return {EXACT: exact_outputs(compiled, sample)}
        if not _first_run(compiled.source, sample):
            return {EXACT: self._exact(compiled, sample, "kernels of others begin with their own first state")}
        found, failed = {}, {}
        for kernels in self.sets:
            try:
                found[kernels] = self._one(compiled, sample, kernels)
            except InputError as error:
                failed[kernels] = error
        self.notes += [f"{self.titles[kernels]}: {error.what}" for kernels, error in failed.items()]
        if not found:
            return {EXACT: self._exact(compiled, sample, "no kernels of others run this model")}
        self.sets = tuple(found)
        return {self.titles[kernels]: values for kernels, values in found.items()}

    def _exact(self, compiled: Edges, sample: Sample, why: str) -> list[Array]:
        """Our own arithmetic has to do, for all samples that follow."""
        self.notes.append(f"{why}, so the reference is exact arithmetic of the graph")
        if self.process is not None:
            self.process.close()
        self.sets, self.process = (), None
        return exact_outputs(compiled, sample)

    def tensors(self, sample: Sample, wanted: Sequence[str]) -> dict[str, Array]:
        """Tensors inside the model as the yardstick's kernels compute them, as far as they can be seen."""
        if self.process is None:
            return {}
        return self.process.run(self.model, sample, self.sets[0], wanted)

    def _one(self, compiled: Edges, sample: Sample, kernels: str) -> list[Array]:
        """The model's own outputs; all its tensors when the program ends elsewhere."""
        assert self.process is not None
        found = self.process.run(self.model, sample, kernels)
        if not set(compiled.graph.outputs) <= found.keys() and not _in_order(found, compiled.graph):
            found = self.process.run(self.model, sample, kernels, compiled.graph.outputs)
        return as_program(compiled, found)


def _first_run(source: Graph, sample: Sample) -> bool:
    """Whether the states of the model are those that its own kernels begin with."""
    given = ((state, sample.get(state.input)) for state in source.states)
    return all(value is None or np.array_equal(value, state.first) for state, value in given)


def exact_outputs(compiled: Edges, sample: Sample) -> list[Array]:
    """The same in exact arithmetic of the graph as it was read."""
    return as_program(compiled, exact_values(compiled, sample))


def exact_values(compiled: Edges, sample: Sample) -> dict[str, Array]:
    """All tensors of the graph as it was read."""
    values = run_graph(compiled.source, sample)
    return {name: values[held] for name, held in compiled.source.aliases.items()} | values


def as_program(compiled: Edges, found: Mapping[str, Array]) -> list[Array]:
    source, graph = compiled.source, compiled.graph
    outputs = []
    for index, name in enumerate(graph.outputs):
        value = _pick(found, graph, index)
        if value.size != graph.tensors[name].elements:
            theirs, ours = ("x".join(map(str, shape)) for shape in (value.shape, graph.tensors[name].shape))
            what = f"output {name} has shape {ours}, the reference gives {theirs}"
            raise VerificationError(what, remedy="report the model: it is misread")
        held = source.tensors.get(source.aliases.get(name, name))  # whose codes these are, if they are codes
        tensor = held or source.tensors.get(name, graph.tensors[name])
        as_real = value.astype(np.float64) if value.dtype.kind == "f" else real(tensor, value)
        outputs.append(np.ascontiguousarray(in_order_of(graph, name, as_real)).reshape(graph.tensors[name].shape))
    return outputs


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
