"""A TFLite file taken apart and put together again: with operators replaced by one that runs on the NPU, or without
them, as what is left for TFLite's own kernels.

The replaced operators become one custom operator, whose data are a header, the relocatable image and a map of its
memories (a flexbuffer at the end, which viewers show). A checksum of the whole file stands in its metadata: a damaged
file is refused before anything runs.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any
from zlib import crc32

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.tflite import operand_indices, operator_name, unique_name
from atonc.compiler.frontends.tflite_file import (
    ELEMENT_TYPES,
    NPU_CODE,
    BufferField,
    FlatTable,
    MetadataField,
    ModelField,
    OperatorField,
    SubgraphField,
    TensorField,
    root,
)
from atonc.machine.base.errors import InputError, ModelError, not_loaded
from atonc.machine.base.frozen import dataclass

CODE = NPU_CODE
MAGIC, VERSION = b"ATNO", 2
# magic, version, bytes in front of the image, of the image, of all; inputs, outputs
_HEADER = struct.Struct("<4s6I")
LINE = 64  # the image begins at a line of the NPU's cache, wherever the file does
_CHECK = struct.Struct("<I")  # ends the first line: CRC-32 of the rest of it and of what follows the image
_SEAL, _LENGTH = "atonc", struct.Struct("<Q")  # in the metadata: bytes of the file, their SHA-256
_MARK = hashlib.sha256(b"the checksum of a TFLite file of atonc").digest()  # stands there until it is known
_CUSTOM = 32  # BuiltinOperator
_REFERS = ("ubgraphIndex", "subgraph")  # how options that name another subgraph are called
_MOST_IN_A_FILE = 1 << 31  # offsets of flatbuffers have 31 bits


@dataclass(frozen=True)
class NpuOperator:
    """What a custom operator of ours holds."""

    image: bytes = field(repr=False)
    inputs: int
    outputs: int

    def stored(self, memory_map: Mapping[str, Any]) -> bytes:
        from flatbuffers import flexbuffers

        behind = bytes(-len(self.image) % 8) + bytes(flexbuffers.Dumps(dict(memory_map)))
        size = LINE + len(self.image) + len(behind)
        header = _HEADER.pack(MAGIC, VERSION, LINE, len(self.image), size, self.inputs, self.outputs)
        front = header.ljust(LINE - _CHECK.size, b"\0")
        return front + _CHECK.pack(crc32(front + behind)) + self.image + behind


def npu_operator(data: bytes, where: str) -> NpuOperator:
    """Reads what `stored` wrote."""
    magic, version, start, length, size, inputs, outputs = _HEADER.unpack(data[: _HEADER.size].ljust(_HEADER.size))
    if magic != MAGIC or version != VERSION:
        raise ModelError("its data are no network for the NPU, or of another version", where=where)
    if size != len(data) or start != LINE or start + length > size:
        raise ModelError("the sizes in front of its image contradict each other", where=where)
    front = LINE - _CHECK.size
    if data[front:LINE] != _CHECK.pack(crc32(data[:front] + data[LINE + length :])):  # the image has its own
        raise ModelError("what stands around its image is damaged", where=where)
    return NpuOperator(data[start : start + length], inputs, outputs)


# ------------------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class OperatorRow:
    """One operator of the first subgraph."""

    code: str
    inputs: tuple[int, ...]  # tensors; -1 where an operand is left out
    outputs: tuple[int, ...]
    table: FlatTable = field(repr=False)

    @property
    def on_npu(self) -> bool:
        return self.code == f"CUSTOM {CODE!r}"


@dataclass(frozen=True)
class TfliteModel:
    """What matters of a file to whoever cuts it: its first subgraph, every offset checked."""

    data: bytes = field(repr=False)
    names: tuple[str, ...]  # of the tensors, as the reader of models calls them
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorRow, ...] = field(repr=False)

    def behind(self, tensors: Collection[int], ends: Collection[int] = ()) -> set[int]:
        """The operators that these tensors are computed by, from the ends on."""
        makers = {tensor: k for k, row in enumerate(self.operators) for tensor in row.outputs}
        waiting, found = [one for one in tensors if one not in ends], set[int]()
        while waiting:
            index = makers.get(waiting.pop())
            if index is not None and index not in found:
                found.add(index)
                waiting += [one for one in self.operators[index].inputs if one not in ends]
        return found


def read_model(data: bytes) -> TfliteModel:
    model = root(data, b"TFL3")
    subgraphs = model.tables(ModelField.SUBGRAPHS)
    if not subgraphs:
        raise ModelError("the file has no subgraph")
    codes = [operator_name(table) for table in model.tables(ModelField.OPERATOR_CODES)]
    tensors, tables = subgraphs[0].tables(SubgraphField.TENSORS), subgraphs[0].tables(SubgraphField.OPERATORS)
    limits.count(len(tensors), limits.MAX_TENSORS, "tensors")
    limits.count(len(tables), limits.MAX_OPS, "operators")
    taken = set[str]()
    rows = [_row(index, table, codes, len(tensors)) for index, table in enumerate(tables)]
    return TfliteModel(
        data=data,
        names=tuple(unique_name(one.text(TensorField.NAME), k, taken) for k, one in enumerate(tensors)),
        types=tuple(ELEMENT_TYPES.get(one.int8(TensorField.TYPE), "") for one in tensors),
        shapes=tuple(tuple(one.array(TensorField.SHAPE, "<i4").tolist()) for one in tensors),
        inputs=_known(subgraphs[0], SubgraphField.INPUTS, len(tensors), "an input"),
        outputs=_known(subgraphs[0], SubgraphField.OUTPUTS, len(tensors), "an output"),
        operators=tuple(rows),
    )


def _row(index: int, table: FlatTable, codes: Sequence[str], tensors: int) -> OperatorRow:
    number = table.uint32(OperatorField.CODE)
    if number >= len(codes):
        raise ModelError(f"operator code {number} does not exist", where=f"operator {index}")
    where = f"{codes[number]}_{index}"
    inputs = _known(table, OperatorField.INPUTS, tensors, where, least=-1)
    return OperatorRow(codes[number], inputs, _known(table, OperatorField.OUTPUTS, tensors, where), table)


def _known(table: FlatTable, number: int, tensors: int, where: str, least: int = 0) -> tuple[int, ...]:
    found = tuple(operand_indices(table, number, where))
    for tensor in found:
        if not least <= tensor < tensors:
            raise ModelError(f"tensor {tensor} does not exist, the file has {tensors}", where=where)
    return found


# ------------------------------------------------------------------------------------------------------------ writing


@dataclass(frozen=True)
class Replacement:
    """Operators that become one: tensors in and out by number, with the shapes that they have in the network."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: Mapping[int, tuple[int, ...]]
    operator: bytes = field(repr=False)


def kept(model: TfliteModel, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which operators stay, in front of the new one and behind it."""
    before = model.behind(inputs)
    return sorted(before), sorted(model.behind(model.outputs, outputs) - before)


def replaced(model: TfliteModel, by: Replacement) -> bytes:
    """The file with the new operator; signatures and metadata are kept, what nobody uses is left out."""
    schema = load_schema()
    made = _unpacked(schema, model.data)
    before, after = kept(model, by.inputs, by.outputs)
    old, graph = made.subgraphs[0].operators, made.subgraphs[0]
    for tensor, shape in by.shapes.items():
        if tuple(model.shapes[tensor]) != shape:
            graph.tensors[tensor].shape = np.array(shape, "<i4")
            graph.tensors[tensor].shapeSignature = None
    codes = [one for one in made.operatorCodes if one.customCode == CODE.encode()]
    if not codes:
        codes = [schema.OperatorCodeT(_CUSTOM, CODE, 1, _CUSTOM)]
        made.operatorCodes += codes
    new = schema.OperatorT(
        made.operatorCodes.index(codes[0]),
        np.array(by.inputs, "<i4"),
        np.array(by.outputs, "<i4"),
        customOptions=np.frombuffer(by.operator, np.uint8),
    )
    graph.operators = [*(old[k] for k in before), new, *(old[k] for k in after)]
    seal = np.frombuffer(_LENGTH.pack(0) + _MARK, np.uint8)
    made.buffers.append(schema.BufferT(seal))
    made.metadata = [
        *(one for one in made.metadata or () if one.name != _SEAL.encode()),
        schema.MetadataT(_SEAL, len(made.buffers) - 1),
    ]
    return _sealed(_packed(made))


def part(model: TfliteModel, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Some of its operators as a model of their own."""
    made = _unpacked(load_schema(), model.data)
    graph = made.subgraphs[0]
    graph.operators = [graph.operators[k] for k in operators]
    graph.inputs, graph.outputs = np.array(inputs, "<i4"), np.array(outputs, "<i4")
    made.signatureDefs, made.metadata, made.metadataBuffer = None, None, None
    return _packed(made)


def load_schema() -> Any:
    """The schema of TFLite files, which comes with LiteRT."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError as error:
        raise not_loaded(error, "ai-edge-litert", "'atonc[tflite]'") from error
    return schema_py_generated


def _unpacked(schema: Any, data: bytes) -> Any:
    """Every table of the file; what this cannot follow was damaged where our own reader does not look."""
    try:
        made = schema.ModelT.InitFromPackedBuf(data, 0)
    except (struct.error, ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise ModelError(f"the file cannot be taken apart: {str(error)[:100]}") from error
    for buffer in made.buffers:  # large files keep constants behind the tables
        if buffer.offset > 1:
            if buffer.offset + buffer.size > len(data):
                raise ModelError("constant reaches beyond the end of the file")
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return made


def _packed(model: Any) -> bytes:
    """Without subgraphs, tensors, constants and codes that nobody uses."""
    if not any(_refers(one.builtinOptions) for one in model.subgraphs[0].operators):
        model.subgraphs = model.subgraphs[:1]
    model.signatureDefs = [one for one in model.signatureDefs or () if one.subgraphIndex < len(model.subgraphs)] or None
    _drop_tensors(model)
    operators = [one for graph in model.subgraphs for one in graph.operators or ()]
    codes = _renumbered({one.opcodeIndex for one in operators})
    for one in operators:
        one.opcodeIndex = codes[one.opcodeIndex]
    model.operatorCodes = [model.operatorCodes[k] for k in codes]
    tensors = [one for graph in model.subgraphs for one in graph.tensors or ()]
    used = {0, *(one.buffer for one in (*tensors, *(model.metadata or ()))), *_listed(model.metadataBuffer)}
    buffers = _renumbered(used)
    for one in (*tensors, *(model.metadata or ())):
        one.buffer = buffers[one.buffer]
    if model.metadataBuffer is not None:
        model.metadataBuffer = np.array([buffers[k] for k in _listed(model.metadataBuffer)], "<i4")
    if max(buffers) >= len(model.buffers):
        raise ModelError(f"buffer {max(buffers)} does not exist")
    model.buffers = [model.buffers[k] for k in buffers]
    return _written(model)


def _refers(options: Any) -> bool:
    return options is not None and any(name.endswith(_REFERS) for name in vars(options))


def _listed(numbers: Any) -> list[int]:
    return [] if numbers is None else [int(one) for one in numbers]


def _renumbered(used: Collection[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(sorted(used))}


def _drop_tensors(model: Any) -> None:
    graph = model.subgraphs[0]
    signatures = [one for one in model.signatureDefs or () if one.subgraphIndex == 0]
    maps = [one for signature in signatures for one in (*(signature.inputs or ()), *(signature.outputs or ()))]
    used = {*_listed(graph.inputs), *_listed(graph.outputs), *(one.tensorIndex for one in maps)}
    for one in graph.operators:
        used.update(*map(_listed, (one.inputs, one.outputs, one.intermediates)))
    numbers = _renumbered(used - {-1})
    if numbers and max(numbers) >= len(graph.tensors):
        raise ModelError(f"tensor {max(numbers)} does not exist")
    for holder, names in (
        (graph, ("inputs", "outputs")),
        *((one, ("inputs", "outputs", "intermediates")) for one in graph.operators),
    ):
        for name in names:
            if getattr(holder, name) is not None:
                setattr(holder, name, np.array([numbers.get(k, -1) for k in _listed(getattr(holder, name))], "<i4"))
    for one in maps:
        one.tensorIndex = numbers[one.tensorIndex]
    graph.tensors = [graph.tensors[k] for k in numbers]


def _written(model: Any) -> bytes:
    import flatbuffers

    class Aligned(flatbuffers.Builder):  # type: ignore[misc]
        """Bytes begin at a line: constants as kernels want them, the image as the NPU does."""

        def CreateNumpyVector(self, x: Any) -> int:
            if x.dtype == np.uint8:
                self.Prep(LINE, x.size)
            return int(super().CreateNumpyVector(x))

    size = sum(0 if one.data is None else len(one.data) for one in model.buffers)
    if size > _MOST_IN_A_FILE:
        raise InputError(f"{size:,} bytes of constants", rule="a TFLite file has at most 2 GB")
    builder = Aligned(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


# ----------------------------------------------------------------------------------------------------------- checksum


def _sealed(data: bytes) -> bytes:
    at = data.index(_MARK) - _LENGTH.size
    return _with_digest(
        data[:at] + _LENGTH.pack(len(data)) + bytes(len(_MARK)) + data[at + _LENGTH.size + len(_MARK) :], at
    )


def _with_digest(data: bytes, at: int) -> bytes:
    start = at + _LENGTH.size
    blank = data[:start] + bytes(len(_MARK)) + data[start + len(_MARK) :]
    return (
        data[:start] + hashlib.sha256(blank[: _LENGTH.unpack_from(data, at)[0]]).digest() + data[start + len(_MARK) :]
    )


def require_intact(data: bytes) -> None:
    """The file is as atonc wrote it, without a byte more."""
    at = _seal_place(data)
    if at is None:
        raise ModelError(
            "no checksum of atonc in the metadata",
            rule="run takes what atonc built, not a model",
            remedy="atonc generate MODEL.tflite -o build, then atonc run build (or --layout tflite, and run that file)",
        )
    if _LENGTH.unpack_from(data, at)[0] != len(data) or _with_digest(data, at) != data:
        raise ModelError(
            "the file was changed since atonc wrote it, or is damaged",
            rule="its bytes have another checksum than its metadata",
            remedy="copy it again, or generate it again",
        )


def _seal_place(data: bytes) -> int | None:
    """Where the length and the digest stand."""
    model = root(data, b"TFL3")
    buffers = model.tables(ModelField.BUFFERS)
    for one in model.tables(ModelField.METADATA):
        number = one.uint32(MetadataField.BUFFER)
        if one.text(MetadataField.NAME) == _SEAL and number < len(buffers):
            start, size = buffers[number].vector(BufferField.DATA, 1)
            return start if size == _LENGTH.size + len(_MARK) else None
    return None
