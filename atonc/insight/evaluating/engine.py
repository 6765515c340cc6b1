"""A compiled program as plain functions on batches: bit for bit what the emulator computes, without its registers.

Each operator on the NPU does what its recipe has explained (`atonc.compiler.lower.semantics`), each one on the CPU what
its kernel does. Common ones have a fast form; the others run as they are explained, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.inputs.inputs import program_inputs, real
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.binary import TwoOperands
from atonc.compiler.lower.elementwise.two_streams import Operand
from atonc.compiler.lower.pool.recipe import geometry_of
from atonc.compiler.lower.semantics.arithmetic import CODES, looked_up
from atonc.compiler.lower.semantics.operators import changed
from atonc.compiler.lower.semantics.run import mapped_op
from atonc.compiler.lower.semantics.sums import Layered
from atonc.compiler.ops import run_op
from atonc.compiler.ops.curves import curve_of
from atonc.compiler.ops.registry import evaluate, is_move
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.verify.emulation import stored_type
from atonc.insight.evaluating.layer_kernel import LayerKernel
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled


Kernel = Callable[[Sequence[Array | None]], list[Array]]  # [samples, ...] each; constants without samples

RENAMINGS = ("reshape", "squeeze", "expand_dims", "flatten", "identity")
BY_PLACES = ("transpose", "resize_nearest")
_TABLES = ("table", "requantize", "uint8_to_int8", "int8_to_uint8")
_CPU_TABLES = ("dequantize",)


@dataclass(frozen=True, eq=False)
class OneCode:
    """`table`: answers by the byte that a code is in memory; [256], or [256, channels] by the last axis."""

    table: Array

    def __call__(self, codes: Array) -> Array:
        index = codes.view(np.uint8)
        if self.table.ndim == 1:
            return self.table.take(index)
        channels = self.table.shape[1]
        return self.table.reshape(-1).take(index.astype(np.intp) * channels + np.arange(channels))


def by_byte(answers: Array, signed: bool = True) -> Array:
    """Answers in the order of the codes, in the order of their bytes."""
    return np.ascontiguousarray(np.roll(answers, -128, axis=0) if signed else answers)


class TwoCodes:
    """Both operands change, or one is a constant: a table of all pairs where both have 8 bits."""

    def __init__(self, meaning: TwoOperands, out_type: np.dtype[Any]) -> None:
        self.meaning, self.out_type = meaning, out_type
        op, context = meaning.op, meaning.context
        self.shape = context.tensor(op.outputs[0]).shape
        self.operands = [_OperandReader(operand, meaning) for operand in meaning.operands]
        self.table: Array | None = None
        if all(reader.small for reader in self.operands):
            x, y = (reader.answers for reader in self.operands)
            table = meaning.clipped(x[:, None], y[None, :]).astype(out_type)
            self.table = by_byte(by_byte(table).T).T.reshape(-1)

    def __call__(self, values: Sequence[Array | None]) -> Array:
        given = dict(zip(self.meaning.op.inputs, values, strict=True))
        samples = next(len(given[r.name]) for r in self.operands if r.name)  # type: ignore[arg-type]
        x, y = (reader.numbers(given, self.table is not None) for reader in self.operands)
        shape = (samples, *self.shape)
        if self.table is None:
            found = self.meaning.clipped(np.broadcast_to(x, shape), np.broadcast_to(y, shape))
            return found.astype(self.out_type)
        index = x.view(np.uint8).astype(np.uint16)
        index <<= 8
        index = index | y.view(np.uint8)
        return np.broadcast_to(self.table.take(index), shape)


class _OperandReader:
    """One operand: a constant of the output's shape, or an input, perhaps through a table."""

    def __init__(self, operand: Operand, meaning: TwoOperands) -> None:
        context, rank = meaning.context, len(meaning.context.tensor(meaning.op.outputs[0]).shape)
        buffer = context.buffers[operand.buffer]
        self.operand, self.rank = operand, rank
        self.constant: Array | None = None
        self.name = ""
        if buffer.kind == BufferKind.CONSTANT:
            wide = operand.element_bytes == 2
            shape = context.tensor(meaning.op.outputs[0]).shape
            self.constant = np.frombuffer(buffer.data, "<i2" if wide else np.int8).reshape(shape)
            self.small = not wide
        else:
            self.name = operand.source or operand.buffer
            self.small = context.tensor(self.name).dtype == "int8"

    @property
    def answers(self) -> Array:
        """What each of the codes -128..127 stands for."""
        if self.constant is not None or self.operand.table is None:
            return CODES
        return looked_up(self.operand.table, CODES)

    def numbers(self, given: dict[str, Array | None], as_codes: bool) -> Array:
        if self.constant is not None:
            return self.constant[None]
        value = given[self.name]
        assert value is not None
        value = value.reshape(value.shape[0], *(1,) * (self.rank + 1 - value.ndim), *value.shape[1:])
        if as_codes or self.operand.table is None:
            return value
        return looked_up(self.operand.table, value)


_LOWEST = -128


class LargestCodes:
    """Down the columns first, then along the lines."""

    def __init__(self, op: Op, context: Context) -> None:
        x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
        self.geometry = geometry_of(op)
        self.picture = (1,) * (4 - len(x.shape)) + x.shape[1:]
        self.out = y.shape
        self.size = ((1,) * (4 - len(y.shape)) + y.shape[1:])[:2]
        self.change = requantised_codes(op, x, y)

    def __call__(self, codes: Array) -> Array:
        found = codes.reshape(codes.shape[0], *self.picture)
        for axis in (0, 1):
            found = self._along(found, axis)
        return self.change(found).reshape(codes.shape[0], *self.out)

    def _along(self, codes: Array, axis: int) -> Array:
        size, along = self.size[axis], axis + 1
        shape = list(codes.shape)
        shape[along] = size
        result = np.full(shape, _LOWEST, np.int8)
        for outputs, pixels in self.geometry.along(axis, codes.shape[along], size):
            left, right = [slice(None)] * 4, [slice(None)] * 4
            left[along], right[along] = outputs, pixels
            np.maximum(result[tuple(left)], codes[tuple(right)], out=result[tuple(left)])
        return result


class Engine:
    """A program, ready for any number of samples."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled, self.graph, self.context = compiled, compiled.graph, compiled.mapped.context
        on_cpu = compiled.mapped.reason_of
        last = {name: number for number, op in enumerate(self.graph.ops) for name in op.inputs}
        self.constants = {n: t.data for n, t in self.graph.tensors.items() if t.data is not None}
        self.steps: list[tuple[Op, Kernel, list[str]]] = []  # with the tensors that nobody needs any more
        for number, op in enumerate(self.graph.ops):
            kernel = cpu_kernel(self.graph, op) if op.name in on_cpu else npu_kernel(self.context, op)
            done = (n for n in dict.fromkeys(op.inputs) if n and last[n] == number and n not in self.constants)
            self.steps.append((op, kernel, [n for n in done if n not in self.graph.outputs]))

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        """Outputs by name from inputs by name, all [samples, ...] and in the program's own number formats. `observe`:
        all tensors."""
        samples = len(next(iter(inputs.values())))
        values = {n: np.ascontiguousarray(inputs[n], self._type(n)) for n in self.graph.inputs}
        for op, kernel, done in self.steps:
            given = [self.constants[n] if n in self.constants else values[n] if n else None for n in op.inputs]
            for name, result in zip(op.outputs, kernel(given), strict=True):
                if name:
                    codes = result.astype(self._type(name), copy=False)
                    values[name] = codes if len(codes) == samples else np.repeat(codes, samples, axis=0)  # of constants
            if not observe:
                for name in done:
                    values.pop(name, None)
        for name in self.graph.outputs if not observe else ():
            if name not in values:  # a constant
                values[name] = np.repeat(self.constants[name].astype(self._type(name))[None], samples, axis=0)
        return values if observe else {name: values[name] for name in self.graph.outputs}

    def outputs(self, samples: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """Real values of the outputs, sample by sample, from inputs as the model takes them."""
        given = [program_inputs(self.compiled, sample) for sample in samples]
        return self._reals(self.run({name: np.stack([one[name] for one in given]) for name in self.graph.inputs}))

    def last_outputs(self, sequences: Sequence[Sequence[Mapping[str, Array]]]) -> list[list[Array]]:
        """The same of sequences of one length, each from first states on: outputs of the last frame."""
        kept = [one for one in self.graph.states if one.kept]
        states = {one.input: np.stack([one.first] * len(sequences)) for one in kept}
        got: dict[str, Array] = {}
        for frames in zip(*sequences, strict=True):
            given = [program_inputs(self.compiled, frame) for frame in frames]
            got = self.run({name: np.stack([one[name] for one in given]) for name in self.graph.inputs} | states)
            states = {one.input: got[one.output] for one in kept}
        return self._reals(got)

    def _reals(self, got: Mapping[str, Array]) -> list[list[Array]]:
        """By sample."""
        tensors = [self.graph.tensors[name] for name in self.graph.frame_outputs]
        samples = len(next(iter(got.values())))
        reals = [got[t.name] if t.quant is None else real(t, got[t.name]) for t in tensors]
        return [[value[k] for value in reals] for k in range(samples)]

    def _type(self, name: str) -> np.dtype[Any]:
        return stored_type(self.graph.tensors[name])


def npu_kernel(context: Context, op: Op) -> Kernel:
    meaning = context.semantics.get(op.name)
    if meaning is None and context.tensor(op.outputs[0]).is_float:
        return cpu_kernel(context.graph, op)  # real numbers that are moved byte by byte
    out_type = stored_type(context.tensor(op.outputs[0]))
    changing = [n for n in op.inputs if n and not context.tensor(n).is_constant]
    if len(changing) == 0:
        return sample_by_sample(context.graph, op, lambda values: mapped_op(context, op, values))
    source = context.tensor(changing[0])
    place = op.inputs.index(changing[0])
    if meaning is not None and isinstance(meaning.codes, Layered) and source.dtype != "int16":
        return of_one(LayerKernel(meaning.codes, source.elements), place)
    if meaning is not None and op.kind in _TABLES and source.dtype in ("int8", "uint8"):
        signed = source.dtype == "int8"
        given = [CODES + (0 if signed else 128) if n == changing[0] else context.tensor(n).data for n in op.inputs if n]
        table = np.asarray(meaning.codes(given)[0]).astype(out_type)
        return of_one(shaped(OneCode(by_byte(table, signed)), context.tensor(op.outputs[0]).shape), place)
    if meaning is not None and isinstance(meaning.codes, TwoOperands):
        two = TwoCodes(meaning.codes, out_type)
        return lambda values: [two(values)]
    if meaning is not None and op.kind == "max_pool" and source.dtype in ("int8", "uint8"):
        return of_one(LargestCodes(op, context), place)
    if meaning is None and (is_move(op.kind) or op.kind == "identity"):
        found = move_kernel(op, context)
        if found is not None:
            return found
    return sample_by_sample(context.graph, op, lambda values: mapped_op(context, op, values))


def cpu_kernel(graph: Graph, op: Op) -> Kernel:
    source, out = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    plain = source.data is None and source.quant is not None and source.quant.is_per_tensor
    if op.kind in _CPU_TABLES and plain and source.dtype in ("int8", "uint8"):
        codes = (CODES if source.dtype == "int8" else CODES + 128).astype(source.dtype)
        answers = run_op(graph, op, {op.inputs[0]: codes})[0].codes.astype(stored_type(out))
        return of_one(shaped(OneCode(by_byte(answers, source.dtype == "int8")), out.shape), 0)
    curve = curve_of(op, graph)
    if curve is not None:
        return of_one(shaped(lambda codes: curve(codes).astype(np.int16), out.shape), 0)
    return sample_by_sample(graph, op, lambda values: [result.codes for result in run_op(graph, op, values)])


def move_kernel(op: Op, context: Context) -> Kernel | None:
    """Makes a kernel for the commonest moves, requantised on the way where formats differ; None: the operator goes
    sample by sample."""
    joins, out = op.kind == "concat", context.tensor(op.outputs[0])
    sources = [context.tensor(name) for name in (op.inputs if joins else op.inputs[:1])]
    if any(tensor.dtype != "int8" or tensor.data is not None for tensor in (*sources, out)):
        return None
    changes = [requantised_codes(op, source, out) for source in sources]
    if joins:
        axis = op.attrs["axis"] % len(out.shape) + 1
        return lambda values: [
            np.concatenate([change(v) for change, v in zip(changes, values, strict=True) if v is not None], axis)
        ]
    if op.kind in RENAMINGS:
        return of_one(shaped(changes[0], out.shape), 0)
    if op.kind in BY_PLACES:
        places = _places(op, context)

        def moved(codes: Array) -> Array:
            return changes[0](codes).reshape(codes.shape[0], -1).take(places, axis=1)

        return of_one(shaped(moved, out.shape), 0)
    return None


def requantised_codes(op: Op, source: Tensor, target: Tensor) -> Callable[[Array], Array]:
    table = changed(op, source, target)(CODES).astype(np.int8)
    return (lambda codes: codes) if np.array_equal(table, CODES) else OneCode(by_byte(table))


def _places(op: Op, context: Context) -> NDArray[np.intp]:
    """Where each element of the output comes from: the operator on numbers instead of codes."""
    source, target = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    plain = replace(op, attrs={k: v for k, v in op.attrs.items() if k != "clip"})
    counted = {tensor.name: replace(tensor, dtype="int32", quant=None) for tensor in (source, target)}
    numbers = np.arange(source.elements, dtype=np.int32).reshape(source.shape)
    rest = [context.tensor(name).data if name else None for name in op.inputs[1:]]
    graph = replace(context.graph, tensors={**context.graph.tensors, **counted})
    return evaluate(graph, plain, [numbers, *rest])[0].codes.reshape(-1).astype(np.intp)


def of_one(kernel: Callable[[Array], Array], place: int) -> Kernel:
    def run(values: Sequence[Array | None]) -> list[Array]:
        value = values[place]
        assert value is not None
        return [kernel(np.ascontiguousarray(value))]

    return run


def shaped(kernel: Callable[[Array], Array], shape: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda codes: kernel(codes).reshape(codes.shape[0], *shape)


def sample_by_sample(graph: Graph, op: Op, run: Callable[[Mapping[str, Array]], Sequence[Array]]) -> Kernel:
    types = [stored_type(graph.tensors[name]) for name in op.outputs]
    changing = {n for n in op.inputs if n and graph.tensors[n].data is None}

    def all_samples(values: Sequence[Array | None]) -> list[Array]:
        given = {n: v for n, v in zip(op.inputs, values, strict=True) if n and v is not None}
        samples = len(given[next(iter(changing))]) if changing else 1
        found = [run({n: v[k] if n in changing else v for n, v in given.items()}) for k in range(samples)]
        return [np.stack([np.asarray(one[n]).astype(t) for one in found]) for n, t in enumerate(types)]

    return all_samples
