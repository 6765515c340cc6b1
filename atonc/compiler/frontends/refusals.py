"""Operators that will not be supported, and what to say about each kind."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.machine.base.errors import UnsupportedError

STATEFUL = (
    "LSTM", "GRU", "RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN", "SVDF", "CALL_ONCE",
)  # fmt: skip
CONTROL = ("If", "Loop", "Scan", "IF", "WHILE", "CALL", "SequenceMap")
DYNAMIC = ("DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "com.microsoft.DynamicQuantizeMatMul",
           "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeLSTM")  # fmt: skip
MOST_NAMED = 8
KNOWN = "weights, scales, zero points, shapes and bounds are known when the model is compiled"
FORMS = "operators, attributes and element types are those of docs/reference/ops.md"
CUT = "replace the operator or stop before it with --cut-output-tensors"


def advise(error: UnsupportedError) -> None:
    """Whatever was refused, it says by which rule and what to do."""
    late = "at run time" in error.what
    error.rule = error.rule or (KNOWN if late else FORMS)
    error.remedy = error.remedy or (f"make it a constant when the model is exported, or {CUT}" if late else CUT)


def refuse(kind: str, where: str, computed: Sequence[str] = ()) -> UnsupportedError:
    """The error for an operator that has no translation; `computed` are the tensors that it works on."""
    cut = f"{CUT} {','.join(computed)}" if 0 < len(computed) <= MOST_NAMED else CUT
    if kind in STATEFUL or kind.endswith("LSTM"):
        return UnsupportedError(
            f"{kind} keeps a state between its steps and is not supported",
            where=where,
            rule="operators are functions of their inputs",
            remedy="use convolutions over time instead, or cut the model before it",
        )
    if kind in CONTROL:
        return UnsupportedError(
            f"{kind} runs other graphs and is not supported",
            where=where,
            rule="the order of operators is fixed when the model is compiled",
            remedy="export the model without control flow",
        )
    if kind in DYNAMIC:
        return UnsupportedError(
            f"{kind} chooses scales at run time and is not supported",
            where=where,
            rule="the NPU needs scales that are known when the model is compiled",
            remedy="quantise statically (onnxruntime.quantization.quantize_static with QDQ and calibration data)",
        )
    if kind.startswith("CUSTOM"):
        return UnsupportedError(f"{kind} is an operator of the user and is not supported", where=where, remedy=cut)
    return UnsupportedError(f"{kind} is not supported", where=where, remedy=cut)
