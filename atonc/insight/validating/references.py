"""The model's own kernels beside a compiled program: the yardstick, and how far the yardstick's own siblings are.

TFLite comes with three sets of kernels that round differently, onnxruntime runs a graph as it is or optimised. What
they differ by among themselves is what a model leaves open.

Was the model read as it is meant? `check_reading`: every operator as we read it, on the inputs that the reference
kernels really had, against what those kernels gave. This finds an attribute that was misunderstood by its layer,
however little of it the outputs show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np

from atonc.compiler.compare.layers import WEIGHTED, code_size
from atonc.compiler.compare.reference import OPTIMISED, REFERENCE, TABLE_END, XNNPACK, kernel_sets, softmax_codes
from atonc.compiler.compare.reference_process import ReferenceProcess
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.read import is_tflite
from atonc.compiler.frontends.tflite_ops import shifts_overflow
from atonc.compiler.inputs.inputs import in_order_of, real
from atonc.compiler.ir import Array, CarriedState, Graph, Op, Tensor, layer_name
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.elementwise import DIVISION, zero_by_zero
from atonc.compiler.ops.values import Arg
from atonc.compiler.verify.verify import Forced, differences, forced_run
from atonc.machine.base.errors import AtoncError, InputError, ToolError, VerificationError
from atonc.machine.base.frozen import dataclass

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
        needed = ("ai_edge_litert",) if tflite else ("onnx", "onnxruntime")
        self.lacks = "" if exact_only else next((name for name in needed if find_spec(name) is None), "")
        self.sets, note = ((), "") if self.lacks or exact_only else kernel_sets(model)
        self.sets = self.sets if siblings else self.sets[:1]
        self.process = ReferenceProcess() if self.sets else None
        self._states: dict[str, dict[str, Array]] = {}  # by kernel set: what its last frame has left
        self._wanted: dict[str, tuple[str, ...]] = {}  # by kernel set: tensors that it is asked for, if not its outputs
        if exact_only:
            note = "the model is compared with exact arithmetic of the graph, not with its own kernels"
        elif self.lacks:
            note = f"{self.lacks} is not installed, so the reference is exact arithmetic of the graph"
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

    def outputs(self, compiled: Edges, sample: Sample, frame: bool | None = None) -> dict[str, list[Array]]:
        """By title, the yardstick first: real values of the program's outputs in its order and shapes. `frame`: the
        sample is one of a sequence, each kernel set goes on with its own states, and whether there is one before it.

        A set that cannot run the model is left out from then on, and a note says so. Where none can, exact arithmetic
        takes their place.
        """
        if self.process is None:
            return {} if frame is not None else {EXACT: exact_outputs(compiled, sample)}
        if frame is None and not _first_run(compiled.source, sample):
            return {EXACT: self._exact(compiled, sample, "kernels of others begin with their own first state")}
        found, failed = {}, {}
        for kernels in self.sets:
            try:
                one = (
                    self._one(compiled, sample, kernels)
                    if frame is None
                    else self._next(compiled, sample, kernels, frame)
                )
                found[kernels] = one
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

    def _next(self, compiled: Edges, sample: Sample, kernels: str, goes_on: bool) -> list[Array]:
        """A frame of a sequence. Variables stay with the kernels, other states are outputs that they get again."""
        assert self.process is not None
        states, wanted = [one for one in compiled.source.states if one.kept], self._wanted.get(kernels)
        given = {**sample, **(self._states[kernels] if goes_on else {})}
        found = self.process.run(self.model, given, kernels, wanted, keep=goes_on)
        if (
            wanted is None
            and not set(compiled.graph.frame_outputs) <= found.keys()
            and not _orders(found, compiled.graph)
        ):
            self._wanted[kernels] = (*compiled.graph.frame_outputs, *(one.output for one in states))
            found = self.process.run(self.model, given, kernels, self._wanted[kernels])
        self._states[kernels] = dict(_left(found, compiled.source, states))
        return as_program(compiled, found)

    def _one(self, compiled: Edges, sample: Sample, kernels: str) -> list[Array]:
        """The model's own outputs; those where the program ends, if it ends elsewhere: by their names, since a tensor
        before the last operator often has the shape of the output."""
        assert self.process is not None
        found, wanted = self.process.run(self.model, sample, kernels), compiled.graph.frame_outputs
        if not set(wanted) <= found.keys():
            inside = self.process.run(self.model, sample, kernels, wanted)
            if set(wanted) <= inside.keys() or not _orders(found, compiled.graph):
                found = inside
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
    for name in graph.frame_outputs:
        value = _pick(found, graph, name)
        if value.size != graph.tensors[name].elements:
            theirs, ours = ("x".join(map(str, shape)) for shape in (value.shape, graph.tensors[name].shape))
            what = f"output {name} has shape {ours}, the reference gives {theirs}"
            raise VerificationError(what, remedy="report the model: it is misread")
        held = source.tensors.get(source.aliases.get(name, name))  # whose codes these are, if they are codes
        tensor = held or source.tensors.get(name, graph.tensors[name])
        as_real = value.astype(np.float64) if value.dtype.kind == "f" else real(tensor, value)
        outputs.append(np.ascontiguousarray(in_order_of(graph, name, as_real)).reshape(graph.tensors[name].shape))
    return outputs


def _left(found: Mapping[str, Array], source: Graph, states: Sequence[CarriedState]) -> Iterator[tuple[str, Array]]:
    """What a frame leaves for the next. Variables of TFLite are no outputs: its kernels keep them."""
    in_order = [value.size for value in found.values()] == [source.tensors[name].elements for name in source.outputs]
    for one in states:
        if one.output in found:
            yield one.input, found[one.output]
        elif in_order:
            yield one.input, list(found.values())[source.outputs.index(one.output)]
        elif source.source != "tflite":
            raise ToolError(f"the reference gives no state {one.output}", remedy="report the model")


def _orders(found: Mapping[str, Array], graph: Graph) -> tuple[str, ...]:
    """The program's outputs, with or without its states, if these are they under other names: a file may give two
    tensors one name."""
    sizes = [value.size for value in found.values()]
    both = (graph.outputs, graph.frame_outputs)
    return next((names for names in both if [graph.tensors[name].elements for name in names] == sizes), ())


def _pick(found: Mapping[str, Array], graph: Graph, name: str) -> Array:
    if name in found:
        return found[name]
    if names := _orders(found, graph):
        return list(found.values())[names.index(name)]
    raise ToolError(f"the reference gives no output {name}", remedy="report the model")


LIMIT = 1.0  # code; two correct roundings of one number are never further apart
ANYTHING = 255.0  # codes: where their kernels overflow, they say nothing of ours
MOST_ELEMENTS = 1 << 28  # of all tensors together: they are all held at a time


@dataclass(frozen=True)
class ReadingCheck:
    """One tensor of the model, in codes."""

    tensor: str
    kind: str
    node: str
    max_diff: float
    limit: float = LIMIT

    @property
    def bad(self) -> bool:
        return not self.max_diff <= self.limit


def check_reading(references: References, source: Graph, samples: Sequence[Mapping[str, Array]]) -> list[ReadingCheck]:
    """The worst of all samples. Nothing where no kernels of others run, or where they keep their tensors."""
    # the model's value of an alias is held by another tensor of ours
    wanted = [name for op in source.ops for name in op.outputs if name and name not in source.aliases]
    if sum(source.tensors[name].elements for name in wanted) > MOST_ELEMENTS:
        references.notes.append("the model's tensors are too large to compare its operators one by one")
        return []
    worst: dict[str, ReadingCheck] = {}
    for sample in samples:
        for check in _one_sample(references, source, sample, wanted):
            known = worst.get(check.tensor)
            if known is None or not check.max_diff <= known.max_diff:
                worst[check.tensor] = check
    return [worst[name] for name in wanted if name in worst]


def _one_sample(
    references: References, source: Graph, sample: Mapping[str, Array], wanted: Sequence[str]
) -> Iterator[ReadingCheck]:
    sample = {**sample, **{state.input: state.first for state in source.states}}  # the kernels know no other
    try:
        theirs = references.tensors(sample, wanted)
    except AtoncError as error:
        references.notes.append(f"operators were not compared one by one: {error.what}")
        return
    held = {name: value for name, value in theirs.items() if _same_kind(source.tensors[name], value)}
    for forced in forced_run(source, sample, held):
        got = held[forced.name].reshape(forced.exact.shape)
        apart = differences(source, forced.name, got, forced.exact)
        if forced.op.kind == DIVISION:
            apart = np.where(zero_by_zero(source, forced.op, forced.given), 0.0, apart.reshape(forced.exact.shape))
        difference = float(apart.max(initial=0.0))
        node = layer_name(forced.op)
        limit = LIMIT + _hybrid_error(source, forced)
        if difference > limit and (inexact := softmax_codes(source, forced.op)):
            limit += inexact
            _note_once(references, f"{node}: softmax of TFLite's kernels {TABLE_END.format(count=inexact // 2)}")
        if difference > limit and _overflows(source, forced.op):
            limit = ANYTHING
            note = f"{node}: TFLite's own 32-bit integers overflow there, so its kernels are no reference"
            _note_once(references, note)
        yield ReadingCheck(forced.name, forced.op.kind, node, difference, limit)


def _overflows(source: Graph, op: Op) -> bool:
    """A scale beyond all use shifts sums out of the 32 bits of TFLite's kernels."""
    if source.source != "tflite" or op.kind not in WEIGHTED:
        return False
    tensors = [source.tensors[name] if name else None for name in (*op.inputs[:3], "", "")][:3]
    x, weights, bias = tensors
    return x is not None and weights is not None and shifts_overflow(x, weights, bias, source.tensors[op.outputs[0]])


def _note_once(references: References, note: str) -> None:
    if note not in references.notes:
        references.notes.append(note)


def _same_kind(tensor: Tensor, value: Array) -> bool:
    """One name may stand for codes here and for real numbers there."""
    return value.size == tensor.elements and tensor.is_float == (value.dtype.kind == "f")


def _hybrid_error(source: Graph, forced: Forced) -> float:
    """In codes. Where weights are bytes and values are floats, TFLite turns the values into bytes on the way: each may
    be half a 127th of the largest one off, and the weights of an output add that up."""
    op, inputs = forced.op, [source.tensors[name] for name in forced.op.inputs if name]
    if source.source != "tflite" or op.kind not in WEIGHTED or len(inputs) < 2:
        return 0.0
    x, weights = inputs[:2]
    if not x.is_float or weights.data is None or weights.quant is None:
        return 0.0
    step = float(np.abs(forced.given[x.name]).max(initial=0.0)) / 127
    real = Arg(weights, weights.data).real
    most = float(np.abs(real.reshape(weights.shape[0], -1)).sum(axis=1).max(initial=0.0))
    return step / 2 * most / code_size(source, source.tensors[forced.name], forced.exact)
