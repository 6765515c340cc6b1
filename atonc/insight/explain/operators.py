"""The operator table: where each kind of operator runs, and which rules may send it to the CPU."""

from __future__ import annotations

from atonc.compiler.lower.registry import recipe_for
from atonc.compiler.ops import kinds
from atonc.compiler.passes.make_tables import UNARY
from atonc.compiler.select import rules
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule

NPU, TABLE, FOLDED, CPU, EDGE = "NPU", "NPU (function table)", "folded", "CPU", "input and output"
_FREE = ("reshape", "squeeze", "expand_dims", "flatten", "identity")
_FOLDED = ("batch_norm", "shape", "range", "fill")


@dataclass(frozen=True)
class OperatorInfo:
    kind: str
    where: str
    rules: tuple[Rule, ...]  # that may send it to the CPU, or that always do
    note: str = ""


def operator_table() -> tuple[OperatorInfo, ...]:
    return tuple(operator_info(kind) for kind in sorted(kinds()))


def operator_info(kind: str) -> OperatorInfo:
    recipe = recipe_for(kind)
    if kind in _FREE:
        return OperatorInfo(kind, NPU, (), "costs nothing: the bytes stay where they are")
    if recipe is not None:
        module = recipe.__module__.removeprefix("atonc.compiler.lower.")
        return OperatorInfo(kind, NPU, rules.MAY_REFUSE.get(kind) or rules.MAY_REFUSE[module])
    if kind in _FOLDED:
        return OperatorInfo(kind, FOLDED, (rules.NO_RECIPE,), "folded into its neighbours or into constants")
    if kind in rules.BY_NATURE:
        return OperatorInfo(kind, CPU, (rules.BY_NATURE[kind],))
    if kind in UNARY:
        found = rules.MAY_REFUSE["elementwise.function"]
        return OperatorInfo(kind, TABLE, found, "int8 in, int8 out; ReLU and clip are free behind a convolution")
    return OperatorInfo(kind, CPU, (rules.NO_RECIPE,))


# names of TFLite and ONNX that no spelling leads to ours
_ALIASES = {
    **dict.fromkeys(("gemm", "fullyconnected", "innerproduct"), "dense"),
    **dict.fromkeys(("depthwiseconv", "convinteger", "convolution"), "conv"),
    **dict.fromkeys(("convtranspose", "deconvolution"), "transpose_conv"),
    **dict.fromkeys(("globalaveragepool", "reducemean", "globalavgpool"), "mean"),
    **dict.fromkeys(("globalmaxpool",), "reduce_max"),
    **dict.fromkeys(("avgpool", "averagepool"), "average_pool"),
    **dict.fromkeys(("matmulinteger", "batchmatmul"), "matmul"),
    **{"and": "logical_and", "or": "logical_or", "not": "logical_not", "max": "maximum", "min": "minimum"},
    **{"greaterorequal": "greater_equal", "lessorequal": "less_equal", "unsqueeze": "expand_dims"},
    **{"batchtospacend": "batch_to_space", "spacetobatchnd": "space_to_batch", "broadcastto": "expand"},
    **{"reversev2": "reverse", "splitv": "split", "dropout": "identity", "qgemm": "dense", "reduceprod": "reduce_prod"},
    "sigmoid": "logistic",
    "swish": "silu",
    "concatenation": "concat",
    "resizebilinear": "resize_linear",
    "resizenearestneighbor": "resize_nearest",
    "upsample": "resize_nearest",
    "resize": "resize_linear",
    "batchnormalization": "batch_norm",
    "l2normalization": "l2_norm",
    **dict.fromkeys(("biasgelu", "fastgelu"), "gelu"),
    "fusedmatmul": "matmul",
    "quickgelu": "silu",
    **dict.fromkeys(("layernormalization", "skiplayernormalization"), "layer_norm"),
    **{f"{name}normalization": "rms_norm" for name in ("rms", "simplifiedlayer", "skipsimplifiedlayer")},
    "stridedslice": "slice",
    "where": "select",
    "selectv2": "select",
    "padv2": "pad",
    "mirrorpad": "pad",
    "reducesum": "sum",
    "argmaxv2": "arg_max",
}


# nodes that have no operator of their own
_COMPOSED = {
    TABLE: ("Celu", "IsInf", "IsNaN", "Selu", "Shrink", "Softsign", "ThresholdedRelu"),
    CPU: (
        "Attention", "CastLike", "CausalConvWithState", "CumSum", "Einsum", "FAKE_QUANT", "GRU", "GatherElements",
        "GlobalLpPool", "GroupNormalization", "Hardmax", "If", "InstanceNormalization", "LinearAttention", "Loop",
        "LpNormalization", "LpPool", "MeanVarianceNormalization", "Mod", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceSumSquare", "RotaryEmbedding", "Scan", "ScatterElements", "ScatterND", "SwiGLU",
        "Trilu", "UNIDIRECTIONAL_SEQUENCE_LSTM", "Xor", "com.microsoft.Attention",
        "com.microsoft.MultiHeadAttention",
    ),
    FOLDED: ("Constant", "ConstantOfShape", "EyeLike", "Size", "DENSIFY"),
    EDGE: ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
}  # fmt: skip
_COMPOSED_NOTES = {
    TABLE: "several operators; int8 in, int8 out they are one table",
    CPU: "several operators, of which each runs where it can",
    FOLDED: "a constant",
    EDGE: "a variable is a state of the program, kept in RAM between inferences",
}


def composed(name: str) -> OperatorInfo | None:
    """A node that has no operator of its own."""
    for where, names in _COMPOSED.items():
        if found := next((known for known in names if known.lower() == name.lower()), None):
            return OperatorInfo(found, where, (), _COMPOSED_NOTES[where])
    return None


def kind_named(name: str) -> str:
    """Our kind for a name as TFLite, ONNX or we write it; empty if there is none."""
    raw = name.lower().rsplit(".", 1)[-1].replace("_", "").replace("-", "")
    by_plain = {kind.replace("_", ""): kind for kind in kinds()}
    for plain in (raw, raw.removesuffix("2d").removeprefix("qlinear").removesuffix("linear")):
        if found := by_plain.get(plain) or _ALIASES.get(plain):
            return found
    return ""


def source_operators() -> dict[str, tuple[str, ...]]:
    """What the readers take, by format, as the formats call it."""
    from atonc.compiler.frontends import onnx_builder, onnx_qdq, tflite, tflite_ops

    assert all((onnx_qdq, tflite))  # importing them registers their operators
    tflite_names = {*tflite_ops.TRANSLATORS, *tflite.VARIABLE_CODES, "DENSIFY", "FAKE_QUANT"}
    return {"TFLite": tuple(sorted(tflite_names)), "ONNX": tuple(sorted(onnx_builder.TRANSLATORS))}
