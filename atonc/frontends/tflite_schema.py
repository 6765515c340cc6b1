"""The numbers of the TFLite schema that we use: field positions, element types, operator codes."""

from __future__ import annotations

ELEMENT_TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 10: "float64",
    12: "uint64", 15: "uint32", 16: "uint16", 17: "int4",
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
}  # fmt: skip


class ModelField:
    OPERATOR_CODES, SUBGRAPHS, BUFFERS = 1, 2, 4


class CodeField:
    OLD_BUILTIN, CUSTOM, VERSION, BUILTIN = 0, 1, 2, 3


class SubgraphField:
    TENSORS, INPUTS, OUTPUTS, OPERATORS = 0, 1, 2, 3


class TensorField:
    SHAPE, TYPE, BUFFER, NAME, QUANTISATION, IS_VARIABLE, SPARSITY = 0, 1, 2, 3, 4, 5, 6


class QuantField:
    SCALE, ZERO_POINT, AXIS = 2, 3, 6


class OperatorField:
    CODE, INPUTS, OUTPUTS, OPTIONS = 0, 1, 2, 4


class BufferField:
    DATA, OFFSET, SIZE = 0, 1, 2
