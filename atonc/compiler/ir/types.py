"""The model, free of hardware: tensors, operators and the graph between them, and whether a graph is well formed, with
which every front end and every pass ends.

Layout: tensors keep the dimension order of their source (TFLite: channel last, ONNX: channel first). Operators for
which the order matters carry an explicit `layout` attribute ("NHWC" or "NCHW") or axes that refer to the tensor as it
is, so no transpose is ever implied. Weights are normalised at import: convolutions [out, height, width, in/groups],
dense layers [out, in].

Values: quantised tensors hold integer codes, real = (code - zero_point) * scale; every other tensor holds its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache, cached_property
from math import isfinite, isnan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import brief, dataclass

Array = NDArray[Any]

INTEGER_TYPES = ("int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOAT_TYPES = ("float16", "float32", "float64")
TYPES = (*INTEGER_TYPES, *FLOAT_TYPES, "bool")


@dataclass(frozen=True, eq=False)
class Quantisation:
    """real = (code - zero_point) * scale, one pair for the tensor or one per index along `axis`."""

    scales: NDArray[np.float64]
    zero_points: NDArray[np.int64]
    axis: int | None = None

    @staticmethod
    def per_tensor(scale: float, zero_point: int = 0) -> Quantisation:
        return Quantisation(np.array([scale], np.float64), np.array([zero_point], np.int64))

    @property
    def is_per_tensor(self) -> bool:
        return self.scales.size == 1

    def same_as(self, other: Quantisation | None) -> bool:
        return (
            other is not None
            and (self.is_per_tensor or self.axis == other.axis)
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zero_points, other.zero_points)
        )

    def along(self, values: Array, rank: int) -> Array:
        """Scales or zero points shaped so that they broadcast over a tensor of this rank."""
        if self.is_per_tensor or self.axis is None:
            return values.reshape((1,) * rank)
        return values.reshape(tuple(-1 if i == self.axis else 1 for i in range(rank)))


@cache
def _code_range(dtype: str) -> tuple[int, int]:
    if dtype == "int4":
        return -8, 7
    limits = np.iinfo(np.dtype(dtype))
    return int(limits.min), int(limits.max)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named value; `data` is set for constants only."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quantisation | None = None
    data: Array | None = None
    __repr__ = brief

    @property
    def scale(self) -> float:
        """The per-tensor scale; 1.0 when the values are plain numbers."""
        return 1.0 if self.quant is None else float(self.quant.scales[0])

    @property
    def zero_point(self) -> int:
        return 0 if self.quant is None else int(self.quant.zero_points[0])

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOAT_TYPES

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def code_range(self) -> tuple[int, int]:
        """Smallest and largest code that the element type can hold."""
        return _code_range(self.dtype)


@dataclass(frozen=True, eq=False)
class Op:
    """One operator. An absent optional input is the empty name. `origin` names the source nodes."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    origin: tuple[str, ...] = ()


def layer_name(op: Op) -> str:
    """What every view calls it. A layer is an operator of the canonical graph; it bears the name of the model's node
    that does the work (others were fused into it: `origin`), or one made from its tensor if a pass put it there. No two
    layers share a name (`passes.name_uniquely`)."""
    return op.name


@dataclass(frozen=True, eq=False)
class CarriedState:
    """What the model keeps from one run to the next: the values of `output` are those of `input` in the run after."""

    input: str
    output: str
    first: Array  # codes (or real values) of the input in the first run
    shown: bool = False  # the output is one for the application, too
    kept: bool = True  # by the program; False: the application copies the output to the input (`--state none`)
    unread: tuple[int, ...] = ()  # indices at the start of each axis of the model's tensor that it does without


@dataclass(frozen=True)
class TailOperator:
    """An operator that is left to the application."""

    kind: str
    name: str
    values: Mapping[str, float]  # thresholds, numbers of boxes

    def __str__(self) -> str:
        digits = {key: 15 if value.is_integer() else 6 for key, value in self.values.items()}
        said = ", ".join(f"{key} {value:.{digits[key]}g}" for key, value in self.values.items())
        return f"{self.kind[:60]} {self.name[:60]!r}" + (f" ({said})" if said else "")


@dataclass(frozen=True)
class Tail:
    """The end of a model that is left to the application, because sizes there depend on values."""

    outputs: tuple[str, ...]  # where the model ends instead
    operators: tuple[TailOperator, ...]
    fixed: tuple[str, ...] = ()  # of the outputs, those that the model has anyway

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no word for NaN and infinity: they are text."""
        operators = [
            {**vars(one), "values": {key: x if isfinite(x) else str(x) for key, x in one.values.items()}}
            for one in self.operators
        ]
        return {"outputs": list(self.outputs), "operators": operators, "fixed": list(self.fixed)}


@dataclass(frozen=True, eq=False)
class Graph:
    """Operators in an order in which they can run, and every tensor that they name."""

    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = ""
    source: str = ""  # "tflite" or "onnx"
    notes: tuple[str, ...] = ()  # what the reader wants the user to know
    aliases: Mapping[str, str] = field(default_factory=dict)  # names of the source -> tensor that holds the value
    turned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # edges transposed for the user: axes of before
    states: tuple[CarriedState, ...] = ()  # inputs and outputs that the program carries on by itself
    equalised: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # tensor of the float model -> by channel
    tail: Tail | None = None  # what was cut off and stays for the application
    open_batch: bool = False  # an input has a first size that the model leaves open, and that was taken as 1
    __repr__ = brief

    @cached_property
    def frame_inputs(self) -> tuple[str, ...]:
        """What the application supplies for each run."""
        kept = {state.input for state in self.states if state.kept}
        return tuple(name for name in self.inputs if name not in kept)

    @cached_property
    def frame_outputs(self) -> tuple[str, ...]:
        """What the application gets from each run."""
        kept = {state.output for state in self.states if state.kept and not state.shown}
        return tuple(name for name in self.outputs if name not in kept)

    def declared_shape(self, name: str) -> tuple[int, ...]:
        """As the model has it; memory may hold the axes of an edge in another order."""
        shape = self.tensors[name].shape
        order = self.turned.get(name, range(len(shape)))
        return tuple(shape[order.index(axis)] for axis in range(len(shape)))

    @cached_property
    def producers(self) -> dict[str, Op]:
        return {name: op for op in self.ops for name in op.outputs if name}

    @cached_property
    def consumers(self) -> dict[str, list[Op]]:
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                if name:
                    found.setdefault(name, []).append(op)
        return found


_DAMAGED = "export the model again: a range was empty or overflowed, or the file is damaged"
MAX_RANK = 8
MAX_DIM = 1 << 24
MAX_ELEMENTS = 1 << 31


def check(graph: Graph, checked: Mapping[str, Tensor] | None = None) -> Graph:
    """Returns the graph itself, or raises a ModelError that names the tensor or operator.

    Tensors that are the same objects in `checked` were looked at before.
    """
    trusted = checked or {}
    for name, tensor in graph.tensors.items():
        if trusted.get(name) is tensor:
            continue
        if name != tensor.name:
            raise ModelError(f"tensor {tensor.name!r} is filed under {name!r}", where=name)
        check_tensor(tensor)
    _check_order(graph)
    return graph


def check_tensor(tensor: Tensor) -> None:
    if not tensor.name:
        raise ModelError("a tensor has no name")
    if tensor.dtype not in TYPES:
        raise ModelError(f"element type {tensor.dtype!r} is not known", where=tensor.name)
    check_shape(tensor.shape, tensor.name)
    _check_quantisation(tensor)
    if tensor.data is not None and tensor.data.shape != tensor.shape:
        raise ModelError(f"constant has shape {tensor.data.shape}, declared {tensor.shape}", where=tensor.name)


def check_shape(shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Returns a shape whose product is safe to allocate, or raises a ModelError."""
    if len(shape) > MAX_RANK:
        raise ModelError(f"{len(shape)} dimensions, at most {MAX_RANK} are supported", where=where)
    if any(not 0 <= dim <= MAX_DIM for dim in shape):
        raise ModelError(f"shape {shape} has an impossible dimension", where=where)
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"{prod(shape)} elements, at most {MAX_ELEMENTS} are supported", where=where)
    return shape


def _check_quantisation(tensor: Tensor) -> None:
    quant = tensor.quant
    if quant is None:
        return
    if tensor.is_float or tensor.dtype == "bool":
        raise ModelError(f"{tensor.dtype} values cannot be quantised codes", where=tensor.name)
    if quant.scales.size != quant.zero_points.size or quant.scales.size == 0:
        raise ModelError("scales and zero points differ in number", where=tensor.name)
    if not np.all(np.isfinite(quant.scales)) or np.any(quant.scales <= 0):
        raise ModelError("a scale is not a finite positive number", where=tensor.name, remedy=_DAMAGED)
    low, high = tensor.code_range
    if np.any(quant.zero_points < low) or np.any(quant.zero_points > high):
        raise ModelError(f"a zero point lies outside {low}..{high}", where=tensor.name)
    if not quant.is_per_tensor:
        _check_axis(tensor)


def _check_axis(tensor: Tensor) -> None:
    quant = tensor.quant
    if quant is None or quant.axis is None or not 0 <= quant.axis < len(tensor.shape):
        raise ModelError("quantisation axis is outside the shape", where=tensor.name)
    if tensor.shape[quant.axis] != quant.scales.size:
        raise ModelError(
            f"{quant.scales.size} scales for {tensor.shape[quant.axis]} channels on axis {quant.axis}",
            where=tensor.name,
        )


def _check_order(graph: Graph) -> None:
    """Every input exists before it is used, every output is written once."""
    known = {name for name, tensor in graph.tensors.items() if tensor.is_constant}
    for name in graph.inputs:
        if name not in graph.tensors:
            raise ModelError("graph input has no tensor", where=name)
        known.add(name)
    for op in graph.ops:
        _check_op(graph, op, known)
        known.update(name for name in op.outputs if name)
    for name in graph.outputs:
        if name not in known:
            raise ModelError("graph output is never computed", where=name)


def circle(what: str, where: str = "") -> ModelError:
    remedy = "export the model again, with what is fed back as an input and an output"
    return ModelError(what, where=where, rule="graphs have no cycles", remedy=remedy)


def _check_op(graph: Graph, op: Op, known: set[str]) -> None:
    for name in op.inputs:
        if name and name not in known:
            raise circle(f"input {name!r} is used before it is computed", where=op.name)
    for name, value in op.attrs.items():
        if isinstance(value, float) and isnan(value):
            raise ModelError(f"attribute {name!r} is not a number", where=op.name, remedy=_DAMAGED)
    for name in op.outputs:
        if name and name not in graph.tensors:
            raise ModelError(f"output {name!r} has no tensor", where=op.name)
        if name in known:
            raise ModelError(f"output {name!r} is written twice", where=op.name)
