"""Other people's kernels as references: TFLite's three kernel sets, onnxruntime without and with optimisation.

Both packages are optional; without them a ToolError says what to install. Odd models make them abort the whole process:
whoever cannot afford that asks `reference_process`. Where TFLite's kernels (LiteRT 2.3) are no reference, each case was
found by a model that they get wrong; `tests/compare/test_wrong_kernels.py` shows every one of them, so that a release
that mends it is noticed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.frontends.read import is_tflite
from atonc.compiler.frontends.tflite import operator_name, unique_name
from atonc.compiler.frontends.tflite_file import (
    ELEMENT_TYPES,
    CodeField,
    FlatTable,
    ModelField,
    OperatorField,
    QuantField,
    SubgraphField,
    TensorField,
    root,
)
from atonc.compiler.ir import Array, Graph, Op
from atonc.machine.base.errors import InputError, not_loaded, plain

# operators that the reference set computes wrongly, and its siblings do not
MISCOUNTED = {"SUM": "adds int8 values as if they were unsigned"}
MISREAD = (
    "TRANSPOSE_CONV of TFLite's kernels reads the int32 bias of a 16-bit layer as numbers of 64 bits, two biases as "
    "one, so the reference is exact arithmetic of the graph"
)
TABLE_END = "takes e^x from a table that ends at e^-10: each of its {count} inputs may be 2 LSB (int16) off"
_BIAS = 3  # inputs of TRANSPOSE_CONV: shape, weights, features, bias


def miscounted(data: bytes) -> str:
    """What the reference set gets wrong in a model, or nothing."""
    names = map(operator_name, root(data, b"TFL3").tables(ModelField.OPERATOR_CODES))
    wrong = next((name for name in names if name in MISCOUNTED), "")
    return f"{wrong} of TFLite's reference kernels {MISCOUNTED[wrong]}, so they are no reference here" if wrong else ""


def misread(data: bytes) -> str:
    """What no set gets right, or nothing."""
    model = root(data, b"TFL3")
    names = [operator_name(code) for code in model.tables(ModelField.OPERATOR_CODES)]
    if "TRANSPOSE_CONV" not in names:
        return ""
    types = (types for subgraph in model.tables(ModelField.SUBGRAPHS) for types in _types(subgraph, names))
    return MISREAD if ("int16", "int32") in types else ""


def _types(subgraph: FlatTable, names: list[str]) -> Iterator[tuple[str, str]]:
    """Finds the types of features and bias of every transposed convolution that has one."""
    tensors = subgraph.tables(SubgraphField.TENSORS)
    for op in subgraph.tables(SubgraphField.OPERATORS):
        inputs = op.array(OperatorField.INPUTS, "<i4").tolist()
        if names[op.uint32(OperatorField.CODE)] == "TRANSPOSE_CONV" and len(inputs) > _BIAS and inputs[_BIAS] >= 0:
            features, bias = (ELEMENT_TYPES.get(tensors[k].int8(TensorField.TYPE), "") for k in inputs[_BIAS - 1 :])
            yield features, bias


def softmax_codes(source: Graph, op: Op) -> int:
    """How many codes a softmax of 16 bits may be off in TFLite's kernels."""
    y = source.tensors[op.outputs[0]]
    if source.source != "tflite" or op.kind != "softmax" or y.dtype != "int16":
        return 0
    return 2 * y.shape[int(op.attrs.get("axis", -1))]


REFERENCE, OPTIMISED, XNNPACK = "reference", "optimised", "xnnpack"
_RESOLVERS = {REFERENCE: "BUILTIN_REF", OPTIMISED: "BUILTIN_WITHOUT_DEFAULT_DELEGATES", XNNPACK: "BUILTIN"}
TFLITE_SETS, ONNX_SETS = (REFERENCE, OPTIMISED, XNNPACK), (REFERENCE, OPTIMISED)  # the yardstick first
_LEVELS = {REFERENCE: ("ORT_DISABLE_ALL",), OPTIMISED: ("ORT_ENABLE_ALL", "ORT_ENABLE_BASIC")}

Values = Mapping[str, Array] | Sequence[Array]
Wanted = Sequence[str] | None  # None: the outputs of the model
ALL: tuple[str, ...] = ("*",)
Kernels = Callable[..., dict[str, Array]]  # of values, and whether variables are kept from the run before


def kernel_sets(path: Path) -> tuple[tuple[str, ...], str]:
    """Those that can be trusted with a model, the yardstick first; and what to say if it is not the usual one. None
    where all of them compute something else than the model says."""
    data = limits.read_bytes(path)
    if not is_tflite(path, data):
        return ONNX_SETS, ""
    if wrong := misread(data):
        return (), wrong
    wrong = miscounted(data)
    return tuple(kernels for kernels in TFLITE_SETS if kernels != REFERENCE or not wrong), wrong


def open_kernels(path: Path, kernels: str = REFERENCE, tensors: Wanted = None) -> Kernels:
    """A model ready to run again and again: input values by name (or in order) -> outputs by name, or those of the
    wanted tensors that can be seen."""
    opened = _open_tflite if is_tflite(path, limits.read_bytes(path)) else _open_onnx
    return opened(path, kernels, tensors)


def run_tflite(path: Path, inputs: Values, kernels: str = "", all_tensors: bool = False) -> dict[str, Array]:
    """Outputs (or every tensor that the kernels leave behind) by tensor name; by the yardstick, unless told."""
    return _open_tflite(path, kernels or (kernel_sets(path)[0] or TFLITE_SETS)[0], ALL if all_tensors else None)(inputs)


def run_onnx(path: Path, inputs: Mapping[str, Array], all_tensors: bool = False) -> dict[str, Array]:
    """Outputs (or every named value) of onnxruntime with graph optimisation off."""
    return _open_onnx(path, REFERENCE, ALL if all_tensors else None)(inputs)


# ------------------------------------------------------------------------------------------------------------- TFLite


def _open_tflite(path: Path, kernels: str, tensors: Wanted) -> Kernels:
    interpreter = _interpreter(path, kernels, tensors is not None)
    listed = sorted((d["index"], d["name"]) for d in interpreter.get_tensor_details())
    taken = set[str]()  # as our front end calls the tensors: files may give several tensors one name
    names, wanted_names = {i: unique_name(name, i, taken) for i, name in listed}, frozenset(tensors or ())
    codes = root(limits.read_bytes(path), b"TFL3").tables(ModelField.OPERATOR_CODES)
    keeps = "CALL_ONCE" in map(operator_name, codes)

    def run(inputs: Values, keep: bool = False) -> dict[str, Array]:
        nonlocal interpreter
        if keeps and not keep:  # nothing else makes CALL_ONCE run again
            interpreter = _interpreter(path, kernels, tensors is not None)
        takes = {d["index"]: d["dtype"] for d in interpreter.get_input_details()}  # a file may list one input twice
        given = [inputs[names[i]] for i in takes] if isinstance(inputs, Mapping) else inputs
        for (index, dtype), value in zip(takes.items(), given, strict=True):
            interpreter.set_tensor(index, np.ascontiguousarray(value.astype(dtype)).reshape(value.shape))
        if not keep:
            interpreter.reset_all_variables()  # a run of ours begins without a state
        try:
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise _cannot_run(path, error) from error
        listed = interpreter.get_output_details() if tensors is None else interpreter.get_tensor_details()
        known = [d["index"] for d in listed if d["index"] in names]  # kernels add scratch tensors
        asked = [index for index in known if tensors in (None, ALL) or names[index] in wanted_names]
        found = {names[index]: _get(interpreter, index) for index in asked}
        return {name: value for name, value in found.items() if value is not None}

    return run


def _content(path: Path, kernels: str) -> bytes:
    """The model, with two harmless mistakes of files mended: the axis of biases, which some converters copy from their
    weights; for the reference kernels the version of TILE, whose one kernel they register too low."""
    data = bytearray(limits.read_bytes(path))
    model = root(bytes(data), b"TFL3")
    for subgraph in model.tables(ModelField.SUBGRAPHS):
        for tensor in subgraph.tables(SubgraphField.TENSORS):
            quant = tensor.table(TensorField.QUANTISATION)
            if quant is not None and quant.int32(QuantField.AXIS) and tensor.array(TensorField.SHAPE, "<i4").size == 1:
                struct.pack_into("<i", data, quant.position_of(QuantField.AXIS), 0)
    for code in model.tables(ModelField.OPERATOR_CODES) if kernels == REFERENCE else ():
        if operator_name(code) == "TILE" and code.int32(CodeField.VERSION, 1) > 2:
            struct.pack_into("<i", data, code.position_of(CodeField.VERSION), 2)
    return bytes(data)


def _interpreter(path: Path, kernels: str, all_tensors: bool) -> Any:
    try:
        from ai_edge_litert import interpreter as litert
    except ImportError as error:
        raise not_loaded(error, "ai-edge-litert", "ai-edge-litert") from error
    resolver = getattr(litert.OpResolverType, _RESOLVERS[kernels])
    try:
        made = litert.Interpreter(
            model_content=_content(path, kernels),
            num_threads=1,
            experimental_op_resolver_type=resolver,
            experimental_preserve_all_tensors=all_tensors,
        )
        made.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise _cannot_run(path, error) from error
    return made


def _cannot_run(path: Path, error: Exception) -> InputError:
    """Its messages print scales as integers, which means nothing."""
    text = re.sub(r" \(-?\d+ != -?\d+\)", "", str(error)[:300])
    return InputError(f"TFLite cannot run it: {text}", where=str(path))


def _get(interpreter: Any, index: int) -> Array | None:
    try:
        return np.array(interpreter.get_tensor(index))
    except ValueError:  # scratch tensors hold nothing
        return None


# --------------------------------------------------------------------------------------------------------------- ONNX


def _open_onnx(path: Path, kernels: str, tensors: Wanted) -> Kernels:
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise not_loaded(error, "onnx or onnxruntime", "onnx onnxruntime") from error
    model = onnx.ModelProto.FromString(model_bytes(path))
    for output in model.graph.output:  # they have the types that their nodes give them, whatever the file says
        output.ClearField("type")
    asked = None if tensors is None or tensors == ALL else frozenset(tensors)  # and not the outputs besides
    if tensors is not None:
        names = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
        wanted = list(names) if tensors == ALL else [name for name in names if plain(name) in set(tensors)]
        listed = {output.name for output in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in listed)
    session = _session(path, model.SerializeToString(), _LEVELS[kernels])
    names_in, names_out = ([edge.name for edge in side] for side in (session.get_inputs(), session.get_outputs()))

    def run(inputs: Values, keep: bool = False) -> dict[str, Array]:  # of ONNX nobody but the caller keeps a state
        ours = [plain(name) for name in names_in]  # as our front end calls them
        given = inputs if isinstance(inputs, Mapping) else dict(zip(ours, inputs, strict=True))
        try:
            values = session.run(names_out, {name: given[mine] for name, mine in zip(names_in, ours, strict=True)})
        except Exception as error:
            raise InputError(f"onnxruntime cannot run it: {str(error)[:300]}", where=str(path)) from error
        found = dict(zip(map(plain, names_out), values, strict=True))
        return found if asked is None else {name: value for name, value in found.items() if name in asked}

    return run


def _session(path: Path, model: bytes, levels: Sequence[str]) -> Any:
    """At the first level of optimisation at which onnxruntime does not spoil the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    for level in levels:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        try:
            return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            if level == levels[-1]:
                raise InputError(f"onnxruntime cannot run it: {str(error)[:300]}", where=str(path)) from error
    raise AssertionError("no level of optimisation")
