"""Which function computes which kind of operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.rounding import is_counted, rounding_of
from atonc.compiler.ops.values import Arg, ConvSums, OpCall, OpResult, Real, finish, same_codes, to_codes
from atonc.machine.base.errors import UnsupportedError

Filed = TypeVar("Filed")
RealKernel = Callable[[OpCall], Sequence[Real | ConvSums]]
CountKernel = Callable[[OpCall], Real]
MoveKernel = Callable[[OpCall, list[Array]], list[Array]]
CodeKernel = Callable[[OpCall], list[Array]]

_real: dict[str, RealKernel] = {}
_count: dict[str, CountKernel] = {}
_move: dict[str, tuple[MoveKernel, int | None]] = {}
_code: dict[str, CodeKernel] = {}


def filed(table: dict[str, Filed], *keys: str) -> Callable[[Filed], Filed]:
    """Files a function in a table under these keys."""

    def register(function: Filed) -> Filed:
        table.update(dict.fromkeys(keys, function))
        return function

    return register


def computes(*kinds: str) -> Callable[[RealKernel], RealKernel]:
    """Registers a kernel that returns real numbers, or the sums that they follow from."""
    return filed(_real, *kinds)


def counts(*kinds: str) -> Callable[[CountKernel], CountKernel]:
    """Registers a kernel in whole numbers beside the exact one: codes of the output, without its zero point."""
    return filed(_count, *kinds)


def moves(*kinds: str, data_inputs: int | None = None) -> Callable[[MoveKernel], MoveKernel]:
    """Registers a kernel that only moves values: it sees its (first) data inputs already in codes of the output."""

    def register(kernel: MoveKernel) -> MoveKernel:
        _move.update(dict.fromkeys(kinds, (kernel, data_inputs)))
        return kernel

    return register


def kinds() -> frozenset[str]:
    return frozenset(_real) | frozenset(_move) | frozenset(_code)


def runs(*kinds: str) -> Callable[[CodeKernel], CodeKernel]:
    """Registers what gives the codes themselves, as memory holds them."""
    return filed(_code, *kinds)


def is_move(kind: str) -> bool:
    return kind in _move


def moved_inputs(kind: str) -> int | None:
    """How many of its first inputs a move moves (None: all); the others say where to. Any other operator has one."""
    return _move[kind][1] if kind in _move else 1


def evaluate(graph: Graph, op: Op, values: Sequence[Array | None]) -> list[OpResult]:
    """Runs one operator on the values of its inputs (None for an absent optional one)."""
    args = tuple(
        None if value is None or not name else Arg(graph.tensors[name], value)
        for name, value in zip(op.inputs, values, strict=True)
    )
    call = OpCall(op, args, tuple(graph.tensors[name] for name in op.outputs))
    with np.errstate(all="ignore"):  # infinities saturate like any other value
        if op.kind in _real:
            tensors = [arg.tensor for arg in args if arg is not None]
            rounding = rounding_of(op, tensors, call.out)
            reals = zip(_real[op.kind](call), call.outputs, strict=True)
            results = [finish(real, tensor, rounding) for real, tensor in reals]
            if is_counted(op, tensors, call.out):
                results = [replace(results[0], codes=to_codes(_count[op.kind](call), call.out))]
        elif op.kind in _move:
            results = _run_move(call, *_move[op.kind])
        elif op.kind in _code:
            results = [OpResult(codes) for codes in _code[op.kind](call)]
        else:
            raise UnsupportedError(f"operator {op.kind} has no reference kernel", where=op.name)
        # a fused activation of the canonical graph: `clip` = (low, high) in codes of the output
        return [result.clipped(*op.attrs["clip"]) for result in results] if "clip" in op.attrs else results


def _run_move(call: OpCall, kernel: MoveKernel, data_inputs: int | None) -> list[OpResult]:
    if all(same_codes(call.out, other) for other in call.outputs[1:]):
        return _moved_to(call.out, call, kernel, data_inputs)
    # parts in formats of their own
    return [_moved_to(tensor, call, kernel, data_inputs)[number] for number, tensor in enumerate(call.outputs)]


def _moved_to(target: Tensor, call: OpCall, kernel: MoveKernel, data_inputs: int | None) -> list[OpResult]:
    """All outputs in the format of this tensor."""
    data = [arg for arg in call.args[:data_inputs] if arg is not None]
    if all(same_codes(arg.tensor, target) for arg in data):
        return [OpResult(moved) for moved in kernel(call, [arg.codes for arg in data])]
    converted = [finish(arg.real, target) for arg in data]
    codes = kernel(call, [value.codes for value in converted])

    def unrounded(number: int) -> Real:
        return kernel(call, [value.exact for value in converted])[number]

    return [OpResult(moved, partial(unrounded, number)) for number, moved in enumerate(codes)]
