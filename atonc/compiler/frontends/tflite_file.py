"""The TFLite format: numbers of its schema (field positions, element types, operator codes), and a reader of
flatbuffers that believes nothing: every offset is checked against the file before it is followed. Constants that a file
stores without their zeros are made whole."""

from __future__ import annotations

import struct
from functools import cached_property

import numpy as np

from atonc.compiler.ir import Array
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

ELEMENT_TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 10: "float64",
    12: "uint64", 15: "uint32", 16: "uint16", 17: "int4",
}  # fmt: skip

OTHER_TYPES = {
    5: "text", 8: "complex numbers", 11: "complex numbers", 13: "a variable that outlives a run", 14: "a variant",
    18: "bfloat16", 19: "int2", 20: "uint4",
}  # fmt: skip

ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "sign_bit"}

OPERATORS = {
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D", 5: "DEPTH_TO_SPACE",
    6: "DEQUANTIZE", 8: "FLOOR", 9: "FULLY_CONNECTED", 11: "L2_NORMALIZATION", 14: "LOGISTIC", 16: "LSTM",
    17: "MAX_POOL_2D", 18: "MUL", 19: "RELU", 20: "RELU_N1_TO_1", 21: "RELU6", 22: "RESHAPE", 23: "RESIZE_BILINEAR",
    24: "RNN", 25: "SOFTMAX", 26: "SPACE_TO_DEPTH", 27: "SVDF", 28: "TANH", 32: "CUSTOM", 34: "PAD",
    35: "UNIDIRECTIONAL_SEQUENCE_RNN", 36: "GATHER", 37: "BATCH_TO_SPACE_ND", 38: "SPACE_TO_BATCH_ND", 39: "TRANSPOSE",
    40: "MEAN", 41: "SUB", 42: "DIV", 43: "SQUEEZE", 44: "UNIDIRECTIONAL_SEQUENCE_LSTM", 45: "STRIDED_SLICE", 47: "EXP",
    48: "TOPK_V2", 49: "SPLIT", 50: "LOG_SOFTMAX", 52: "BIDIRECTIONAL_SEQUENCE_LSTM", 53: "CAST", 54: "PRELU",
    55: "MAXIMUM", 56: "ARG_MAX", 57: "MINIMUM", 58: "LESS", 59: "NEG", 60: "PADV2", 61: "GREATER", 62: "GREATER_EQUAL",
    63: "LESS_EQUAL", 64: "SELECT", 65: "SLICE", 66: "SIN", 67: "TRANSPOSE_CONV", 69: "TILE", 70: "EXPAND_DIMS",
    71: "EQUAL", 72: "NOT_EQUAL", 73: "LOG", 74: "SUM", 75: "SQRT", 76: "RSQRT", 77: "SHAPE", 78: "POW", 79: "ARG_MIN",
    81: "REDUCE_PROD", 82: "REDUCE_MAX", 83: "PACK", 84: "LOGICAL_OR", 86: "LOGICAL_AND", 87: "LOGICAL_NOT",
    88: "UNPACK", 89: "REDUCE_MIN", 90: "FLOOR_DIV", 92: "SQUARE", 94: "FILL", 95: "FLOOR_MOD", 96: "RANGE",
    97: "RESIZE_NEAREST_NEIGHBOR", 98: "LEAKY_RELU", 99: "SQUARED_DIFFERENCE", 100: "MIRROR_PAD", 101: "ABS",
    102: "SPLIT_V", 104: "CEIL", 105: "REVERSE_V2", 107: "GATHER_ND", 108: "COS", 111: "ELU", 114: "QUANTIZE",
    116: "ROUND", 117: "HARD_SWISH", 119: "WHILE", 120: "NON_MAX_SUPPRESSION_V4", 121: "NON_MAX_SUPPRESSION_V5",
    123: "SELECT_V2", 126: "BATCH_MATMUL", 130: "BROADCAST_TO", 150: "GELU", 152: "RELU_0_TO_1", 158: "SIGN",
    # without a translation: named when they are refused
    7: "EMBEDDING_LOOKUP", 10: "HASHTABLE_LOOKUP", 12: "L2_POOL_2D", 13: "LOCAL_RESPONSE_NORMALIZATION",
    15: "LSH_PROJECTION", 29: "CONCAT_EMBEDDINGS", 30: "SKIP_GRAM", 31: "CALL", 33: "EMBEDDING_LOOKUP_SPARSE",
    46: "BIDIRECTIONAL_SEQUENCE_RNN", 51: "DELEGATE", 68: "SPARSE_TO_DENSE", 80: "FAKE_QUANT", 85: "ONE_HOT",
    91: "REDUCE_ANY", 93: "ZEROS_LIKE", 103: "UNIQUE", 106: "ADD_N", 109: "WHERE", 110: "RANK",
    112: "REVERSE_SEQUENCE", 113: "MATRIX_DIAG", 115: "MATRIX_SET_DIAG", 118: "IF", 122: "SCATTER_ND", 124: "DENSIFY",
    125: "SEGMENT_SUM", 128: "CUMSUM", 129: "CALL_ONCE", 131: "RFFT2D", 132: "CONV_3D", 133: "IMAG", 134: "REAL",
    135: "COMPLEX_ABS", 136: "HASHTABLE", 137: "HASHTABLE_FIND", 138: "HASHTABLE_IMPORT", 139: "HASHTABLE_SIZE",
    140: "REDUCE_ALL", 141: "CONV_3D_TRANSPOSE", 142: "VAR_HANDLE", 143: "READ_VARIABLE", 144: "ASSIGN_VARIABLE",
    145: "BROADCAST_ARGS", 146: "RANDOM_STANDARD_NORMAL", 147: "BUCKETIZE", 148: "RANDOM_UNIFORM", 149: "MULTINOMIAL",
    151: "DYNAMIC_UPDATE_SLICE", 153: "UNSORTED_SEGMENT_PROD", 154: "UNSORTED_SEGMENT_MAX",
    155: "UNSORTED_SEGMENT_SUM", 156: "ATAN2", 157: "UNSORTED_SEGMENT_MIN", 159: "BITCAST", 160: "BITWISE_XOR",
    161: "RIGHT_SHIFT", 203: "DILATE", 205: "REDUCE_WINDOW",
}  # fmt: skip

NPU_CODE = "atonc-npu"  # of the custom operator that `generate --layout tflite` writes


class ModelField:
    OPERATOR_CODES, SUBGRAPHS, BUFFERS, METADATA = 1, 2, 4, 6


class CodeField:
    OLD_BUILTIN, CUSTOM, VERSION, BUILTIN = 0, 1, 2, 3


class SubgraphField:
    TENSORS, INPUTS, OUTPUTS, OPERATORS = 0, 1, 2, 3


class TensorField:
    SHAPE, TYPE, BUFFER, NAME, QUANTISATION, IS_VARIABLE, SPARSITY, SIGNATURE = 0, 1, 2, 3, 4, 5, 6, 7


class QuantField:
    SCALE, ZERO_POINT, AXIS = 2, 3, 6


class OperatorField:
    CODE, INPUTS, OUTPUTS, OPTIONS, CUSTOM_OPTIONS = 0, 1, 2, 4, 5


class MetadataField:
    NAME, BUFFER = 0, 1


class BufferField:
    DATA, OFFSET, SIZE = 0, 1, 2


MAX_VECTOR = 1 << 28


def root(data: bytes, identifier: bytes) -> FlatTable:
    """The root table of a file with this 4-byte identifier."""
    if len(data) < 8 or data[4:8] != identifier:
        raise ModelError(
            f"not a {identifier.decode()} file: the identifier at offset 4 is missing",
            remedy="the file may be cut, damaged or of another format: export or fetch it again",
        )
    return FlatTable(data, _number(data, U32, 0))


I8, U8, U16, I32, U32, U64 = map(struct.Struct, ("<b", "<B", "<H", "<i", "<I", "<Q"))


def _number(data: bytes, form: struct.Struct, position: int) -> int:
    if position < 0:
        raise ModelError("an offset leads in front of the file", remedy="the file is cut or damaged")
    if position + form.size > len(data):
        raise ModelError(
            "the file ends inside a value", where=f"offset {position}", remedy="the file is cut or damaged"
        )
    found: int = form.unpack_from(data, position)[0]
    return found


@dataclass(frozen=True)
class FlatTable:
    """A table at a position; fields are addressed by their number in the schema."""

    data: bytes
    position: int

    @cached_property
    def _slots(self) -> tuple[int, int]:
        """Where the offsets of the fields lie, and where they end."""
        vtable = self.position - _number(self.data, I32, self.position)
        return vtable + 4, vtable + _number(self.data, U16, vtable)

    def position_of(self, number: int) -> int:
        """Absolute position of a field, 0 if it is absent."""
        first, end = self._slots
        slot = first + 2 * number
        if slot + 2 > end:
            return 0
        offset = _number(self.data, U16, slot)
        return self.position + offset if offset else 0

    def _scalar(self, number: int, form: struct.Struct, default: int) -> int:
        position = self.position_of(number)
        return _number(self.data, form, position) if position else default

    def int8(self, number: int, default: int = 0) -> int:
        return self._scalar(number, I8, default)

    def uint8(self, number: int, default: int = 0) -> int:
        return self._scalar(number, U8, default)

    def int32(self, number: int, default: int = 0) -> int:
        return self._scalar(number, I32, default)

    def uint32(self, number: int, default: int = 0) -> int:
        return self._scalar(number, U32, default)

    def uint64(self, number: int, default: int = 0) -> int:
        return self._scalar(number, U64, default)

    def float32(self, number: int, default: float = 0.0) -> float:
        position = self.position_of(number)
        if not position:
            return default
        _number(self.data, U32, position)
        return float(struct.unpack_from("<f", self.data, position)[0])

    def table(self, number: int) -> FlatTable | None:
        position = self.position_of(number)
        return FlatTable(self.data, self._follow(position)) if position else None

    def tables(self, number: int) -> list[FlatTable]:
        start, length = self.vector(number, 4)
        return [FlatTable(self.data, self._follow(start + 4 * i)) for i in range(length)]

    def array(self, number: int, dtype: str) -> Array:
        """A vector of numbers as a read-only view of the file."""
        kind = np.dtype(dtype)
        start, length = self.vector(number, kind.itemsize)
        return np.frombuffer(self.data, kind, length, start)

    def text(self, number: int) -> str:
        start, length = self.vector(number, 1)
        return self.data[start : start + length].decode("utf-8", "replace")

    def _follow(self, position: int) -> int:
        target = position + _number(self.data, U32, position)
        _number(self.data, I32, target)
        return target

    def vector(self, number: int, item_bytes: int) -> tuple[int, int]:
        """Start and length of a vector that lies inside the file."""
        position = self.position_of(number)
        if not position:
            return 0, 0
        start = self._follow(position)
        length = _number(self.data, U32, start)
        if length > MAX_VECTOR or start + 4 + length * item_bytes > len(self.data):
            raise ModelError("a vector reaches beyond the end of the file", where=f"offset {start}")
        return start + 4, length


ORDER, BLOCKS, LEVELS = 0, 1, 2  # fields of the description
FORMAT, SIZE, SEGMENTS_TYPE, SEGMENTS, INDICES_TYPE, INDICES = 0, 1, 2, 3, 4, 5  # of a level
COMPRESSED = 1
NUMBERS = {1: "<i4", 2: "<u2", 3: "u1"}  # forms in which a level stores its numbers


def dense(values: Array, description: FlatTable, shape: tuple[int, ...], name: str) -> Array:
    """The constant with its zeros; `values` are the stored ones in the order of the tree."""
    order = [int(k) for k in description.array(ORDER, "<i4")]
    blocked = [int(k) for k in description.array(BLOCKS, "<i4")]
    levels = description.tables(LEVELS)
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or len(levels) != len(order):
        raise ModelError("its sparse dimensions are not those of the tensor", where=name)
    if any(not 0 <= k < rank for k in blocked) or len(set(blocked)) != len(blocked):
        raise ModelError("its blocks are along dimensions that do not exist", where=name)
    elements = int(np.prod(shape, dtype=np.int64))
    places, sizes = np.zeros((1, 0), np.int64), dict[int, int]()
    for axis, level in zip(order, levels, strict=True):
        sizes[axis] = level.int32(SIZE)
        places = _deeper(places, level, elements, name)
    if len(places) != values.size:
        raise ModelError(f"{count(int(values.size), 'sparse value')} for {count(len(places), 'place')}", where=name)
    found = {axis: places[:, k] for k, axis in enumerate(order)}
    for k, axis in enumerate(blocked):
        found[axis] = found[axis] * sizes[rank + k] + found[rank + k]
    index = tuple(found[axis] for axis in range(rank))
    if any(np.any((i < 0) | (i >= size)) for i, size in zip(index, shape, strict=True)):
        raise ModelError("a sparse value lies outside of its tensor", where=name)
    whole = np.zeros(shape, values.dtype)
    whole[index] = values
    return whole


def _deeper(places: Array, level: FlatTable, most: int, name: str) -> Array:
    """The places of one level of the tree -> those of the next, each with one more coordinate."""
    if level.int8(FORMAT) == COMPRESSED:
        segments, numbers = _numbers(level, SEGMENTS_TYPE, name), _numbers(level, INDICES_TYPE, name)
        counts = np.diff(segments)
        if len(counts) != len(places) or np.any(counts < 0) or counts.sum() != len(numbers):
            raise ModelError("the segments of a sparse dimension do not fit", where=name)
        return np.column_stack([np.repeat(places, counts, axis=0), numbers])
    size = level.int32(SIZE)
    if size < 0 or len(places) * size > most:
        raise ModelError("more sparse places than the tensor has elements", where=name)
    return np.column_stack([np.repeat(places, size, axis=0), np.tile(np.arange(size), len(places))])


def _numbers(level: FlatTable, kind: int, name: str) -> Array:
    form, table = NUMBERS.get(level.uint8(kind)), level.table(kind + 1)
    if form is None or table is None:
        raise ModelError("a compressed dimension without numbers", where=name)
    return table.array(0, form).astype(np.int64)
