"""The graph while an ONNX file is being read.

ONNX says DequantizeLinear - operator - QuantizeLinear where we say one operator on quantised tensors. Both sides are
fused while reading: a dequantised value *is* its quantised tensor (every kernel computes on real numbers anyway), and
a quantised result replaces the float one if nobody else reads that. What cannot be fused stays a float operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.errors import ModelError, UnsupportedError
from atonc.frontends import limits
from atonc.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.ops import evaluate, is_move

MAX_FOLDED_ELEMENTS = 1 << 22


class Builder:
    """Tensors and operators so far, and which tensor holds the value of each ONNX name."""

    def __init__(self, readers: Mapping[str, int], outputs: Sequence[str]) -> None:
        self.readers = Counter(readers)  # how many nodes read a name
        self.outputs = set(outputs)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.holder: dict[str, str] = {}  # ONNX name -> tensor that holds its (real) value
        self.held: dict[str, list[str]] = {}  # tensor -> ONNX names
        self.writer: dict[str, int] = {}  # tensor -> index of its operator
        self.half_bytes: set[str] = set()  # constants of 4 bits
        self.codes: set[str] = set()  # ONNX names that mean codes, where others mean the numbers behind them

    def value(self, name: str) -> Tensor:
        if name not in self.holder:
            raise ModelError(f"{name!r} is used before it is computed", rule="nodes come in the order of execution")
        return self.tensors[self.holder[name]]

    def add_tensor(self, tensor: Tensor) -> Tensor:
        name = tensor.name
        while name in self.tensors:
            name += "'"
        limits.shape(tensor.shape, name)
        limits.count(len(self.tensors), limits.MAX_TENSORS, "tensors")
        self.tensors[name] = tensor = replace(tensor, name=name)
        return tensor

    def bind(self, name: str, tensor: Tensor) -> None:
        if name in self.holder:
            raise ModelError(f"{name!r} is computed twice", rule="every value has one producer")
        self._hold(name, tensor)

    def _hold(self, name: str, tensor: Tensor) -> None:
        self.holder[name] = tensor.name
        self.held.setdefault(tensor.name, []).append(name)

    def constant(self, name: str, data: Array, quant: Quantisation | None = None) -> Tensor:
        return self.add_tensor(Tensor(name, data.shape, data.dtype.name, quant, data))

    def emit(
        self, kind: str, node: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> list[Tensor]:
        """Adds an operator, or its result if all inputs are constants."""
        made = [self.add_tensor(tensor) for tensor in outputs]
        op = Op(
            kind, node, tuple("" if t is None else t.name for t in inputs), tuple(t.name for t in made), attrs, (node,)
        )
        limits.count(len(self.ops), limits.MAX_OPS, "operators")
        if self._foldable(inputs, made):
            return self._fold(op, made)
        for tensor in made:
            self.writer[tensor.name] = len(self.ops)
        self.ops.append(op)
        return made

    def _foldable(self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> bool:
        constant = all(tensor is None or tensor.is_constant for tensor in inputs)
        return constant and sum(tensor.elements for tensor in outputs) <= MAX_FOLDED_ELEMENTS

    def _fold(self, op: Op, outputs: Sequence[Tensor]) -> list[Tensor]:
        scratch = Graph(self.tensors, (), (), ())
        results = evaluate(scratch, op, [self.tensors[name].data if name else None for name in op.inputs])
        folded = []
        for tensor, result in zip(outputs, results, strict=True):
            data = result.codes.astype(tensor.dtype).reshape(tensor.shape)
            self.tensors[tensor.name] = replace(tensor, data=data)
            folded.append(self.tensors[tensor.name])
        return folded

    # --- quantisation ------------------------------------------------------------------------------------------

    def give_quantisation(self, name: str, quant: Quantisation, node: str) -> Tensor:
        """The quantised tensor behind an integer value; its format must be the same for all readers."""
        tensor = self.value(name)
        if tensor.is_float or tensor.dtype == "bool":
            raise ModelError(f"{name!r} holds {tensor.dtype}, not codes", where=node)
        if tensor.quant is None:
            if tensor.is_constant and self.readers[name] > 1:  # shared by readers with other scales
                return self.constant(f"{tensor.name}@{node}", tensor.data, quant)  # type: ignore[arg-type]
            self.tensors[tensor.name] = tensor = replace(tensor, quant=quant)
        elif not tensor.quant.same_as(quant):
            raise UnsupportedError(f"{name!r} is read with another scale than it was written with", where=node)
        return tensor

    def quantise(self, source: str, target: str, dtype: str, quant: Quantisation, node: str) -> None:
        """QuantizeLinear: the producer writes codes at once if nobody else wants the real value."""
        self.codes.add(target)
        x = self.value(source)
        index = self.writer.get(x.name)
        alone = self.readers[source] == 1 and source not in self.outputs and not self._is_shared(x)
        if index is not None and alone and (x.is_float or self._passes_codes(self.ops[index])):
            self._rewrite_output(index, x, Tensor(target, x.shape, dtype, quant), target, node)
            return
        made = self.emit("quantize", node, [x], [Tensor(target, x.shape, dtype, quant)], {})
        self.bind(target, made[0])

    @staticmethod
    def _passes_codes(op: Op) -> bool:
        """True if the operator kept the format of its input only because it did not know better."""
        return is_move(op.kind) or op.kind == "max_pool"

    def _is_shared(self, tensor: Tensor) -> bool:
        """True if other ONNX names are held by the same tensor."""
        return len(self.held.get(tensor.name, ())) > 1

    def _rewrite_output(self, index: int, old: Tensor, new: Tensor, target: str, node: str) -> None:
        op = self.ops[index]
        made = self.add_tensor(new)
        outputs = tuple(made.name if name == old.name else name for name in op.outputs)
        self.ops[index] = replace(op, outputs=outputs, origin=(*op.origin, node))
        self.writer[made.name] = index
        del self.tensors[old.name], self.writer[old.name]
        self.bind(target, made)
        for name in self.held.pop(old.name, []):
            self._hold(name, made)

    def finish(self, inputs: Sequence[str], name: str) -> Graph:
        """Graph outputs keep their ONNX names and are float where the file says so."""
        results = []
        for output in sorted(self.outputs):
            tensor = self.value(output)
            if tensor.quant is not None and self._is_real_output(output):
                real = Tensor(output if output not in self.tensors else f"{output}:real", tensor.shape, "float32")
                tensor = self.emit("dequantize", f"dequantize {output}", [tensor], [real], {})[0]
            if tensor.is_constant:
                tensor = self._written(output, tensor)
            results.append((output, tensor.name))
        order = {output: tensor for output, tensor in results}
        used = {n for op in self.ops for n in (*op.inputs, *op.outputs)} | set(order.values()) | set(inputs)
        tensors = {n: t for n, t in self.tensors.items() if n in used}
        aliases = {n: held for n, held in self.holder.items() if n != held and held in tensors}
        outputs = tuple(order[o] for o in self.output_order)
        return Graph(tensors, tuple(self.ops), tuple(inputs), outputs, name, "onnx", aliases=aliases)

    def _written(self, output: str, tensor: Tensor) -> Tensor:
        """A constant that is a result needs an operator that writes it."""
        if not tensor.is_float:
            raise UnsupportedError(f"the output {output!r} is a constant", remedy="remove it from the outputs")
        made = self.add_tensor(replace(tensor, name=f"{output}:written", data=None))
        node = f"write {output}"
        self.ops.append(Op("identity", node, (tensor.name,), (made.name,), {}, (node,)))
        return made

    def _is_real_output(self, output: str) -> bool:
        return output in self.float_outputs or (output in self.untyped_outputs and output not in self.codes)

    float_outputs: frozenset[str] = frozenset()
    untyped_outputs: frozenset[str] = frozenset()
    output_order: tuple[str, ...] = ()


def per_tensor_or_axis(scales: Array, zero_points: Array | None, axis: int, rank: int, node: str) -> Quantisation:
    with np.errstate(invalid="ignore"):
        scale = scales.astype(np.float64).reshape(-1)
    if zero_points is not None and zero_points.dtype.kind not in "iu":
        raise UnsupportedError(f"zero points of type {zero_points.dtype}", where=node, rule="zero points are integers")
    zero = np.zeros(scale.size, np.int64) if zero_points is None else zero_points.astype(np.int64).reshape(-1)
    if zero.size == 1 and scale.size > 1:
        zero = np.repeat(zero, scale.size)
    if scale.size != zero.size or scales.ndim > 1:
        raise UnsupportedError("scales and zero points of different or blocked shapes", where=node)
    if scale.size == 1:
        return Quantisation(scale, zero)
    if not -rank <= axis < rank:
        raise ModelError(f"quantisation axis {axis} of a tensor with {rank} dimensions", where=node)
    return Quantisation(scale, zero, axis % rank)
