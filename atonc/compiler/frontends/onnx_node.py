"""One ONNX node while it is being translated: typed access to attributes, inputs and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.frontends import onnx_codes
from atonc.compiler.frontends.onnx_builder import Builder, per_tensor_or_axis
from atonc.compiler.ir import Array, Quantisation, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.ops.values import same_codes
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass

NARROW = ("int8", "uint8", "int16", "uint16")  # plain integers, whose sums and products int64 holds
STEP = ":step"  # ends the names of what a node computes on its way
OVERFLOWING = ("add", "sub", "mul", "div", "neg", "abs", "square")


@dataclass(frozen=True)
class Node:
    kind: str  # operator type, with its domain if that is not the default one
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int
    builder: Builder

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] != ""

    def stored(self, index: int) -> Tensor:
        """The tensor behind an input, for nodes that move values or compare them: codes stay codes."""
        if not self.has(index):
            raise ModelError(f"{self.kind} lacks input {index}", where=self.name)
        return self.builder.value(self.inputs[index])

    def input(self, index: int) -> Tensor:
        """The numbers that a node computes with; codes are integers to it."""
        tensor = self.stored(index)
        if tensor.quant is not None and self.inputs[index] in self.builder.codes:
            return onnx_codes.numbers(self.builder, tensor)
        return tensor

    def optional(self, index: int) -> Tensor | None:
        return self.input(index) if self.has(index) else None

    def all_inputs(self) -> list[Tensor]:
        return [self.input(i) for i in range(len(self.inputs))]

    def joined(self) -> list[Tensor]:
        """Inputs that become parts of one tensor; codes with different scales are joined as integers."""
        tensors = [self.stored(i) for i in range(len(self.inputs))]
        codes = any(name in self.builder.codes for name in self.inputs)
        return self.all_inputs() if codes and not all(same_codes(t, tensors[0]) for t in tensors) else tensors

    def constant(self, index: int, what: str) -> Array:
        tensor = self.input(index)
        if tensor.data is None and not tensor.elements:
            return np.empty(tensor.shape, tensor.dtype)  # nothing that could be computed
        if tensor.data is None:
            raise UnsupportedError(f"{self.kind} with {what} computed at run time", where=self.name)
        if tensor.quant is not None:
            return (tensor.data.astype(np.float64) - tensor.zero_point) * tensor.scale
        return tensor.data

    def integers(self, index: int, what: str) -> list[int]:
        return [int(v) for v in self.constant(index, what).reshape(-1)]

    def ints(self, key: str, default: Sequence[int]) -> tuple[int, ...]:
        value = self.attrs.get(key, default)
        if not isinstance(value, (list, tuple, range)) or not all(isinstance(v, int) for v in value):
            raise ModelError(f"attribute {key} is not a list of integers", where=self.name)
        return tuple(value)

    def integer(self, key: str, default: int) -> int:
        value = self.attrs.get(key, default)
        if not isinstance(value, int):
            raise ModelError(f"attribute {key} is not an integer", where=self.name)
        return value

    def number(self, key: str, default: float) -> float:
        value = self.attrs.get(key, default)
        if not isinstance(value, (int, float)):
            raise ModelError(f"attribute {key} is not a number", where=self.name)
        return float(value)

    def text(self, key: str, default: str) -> str:
        value = self.attrs.get(key, default)
        return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)

    def integers_of(self, key: str, index: int, default: Sequence[int] | None = None) -> list[int] | None:
        """A list that old opsets keep in an attribute and new ones in an input."""
        if key in self.attrs:
            return list(self.ints(key, ()))
        if self.has(index):
            return self.integers(index, key)
        return None if default is None else list(default)

    def axis(self, value: int, rank: int) -> int:
        if not -rank <= value < rank:
            raise ModelError(f"axis {value} of a tensor with {rank} dimensions", where=self.name)
        return value % rank

    def quantisation(self, scale: int, zero: int, axis: int = 1, rank: int = 1) -> Quantisation:
        """Reads a quantisation from the inputs with these numbers."""
        zeros = self.constant(zero, "zero point") if self.has(zero) else None
        return per_tensor_or_axis(self.constant(scale, "scale"), zeros, axis, rank, self.name)

    def result(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: Mapping[str, Any] | None = None,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        quant: Quantisation | None = None,
    ) -> Tensor:
        """Emits the operator that gives the (first) output."""
        made = self.step(kind, inputs, attrs or {}, shape, dtype, quant)
        self.bind(self.outputs[0], made)
        return made

    def step(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: Mapping[str, Any],
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        quant: Quantisation | None = None,
    ) -> Tensor:
        """Emits an operator with one output. The type follows the inputs: movers keep codes, others give floats."""
        if shape is None:
            shape = infer_shape(kind, attrs, [tensor.shape for tensor in inputs if tensor is not None])
        if shape is None:
            raise UnsupportedError(f"the shape of {kind} is not known", where=self.name)
        if dtype is None:
            dtype, quant = self.type_of(kind, inputs)
            if kind in OVERFLOWING and dtype in NARROW and quant is None:
                return self._wrapped(self.step(kind, inputs, attrs, shape, "int64"), dtype)
        made = Tensor(f"{self.outputs[0]}{STEP}", shape, dtype, quant)
        return self.builder.emit(kind, self.name, inputs, [made], attrs)[0]

    def _wrapped(self, wide: Tensor, dtype: str) -> Tensor:
        """Integers that do not fit begin again at the other end, as processors count."""
        limits = np.iinfo(dtype)
        low, size = (
            self.builder.constant(f"{self.name}:limits", np.array(value, np.int64))
            for value in (limits.min, int(limits.max) - int(limits.min) + 1)
        )
        above = self.step("floor_mod", [self.step("sub", [wide, low], {}), size], {})
        return self.step("add", [above, low], {}, dtype=dtype)

    def bind(self, name: str, tensor: Tensor) -> None:
        """The name means codes if the node reads or makes codes. A last step takes the name for itself."""
        if tensor.name.startswith(f"{self.outputs[0]}{STEP}"):
            tensor = self.builder.renamed(tensor, name)
        self.builder.bind(name, tensor)
        if tensor.quant is not None and (self.reads_codes or self.kind.startswith(("QLinear", "com.microsoft.Q"))):
            self.builder.codes.add(name)

    @property
    def reads_codes(self) -> bool:
        """Whether the first input means codes and not the numbers behind them."""
        return bool(self.inputs) and self.inputs[0] in self.builder.codes

    def type_of(self, kind: str, inputs: Sequence[Tensor | None]) -> tuple[str, Quantisation | None]:
        """A mover of codes yields the same codes; everything else that reads quantised or float values yields reals."""
        first = next(tensor for tensor in inputs if tensor is not None)
        data = [tensor for tensor in inputs if tensor is not None]
        if is_move(kind) and first.quant is not None and first.quant.is_per_tensor:
            same = all(t.dtype == first.dtype and first.quant.same_as(t.quant) for t in data[: self._movers(kind)])
            return (first.dtype, first.quant) if same else ("float32", None)
        if any(tensor.is_float or tensor.quant is not None for tensor in data):
            return next((tensor.dtype for tensor in data if tensor.is_float), "float32"), None
        return first.dtype, None

    @staticmethod
    def _movers(kind: str) -> int | None:
        return None if kind in ("concat", "pack") else 1


Translator = Callable[[Node], None]
TRANSLATORS: dict[str, Translator] = {}


def translates(*kinds: str) -> Callable[[Translator], Translator]:
    def register(function: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(kinds, function))
        return function

    return register
