"""Builds small TFLite files: tensors, operators and options by their numbers in the schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

CODES = {"float32": 0, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9,
         "text": 5, "resource": 13}  # fmt: skip


@dataclass
class T:
    """A tensor: scale may be a list (per channel along `axis`), data make it a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: Any = None
    zero: int = 0
    axis: int = 0
    data: Any = None
    free: tuple[int, ...] = ()  # axes whose size in `shape` is a placeholder
    variable: bool = False
    blocks: tuple[int, ...] = ()  # stored without its zeros, in blocks of this size; (1, 1) is plain compressed rows


@dataclass
class O:  # noqa: E742 - reads well in models
    """An operator; options: field number -> (type, value), type one of b, i, f, B, s (text)."""

    code: str
    inputs: list[str]
    outputs: list[str]
    options: str = ""
    fields: dict[int, tuple[str, Any]] = field(default_factory=dict)
    intermediates: list[str] = field(default_factory=list)
    custom: bytes = b""  # options of an operator of the user, whose code is CUSTOM:NAME


def build(
    tensors: list[T], ops: list[O], inputs: list[str], outputs: list[str], inner: tuple[list[T], list[O]] | None = None
) -> bytes:
    """`inner`: a second subgraph without inputs and outputs."""
    return _Writer(tensors, ops, inner).write(inputs, outputs)


class _Writer:
    def __init__(self, tensors: list[T], ops: list[O], inner: tuple[list[T], list[O]] | None) -> None:
        self.b = flatbuffers.Builder(1024)
        self.tensors, self.ops = tensors, ops
        self.inner = inner or ([], [])
        self.codes = list(dict.fromkeys(op.code for op in (*ops, *self.inner[1])))
        self.index = {t.name: i for i, t in enumerate(tensors)}

    def write(self, inputs: list[str], outputs: list[str]) -> bytes:
        buffers = [self._table(3, {})] + [self._buffer(t) for t in (*self.tensors, *self.inner[0])]
        graphs = [self._subgraph(self.tensors, self.ops, inputs, outputs, 1)]
        if self.inner[1]:
            graphs.append(self._subgraph(*self.inner, [], [], 1 + len(self.tensors)))
        codes = self._offsets([self._code(code) for code in self.codes])
        stored_graphs, stored = self._offsets(graphs), self._offsets(buffers)
        model = self._table(8, {0: ("I", 3), 1: ("o", codes), 2: ("o", stored_graphs), 4: ("o", stored)})
        self.b.Finish(model, b"TFL3")
        return bytes(self.b.Output())

    def _subgraph(self, tensors: list[T], ops: list[O], inputs: list[str], outputs: list[str], buffer: int) -> int:
        self.index = {t.name: i for i, t in enumerate(tensors)}
        stored = self._offsets([self._tensor(t, i + buffer) for i, t in enumerate(tensors)])
        written = self._offsets([self._operator(op) for op in ops])
        ins, outs = (self._vector([self.index[n] for n in names], "<i4") for names in (inputs, outputs))
        return self._table(5, {0: ("o", stored), 1: ("o", ins), 2: ("o", outs), 3: ("o", written)})

    def _table(self, size: int, fields: dict[int, tuple[str, Any]]) -> int:
        self.b.StartObject(size)
        for number, (kind, value) in fields.items():
            if kind == "o":
                self.b.PrependUOffsetTRelativeSlot(number, value, 0)
            else:
                put = {"b": "Int8", "B": "Uint8", "i": "Int32", "I": "Uint32", "f": "Float32"}[kind]
                getattr(self.b, f"Prepend{put}Slot")(number, value, None)
        return int(self.b.EndObject())

    def _vector(self, values: Any, dtype: str) -> int:
        return int(self.b.CreateNumpyVector(np.asarray(values, dtype)))

    def _offsets(self, values: list[int]) -> int:
        self.b.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.b.PrependUOffsetTRelative(value)
        return int(self.b.EndVector())

    def _buffer(self, tensor: T) -> int:
        if tensor.data is None:
            return self._table(3, {})
        data = np.asarray(tensor.data, tensor.dtype)
        if tensor.blocks:
            data = _blocks(data, tensor.blocks)[0]
        raw = np.ascontiguousarray(data).tobytes()
        return self._table(3, {0: ("o", self._vector(np.frombuffer(raw, np.uint8), "u1"))})

    def _tensor(self, t: T, buffer: int) -> int:
        name, shape = self.b.CreateString(t.name), self._vector(t.shape, "<i4")
        sizes = [-1 if k in t.free else size for k, size in enumerate(t.shape)]
        signature = self._vector(sizes, "<i4") if t.free else None
        sparsity = self._sparsity(t) if t.blocks else None
        fields: dict[int, tuple[str, Any]] = {
            0: ("o", shape), 1: ("b", CODES[t.dtype]), 2: ("I", buffer), 3: ("o", name),
        }  # fmt: skip
        if t.scale is not None:
            scales = np.atleast_1d(np.asarray(t.scale, np.float32))
            zeros = self._vector([t.zero] * scales.size, "<i8")
            quant = self._table(7, {2: ("o", self._vector(scales, "<f4")), 3: ("o", zeros), 6: ("i", t.axis)})
            fields[4] = ("o", quant)
        if t.variable:
            fields[5] = ("B", 1)
        if signature is not None:
            fields[7] = ("o", signature)
        if sparsity is not None:
            fields[6] = ("o", sparsity)
        return self._table(8, fields)

    def _sparsity(self, t: T) -> int:
        """Rows of blocks are dense, the blocks of a row compressed, blocks themselves dense."""
        _, segments, columns = _blocks(np.asarray(t.data), t.blocks)
        numbers = [self._table(1, {0: ("o", self._vector(values, "<u2"))}) for values in (segments, columns)]
        dense = [self._table(6, {0: ("b", 0), 1: ("i", size)}) for size in (t.shape[0] // t.blocks[0], *t.blocks)]
        rows = self._table(6, {0: ("b", 1), 2: ("B", 2), 3: ("o", numbers[0]), 4: ("B", 2), 5: ("o", numbers[1])})
        levels = self._offsets([dense[0], rows, *dense[1:]])
        order, along = self._vector([0, 1, 2, 3], "<i4"), self._vector([0, 1], "<i4")
        return self._table(3, {0: ("o", order), 1: ("o", along), 2: ("o", levels)})

    def _code(self, code: str) -> int:
        if code.startswith("CUSTOM:"):
            name = self.b.CreateString(code.removeprefix("CUSTOM:"))
            return self._table(4, {0: ("b", 32), 1: ("o", name), 2: ("i", 1), 3: ("i", 32)})
        number = getattr(tflite.BuiltinOperator, code)
        return self._table(4, {0: ("b", min(number, 127)), 2: ("i", _version(code)), 3: ("i", number)})

    def _operator(self, op: O) -> int:
        indices = [self._vector([self.index.get(n, -1) for n in names], "<i4") for names in (op.inputs, op.outputs)]
        fields: dict[int, tuple[str, Any]] = {
            0: ("I", self.codes.index(op.code)), 1: ("o", indices[0]), 2: ("o", indices[1]),
        }  # fmt: skip
        between = self._vector([self.index[n] for n in op.intermediates], "<i4") if op.intermediates else None
        if op.options:
            texts = {k: ("o", self.b.CreateString(v)) for k, (kind, v) in op.fields.items() if kind == "s"}
            table = self._table(12, {**op.fields, **texts})
            fields |= {3: ("B", getattr(tflite.BuiltinOptions, op.options)), 4: ("o", table)}
        if op.custom:
            fields[5] = ("o", self._vector(np.frombuffer(op.custom, np.uint8), "u1"))
        if between is not None:
            fields[8] = ("o", between)
        return self._table(9, fields)


def _blocks(data: Any, size: tuple[int, ...]) -> tuple[Any, list[int], list[int]]:
    """Values of the blocks that are not zero, where the blocks of each row begin, and their columns."""
    rows, columns = (length // step for length, step in zip(data.shape, size, strict=True))
    cut = data.reshape(rows, size[0], columns, size[1]).transpose(0, 2, 1, 3)
    used = cut.any(axis=(2, 3))
    return cut[used], [0, *np.cumsum(used.sum(axis=1)).tolist()], np.nonzero(used)[1].tolist()


def _version(code: str) -> int:
    """The first version of an operator that knows int8."""
    special = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "TRANSPOSE_CONV": 3, "PRELU": 1}
    older = ("ROUND", "SHAPE", "HARD_SWISH", "LEAKY_RELU", "EXPAND_DIMS", "SQUEEZE",
             "GATHER", "RESHAPE", "DEPTH_TO_SPACE",
             "DENSIFY", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")  # fmt: skip
    return special.get(code, 1 if code in older else 2)


def conv_model(
    shape: tuple[int, ...] = (1, 6, 7, 3),
    outputs: int = 5,
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    padding: int = 0,
    activation: int = 0,
    dilation: int = 1,
    seed: int = 0,
) -> bytes:
    """One int8 convolution with per-channel weights; padding 0 is SAME, 1 VALID."""
    rng = np.random.default_rng(seed)
    h, w = (_size(n, k, stride, dilation, padding) for n, k in zip(shape[1:3], kernel, strict=True))
    weights = rng.integers(-127, 128, (outputs, *kernel, shape[3]))
    scales = rng.uniform(0.004, 0.01, outputs)
    tensors = [
        T("x", shape, scale=0.02, zero=-5),
        T("w", weights.shape, scale=scales, data=weights),
        T("b", (outputs,), "int32", scale=scales * 0.02, data=rng.integers(-2000, 2000, outputs)),
        T("y", (shape[0], h, w, outputs), scale=0.05, zero=7),
    ]
    fields = {
        0: ("b", padding),
        1: ("i", stride),
        2: ("i", stride),
        3: ("b", activation),
        4: ("i", dilation),
        5: ("i", dilation),
    }
    return build(tensors, [O("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", fields)], ["x"], ["y"])


def _size(n: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-n // stride) if padding == 0 else (n - reach) // stride + 1


def chain_model(seed: int = 0) -> bytes:
    """quantize -> conv -> relu6 conv -> add -> mean -> dense -> softmax -> dequantize: a network in small."""
    rng = np.random.default_rng(seed)

    def weights(name: str, shape: tuple[int, ...]) -> list[T]:
        scales = rng.uniform(0.003, 0.006, shape[0])
        return [
            T(name, shape, scale=scales, data=rng.integers(-127, 128, shape)),
            T(f"{name}b", (shape[0],), "int32", scale=scales * 0.02, data=rng.integers(-500, 500, shape[0])),
        ]

    tensors = [
        T("pixels", (1, 8, 8, 3), "uint8", 0.01, 128),
        T("x", (1, 8, 8, 3), scale=0.01),
        *weights("w1", (8, 3, 3, 3)),
        T("a", (1, 8, 8, 8), scale=0.02, zero=-3),
        *weights("w2", (8, 1, 1, 8)),
        T("c", (1, 8, 8, 8), scale=0.0235294122248888, zero=-128),
        T("s", (1, 8, 8, 8), scale=0.03, zero=-20),
        T("axes", (2,), "int32", data=[1, 2]),
        T("m", (1, 8), scale=0.01, zero=-10),
        *weights("w3", (5, 8)),
        T("l", (1, 5), scale=0.02, zero=4),
        T("p", (1, 5), scale=1 / 256, zero=-128),
        T("out", (1, 5), "float32"),
    ]
    same: dict[int, tuple[str, Any]] = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    ops = [
        O("QUANTIZE", ["pixels"], ["x"]),
        O("CONV_2D", ["x", "w1", "w1b"], ["a"], "Conv2DOptions", same),
        O("CONV_2D", ["a", "w2", "w2b"], ["c"], "Conv2DOptions", {**same, 3: ("b", 3)}),
        O("ADD", ["a", "c"], ["s"], "AddOptions"),
        O("MEAN", ["s", "axes"], ["m"], "ReducerOptions"),
        O("FULLY_CONNECTED", ["m", "w3", "w3b"], ["l"], "FullyConnectedOptions"),
        O("SOFTMAX", ["l"], ["p"], "SoftmaxOptions", {0: ("f", 1.0)}),
        O("DEQUANTIZE", ["p"], ["out"]),
    ]
    return build(tensors, ops, ["pixels"], ["out"])
