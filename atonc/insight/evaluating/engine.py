"""A compiled program as plain functions on batches: bit for bit what the emulator computes, without its registers.

Each operator on the NPU does what its recipe has explained (`atonc.compiler.lower.semantics`), each one on the CPU what
its kernel does. The common ones have a fast form in `kernels`; the others run as they are explained, sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array, Graph, Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.binary import TwoOperands
from atonc.compiler.lower.semantics.arithmetic import CODES
from atonc.compiler.lower.semantics.run import mapped_op
from atonc.compiler.lower.semantics.sums import Layered
from atonc.compiler.ops import run_op
from atonc.compiler.ops.registry import is_move
from atonc.compiler.verify.emulation import stored_type
from atonc.insight.evaluating.kernels.codes import OneCode, TwoCodes, by_byte
from atonc.insight.evaluating.kernels.moves import move_kernel
from atonc.insight.evaluating.kernels.pools import LargestCodes
from atonc.insight.evaluating.kernels.sums import LayerKernel
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled

Kernel = Callable[[Sequence[Array | None]], list[Array]]  # [samples, ...] each; constants without samples

_TABLES = ("table", "requantize", "uint8_to_int8", "int8_to_uint8")
_CPU_TABLES = ("dequantize",)


@dataclass(frozen=True, eq=False)
class EngineStep:
    op: Op
    kernel: Kernel
    last_use: tuple[str, ...]  # tensors that nobody needs any more


class Engine:
    """A program, ready for any number of samples."""

    def __init__(self, compiled: Compiled) -> None:
        self.graph, self.context = compiled.graph, compiled.mapped.context
        on_cpu = compiled.mapped.on_cpu
        last = {name: number for number, op in enumerate(self.graph.ops) for name in op.inputs}
        self.constants = {n: t.data for n, t in self.graph.tensors.items() if t.data is not None}
        self.steps = []
        for number, op in enumerate(self.graph.ops):
            kernel = cpu_kernel(self.graph, op) if op.name in on_cpu else npu_kernel(self.context, op)
            done = (n for n in dict.fromkeys(op.inputs) if n and last[n] == number and n not in self.constants)
            self.steps.append(EngineStep(op, kernel, tuple(n for n in done if n not in self.graph.outputs)))

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        """Outputs by name from inputs by name, all [samples, ...] and in the program's own number formats. `observe`:
        all tensors."""
        samples = len(next(iter(inputs.values())))
        values = {n: np.ascontiguousarray(inputs[n], self._type(n)) for n in self.graph.inputs}
        for step in self.steps:
            given = [self.constants[n] if n in self.constants else values[n] if n else None for n in step.op.inputs]
            for name, result in zip(step.op.outputs, step.kernel(given), strict=True):
                if name:
                    codes = result.astype(self._type(name), copy=False)
                    values[name] = codes if len(codes) == samples else np.repeat(codes, samples, axis=0)  # of constants
            if not observe:
                for name in step.last_use:
                    values.pop(name, None)
        wanted = values if observe else self.graph.outputs
        return {name: self._output(name, values, samples) for name in wanted}

    def _output(self, name: str, values: Mapping[str, Array], samples: int) -> Array:
        if name in values:
            return values[name]
        return np.repeat(self.constants[name].astype(self._type(name))[None], samples, axis=0)

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
    return sample_by_sample(graph, op, lambda values: [result.codes for result in run_op(graph, op, values)])


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
