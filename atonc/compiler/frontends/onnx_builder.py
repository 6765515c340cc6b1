"""The graph while an ONNX file is being read, and one of its nodes: typed access to attributes, inputs and constants.

ONNX says DequantizeLinear - operator - QuantizeLinear where we say one operator on quantised tensors. Both sides are
fused while reading: a dequantised value *is* its quantised tensor (every kernel computes on real numbers anyway), and a
quantised result replaces the float one if nobody else reads that. What cannot be fused stays a float operator.

An integer of a file is a code with a scale, or a number. Codes are known by their QuantizeLinear, or only later by the
DequantizeLinear that reads them; between the two they may be moved (Transpose, Reshape, Pad, MaxPool). Whatever else
reads them computes with the integers themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.custom_file import code_format, unlike
from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.compiler.ir.types import FLOAT_TYPES, check_shape, circle
from atonc.compiler.ops import evaluate, is_move, moved_inputs
from atonc.compiler.ops.custom import OPERATOR, may_give
from atonc.compiler.ops.recurrent import READ_AGAIN
from atonc.compiler.ops.registry import filed
from atonc.compiler.ops.rounding import ATTRIBUTE, TO_EVEN
from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.ops.values import same_codes
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.base.user_c import CustomOperator, CustomOutput

MAX_FOLDED_ELEMENTS = 1 << 22
CODED = ("int8", "uint8", "int16")  # what QuantizeLinear makes, and never takes
MOST_TOLD = 4  # inputs whose value somebody might give


class Builder:
    """Tensors and operators so far, and which tensor holds the value of each ONNX name."""

    def __init__(self, readers: Mapping[str, int], outputs: Sequence[str]) -> None:
        self.readers = Counter(readers)  # how many nodes read a name
        self.outputs = set(outputs)
        self.tensors: dict[str, Tensor] = {}
        self.taken = Counter[str]()
        self.ops: list[Op] = []
        self.holder: dict[str, str] = {}  # ONNX name -> tensor that holds its (real) value
        self.held: dict[str, list[str]] = {}  # tensor -> ONNX names
        self.writer: dict[str, int] = {}  # tensor -> index of its operator
        self.read_by: dict[str, list[int]] = {}  # tensor -> indices of operators
        self.turns = 0  # of all loops, which are written out
        self.half_bytes: set[str] = set()  # constants of 4 bits
        self.codes: set[str] = set()  # ONNX names that mean codes, where others mean the numbers behind them
        self.given = set[str]()  # inputs of the model
        self.plain: dict[str, Tensor] = {}  # quantised tensor -> its codes as numbers

    def value(self, name: str) -> Tensor:
        if name not in self.holder:
            raise self._without_source(name)
        return self.tensors[self.holder[name]]

    def late(self, what: str, *names: str) -> UnsupportedError:
        """What has to be known when the model is compiled depends on these values: which inputs would decide it."""
        waiting, seen = [self.value(name).name for name in names if name], dict[str, None]()
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen[name] = None
                waiting += self.ops[self.writer[name]].inputs if name in self.writer else ()
        inputs = sorted(self.given & seen.keys())
        told = ",".join(f"{name}=VALUE" for name in inputs)
        remedy = f"{limits.TELL} {told}" if 0 < len(inputs) <= MOST_TOLD else ""
        return UnsupportedError(what, remedy=remedy)

    def _without_source(self, name: str) -> ModelError:
        if name in self.computed:
            return circle(f"{name!r} waits for itself: its nodes are a circle")
        return ModelError(
            f"{name!r} has no source: no node computes it, and it is neither an input nor a constant",
            rule="every value comes from an input, a constant or a node",
            remedy="export the model again; whoever cut or cleaned it has left out a node or a constant",
        )

    def add_tensor(self, tensor: Tensor) -> Tensor:
        name, number = tensor.name, self.taken[tensor.name]  # thousands of one name in unrolled layers
        while name in self.tensors:
            number += 1
            name = f"{tensor.name}.{number + 1}"  # as a pass names what it adds
        self.taken[tensor.name] = number
        check_shape(tensor.shape, name)
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
        for name in op.inputs:
            self.read_by.setdefault(name, []).append(len(self.ops))
        self.ops.append(op)
        return made

    def renamed(self, tensor: Tensor, name: str) -> Tensor:
        """The same tensor under a name of the file, unless somebody knows it by now."""
        old = tensor.name
        if name in self.tensors or old in self.read_by or old in self.held:
            return tensor
        self.tensors[name] = made = replace(self.tensors.pop(old), name=name)
        if old in self.writer:
            index = self.writer[name] = self.writer.pop(old)
            outputs = tuple(name if output == old else output for output in self.ops[index].outputs)
            self.ops[index] = replace(self.ops[index], outputs=outputs)
        return made

    def touching(self, tensor: str) -> list[int]:
        """The operators that read or write a tensor."""
        return [*self.read_by.get(tensor, ()), *([self.writer[tensor]] if tensor in self.writer else ())]

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

    def give_quantisation(self, name: str, quant: Quantisation, node: str, dtype: str = "") -> Tensor:
        """The quantised tensor behind an integer value; other readers may know it by another format, or as numbers.
        `dtype`: of its codes, where the model says it."""
        tensor = self.value(name)
        require_as_declared(self, tensor, quant, dtype)
        if tensor.is_float or tensor.dtype == "bool" or (tensor.quant is not None and name not in self.codes):
            found = "float32" if tensor.quant is not None else tensor.dtype
            raise ModelError(f"{name!r} holds {found}, not codes", where=node)
        if tensor.quant is None and tensor.is_constant:
            if self.readers[name] > 1:  # shared by readers with other scales
                return self.constant(f"{tensor.name}@{node}", tensor.data, quant)  # type: ignore[arg-type]
            give_format(self, {tensor.name}, quant)
        elif tensor.quant is None:
            connected = unformatted(self, tensor) if quant.is_per_tensor else None
            if connected is None:
                return as_codes(self, tensor, quant, node)
            give_format(self, connected, quant)
        elif not tensor.quant.same_as(quant):
            return as_codes(self, tensor, quant, node)
        return self.tensors[tensor.name]

    def quantise(self, source: str, target: str, dtype: str, quant: Quantisation, node: str) -> None:
        """QuantizeLinear: the producer writes codes at once if nobody else wants the real value."""
        self.codes.add(target)
        x = self.value(source)
        index = self.writer.get(x.name)
        alone = self.readers[source] == 1 and source not in self.outputs and not self._is_shared(x)
        alone = alone and x.name not in self.read_by  # nor an operator that the same node became
        alone = alone and index is not None and self.ops[index].kind not in READ_AGAIN
        alone = alone and (index is None or may_give(self.ops[index], x.name, dtype))
        if x.quant is not None:
            require_as_declared(self, x, quant, dtype)
        coded = index is not None and self.ops[index].kind == "custom" and x.dtype in CODED and x.quant is None
        if index is not None and alone and (x.is_float or coded or passes_codes(self.ops[index])):
            self._rewrite_output(index, x, Tensor(target, x.shape, dtype, quant), target, node)
            return
        if coded:
            raise InputError(
                f"{source!r} is read by others than one QuantizeLinear to {x.dtype}",
                where=node,
                rule="C that is declared to give codes gives those of the QuantizeLinear behind it",
                remedy="declare the output as float32, or give it one QuantizeLinear of that type",
            )
        made = self.emit("quantize", node, [x], [Tensor(target, x.shape, dtype, quant)], {ATTRIBUTE: TO_EVEN})
        self.bind(target, made[0])

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

    def unquantised(self, tensor: Tensor) -> Tensor:
        """The real values behind codes as a tensor of their own; others stay as they are."""
        if tensor.quant is None:
            return tensor
        real = Tensor(f"{tensor.name}:real", tensor.shape, "float32")
        return self.emit("dequantize", f"dequantize {tensor.name}", [tensor], [real], {})[0]

    def finish(self, inputs: Sequence[str], name: str) -> Graph:
        """Graph outputs mean what their names mean: codes, or real values in float."""
        made = self._own_names(self._outputs_apart(), inputs)
        used = {n for op in self.ops for n in (*op.inputs, *op.outputs)} | set(made.values()) | set(inputs)
        tensors = {n: t for n, t in self.tensors.items() if n in used}
        aliases = {n: held for n, held in self.holder.items() if n != held and held in tensors}
        outputs = tuple(made[output] for output in self.output_types)
        notes = tuple(self._notes(made))
        return Graph(tensors, tuple(self.ops), tuple(inputs), outputs, name, "onnx", notes, aliases)

    def _own_names(self, made: dict[str, str], inputs: Sequence[str]) -> dict[str, str]:
        """Results are called what the file calls them, also where a node before them holds the value (If, Loop,
        Identity)."""
        own = {held: name for name, held in made.items() if name not in self.tensors and held not in inputs}
        for index, op in enumerate(self.ops):
            if not own.keys().isdisjoint((*op.inputs, *op.outputs)):
                read, written = (tuple(own.get(n, n) for n in side) for side in (op.inputs, op.outputs))
                self.ops[index] = replace(op, inputs=read, outputs=written)
        self.tensors = {own.get(n, n): replace(t, name=own[n]) if n in own else t for n, t in self.tensors.items()}
        self.holder = {n: own.get(held, held) for n, held in self.holder.items()} | own
        return {name: own.get(held, held) for name, held in made.items()}

    def _outputs_apart(self) -> dict[str, str]:
        """Every output is a tensor of its own: two names of one value (Identity) are two results."""
        made: dict[str, str] = {}
        for output in sorted(self.outputs):
            tensor = self._output(output)
            if tensor.name in made.values():
                tensor = self._written(output, tensor)
                self.holder[output] = tensor.name
            made[output] = tensor.name
        return made

    def _output(self, output: str) -> Tensor:
        tensor = self.value(output)
        declared = self.output_types[output]
        if tensor.quant is not None and output not in self.codes and declared is not None:
            dtype = declared if declared in FLOAT_TYPES else "float32"
            real = Tensor(output if output not in self.tensors else f"{output}:real", tensor.shape, dtype)
            tensor = self.emit("dequantize", f"dequantize {output}", [tensor], [real], {})[0]
        return self._written(output, tensor) if tensor.is_constant else tensor

    def _written(self, output: str, tensor: Tensor) -> Tensor:
        """A constant that is a result, and a result that is another one as well, need an operator that writes it."""
        name = f"{output}:written" if output in self.tensors else output
        made = self.add_tensor(replace(tensor, name=name, data=None))
        node = f"write {output}"
        self.ops.append(Op("identity", node, (tensor.name,), (made.name,), {}, (node,)))
        return made

    def _notes(self, outputs: Mapping[str, str]) -> Iterator[str]:
        for output, name in outputs.items():
            declared, dtype = self.output_types[output], self.tensors[name].dtype
            if declared not in (None, "", dtype):
                yield f"the output {output!r} is declared as {declared}, but its node gives {dtype}: it is {dtype}"

    computed: frozenset[str] = frozenset()  # ONNX names that nodes of the file give
    inlined = inlined_bytes = depth = 0  # nodes of inner graphs so far, bytes of their constants, how deep they are
    inline: Callable[[Any, str, Mapping[str, str]], list[str]]  # reads an inner graph; set by whoever reads the file
    stated: Mapping[str, tuple[int, ...]] = {}  # shapes that the file says of values
    custom: Mapping[str, CustomOperator] = {}  # C operators of the user, by kind
    # outputs in their order with the declared element type, "" where the file says none, None where the user cut
    output_types: Mapping[str, str | None] = {}


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


def passes_codes(op: Op) -> bool:
    """True if the result holds codes of the input, whatever their scale."""
    return is_move(op.kind) or op.kind == "max_pool"


def unformatted(builder: Builder, tensor: Tensor) -> set[str] | None:
    """All integers that moves connect with these, so that one format is for all of them; None if any of them is read
    or written as a number, or is a constant that others may read."""
    found, waiting = {tensor.name}, [tensor.name]
    while waiting:
        name = waiting.pop()
        if builder.tensors[name].is_constant or builder.tensors[name].quant is not None:
            return None
        for index in builder.touching(name):
            op = builder.ops[index]
            if op.kind == "custom":
                continue  # takes and gives codes as they are, whatever they mean
            if not passes_codes(op) or name in op.inputs[moved_inputs(op.kind) or len(op.inputs) :]:
                return None
            near = {*op.inputs[: moved_inputs(op.kind)], *op.outputs} - found - {""}
            found |= near
            waiting += sorted(near)
    return found


def give_format(builder: Builder, names: set[str], quant: Quantisation) -> None:
    for name in sorted(names):
        builder.tensors[name] = tensor = replace(builder.tensors[name], quant=quant)
        builder.codes.update(builder.held.get(name, ()))
        index = builder.writer.get(name)
        if index is not None and (op := builder.ops[index]).kind == "pad":
            # the padding was given as an integer, its attribute is a real value
            value = (op.attrs.get("value", 0.0) - tensor.zero_point) * tensor.scale
            builder.ops[index] = replace(op, attrs={**op.attrs, "value": value})


def numbers(builder: Builder, tensor: Tensor) -> Tensor:
    """The codes of a tensor as plain integers."""
    if tensor.name not in builder.plain:
        plain = Tensor(f"{tensor.name}:codes", tensor.shape, tensor.dtype)
        builder.plain[tensor.name] = builder.emit("cast", f"codes of {tensor.name}", [tensor], [plain], {})[0]
    return builder.plain[tensor.name]


def require_as_declared(builder: Builder, tensor: Tensor, quant: Quantisation, dtype: str) -> None:
    """Codes of C of the user are declared as what the model takes them for."""
    name, index = tensor.name, builder.writer.get(tensor.name)
    while index is not None and is_move(builder.ops[index].kind):
        name = builder.ops[index].inputs[0]
        index = builder.writer.get(name)
    if index is None or (op := builder.ops[index]).kind != "custom":
        return
    declared: CustomOutput = op.attrs[OPERATOR].outputs[op.outputs.index(name)]
    if dtype and declared.type != dtype:
        raise unlike(op.name, f"the model takes {name!r} for {dtype}, its declaration gives {declared.type}")
    told = Quantisation.per_tensor(declared.scale, declared.zero_point)
    if declared.scale and not told.same_as(quant):
        says = f"the model takes {name!r} for codes of {code_format(quant)}, its declaration of {code_format(told)}"
        raise unlike(op.name, says)


def as_codes(builder: Builder, tensor: Tensor, quant: Quantisation, node: str) -> Tensor:
    """Integers that were computed, or that have another format, taken as codes of this format."""
    plain = tensor if tensor.quant is None else numbers(builder, tensor)
    rank = len(plain.shape)
    zero, scale = (
        builder.constant(f"{node}:format", quant.along(values, rank).astype(np.float32))
        for values in (quant.zero_points, quant.scales)
    )
    centred = builder.emit("sub", node, [plain, zero], [Tensor(f"{node}:centred", plain.shape, "float32")], {})[0]
    kept = (plain.dtype, quant) if quant.is_per_tensor and plain.dtype in ("int8", "uint8") else ("float32", None)
    return builder.emit("mul", node, [centred, scale], [Tensor(f"{node}:codes", plain.shape, *kept)], {})[0]


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

    @property
    def computed(self) -> list[str]:
        """Inputs that other nodes compute when the model runs."""
        held = [name for name in self.inputs if name in self.builder.computed and name in self.builder.holder]
        return [name for name in held if self.builder.value(name).data is None]

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
            return numbers(self.builder, tensor)
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
            raise self.late(index, what)
        if tensor.quant is not None:
            return (tensor.data.astype(np.float64) - tensor.zero_point) * tensor.scale
        return tensor.data

    def late(self, index: int, what: str) -> UnsupportedError:
        return self.builder.late(f"{self.kind} with {what} computed at run time", self.inputs[index])

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

    def type_at(self, index: int) -> str:
        """The type of an input, such as a zero point; "" where there is none."""
        return self.input(index).dtype if self.has(index) else ""

    def codes(self, index: int, axis: int = 1, rank: int = 1) -> Tensor:
        """The codes of an input, which scale and zero point follow."""
        quant = self.quantisation(index + 1, index + 2, axis, rank)
        return self.builder.give_quantisation(self.inputs[index], quant, self.name, self.type_at(index + 2))

    def step(
        self,
        kind: str,
        *inputs: Tensor | None,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        quant: Quantisation | None = None,
        **attrs: Any,
    ) -> Tensor:
        """Emits an operator with one output. The type follows the inputs: movers keep codes, others give floats."""
        if shape is None:
            shape = infer_shape(kind, attrs, [tensor.shape for tensor in inputs if tensor is not None])
        if shape is None:
            raise UnsupportedError(f"the shape of {kind} is not known", where=self.name)
        if dtype is None:
            dtype, quant = self.type_of(kind, inputs)
            if kind in OVERFLOWING and dtype in NARROW and quant is None:
                return self._wrapped(self.step(kind, *inputs, shape=shape, dtype="int64", **attrs), dtype)
        made = Tensor(f"{self.outputs[0]}{STEP}", shape, dtype, quant)
        if not made.elements:  # such as what a rotation of all channels leaves as it was
            return self.builder.constant(made.name, np.empty(shape, dtype), quant)
        return self.builder.emit(kind, self.name, inputs, [made], attrs)[0]

    def reshaped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x if x.shape == shape else self.step("reshape", x, shape=shape)

    def sliced(self, x: Tensor, windows: Sequence[slice]) -> Tensor:
        """What Python's slices, one for each axis, leave of a tensor."""
        return self.step(
            "slice",
            x,
            shape=tuple(len(range(*window.indices(size))) for window, size in zip(windows, x.shape, strict=True)),
            starts=tuple(window.start for window in windows),
            stops=tuple(window.stop for window in windows),
            steps=tuple(1 if window.step is None else window.step for window in windows),
        )

    def _wrapped(self, wide: Tensor, dtype: str) -> Tensor:
        """Integers that do not fit begin again at the other end, as processors count."""
        limits = np.iinfo(dtype)
        low, size = (
            self.builder.constant(f"{self.name}:limits", np.array(value, np.int64))
            for value in (limits.min, int(limits.max) - int(limits.min) + 1)
        )
        above = self.step("floor_mod", self.step("sub", wide, low), size)
        return self.step("add", above, low, dtype=dtype)

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


Translator = Callable[[Node], Tensor | None]  # the first output, or nothing where it bound all of them itself
TRANSLATORS: dict[str, Translator] = {}


def translates(*kinds: str) -> Callable[[Translator], Translator]:
    return filed(TRANSLATORS, *kinds)
