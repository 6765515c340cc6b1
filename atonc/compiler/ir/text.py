"""Graphs as text: readable for small ones, complete for failing cases that are kept.

    graph "name" tflite
    input "x" int8 1x8x8x3 scale 0.05 zero -3
    const "w" int8 4x3x3x3 scale 0.1,0.2,0.1,0.3 zero 0,0,0,0 axis 0 = base64:...
    tensor "y" int8 1x8x8x4 scale 0.1 zero 4
    op conv "c1" ["x", "w", ""] -> ["y"] {"stride": [1, 1]}
    output "y"

Constants of a few values are lists; larger ones are base64 if the text shall be complete, else a hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir.types import TYPES, Array, Graph, Op, Quantisation, Tensor, check
from atonc.machine.base.content import digest
from atonc.machine.base.errors import InputError
from atonc.machine.base.user_c import CustomOperator

INLINE_VALUES = 32
MAX_LINES = 200_000
MAX_CONSTANT_BYTES = 1 << 28


def dump(graph: Graph, complete: bool = False) -> str:
    """The text of a graph; only a complete one can be parsed without the constants at hand."""
    return "\n".join(_lines(graph, complete)) + "\n"


def _lines(graph: Graph, complete: bool) -> Iterator[str]:
    yield f"graph {json.dumps(graph.name)} {graph.source or '-'}"
    for name in graph.inputs:
        yield f"input {_tensor(graph.tensors[name])}"
    for tensor in graph.tensors.values():
        if tensor.data is not None:
            yield f"const {_tensor(tensor)} = {_constant(tensor.data, complete)}"
        elif tensor.name not in graph.inputs:
            yield f"tensor {_tensor(tensor)}"
    for op in graph.ops:
        attrs = json.dumps(dict(op.attrs), sort_keys=True, default=_plain)
        yield f"op {op.kind} {json.dumps(op.name)} {json.dumps(op.inputs)} -> {json.dumps(op.outputs)} {attrs}"
    for name in graph.outputs:
        yield f"output {json.dumps(name)}"


def _plain(value: Any) -> Any:
    if isinstance(value, CustomOperator):  # for people and as a key: it cannot be read back
        return f"{value} {digest(value)}"
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else list(value)


def _tensor(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    text = f"{json.dumps(tensor.name)} {tensor.dtype} {shape}"
    if tensor.quant is None:
        return text
    scales = ",".join(repr(float(s)) for s in tensor.quant.scales)
    zeros = ",".join(str(int(z)) for z in tensor.quant.zero_points)
    axis = "" if tensor.quant.axis is None else f" axis {tensor.quant.axis}"
    return f"{text} scale {scales} zero {zeros}{axis}"


def _constant(data: Array, complete: bool) -> str:
    if data.size <= INLINE_VALUES:
        return json.dumps(data.reshape(-1).tolist())
    content = np.ascontiguousarray(data).tobytes()
    if complete:
        return "base64:" + base64.b64encode(zlib.compress(content, 9)).decode()
    return "sha256:" + hashlib.sha256(content).hexdigest()


# --- reading -----------------------------------------------------------------------------------------------------


def parse(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph of a text; `constants` by name for those that are hashes only."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise InputError(f"{len(lines)} lines, at most {MAX_LINES} are read")
    reader = _TextReader(constants or {})
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            reader.line(line.strip())
        except (ValueError, KeyError, IndexError, TypeError, OverflowError, zlib.error) as error:
            raise InputError(f"cannot be read: {error}", where=f"line {number}") from error
    return reader.graph()


class _TextReader:
    def __init__(self, constants: Mapping[str, Array]) -> None:
        self.constants = constants
        self.name, self.source = "", ""
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "graph":
            self.name, source = _word(rest)
            self.source = "" if source.strip() == "-" else source.strip()
        elif word == "op":
            self.ops.append(_op(rest))
        elif word == "output":
            self.outputs.append(_word(rest)[0])
        elif word in ("input", "tensor", "const"):
            tensor = self._tensor(rest, word == "const")
            self.tensors[tensor.name] = tensor
            self.inputs += [tensor.name] if word == "input" else []
        else:
            raise ValueError(f"a line that starts with {word[:40]!r}")

    def graph(self) -> Graph:
        return check(
            Graph(self.tensors, tuple(self.ops), tuple(self.inputs), tuple(self.outputs), self.name, self.source)
        )

    def _tensor(self, text: str, is_constant: bool) -> Tensor:
        name, rest = _word(text)
        described, _, value = rest.partition(" = ")
        dtype, shape_text, *words = described.split()
        if dtype not in TYPES:
            raise ValueError(f"element type {dtype!r}")
        shape = () if shape_text == "scalar" else tuple(int(d) for d in shape_text.split("x"))
        data = self._data(name, dtype, shape, value) if is_constant else None
        return Tensor(name, shape, dtype, _quantisation(words), data)

    def _data(self, name: str, dtype: str, shape: tuple[int, ...], text: str) -> Array:
        stored = np.dtype("int8" if dtype == "int4" else dtype)
        size = int(np.prod(shape, dtype=np.float64)) * stored.itemsize
        if size > MAX_CONSTANT_BYTES:
            raise ValueError(f"a constant of {size} bytes")
        if text.startswith("sha256:"):
            return self.constants[name].astype(stored).reshape(shape)
        if text.startswith("base64:"):
            content = zlib.decompressobj().decompress(base64.b64decode(text[7:], validate=True), size + 1)
            return np.frombuffer(content, stored).reshape(shape).copy()
        return np.array(json.loads(text), stored).reshape(shape)


def _word(text: str) -> tuple[str, str]:
    """A quoted name and what follows it."""
    name, end = json.JSONDecoder().raw_decode(text.lstrip())
    if not isinstance(name, str):
        raise ValueError("a name in quotes is expected")
    return name, text.lstrip()[end:]


def _quantisation(words: list[str]) -> Quantisation | None:
    found = dict(zip(words[::2], words[1::2], strict=True))
    if not found:
        return None
    scales = np.array([float(s) for s in found["scale"].split(",")])
    zeros = np.array([int(z) for z in found["zero"].split(",")], np.int64)
    return Quantisation(scales, zeros, int(found["axis"]) if "axis" in found else None)


def _op(text: str) -> Op:
    kind, _, rest = text.partition(" ")
    decoder = json.JSONDecoder()
    values: list[Any] = []
    for _ in range(4):
        rest = rest.lstrip().removeprefix("->").lstrip()
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:]
    name, inputs, outputs, attrs = values
    if not isinstance(name, str) or not isinstance(attrs, dict):
        raise ValueError("op kind name inputs -> outputs attributes")
    return Op(kind, name, _names(inputs), _names(outputs), {key: _tuples(v) for key, v in attrs.items()}, (name,))


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("a list of names is expected")
    return tuple(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
