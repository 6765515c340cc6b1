"""A program of ExecuTorch (.pte) as far as delegates of ours matter: its method `forward`, call by call, and what
delegates hold. Nothing of ExecuTorch is needed; every offset is checked before it is followed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import field
from math import prod

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.tflite_file import FlatTable, root
from atonc.machine.base.errors import ModelError, UnsupportedError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import listed

BACKEND = "AtonBackend"
_METHOD = "forward"
_IDENTIFIER = b"ET12"
# behind the identifier: magic, its own size, end of the tables, start of the segments
_SEGMENTS = struct.Struct("<8x4sIQQ")
_MOST_DELEGATES, _MOST_RANK = 64, 16
_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
_KERNEL, _DELEGATE, _FREE = 1, 2, 5  # kinds of instructions
_CONTROL = {3: "move", 4: "jump"}
_TENSOR = 5  # kind of value


class _Program:
    METHODS, INLINE, SEGMENTS = 1, 3, 4


class _Method:
    NAME, VALUES, INPUTS, OUTPUTS, CHAINS, OPERATORS, DELEGATES = 0, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True)
class PteTensor:
    dtype: str  # empty where it is none of ours
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype or 'unknown'} {'x'.join(map(str, self.shape))}"


@dataclass(frozen=True)
class PteCall:
    operator: str
    delegate: int | None  # its number, where it is one
    values: tuple[int, ...]  # inputs, then outputs


@dataclass(frozen=True)
class Delegate:
    backend: str
    data: memoryview = field(repr=False)


@dataclass(frozen=True)
class PteProgram:
    tensors: Mapping[int, PteTensor]  # by value
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    calls: tuple[PteCall, ...]
    delegates: tuple[Delegate, ...]

    @property
    def beside(self) -> tuple[str, ...]:
        """Operators of calls that no delegate takes."""
        return tuple(call.operator for call in self.calls if call.delegate is None)

    def input_name(self, k: int) -> str:
        return f"input_{k}"

    def output_name(self, k: int) -> str:
        return f"output_{k}"


def read_pte(data: bytes) -> PteProgram:
    """Refuses what has no delegate of ours, or one of somebody else."""
    program = root(data, _IDENTIFIER)
    methods = program.tables(_Program.METHODS)
    names = [plain(one.text(_Method.NAME)[:100]) for one in methods[:_MOST_DELEGATES]]
    if names.count(_METHOD) != 1:
        raise UnsupportedError(f"its methods are {listed(names) or 'none'}", rule=f"of a .pte {_METHOD} is read")
    method = methods[names.index(_METHOD)]
    found = tuple(_delegates(data, program, method))
    ours = [one for one in found if one.backend == BACKEND]
    others = sorted({one.backend for one in found if one.backend != BACKEND})
    if others or not ours:
        raise UnsupportedError(
            f"it has delegates for {listed(others)}" if others else "no part of it is a delegate for the NPU",
            rule=f"atonc knows the delegates of {BACKEND} only",
            remedy="export it with AtonPartitioner alone: to_edge_transform_and_lower(program, "
            "partitioner=[AtonPartitioner()])",
        )
    tensors = _tensors(method)
    made = PteProgram(tensors, _numbers(method, _Method.INPUTS), _numbers(method, _Method.OUTPUTS),
                      tuple(_calls(method, len(found))), found)  # fmt: skip
    operands = (k for call in made.calls if call.delegate is not None for k in call.values)
    for value in (*made.inputs, *made.outputs, *operands):
        if value not in tensors or not tensors[value].dtype:
            raise UnsupportedError("is no tensor of numbers", where=f"value {value}", rule="inputs, outputs and "
                                   "operands of delegates are tensors")  # fmt: skip
    return made


def _numbers(table: FlatTable, number: int) -> tuple[int, ...]:
    found = table.array(number, "<i4")
    limits.count(len(found), limits.MAX_OPERANDS, "operands")
    return tuple(map(int, found))


def _tensors(method: FlatTable) -> dict[int, PteTensor]:
    values = method.tables(_Method.VALUES)
    limits.count(len(values), limits.MAX_TENSORS, "values")
    found = {}
    for k, value in enumerate(values):
        tensor = value.table(1) if value.uint8(0) == _TENSOR else None
        if tensor is not None:
            sizes, order = tensor.array(2, "<i4"), tensor.array(3, "u1")
            limits.count(len(sizes), _MOST_RANK, "axes")
            shape = tuple(map(int, sizes))
            if any(size < 0 for size in shape) or prod(shape) > limits.MAX_TOTAL_CONSTANT_BYTES:
                raise ModelError(f"its sizes are {shape}", where=f"value {k}")
            in_order = order.tolist() == list(range(len(shape)))
            found[k] = PteTensor(_TYPES.get(tensor.int8(0), "") if in_order else "", shape)
    return found


def _calls(method: FlatTable, delegates: int) -> list[PteCall]:
    chains = method.tables(_Method.CHAINS)
    if len(chains) != 1:
        raise UnsupportedError(f"{len(chains)} chains of calls", rule="ExecuTorch's exporter writes one")
    rows = chains[0].tables(2)
    limits.count(len(rows), limits.MAX_OPS, "calls")
    operators = method.tables(_Method.OPERATORS)
    found, total = list[PteCall](), 0
    for row in rows:
        kind, table = row.uint8(0), row.table(1)
        if table is None or kind == _FREE:
            continue
        values = _numbers(table, 1) if kind in (_KERNEL, _DELEGATE) else ()
        total += len(values)
        limits.count(total, 16 * limits.MAX_TENSORS, "operands of calls")
        number = table.int32(0)
        if kind == _DELEGATE:
            if not 0 <= number < delegates:
                raise ModelError(f"delegate {number} does not exist")
            found.append(PteCall(BACKEND, number, values))
        elif kind == _KERNEL:
            if not 0 <= number < len(operators):
                raise ModelError(f"operator {number} does not exist")
            words = [plain(operators[number].text(k)[:100]) for k in (0, 1)]
            found.append(PteCall(".".join(filter(None, words)), None, values))
        else:
            found.append(PteCall(_CONTROL.get(kind, "unknown"), None, ()))
    return found


def _delegates(data: bytes, program: FlatTable, method: FlatTable) -> list[Delegate]:
    rows = method.tables(_Method.DELEGATES)
    limits.count(len(rows), _MOST_DELEGATES, "delegates")
    inline, segments = program.tables(_Program.INLINE), program.tables(_Program.SEGMENTS)
    magic, size, _, start = _SEGMENTS.unpack(data[: _SEGMENTS.size].ljust(_SEGMENTS.size))
    found = []
    for k, row in enumerate(rows):
        place = row.table(1)
        in_segment, number = (place.int8(0), place.uint32(1)) if place is not None else (0, len(inline))
        if in_segment:
            if magic != b"eh00" or size < _SEGMENTS.size - 8 or number >= len(segments):
                raise ModelError("its data are nowhere in the file", where=f"delegate {k}")
            first, length = start + segments[number].uint64(0), segments[number].uint64(1)
        elif number < len(inline):
            first, length = inline[number].vector(0, 1)
        else:
            raise ModelError("its data are nowhere in the file", where=f"delegate {k}")
        if first + length > len(data):
            raise ModelError("its data reach beyond the end of the file", where=f"delegate {k}",
                             remedy="the file is cut or damaged: copy it again")  # fmt: skip
        found.append(Delegate(plain(row.text(0)[:100]), memoryview(data)[first : first + length]))
    return found
